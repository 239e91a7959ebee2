package dynamodb

import (
	"context"

	"github.com/awsmp/metering/internal/metering"
)

// RecallRow lets a rejected row wait again where the condition holds; else the outcome carries the row that stood against it.
func (r *Rows) RecallRow(ctx context.Context, x metering.Recall) (metering.Outcome[metering.Row], error) {
	return r.redrive(ctx, "recall row", x.License, x.SortKey, x.Holds, func(c *change, before, after raw) {
		c.become(before, after, metering.AttrPending, metering.AttrStatus, metering.AttrStatusReason, metering.AttrRecalled)
		c.stamp(x.At)
	}, x.Apply)
}

// DropRow takes a rejected row out of every later sum where the condition holds; else the outcome carries the row that stood against it.
func (r *Rows) DropRow(ctx context.Context, x metering.Drop) (metering.Outcome[metering.Row], error) {
	return r.redrive(ctx, "drop row", x.License, x.SortKey, x.Holds, func(c *change, before, after raw) {
		c.become(before, after, metering.AttrDropped, metering.AttrDroppedAt, metering.AttrDropToken)
		c.stamp(x.At)
	}, x.Apply)
}

// redrive is an operator's conditional write on a row that has ended. It never makes one.
func (r *Rows) redrive(ctx context.Context, operation, license, sortKey string, holds func(metering.Row) bool, effect func(c *change, before, after raw), apply func(metering.Row) metering.Row) (metering.Outcome[metering.Row], error) {
	done, old, err := r.table.conditional(ctx, operation, license, sortKey, nil, func(item raw) (*change, bool) {
		row := rowOf(item)
		if !holds(row) {
			return nil, false
		}
		after := apply(row)
		return r.asJudged(item, func(c *change) { effect(c, item, rawRow(&after)) }), true
	})
	return metering.Outcome[metering.Row]{Done: done, Old: oldRow(old)}, err
}

// asJudged is a change of a row that has ended, on the condition that all that an operator's write rests on is as it was read.
func (r *Rows) asJudged(item raw, effect func(*change)) *change {
	c := r.judged(item)
	c.unchanged(item, metering.AttrStatus, metering.AttrStatusReason, metering.AttrDropped)
	effect(c)
	return c
}

// grown needs that a trace has so many entries: it only grows, so it is then as it was read. An empty list is a trace, too.
func (c *change) grown(attribute string, times int) {
	trace := c.isType(attribute, "L") + " AND size(" + c.name(attribute) + ") = " + c.value(numberOf(int64(times)))
	if times == 0 {
		c.absentOr(attribute, trace)
	} else {
		c.need(trace)
	}
}

// become gives attributes the values that they have after, and removes those that are gone by then.
func (c *change) become(before, after raw, attributes ...string) {
	for _, attribute := range attributes {
		if v, ok := after[attribute]; ok {
			c.set(attribute, v)
		} else if _, ok := before[attribute]; ok {
			c.remove(attribute)
		}
	}
}
