package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/stack"
	"github.com/awsmp/metering/internal/stack/stacktest"
	"github.com/awsmp/metering/internal/verify"
)

// TestVerifyEnded ends a run while it waits: an interrupt lets it take away what it wrote, and what it leaves when it is killed the next command
// takes away.
func TestVerifyEnded(t *testing.T) {
	t.Parallel()
	deployed := stacktest.Deploy(t, stacktest.Options{NoEvents: true, Parameters: map[string]string{"MeteringMode": "dry-run"}})
	s, err := stack.Open(t.Context(), deployed.StackName, "", stack.Options{Config: deployed.Config})
	if err != nil {
		t.Fatal(err)
	}
	left := func() (n int) {
		t.Helper()
		found, err := verify.Leftovers(t.Context(), targetOf(s), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, items := range found {
			n += items
		}
		return n
	}
	args := []string{"verify", "--stack", deployed.StackName, "--yes"}

	told, code := endedBy(t, deployed, os.Interrupt, append(args, "--only", "age-out,direct-record")...)
	if code != exitInterrupted || !strings.Contains(told, "interrupted; what was written is taken away") || !strings.Contains(told, "Try: awsmp verify --stack "+deployed.StackName+" ") {
		t.Errorf("interrupted: exit code %d\n%s", code, told)
	}
	if n := left(); n != 0 {
		t.Errorf("interrupted: %d items are left", n)
	}

	if _, code := endedBy(t, deployed, os.Kill, append(args, "--only", "age-out,direct-record")...); code != -1 {
		t.Errorf("killed: exit code %d", code)
	}
	if n := left(); n != 2 {
		t.Errorf("killed: %d items are left, want 2", n)
	}
	out, err := command(t.Context(), deployed, append(args, "--clean")...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "2 items deleted, 0 left.") {
		t.Errorf("clean: %v\n%s", err, out)
	}
	if n := left(); n != 0 {
		t.Errorf("cleaned: %d items are left", n)
	}
}

func command(ctx context.Context, d stacktest.Deployed, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "awsmp", args...)
	cmd.Env = append(os.Environ(), d.Env()...)
	return cmd
}

// endedBy runs a command, sends it a signal as soon as it waits, and returns what it told and its exit code; -1 where the signal itself ended it.
func endedBy(t *testing.T, d stacktest.Deployed, signal os.Signal, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := command(ctx, d, args...)
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	sent := false
	for lines := bufio.NewScanner(errs); lines.Scan(); {
		told.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "waiting: ") && !sent {
			sent = true
			if err := cmd.Process.Signal(signal); err != nil {
				t.Error(err)
			}
		}
	}
	err = cmd.Wait()
	told.WriteString(out.String())
	var exit *exec.ExitError
	switch {
	case err == nil:
		return told.String(), 0
	case !errors.As(err, &exit):
		t.Fatal(err)
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return told.String(), -1
	}
	return told.String(), exit.ExitCode()
}
