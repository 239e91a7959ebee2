package importer

import (
	"context"
	"sync"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/usage"
)

// tally is a table that counts what the writer adds to it.
type tally struct {
	usage.Table
	// again is set where the file was begun before: then it is looked up which rows hold their flush already.
	again bool

	mu         sync.Mutex
	made, grew int            // rows
	added      map[rowID]bool // where again is set, the rows of this chunk that took their flush now
}

// begin begins the next chunk.
func (t *tally) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.added = make(map[rowID]bool)
}

// before reports whether a row of this chunk took its flush in an earlier run.
func (t *tally) before(row rowID) bool { return t.again && !t.added[row] }

// FlushRows passes the flushes on and counts those that were applied now.
func (t *tally) FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed {
	var held []bool
	if t.again {
		held = make([]bool, len(flushes))
		for i, f := range flushes {
			row, err := t.Row(ctx, f.Group.License, f.SortKey())
			held[i] = err == nil && row != nil && f.Shows(*row)
		}
	}
	out := t.Table.FlushRows(ctx, flushes)
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, o := range out {
		if !o.Done || t.again && held[i] {
			continue
		}
		f := flushes[i]
		if t.again {
			t.added[rowID{f.Group.License, f.Group.Account, f.Group.Dimension, f.Second}] = true
		}
		if len(o.Row.Flushes) > 1 || o.Row.Quantity.N > f.Quantity {
			t.grew++
		} else {
			t.made++
		}
	}
	return out
}

// dryTable answers as the table would, and writes nothing.
type dryTable struct{ Store }

// FlushRows says what would become of the flushes.
func (d dryTable) FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed {
	out := make([]metering.Flushed, len(flushes))
	for i, f := range flushes {
		out[i] = d.flush(ctx, f)
	}
	return out
}

func (d dryTable) flush(ctx context.Context, f metering.Flush) metering.Flushed {
	old, err := d.Row(ctx, f.Group.License, f.SortKey())
	switch {
	case err != nil:
		return metering.Flushed{Err: err}
	case old != nil && f.Shows(*old):
		return metering.Flushed{Done: true, Row: old}
	case f.Refused(old) != nil:
		return metering.Flushed{Row: old}
	}
	row := f.Apply(old)
	return metering.Flushed{Done: true, Row: &row}
}
