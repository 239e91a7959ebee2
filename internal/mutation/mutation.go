package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// mutation is one change of the code for the worse, as a careless colleague would make it.
type mutation struct {
	name   string // what it does to the code, in a few words; unique
	file   string // below the module's root, with slashes
	old    string // stands in the file exactly once
	new    string // what takes its place
	breaks string // what that does to money: one sentence
	tests  []suite
	// equivalent says why no test can tell the change from the original. Such a mutation is tried all the same, and does not count.
	equivalent string
}

// suite is the tests of a package that have to notice, or some of them.
type suite struct {
	pkg  string // as go test takes it: ./internal/metering
	run  string // the tests that are run, as -run of go test takes them; empty: all
	skip string // tests that are left out because they take long, as -skip of go test takes them
}

func (s suite) String() string {
	text := s.pkg
	if s.run != "" {
		text += " -run " + s.run
	}
	if s.skip != "" {
		text += " -skip " + s.skip
	}
	return text
}

// in places mutations in a file. Those that name no tests of their own have to be noticed by these.
func in(file string, tests []suite, list ...mutation) []mutation {
	for i := range list {
		list[i].file = file
		if list[i].tests == nil {
			list[i].tests = tests
		}
	}
	return list
}

// packages are suites of all tests of each package.
func packages(names ...string) []suite {
	suites := make([]suite, len(names))
	for i, name := range names {
		suites[i] = suite{pkg: name}
	}
	return suites
}

// quick are the tests of a package, first without those that take most of its time.
func quick(pkg string, slow ...string) []suite {
	return []suite{{pkg: pkg, skip: "^(" + strings.Join(slow, "|") + ")$"}, {pkg: pkg}}
}

// where is how the mutation is found and chosen.
func (m mutation) where() string { return m.file + ": " + m.name }

// apply reads the mutation's file below root, and returns its text as it stands and as it is changed.
func (m mutation) apply(root string) (before, after string, err error) {
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return "", "", fmt.Errorf("read the file to change: %w", err)
	}
	before = string(text)
	if n := strings.Count(before, m.old); n != 1 {
		return "", "", fmt.Errorf("change %s: what is to be changed stands there %d times and not once: %q", m.file, n, m.old)
	}
	return before, strings.Replace(before, m.old, m.new, 1), nil
}
