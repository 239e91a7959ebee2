package metering

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEveryFormOfQuantity(t *testing.T) { // F10, F37: nothing is coerced
	t.Parallel()
	type absent struct{}
	num := func(s string) any { return json.Number(s) }
	for _, tt := range []struct {
		raw    any
		n      int64
		whole  bool
		reason Reason
	}{
		{num("3"), 3, true, ""},
		{num("3.0"), 3, true, ""},
		{num("3.000"), 3, true, ""},
		{num("3e0"), 3, true, ""},
		{num("300e-2"), 3, true, ""},
		{num("0.3E+1"), 3, true, ""},
		{num("0"), 0, true, ""},
		{num("-0"), 0, true, ""},
		{num("-0.0"), 0, true, ""},
		{num("0.0"), 0, true, ""},
		{num("2147483646"), 2147483646, true, ""},
		{num("2147483647"), 2147483647, true, ""},
		{num("2147483647.0"), 2147483647, true, ""},
		{num("2147483648"), 2147483648, true, QuantityOutOfRange},
		{num("1e12"), 1e12, true, QuantityOutOfRange},
		{num("1000000000001"), 0, false, QuantityOutOfRange}, // counted as an item, its units unknown
		{num("9223372036854775807"), 0, false, QuantityOutOfRange},
		{num("9223372036854775808"), 0, false, QuantityOutOfRange},
		{num("1e30"), 0, false, QuantityOutOfRange},
		{num("1e200"), 0, false, QuantityOutOfRange},
		{num("1e201"), 0, false, QuantityOutOfRange},
		{num("1e999999999"), 0, false, QuantityOutOfRange}, // refused before it is expanded
		{num("1E+999999999"), 0, false, QuantityOutOfRange},
		{num(strings.Repeat("9", 38)), 0, false, QuantityOutOfRange},
		{num(strings.Repeat("9", 400)), 0, false, QuantityOutOfRange},
		{num("-1"), -1, true, NegativeQuantity},
		{num("-1.0"), -1, true, NegativeQuantity},
		{num("-1e30"), 0, false, NegativeQuantity},
		{num("-9223372036854775809"), 0, false, NegativeQuantity},
		{num("2.5"), 0, false, NonIntegerQuantity},
		{num("-2.5"), 0, false, NonIntegerQuantity},
		{num("3.0000000000000000000000000000001"), 0, false, NonIntegerQuantity},
		{num("2147483646.9999999999"), 0, false, NonIntegerQuantity},
		{num("1e-1"), 0, false, NonIntegerQuantity},
		{num("1e-999999999"), 0, false, NonIntegerQuantity},
		{"7", 0, false, NonNumericQuantity},
		{"", 0, false, NonNumericQuantity},
		{"abc", 0, false, NonNumericQuantity},
		{"NaN", 0, false, NonNumericQuantity},
		{true, 0, false, NonNumericQuantity},
		{false, 0, false, NonNumericQuantity},
		{nil, 0, false, NonNumericQuantity},
		{[]any{num("3")}, 0, false, NonNumericQuantity},
		{map[string]any{"N": "3"}, 0, false, NonNumericQuantity},
		{3, 0, false, NonNumericQuantity}, // no store yields Go's own numbers
		{3.0, 0, false, NonNumericQuantity},
		{absent{}, 0, false, MissingQuantity},
		// No decoder of JSON lets these through as numbers; a store's own might.
		{num("abc"), 0, false, NonNumericQuantity},
		{num(""), 0, false, NonNumericQuantity},
		{num("NaN"), 0, false, NonNumericQuantity},
		{num("Inf"), 0, false, NonNumericQuantity},
		{num("0x10"), 0, false, NonNumericQuantity},
		{num("0b11"), 0, false, NonNumericQuantity},
		{num("0o17"), 0, false, NonNumericQuantity},
		{num("0x1p3"), 0, false, NonNumericQuantity},
		{num("1_000"), 0, false, NonNumericQuantity},
		{num("6/2"), 0, false, NonNumericQuantity},
		{num("3e"), 0, false, NonNumericQuantity},
		{num("3e1.5"), 0, false, NonNumericQuantity},
		{num(" 3"), 0, false, NonNumericQuantity},
	} {
		item := rowItem()
		item[AttrQuantity] = tt.raw
		if _, ok := tt.raw.(absent); ok {
			delete(item, AttrQuantity)
		}
		row := RowFromItem(item)
		if row.Quantity.Whole != tt.whole || row.Quantity.N != tt.n {
			t.Errorf("%#v reads as %+v, want %d, %v", tt.raw, row.Quantity, tt.n, tt.whole)
		}
		if got := row.Validate(instant("2026-03-10T15:20:00Z")); got != tt.reason {
			t.Errorf("a row with %#v: reason %q, want %q", tt.raw, got, tt.reason)
		}
		record := recordItem()
		delete(record, AttrQuantity)
		if v, ok := item[AttrQuantity]; ok {
			record[AttrQuantity] = v
		}
		if got := RecordFromItem(record).Validate(); got != tt.reason {
			t.Errorf("a record with %#v: reason %q, want %q", tt.raw, got, tt.reason)
		}
	}
}

func TestCount(t *testing.T) {
	t.Parallel()
	for q, want := range map[Quantity]struct {
		n  int64
		ok bool
	}{
		{}: {0, false}, Units(0): {0, true}, Units(5): {5, true}, Units(-5): {0, false}, Units(maxCountable): {maxCountable, true},
	} {
		if n, ok := q.Count(); n != want.n || ok != want.ok {
			t.Errorf("%+v.Count() = %d, %v, want %d, %v", q, n, ok, want.n, want.ok)
		}
	}
}

func TestOnlyDecimalNumbersCount(t *testing.T) {
	t.Parallel()
	decimal := regexp.MustCompile(`^[-+]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][-+]?[0-9]+)?$`)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringMatching(`[-+]?(0[xbo])?[0-9a-f._/ ]{0,6}([eEpP][-+]?[0-9]{0,12})?`).Draw(t, "number")
		q, ok := quantityOf(json.Number(s))
		if ok && !decimal.MatchString(s) {
			t.Fatalf("%q counts as %+v", s, q)
		}
	})
}

func TestSameNumberReadsTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-maxCountable, maxCountable).Draw(t, "n")
		zeros := rapid.IntRange(0, 30).Draw(t, "zeros")
		plain := number(n)
		for _, form := range []json.Number{
			plain, plain + json.Number("."+strings.Repeat("0", zeros+1)), plain + json.Number(strings.Repeat("0", zeros)+"e-"+string(number(int64(zeros)))), plain + "E+0",
		} {
			if q, ok := quantityOf(form); !ok || q != Units(n) || !SameValue(form, plain) {
				t.Fatalf("%s reads as %+v, %v", form, q, ok)
			}
		}
	})
}
