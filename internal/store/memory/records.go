package memory

import (
	"context"
	"iter"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// Record reads a group's record as it stands; nil where there is none.
func (s *Store) Record(ctx context.Context, g metering.Group) (*metering.Record, error) {
	return one(ctx, s, func() *metering.Record { return s.records.get(place{g.License, g.RecordKey()}) }, cloneRecord)
}

// CreateRecord writes the record where there is none yet; else the outcome carries the one that is there. It fails with
// metering.ErrTooLarge where the record exceeds 400 KB.
func (s *Store) CreateRecord(ctx context.Context, r metering.Record) (out metering.Outcome[metering.Record], err error) {
	err = s.write(ctx, func() error {
		if old := s.records.get(place{r.License, r.SortKey}); old != nil {
			c := cloneRecord(old)
			out.Old = &c
			return nil
		}
		out.Done = true
		return s.setRecord(r)
	})
	if err != nil {
		return metering.Outcome[metering.Record]{}, err
	}
	return out, nil
}

// PutRecord writes a record as a direct-submit seller does: without condition, in the place of whatever stood there.
func (s *Store) PutRecord(ctx context.Context, r metering.Record) error {
	return s.write(ctx, func() error { return s.setRecord(r) })
}

// DeleteRecord removes a record, if there is one.
func (s *Store) DeleteRecord(ctx context.Context, license, sortKey string) error {
	return s.write(ctx, func() error {
		s.records.remove(place{license, sortKey})
		return nil
	})
}

// PendingRecords reads the pending index under one bucket, in the order of license and sort key: of every license, or of
// the one named. Entries carry what the index does (store.RecordProjection).
func (s *Store) PendingRecords(ctx context.Context, hour metering.Hour, license string) iter.Seq2[metering.Record, error] {
	bucket := hour.String()
	return pages(ctx, s, read[metering.Record, metering.Record]{
		shelf: func() *shelf[metering.Record] { return s.records.pending[bucket] },
		from:  place{license: license}, one: license != "",
		view: func(r *metering.Record) metering.Record {
			entry := store.ProjectRecord(*r)
			return cloneRecord(&entry)
		},
		size: store.RecordSize,
	})
}

// MarkSent marks a record before its first call where the mark's condition holds; else the outcome carries the record that
// stood against it.
func (s *Store) MarkSent(ctx context.Context, m metering.Send) (metering.Outcome[metering.Record], error) {
	return s.changeRecord(ctx, place{m.License, m.SortKey}, m.Holds, m.Apply)
}

// FinishRecord ends a record's wait where the finish's condition holds; else the outcome carries the record that stood
// against it.
func (s *Store) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	return s.changeRecord(ctx, place{f.License, f.SortKey}, f.Holds, f.Apply)
}

// changeRecord is a conditional write on a record that exists. It never makes one.
func (s *Store) changeRecord(ctx context.Context, at place, holds func(metering.Record) bool, apply func(metering.Record) metering.Record) (out metering.Outcome[metering.Record], err error) {
	err = s.write(ctx, func() error {
		old := s.records.get(at)
		if old == nil {
			return nil
		}
		if !holds(*old) {
			c := cloneRecord(old)
			out.Old = &c
			return nil
		}
		out.Done = true
		return s.setRecord(apply(*old))
	})
	if err != nil {
		return metering.Outcome[metering.Record]{}, err
	}
	return out, nil
}

func (s *Store) setRecord(r metering.Record) error {
	c := store.NormalRecord(cloneRecord(&r))
	if err := store.CheckRecord(&c); err != nil {
		return err
	}
	in := s.records.partition(c.License)
	c.License = in.license
	s.records.put(in, c.SortKey, &c)
	return nil
}
