// Package memory keeps the tables in ordered maps: for simulations, in which a virtual day costs milliseconds, and as the
// plainest statement of what every other store has to do.
package memory

import (
	"context"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

const defaultPageBytes = 1 << 20

// Options are the settings of a Store.
type Options struct {
	// PageBytes is the size of a page, counted as DynamoDB counts items; 0 means 1 MiB. A page holds one item at least.
	PageBytes int
}

// Store holds the usage, aggregated-usage, subscribers and customer-profile tables. It is safe for concurrent use; what it takes in and
// hands out is copied.
type Store struct {
	pageBytes int

	mu             sync.RWMutex
	rows           table[metering.Row]
	records        table[metering.Record]
	subscribers    map[place]*metering.Subscriber
	deprovisioning map[place]*metering.Subscriber // those of them that are in their last hour
	profiles       map[place]*metering.Profile

	itemsRead, queries, writes atomic.Int64
}

// New makes an empty store.
func New(o Options) *Store {
	if o.PageBytes <= 0 {
		o.PageBytes = defaultPageBytes
	}
	return &Store{
		pageBytes:      o.PageBytes,
		rows:           newTable(func(r *metering.Row) string { return r.Pending }),
		records:        newTable(func(r *metering.Record) string { return r.Pending }),
		subscribers:    make(map[place]*metering.Subscriber),
		deprovisioning: make(map[place]*metering.Subscriber),
		profiles:       make(map[place]*metering.Profile),
	}
}

// Stats counts what was asked of a store since it was made.
type Stats struct {
	ItemsRead int64 // items and index entries that reads returned
	Queries   int64 // pages and single items asked for
	Writes    int64 // writes asked for, refused ones included
}

// Stats are the counts so far.
func (s *Store) Stats() Stats {
	return Stats{ItemsRead: s.itemsRead.Load(), Queries: s.queries.Load(), Writes: s.writes.Load()}
}

// Waits reports whether a row, or a record, waits under a bucket. It is a look at the index that is not counted.
func (s *Store) Waits(bucket string) (rows, records bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.rows.pending[bucket] != nil, s.records.pending[bucket] != nil
}

// Buckets are those under which rows or records wait, in no order, one that both wait under twice. It is not counted either.
func (s *Store) Buckets() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := make([]string, 0, len(s.rows.pending)+len(s.records.pending))
	for bucket := range s.rows.pending {
		list = append(list, bucket)
	}
	for bucket := range s.records.pending {
		list = append(list, bucket)
	}
	return list
}

// write runs one write alone.
func (s *Store) write(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.writes.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	return do()
}

// one reads a single item as it stands; nil where there is none.
func one[T any](ctx context.Context, s *Store, get func() *T, clone func(*T) T) (*T, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.queries.Add(1)
	s.mu.RLock()
	item := get()
	s.mu.RUnlock()
	if item == nil {
		return nil, nil
	}
	s.itemsRead.Add(1)
	c := clone(item) // items are never changed in place
	return &c, nil
}

// read is one ranged read: where it begins and ends, and what it makes of an item.
type read[T, V any] struct {
	shelf func() *shelf[T] // asked at every page; nil where there is none (any more)
	from  place
	one   bool                  // the license of from alone
	until func(key string) bool // the first key that no longer belongs; nil reads on
	view  func(*T) V
	size  func(*T) int
}

// pages yields what a read finds. Between pages no lock is held, and the next page goes on after the last key.
func pages[T, V any](ctx context.Context, s *Store, r read[T, V]) iter.Seq2[V, error] {
	return store.Pages(ctx, func(_ context.Context, cursor place) (items []V, next place, more bool, err error) {
		s.queries.Add(1)
		s.mu.RLock()
		defer s.mu.RUnlock()
		start := cursor
		if cursor == (place{}) {
			start = r.from
		}
		shelf := r.shelf()
		if shelf == nil {
			return nil, place{}, false, nil
		}
		size := 0
		shelf.from(start, r.one, func(at place, item *T) bool {
			if at == cursor {
				return true // the last one of the page before
			}
			if r.until != nil && r.until(at.key) {
				return false
			}
			items, next = append(items, r.view(item)), at
			size += r.size(item)
			more = size >= s.pageBytes // full: whether anything is left is for the next page to find out
			return !more
		})
		s.itemsRead.Add(int64(len(items)))
		return items, next, more, nil
	})
}
