package dynamodb

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// rowJudgement are the attributes that a verdict on a row rests on, and the marker.
func rowJudgement() []string {
	return []string{
		metering.AttrAccount, metering.AttrDimension, metering.AttrTimestamp, metering.AttrCustomerIdentifier,
		metering.AttrQuantity, metering.AttrAllocations, metering.AttrPending,
	}
}

// judged needs that all that a verdict on a row rests on is as it was read. Of a trace its length is asked: it only grows.
func (r *Rows) judged(item raw) *change {
	c := r.table.existing()
	c.unchanged(item, rowJudgement()...)
	if trace, is := item[metering.AttrRecalled].(*types.AttributeValueMemberL); is {
		c.grown(metering.AttrRecalled, len(trace.Value))
	} else {
		c.unchanged(item, metering.AttrRecalled)
	}
	return c
}

// LabelRow writes a label where its condition holds; else the outcome carries the row that stood against it. A row without
// room for its reason ends all the same: store.Fit.
func (r *Rows) LabelRow(ctx context.Context, l metering.Label) (metering.Outcome[metering.Row], error) {
	var out metering.Outcome[metering.Row]
	err := store.Fit(l, func(l store.Labelling) (err error) {
		out, err = r.label(ctx, l)
		return err
	})
	return out, err
}

func (r *Rows) label(ctx context.Context, l store.Labelling) (metering.Outcome[metering.Row], error) {
	done, old, err := r.table.conditional(ctx, "label row", l.License, l.SortKey, r.quickLabel(l), func(item raw) (*change, bool) {
		row := rowOf(item)
		if !l.Holds(row) {
			return nil, false
		}
		c := r.judged(item)
		label(c, l, row.LateQuantity.Whole)
		return c, true
	})
	return metering.Outcome[metering.Row]{Done: done, Old: oldRow(old)}, err
}

// quickLabel is a label that depends on the quantity alone, as nearly all do: it needs no read (F42).
func (r *Rows) quickLabel(l store.Labelling) *change {
	if l.Fingerprint != "" || !l.Quantity.Whole {
		return nil
	}
	c := r.table.existing()
	c.equals(metering.AttrQuantity, numberOf(l.Quantity.N))
	if l.Marker {
		c.exists(metering.AttrPending)
	}
	c.numberOrAbsent(metering.AttrLateQuantity, l.LateQuantity)
	label(c, l, true)
	return c
}

func label(c *change, l store.Labelling, held bool) {
	c.remove(metering.AttrPending)
	c.setText(metering.AttrStatus, string(l.Status))
	c.setText(metering.AttrStatusReason, l.Reason)
	c.setQuantity(metering.AttrLateQuantity, l.LateQuantity, held)
	if !l.Bare {
		c.stamp(l.At)
	}
}

// LabelRows writes labels as LabelRow does, one UpdateItem each, some at once: what fails, fails alone (case 48). The results are in
// the order of the labels.
func (r *Rows) LabelRows(ctx context.Context, labels []metering.Label) []metering.Labelled {
	out := make([]metering.Labelled, len(labels))
	each(len(labels), r.table.options.workers(), func(i int) {
		out[i].Outcome, out[i].Err = r.LabelRow(ctx, labels[i])
	})
	return out
}

// RebucketRow moves a row to its right bucket where it still stands under the wrong one; else the outcome carries the row that
// stood against it.
func (r *Rows) RebucketRow(ctx context.Context, b metering.Rebucket) (metering.Outcome[metering.Row], error) {
	quick := r.table.existing()
	if b.From == "" {
		quick.absent(metering.AttrPending)
	} else {
		quick.equals(metering.AttrPending, text(b.From))
	}
	quick.setText(metering.AttrPending, b.To)
	quick.stamp(b.At)
	refuse := func(raw) (*change, bool) { return nil, false }
	done, old, err := r.table.conditional(ctx, "mend a row's bucket", b.License, b.SortKey, quick, refuse)
	return metering.Outcome[metering.Row]{Done: done, Old: oldRow(old)}, err
}
