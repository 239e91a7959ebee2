package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// building is how long the go command may take beside the tests themselves.
const building = 10 * time.Minute

// finding is how a suite's tests ended.
type finding struct {
	failed  bool
	first   string // the test that failed first, or how the tests ended where none did
	deepest int    // how deep the tests that passed are nested; -1 where none did
	timeout bool
	took    time.Duration // the tests, without building them
	output  string        // of what failed
}

// run runs the go command below root.
func (r *runner) run(ctx context.Context, args ...string) (string, error) {
	cmd := r.command(ctx, args...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *runner) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = r.root
	cmd.Env = append(cmd.Environ(), "CI=true")                            // so that a missing stand-in fails tests: those that are skipped notice nothing
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it takes the tests with it
	cmd.WaitDelay = time.Minute
	return cmd
}

// test runs a suite with further flags of go test. The error says that there is nothing to learn from the run: the code could not be built,
// which no test has noticed then, or the run was ended from outside. Vet is left out: it tells nothing about the tests, and takes as long.
func (r *runner) test(ctx context.Context, s suite, c *checked, flags ...string) (finding, error) {
	args := append([]string{"test", "-json", "-count=1", "-failfast", "-vet=off", "-timeout", c.limit.String()}, flags...)
	if s.run != "" {
		args = append(args, "-run", s.run)
	}
	if s.skip != "" {
		args = append(args, "-skip", s.skip)
	}
	args = append(append(args, s.pkg), c.args...)
	ctx, cancel := context.WithTimeout(ctx, c.limit+building)
	defer cancel()
	cmd := r.command(ctx, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, failed := cmd.Output()
	if err := ctx.Err(); err != nil {
		return finding{}, fmt.Errorf("run %s: %w", s, err)
	}
	f, err := read(out)
	switch {
	case err != nil:
		return f, fmt.Errorf("run %s: %w\n%s", s, err, stderr.Bytes())
	case failed != nil && !f.failed:
		return f, fmt.Errorf("run %s: %w\n%s", s, failed, stderr.Bytes())
	}
	return f, nil
}

// event is a line that go test -json prints (go doc test2json), as far as it is needed.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	Elapsed     float64 // seconds
	FailedBuild string
}

// read reads what go test -json has printed of one package.
func read(out []byte) (finding, error) {
	f := finding{deepest: -1}
	var panicked string
	ended := false
	output := make(map[string]*strings.Builder) // by test; that of the package under no name
	d := json.NewDecoder(bytes.NewReader(out))
	for d.More() {
		var e event
		if err := d.Decode(&e); err != nil {
			return f, fmt.Errorf("read what the tests say: %w", err)
		}
		switch e.Action {
		case "output", "build-output":
			if output[e.Test] == nil {
				output[e.Test] = new(strings.Builder)
			}
			output[e.Test].WriteString(e.Output)
			if strings.HasPrefix(e.Output, "panic: ") || strings.HasPrefix(e.Output, "fatal error: ") {
				panicked = strings.TrimSpace(e.Output)
				f.timeout = f.timeout || strings.HasPrefix(e.Output, "panic: test timed out after ")
			}
		case "pass":
			if e.Test != "" {
				f.deepest = max(f.deepest, strings.Count(e.Test, "/"))
			}
		case "fail":
			f.failed = true
			if e.FailedBuild != "" {
				return f, fmt.Errorf("it cannot be built:\n%s", output[""])
			}
			if f.first == "" && e.Test != "" { // of nested ones the inner one ends first
				f.first, f.output = e.Test, output[e.Test].String()
			}
		}
		if e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
			ended, f.took = true, time.Duration(e.Elapsed*float64(time.Second))
		}
	}
	if !ended {
		return f, errors.New("the tests did not come to an end")
	}
	if f.failed && f.first == "" {
		f.first = panicked
		if f.first == "" {
			f.first = "the test binary failed"
		}
		if output[""] != nil {
			f.output = output[""].String()
		}
	}
	return f, nil
}
