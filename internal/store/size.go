package store

import (
	"encoding/json"
	"strings"

	"github.com/awsmp/metering/internal/metering"
)

// MaxItemBytes is the largest item that a table holds, names included (Amazon DynamoDB developer guide, quotas: 400 KB).
const MaxItemBytes = 400 * 1024

// Sets are attribute values of DynamoDB that JSON has no type for. A set has no order; these are sorted.
type (
	TextSet   []string
	NumberSet []string // as decimal text
	BinarySet [][]byte
)

// ItemSize is an item's size in bytes as DynamoDB counts it: names and text in UTF-8, a number by two digits a byte and
// one, a list or map three and one an element (Amazon DynamoDB developer guide, item sizes and formats). The guide says nothing of
// sets: they count as lists do, which is an upper bound.
func ItemSize(item metering.Item) int {
	size := 0
	for name, v := range item {
		size += len(name) + valueSize(v)
	}
	return size
}

func valueSize(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case json.Number:
		return numberSize(string(v))
	case []byte:
		return len(v)
	case []any:
		return listSize(v, valueSize)
	case TextSet:
		return listSize(v, func(s string) int { return len(s) })
	case NumberSet:
		return listSize(v, numberSize)
	case BinarySet:
		return listSize(v, func(b []byte) int { return len(b) })
	case map[string]any:
		size := 3
		for name, e := range v {
			size += 1 + len(name) + valueSize(e)
		}
		return size
	}
	return 1 // a boolean or null
}

func listSize[E any](list []E, size func(E) int) int {
	total := 3
	for _, e := range list {
		total += 1 + size(e)
	}
	return total
}

func numberSize(s string) int {
	sign := 0
	if strings.HasPrefix(s, "-") {
		s, sign = s[1:], 1
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		s = s[:i]
	}
	digits := strings.Trim(strings.Replace(s, ".", "", 1), "0")
	return (len(digits)+1)/2 + 1 + sign
}
