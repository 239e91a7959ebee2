package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// verdict is what became of a mutation.
type verdict string

// The verdicts. A fault is one of the table or of the tests themselves: it says nothing about what the tests notice.
const (
	killed     verdict = "killed"
	survived   verdict = "survived"
	equivalent verdict = "equivalent"
	faulty     verdict = "fault"
)

// result is the verdict on one mutation and what it rests on.
type result struct {
	mutation
	verdict verdict
	by      string // the package and the first test that failed, or how the tests ended instead
	timeout bool   // they did not come to an end
	why     string // of a fault
	took    time.Duration
}

// runner tries mutations. Nothing below root is written: the go command is told to read the changed file in place of the one that
// stands there (go help build, -overlay).
type runner struct {
	root    string
	temp    string        // for the changed file
	least   time.Duration // how long tests may take at least before they count as hung
	now     func() time.Time
	checked map[suite]*checked
}

// checked is what is known of a suite without any change.
type checked struct {
	limit time.Duration // how long its tests may take
	args  []string      // for its test binary
	err   error         // it fails all by itself
	told  bool          // this was said
}

// slower is how much longer tests may take with a mutation than without before they count as hung.
const slower = 5

func newRunner(root, temp string, least time.Duration) *runner {
	return &runner{root: root, temp: temp, least: least, now: time.Now, checked: make(map[suite]*checked)}
}

// try changes the code and runs the mutation's suites one after the other until one fails.
func (r *runner) try(ctx context.Context, m mutation) result {
	start := r.now()
	res := result{mutation: m}
	if err := r.judge(ctx, &res); err != nil {
		res.verdict, res.why = faulty, err.Error()
	}
	res.took = r.now().Sub(start)
	return res
}

func (r *runner) judge(ctx context.Context, res *result) error {
	overlay, err := r.overlay(res.mutation)
	if err != nil {
		return err
	}
	for _, s := range res.tests {
		c := r.check(ctx, s)
		if c.err != nil && c.told {
			return fmt.Errorf("%s fails without any change, as said above", s)
		}
		if c.err != nil {
			c.told = true
			return fmt.Errorf("%s fails without any change, which is to be mended first: %w", s, c.err)
		}
		found, err := r.test(ctx, s, c, "-overlay", overlay)
		if err != nil {
			return err
		}
		if !found.failed {
			continue
		}
		by := strings.TrimPrefix(s.pkg, "./") + " " + found.first
		if res.equivalent != "" {
			return fmt.Errorf("it is said to be equivalent, and yet %s fails", by)
		}
		res.verdict, res.by, res.timeout = killed, by, found.timeout
		return nil
	}
	res.verdict = survived
	if res.equivalent != "" {
		res.verdict = equivalent
	}
	return nil
}

// overlay writes the changed file, and the list of one that puts it in the place of the original.
func (r *runner) overlay(m mutation) (string, error) {
	_, after, err := m.apply(r.root)
	if err != nil {
		return "", err
	}
	changed, list := filepath.Join(r.temp, "mutant.go"), filepath.Join(r.temp, "overlay.json")
	text, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(r.root, filepath.FromSlash(m.file)): changed},
	})
	if err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	for name, content := range map[string][]byte{changed: []byte(after), list: text} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return "", fmt.Errorf("write the overlay: %w", err)
		}
	}
	return list, nil
}

// check runs a suite without any change, once: tests that fail anyway would seem to notice everything.
func (r *runner) check(ctx context.Context, s suite) *checked {
	if c := r.checked[s]; c != nil {
		return c
	}
	c := &checked{limit: time.Hour}
	r.checked[s] = c
	deps, err := r.run(ctx, "list", "-test", "-deps", s.pkg)
	if err != nil {
		c.err = fmt.Errorf("%w\n%s", err, deps)
		return c
	}
	if slices.Contains(strings.Split(deps, "\n"), "pgregory.net/rapid") {
		c.args = []string{"-args", "-rapid.nofailfile"} // which would be written beside the tests, and played again by the next run
	}
	found, err := r.test(ctx, s, c)
	if err == nil && found.failed {
		err = fmt.Errorf("%s\n%s", found.first, found.output)
	}
	if err == nil && found.deepest < strings.Count(s.run, "/") {
		err = errors.New("it holds no test that passes")
	}
	c.err, c.limit = err, max(r.least, slower*found.took)
	return c
}
