package usage_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/usage"
)

func setup(t testing.TB, o usage.Options) (*usage.Writer, *line, *memory.Store) {
	s := memory.New(memory.Options{})
	l := &line{Table: s}
	return writer(t, l, o), l, s
}

func wantHeld(t testing.TB, s *memory.Store, e usage.Event, quantities ...int64) {
	t.Helper()
	var got []int64
	for row, err := range s.GroupRows(t.Context(), groupOf(e)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row.Quantity.N)
	}
	if diff := cmp.Diff(quantities, got); diff != "" {
		t.Errorf("the rows hold (-want +got):\n%s", diff)
	}
}

// rowErrors takes the rows out of an error.
func rowErrors(t testing.TB, err error) usage.RowErrors {
	t.Helper()
	var rows usage.RowErrors
	if !errors.As(err, &rows) {
		t.Fatalf("no rows are named by %v", err)
	}
	return rows
}

func TestHourCommitted(t *testing.T) {
	t.Parallel()
	w, l, s := setup(t, usage.Options{})
	add(t, w, used(3))
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	commit(t, s, used(1))
	add(t, w, used(4), at(used(5), noon.Add(-10*time.Minute)), used(6))
	err := w.Flush(t.Context())
	rows := rowErrors(t, err)
	if len(rows) != 2 || !errors.Is(rows[0], usage.ErrHourCommitted) || !errors.Is(rows[1], usage.ErrHourCommitted) || errors.Is(err, usage.ErrLate) {
		t.Fatalf("Flush: %v", err)
	}
	if !strings.Contains(rows[0].Error(), "book it in the current hour; "+metering.CommittedForGood) {
		t.Errorf("it leads on nowhere: %v", rows[0])
	}
	if rows[0].Quantity != 5 || rows[1].Quantity != 10 || rows[1].Sent {
		t.Errorf("named: %+v, %+v", rows[0].Row, rows[1].Row)
	}
	wantHeld(t, s, used(1), 3)
	if n := len(l.tokens()); n != 1 {
		t.Errorf("%d flushes were sent, want 1", n)
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Errorf("a second Flush says it again: %v", err)
	}
}

func TestLate(t *testing.T) {
	t.Parallel()
	direct := metering.NewRecord(groupOf(used(1)), 8)
	unreadable := direct
	unreadable.Manifest = "v9 1"
	for _, tt := range []struct {
		name   string
		record func(t testing.TB, s *memory.Store) // made between the look and the write
		batch  []usage.Event
		want   error
	}{
		{"committed with another row", func(t testing.TB, s *memory.Store) {
			other := writer(t, s, usage.Options{})
			add(t, other, at(used(8), noon.Add(-5*time.Minute)))
			if err := other.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			commit(t, s, used(1))
		}, []usage.Event{used(3)}, usage.ErrLate},
		{"nothing is never late", func(t testing.TB, s *memory.Store) {
			if err := s.PutRecord(t.Context(), direct); err != nil {
				t.Fatal(err)
			}
		}, []usage.Event{used(0)}, nil},
		{"written directly", func(t testing.TB, s *memory.Store) {
			if err := s.PutRecord(t.Context(), direct); err != nil {
				t.Fatal(err)
			}
		}, []usage.Event{used(3)}, usage.ErrLate},
		{"a manifest that cannot be read", func(t testing.TB, s *memory.Store) {
			if err := s.PutRecord(t.Context(), unreadable); err != nil {
				t.Fatal(err)
			}
		}, []usage.Event{used(3)}, usage.ErrLate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, l, s := setup(t, usage.Options{})
			l.before = func() { tt.record(t, s) }
			errs, err := w.WriteBatch(t.Context(), "id", tt.batch)
			if err != nil || !errors.Is(errs[0], tt.want) {
				t.Fatalf("WriteBatch: %v, %v; want %v", errs, err, tt.want)
			}
			if rows := held(t, s, used(1)); rows["2026-03-10T15:19:59"] != tt.batch[0].Quantity {
				t.Errorf("the rows hold %v", rows)
			}
		})
	}
}

