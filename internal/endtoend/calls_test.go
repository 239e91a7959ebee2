package endtoend_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// callsFile is the list of what each function calls, by IAM action. The templates give each role what stands there, what AWS itself
// does under the role (docs/functions.md), and nothing else.
const callsFile = "../functions/calls.json"

// callList is, by handler and by IAM action, the kinds of resources that are named.
type callList map[string]map[string][]string

// callBook collects what the functions of all scenarios called.
type callBook struct {
	mu    sync.Mutex
	runs  int
	calls callList
}

func newCallBook() *callBook { return &callBook{calls: callList{}} }

func (b *callBook) ran() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.runs++
}

func (b *callBook) add(handler, call, resource string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.calls[handler] == nil {
		b.calls[handler] = map[string][]string{}
	}
	list := b.calls[handler][call]
	if at, found := slices.BinarySearch(list, resource); !found {
		b.calls[handler][call] = slices.Insert(list, at, resource)
	}
}

// check holds the list against the calls: what was called and is not listed would be denied, and what is listed and was never
// called is a permission too many. The latter is asked only where all scenarios ran to their end.
func (b *callBook) check(t *testing.T, scenarios int) {
	t.Helper()
	complete := b.runs == scenarios
	if *update {
		if !complete || t.Failed() {
			t.Fatalf("%d of %d scenarios ran to their end, failed: %v; %s is left as it is", b.runs, scenarios, t.Failed(), callsFile)
		}
		text, err := json.MarshalIndent(b.calls, "", "\t")
		fatal(t, err)
		fatal(t, os.WriteFile(callsFile, append(text, '\n'), 0o644))
	}
	text, err := os.ReadFile(callsFile)
	fatal(t, err)
	var listed callList
	fatal(t, json.Unmarshal(text, &listed))
	want, got := listed.lines(), b.calls.lines()
	if !complete {
		want = slices.DeleteFunc(want, func(line string) bool { return !slices.Contains(got, line) })
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the functions call is not what %s lists (-listed +called). Where that is meant: go test ./internal/endtoend -update\n%s", callsFile, diff)
	}
	for _, line := range got {
		if strings.Contains(line, ":Scan ") {
			t.Errorf("a function scans: %s", line)
		}
	}
}

// lines are the list in one line a resource, in order.
func (l callList) lines() []string {
	lines := []string{}
	for handler, calls := range l {
		for call, resources := range calls {
			for _, r := range resources {
				lines = append(lines, handler+" "+call+" "+r)
			}
		}
	}
	slices.Sort(lines)
	return lines
}
