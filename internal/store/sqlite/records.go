package sqlite

import (
	"context"
	"database/sql/driver"
	"iter"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

const (
	putRecord = "INSERT OR REPLACE INTO usage_record (" + recordColumns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	getRecord = "SELECT " + recordColumns + " FROM usage_record WHERE series = ? AND tail = ?"
)

func (d *decoder) findRecord(in *series, tail any) (*metering.Record, error) {
	return findOne(d, getRecord, in, tail, (*decoder).recordOf)
}

func (s *session) findRecord(license, sortKey string) (*metering.Record, error) {
	prefix, tail := splitKey(sortKey)
	in, err := s.lookup(seriesKey{license, prefix})
	if err != nil {
		return nil, err
	}
	return (&decoder{conn: s.conn, names: s.names, fresh: s.fresh}).findRecord(in, hourValue(tail))
}

// Record reads a group's record as it stands; nil where there is none.
func (s *Store) Record(ctx context.Context, g metering.Group) (found *metering.Record, err error) {
	err = s.read(ctx, func(d *decoder) error {
		in, err := d.names.find(d.conn, seriesOf(g))
		if err == nil {
			found, err = d.findRecord(in, int64(g.Hour))
		}
		return err
	})
	return found, err
}

// CreateRecord writes the record where there is none yet; else the outcome carries the one that is there. It fails with
// metering.ErrTooLarge where the record exceeds 400 KB.
func (s *Store) CreateRecord(ctx context.Context, r metering.Record) (out metering.Outcome[metering.Record], err error) {
	return outcome(out, s.write(ctx, 1, func(tx *session) error {
		out = metering.Outcome[metering.Record]{}
		old, err := tx.findRecord(r.License, r.SortKey)
		if err != nil || old != nil {
			out.Old = old
			return err
		}
		if err := store.CheckRecord(&r); err != nil {
			return refused(err)
		}
		out.Done = true
		return tx.putRecord(store.NormalRecord(r))
	}))
}

// PutRecord writes a record as a direct-submit seller does: without condition, in the place of whatever stood there.
func (s *Store) PutRecord(ctx context.Context, r metering.Record) error {
	return s.write(ctx, 1, func(tx *session) error {
		if err := store.CheckRecord(&r); err != nil {
			return refused(err)
		}
		return tx.putRecord(store.NormalRecord(r))
	})
}

func (s *session) putRecord(r metering.Record) error {
	prefix, tail := splitKey(r.SortKey)
	in, err := s.intern(seriesKey{r.License, prefix})
	if err != nil {
		return err
	}
	values, err := s.recordValues(in, hourValue(tail), r)
	if err != nil {
		return err
	}
	_, err = s.exec(putRecord, values[:]...)
	return err
}

// DeleteRecord removes a record, if there is one.
func (s *Store) DeleteRecord(ctx context.Context, license, sortKey string) error {
	return s.remove(ctx, "DELETE FROM usage_record WHERE series = ? AND tail = ?", license, sortKey, hourValue)
}

// PendingRecords reads the pending index under one bucket, series after series: of every license, or of the one named. Entries
// carry what the index does (store.RecordProjection).
func (s *Store) PendingRecords(ctx context.Context, hour metering.Hour, license string) iter.Seq2[metering.Record, error] {
	columns := entryColumns[len("series, tail, "):]
	return pending(ctx, s, hour, license, columns, "usage_record INDEXED BY record_pending", func(d *decoder, v []driver.Value) (metering.Record, int, error) {
		id, _ := v[0].(int64)
		in, err := d.names.named(d.conn, id)
		if err != nil {
			return metering.Record{}, 0, err
		}
		r, err := d.recordOf(in, v)
		return store.ProjectRecord(r), recordBytes(v), err
	})
}

// MarkSent marks a record before its first call where the mark's condition holds; else the outcome carries the record that
// stood against it.
func (s *Store) MarkSent(ctx context.Context, m metering.Send) (metering.Outcome[metering.Record], error) {
	return s.changeRecord(ctx, m.License, m.SortKey, m.Holds, m.Apply)
}

// FinishRecord ends a record's wait where the finish's condition holds; else the outcome carries the record that stood
// against it.
func (s *Store) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	return s.changeRecord(ctx, f.License, f.SortKey, f.Holds, f.Apply)
}

// changeRecord is a conditional write on a record that exists. It never makes one.
func (s *Store) changeRecord(ctx context.Context, license, sortKey string, holds func(metering.Record) bool, apply func(metering.Record) metering.Record) (out metering.Outcome[metering.Record], err error) {
	return outcome(out, s.write(ctx, 1, func(tx *session) error {
		out = metering.Outcome[metering.Record]{}
		old, err := tx.findRecord(license, sortKey)
		if err != nil {
			return err
		}
		return changeItem(&out, old, holds, apply, store.CheckRecord, func(r metering.Record) error { return tx.putRecord(store.NormalRecord(r)) })
	}))
}