// A reply that is lost, and the hour committed before the next try: the row stands in the record, so it is neither late nor
// written again.
func TestLostReplyThenCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l, s := setup(t, usage.Options{})
		l.cut(nil, nil, errLine)
		add(t, w, used(3))
		if err := w.Flush(t.Context()); !errors.Is(err, usage.ErrUnknown) || !errors.Is(err, errLine) {
			t.Fatalf("Flush: %v", err)
		}
		commit(t, s, used(1))
		l.cut(nil, nil, nil)
		if err := w.Flush(t.Context()); err != nil {
			t.Errorf("Flush: %v", err)
		}
		wantHeld(t, s, used(1), 3)
		for _, token := range l.tokens() {
			if token != l.tokens()[0] {
				t.Errorf("a second token: %v", l.tokens())
			}
		}
	})
}

// A write that may have been lost on its way, and the hour committed without it: whether it was written only a second try can
// tell, and that is late.
func TestLostWriteThenCommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l, s := setup(t, usage.Options{})
		l.cut(nil, errLine, nil)
		add(t, w, used(3))
		if err := w.Flush(t.Context()); !errors.Is(err, usage.ErrUnknown) {
			t.Fatalf("Flush: %v", err)
		}
		if err := s.PutRecord(t.Context(), metering.NewRecord(groupOf(used(1)), 8)); err != nil {
			t.Fatal(err)
		}
		l.cut(nil, nil, nil)
		add(t, w, at(used(4), noon.Add(-5*time.Minute))) // of the same hour, and never sent
		rows := rowErrors(t, w.Flush(t.Context()))
		if len(rows) != 2 || !errors.Is(rows[0], usage.ErrHourCommitted) || rows[0].Quantity != 4 || !errors.Is(rows[1], usage.ErrLate) {
			t.Errorf("Flush: %v", rows)
		}
		wantHeld(t, s, used(1), 3)
	})
}

// While the look before fails, nothing is sent, so nothing is uncertain.
func TestLookBeforeFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l, s := setup(t, usage.Options{})
		l.cut(errLine, nil, nil)
		add(t, w, used(3))
		err := w.Flush(t.Context())
		if rows := rowErrors(t, err); len(rows) != 1 || rows[0].Sent || !errors.Is(err, errLine) || len(l.tokens()) != 0 {
			t.Fatalf("Flush: %v after %d flushes", err, len(l.tokens()))
		}
		commit(t, s, used(1))
		l.cut(nil, nil, nil)
		if err := w.Flush(t.Context()); !errors.Is(err, usage.ErrHourCommitted) {
			t.Errorf("Flush: %v", err)
		}
		wantHeld(t, s, used(1))
	})
}

// One unresolved flush for each row: what is added meanwhile gathers behind it.
func TestOneFlushARow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var told []int64
		w, l, s := setup(t, usage.Options{Outcome: func(o usage.Outcome) { told = append(told, o.Quantity) }})
		l.cut(nil, errLine, nil)
		add(t, w, used(3))
		for range 3 {
			rows := rowErrors(t, w.Flush(t.Context()))
			if n := len(rows); n != 1 && n != 2 {
				t.Fatalf("%d rows: %v", n, rows)
			}
			add(t, w, used(1))
		}
		tokens := l.tokens()
		for _, token := range tokens {
			if token != tokens[0] || len(token) != 22 {
				t.Fatalf("more than one token while the first has no answer: %v", tokens)
			}
		}
		l.cut(nil, nil, nil)
		time.Sleep(2 * time.Minute) // in the background
		synctest.Wait()
		wantHeld(t, s, used(1), 6)
		if diff := cmp.Diff([]int64{3, 3}, told); diff != "" {
			t.Error(diff)
		}
	})
}

// An event waits FlushEvery at most, and with FlushEvery as long as a row, a row is written once.
func TestFlushEvery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l, s := setup(t, usage.Options{})
		time.Sleep(41 * time.Second) // the background looks at any time
		for range 60 {
			add(t, w, used(1))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		wantHeld(t, s, used(1), 60)
		if n := len(l.tokens()); n != 1 {
			t.Errorf("%d flushes, want 1", n)
		}
	})
}

