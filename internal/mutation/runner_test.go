package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// toy is a module of one package whose tests look at Add and not at Double, and of one whose tests fail by themselves.
func toy(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":     "module toy\n\ngo 1.26\n",
		"sum/sum.go": "package sum\n\nfunc Add(a, b int) int { return a + b }\n\nfunc Double(a int) int { return a + a }\n",
		"sum/sum_test.go": `package sum

import "testing"

func TestAdd(t *testing.T) {
	t.Run("small", func(t *testing.T) {
		if Add(1, 2) != 3 {
			t.Error("1 + 2 is not 3")
		}
	})
}

func TestDouble(t *testing.T) {
	_ = Double(3)
}
`,
		"red/red_test.go":     "package red\n\nimport \"testing\"\n\nfunc TestRed(t *testing.T) { t.Error(\"red anyway\") }\n",
		"empty/empty_test.go": "package empty\n\nimport \"testing\"\n\nfunc TestSkipped(t *testing.T) { t.Skip(\"not here\") }\n",
	} {
		at := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func broken(name, old, new string, tests ...string) mutation {
	if len(tests) == 0 {
		tests = []string{"./sum"}
	}
	return mutation{name: name, file: "sum/sum.go", old: old, new: new, breaks: "Nothing.", tests: packages(tests...)}
}

// TestVerdicts tries mutations of each kind for real, and leaves the code as it was.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	same := broken("same", "a + a", "2 * a")
	same.equivalent = "it is the same number"
	different := broken("different", "a + b", "a - b")
	different.equivalent = "it is not"
	skipped := broken("looked away", "a + b", "a - b")
	skipped.tests[0].skip = "^TestAdd$"
	nested := broken("nothing nested runs", "a + b", "a - b")
	nested.tests[0].run = "^TestAdd$/^large$"
	chosen := broken("chosen", "a + b", "a - b")
	chosen.tests[0].run = "^TestAdd$/^small$"
	tests := []struct {
		mutation
		verdict verdict
		by, why string // parts of them
		timeout bool
	}{
		{broken("noticed", "a + b", "a - b"), killed, "sum TestAdd/small", "", false},
		{broken("noticed by a panic", "{ return a + b }", "{ go func() { panic(a) }(); select {} }"), killed, "sum panic: 1", "", false},
		{broken("hung", "{ return a + b }", "{ for { a++ } }"), killed, "sum ", "", true},
		{broken("unnoticed", "a + a", "a"), survived, "", "", false},
		{skipped, survived, "", "", false},
		{same, equivalent, "", "", false},
		{different, faulty, "", "said to be equivalent", false},
		{broken("no code", "a + a", "a + c"), faulty, "", "undefined: c", false},
		{broken("not there", "a * b", "a"), faulty, "", "0 times and not once", false},
		{broken("not alone", "return a +", "return a -"), faulty, "", "2 times and not once", false},
		{broken("red anyway", "a + b", "a - b", "./red"), faulty, "", "fails without any change", false},
		{broken("red once more", "a + b", "a - b", "./red"), faulty, "", "fails without any change, as said above", false},
		{broken("nothing runs", "a + b", "a - b", "./empty"), faulty, "", "no test that passes", false},
		{nested, faulty, "", "no test that passes", false},
		{chosen, killed, "sum TestAdd/small", "", false},
		{broken("second suite", "a + b", "a - b", "./sum", "./red"), killed, "sum TestAdd", "", false},
	}
	root := toy(t)
	before, err := os.ReadFile(filepath.Join(root, "sum/sum.go"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRunner(root, t.TempDir(), time.Second)
	for _, tt := range tests {
		got := r.try(t.Context(), tt.mutation)
		if got.verdict != tt.verdict || got.timeout != tt.timeout || !strings.HasPrefix(got.by, tt.by) || (got.by == "") != (tt.by == "") || !strings.Contains(got.why, tt.why) {
			t.Errorf("%s: got %s by %q, timeout %v, why %q; want %s by %q, timeout %v, why %q",
				tt.name, got.verdict, got.by, got.timeout, got.why, tt.verdict, tt.by, tt.timeout, tt.why)
		}
	}
	after, err := os.ReadFile(filepath.Join(root, "sum/sum.go"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Errorf("the code was changed:\n%s", diff)
	}
}

func TestReports(t *testing.T) {
	t.Parallel()
	m := broken("half", "a", "b")
	results := []result{
		{mutation: m, verdict: killed, by: "sum TestAdd", took: time.Second},
		{mutation: m, verdict: killed, by: "sum TestAdd", timeout: true, took: time.Minute},
		{mutation: m, verdict: survived, took: 2 * time.Second},
		{mutation: m, verdict: equivalent, took: time.Second},
		{mutation: m, verdict: faulty, why: "no code\nat all", took: time.Second},
	}
	results[3].mutation.equivalent = "the same"
	print := func(rep report) {
		var s score
		for i, r := range results {
			rep.begin(i+1, len(results), r.mutation)
			rep.end(r)
			s.add(r)
		}
		rep.close(s, 65*time.Second)
	}
	var text bytes.Buffer
	print(lines{&text})
	want := `1/5  sum/sum.go: half  killed by sum TestAdd (1s)
2/5  sum/sum.go: half  killed by timeout of sum TestAdd (1m0s)
3/5  sum/sum.go: half  SURVIVED (2s)
    No test notices, though: Nothing.
    Tried: ./sum
4/5  sum/sum.go: half  equivalent (1s): the same
5/5  sum/sum.go: half  FAULT (1s): no code
    at all

5 mutants: 2 killed (1 by timeout), 1 survived, 1 equivalent, 1 faults; score 66.7% in 1m5s
`
	if diff := cmp.Diff(want, text.String()); diff != "" {
		t.Error(diff)
	}

	var program bytes.Buffer
	print(documents{json.NewEncoder(&program)})
	var got []map[string]any
	for d := json.NewDecoder(&program); ; {
		var doc map[string]any
		if err := d.Decode(&doc); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		got = append(got, doc)
	}
	if len(got) != 6 || got[2]["verdict"] != "survived" || got[1]["timeout"] != true || got[5]["percent"] != 200.0/3 {
		t.Errorf("got %v", got)
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	all := []mutation{broken("one", "a", "b"), broken("two", "a", "b")}
	tests := map[string]struct {
		args      []string
		code      int
		out, errs string
	}{
		"all are listed":  {[]string{"-list"}, 0, "sum/sum.go: one\n    Nothing.\nsum/sum.go: two\n    Nothing.\n", ""},
		"one is chosen":   {[]string{"-list", "-run", "two$"}, 0, "sum/sum.go: two\n    Nothing.\n", ""},
		"none is chosen":  {[]string{"-run", "three"}, 2, "", "mutation: choose mutations: none matches \"three\". Try: -list\n"},
		"no such pattern": {[]string{"-run", "("}, 2, "", "mutation: choose mutations: error parsing regexp: missing closing ): `(`\n"},
	}
	for name, tt := range tests {
		var out, errs bytes.Buffer
		if code := run(t.Context(), tt.args, all, &out, &errs); code != tt.code || out.String() != tt.out || errs.String() != tt.errs {
			t.Errorf("%s: got %d, %q, %q", name, code, out.String(), errs.String())
		}
	}
}
