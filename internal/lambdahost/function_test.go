package lambdahost_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/lambdahost"
)

// toy is the binary that the tests run.
var toy string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lambdahost")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	toy = dir + "/bootstrap"
	if out, err := exec.Command("go", "build", "-o", toy, "./testdata/toy").CombinedOutput(); err != nil {
		panic(string(out))
	}
	return m.Run()
}

// report is what the toy answers.
type report struct {
	PID            int
	RequestID, ARN string
	LeftMS         int64
	Env            map[string]string
	Region         string
	Invocation     int
}

func act(t *testing.T, f *lambdahost.Function, what string) (report, error) {
	t.Helper()
	answer, err := f.Invoke(t.Context(), []byte(`{"do":"`+what+`"}`))
	var r report
	if err == nil {
		if err := json.Unmarshal(answer, &r); err != nil {
			t.Fatalf("answer %s: %v", answer, err)
		}
	}
	return r, err
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("did not happen: %s", what)
		}
	}
}

func TestProcessIsUsedAgain(t *testing.T) {
	t.Parallel()
	f := lambdahost.Start(t, lambdahost.Options{Binary: toy, Handler: "act", Name: "awsmp-act", Env: []string{"TOY_OWN=of the test"}, Timeout: time.Minute})
	first, err := act(t, f, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := act(t, f, "fail"); !lambdahost.Failed(err, lambdahost.Errored) || !strings.Contains(err.Error(), "told to fail") {
		t.Errorf("an error of the function: %v", err)
	}
	last, err := act(t, f, "")
	if err != nil {
		t.Fatal(err)
	}
	if first.PID != last.PID || last.Invocation != 3 {
		t.Errorf("invocation %d in process %d, the first in %d; want one process, used again after an error", last.Invocation, last.PID, first.PID)
	}
	if first.RequestID == last.RequestID {
		t.Errorf("two invocations with the id %s", first.RequestID)
	}
	if first.LeftMS <= 0 || first.LeftMS > 60_000 {
		t.Errorf("%d ms are left, want up to 60,000", first.LeftMS)
	}
	first.PID, first.RequestID, first.LeftMS = 0, "", 0
	want := report{
		ARN: "arn:aws:lambda:us-east-1:111122223333:function:awsmp-act", Region: "us-east-1", Invocation: 1,
		Env: map[string]string{"own": "of the test", "home": "", "name": "awsmp-act"},
	}
	if d := cmp.Diff(want, first); d != "" {
		t.Errorf("what a function sees (-want +got):\n%s", d)
	}
	if n := len(f.ColdStarts()); n != 1 || f.ColdStarts()[0] <= 0 {
		t.Errorf("cold starts %v, want one", f.ColdStarts())
	}
	if got := strings.Count(f.Logs(), "acted"); got != 2 {
		t.Errorf("%d lines in the log, want 2:\n%s", got, f.Logs())
	}
}

func TestProcessThatDiesIsReplaced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		do      string
		kind    lambdahost.Kind
		payload string
	}{
		{"exit", lambdahost.Died, "exit status 7"},
		{"panic", lambdahost.Errored, "told to panic"}, // reported, and then it exits
	} {
		t.Run(c.do, func(t *testing.T) {
			t.Parallel()
			f := lambdahost.Start(t, lambdahost.Options{Binary: toy, Handler: "act", Timeout: time.Minute})
			before, err := act(t, f, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := act(t, f, c.do); !lambdahost.Failed(err, c.kind) || !strings.Contains(err.Error(), c.payload) {
				t.Errorf("%v, want %s: … %s …", err, c.kind, c.payload)
			}
			after, err := act(t, f, "")
			if err != nil {
				t.Fatal(err)
			}
			if after.PID == before.PID || after.Invocation != 1 || len(f.ColdStarts()) != 2 {
				t.Errorf("then invocation %d of process %d after %d, %d cold starts; want a new process", after.Invocation, after.PID, before.PID, len(f.ColdStarts()))
			}
		})
	}
}

