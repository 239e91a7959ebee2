package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

const (
	putRow   = "INSERT OR REPLACE INTO usage_row (" + rowColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	addRow   = "INSERT INTO usage_row (" + rowColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
	getRow   = "SELECT " + rowColumns + " FROM usage_row WHERE series = ? AND tail = ?"
	labelRow = `UPDATE usage_row SET pending = NULL, label = ?, late = ?, created = coalesce(created, ?), updated = ?
		WHERE series = ? AND tail = ? AND quantity = ? AND odd IS NULL AND (pending IS NOT NULL OR NOT ?)
		AND coalesce(octet_length(allocations), 0) + coalesce(octet_length(flushes), 0) + coalesce(octet_length(customer), 0) < 300000`
	// maxPlain is the most that a key and a reason hold for labelRow, which leaves the row's size below 400 KB without a look at it.
	maxPlain = 30_000
)

// PutRow writes a row as its seller does: without condition, in the place of whatever stood there. It fails with
// metering.ErrTooLarge where the row exceeds 400 KB.
func (s *Store) PutRow(ctx context.Context, r metering.Row) error {
	return s.PutRows(ctx, []metering.Row{r})
}

// PutRows writes rows as PutRow does, all in one step; where one cannot be written none is.
func (s *Store) PutRows(ctx context.Context, rows []metering.Row) error {
	return s.write(ctx, len(rows), func(tx *session) error {
		for i := range rows {
			if err := store.CheckRow(&rows[i]); err != nil {
				return refused(err)
			}
		}
		for _, r := range rows {
			if err := tx.putRow(store.NormalRow(r)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *session) putRow(r metering.Row) error {
	prefix, tail := splitKey(r.SortKey)
	in, err := s.intern(seriesKey{r.License, prefix})
	if err != nil {
		return err
	}
	values, err := s.rowValues(in, secondValue(tail), r)
	if err != nil {
		return err
	}
	_, err = s.exec(putRow, values[:]...)
	return err
}

// findOne reads an item by its key, nil where there is none. Inside a transaction it sees what that has written.
func findOne[T any](d *decoder, query string, in *series, tail any, decode func(*decoder, *series, []driver.Value) (T, error)) (found *T, err error) {
	if in == nil {
		return nil, nil
	}
	err = d.query(query, []any{in.id, tail}, func(v []driver.Value) (bool, error) {
		item, err := decode(d, in, v)
		found = &item
		return false, err
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (d *decoder) find(in *series, tail any) (*metering.Row, error) {
	return findOne(d, getRow, in, tail, (*decoder).rowOf)
}

func (s *session) findRow(license, sortKey string) (*metering.Row, error) {
	prefix, tail := splitKey(sortKey)
	in, err := s.lookup(seriesKey{license, prefix})
	if err != nil {
		return nil, err
	}
	return (&decoder{conn: s.conn, names: s.names, fresh: s.fresh}).find(in, secondValue(tail))
}

// Row reads a row as it stands; nil where there is none.
func (s *Store) Row(ctx context.Context, license, sortKey string) (found *metering.Row, err error) {
	prefix, tail := splitKey(sortKey)
	err = s.read(ctx, func(d *decoder) error {
		in, err := d.names.find(d.conn, seriesKey{license, prefix})
		if err == nil {
			found, err = d.find(in, secondValue(tail))
		}
		return err
	})
	return found, err
}

// DeleteRow removes a row, if there is one.
func (s *Store) DeleteRow(ctx context.Context, license, sortKey string) error {
	return s.remove(ctx, "DELETE FROM usage_row WHERE series = ? AND tail = ?", license, sortKey, secondValue)
}

func (s *Store) remove(ctx context.Context, statement, license, sortKey string, value func(string) any) error {
	return s.write(ctx, 1, func(tx *session) error {
		prefix, tail := splitKey(sortKey)
		in, err := tx.lookup(seriesKey{license, prefix})
		if err != nil || in == nil {
			return err
		}
		_, err = tx.exec(statement, in.id, value(tail))
		return err
	})
}

// UpdateRow reads a row, nil where there is none, lets change make another of it and writes that, all in one step.
// Where change returns false nothing is written and the outcome carries the row as it stood. Change must not call the store, and
// may be called more than once.
func (s *Store) UpdateRow(ctx context.Context, license, sortKey string, change func(old *metering.Row) (metering.Row, bool)) (out metering.Outcome[metering.Row], err error) {
	return outcome(out, s.write(ctx, 1, func(tx *session) error {
		out = metering.Outcome[metering.Row]{}
		old, err := tx.findRow(license, sortKey)
		if err != nil {
			return err
		}
		r, ok := change(old)
		if !ok {
			out.Old = old
			return nil
		}
		if r.License != license || r.SortKey != sortKey {
			return refused(fmt.Errorf("update row %s: it became %s of %s, a key never changes", sortKey, r.SortKey, r.License))
		}
		if err := store.CheckRow(&r); err != nil {
			return refused(err)
		}
		out.Done = true
		return tx.putRow(store.NormalRow(r))
	}))
}

// FlushRows applies a writer's flushes, each where nothing stands against it, in one step. The results are in the order of the
// flushes.
func (s *Store) FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed {
	out := make([]metering.Flushed, len(flushes))
	if len(flushes) == 0 {
		return out
	}
	err := s.write(ctx, len(flushes), func(tx *session) error {
		for i, f := range flushes {
			var err error
			if out[i], err = tx.flush(f); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		for i := range out {
			out[i] = metering.Flushed{Err: err}
		}
	}
	return out
}

func (s *session) flush(f metering.Flush) (metering.Flushed, error) {
	if f.Refused(nil) == nil { // most flushes make their row
		r := f.Apply(nil)
		if err := store.CheckRow(&r); err != nil {
			return metering.Flushed{Err: err}, nil
		}
		in, err := s.intern(seriesOf(f.Group))
		if err != nil {
			return metering.Flushed{}, err
		}
		values, err := s.rowValues(in, int64(f.Second), r)
		if err != nil {
			return metering.Flushed{}, err
		}
		if n, err := s.exec(addRow, values[:]...); err != nil || n == 1 {
			return metering.Flushed{Done: true, Row: &r}, err
		}
	}
	old, err := s.findRow(f.Group.License, f.SortKey())
	if err != nil || old == nil {
		return metering.Flushed{}, err
	}
	if f.Shows(*old) || f.Refused(old) != nil {
		return metering.Flushed{Done: f.Shows(*old), Row: old}, nil
	}
	r := f.Apply(old)
	if err := store.CheckRow(&r); err != nil {
		return metering.Flushed{Err: err}, nil
	}
	return metering.Flushed{Done: true, Row: &r}, s.putRow(r)
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
	if len(labels) == 0 {
		return out
	}
	err := s.write(ctx, len(labels), func(tx *session) error {
		for i, l := range labels {
			out[i] = metering.Labelled{}
			if err := tx.label(&out[i], l); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		for i := range out {
			out[i] = metering.Labelled{Err: err}
		}
	}
	return out
}

func (s *session) label(out *metering.Labelled, l metering.Label) error {
	if l.Fingerprint == "" {
		if done, err := s.labelPlain(l); err != nil || done {
			out.Done = done
			return err
		}
	}
	err := store.Fit(l, func(l store.Labelling) error {
		return s.changeRow(&out.Outcome, l.License, l.SortKey, l.Holds, l.Apply)
	})
	var r refusal
	if errors.As(err, &r) {
		*out = metering.Labelled{Err: r.error}
		return nil
	}
	return err
}

// labelPlain writes a label that depends on the quantity alone, as nearly all do, without reading the row. It does nothing to a
// row with attributes beyond its columns, or one that may grow too large.
func (s *session) labelPlain(l metering.Label) (bool, error) {
	if !l.Quantity.Whole || len(l.License)+len(l.SortKey)+len(l.Reason) > maxPlain {
		return false, nil
	}
	prefix, tail := splitKey(l.SortKey)
	in, err := s.lookup(seriesKey{l.License, prefix})
	if err != nil || in == nil {
		return false, err
	}
	id, err := s.labelID(l.Status, l.Reason)
	if err != nil {
		return false, err
	}
	at := l.At.Unix()
	n, err := s.exec(labelRow, id, quantityValue(l.LateQuantity), at, at, in.id, secondValue(tail), l.Quantity.N, l.Marker)
	return n == 1, err
}

// RebucketRow moves a row to its right bucket where it still stands under the wrong one; else the outcome carries the row
// that stood against it.
func (s *Store) RebucketRow(ctx context.Context, b metering.Rebucket) (out metering.Outcome[metering.Row], err error) {
	return outcome(out, s.write(ctx, 1, func(tx *session) error {
		out = metering.Outcome[metering.Row]{}
		return tx.changeRow(&out, b.License, b.SortKey, b.Holds, b.Apply)
	}))
}

// changeRow is a conditional write on a row that exists. It never makes one.
func (s *session) changeRow(out *metering.Outcome[metering.Row], license, sortKey string, holds func(metering.Row) bool, apply func(metering.Row) metering.Row) error {
	old, err := s.findRow(license, sortKey)
	if err != nil {
		return err
	}
	return changeItem(out, old, holds, apply, store.CheckRow, func(r metering.Row) error { return s.putRow(store.NormalRow(r)) })
}

// changeItem makes another item of old and puts it, if there is one and the condition holds; else out has what stood against it.
func changeItem[T any](out *metering.Outcome[T], old *T, holds func(T) bool, apply func(T) T, check func(*T) error, put func(T) error) error {
	if old == nil {
		return nil
	}
	if !holds(*old) {
		out.Old = old
		return nil
	}
	item := apply(*old)
	if err := check(&item); err != nil {
		return refused(err)
	}
	out.Done = true
	return put(item)
}

// GroupRows reads the rows of a group, in the order of their keys.
func (s *Store) GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error] {
	first, end := int64(g.Hour.Second(0)), int64((g.Hour + 1).Second(0))
	return pages(ctx, s, func(d *decoder, p *page[metering.Row], after place) error {
		in, err := d.names.find(d.conn, seriesOf(g))
		if err != nil || in == nil {
			return err
		}
		from := first - 1
		if n, ok := after.tail.(int64); ok {
			from = n
		}
		return d.query("SELECT "+rowColumns+" FROM usage_row WHERE series = ? AND tail > ? AND tail < ? ORDER BY tail", []any{in.id, from, end},
			func(v []driver.Value) (bool, error) {
				r, err := d.rowOf(in, v)
				return p.add(r, place{series: in.id, tail: v[1]}, rowBytes(v)), err
			})
	})
}

// PendingRows reads the pending index under one bucket, series after series: of every license, or of the one named.
func (s *Store) PendingRows(ctx context.Context, hour metering.Hour, license string) iter.Seq2[metering.PendingRow, error] {
	bucket := hour.String()
	return pending(ctx, s, hour, license, "odd", "usage_row INDEXED BY usage_pending", func(d *decoder, v []driver.Value) (metering.PendingRow, int, error) {
		id, _ := v[0].(int64)
		in, err := d.names.named(d.conn, id)
		if err != nil {
			return metering.PendingRow{}, 0, err
		}
		e := metering.PendingRow{License: in.license, SortKey: in.prefix + secondText(v[1]), Bucket: bucket, Account: in.account, Dimension: in.dimension}
		if v[2] == nil {
			return e, 200, nil
		}
		// The row says otherwise than its key.
		row, err := d.find(in, v[1])
		if err == nil && row != nil {
			e.Account, e.Dimension = row.Account, row.Dimension
		}
		return e, 200, err
	})
}
