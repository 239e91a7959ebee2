package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
)

func quick(t *testing.T, o Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "usage.db"), o.Unsynced())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func usage(license, dimension string, offset int) metering.Row {
	hour := metering.HourOf(time.Date(2026, 3, 10, 14, 0, 0, 0, time.UTC))
	return metering.NewRow(metering.Group{License: license, Account: "444455556666", Dimension: dimension, Hour: hour}, hour.Second(offset), 1)
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// together hands changes to the store in one group, as serve does with those that wait, and returns their errors. It runs between
// two changes of serve, which has none meanwhile.
func together(s *Store, runs ...func(*session) error) []error {
	batch := make([]change, len(runs))
	for i, run := range runs {
		batch[i] = change{items: 1, run: run, done: make(chan error, 1)}
	}
	s.apply(batch)
	errs := make([]error, len(runs))
	for i, c := range batch {
		errs[i] = <-c.done
	}
	return errs
}

func putting(rows ...metering.Row) func(*session) error {
	return func(tx *session) error {
		for _, r := range rows {
			if err := tx.putRow(r); err != nil {
				return err
			}
		}
		return nil
	}
}

func labelling(r metering.Row, reason string, out *metering.Labelled) func(*session) error {
	return func(tx *session) error {
		*out = metering.Labelled{}
		return tx.label(out, metering.Label{License: r.License, SortKey: r.SortKey, Quantity: r.Quantity, Status: metering.Aggregated, Reason: reason, At: time.Unix(0, 0)})
	}
}

// stored are the rows of the file itself, joined with their names, whatever the store remembers.
func stored(t *testing.T, s *Store) (all []string) {
	t.Helper()
	c, err := dial(s.path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.close() }()
	err = c.query("SELECT licenseArn, dimension, coalesce(meteringStatusReason, '-') FROM usage ORDER BY 1, 2, timestamp", nil, func(v []driver.Value) (bool, error) {
		all = append(all, fmt.Sprint(v[0], " ", v[1], " ", v[2]))
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// remembered are the names that the store holds; each must be that of the file.
func remembered(t *testing.T, s *Store) {
	t.Helper()
	c, err := dial(s.path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.close() }()
	for key, in := range s.names.byKey {
		id, err := c.number("SELECT id FROM series WHERE license = ? AND prefix = ?", key.license, key.prefix)
		if err != nil || id != in.id || s.names.byID[id] != in {
			t.Errorf("series %v is remembered as %d and is %d, %v", key, in.id, id, err)
		}
	}
	for l, known := range s.names.labels {
		id, err := c.number("SELECT id FROM label WHERE status = ? AND reason = ?", string(l.status), l.reason)
		if err != nil || id != known || s.names.texts[id] != l {
			t.Errorf("label %v is remembered as %d and is %d, %v", l, known, id, err)
		}
	}
}

// One change of a group fails after it has given numbers to names. They are free again, and its neighbours get them.
func TestChangeThatFailsTakesNothingWithIt(t *testing.T) {
	t.Parallel()
	s := quick(t, Options{})
	known := usage("known", "api", 0)
	if err := s.PutRow(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	fails := func(tx *session) error {
		if err := putting(usage("failed", "api", 0), usage("failed", "storage", 0), known)(tx); err != nil {
			return err
		}
		var out metering.Labelled
		if err := labelling(usage("failed", "api", 0), "failed", &out)(tx); err != nil || !out.Done {
			return fmt.Errorf("label: %+v, %w", out, err)
		}
		l := metering.Label{License: "failed", SortKey: usage("", "api", 0).SortKey, Marker: true, Quantity: metering.Units(1)}
		if err := tx.label(&out, l); err != nil || out.Old == nil || out.Old.StatusReason != "failed" { // reads what only this change knows
			return fmt.Errorf("label: %+v, %w", out, err)
		}
		_, err := tx.exec("INSERT INTO series (license, prefix) VALUES (NULL, '')")
		return err
	}
	var first, last metering.Labelled
	errs := together(s,
		putting(usage("before", "api", 0)),
		labelling(known, "before", &first),
		fails,
		putting(usage("after", "api", 0), usage("after", "storage", 0)),
		labelling(usage("after", "api", 0), "after", &last),
	)
	for i, err := range errs {
		if failed := err != nil; failed != (i == 2) {
			t.Errorf("change %d: %v", i, err)
		}
	}
	if !strings.Contains(fmt.Sprint(errs[2]), "NOT NULL") {
		t.Errorf("the failed change: %v", errs[2])
	}
	if !first.Done || !last.Done {
		t.Errorf("labels: %+v, %+v", first, last)
	}
	want := []string{"after api after", "after storage -", "before api -", "known api before"}
	same(t, "rows of the file", want, stored(t, s))
	remembered(t, s)

	// The same again, one after the other, after which nothing of the failed change may be known.
	if err := together(s, fails)[0]; err == nil {
		t.Error("the change that fails did not")
	}
	remembered(t, s)
	failed := usage("failed", "api", 0)
	if r, err := s.Row(t.Context(), failed.License, failed.SortKey); r != nil || err != nil {
		t.Errorf("a row of the failed change: %+v, %v", r, err)
	}
	if err := s.PutRow(t.Context(), usage("later", "api", 0)); err != nil {
		t.Fatal(err)
	}
	if out, err := s.LabelRow(t.Context(), metering.Label{License: "later", SortKey: failed.SortKey, Quantity: metering.Units(1), Status: metering.Aggregated, Reason: "later"}); err != nil || !out.Done {
		t.Errorf("LabelRow: %+v, %v", out, err)
	}
	same(t, "rows of the file", slices.Concat(want, []string{"later api later"}), stored(t, s))
	remembered(t, s)
}

// A change that is refused before it writes costs its neighbours nothing: they are applied once.
func TestRefusalKeepsTheGroup(t *testing.T) {
	t.Parallel()
	s := quick(t, Options{})
	runs := 0
	sentinel := errors.New("no")
	errs := together(s,
		func(tx *session) error { runs++; return putting(usage("a", "api", 0))(tx) },
		func(*session) error { return refused(sentinel) },
		func(tx *session) error { runs++; return putting(usage("b", "api", 0))(tx) },
	)
	if errs[0] != nil || !errors.Is(errs[1], sentinel) || errs[2] != nil || runs != 2 {
		t.Errorf("errors %v after %d runs, want one refusal and 2 runs", errs, runs)
	}
	same(t, "rows of the file", []string{"a api -", "b api -"}, stored(t, s))
}

// script is a statement that fails as often as told, and counts.
type script struct {
	driver.Stmt
	failures, calls int
	err             error
}

func (s *script) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.calls++
	if s.failures > 0 {
		s.failures--
		return nil, s.err
	}
	return s.Stmt.(driver.StmtExecContext).ExecContext(ctx, args)
}

// intercept puts a script in the place of one of the writer's statements.
func intercept(t *testing.T, s *Store, text string) *script {
	t.Helper()
	if err := s.SetSetting(t.Context(), "any", "thing"); err != nil { // so that it is prepared
		t.Fatal(err)
	}
	stub := &script{Stmt: s.writer.statements[text], err: errors.New("the disk is gone")}
	if stub.Stmt == nil {
		t.Fatalf("%s is not prepared", text)
	}
	s.writer.statements[text] = stub
	return stub
}

func TestCommitThatFails(t *testing.T) {
	t.Parallel()
	s := quick(t, Options{})
	commit := intercept(t, s, "COMMIT")

	commit.failures = 1 // the group's: each is tried alone then
	errs := together(s, putting(usage("a", "api", 0)), putting(usage("b", "api", 0)))
	same(t, "errors", []error{nil, nil}, errs)

	commit.failures = 2 // the group's, and the first change's
	errs = together(s, putting(usage("c", "api", 0)), putting(usage("d", "api", 0)))
	if !errors.Is(errs[0], commit.err) || errs[1] != nil {
		t.Errorf("errors %v, want the first to fail alone", errs)
	}
	same(t, "rows of the file", []string{"a api -", "b api -", "d api -"}, stored(t, s))
	remembered(t, s)

	commit.failures = 2
	if err := s.PutRow(t.Context(), usage("e", "api", 0)); !errors.Is(err, commit.err) {
		t.Errorf("PutRow: %v, want %v", err, commit.err)
	}
	out := s.FlushRows(t.Context(), []metering.Flush{{Group: metering.Group{License: "f", Account: "1", Dimension: "api"}, Quantity: 1, Token: "one"}})
	same(t, "a flush that failed", []bool{false, true}, []bool{out[0].Done || out[0].Row != nil, errors.Is(out[0].Err, commit.err)})
	if err := s.PutRow(t.Context(), usage("g", "api", 0)); err != nil {
		t.Errorf("PutRow: %v, want the store to go on", err)
	}
	same(t, "rows of the file", []string{"a api -", "b api -", "d api -", "g api -"}, stored(t, s))
	remembered(t, s)
}

// Where another program keeps the store locked, all that wait learn so after the patience of one.
func TestLockedOutOnceForAll(t *testing.T) {
	t.Parallel()
	s := quick(t, Options{Patience: 5 * time.Millisecond})
	begin := intercept(t, s, "BEGIN IMMEDIATE")
	holder, err := dial(s.path, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.close() }()
	if err := holder.script("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	var runs []func(*session) error
	for i := range 20 {
		runs = append(runs, putting(usage("a", "api", i)))
	}
	for _, err := range together(s, runs...) {
		var p *Problem
		if !errors.As(err, &p) || p.Why != "another program keeps it locked" {
			t.Errorf("a change under the lock: %v", err)
		}
	}
	if begin.calls != 1 {
		t.Errorf("the lock was waited for %d times, want once", begin.calls)
	}
	if err := holder.script("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	same(t, "errors after the lock", make([]error, 20), together(s, runs...))
	same(t, "rows of the file", 20, len(stored(t, s)))
}

// A change that has begun is carried to its end, and its caller learns the outcome, whatever becomes of the context.
func TestChangeUnderWayIsAnswered(t *testing.T) {
	t.Parallel()
	s := quick(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	err := s.write(ctx, 1, func(tx *session) error {
		cancel()
		return putting(usage("a", "api", 0))(tx)
	})
	if err != nil {
		t.Errorf("a change under way when the context ended: %v", err)
	}
	same(t, "rows of the file", []string{"a api -"}, stored(t, s))
	if err := s.PutRow(ctx, usage("b", "api", 0)); !errors.Is(err, context.Canceled) {
		t.Errorf("PutRow: %v, want %v", err, context.Canceled)
	}
	same(t, "rows of the file", []string{"a api -"}, stored(t, s))
}

func TestReadThatEndsByItsContextGivesItsConnectionBack(t *testing.T) {
	t.Parallel()
	s := quick(t, Options{})
	for range 2 * readers {
		ctx, cancel := context.WithCancel(t.Context())
		err := s.read(ctx, func(d *decoder) error {
			cancel()
			_, err := d.number("SELECT nothing")
			return err
		})
		if err == nil || len(s.readers) != readers {
			t.Fatalf("%d connections after %v, want %d", len(s.readers), err, readers)
		}
	}
}

// A change that has passed the door just before the store closed is answered all the same.
func TestChangeAtTheVeryEnd(t *testing.T) {
	t.Parallel()
	s := quick(t, Options{})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.closing = make(chan struct{}) // as the change saw it
	if err := s.PutRow(t.Context(), usage("a", "api", 0)); !errors.Is(err, errClosed) {
		t.Fatalf("PutRow: %v, want %v", err, errClosed)
	}
}

// So is a read that waits for a connection when the store closes.
func TestReadAtTheVeryEnd(t *testing.T) {
	t.Parallel()
	s := quick(t, Options{})
	release := s.HoldReaders(readers)
	read, closed := make(chan error), make(chan error)
	begun := make(chan struct{})
	go func() {
		_, err := s.Row(startsWaiting{t.Context(), sync.OnceFunc(func() { close(begun) })}, "a", "b")
		read <- err
	}()
	<-begun // it has passed the door and asks for a connection
	go func() { closed <- s.Close() }()
	if err := <-read; !errors.Is(err, errClosed) {
		t.Errorf("Row: %v, want %v", err, errClosed)
	}
	release()
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
}

// startsWaiting is a context that tells when its end is waited for.
type startsWaiting struct {
	context.Context
	waits func()
}

func (c startsWaiting) Done() <-chan struct{} {
	c.waits()
	return c.Context.Done()
}
