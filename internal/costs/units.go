package costs

import (
	"encoding/json"
	"math"
	"strings"
)

// Item is an item of DynamoDB as its protocol writes it.
type Item map[string]Value

// Value is a typed value of DynamoDB's protocol.
type Value struct {
	S, N, B    *string // B is base64
	BOOL, NULL *bool
	L          []Value
	M          Item
	SS, NS, BS []string
}

// What an item measures (Amazon DynamoDB developer guide, "DynamoDB item sizes and formats"), in bytes.
const listOverhead = 3

// Size is the size of the item in bytes: names and values.
func (i Item) Size() (n int) {
	for name, v := range i {
		n += len(name) + v.size()
	}
	return n
}

func (v Value) size() (n int) {
	switch {
	case v.S != nil:
		return len(*v.S)
	case v.N != nil:
		return numberSize(*v.N)
	case v.B != nil:
		return binarySize(*v.B)
	case v.BOOL != nil, v.NULL != nil:
		return 1
	case v.L != nil:
		for _, e := range v.L {
			n += e.size() + 1
		}
		return n + listOverhead
	case v.M != nil:
		return v.M.Size() + len(v.M) + listOverhead
	}
	for _, s := range v.SS {
		n += len(s)
	}
	for _, s := range v.NS {
		n += numberSize(s)
	}
	for _, s := range v.BS {
		n += binarySize(s)
	}
	return n
}

// numberSize is a byte for two significant digits, and one more; a sign takes another.
func numberSize(s string) int {
	digits := strings.TrimLeft(strings.TrimPrefix(s, "-"), "0.")
	digits = strings.ReplaceAll(digits, ".", "")
	n := (len(strings.TrimRight(digits, "0"))+1)/2 + 1
	if strings.HasPrefix(s, "-") {
		n++
	}
	return n
}

func binarySize(base64 string) int { return len(strings.TrimRight(base64, "=")) * 3 / 4 }

// Only is the item with the named attributes alone, as an index projects it.
func (i Item) Only(names []string) Item {
	some := make(Item, len(names))
	for _, name := range names {
		if v, ok := i[name]; ok {
			some[name] = v
		}
	}
	return some
}

// What a request unit is (Amazon DynamoDB developer guide, "DynamoDB read and write operations"; Amazon SQS pricing).
const (
	writeUnitBytes = 1024
	readUnitBytes  = 4096
	queueUnitBytes = 64 * 1024
)

// WriteUnits is what writing an item of that size takes; of a change, the larger of its sizes before and after.
func WriteUnits(bytes int) float64 { return chunks(bytes, writeUnitBytes) }

// ReadUnits is what reading that much takes, all items of a page together. Nothing found is a unit too.
func ReadUnits(bytes int, consistent bool) float64 {
	units := chunks(bytes, readUnitBytes)
	if !consistent {
		units /= 2
	}
	return units
}

// QueueUnits is how many requests a request to SQS with that much payload is billed as.
func QueueUnits(bytes int) float64 { return chunks(bytes, queueUnitBytes) }

func chunks(bytes, size int) float64 {
	return max(1, math.Ceil(float64(bytes)/float64(size)))
}

// schema is what decides about the units of a table's writes.
type schema struct {
	kind    string // as classes name it
	keys    []string
	indexes []projection
}

// projection is what an index holds of an item that has all of its keys.
type projection struct{ keys, attributes []string }

// entry is the index's entry of an item, nil where it has none, and the entry's key.
func (p projection) entry(i Item) (entry Item, key string) {
	for _, k := range p.keys {
		v, ok := i[k]
		if !ok {
			return nil, ""
		}
		key += *v.S + "\n"
	}
	return i.Only(p.attributes), key
}

// writeUnits are the units of the table and of its indexes for a change of an item, either of which may be nil (Amazon DynamoDB
// developer guide, "Using global secondary indexes", provisioned throughput: an entry put, deleted or changed is a write, another
// key is both).
func (s schema) writeUnits(before, after Item) (table, indexes float64) {
	table = WriteUnits(max(before.Size(), after.Size()))
	for _, p := range s.indexes {
		was, wasKey := p.entry(before)
		is, isKey := p.entry(after)
		switch {
		case was != nil && is != nil && wasKey == isKey:
			if text(was) != text(is) {
				indexes += WriteUnits(max(was.Size(), is.Size()))
			}
			continue
		case was != nil:
			indexes += WriteUnits(was.Size())
		}
		if is != nil {
			indexes += WriteUnits(is.Size())
		}
	}
	return table, indexes
}

func text(i Item) string {
	b, err := json.Marshal(i) // map keys in order
	if err != nil {
		panic(err) // unreachable: text only
	}
	return string(b)
}
