package dynamodb

import (
	"context"
	"errors"
	"iter"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// Records is the aggregated-usage table. It is safe for concurrent use.
type Records struct{ table *table }

// NewRecords is the aggregated-usage table of that name, in the client's Region.
func NewRecords(client *dynamodb.Client, name string, o Options) *Records {
	return &Records{&table{client: client, name: name, sortKey: metering.AttrRecordKey, options: o}}
}

func recordOf(r raw) metering.Record { return metering.RecordFromItem(itemOf(r)) }

func oldRecord(r raw) *metering.Record {
	if r == nil {
		return nil
	}
	record := recordOf(r)
	return &record
}

// recordJudgement are the attributes that a verdict on a record rests on, and its status.
func recordJudgement() []string {
	return []string{
		metering.AttrAccount, metering.AttrDimension, metering.AttrHour, metering.AttrCustomerIdentifier, metering.AttrPending,
		metering.AttrQuantity, metering.AttrAllocations, metering.AttrSentQuantity, metering.AttrSentSecond, metering.AttrStatus,
	}
}

// Record reads a group's record consistently; nil where there is none.
func (r *Records) Record(ctx context.Context, g metering.Group) (*metering.Record, error) {
	item, err := r.table.get(ctx, "read record", g.License, g.RecordKey())
	if err != nil || item == nil {
		return nil, err
	}
	return oldRecord(item), nil
}

// CreateRecord writes the record where there is none yet: the commit. Else the outcome carries the one that is there. It fails with
// metering.ErrTooLarge where the record exceeds 400 KB.
func (r *Records) CreateRecord(ctx context.Context, record metering.Record) (metering.Outcome[metering.Record], error) {
	const operation = "create record"
	var out metering.Outcome[metering.Record]
	if err := r.table.checkKey(operation, record.License, record.SortKey); err != nil {
		return out, err
	}
	if err := store.CheckRecord(&record); err != nil {
		return r.unlessThere(ctx, &record, err)
	}
	item := rawOf(record.Item())
	for range rounds {
		done, old, err := r.table.put(ctx, operation, item, true)
		if errors.Is(err, metering.ErrTooLarge) {
			return r.unlessThere(ctx, &record, err)
		}
		if err != nil || done || old != nil {
			return metering.Outcome[metering.Record]{Done: done, Old: oldRecord(old)}, err
		}
		// The one that stood against it is gone already.
	}
	return out, &awsapi.Error{Class: awsapi.Unavailable, Operation: operation, Resource: r.table.name, Err: errors.New("another record comes and goes")}
}

// unlessThere lets a record that is there decide, and not that ours is too large to take its place.
func (r *Records) unlessThere(ctx context.Context, record *metering.Record, tooLarge error) (out metering.Outcome[metering.Record], err error) {
	if record.License == "" || record.SortKey == "" {
		return out, tooLarge
	}
	old, err := r.table.get(ctx, "create record", record.License, record.SortKey)
	if err == nil && old == nil {
		err = tooLarge
	}
	return metering.Outcome[metering.Record]{Old: oldRecord(old)}, err
}

// PutRecord writes a record as a direct-submit seller does: without condition, in the place of whatever stood there.
func (r *Records) PutRecord(ctx context.Context, record metering.Record) error {
	if err := store.CheckRecord(&record); err != nil {
		return err
	}
	if err := r.table.checkKey("put record", record.License, record.SortKey); err != nil {
		return err
	}
	_, _, err := r.table.put(ctx, "put record", rawOf(record.Item()), false)
	return err
}

// DeleteRecord removes a record, if there is one.
func (r *Records) DeleteRecord(ctx context.Context, license, sortKey string) error {
	return r.table.delete(ctx, "delete record", license, sortKey)
}

// PendingRecords reads the pending index under one bucket, in the order of the licenses: of every license, or of the one named.
// The index may lag behind the table. Entries carry what the index does (store.RecordProjection).
func (r *Records) PendingRecords(ctx context.Context, hour metering.Hour, license string) iter.Seq2[metering.Record, error] {
	return query(ctx, r.table, "read pending records", pendingQuery(hour, license), func(item raw) metering.Record {
		return store.ProjectRecord(recordOf(item)) // an index that carries more costs more, and changes nothing
	})
}

// LicenseRecords are all records of a license with every attribute, read consistently, in the order of their keys.
func (r *Records) LicenseRecords(ctx context.Context, license string) iter.Seq2[metering.Record, error] {
	return query(ctx, r.table, "read a license's records", licenseQuery(license), recordOf)
}

// MarkSent marks a record before its first call where the mark's condition holds; else the outcome carries the record that stood
// against it.
func (r *Records) MarkSent(ctx context.Context, s metering.Send) (metering.Outcome[metering.Record], error) {
	return r.change(ctx, "mark record as sent", s.License, s.SortKey, nil, s.Holds, func(c *change, _ metering.Record) {
		c.set(metering.AttrSentQuantity, numberOf(s.Quantity))
		c.set(metering.AttrSentSecond, text(s.Second.String()))
		c.stamp(s.At)
	})
}

// FinishRecord ends a record's wait where the finish's condition holds; else the outcome carries the record that stood against it.
func (r *Records) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	return r.change(ctx, "finish record", f.License, f.SortKey, r.quickFinish(f), f.Holds, func(c *change, old metering.Record) {
		finish(c, f, old.BilledQuantity.Whole)
	})
}

// quickFinish is a finish that depends on the quantity, the marker and the status alone: it needs no read.
func (r *Records) quickFinish(f metering.Finish) *change {
	if f.Fingerprint != "" || !f.Quantity.Whole {
		return nil
	}
	c := r.table.existing()
	c.equals(metering.AttrQuantity, numberOf(f.Quantity.N))
	if f.Pending {
		c.exists(metering.AttrPending)
	}
	if f.Unbilled {
		c.absentOr(metering.AttrStatus, c.name(metering.AttrStatus)+" <> "+c.value(text(string(metering.Success))))
	}
	c.numberOrAbsent(metering.AttrBilledQuantity, f.BilledQuantity)
	finish(c, f, true)
	return c
}

func finish(c *change, f metering.Finish, held bool) {
	c.remove(metering.AttrPending)
	c.setText(metering.AttrStatus, string(f.Status))
	c.setText(metering.AttrStatusReason, f.Reason)
	if f.MeteringRecordID != "" {
		c.set(metering.AttrRecordID, text(f.MeteringRecordID))
	}
	c.setQuantity(metering.AttrBilledQuantity, f.BilledQuantity, held)
	if f.TTL.Whole {
		c.set(metering.AttrTTL, numberOf(f.TTL.N))
	}
	c.stamp(f.At)
}

// change is a conditional write on a record that exists. It never makes one.
func (r *Records) change(ctx context.Context, operation, license, sortKey string, quick *change, holds func(metering.Record) bool, effect func(*change, metering.Record)) (metering.Outcome[metering.Record], error) {
	done, old, err := r.table.conditional(ctx, operation, license, sortKey, quick, func(item raw) (*change, bool) {
		record := recordOf(item)
		if !holds(record) {
			return nil, false
		}
		c := r.table.existing()
		c.unchanged(item, recordJudgement()...)
		effect(c, record)
		return c, true
	})
	return metering.Outcome[metering.Record]{Done: done, Old: oldRecord(old)}, err
}
