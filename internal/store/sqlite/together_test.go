package sqlite_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
)

// tally is what one of several stores on a file has done.
type tally struct {
	Created  []string // records
	Labelled []string // rows
}

const (
	sharedRounds = 40
	sharedRows   = 5
)

// takePart does what others do on the same file at the same time: flushes of its own and of everybody's, puts, records and labels.
func takePart(s *sqlite.Store, name string) (done tally, err error) {
	ctx := context.Background()
	for n := range sharedRounds {
		var flushes []metering.Flush
		for i := range sharedRows {
			flushes = append(flushes,
				flush(group(licenseA, "flushed"), n*sharedRows+i, 3, fmt.Sprint("everybody-", n)),
				flush(group(licenseA, "flushed"), n*sharedRows+i, 2, fmt.Sprint(name, "-", n)))
		}
		for _, out := range s.FlushRows(ctx, flushes) {
			if !out.Done {
				return done, fmt.Errorf("flush: %+v", out)
			}
		}
		own := row(group(licenseA, "put-"+name), n, 1)
		if err := s.PutRow(ctx, own); err != nil {
			return done, err
		}
		// The same dimension for all in each round: whoever comes first gives it its number.
		g := group(licenseB, fmt.Sprint("dimension-", n))
		rec := metering.NewRecord(g, int64(n))
		rec.Manifest = name
		out, err := s.CreateRecord(ctx, rec)
		if err != nil {
			return done, err
		}
		if out.Done {
			done.Created = append(done.Created, rec.SortKey)
		} else if out.Old.Quantity != rec.Quantity || out.Old.Manifest == name {
			return done, fmt.Errorf("the record in the way is %+v", out.Old)
		}
		if err := s.PutRow(ctx, row(g, 0, 1)); err != nil {
			return done, err
		}
		shared := row(group(licenseA, "labelled"), n, 1)
		labelled := s.LabelRows(ctx, []metering.Label{label(shared, name), label(own, fmt.Sprint(name, " ", n))})
		if labelled[0].Done {
			done.Labelled = append(done.Labelled, shared.SortKey)
		} else if labelled[0].Old == nil || !labelled[1].Done {
			return done, fmt.Errorf("label: %+v", labelled)
		}
	}
	return done, nil
}

func takePartAlone(path string, args []string) error {
	s, err := sqlite.Open(context.Background(), path, sqlite.Options{}.Unsynced())
	if err != nil {
		return err
	}
	done, err := takePart(s, args[0])
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(done)
}

// prepareShared puts the rows that all try to label.
func prepareShared(t *testing.T, s *sqlite.Store) {
	put(t, s, rows(group(licenseA, "labelled"), sharedRounds)...)
}

// judgeShared compares what is in the store with what the takers-part did.
func judgeShared(t *testing.T, s *sqlite.Store, names []string, done []tally) {
	t.Helper()
	flushed := collect(t, s.GroupRows(t.Context(), group(licenseA, "flushed")))
	if len(flushed) != sharedRounds*sharedRows {
		t.Errorf("%d flushed rows, want %d", len(flushed), sharedRounds*sharedRows)
	}
	for _, r := range flushed {
		if r.Quantity != metering.Units(int64(3+2*len(names))) || len(r.Flushes) != 1+len(names) {
			t.Errorf("row %s holds %v from %v", r.SortKey, r.Quantity, r.Flushes)
		}
	}
	created := make(map[string]int)
	for i, name := range names {
		own := collect(t, s.GroupRows(t.Context(), group(licenseA, "put-"+name)))
		if len(own) != sharedRounds {
			t.Errorf("%d rows of %s, want %d", len(own), name, sharedRounds)
		}
		for n, r := range own {
			if want := fmt.Sprint(name, " ", n); r.StatusReason != want {
				t.Errorf("row %s is labelled %q, want %q", r.SortKey, r.StatusReason, want)
			}
		}
		for _, key := range done[i].Created {
			created[key]++
		}
	}
	for n := range sharedRounds {
		g := group(licenseB, fmt.Sprint("dimension-", n))
		if created[g.RecordKey()] != 1 {
			t.Errorf("record %s was created %d times", g.RecordKey(), created[g.RecordKey()])
		}
		if r, err := s.Record(t.Context(), g); err != nil || r == nil || r.Quantity != metering.Units(int64(n)) {
			t.Errorf("record %s is %+v, %v", g.RecordKey(), r, err)
		}
		if r := getRow(t, s, licenseB, g.RowKey(hour().Second(0))); r == nil || r.Dimension != g.Dimension {
			t.Errorf("row of %s is %+v", g.Dimension, r)
		}
	}
	for _, r := range collect(t, s.GroupRows(t.Context(), group(licenseA, "labelled"))) {
		winners := 0
		for i, name := range names {
			for _, key := range done[i].Labelled {
				if key == r.SortKey {
					winners++
					same(t, "the label of "+r.SortKey, name, r.StatusReason)
				}
			}
		}
		if winners != 1 {
			t.Errorf("%d stores have labelled %s", winners, r.SortKey)
		}
	}
}

