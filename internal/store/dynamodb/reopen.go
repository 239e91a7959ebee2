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
		// A trace only grows.
		trace := c.isType(metering.AttrReopened, "L") + " AND size(" + c.name(metering.AttrReopened) + ") = " + c.value(numberOf(int64(x.Times)))
		if x.Times == 0 { // an empty list is a trace, too
			c.absentOr(metering.AttrReopened, trace)
		} else {
			c.need(trace)
		}
		for _, attribute := range []string{
			metering.AttrPending, metering.AttrStatus, metering.AttrStatusReason, metering.AttrRecordID,
			metering.AttrSentQuantity, metering.AttrSentSecond, metering.AttrReopened,
		} {
			if v, ok := after[attribute]; ok {
				c.set(attribute, v)
			} else if _, ok := before[attribute]; ok {
				c.remove(attribute)
			}
		}
		c.stamp(x.At)
	})
}