func TestTimeoutKills(t *testing.T) {
	t.Parallel()
	f := lambdahost.Start(t, lambdahost.Options{Binary: toy, Handler: "act", Timeout: 200 * time.Millisecond})
	if _, err := act(t, f, "hang"); !lambdahost.Failed(err, lambdahost.TimedOut) || !strings.Contains(err.Error(), "Task timed out after 0.20 seconds") {
		t.Errorf("%v", err)
	}
	r, err := act(t, f, "")
	if err != nil || r.Invocation != 1 {
		t.Errorf("then invocation %d, %v; want a new process", r.Invocation, err)
	}
}

func TestInit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, handler, init string
		kind                lambdahost.Kind
		payload, log        string
	}{
		{"exits", "act", "exit", lambdahost.Died, "exit status 3", "a setting is missing"},
		{"unknown handler", "nobody", "", lambdahost.Died, "exit status 2", `unknown handler "nobody"`},
		{"reports an error", "act", "report", lambdahost.InitFailed, `"errorType":"Toy.Broken"`, ""},
		{"hangs", "act", "hang", lambdahost.InitFailed, "no first invocation asked for within 300ms", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := lambdahost.Options{Binary: toy, Handler: c.handler, Env: []string{"TOY_INIT=" + c.init}}
			if c.init == "hang" {
				o.InitTimeout = 300 * time.Millisecond
			}
			f := lambdahost.Start(t, o)
			for range 2 { // each invocation tries anew
				if _, err := act(t, f, ""); !lambdahost.Failed(err, c.kind) || !strings.Contains(err.Error(), c.payload) {
					t.Errorf("%v, want %s: … %s …", err, c.kind, c.payload)
				}
			}
			if !strings.Contains(f.Logs(), c.log) {
				t.Errorf("log %q, want %q in it", f.Logs(), c.log)
			}
		})
	}
}

func TestKillEndsWhatRunsAtOnce(t *testing.T) {
	t.Parallel()
	f := lambdahost.Start(t, lambdahost.Options{Binary: toy, Handler: "act", Timeout: time.Minute, Concurrency: 2})
	errs := make([]error, 2)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { _, errs[i] = act(t, f, "hang") })
	}
	eventually(t, "two processes run at once", func() bool { return strings.Count(f.Logs(), "hanging") == 2 })
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Invoke(ended, []byte(`{}`)); err != context.Canceled {
		t.Errorf("a third at once: %v, want it to wait for its turn until its context ends", err)
	}
	f.Kill()
	all.Wait()
	for _, err := range errs {
		if !lambdahost.Failed(err, lambdahost.Died) {
			t.Errorf("%v, want a process that died", err)
		}
	}
	if _, err := act(t, f, ""); err != nil {
		t.Errorf("after Kill: %v", err)
	}
}

func TestEndOfContextKills(t *testing.T) {
	t.Parallel()
	f := lambdahost.Start(t, lambdahost.Options{Binary: toy, Handler: "act", Timeout: time.Minute})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { _, err := f.Invoke(ctx, []byte(`{"do":"hang"}`)); done <- err }()
	eventually(t, "it runs", func() bool { return strings.Contains(f.Logs(), "hanging") })
	cancel()
	if err := <-done; err != context.Canceled {
		t.Errorf("%v, want %v", err, context.Canceled)
	}
}

func TestUsageCountsProcessesThatEnded(t *testing.T) {
	t.Parallel()
	f := lambdahost.Start(t, lambdahost.Options{Binary: toy, Handler: "act", Timeout: time.Minute})
	if _, err := act(t, f, "spin"); err != nil {
		t.Fatal(err)
	}
	if user, system := f.Usage(); user != 0 || system != 0 {
		t.Errorf("%v and %v while the process lives, want 0", user, system)
	}
	f.Kill()
	if user, system := f.Usage(); user+system < 50*time.Millisecond {
		t.Errorf("%v and %v, want at least the 50 ms that the process has taken of a core", user, system)
	}
}
