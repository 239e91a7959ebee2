// Package local writes usage into the store of one machine, the folder that awsmp dev runs on. Any number of programs may have
// it open, with a node running or not.
package local

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
	"github.com/awsmp/metering/usage"
)

// Table is a folder's store. It is a usage.Table, and safe for concurrent use.
type Table struct {
	store *sqlite.Store
	clock *folder.Clock
}

var _ usage.Table = (*Table)(nil)

// Open opens the store in a folder, which must exist, and makes the store where there is none. The error says what to do where the
// store is locked or damaged, was written by a newer release, or is of an older one whose node still runs. The caller closes the table after the writer.
func Open(ctx context.Context, dir string) (*Table, error) {
	store, err := folder.OpenStore(ctx, dir)
	if p, ok := errors.AsType[*sqlite.Problem](err); ok {
		return nil, fmt.Errorf("open the store: %w\nTry: %s", err, p.Hint)
	}
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	clock, err := folder.NewClock(ctx, store)
	if err != nil {
		_ = store.Close()
		return nil, err
	}
	return &Table{store, clock}, nil
}

// Close closes the store.
func (t *Table) Close() error { return t.store.Close() }

// Now is the folder's time: real time, or where awsmp clock has moved it. The writer goes by it.
func (t *Table) Now() time.Time { return t.clock.Now() }

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
