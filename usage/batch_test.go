package usage_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/usage"
)

// batch is two rows, and a line that can never be billed.
func batch() []usage.Event {
	return []usage.Event{used(1), at(used(20), noon.Add(-5*time.Minute)), used(2), used(-1)}
}

// errClosed stands for the refusal HourClosed.
var errClosed = errors.New("hour closed")

func wantAnswers(t testing.TB, errs []error, want ...error) {
	t.Helper()
	var refusal *usage.Refusal
	if len(errs) != len(want)+1 || !errors.As(errs[len(want)], &refusal) {
		t.Fatalf("%d answers: %v", len(errs), errs)
	}
	for i := range want {
		if want[i] == errClosed && errors.As(errs[i], &refusal) && refusal.Reason == usage.HourClosed {
			continue
		}
		if !errors.Is(errs[i], want[i]) || (errs[i] == nil) != (want[i] == nil) {
			t.Errorf("answer %d: %v, want %v", i, errs[i], want[i])
		}
	}
}

func write(t testing.TB, table usage.Table, id string, events []usage.Event) []error {
	t.Helper()
	errs, err := writer(t, table, usage.Options{}).WriteBatch(t.Context(), id, events)
	if err != nil {
		t.Fatal(err)
	}
	return errs
}

// case 37: the same batch again adds nothing, whoever sends it and in whatever order; another one does.
func TestBatchCountsOnce(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	wantAnswers(t, write(t, s, "file", batch()), nil, nil, nil)
	wantAnswers(t, write(t, s, "file", batch()), nil, nil, nil)
	turned := batch()
	slices.Reverse(turned[:3])
	wantAnswers(t, write(t, s, "file", turned), nil, nil, nil)
	wantHeld(t, s, used(1), 20, 3)
	more := batch()
	more[0].Quantity = 100 // another batch under an id that was used: taken as new where it differs
	wantAnswers(t, write(t, s, "file", more), nil, nil, nil)
	wantHeld(t, s, used(1), 20, 105)
	wantAnswers(t, write(t, s, "another file", batch()), nil, nil, nil)
	wantHeld(t, s, used(1), 40, 108)
}

func TestTaggedBatchCountsOnce(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	list := []usage.Event{tagged(1, "blue"), tagged(2, "red"), tagged(3, "blue")}
	for range 2 {
		for _, err := range write(t, s, "file", list) {
			if err != nil {
				t.Error(err)
			}
		}
		slices.Reverse(list)
	}
	wantHeld(t, s, used(1), 6)
	list[0].Allocations[0].Tags[0].Value = "green" // as much, for someone else
	write(t, s, "file", list)
	wantHeld(t, s, used(1), 12)
}

// What became of a batch is what became of it at first, not what would become of it now.
func TestBatchAgainLater(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		then func(t testing.TB, s *memory.Store)
		now  time.Time
		want error // of a batch that comes for the first time
	}{
		{"after the commit", func(t testing.TB, s *memory.Store) { commit(t, s, used(1)) }, noon, usage.ErrHourCommitted},
		{"after the hour has closed", func(testing.TB, *memory.Store) {}, noon.Add(25 * time.Hour), errClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := memory.New(memory.Options{})
			wantAnswers(t, write(t, s, "file", batch()), nil, nil, nil)
			tt.then(t, s)
			w := writer(t, s, usage.Options{Now: func() time.Time { return tt.now }})
			errs, err := w.WriteBatch(t.Context(), "file", batch())
			if err != nil {
				t.Fatal(err)
			}
			wantAnswers(t, errs, nil, nil, nil)
			errs, err = w.WriteBatch(t.Context(), "another file", batch())
			if err != nil {
				t.Fatal(err)
			}
			wantAnswers(t, errs, tt.want, tt.want, tt.want)
			wantHeld(t, s, used(1), 20, 3)
		})
	}
}

