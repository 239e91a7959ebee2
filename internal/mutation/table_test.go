package main

import (
	"cmp"
	"errors"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTable keeps the table from rotting: what each mutation changes stands in its file exactly once, the changed file can be parsed and
// is other code, and the tests that have to notice are there.
func TestTable(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	seen, originals := make(map[string]bool), make(map[string]string)
	for _, m := range table() {
		if seen[m.where()] {
			t.Errorf("%s: is there twice", m.where())
		}
		seen[m.where()] = true
		if !strings.HasSuffix(m.breaks, ".") || strings.Contains(m.breaks, ". ") {
			t.Errorf("%s: what it breaks is not one sentence: %q", m.where(), m.breaks)
		}
		if len(m.tests) == 0 {
			t.Errorf("%s: no tests have to notice", m.where())
		}
		before, after, err := m.apply(root)
		if err != nil {
			t.Errorf("%s: %v", m.where(), err)
			continue
		}
		if _, there := originals[m.file]; !there {
			originals[m.file] = tokens(before)
		}
		if _, err := parser.ParseFile(token.NewFileSet(), "", after, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s: parse the mutant: %v", m.where(), err)
		}
		if originals[m.file] == tokens(after) {
			t.Errorf("%s: the mutant is the same code", m.where())
		}
	}
}

// tokens are those of Go source: all of it but blanks, ends of lines and comments.
func tokens(source string) string {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(source)), []byte(source), nil, 0)
	var b strings.Builder
	for {
		_, kind, text := s.Scan()
		if kind == token.EOF {
			return b.String()
		}
		if kind != token.SEMICOLON { // most of them are ends of lines
			b.WriteString(kind.String() + " " + text + "\n")
		}
	}
}

// TestSuites: a suite whose package, or whose left-out tests, are gone would notice less than it seems.
func TestSuites(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	suites, tests := make(map[suite]bool), make(map[string][]string)
	for _, m := range table() {
		for _, s := range m.tests {
			suites[s] = true
		}
	}
	for s := range suites {
		names, there := tests[s.pkg]
		if !there {
			names = testNames(t, filepath.Join(root, s.pkg))
			tests[s.pkg] = names
		}
		if len(names) == 0 {
			t.Errorf("%s: it has no tests", s)
		}
		top, _, _ := strings.Cut(s.run, "/") // what is nested, only a run can tell
		run, err1 := regexp.Compile(top)
		skip, err2 := regexp.Compile(cmp.Or(s.skip, "^$"))
		if err := errors.Join(err1, err2); err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !run.MatchString(name) || skip.MatchString(name) })
		if len(left) == 0 || s.skip != "" && len(left) == len(names) {
			t.Errorf("%s: of %d tests it runs %d", s, len(names), len(left))
		}
	}
}

// testNames are the tests of a package's folder.
func testNames(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// TestEveryRoom: no room that money walks through is left out.
func TestEveryRoom(t *testing.T) {
	t.Parallel()
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	count := make(map[string]int)
	for _, m := range table() {
		count[path.Dir(m.file)]++
	}
	for _, room := range []string{
		"internal/metering", "internal/pipeline", "internal/marketplace", "internal/store/dynamodb", "internal/store/sqlite",
		"internal/queue/sqs", "internal/queue/memory", "internal/lifecycle", "internal/registration", "usage", "internal/importer",
		"internal/intake", "internal/usagefile", "internal/ledger", "internal/functions", "internal/lambdaevent", "internal/node",
		"internal/telemetry",
	} {
		if _, err := os.Stat(filepath.Join(root, room)); err != nil {
			t.Errorf("%s: %v", room, err)
		}
		if count[room] == 0 {
			t.Errorf("%s: nothing is broken there", room)
		}
	}
}