func TestBackPressure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l, s := setup(t, usage.Options{MaxRows: 2})
		l.cut(nil, errLine, nil)
		older := at(used(2), noon.Add(-5*time.Minute))
		add(t, w, used(1), older, used(1), older) // two rows, however many events
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		third := at(used(4), noon.Add(-10*time.Minute))
		if err := w.Add(ctx, third); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Fatalf("Add to a full writer: %v after %v", err, time.Since(start))
		} else if !errors.Is(err, errLine) {
			t.Errorf("Add does not say why there is no room: %v", err)
		}
		if err := w.Add(t.Context(), used(-1)); err == nil {
			t.Error("what is refused waits for room")
		}
		var all sync.WaitGroup
		for range 20 { // many wait, and one row's room is enough for all
			all.Go(func() {
				if err := w.Add(t.Context(), third); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Hour)
		if n := len(held(t, s, third)); n != 0 {
			t.Fatalf("%d rows came through a line that is down", n)
		}
		l.cut(nil, nil, nil)
		all.Wait() // the background writes at once, not at the next FlushEvery
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
		wantHeld(t, s, third, 80, 4, 2)
	})
}

// A full writer is flushed at once: nobody waits for FlushEvery.
func TestFullWriterFlushes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, s := setup(t, usage.Options{MaxRows: 3})
		start := time.Now()
		for i := range 50 {
			add(t, w, at(tagged(1, "blue"), noon.Add(-time.Duration(i)*time.Minute)))
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("Add waited %v", d)
		}
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(held(t, s, used(1))) + len(held(t, s, at(used(1), noon.Add(-time.Hour)))); n != 50 {
			t.Errorf("%d rows, want 50", n)
		}
	})
}

// Without Outcome no answer is dropped: Add stops when nobody reads them.
func TestUnreadAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, _, s := setup(t, usage.Options{Fold: time.Second})
		commit(t, s, used(1))
		var err error
		n := 0
		for ; err == nil && n < 2000; n++ {
			if n%100 == 0 {
				time.Sleep(2 * time.Minute)
			}
			err = w.Add(t.Context(), at(used(1), noon.Add(-time.Minute-time.Duration(n%1200)*time.Second)))
		}
		if err == nil || !strings.Contains(err.Error(), "call Flush") {
			t.Fatalf("Add %d: %v", n, err)
		}
		if rows := rowErrors(t, w.Flush(t.Context())); len(rows) != n-1 {
			t.Errorf("%d rows are named of %d", len(rows), n-1)
		}
		add(t, w, at(used(1), noon))
	})
}

// TestRowIsDropped: what would be added to a row that an operator has dropped would never be billed, so it is not said to be written.
func TestRowIsDropped(t *testing.T) {
	t.Parallel()
	w, _, s := setup(t, usage.Options{})
	if errs, err := w.WriteBatch(t.Context(), "first", []usage.Event{used(1)}); err != nil || errs[0] != nil {
		t.Fatal(errs, err)
	}
	drop := func(old *metering.Row) (metering.Row, bool) {
		r := *old
		r.Pending, r.Status, r.StatusReason, r.Dropped = "", metering.RejectedClientSide, "because", true
		return r, true
	}
	for r, err := range s.LicenseRows(t.Context(), used(1).License) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.UpdateRow(t.Context(), r.License, r.SortKey, drop); err != nil {
			t.Fatal(err)
		}
	}
	errs, err := w.WriteBatch(t.Context(), "more", []usage.Event{used(1)})
	var refusal *usage.Refusal
	if err != nil || !errors.As(errs[0], &refusal) || refusal.Reason != usage.RowDropped || !errors.Is(errs[0], metering.ErrRowDropped) || refusal.Hint == "" {
		t.Errorf("WriteBatch: %v, %v", errs, err)
	}
	if errs, err := w.WriteBatch(t.Context(), "first", []usage.Event{used(1)}); err != nil || errs[0] != nil {
		t.Errorf("a batch that stands in the dropped row: %v, %v", errs, err)
	}
	wantHeld(t, s, used(1), 1)
}

