//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package simulator_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/awsmp/metering/simulator"
)

// A program that starts another has its open files twice for a moment, between fork and exec. Close gives the journal free
// all the same.
func TestJournalIsFreeAfterCloseDuringAFork(t *testing.T) {
	t.Parallel()
	path, _, want := journalled(t)
	sim := reopen(t, path, simulator.Options{})
	forked, err := syscall.Dup(int(sim.JournalFile().Fd()))
	try(t, err)
	defer func() { try(t, syscall.Close(forked)) }()
	if _, err := simulator.New(simulator.Options{Journal: path}); err == nil {
		t.Fatal("the journal was opened twice")
	}
	closed(t, sim)
	wantLedger(t, reopen(t, path, simulator.Options{}), want)
}

// Nobody may write every file: as root the test runs once more, as a user without rights.
func TestJournalThatMayNotBeWritten(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		asNobody(t)
		return
	}
	path, _, _ := journalled(t)
	for _, mode := range []os.FileMode{0o400, 0o200} {
		try(t, os.Chmod(path, mode))
		_, err := simulator.New(simulator.Options{Journal: path})
		if err == nil || !strings.Contains(err.Error(), "permission denied\nTry: name a file that you may read and write") {
			t.Errorf("mode %o: error %v", mode, err)
		}
	}
}

// asNobody runs the test in a copy of its own program, which any user may start.
func asNobody(t *testing.T) {
	self, err := os.Executable()
	try(t, err)
	program, err := os.ReadFile(self)
	try(t, err)
	dir, err := os.MkdirTemp("", "nobody-*")
	try(t, err)
	defer os.RemoveAll(dir)
	try(t, os.Chmod(dir, 0o755))
	name := filepath.Join(dir, "simulator.test")
	try(t, os.WriteFile(name, program, 0o755))
	cmd := exec.Command(name, "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
}
