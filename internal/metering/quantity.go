package metering

import (
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

// MaxQuantity is the largest quantity of a record or an allocation (AWS Marketplace Metering API, UsageRecord).
const MaxQuantity = 2147483647

// maxCountable is the largest whole number whose units are counted: far above what can be billed, and small
// enough that sums over millions of rows stay exact. A row beyond it counts as an item, units unknown.
const maxCountable = 1_000_000_000_000

// Quantity is a whole number of units, or none. The zero value is no number: the attribute is absent, or what it
// holds cannot be counted (then it stands as it was read in the item's Other).
type Quantity struct {
	N     int64
	Whole bool
}

// Units makes a Quantity of n units.
func Units(n int64) Quantity { return Quantity{N: n, Whole: true} }

// Count is the number of units, 0 where it is unknown or negative, and whether it is known.
func (q Quantity) Count() (int64, bool) {
	if !q.Whole || q.N < 0 {
		return 0, false
	}
	return q.N, true
}

// quantityOf reads an attribute as a whole number. Nothing is coerced: a number may be written 3, 3.0 or 3e0, but
// text and booleans are no numbers.
func quantityOf(v any) (Quantity, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return Quantity{}, false
	}
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return Quantity{N: i, Whole: true}, -maxCountable <= i && i <= maxCountable
	}
	r, reason := rational(n)
	if reason != "" || !r.IsInt() || !r.Num().IsInt64() {
		return Quantity{}, false
	}
	i := r.Num().Int64()
	return Quantity{N: i, Whole: true}, -maxCountable <= i && i <= maxCountable
}

// quantityReason says what is wrong with a quantity attribute, given the raw value where it is no whole number.
func quantityReason(q Quantity, raw any, present bool) Reason {
	if q.Whole {
		return rangeReason(q.N)
	}
	if !present {
		return MissingQuantity
	}
	n, ok := raw.(json.Number)
	if !ok {
		return NonNumericQuantity
	}
	r, reason := rational(n)
	switch {
	case reason != "":
		return reason
	case !r.IsInt():
		return NonIntegerQuantity
	case r.Sign() < 0:
		return NegativeQuantity
	}
	return QuantityOutOfRange
}

func rangeReason(n int64) Reason {
	switch {
	case n < 0:
		return NegativeQuantity
	case n > MaxQuantity:
		return QuantityOutOfRange
	}
	return ""
}

// rational reads a decimal number exactly. An exponent beyond what any store holds (DynamoDB: 126) is refused
// before it is expanded, so that "1e999999999" costs nothing.
func rational(n json.Number) (*big.Rat, Reason) {
	s := string(n)
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		exp, err := strconv.Atoi(strings.TrimPrefix(s[i+1:], "+"))
		if err != nil {
			return nil, NonNumericQuantity
		}
		if exp > 200 {
			return nil, QuantityOutOfRange
		}
		if exp < -200 {
			return nil, NonIntegerQuantity
		}
	}
	if len(s) > 400 || strings.ContainsAny(s, "/_xXpPbBoO") {
		return nil, NonNumericQuantity
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, NonNumericQuantity
	}
	return r, ""
}
