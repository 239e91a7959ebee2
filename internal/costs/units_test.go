package costs

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestSize(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		item string
		want int
	}{
		{`{}`, 0},
		{`{"name":{"S":"value"}}`, 9},
		{`{"name":{"S":"é"}}`, 6},
		{`{"n":{"N":"0"}}`, 2},
		{`{"n":{"N":"7"}}`, 3},
		{`{"n":{"N":"-7"}}`, 4},
		{`{"n":{"N":"12345"}}`, 5},
		{`{"n":{"N":"1000000"}}`, 3}, // zeros at the end are not significant
		{`{"n":{"N":"0.05"}}`, 3},
		{`{"b":{"B":"AAEC"}}`, 4},
		{`{"b":{"B":"AA=="}}`, 2},
		{`{"t":{"BOOL":false}}`, 2},
		{`{"t":{"NULL":true}}`, 2},
		{`{"l":{"L":[]}}`, 4},
		{`{"l":{"L":[{"S":"ab"},{"N":"1"}]}}`, 1 + 3 + 3 + 3},
		{`{"m":{"M":{"k":{"S":"ab"}}}}`, 1 + 3 + 1 + 3},
		{`{"s":{"SS":["ab","c"]}}`, 4},
		{`{"s":{"NS":["1","12345"]}}`, 1 + 2 + 4},
	} {
		var i Item
		if err := json.Unmarshal([]byte(test.item), &i); err != nil {
			t.Fatal(err)
		}
		if got := i.Size(); got != test.want {
			t.Errorf("%s has %d bytes, want %d", test.item, got, test.want)
		}
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		what      string
		got, want float64
	}{
		{"write of nothing", WriteUnits(0), 1},
		{"write of 1 KB", WriteUnits(1024), 1},
		{"write of 1 KB and a byte", WriteUnits(1025), 2},
		{"read of nothing", ReadUnits(0, true), 1},
		{"read of nothing, eventually consistent", ReadUnits(0, false), .5},
		{"read of 4 KB", ReadUnits(4096, true), 1},
		{"read of 4 KB and a byte", ReadUnits(4097, true), 2},
		{"read of 9 KB, eventually consistent", ReadUnits(9*1024, false), 1.5},
		{"message of 64 KB", QueueUnits(64 << 10), 1},
		{"message of 65 KB", QueueUnits(65 << 10), 2},
	} {
		if test.got != test.want {
			t.Errorf("%s takes %v units, want %v", test.what, test.got, test.want)
		}
	}
}

func TestOnly(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 100)
	i := Item{"a": {S: &text}, "b": {S: &text}}
	if got := i.Only([]string{"a", "c"}); len(got) != 1 || got["a"].S != &text {
		t.Errorf("%v, want a alone", got)
	}
}

// Writes of an item and of its entries, by the examples of the developer guide ("Using global secondary indexes").
func TestWriteUnits(t *testing.T) {
	t.Parallel()
	s := schema{keys: []string{"p"}, indexes: []projection{{keys: []string{"waits"}, attributes: []string{"waits", "p", "shown"}}}}
	item := func(waits, shown, more string) Item {
		i := Item{"p": {S: new(string)}, "shown": {S: &shown}, "more": {S: &more}}
		if waits != "" {
			i["waits"] = Value{S: &waits}
		}
		return i
	}
	long := strings.Repeat("x", 1500)
	for _, test := range []struct {
		what           string
		before, after  Item
		table, indexes float64
	}{
		{"put, without an entry", nil, item("", "a", ""), 1, 0},
		{"put, with an entry", nil, item("14", "a", ""), 1, 1},
		{"put of 1.5 KB that the index does not show", nil, item("14", "a", long), 2, 1},
		{"put of 1.5 KB that it shows", nil, item("14", long, ""), 2, 2},
		{"the entry ends", item("14", "a", ""), item("", "a", ""), 1, 1},
		{"a large entry ends", item("14", long, ""), item("", long, ""), 2, 2},
		{"the entry moves", item("14", "a", ""), item("15", "a", ""), 1, 2},
		{"what it shows changes", item("14", "a", ""), item("14", "b", ""), 1, 1},
		{"what it does not show changes", item("14", "a", "c"), item("14", "a", "d"), 1, 0},
		{"it shrinks", item("14", "a", long), item("14", "a", ""), 2, 0},
		{"it is deleted", item("14", "a", ""), nil, 1, 1},
	} {
		if table, indexes := s.writeUnits(test.before, test.after); table != test.table || indexes != test.indexes {
			t.Errorf("%s: %v units and %v of the index, want %v and %v", test.what, table, indexes, test.table, test.indexes)
		}
	}
}
