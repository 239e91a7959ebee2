// Package local writes usage into the store of one machine, the folder that awsmp dev runs on. Any number of programs may have
// it open, with a node running or not.
package local

import (
	"context"
	"sync"
	"time"

	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
	"github.com/awsmp/metering/usage"
)

// Table is a folder's store. It is a usage.Table, and safe for concurrent use.
type Table struct {
	store *sqlite.Store

	mu     sync.Mutex
	offset time.Duration
	read   time.Time
}

var _ usage.Table = (*Table)(nil)

// Open opens the store in a folder, which must exist, and makes the store where there is none. The error says what to do where the
// store is locked or damaged, or was written by a newer release. The caller closes the table after the writer.
func Open(ctx context.Context, dir string) (*Table, error) {
	store, err := sqlite.Open(ctx, folder.Store(dir), sqlite.Options{})
	if err != nil {
		return nil, err
	}
	t := &Table{store: store}
	if t.offset, _, err = folder.Offset(ctx, store); err != nil {
		_ = store.Close()
		return nil, err
	}
	t.read = time.Now()
	return t, nil
}

// Close closes the store.
func (t *Table) Close() error { return t.store.Close() }

// offsetAge is how old the clock's offset may be that Now goes by.
const offsetAge = 100 * time.Millisecond

// Now is the folder's time: real time, or where awsmp clock has moved it. It belongs into usage.Options.
func (t *Table) Now() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	if now.Sub(t.read) > offsetAge {
		if d, _, err := folder.Offset(context.Background(), t.store); err == nil { // else the one before
			t.offset = d
		}
		t.read = now
	}
	return now.Add(t.offset)
}

// Record reads a group's record, for usage.Writer.
func (t *Table) Record(ctx context.Context, g metering.Group) (*metering.Record, error) {
	return t.store.Record(ctx, g)
}

// Row reads a row, for usage.Writer.
func (t *Table) Row(ctx context.Context, license, sortKey string) (*metering.Row, error) {
	return t.store.Row(ctx, license, sortKey)
}

// FlushRows applies flushes, for usage.Writer.
func (t *Table) FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed {
	return t.store.FlushRows(ctx, flushes)
}
