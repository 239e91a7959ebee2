package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"iter"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// RecallRow lets a rejected row wait again where the condition holds; else the outcome carries the row that stood against it.
func (s *Store) RecallRow(ctx context.Context, x metering.Recall) (metering.Outcome[metering.Row], error) {
	return s.redrive(ctx, x.License, x.SortKey, x.Holds, x.Apply)
}

// DropRow takes a rejected row out of every later sum where the condition holds; else the outcome carries the row that stood against it.
func (s *Store) DropRow(ctx context.Context, x metering.Drop) (metering.Outcome[metering.Row], error) {
	return s.redrive(ctx, x.License, x.SortKey, x.Holds, x.Apply)
}

func (s *Store) redrive(ctx context.Context, license, sortKey string, holds func(metering.Row) bool, apply func(metering.Row) metering.Row) (out metering.Outcome[metering.Row], err error) {
	return outcome(out, s.write(ctx, 1, func(tx *session) error {
		out = metering.Outcome[metering.Row]{}
		return tx.changeRow(&out, license, sortKey, holds, apply)
	}))
}

// CarryRow books late units anew, both rows and the record of the source's hour in one step, where the condition holds. Else the outcome
// carries the source that stood against it; where the carry holds on that, the target's second is taken. It carries none where there is no
// source, or the record is not as it was judged.
func (s *Store) CarryRow(ctx context.Context, x metering.Carry) (out metering.Outcome[metering.Row], err error) {
	return outcome(out, s.write(ctx, 3, func(tx *session) error {
		out = metering.Outcome[metering.Row]{}
		return tx.carry(&out, x)
	}))
}

func (s *session) carry(out *metering.Outcome[metering.Row], x metering.Carry) error {
	record, err := s.findRecord(x.License, x.RecordKey())
	if err != nil || record == nil {
		return err
	}
	if x.Shows(*record) {
		out.Done = true
		return nil
	}
	old, err := s.findRow(x.License, x.SortKey)
	if err != nil || old == nil || !x.HoldsOf(*record) {
		return err
	}
	target := x.Row()
	taken, err := s.findRow(x.License, target.SortKey)
	if err != nil {
		return err
	}
	if taken != nil || !x.Holds(*old) {
		out.Old = old
		return nil
	}
	source, noted := x.Apply(*old), x.Note(*record)
	if err := errors.Join(store.CheckRow(&source), store.CheckRow(&target), store.CheckRecord(&noted)); err != nil {
		return refused(err) // nothing is written where one cannot be
	}
	out.Done = true
	if err := s.putRow(store.NormalRow(target)); err != nil {
		return err
	}
	if err := s.putRow(store.NormalRow(source)); err != nil {
		return err
	}
	return s.putRecord(store.NormalRecord(noted))
}

// Accounts are the accounts that either usage table holds items of under a license, in order.
func (s *Store) Accounts(ctx context.Context, license string) (accounts []string, err error) {
	const query = `SELECT prefix FROM series s WHERE license = ? AND prefix >= ? AND
		(EXISTS (SELECT 1 FROM usage_row WHERE series = s.id) OR EXISTS (SELECT 1 FROM usage_record WHERE series = s.id))
		ORDER BY prefix LIMIT 1`
	err = s.read(ctx, func(d *decoder) error {
		accounts, err = store.Accounts(func(from string) (next string, found bool, err error) {
			err = d.query(query, []any{license, from}, func(v []driver.Value) (bool, error) {
				next, found = text(v[0]), true
				return false, nil
			})
			return next, found, err
		})
		return err
	})
	return accounts, err
}

// ended is the condition of items that have ended with a status. An item's status stands in its label, whatever else it holds.
const ended = " AND pending IS NULL AND label IN (SELECT id FROM label WHERE status = ?)"

// EndedRows are the rows of a license that have ended with a status, in the order of their keys; with no license those of all.
func (s *Store) EndedRows(ctx context.Context, license string, status metering.Status) iter.Seq2[metering.Row, error] {
	if license == "" {
		return store.OfEach(s.Licenses(ctx), func(license string) iter.Seq2[metering.Row, error] { return s.EndedRows(ctx, license, status) })
	}
	query := "SELECT " + rowColumns + " FROM usage_row WHERE series = ? AND tail > ?" + ended + " ORDER BY tail"
	return whole(ctx, s, license, query, (*decoder).rowOf, rowBytes, string(status))
}

// EndedRecords are the records of a license that have ended with a status, likewise.
func (s *Store) EndedRecords(ctx context.Context, license string, status metering.Status) iter.Seq2[metering.Record, error] {
	if license == "" {
		return store.OfEach(s.Licenses(ctx), func(license string) iter.Seq2[metering.Record, error] { return s.EndedRecords(ctx, license, status) })
	}
	query := "SELECT " + recordColumns + " FROM usage_record WHERE series = ? AND tail > ?" + ended + " ORDER BY tail"
	return whole(ctx, s, license, query, (*decoder).recordOf, recordBytes, string(status))
}
