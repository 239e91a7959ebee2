package memory

import (
	"context"
	"iter"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// licensesAPage is how many partition keys one step of Licenses reads.
const licensesAPage = 1000

// Licenses are the licenses that either usage table holds items of, in order.
func (s *Store) Licenses(ctx context.Context) iter.Seq2[string, error] {
	return store.Pages(ctx, func(_ context.Context, after string) ([]string, string, bool, error) {
		s.queries.Add(1)
		s.mu.RLock()
		defer s.mu.RUnlock()
		found := merge(keysAfter(&s.rows.shelf, after), keysAfter(&s.records.shelf, after))
		s.itemsRead.Add(int64(len(found)))
		if len(found) < licensesAPage {
			return found, "", false, nil
		}
		found = found[:licensesAPage]
		return found, found[licensesAPage-1], true, nil
	})
}

func keysAfter[T any](s *shelf[T], after string) []string {
	var keys []string
	s.partitions.Ascend(after, func(license string, _ *partition[T]) bool {
		if license != after {
			keys = append(keys, license)
		}
		return len(keys) < licensesAPage
	})
	return keys
}

// merge joins two sorted lists without repeats.
func merge(a, b []string) []string {
	out := make([]string, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] < b[0]:
			out, a = append(out, a[0]), a[1:]
		case b[0] < a[0]:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		}
	}
	return append(append(out, a...), b...)
}

// LicenseRows are all rows of a license, in the order of their keys.
func (s *Store) LicenseRows(ctx context.Context, license string) iter.Seq2[metering.Row, error] {
	return pages(ctx, s, read[metering.Row, metering.Row]{
		shelf: func() *shelf[metering.Row] { return &s.rows.shelf },
		from:  place{license: license}, one: true,
		view: cloneRow, size: store.RowSize,
	})
}

// LicenseRecords are all records of a license with every attribute, in the order of their keys.
func (s *Store) LicenseRecords(ctx context.Context, license string) iter.Seq2[metering.Record, error] {
	return pages(ctx, s, read[metering.Record, metering.Record]{
		shelf: func() *shelf[metering.Record] { return &s.records.shelf },
		from:  place{license: license}, one: true,
		view: cloneRecord, size: store.RecordSize,
	})
}

// Waiting is what waits, by bucket.
func (s *Store) Waiting(ctx context.Context) ([]store.Waiting, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.queries.Add(1)
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := store.Backlog{}
	for bucket, shelf := range s.rows.pending {
		w := list.Of(bucket)
		shelf.from(place{}, false, func(_ place, r *metering.Row) bool {
			units, _ := r.Quantity.Count()
			w.Rows, w.Units = w.Rows+1, w.Units+units
			return true
		})
	}
	for bucket, shelf := range s.records.pending {
		w := list.Of(bucket)
		shelf.from(place{}, false, func(_ place, r *metering.Record) bool {
			units, _ := r.Quantity.Count()
			w.Records, w.Units = w.Records+1, w.Units+units
			return true
		})
	}
	return list.List(), nil
}