func TestRowIsFull(t *testing.T) {
	t.Parallel()
	w, _, s := setup(t, usage.Options{})
	for i := range metering.MaxFlushes {
		if errs, err := w.WriteBatch(t.Context(), fmt.Sprint(i), []usage.Event{used(1)}); err != nil || errs[0] != nil {
			t.Fatal(errs, err)
		}
	}
	errs, err := w.WriteBatch(t.Context(), "one more", []usage.Event{used(1)})
	var refusal *usage.Refusal
	if err != nil || !errors.As(errs[0], &refusal) || refusal.Reason != usage.RowFull || !errors.Is(errs[0], metering.ErrRowFull) {
		t.Errorf("WriteBatch: %v, %v", errs, err)
	}
	if errs, err := w.WriteBatch(t.Context(), "0", []usage.Event{used(1)}); err != nil || errs[0] != nil {
		t.Errorf("a batch that stands in a full row: %v, %v", errs, err)
	}
	wantHeld(t, s, used(1), metering.MaxFlushes)
}

// What stands in the table can refuse what no event alone could.
func TestRefusedByTheTable(t *testing.T) {
	t.Parallel()
	big := used(1)
	for i := range 2400 {
		big.Allocations = append(big.Allocations, usage.Allocation{Tags: []usage.Tag{{Key: fmt.Sprint(i), Value: strings.Repeat("x", 250)}}})
	}
	big.Allocations[0].Quantity = 1
	for _, tt := range []struct {
		first, second usage.Event
		want          usage.Reason
	}{
		{used(1), tagged(2, "blue"), "MixedAllocatedAndUnallocated"},
		{tagged(2, "blue"), used(1), "MixedAllocatedAndUnallocated"},
		{used(1), used(metering.MaxQuantity), "QuantityOutOfRange"},
		{used(0), big, usage.RowTooLarge}, // case 32
	} {
		w, _, s := setup(t, usage.Options{})
		for i, e := range []usage.Event{tt.first, tt.second} {
			add(t, w, e)
			err := w.Flush(t.Context())
			var refusal *usage.Refusal
			if i == 0 && err != nil || i == 1 && (!errors.As(err, &refusal) || refusal.Reason != tt.want) {
				t.Errorf("Flush %d: %v, want %s", i, err, tt.want)
			}
		}
		wantHeld(t, s, used(1), tt.first.Quantity)
	}
}

// Many goroutines, several writers, the same rows.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	var all sync.WaitGroup
	for range 3 {
		w := writer(t, s, usage.Options{MaxRows: 20, Parallel: 2})
		for g := range 8 {
			all.Go(func() {
				for i := range 200 {
					if err := w.Add(t.Context(), at(used(1), noon.Add(-time.Duration(i%60)*time.Minute))); err != nil {
						t.Error(err)
					}
					if (i+g*25)%100 == 99 {
						if err := w.Flush(t.Context()); err != nil {
							t.Error(err)
						}
					}
				}
				if err := w.Flush(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	var sum int64
	for _, e := range []usage.Event{at(used(1), noon), at(used(1), noon.Add(-time.Hour))} {
		for _, q := range held(t, s, e) {
			sum += q
		}
	}
	if sum != 3*8*200 {
		t.Errorf("the rows hold %d, want %d", sum, 3*8*200)
	}
}

// A row that never went out is not said to be in the balance: nothing was written, and that is all.
func TestUnsentRowSaysSo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cut  func(*line)
		says string
	}{
		"the look before fails": {func(l *line) { l.cut(errLine, nil, nil) }, "so nothing was written; after Close give it to Resend"},
		"the write fails":       {func(l *line) { l.cut(nil, errLine, nil) }, "it is unknown whether it was written"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, l, _ := setup(t, usage.Options{})
				c.cut(l)
				add(t, w, used(3))
				err := w.Flush(t.Context())
				if !errors.Is(err, usage.ErrUnknown) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "unknown") != (name == "the write fails") {
					t.Errorf("Flush: %v", err)
				}
				l.cut(nil, nil, nil)
				if err := w.Close(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
