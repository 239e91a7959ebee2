package dynamodb

import (
	"context"

	"github.com/awsmp/metering/internal/metering"
)

// ReopenRecord lets a refused record wait again where the condition holds; else the outcome carries the record that stood against it.
func (r *Records) ReopenRecord(ctx context.Context, x metering.Reopen) (metering.Outcome[metering.Record], error) {
	return r.change(ctx, "reopen record", x.License, x.SortKey, nil, x.Holds, func(c *change, old metering.Record) {
		before, after := rawOf(old.Item()), rawOf(x.Apply(old).Item())
		c.unchanged(before, metering.AttrStatusReason, metering.AttrBilledQuantity)
		c.grown(metering.AttrReopened, x.Times)
		c.become(before, after, metering.AttrPending, metering.AttrStatus, metering.AttrStatusReason, metering.AttrRecordID,
			metering.AttrSentQuantity, metering.AttrSentSecond, metering.AttrReopened)
		c.stamp(x.At)
	})
}
