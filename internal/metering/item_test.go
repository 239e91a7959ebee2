package metering

import (
	"encoding/json"
	"maps"
	"testing"

	"pgregory.net/rapid"
)

// rowItem is a valid row of groupH as a store holds it.
func rowItem() Item {
	return Item{
		AttrLicense: licenseA, AttrRowKey: buyer + "#api_calls#2026-03-10T14:00:05", AttrAccount: buyer, AttrDimension: "api_calls",
		AttrTimestamp: "2026-03-10T14:00:05", AttrQuantity: json.Number("3"), AttrPending: "2026-03-10T14",
	}
}

// recordItem is a valid record of groupH as a seller writes it who submits directly.
func recordItem() Item {
	return Item{
		AttrLicense: licenseA, AttrRecordKey: buyer + "#api_calls#2026-03-10T14", AttrAccount: buyer, AttrDimension: "api_calls",
		AttrHour: "2026-03-10T14", AttrQuantity: json.Number("3"), AttrPending: "2026-03-10T14",
	}
}

// with is the item with attributes set; a value of type without removes one.
func (i Item) with(pairs ...any) Item {
	i = maps.Clone(i)
	for n := 0; n < len(pairs); n += 2 {
		if pairs[n+1] == (without{}) {
			delete(i, pairs[n].(string))
			continue
		}
		i[pairs[n].(string)] = pairs[n+1]
	}
	return i
}

type without struct{}

func allocation(quantity any, tags ...string) map[string]any {
	m := map[string]any{attrAllocated: quantity}
	if n, ok := quantity.(int); ok {
		m[attrAllocated] = number(int64(n))
	}
	if len(tags) > 0 {
		list := []any{}
		for i := 0; i < len(tags); i += 2 {
			list = append(list, map[string]any{attrKey: tags[i], attrValue: tags[i+1]})
		}
		m[attrTags] = list
	}
	return m
}

// drawValue is any value that a store may hold.
func drawValue(t *rapid.T, label string, depth int) any {
	kinds := 5
	if depth > 0 {
		kinds = 7
	}
	switch rapid.IntRange(0, kinds-1).Draw(t, label) {
	case 0:
		return rapid.SampledFrom([]string{"", "3", "abc", "2026-03-10T14", "é😀", "a\x00b"}).Draw(t, label)
	case 1:
		return json.Number(rapid.SampledFrom([]string{"0", "3", "3.0", "-1", "-0", "2.5", "1e30", "1e12", "1e999", "2147483648", "10000000000000"}).Draw(t, label))
	case 2:
		return rapid.Bool().Draw(t, label)
	case 3:
		return nil
	case 4:
		return number(rapid.Int64Range(0, 9).Draw(t, label))
	case 5:
		list := make([]any, rapid.IntRange(0, 3).Draw(t, label))
		for i := range list {
			list[i] = drawValue(t, label, depth-1)
		}
		return list
	}
	m := map[string]any{}
	for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{attrAllocated, attrTags, attrKey, attrValue, "x"}), 0, 3).Draw(t, label) {
		m[name] = drawValue(t, label, depth-1)
	}
	return m
}

func drawAllocations(t *rapid.T, label string) any {
	list := []any{}
	for range rapid.IntRange(0, 3).Draw(t, label) {
		a := allocation(rapid.IntRange(0, 5).Draw(t, label))
		if rapid.Bool().Draw(t, label) {
			tags := []any{}
			for range rapid.IntRange(0, 2).Draw(t, label) {
				tags = append(tags, map[string]any{
					attrKey: rapid.SampledFrom([]string{"team", "env", ""}).Draw(t, label), attrValue: rapid.SampledFrom([]string{"a", "b"}).Draw(t, label),
				})
			}
			a[attrTags] = tags
		}
		if rapid.IntRange(0, 9).Draw(t, label) == 0 {
			a["Colour"] = "red"
		}
		list = append(list, a)
	}
	return list
}

// drawItem changes an item at will: attributes absent, mended, of any other type, and unknown ones.
func drawItem(t *rapid.T, base Item, names []string) Item {
	item := maps.Clone(base)
	for _, name := range names {
		switch rapid.IntRange(0, 5).Draw(t, name) {
		case 0:
			delete(item, name)
		case 1:
			item[name] = drawValue(t, name, 2)
		case 2:
			if name == AttrAllocations {
				item[name] = drawAllocations(t, name)
			}
		case 3:
			if _, ok := item[name]; !ok {
				item[name] = drawValue(t, name, 0)
			}
		}
	}
	return item
}

var rowAttributes = []string{
	AttrLicense, AttrRowKey, AttrAccount, AttrDimension, AttrTimestamp, AttrQuantity, AttrPending, AttrAllocations, AttrCustomerIdentifier,
	AttrStatus, AttrStatusReason, AttrLateQuantity, AttrDropped, AttrCreatedAt, AttrUpdatedAt, AttrTTL, AttrFlushes, "carriedTo", "note",
}

var recordAttributes = []string{
	AttrLicense, AttrRecordKey, AttrAccount, AttrDimension, AttrHour, AttrQuantity, AttrPending, AttrAllocations, AttrCustomerIdentifier,
	AttrManifest, AttrSentQuantity, AttrSentSecond, AttrStatus, AttrStatusReason, AttrRecordID, AttrBilledQuantity, AttrCreatedAt, AttrUpdatedAt,
	AttrTTL, "note",
}

func sameItem(a, b Item) bool { return SameValue(map[string]any(a), map[string]any(b)) }

func TestSameValue(t *testing.T) {
	t.Parallel()
	num := func(s string) any { return json.Number(s) }
	for _, tt := range []struct {
		a, b any
		want bool
	}{
		{num("3"), num("3.0"), true}, {num("3"), num("300e-2"), true}, {num("-0"), num("0"), true}, {num("3"), num("3.1"), false},
		{num("1e30"), num("10e29"), true}, {num("1e999"), num("1e999"), true}, {num("1e999"), num("1e998"), false}, {num("x"), num("x"), true},
		{num("3"), "3", false}, {"3", num("3"), false}, {num("1"), true, false}, {"a", "a", true}, {"a", "A", false}, {nil, nil, true},
		{nil, "", false}, {true, true, true}, {true, false, false}, {nil, false, false},
		{[]any{num("3"), "a"}, []any{num("3.0"), "a"}, true}, {[]any{"a", "b"}, []any{"b", "a"}, false}, {[]any{"a"}, []any{"a", "a"}, false},
		{[]any{}, nil, false}, {[]any{}, map[string]any{}, false},
		{map[string]any{"a": num("1"), "b": nil}, map[string]any{"b": nil, "a": num("1.0")}, true},
		{map[string]any{"a": nil}, map[string]any{"b": nil}, false}, {map[string]any{"a": nil}, map[string]any{}, false},
	} {
		if got := SameValue(tt.a, tt.b); got != tt.want || SameValue(tt.b, tt.a) != tt.want {
			t.Errorf("SameValue(%#v, %#v) = %v, want %v", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestSameValueIsReflexiveAndSymmetric(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawValue(t, "a", 2), drawValue(t, "b", 2)
		if !SameValue(a, a) || SameValue(a, b) != SameValue(b, a) {
			t.Fatalf("%#v, %#v", a, b)
		}
	})
}
