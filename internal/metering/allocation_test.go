package metering

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseAllocations(t *testing.T) {
	t.Parallel()
	tag := func(pairs ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i].(string)] = pairs[i+1]
		}
		return map[string]any{attrAllocated: number(1), attrTags: []any{m}}
	}
	for _, tt := range []struct {
		name   string
		in     any
		want   []Allocation
		reason Reason
	}{
		{"none", []any{}, []Allocation{}, ""},
		{"untagged", []any{allocation(3)}, []Allocation{{3, nil}}, ""},
		{"no tags, written out", []any{map[string]any{attrAllocated: number(3), attrTags: []any{}}}, []Allocation{{3, []Tag{}}}, ""},
		{"tagged", []any{allocation(3, "team", "a", "env", "b")}, []Allocation{{3, []Tag{{"team", "a"}, {"env", "b"}}}}, ""},
		{"a field nobody knows", []any{map[string]any{attrAllocated: number(3), "Colour": "red"}}, []Allocation{{3, nil}}, ""},
		{"3.0", []any{allocation(number(3) + ".0")}, []Allocation{{3, nil}}, ""},
		{"negative is for the limits to say", []any{allocation(-1)}, []Allocation{{-1, nil}}, ""},
		{"2.5", []any{allocation(number(2) + ".5")}, nil, NegativeOrNonIntegerAllocation},
		{"1e30", []any{allocation(number(1) + "e30")}, nil, NegativeOrNonIntegerAllocation},
		{"text", []any{allocation("3")}, nil, MalformedAllocations},
		{"null", []any{allocation(nil)}, nil, MalformedAllocations},
		{"no quantity", []any{map[string]any{}}, nil, MalformedAllocations},
		{"no list", map[string]any{}, nil, MalformedAllocations},
		{"null list", nil, nil, MalformedAllocations},
		{"no map", []any{"x"}, nil, MalformedAllocations},
		{"tags of another type", []any{map[string]any{attrAllocated: number(1), attrTags: "x"}}, nil, MalformedAllocations},
		{"null tags", []any{map[string]any{attrAllocated: number(1), attrTags: nil}}, nil, MalformedAllocations},
		{"a tag of another type", []any{map[string]any{attrAllocated: number(1), attrTags: []any{"x"}}}, nil, MalformedAllocations},
		{"no key", []any{tag(attrValue, "a")}, nil, MissingTagKeyOrValue},
		{"no value", []any{tag(attrKey, "a")}, nil, MissingTagKeyOrValue},
		{"null value", []any{tag(attrKey, "a", attrValue, nil)}, nil, MissingTagKeyOrValue},
		{"value of another type", []any{tag(attrKey, "a", attrValue, number(1))}, nil, MalformedAllocations},
		{"two faults, always the same one", []any{tag(attrValue, number(1))}, nil, MissingTagKeyOrValue},
		{"two faults the other way", []any{tag(attrKey, number(1))}, nil, MissingTagKeyOrValue},
	} {
		for range 8 { // a reason that depends on the order of a map would change a label at every visit
			got, reason := parseAllocations(tt.in)
			if diff := cmp.Diff(tt.want, got); diff != "" || reason != tt.reason {
				t.Fatalf("%s: reason %q, want %q (-want +got):\n%s", tt.name, reason, tt.reason, diff)
			}
		}
	}
}

