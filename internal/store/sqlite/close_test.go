package sqlite_test

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
)

// What was answered before or while the store closed is in the file, what comes later is refused, and nothing waits for ever.
func TestCloseAmongWrites(t *testing.T) {
	t.Parallel()
	for range 5 {
		path := file(t)
		s := open(t, path, sqlite.Options{}.Unsynced())
		var (
			all       sync.WaitGroup
			answered  atomic.Int64
			begun     = make(chan struct{})
			firstOnce sync.Once
		)
		for w := range 16 {
			all.Go(func() {
				for i := range 3600 {
					err := s.PutRow(t.Context(), row(group(licenseA, "api"), i, 1+int64(w)))
					if errors.Is(err, sqlite.ErrClosed) {
						return
					}
					if err != nil {
						t.Error(err)
					}
					if err := s.PutRow(t.Context(), row(group(licenseB, string(rune('a'+w))), i, 1)); err == nil {
						answered.Add(1)
					}
					firstOnce.Do(func() { close(begun) })
				}
			})
		}
		<-begun
		shut(t, s)
		all.Wait()
		if _, err := os.Stat(path + "-wal"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the journal is still there: %v", err)
		}
		s = open(t, path, sqlite.Options{}.Unsynced())
		if n := len(collect(t, s.LicenseRows(t.Context(), licenseB))); int64(n) != answered.Load() {
			t.Errorf("%d rows, %d were answered", n, answered.Load())
		}
	}
}

func TestAfterClose(t *testing.T) {
	t.Parallel()
	s := quick(t)
	g := group(licenseA, "api")
	put(t, s, rows(g, 3)...)
	shut(t, s)
	shut(t, s)
	rec := metering.NewRecord(g, 1)
	for name, err := range map[string]error{
		"PutRow":         s.PutRow(t.Context(), row(g, 0, 1)),
		"FlushRows":      s.FlushRows(t.Context(), []metering.Flush{flush(g, 0, 1, "one")})[0].Err,
		"LabelRows":      s.LabelRows(t.Context(), []metering.Label{label(row(g, 0, 1), "because")})[0].Err,
		"Row":            second(s.Row(t.Context(), licenseA, "x")),
		"CreateRecord":   second(s.CreateRecord(t.Context(), rec)),
		"PendingRows":    last(s.PendingRows(t.Context(), hour(), "")),
		"GroupRows":      last(s.GroupRows(t.Context(), g)),
		"LicenseRecords": last(s.LicenseRecords(t.Context(), licenseA)),
		"Waiting":        second(s.Waiting(t.Context())),
		"Setting":        second(s.Setting(t.Context(), "x")),
	} {
		if !errors.Is(err, sqlite.ErrClosed) {
			t.Errorf("%s: %v, want %v", name, err, sqlite.ErrClosed)
		}
	}
	if got := s.FlushRows(t.Context(), nil); len(got) != 0 {
		t.Errorf("no flushes: %+v", got)
	}
}

func second[T any](_ T, err error) error { return err }

func last[T any](seq func(func(T, error) bool)) (last error) {
	for _, err := range seq {
		last = err
	}
	return last
}

// A read in progress ends with an error at its next page; the page that it holds it may finish.
func TestCloseAmongReads(t *testing.T) {
	t.Parallel()
	path := file(t)
	s := open(t, path, sqlite.Options{PageBytes: 1}.Unsynced())
	g := group(licenseA, "api")
	put(t, s, rows(g, 10)...)
	n := 0
	var ended error
	for _, err := range s.GroupRows(t.Context(), g) {
		if ended = err; err != nil {
			break
		}
		if n++; n == 3 {
			shut(t, s)
		}
	}
	if n != 3 || !errors.Is(ended, sqlite.ErrClosed) {
		t.Errorf("%d rows and then %v, want 3 and %v", n, ended, sqlite.ErrClosed)
	}

	// Many at once: each reads all or is told.
	s = open(t, path, sqlite.Options{PageBytes: 1}.Unsynced())
	var all sync.WaitGroup
	begun := make(chan struct{}, 16)
	for range 16 {
		all.Go(func() {
			begun <- struct{}{}
			for {
				for _, err := range s.GroupRows(t.Context(), g) {
					if err != nil && !errors.Is(err, sqlite.ErrClosed) {
						t.Error(err)
					}
					if err != nil {
						return
					}
				}
			}
		})
	}
	for range 16 {
		<-begun
	}
	shut(t, s)
	all.Wait()
}

// Another program that still reads an older state keeps the journal; what is in it is not lost.
func TestCloseBesideAReader(t *testing.T) {
	t.Parallel()
	path := file(t)
	s := open(t, path, sqlite.Options{Patience: 1}.Unsynced())
	put(t, s, rows(group(licenseA, "api"), 3)...)
	c := other(t, path)
	run(t, c, "BEGIN")
	same(t, "rows that it sees", [][]string{{"3"}}, ask(t, c, "SELECT count(*) FROM usage"))
	put(t, s, rows(group(licenseB, "api"), 3)...)
	shut(t, s)
	same(t, "rows that it sees still", [][]string{{"3"}}, ask(t, c, "SELECT count(*) FROM usage"))
	run(t, c, "ROLLBACK")
	same(t, "rows that it sees now", [][]string{{"6"}}, ask(t, c, "SELECT count(*) FROM usage"))
}

// A store that could not be opened leaves nothing behind; goleak looks when all tests are done, and here once more.
func TestOpenThatFailsLeavesNoGoroutine(t *testing.T) {
	before := goleak.IgnoreCurrent()
	path := file(t)
	write(t, path, []byte("license,quantity\n"))
	if _, err := sqlite.Open(t.Context(), path, sqlite.Options{}); err == nil {
		t.Error("a text was opened")
	}
	s, err := sqlite.Open(t.Context(), file(t), sqlite.Options{}.Unsynced())
	check(t, "Open", err)
	shut(t, s)
	goleak.VerifyNone(t, before)
}
