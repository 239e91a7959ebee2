package dynamodb

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// raw is an item as the service hands it out.
type raw = map[string]types.AttributeValue

// itemOf reads an item. Numbers stay the decimal text that they are; no float is ever made of one.
func itemOf(r raw) metering.Item {
	item := make(metering.Item, len(r))
	for name, v := range r {
		item[name] = valueOf(v)
	}
	asList(item, metering.AttrFlushes)
	return item
}

// asList makes a set of texts the list as which the rules know it.
func asList(item metering.Item, name string) {
	texts, ok := item[name].(store.TextSet)
	if !ok {
		return
	}
	list := make([]any, len(texts))
	for i, s := range texts {
		list[i] = s
	}
	item[name] = list
}

// valueOf is a value as the pipeline sees it. One that JSON has no type for is judged as any of the wrong type; what is read and put
// again stays what it was.
func valueOf(v types.AttributeValue) any {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberN:
		return json.Number(v.Value)
	case *types.AttributeValueMemberBOOL:
		return v.Value
	case *types.AttributeValueMemberL:
		list := make([]any, len(v.Value))
		for i, e := range v.Value {
			list[i] = valueOf(e)
		}
		return list
	case *types.AttributeValueMemberM:
		m := make(map[string]any, len(v.Value))
		for name, e := range v.Value {
			m[name] = valueOf(e)
		}
		return m
	case *types.AttributeValueMemberSS: // a set has no order: sorted, equal ones are equal and have one fingerprint
		return store.TextSet(slices.Sorted(slices.Values(v.Value)))
	case *types.AttributeValueMemberNS:
		return store.NumberSet(slices.Sorted(slices.Values(v.Value)))
	case *types.AttributeValueMemberB:
		return v.Value
	case *types.AttributeValueMemberBS:
		return store.BinarySet(slices.SortedFunc(slices.Values(v.Value), slices.Compare))
	}
	return nil
}

// rawOf writes an item. The tokens of flushes are a string set, so that a flush can add to it.
func rawOf(item metering.Item) raw {
	r := make(raw, len(item))
	for name, v := range item {
		r[name] = attribute(v)
	}
	return r
}

func rawRow(row *metering.Row) raw {
	r := rawOf(row.Item())
	if len(row.Flushes) > 0 {
		r[metering.AttrFlushes] = setOf(row.Flushes)
	}
	return r
}

// setOf is a set of texts, which holds nothing twice.
func setOf(list []string) *types.AttributeValueMemberSS {
	return &types.AttributeValueMemberSS{Value: slices.Compact(slices.Sorted(slices.Values(list)))}
}

func attribute(v any) types.AttributeValue {
	switch v := v.(type) {
	case string:
		return &types.AttributeValueMemberS{Value: v}
	case json.Number:
		return &types.AttributeValueMemberN{Value: string(v)}
	case bool:
		return &types.AttributeValueMemberBOOL{Value: v}
	case []any:
		list := make([]types.AttributeValue, len(v))
		for i, e := range v {
			list[i] = attribute(e)
		}
		return &types.AttributeValueMemberL{Value: list}
	case map[string]any:
		m := make(raw, len(v))
		for name, e := range v {
			m[name] = attribute(e)
		}
		return &types.AttributeValueMemberM{Value: m}
	case store.TextSet:
		return &types.AttributeValueMemberSS{Value: v}
	case store.NumberSet:
		return &types.AttributeValueMemberNS{Value: v}
	case []byte:
		return &types.AttributeValueMemberB{Value: v}
	case store.BinarySet:
		return &types.AttributeValueMemberBS{Value: v}
	}
	return &types.AttributeValueMemberNULL{Value: true}
}

// allocationsOf are allocations as they are stored.
func allocationsOf(list []metering.Allocation) types.AttributeValue {
	return attribute(metering.Row{Allocations: list}.Item()[metering.AttrAllocations])
}

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func numberOf(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}