func TestSumsAreHeldPerRow(t *testing.T) { // F37: 5 with 7 allocated and 7 with 5 must not pass together
	t.Parallel()
	row := func(quantity, allocated int) Item {
		return unitRow(int64(quantity)).with(AttrAllocations, []any{allocation(allocated, "team", "a")})
	}
	if _, reason := foldOf(row(5, 7), row(7, 5)).Record(); reason != AllocationSumMismatch {
		t.Errorf("5 with 7 and 7 with 5: %q", reason)
	}
	rec, reason := foldOf(row(5, 5), row(7, 7)).Record()
	if diff := cmp.Diff([]Allocation{{12, []Tag{{"team", "a"}}}}, rec.Allocations); diff != "" || reason != "" {
		t.Errorf("5 with 5 and 7 with 7: %q\n%s", reason, diff)
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	row := func(quantity int, list ...any) Item { return unitRow(int64(quantity)).with(AttrAllocations, list) }
	for _, tt := range []struct {
		name   string
		items  []Item
		want   []Allocation
		reason Reason
	}{
		{"the order of tags does not count", []Item{row(1, allocation(1, "a", "1", "b", "2")), row(2, allocation(2, "b", "2", "a", "1"))},
			[]Allocation{{3, []Tag{{"a", "1"}, {"b", "2"}}}}, ""},
		{"untagged parts become one", []Item{row(3, allocation(1), allocation(2, "a", "1")), row(4, allocation(4))},
			[]Allocation{{5, nil}, {2, []Tag{{"a", "1"}}}}, ""},
		{"no tags, written out, are untagged", []Item{row(3, allocation(1), map[string]any{attrAllocated: number(2), attrTags: []any{}})}, []Allocation{{3, nil}}, ""},
		{"keys and values do not run together", []Item{row(2, allocation(1, "ab", "c"), allocation(1, "a", "bc"))},
			[]Allocation{{1, []Tag{{"a", "bc"}}}, {1, []Tag{{"ab", "c"}}}}, ""},
		{"a combination is not its part", []Item{row(2, allocation(1, "a", "1"), allocation(1, "a", "1", "b", "2"))},
			[]Allocation{{1, []Tag{{"a", "1"}}}, {1, []Tag{{"a", "1"}, {"b", "2"}}}}, ""},
		{"a zero row is neutral beside tagged ones", []Item{row(1, allocation(1, "a", "1")), unitRow(0)}, []Allocation{{1, []Tag{{"a", "1"}}}}, ""},
		{"a zero row is neutral beside untagged ones", []Item{unitRow(1), row(0, allocation(0, "a", "1"))}, nil, ""},
		{"zero rows alone", []Item{row(0, allocation(0, "a", "1")), unitRow(0)}, nil, ""},
		{"mixed", []Item{row(1, allocation(1, "a", "1")), unitRow(1)}, nil, MixedAllocatedAndUnallocated},
		{"mixed the other way", []Item{unitRow(1), row(1, allocation(1))}, nil, MixedAllocatedAndUnallocated},
		{"an empty list is no list", []Item{unitRow(1), row(1)}, nil, ""},
		{"a bad zero row is bad all the same", []Item{unitRow(1), row(0, allocation(1, "a", "1"))}, nil, AllocationSumMismatch},
	} {
		rec, reason := foldOf(tt.items...).Record()
		if diff := cmp.Diff(tt.want, rec.Allocations); diff != "" || reason != tt.reason {
			t.Errorf("%s: reason %q, want %q (-want +got):\n%s", tt.name, reason, tt.reason, diff)
		}
	}
}

func TestMergeInAnyOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var rows [][]Allocation
		var total int64
		for range rapid.IntRange(1, 5).Draw(t, "rows") {
			var list []Allocation
			for range rapid.IntRange(1, 4).Draw(t, "allocations") {
				a := Allocation{Quantity: rapid.Int64Range(0, 9).Draw(t, "quantity")}
				for range rapid.IntRange(0, 3).Draw(t, "tags") {
					a.Tags = append(a.Tags, Tag{rapid.SampledFrom([]string{"a", "ab", "b"}).Draw(t, "key"), rapid.SampledFrom([]string{"b", "bc", "c"}).Draw(t, "value")})
				}
				list, total = append(list, a), total+a.Quantity
			}
			rows = append(rows, list)
		}
		var one, other merger
		for _, list := range rows {
			one.add(list)
		}
		for _, list := range rapid.Permutation(rows).Draw(t, "order") {
			shuffled := rapid.Permutation(list).Draw(t, "within")
			for i := range shuffled {
				shuffled[i].Tags = rapid.Permutation(shuffled[i].Tags).Draw(t, "tags")
			}
			other.add(shuffled)
		}
		if diff := cmp.Diff(one.list(), other.list()); diff != "" {
			t.Fatal(diff)
		}
		var sum int64
		seen := map[string]bool{}
		for _, a := range one.list() {
			tags := slices.Clone(a.Tags)
			slices.SortFunc(tags, func(x, y Tag) int { return strings.Compare(x.Key+"\x00"+x.Value, y.Key+"\x00"+y.Value) })
			if key := fmt.Sprintf("%q", tags); seen[key] {
				t.Fatalf("%s stands twice", key)
			} else {
				seen[key] = true
			}
			sum += a.Quantity
		}
		if sum != total {
			t.Fatalf("%d units of %d", sum, total)
		}
	})
}

func TestTagCharacters(t *testing.T) {
	t.Parallel()
	const admitted = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+ -=._:/@"
	for c := range rune(0x180) {
		want := strings.ContainsRune(admitted, c)
		if got := validTag("a"+string(c), 10); got != want {
			t.Errorf("a tag with %q: %v, want %v", c, got, want)
		}
	}
	for s, want := range map[string]bool{
		strings.Repeat("k", 100): true, strings.Repeat("k", 101): false, "": true, // empty is another reason
	} {
		if got := validTag(s, maxTagKey); got != want {
			t.Errorf("a key of %d: %v", len(s), got)
		}
	}
	if !validTag(strings.Repeat("v", 256), maxTagValue) || validTag(strings.Repeat("v", 257), maxTagValue) {
		t.Error("values end at 256 characters")
	}
}
