package demo

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// witness is the store, and notes what the stages really wrote: the story is told from that, not from what they meant to do.
type witness struct {
	*memory.Store

	mu      sync.Mutex
	rows    waiting // with a marker
	records waiting
	seen    tally
}

// waiting are items that wait, and the hour in which each is found.
type waiting map[item]metering.Hour

type item struct{ license, sortKey string }

// tally is what was written since the last look.
type tally struct {
	committed ledger.Amount // items: rows
	records   int
	hours     map[metering.Hour]bool
	repaired  int
	rows      map[outcome]ledger.Amount // labels other than Aggregated
	verdicts  map[outcome]ledger.Amount // ends of records
}

type outcome struct {
	status metering.Status
	reason string
}

func newWitness() *witness {
	return &witness{Store: memory.New(memory.Options{}), rows: make(waiting), records: make(waiting)}
}

// take is what was written since the last look.
func (w *witness) take() tally {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.seen
	w.seen = tally{}
	return t
}

// errUnaddable is the error of a line that would take a good row's place with a quantity that cannot be added to it.
var errUnaddable = errors.New("its row already holds a quantity, and this one cannot be added to it")

// Write writes a row as a seller's writer does: a second flush of the same second adds its quantity and allocations to the
// row and marks it again; everything else stays. A row whose quantity is no whole number cannot be added to: the line takes its
// place, as when a seller mends it. The other way round the line fails with errUnaddable: counted units must not vanish.
func (w *witness) Write(ctx context.Context, r metering.Row) error {
	spoils := false
	_, err := w.UpdateRow(ctx, r.License, r.SortKey, func(old *metering.Row) (metering.Row, bool) {
		if spoils = old != nil && old.Quantity.Whole && !r.Quantity.Whole; spoils {
			return metering.Row{}, false
		}
		if old == nil || !old.Quantity.Whole {
			return r, true
		}
		sum := *old
		sum.Quantity = metering.Units(old.Quantity.N + r.Quantity.N)
		sum.Allocations = append(sum.Allocations, r.Allocations...)
		sum.Pending = r.Pending
		return sum, true
	})
	if spoils {
		return errUnaddable
	}
	if err == nil {
		w.wait(w.rows, item{r.License, r.SortKey}, foundIn(r))
	}
	return err
}

// foundIn is the hour by whose end a row can be found: the later of its bucket and its key.
func foundIn(r metering.Row) metering.Hour {
	h, _ := metering.ParseHour(r.Pending)
	if key, reason := metering.ParseRowKey(r.SortKey); reason == "" {
		h = max(h, key.Second.Hour())
	}
	return h
}

func (w *witness) wait(in waiting, i item, h metering.Hour) {
	w.mu.Lock()
	defer w.mu.Unlock()
	in[i] = h
}

// CreateRecord is the store's, noted.
func (w *witness) CreateRecord(ctx context.Context, r metering.Record) (metering.Outcome[metering.Record], error) {
	out, err := w.Store.CreateRecord(ctx, r)
	g, _ := r.Group()
	if err == nil && out.Done {
		w.wait(w.records, item{r.License, r.SortKey}, g.Hour)
		manifest, _ := r.Covers()
		w.note(func(t *tally) {
			t.records++
			t.committed.Items += manifest.Count()
			t.committed.Units += manifest.Sum()
			if t.hours == nil {
				t.hours = make(map[metering.Hour]bool)
			}
			t.hours[g.Hour] = true
		})
	}
	return out, err
}

// LabelRows is the store's, noted.
func (w *witness) LabelRows(ctx context.Context, labels []metering.Label) []metering.Labelled {
	out := w.Store.LabelRows(ctx, labels)
	for i, l := range labels {
		if out[i].Err == nil && out[i].Done {
			w.labelled(ctx, l)
		}
	}
	return out
}

func (w *witness) labelled(ctx context.Context, l metering.Label) {
	units := l.LateQuantity.N
	if l.Status != metering.Aggregated && l.Status != metering.LateUsage {
		if row, err := w.Row(ctx, l.License, l.SortKey); err == nil && row != nil {
			units, _ = row.Quantity.Count()
		}
	}
	w.done(w.rows, item{l.License, l.SortKey}, func(t *tally) {
		if l.Status != metering.Aggregated {
			add(&t.rows, outcome{l.Status, l.Reason}, units)
		}
	})
}

// RebucketRow is the store's, noted.
func (w *witness) RebucketRow(ctx context.Context, b metering.Rebucket) (metering.Outcome[metering.Row], error) {
	out, err := w.Store.RebucketRow(ctx, b)
	if err == nil && out.Done {
		w.note(func(t *tally) { t.repaired++ })
	}
	return out, err
}

// FinishRecord is the store's, noted.
func (w *witness) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	out, err := w.Store.FinishRecord(ctx, f)
	if err != nil || !out.Done {
		return out, err
	}
	units := f.Quantity.N
	if g, reason := metering.ParseRecordKey(f.License, f.SortKey); reason == "" {
		if r, err := w.Record(ctx, g); err == nil && r != nil {
			units, _ = r.Quantity.Count()
		}
	}
	w.done(w.records, item{f.License, f.SortKey}, func(t *tally) { add(&t.verdicts, outcome{f.Status, f.Reason}, units) })
	return out, nil
}

func (w *witness) note(change func(*tally)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.seen)
}

func (w *witness) done(in waiting, i item, change func(*tally)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(in, i)
	change(&w.seen)
}

func add(sums *map[outcome]ledger.Amount, o outcome, units int64) {
	if *sums == nil {
		*sums = make(map[outcome]ledger.Amount)
	}
	a := (*sums)[o]
	(*sums)[o] = ledger.Amount{Items: a.Items + 1, Units: a.Units + units}
}

// inFlight counts what still waits.
func (w *witness) inFlight() (rows, records int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.rows), len(w.records)
}

// nextFound is the start of the earliest hour, of those that began after since, in which something that waits can be found;
// zero where there is none.
func (w *witness) nextFound(since time.Time) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	var first time.Time
	for _, in := range []waiting{w.rows, w.records} {
		for _, h := range in {
			if start := h.Start(); start.After(since) && (first.IsZero() || start.Before(first)) {
				first = start
			}
		}
	}
	return first
}
