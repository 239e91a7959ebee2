package usage_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/usage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	license = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	account = "111122223333"
)

var noon = time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)

func clock() time.Time { return noon }

// used is an event of a minute ago.
func used(quantity int64) usage.Event {
	return usage.Event{License: license, Account: account, Dimension: "api_calls", Time: noon.Add(-time.Minute), Quantity: quantity}
}

func at(e usage.Event, t time.Time) usage.Event {
	e.Time = t
	return e
}

func tagged(quantity int64, team string) usage.Event {
	e := used(quantity)
	e.Allocations = []usage.Allocation{{Quantity: quantity, Tags: []usage.Tag{{Key: "team", Value: team}}}}
	return e
}

func writer(t testing.TB, table usage.Table, o usage.Options) *usage.Writer {
	t.Helper()
	if o.Now == nil {
		o.Now = clock
	}
	w, err := usage.NewWriter(table, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // whatever a test leaves behind is meant to be left
		_ = w.Close(ctx)
	})
	return w
}

func add(t testing.TB, w *usage.Writer, events ...usage.Event) {
	t.Helper()
	for _, e := range events {
		if err := w.Add(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
}

// groupOf is the group of an event.
func groupOf(e usage.Event) metering.Group {
	return metering.Group{License: e.License, Account: e.Account, Dimension: e.Dimension, Hour: metering.HourOf(e.Time)}
}

// held is what the rows of an event's group hold, by their times.
func held(t testing.TB, s *memory.Store, e usage.Event) map[string]int64 {
	t.Helper()
	rows := map[string]int64{}
	for row, err := range s.GroupRows(t.Context(), groupOf(e)) {
		if err != nil {
			t.Fatal(err)
		}
		rows[row.Timestamp] = row.Quantity.N
	}
	return rows
}

// commit meters an event's hour as it stands.
func commit(t testing.TB, s *memory.Store, e usage.Event) {
	t.Helper()
	g := groupOf(e)
	fold := metering.NewFold(g, noon)
	for row, err := range s.GroupRows(t.Context(), g) {
		if err != nil {
			t.Fatal(err)
		}
		fold.Add(row)
	}
	record, reason := fold.Record()
	if reason != "" {
		t.Fatal(reason)
	}
	if _, err := s.CreateRecord(t.Context(), record); err != nil {
		t.Fatal(err)
	}
}

var errLine = errors.New("the line is down")

// line is the way to a table: it can be cut before a write arrives, or before its answer does.
type line struct {
	usage.Table

	mu      sync.Mutex
	reads   error // what reads fail with
	writes  error // what writes fail with; nothing arrives
	answers error // what takes the place of every answer to a write; it has arrived
	sent    []metering.Flush
	before  func() // called before a write
}

func (l *line) cut(reads, writes, answers error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads, l.writes, l.answers = reads, writes, answers
}

func (l *line) faults() (reads, writes, answers error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reads, l.writes, l.answers
}

func (l *line) Record(ctx context.Context, g metering.Group) (*metering.Record, error) {
	if err, _, _ := l.faults(); err != nil {
		return nil, err
	}
	return l.Table.Record(ctx, g)
}

func (l *line) Row(ctx context.Context, license, sortKey string) (*metering.Row, error) {
	if err, _, _ := l.faults(); err != nil {
		return nil, err
	}
	return l.Table.Row(ctx, license, sortKey)
}

func (l *line) FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed {
	if l.before != nil {
		l.before()
	}
	_, writes, answers := l.faults()
	l.mu.Lock()
	l.sent = append(l.sent, flushes...)
	l.mu.Unlock()
	out := make([]metering.Flushed, len(flushes))
	if writes == nil {
		out = l.Table.FlushRows(ctx, flushes)
	}
	for i := range out {
		if err := errors.Join(writes, answers); err != nil {
			out[i] = metering.Flushed{Err: err}
		}
	}
	return out
}

// tokens are the tokens of all flushes that were sent, in order.
func (l *line) tokens() (list []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.sent {
		list = append(list, f.Token)
	}
	return list
}

// swift is a table that does nothing: it takes every flush and keeps none.
type swift struct{}

func (swift) Record(context.Context, metering.Group) (*metering.Record, error) { return nil, nil }
func (swift) Row(context.Context, string, string) (*metering.Row, error)       { return nil, nil }
func (swift) FlushRows(_ context.Context, flushes []metering.Flush) []metering.Flushed {
	out := make([]metering.Flushed, len(flushes))
	row := &metering.Row{}
	for i := range out {
		out[i] = metering.Flushed{Done: true, Row: row}
	}
	return out
}
