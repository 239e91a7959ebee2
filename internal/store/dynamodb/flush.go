package dynamodb

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
)

// maxAllocations is how many allocations a record may have, and so a row (AWS Marketplace Metering API reference, UsageRecord).
const maxAllocations = 2500

// FlushRows applies a writer's flushes, each in one UpdateItem where nothing stands against it. Those into one row go one after the
// other, others at once. The results are in the order of the flushes.
func (r *Rows) FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed {
	type place struct{ license, sortKey string }
	var order [][]int // the flushes of a row
	of := make(map[place]int)
	for i, f := range flushes {
		at := place{f.Group.License, f.SortKey()}
		n, ok := of[at]
		if !ok {
			n = len(order)
			of[at], order = n, append(order, nil)
		}
		order[n] = append(order[n], i)
	}
	out := make([]metering.Flushed, len(flushes))
	each(len(order), r.table.options.workers(), func(n int) {
		for _, i := range order[n] {
			out[i] = r.flush(ctx, flushes[i])
		}
	})
	return out
}

func (r *Rows) flush(ctx context.Context, f metering.Flush) metering.Flushed {
	const operation = "flush into row"
	key := r.table.key(f.Group.License, f.SortKey())
	var old raw
	var err error
	if err = r.table.checkKey(operation, f.Group.License, f.SortKey()); err != nil {
		return metering.Flushed{Err: err}
	}
	if f.Refused(nil) != nil { // nothing may be added anywhere; the row is only asked whether it has taken it
		old, err = r.table.get(ctx, operation, f.Group.License, f.SortKey())
		return refusedFlush(f, old, err)
	}
	for range rounds {
		c := r.quickFlush(f)
		if old != nil {
			row := rowOf(old)
			if f.Shows(row) || f.Refused(&row) != nil {
				return refusedFlush(f, old, nil)
			}
			c = r.exactFlush(f, old, row)
		}
		done, item, err := r.table.update(ctx, operation, key, c, types.ReturnValueAllNew)
		if err != nil {
			return metering.Flushed{Err: err}
		}
		if done {
			return metering.Flushed{Done: true, Row: oldRow(item)}
		}
		old = item
	}
	return metering.Flushed{Err: &awsapi.Error{
		Class: awsapi.Unavailable, Operation: operation, Resource: r.table.name, Err: errors.New("the row changes faster than it can be written"),
	}}
}

func refusedFlush(f metering.Flush, old raw, err error) metering.Flushed {
	row := oldRow(old)
	return metering.Flushed{Done: row != nil && f.Shows(*row), Row: row, Err: err}
}

// quickFlush makes the row or adds to it, without having read it. Its condition is what Flush.Refused says, as far as an expression
// can, and more narrow where the row is uncommon: then exactFlush decides. Two things it cannot say, a quantity with a fraction and an
// allocation of the wrong type within the list; such a row was rejected before and stays so, whatever is added.
func (r *Rows) quickFlush(f metering.Flush) *change {
	c := newChange()
	token := c.value(text(f.Token))
	quantity, flushes := c.name(metering.AttrQuantity), c.name(metering.AttrFlushes)
	zero, most := c.value(numberOf(0)), c.value(numberOf(metering.MaxQuantity-f.Quantity))
	c.absent(metering.AttrDropped)
	c.absentOr(metering.AttrFlushes, "("+c.isType(metering.AttrFlushes, "SS")+" AND size("+flushes+") < "+
		c.value(numberOf(metering.MaxFlushes))+" AND NOT contains("+flushes+", "+token+"))")
	c.absentOr(metering.AttrQuantity, "("+c.isType(metering.AttrQuantity, "N")+" AND "+quantity+" BETWEEN "+zero+" AND "+most+")")
	if f.CustomerIdentifier == "" {
		c.absent(metering.AttrCustomerIdentifier)
	} else {
		same := c.name(metering.AttrCustomerIdentifier) + " = " + c.value(text(f.CustomerIdentifier))
		c.need("(attribute_not_exists(" + c.name(r.table.sortKey) + ") OR " + same + ")")
		c.set(metering.AttrCustomerIdentifier, text(f.CustomerIdentifier))
	}
	allocations := c.name(metering.AttrAllocations)
	if tagged := f.Quantity > 0 && len(f.Allocations) > 0; !tagged {
		c.absent(metering.AttrAllocations)
	} else {
		free := "(attribute_not_exists(" + allocations + ") AND (attribute_not_exists(" + quantity + ") OR " + quantity + " = " + zero + "))"
		if room := int64(maxAllocations - len(f.Allocations)); room < 1 {
			c.need(free)
		} else {
			c.need("(" + free + " OR (" + c.isType(metering.AttrAllocations, "L") +
				" AND size(" + allocations + ") BETWEEN " + c.value(numberOf(1)) + " AND " + c.value(numberOf(room)) + "))")
		}
		none := c.value(&types.AttributeValueMemberL{Value: []types.AttributeValue{}})
		c.sets = append(c.sets, allocations+" = list_append(if_not_exists("+allocations+", "+none+"), "+c.value(allocationsOf(f.Allocations))+")")
	}
	c.add(metering.AttrQuantity, numberOf(f.Quantity))
	c.add(metering.AttrFlushes, setOf([]string{f.Token}))
	place(c, f)
	return c
}

// place sets what names the row and makes it wait.
func place(c *change, f metering.Flush) {
	row := metering.NewRow(f.Group, f.Second, 0)
	c.set(metering.AttrAccount, text(row.Account))
	c.set(metering.AttrDimension, text(row.Dimension))
	c.set(metering.AttrTimestamp, text(row.Timestamp))
	c.set(metering.AttrPending, text(row.Pending))
	c.stamp(f.At)
}

// exactFlush adds to a row as it was read.
func (r *Rows) exactFlush(f metering.Flush, old raw, row metering.Row) *change {
	c := r.table.existing()
	c.unchanged(old, metering.AttrQuantity, metering.AttrFlushes, metering.AttrAllocations, metering.AttrCustomerIdentifier, metering.AttrDropped)
	grown := f.Apply(&row)
	c.set(metering.AttrQuantity, numberOf(grown.Quantity.N))
	c.set(metering.AttrFlushes, setOf(grown.Flushes))
	if len(grown.Allocations) > len(row.Allocations) {
		c.set(metering.AttrAllocations, allocationsOf(grown.Allocations))
	}
	place(c, f)
	return c
}
