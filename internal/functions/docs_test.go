package functions_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/functions"
)

// The tables of docs/functions.md are those of the code.
func TestTheDocsAreTheCode(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/functions.md")
	if err != nil {
		t.Fatal(err)
	}
	var handlers, variables []string
	readers := map[string][]string{}
	for _, f := range functions.All() {
		by := map[functions.Event]string{functions.Schedule: "a schedule", functions.Queue: "queues", functions.Request: "API Gateway"}[f.Event]
		handlers = append(handlers, fmt.Sprintf("| `%s` | %s | %s |", f.Handler, by, f.Purpose))
		for _, v := range f.Variables {
			readers[v.Name] = append(readers[v.Name], f.Handler)
		}
	}
	for _, f := range functions.All() {
		for _, v := range f.Variables {
			value, by := v.Want, strings.Join(readers[v.Name], ", ")
			if v.Default != "" {
				value += "; " + v.Default + " if it is not set"
			}
			if v.Reserved {
				value += "; set by Lambda"
			}
			if len(readers[v.Name]) == len(handlers) {
				by = "all"
			}
			row := fmt.Sprintf("| `%s` | %s | %s | %s |", v.Name, v.Meaning, value, by)
			if !slices.Contains(variables, row) {
				variables = append(variables, row)
			}
		}
	}
	for head, want := range map[string][]string{
		"| handler | called by | what it does |":   handlers,
		"| variable | meaning | value | read by |": variables,
	} {
		if diff := cmp.Diff(want, table(string(text), head)); diff != "" {
			t.Errorf("docs/functions.md, under %s; want\n%s\n%s", head, strings.Join(want, "\n"), diff)
		}
	}
}

// table are the rows below a head.
func table(text, head string) []string {
	_, after, _ := strings.Cut(text, head+"\n")
	var rows []string
	for line := range strings.Lines(after) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			break
		}
		if !strings.HasPrefix(line, "|---") {
			rows = append(rows, line)
		}
	}
	return rows
}