// A batch that was late stays late.
func TestLateBatchAgain(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	l := &line{Table: s, before: func() {
		if _, err := s.CreateRecord(t.Context(), metering.NewRecord(groupOf(used(1)), 8)); err != nil {
			t.Error(err)
		}
	}}
	wantAnswers(t, write(t, l, "file", batch()), usage.ErrLate, usage.ErrLate, usage.ErrLate)
	wantAnswers(t, write(t, s, "file", batch()), usage.ErrLate, usage.ErrLate, usage.ErrLate)
	wantHeld(t, s, used(1), 20, 3)
}

func TestBatchUnknown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name                   string
		reads, writes, answers error
		sent                   bool
	}{
		{"reads fail", errLine, nil, nil, false},
		{"writes fail", nil, errLine, nil, true},
		{"answers are lost", nil, nil, errLine, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, l, s := setup(t, usage.Options{})
				l.cut(tt.reads, tt.writes, tt.answers)
				errs, err := w.WriteBatch(t.Context(), "file", batch())
				wantAnswers(t, errs, usage.ErrUnknown, usage.ErrUnknown, usage.ErrUnknown)
				rows := rowErrors(t, err)
				if len(rows) != 2 || !errors.Is(err, errLine) || rows[0].Sent != tt.sent {
					t.Fatalf("WriteBatch: %v", err)
				}
				wantAnswers(t, write(t, s, "file", batch()), nil, nil, nil)
				wantHeld(t, s, used(1), 20, 3)
			})
		})
	}
}

// A line that fails now and then is nothing that a caller hears of.
func TestBatchTriesAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l, s := setup(t, usage.Options{})
		tries := 0
		l.before = func() {
			l.cut(nil, nil, errLine)
			if tries++; tries > 2 {
				l.cut(nil, nil, nil)
			}
		}
		errs, err := w.WriteBatch(t.Context(), "file", batch())
		if err != nil {
			t.Fatal(err)
		}
		wantAnswers(t, errs, nil, nil, nil)
		wantHeld(t, s, used(1), 20, 3)
	})
}

func TestBatchAfterItsContext(t *testing.T) {
	t.Parallel()
	w, l, s := setup(t, usage.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs, err := w.WriteBatch(ctx, "file", batch())
	if rows := rowErrors(t, err); !errors.Is(err, context.Canceled) || len(rows) != 2 || rows[0].Sent || len(l.tokens()) != 0 {
		t.Errorf("WriteBatch: %v", err)
	}
	wantAnswers(t, errs, usage.ErrUnknown, usage.ErrUnknown, usage.ErrUnknown)
	wantHeld(t, s, used(1))
	if _, err := w.WriteBatch(t.Context(), "", batch()); err == nil {
		t.Error("a batch without an id was taken")
	}
}

// A client that lost patience asks again while its first request is still being written: the second waits, and hears the same.
func TestBatchOvertakesNotItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l, s := setup(t, usage.Options{})
		calls := 0
		l.before = func() {
			if calls++; calls == 1 {
				commit(t, s, used(1))
				time.Sleep(time.Minute)
			}
		}
		first := make(chan []error, 1)
		go func() {
			errs, _ := w.WriteBatch(t.Context(), "request", batch())
			first <- errs
		}()
		synctest.Wait()
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.WriteBatch(impatient, "request", batch()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second request: %v", err)
		}
		errs, err := w.WriteBatch(t.Context(), "request", batch())
		if err != nil {
			t.Fatal(err)
		}
		wantAnswers(t, errs, usage.ErrLate, usage.ErrLate, usage.ErrLate)
		wantAnswers(t, <-first, usage.ErrLate, usage.ErrLate, usage.ErrLate)
	})
}

// However many rows a batch has, each group's record is read once before and once after.
func TestBatchReadsEachGroupOnce(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	list := events(10_000, 50, 20*time.Second, true)
	before := s.Stats()
	for i, err := range write(t, s, "file", list) {
		if err != nil {
			t.Fatal(i, err)
		}
	}
	after := s.Stats()
	if reads := after.Queries - before.Queries; reads > 2*(2*50)+4 { // two hours for each buyer, and what chunks cut in two
		t.Errorf("%d reads", reads)
	}
}
