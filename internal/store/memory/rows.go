package memory

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// PutRow writes a row as its seller does: without condition, in the place of whatever stood there. It fails with
// metering.ErrTooLarge where the row exceeds 400 KB.
func (s *Store) PutRow(ctx context.Context, r metering.Row) error {
	return s.write(ctx, func() error { return s.setRow(r) })
}

// PutRows writes rows as PutRow does, all in one step; where one cannot be written none is.
func (s *Store) PutRows(ctx context.Context, rows []metering.Row) error {
	return s.write(ctx, func() error {
		for i := range rows {
			if err := store.CheckRow(&rows[i]); err != nil {
				return err
			}
		}
		for _, r := range rows {
			if err := s.setRow(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// FlushRows applies a writer's flushes, each where nothing stands against it. The results are in the order of the flushes.
func (s *Store) FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed {
	out := make([]metering.Flushed, len(flushes))
	err := s.write(ctx, func() error {
		for i, f := range flushes {
			out[i] = s.flush(f)
		}
		return nil
	})
	if err != nil {
		for i := range out {
			out[i].Err = err
		}
	}
	return out
}

func (s *Store) flush(f metering.Flush) metering.Flushed {
	old := s.rows.get(place{f.Group.License, f.SortKey()})
	switch {
	case old == nil && f.Refused(nil) != nil:
		return metering.Flushed{}
	case old != nil && (f.Shows(*old) || f.Refused(old) != nil):
		c := cloneRow(old)
		return metering.Flushed{Done: f.Shows(c), Row: &c}
	}
	r := f.Apply(old)
	if err := s.setRow(r); err != nil {
		return metering.Flushed{Err: err}
	}
	r = cloneRow(&r)
	return metering.Flushed{Done: true, Row: &r}
}

// Row reads a row as it stands; nil where there is none.
func (s *Store) Row(ctx context.Context, license, sortKey string) (*metering.Row, error) {
	return one(ctx, s, func() *metering.Row { return s.rows.get(place{license, sortKey}) }, cloneRow)
}

// DeleteRow removes a row, if there is one.
func (s *Store) DeleteRow(ctx context.Context, license, sortKey string) error {
	return s.write(ctx, func() error {
		s.rows.remove(place{license, sortKey})
		return nil
	})
}

// UpdateRow reads a row, nil where there is none, lets change make another of it and writes that, all in one step.
// Where change returns false nothing is written and the outcome carries the row as it stood. Change must not call the store.
func (s *Store) UpdateRow(ctx context.Context, license, sortKey string, change func(old *metering.Row) (metering.Row, bool)) (out metering.Outcome[metering.Row], err error) {
	err = s.write(ctx, func() error {
		var old *metering.Row
		if item := s.rows.get(place{license, sortKey}); item != nil {
			c := cloneRow(item)
			old = &c
		}
		r, ok := change(old)
		if !ok {
			out.Old = old
			return nil
		}
		if r.License != license || r.SortKey != sortKey {
			return fmt.Errorf("update row %s: it became %s of %s, a key never changes", sortKey, r.SortKey, r.License)
		}
		out.Done = true
		return s.setRow(r)
	})
	if err != nil {
		return metering.Outcome[metering.Row]{}, err
	}
	return out, nil
}

// PendingRows reads the pending index under one bucket, in the order of license and sort key: of every license, or of the
// one named.
func (s *Store) PendingRows(ctx context.Context, hour metering.Hour, license string) iter.Seq2[metering.PendingRow, error] {
	bucket := hour.String()
	return pages(ctx, s, read[metering.Row, metering.PendingRow]{
		shelf: func() *shelf[metering.Row] { return s.rows.pending[bucket] },
		from:  place{license: license}, one: license != "",
		view: func(r *metering.Row) metering.PendingRow {
			return metering.PendingRow{License: r.License, SortKey: r.SortKey, Bucket: r.Pending, Account: r.Account, Dimension: r.Dimension}
		},
		size: func(r *metering.Row) int {
			return len(r.License) + len(r.SortKey) + len(r.Pending) + len(r.Account) + len(r.Dimension) + 100
		},
	})
}

// GroupRows reads the rows whose key begins with the group's prefix, in the order of their keys.
func (s *Store) GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error] {
	prefix := g.RowPrefix()
	return pages(ctx, s, read[metering.Row, metering.Row]{
		shelf: func() *shelf[metering.Row] { return &s.rows.shelf },
		from:  place{g.License, prefix}, one: true,
		until: func(key string) bool { return !strings.HasPrefix(key, prefix) },
		view:  cloneRow, size: store.RowSize,
	})
}

// LabelRow writes a label where its condition holds; else the outcome carries the row that stood against it. A row without
// room for its reason ends all the same: store.Fit.
func (s *Store) LabelRow(ctx context.Context, l metering.Label) (metering.Outcome[metering.Row], error) {
	out := s.LabelRows(ctx, []metering.Label{l})
	return out[0].Outcome, out[0].Err
}

// LabelRows writes labels as LabelRow does, all in one step. The results are in the order of the labels.
func (s *Store) LabelRows(ctx context.Context, labels []metering.Label) []metering.Labelled {
	out := make([]metering.Labelled, len(labels))
	err := s.write(ctx, func() error {
		for i, l := range labels {
			out[i].Err = store.Fit(l, func(l store.Labelling) (err error) {
				out[i].Outcome, err = s.changeRow(place{l.License, l.SortKey}, l.Holds, l.Apply)
				return err
			})
		}
		return nil
	})
	if err != nil {
		for i := range out {
			out[i].Err = err
		}
	}
	return out
}

// RebucketRow moves a row to its right bucket where it still stands under the wrong one; else the outcome carries the row
// that stood against it.
func (s *Store) RebucketRow(ctx context.Context, b metering.Rebucket) (out metering.Outcome[metering.Row], err error) {
	err = s.write(ctx, func() error {
		out, err = s.changeRow(place{b.License, b.SortKey}, b.Holds, b.Apply)
		return err
	})
	return out, err
}

// changeRow is a conditional write on a row that exists. It never makes one.
func (s *Store) changeRow(at place, holds func(metering.Row) bool, apply func(metering.Row) metering.Row) (out metering.Outcome[metering.Row], err error) {
	old := s.rows.get(at)
	if old == nil {
		return out, nil
	}
	if !holds(*old) {
		c := cloneRow(old)
		return metering.Outcome[metering.Row]{Old: &c}, nil
	}
	if err := s.setRow(apply(*old)); err != nil {
		return out, err
	}
	return metering.Outcome[metering.Row]{Done: true}, nil
}

func (s *Store) setRow(r metering.Row) error {
	c := store.NormalRow(cloneRow(&r))
	if err := store.CheckRow(&c); err != nil {
		return err
	}
	in := s.rows.partition(c.License)
	c.License = in.license // a million rows share one string
	shareText(&c)
	s.rows.put(in, c.SortKey, &c)
	return nil
}

// shareText lets the attributes that repeat parts of the sort key be parts of it: a row then holds one string, not five.
func shareText(r *metering.Row) {
	key := r.SortKey
	if tail := len(key) - len(r.Timestamp); strings.HasSuffix(key, r.Timestamp) {
		r.Timestamp = key[tail:]
	}
	if strings.HasPrefix(r.Timestamp, r.Pending) {
		r.Pending = r.Timestamp[:len(r.Pending)]
	}
	if rest, ok := strings.CutPrefix(key, r.Account+"#"); ok {
		r.Account = key[:len(r.Account)]
		if strings.HasPrefix(rest, r.Dimension) {
			r.Dimension = rest[:len(r.Dimension)]
		}
	}
	if r.CreatedAt == r.UpdatedAt {
		r.CreatedAt = r.UpdatedAt
	}
}
