package memory

import (
	"slices"

	"github.com/awsmp/metering/internal/metering"
)

func cloneRow(r *metering.Row) metering.Row {
	c := *r
	c.Allocations, c.Other, c.Flushes = cloneAllocations(r.Allocations), cloneItem(r.Other), slices.Clone(r.Flushes)
	return c
}

func cloneRecord(r *metering.Record) metering.Record {
	c := *r
	c.Allocations, c.Other = cloneAllocations(r.Allocations), cloneItem(r.Other)
	return c
}

func cloneSubscriber(s *metering.Subscriber) metering.Subscriber {
	c := *s
	c.Deprovisioned, c.Regions, c.Other = slices.Clone(s.Deprovisioned), slices.Clone(s.Regions), cloneItem(s.Other)
	return c
}

func cloneAllocations(list []metering.Allocation) []metering.Allocation {
	list = slices.Clone(list)
	for i := range list {
		list[i].Tags = slices.Clone(list[i].Tags)
	}
	return list
}

func cloneItem(item metering.Item) metering.Item {
	if item == nil {
		return nil
	}
	return cloneValue(map[string]any(item)).(map[string]any)
}

func cloneValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for name, e := range v {
			c[name] = cloneValue(e)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = cloneValue(e)
		}
		return c
	}
	return v // text, numbers, booleans and null never change
}
