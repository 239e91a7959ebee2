package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/awsmp/metering/internal/standin"
)

func TestMain(m *testing.M) {
	testscript.Main(stopping{m}, map[string]func(){"awsmp": main})
}

// stopping stops the stand-ins at the end.
type stopping struct{ *testing.M }

func (m stopping) Run() int {
	defer standin.Stop()
	return m.M.Run()
}

// TestScripts runs the command line's specification, one file a topic. UPDATE_SCRIPTS=1 writes what is printed into the files.
func TestScripts(t *testing.T) {
	t.Parallel()
	stacks := newStacks(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
			"hours": hours,
			"put":   stacks.put,
			"stack": stacks.deploy,
		},
	})
}

// exits CODE COMMAND… runs a command that must end with the code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = exitCodeOf(err)
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
	if args[1] == "awsmp" && len(args) > 2 {
		if err := triedWrongly(args[2], ts.ReadFile("stderr")); err != nil {
			ts.Fatalf("%v", err)
		}
	}
}

// exitCodeOf is the exit code behind the error of a command that was run.
func exitCodeOf(err error) string {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err.Error()
	}
	return strconv.Itoa(exit.ExitCode())
}
