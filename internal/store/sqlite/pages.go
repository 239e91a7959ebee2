package sqlite

import (
	"context"
	"database/sql/driver"
	"iter"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// place is where a read stands: after this item.
type place struct {
	series int64
	prefix string
	tail   any
}

// page collects items until it is full.
type page[T any] struct {
	items []T
	last  place
	size  int
	limit int
	full  bool
}

// add takes an item in and reports whether there is room for another.
func (p *page[T]) add(item T, at place, size int) bool {
	p.items, p.last, p.size = append(p.items, item), at, p.size+size
	p.full = p.size >= p.limit || len(p.items) >= maxPage
	return !p.full
}

// pages yields what fetch puts into its pages, each read on its own; between them no connection is held.
func pages[T any](ctx context.Context, s *Store, fetch func(d *decoder, p *page[T], after place) error) iter.Seq2[T, error] {
	return store.Pages(ctx, func(ctx context.Context, after place) ([]T, place, bool, error) {
		p := page[T]{limit: s.pageBytes}
		err := s.read(ctx, func(d *decoder) error {
			p = page[T]{limit: s.pageBytes}
			return fetch(d, &p, after)
		})
		return p.items, p.last, p.full, err // full: whether anything is left is for the next page to find out
	})
}

// pending reads a pending index, of every license or of the one named.
func pending[T any](ctx context.Context, s *Store, hour metering.Hour, license, columns, table string, item func(*decoder, []driver.Value) (T, int, error)) iter.Seq2[T, error] {
	all := "SELECT series, tail, " + columns + " FROM " + table + " WHERE pending = ? AND (series, tail) > (?, ?) ORDER BY series, tail"
	own := "SELECT series, tail, " + columns + " FROM " + table + " WHERE pending = ? AND series = ? AND tail > ? ORDER BY tail"
	return pages(ctx, s, func(d *decoder, p *page[T], after place) error {
		take := func(v []driver.Value) (bool, error) {
			id, _ := v[0].(int64)
			at := place{series: id, prefix: after.prefix, tail: v[1]}
			it, size, err := item(d, v)
			return p.add(it, at, size), err
		}
		if license == "" {
			return d.query(all, []any{int64(hour), after.series, first(after.tail)}, take)
		}
		return eachSeries(d, license, after, func(in *series, tail any) (bool, error) {
			after.prefix = in.prefix
			err := d.query(own, []any{int64(hour), in.id, tail}, take)
			return !p.full, err
		})
	})
}

// first is a tail to begin after: nothing sorts before the smallest number, the empty text's place is not used.
func first(tail any) any {
	if tail == nil {
		return int64(-1 << 63)
	}
	return tail
}

// eachSeries visits the series of a license in the order of their prefixes, from a place on.
func eachSeries(d *decoder, license string, after place, visit func(in *series, tail any) (bool, error)) error {
	prefix, tail := after.prefix, after.tail
	if tail != nil {
		in, err := d.names.find(d.conn, seriesKey{license, prefix})
		if err != nil {
			return err
		}
		if in != nil {
			if on, err := visit(in, tail); err != nil || !on {
				return err
			}
		}
	}
	started := tail != nil
	for {
		var next *series
		query, args := "SELECT id, prefix FROM series WHERE license = ? AND prefix > ? ORDER BY prefix LIMIT 1", []any{license, prefix}
		if !started {
			query, args = "SELECT id, prefix FROM series WHERE license = ? ORDER BY prefix LIMIT 1", []any{license}
			started = true
		}
		err := d.query(query, args, func(v []driver.Value) (bool, error) {
			id, _ := v[0].(int64)
			next = newSeries(seriesKey{license, text(v[1])}, id)
			return false, nil
		})
		if err != nil || next == nil {
			return err
		}
		prefix = next.prefix
		if on, err := visit(next, first(nil)); err != nil || !on {
			return err
		}
	}
}