func TestTwoStoresOnOneFile(t *testing.T) {
	t.Parallel()
	path := file(t)
	stores := []*sqlite.Store{open(t, path, sqlite.Options{}.Unsynced()), open(t, path, sqlite.Options{}.Unsynced())}
	prepareShared(t, stores[0])
	names, done := []string{"first", "second"}, make([]tally, 2)
	var all sync.WaitGroup
	for i, s := range stores {
		all.Go(func() {
			var err error
			if done[i], err = takePart(s, names[i]); err != nil {
				t.Errorf("%s: %v", names[i], err)
			}
		})
	}
	all.Wait()
	for _, s := range stores {
		judgeShared(t, s, names, done)
	}
}

func TestProcessesOnOneFile(t *testing.T) {
	t.Parallel()
	path := file(t)
	s := open(t, path, sqlite.Options{})
	prepareShared(t, s)
	names := []string{"first", "second", "third"}
	done := make([]tally, len(names))
	processes := make([]*exec.Cmd, len(names))
	outputs := make([]strings.Builder, len(names))
	for i, name := range names {
		processes[i] = child(t, "take part", path, name)
		processes[i].Stdout = &outputs[i]
		check(t, "start", processes[i].Start())
	}
	for i, p := range processes {
		check(t, names[i], p.Wait())
		check(t, "read the output", json.Unmarshal([]byte(outputs[i].String()), &done[i]))
	}
	judgeShared(t, s, names, done)
}

// What one store has given numbers to, the other reads, labels and lists.
func TestNamesAreLearnedFromTheOtherStore(t *testing.T) {
	t.Parallel()
	path := file(t)
	a, b := open(t, path, sqlite.Options{}.Unsynced()), open(t, path, sqlite.Options{}.Unsynced())
	r := row(group(licenseA, "api"), 0, 1)
	if got := getRow(t, b, licenseA, r.SortKey); got != nil {
		t.Fatalf("a row before it was put: %+v", got)
	}
	put(t, a, r)
	same(t, "the row", &r, getRow(t, b, licenseA, r.SortKey))
	same(t, "entries", 1, len(collect(t, b.PendingRows(t.Context(), hour(), ""))))

	l := label(r, "of a")
	if out, err := a.LabelRow(t.Context(), l); err != nil || !out.Done {
		t.Fatalf("LabelRow: %+v, %v", out, err)
	}
	want := l.Apply(r)
	same(t, "the labelled row", &want, getRow(t, b, licenseA, r.SortKey))

	// The other way round, with numbers that the first has not given.
	other := row(group(licenseB, "storage"), 0, 1)
	put(t, b, other)
	l2 := label(other, "of b")
	if out, err := b.LabelRow(t.Context(), l2); err != nil || !out.Done {
		t.Fatalf("LabelRow: %+v, %v", out, err)
	}
	want = l2.Apply(other)
	same(t, "the other row", &want, getRow(t, a, licenseB, other.SortKey))
	l3 := l2
	l3.Marker, l3.Reason = false, "of a" // both sides have met this text by now
	if out, err := a.LabelRow(t.Context(), l3); err != nil || !out.Done {
		t.Fatalf("LabelRow: %+v, %v", out, err)
	}
	want = l3.Apply(want)
	same(t, "the row labelled anew", &want, getRow(t, b, licenseB, other.SortKey))
}
