package sqlite_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/awsmp/metering/internal/store/sqlite"
)

// The test binary is also the other process of the tests that need one: what it does then is named by this variable.
const childVariable = "METERING_SQLITE_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childVariable); name != "" {
		if err := children[name](os.Args[1], os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("40") // the suite runs over several kinds of store here, which write to a disk
	}
	goleak.VerifyTestMain(m)
}

var children = map[string]func(path string, args []string) error{
	"write for ever": writeForEver,
	"take part":      takePartAlone,
	"look":           look,
	"fill":           fill,
}

// child is a process of its own that does what name says.
func child(t *testing.T, name, path string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := os.Executable()
	check(t, "find the test binary", err)
	c := exec.CommandContext(t.Context(), program, append([]string{path}, args...)...)
	c.Env = append(os.Environ(), childVariable+"="+name)
	c.Stderr = os.Stderr
	return c
}

// look opens the store, reads a row, writes one and reports the first problem that it meets, as JSON.
func look(path string, args []string) error {
	err := func() error {
		s, err := sqlite.Open(context.Background(), path, sqlite.Options{})
		if err != nil {
			return err
		}
		r := row(group(licenseA, "api"), 0, 1)
		if _, err = s.Row(context.Background(), licenseA, r.SortKey); err == nil {
			err = s.PutRow(context.Background(), r)
		}
		return errors.Join(err, s.Close())
	}()
	var p *sqlite.Problem
	if err != nil && !errors.As(err, &p) {
		return err
	}
	var words []string
	if p != nil {
		words = []string{p.Path, p.Why, p.Hint}
	}
	return json.NewEncoder(os.Stdout).Encode(words)
}
