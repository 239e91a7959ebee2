package store

import (
	"encoding/json"
	"strings"

	"github.com/awsmp/metering/internal/metering"
)

// MaxItemBytes is the largest item that a table holds, names included (Amazon DynamoDB developer guide, quotas: 400 KB).
const MaxItemBytes = 400 * 1024

// ItemSize is an item's size in bytes as DynamoDB counts it: names and text in UTF-8, a number by two digits a byte and
// one, a list or map three and one an element (Amazon DynamoDB developer guide, item sizes and formats).
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
	case []any:
		size := 3
		for _, e := range v {
			size += 1 + valueSize(e)
		}
		return size
	case map[string]any:
		size := 3
		for name, e := range v {
			size += 1 + len(name) + valueSize(e)
		}
		return size
	}
	return 1 // a boolean or null
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
