package memory

import (
	"context"
	"errors"
	"iter"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// RecallRow lets a rejected row wait again where the condition holds; else the outcome carries the row that stood against it.
func (s *Store) RecallRow(ctx context.Context, x metering.Recall) (metering.Outcome[metering.Row], error) {
	return s.redrive(ctx, place{x.License, x.SortKey}, x.Holds, x.Apply)
}

// DropRow takes a rejected row out of every later sum where the condition holds; else the outcome carries the row that stood against it.
func (s *Store) DropRow(ctx context.Context, x metering.Drop) (metering.Outcome[metering.Row], error) {
	return s.redrive(ctx, place{x.License, x.SortKey}, x.Holds, x.Apply)
}

func (s *Store) redrive(ctx context.Context, at place, holds func(metering.Row) bool, apply func(metering.Row) metering.Row) (out metering.Outcome[metering.Row], err error) {
	err = s.write(ctx, func() error {
		out, err = s.changeRow(at, holds, apply)
		return err
	})
	return out, err
}

// CarryRow books late units anew, both rows and the record of the source's hour in one step, where the condition holds. Else the outcome
// carries the source that stood against it; where the carry holds on that, the target's second is taken. It carries none where there is no
// source, or the record is not as it was judged.
func (s *Store) CarryRow(ctx context.Context, x metering.Carry) (out metering.Outcome[metering.Row], err error) {
	err = s.write(ctx, func() error {
		old, record := s.rows.get(place{x.License, x.SortKey}), s.records.get(place{x.License, x.RecordKey()})
		if record != nil && x.Shows(*record) {
			out.Done = true
			return nil
		}
		if old == nil || record == nil || !x.HoldsOf(*record) {
			return nil
		}
		target := x.Row()
		if !x.Holds(*old) || s.rows.get(place{x.License, target.SortKey}) != nil {
			c := cloneRow(old)
			out.Old = &c
			return nil
		}
		source, noted := x.Apply(*old), x.Note(*record)
		if err := errors.Join(store.CheckRow(&source), store.CheckRow(&target), store.CheckRecord(&noted)); err != nil {
			return err // nothing is written where one cannot be
		}
		out.Done = true
		return errors.Join(s.setRow(target), s.setRow(source), s.setRecord(noted))
	})
	if err != nil {
		return metering.Outcome[metering.Row]{}, err
	}
	return out, nil
}

// Accounts are the accounts that either usage table holds items of under a license, in order.
func (s *Store) Accounts(ctx context.Context, license string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.queries.Add(1)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return merge(accountsOf(&s.rows.shelf, license), accountsOf(&s.records.shelf, license)), nil
}

func accountsOf[T any](s *shelf[T], license string) []string {
	p, ok := s.partitions.Get(license)
	if !ok {
		return nil
	}
	accounts, _ := store.Accounts(func(from string) (next string, found bool, err error) {
		p.items.Ascend(from, func(key string, _ *T) bool {
			next, found = key, true
			return false
		})
		return next, found, nil
	})
	return accounts
}

// EndedRows are the rows of a license that have ended with a status, in the order of their keys; with no license those of all.
func (s *Store) EndedRows(ctx context.Context, license string, status metering.Status) iter.Seq2[metering.Row, error] {
	if license == "" {
		return store.OfEach(s.Licenses(ctx), func(license string) iter.Seq2[metering.Row, error] { return s.EndedRows(ctx, license, status) })
	}
	return store.Where(s.LicenseRows(ctx, license), store.RowEnded(status))
}

// EndedRecords are the records of a license that have ended with a status, likewise.
func (s *Store) EndedRecords(ctx context.Context, license string, status metering.Status) iter.Seq2[metering.Record, error] {
	if license == "" {
		return store.OfEach(s.Licenses(ctx), func(license string) iter.Seq2[metering.Record, error] { return s.EndedRecords(ctx, license, status) })
	}
	return store.Where(s.LicenseRecords(ctx, license), store.RecordEnded(status))
}
