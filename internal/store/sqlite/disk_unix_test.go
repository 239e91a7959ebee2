//go:build unix

package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/awsmp/metering/internal/store/sqlite"
)

const fillRows = 100

// A process whose files may not grow meets failing writes to the disk itself, in the journal and elsewhere.
func TestDiskThatFails(t *testing.T) {
	t.Parallel()
	path := file(t)
	out, err := child(t, "fill", path).Output()
	check(t, "fill", err)
	same(t, "its report", "ok\n", string(out))
	s := open(t, path, sqlite.Options{})
	batches := make(map[string]int)
	for r, err := range s.LicenseRows(t.Context(), licenseA) {
		check(t, "LicenseRows", err)
		batches[r.Dimension]++
	}
	if len(batches) == 0 {
		t.Error("no batch was kept")
	}
	for name, n := range batches {
		if n != fillRows {
			t.Errorf("%d rows of batch %s, want %d", n, name, fillRows)
		}
	}
	sound(t, path)
}

// fill writes batches until the limit of a file's size stops it, looks at what is there, and goes on once there is room.
func fill(path string, _ []string) error {
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{})
	if err != nil {
		return err
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	was := limit.Cur
	limit.Cur = 200_000
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	kept := 0
	for ; ; kept++ {
		if err = s.PutRows(context.Background(), rows(group(licenseA, fmt.Sprint("batch-", kept)), fillRows)); err != nil {
			break
		}
	}
	var p *sqlite.Problem
	if !errors.As(err, &p) || !strings.HasPrefix(p.Why, "the disk failed: ") || p.Hint != "check the disk and its free space, and try again" {
		return fmt.Errorf("the first failure: %w", err)
	}
	count := func() (n int, err error) {
		for _, e := range s.LicenseRows(context.Background(), licenseA) {
			if e != nil {
				return n, e
			}
			n++
		}
		return n, nil
	}
	if n, err := count(); n != kept*fillRows || err != nil {
		return fmt.Errorf("%d rows after %d batches, %w", n, kept, err)
	}
	limit.Cur = was
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	if err := s.PutRows(context.Background(), rows(group(licenseA, fmt.Sprint("batch-", kept)), fillRows)); err != nil {
		return fmt.Errorf("once there was room: %w", err)
	}
	if n, err := count(); n != (kept+1)*fillRows || err != nil {
		return fmt.Errorf("%d rows after %d batches, %w", n, kept+1, err)
	}
	if err := s.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintln(os.Stdout, "ok")
	return err
}
