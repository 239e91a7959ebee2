package metering

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// foldOf folds items as rows of groupH's hour, the first at 14:00:00, each a second after the one before it.
func foldOf(items ...Item) *Fold {
	g := groupH()
	if len(items) > 0 {
		g.License, _ = items[0][AttrLicense].(string)
	}
	f := NewFold(g, instant("2026-03-10T15:20:00Z"))
	for i, item := range items {
		s := Second(g.Hour)*secondsPerHour + Second(i)
		f.Add(RowFromItem(item.with(AttrRowKey, g.RowKey(s), AttrTimestamp, s.String())))
	}
	return f
}

func unitRow(n int64) Item { return rowItem().with(AttrQuantity, number(n)) }

// rejected is the row after a rejection: without its marker, as it was otherwise.
func rejected(i Item) Item { return i.with(AttrPending, without{}, AttrStatus, "RejectedClientSide") }

// tagSets are n allocations of one unit, each with a tag of its own.
func tagSets(from, n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = allocation(1, "team", fmt.Sprintf("t%d", from+i))
	}
	return list
}

// wideRows are rows with n combinations of five tags of 10 + 12 characters, a thousand units each.
func wideRows(n int) []Item {
	var items []Item
	for from := 0; from < n; from += 100 {
		list := make([]any, 0, 100)
		for i := from; i < min(from+100, n); i++ {
			var tags []string
			for k := range 5 {
				tags = append(tags, fmt.Sprintf("key-%06d", k), fmt.Sprintf("value-%06d", i))
			}
			list = append(list, allocation(1000, tags...))
		}
		items = append(items, unitRow(int64(1000*len(list))).with(AttrAllocations, list))
	}
	return items
}

// widestSets are n allocations of one unit with the largest tags that the API admits.
func widestSets(n int) []any {
	list := make([]any, n)
	for i := range list {
		var tags []string
		for k := range 5 {
			tags = append(tags, fmt.Sprintf("%0100d", k), fmt.Sprintf("%0256d", i))
		}
		list[i] = allocation(1, tags...)
	}
	return list
}

func TestFoldMakesTheRecord(t *testing.T) {
	t.Parallel()
	f := foldOf(unitRow(5), unitRow(0), unitRow(2))
	rec, reason := f.Record()
	want := Record{
		License: licenseA, SortKey: buyer + "#api_calls#2026-03-10T14", Account: buyer, Dimension: "api_calls", HourBucket: "2026-03-10T14",
		Pending: "2026-03-10T14", Quantity: Units(7), Manifest: "v1 3 7 0:5 1:0 1:2",
	}
	if diff := cmp.Diff(want, rec); diff != "" || reason != "" || f.Pending() != 3 {
		t.Errorf("reason %q, %d pending (-want +got):\n%s", reason, f.Pending(), diff)
	}
	if reason := rec.Validate(); reason != "" {
		t.Errorf("the record that was made is not valid: %q", reason)
	}
}

func TestFoldTakesEachRowAtItsDue(t *testing.T) {
	t.Parallel()
	ended := func(status string) Item { return unitRow(4).with(AttrPending, without{}, AttrStatus, status) }
	for _, tt := range []struct {
		name    string
		items   []Item
		sum     int64
		count   int
		pending int
	}{
		{"no rows", nil, 0, 0, 0},
		{"zeros", []Item{unitRow(0), unitRow(0)}, 0, 2, 2},
		{"rejected rows take part again", []Item{unitRow(1), rejected(unitRow(2))}, 3, 2, 1},
		{"all rejected: nothing to do", []Item{rejected(unitRow(2))}, 2, 1, 0},
		{"dropped rows do not", []Item{unitRow(1), rejected(unitRow(2)).with(AttrDropped, true)}, 1, 1, 1},
		{"a dropped bad row spoils nothing", []Item{unitRow(1), rejected(rowItem().with(AttrQuantity, "abc")).with(AttrDropped, true)}, 1, 1, 1},
		{"dropped says true, not \"true\"", []Item{unitRow(1), rejected(unitRow(2)).with(AttrDropped, "true")}, 3, 2, 1},
		{"ended rows do not", []Item{unitRow(1), ended("Aggregated"), ended("LateUsage"), ended("AggregationExpired")}, 1, 1, 1},
		{"neither marker nor status", []Item{unitRow(1), unitRow(2).with(AttrPending, without{})}, 1, 1, 1},
		{"a marker beats an old status", []Item{unitRow(1), ended("LateUsage").with(AttrPending, "2026-03-10T14")}, 5, 2, 2},
		{"a wrong bucket alone never rejects", []Item{unitRow(1), unitRow(2).with(AttrPending, "2026-03-10T16")}, 3, 2, 2},
	} {
		f := foldOf(tt.items...)
		rec, reason := f.Record()
		if reason != "" || rec.Quantity != Units(tt.sum) || f.Manifest().Count() != tt.count || f.Pending() != tt.pending {
			t.Errorf("%s: reason %q, quantity %+v from %d rows, %d pending; want %d from %d, %d pending",
				tt.name, reason, rec.Quantity, f.Manifest().Count(), f.Pending(), tt.sum, tt.count, tt.pending)
		}
	}
}

func TestMendedRowBringsItsHourBack(t *testing.T) { // F8
	t.Parallel()
	var group []Item
	for range 10 {
		group = append(group, unitRow(100))
	}
	bad := foldOf(append(group, rowItem().with(AttrQuantity, number(2)+".5"))...)
	if _, reason := bad.Record(); reason != NonIntegerQuantity || len(bad.Rejections()) != 11 {
		t.Fatalf("reason %q, %d rejections", reason, len(bad.Rejections()))
	}
	for i := range group {
		group[i] = rejected(group[i])
	}
	rec, reason := foldOf(append(group, unitRow(3))...).Record()
	if reason != "" || rec.Quantity != Units(1003) {
		t.Errorf("mended: %q, %+v, want 1003", reason, rec.Quantity)
	}
}

func TestHalfARejectionIsFinished(t *testing.T) { // F9
	t.Parallel()
	items := []Item{rejected(rowItem().with(AttrQuantity, "abc"))}
	for i := range 19 {
		if i < 9 {
			items = append(items, rejected(unitRow(10)))
			continue
		}
		items = append(items, unitRow(10))
	}
	f := foldOf(items...)
	rec, reason := f.Record()
	if reason != NonNumericQuantity || rec.Quantity.Whole {
		t.Fatalf("reason %q, record %+v", reason, rec)
	}
	left := f.Rejections()
	if len(left) != 10 || left[0].Key != groupH().RowKey(second("2026-03-10T14:00:10")) || left[0].Units() != 10 {
		t.Errorf("%d rows are left to reject: %+v", len(left), left)
	}
}

func TestRejectionsSayWhatWasJudged(t *testing.T) {
	t.Parallel()
	row := rowItem().with(AttrQuantity, "abc", AttrRowKey, groupH().RowKey(second("2026-03-10T14:00:00")), AttrTimestamp, "2026-03-10T14:00:00")
	f := foldOf(row, unitRow(-2))
	got := f.Rejections()
	want := NewCleanupRow(RowFromItem(row))
	if diff := cmp.Diff(want, got[0]); diff != "" || got[0].Quantity != nil || got[1].Units() != 0 || *got[1].Quantity != -2 {
		t.Errorf("%+v (-want +got):\n%s", got, diff)
	}
	if _, reason := f.Record(); reason != NonNumericQuantity {
		t.Errorf("the first reason is kept, not %q", reason)
	}
}

func TestFoldPassesOverOtherGroups(t *testing.T) { // case 35
	t.Parallel()
	f := NewFold(groupH(), instant("2026-03-10T15:20:00Z"))
	for _, key := range []string{
		buyer + "#api_calls#2026-03-10T14:00:00#2026-03-10T14:00:00", buyer + "#api_calls#2026-03-10T15:00:00", "111122223334#api_calls#2026-03-10T14:00:00",
		buyer + "#api_calls#2026-03-10T14:zz:00", "x",
	} {
		f.Add(RowFromItem(rowItem().with(AttrRowKey, key)))
	}
	if f.Pending() != 0 || f.Manifest().Count() != 0 || len(f.Rejections()) != 0 {
		t.Errorf("%d pending, %d rows", f.Pending(), f.Manifest().Count())
	}
}

func TestFoldSum(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		quantities := rapid.SliceOfN(rapid.Int64Range(0, MaxQuantity/8), 1, 12).Draw(t, "quantities")
		var items []Item
		var sum int64
		for _, q := range quantities {
			items, sum = append(items, unitRow(q)), sum+q
		}
		f := foldOf(items...)
		rec, reason := f.Record()
		if sum > MaxQuantity {
			if reason != QuantityOutOfRange {
				t.Fatalf("sum %d: reason %q", sum, reason)
			}
			return
		}
		m, err := ParseManifest(rec.Manifest)
		if reason != "" || rec.Quantity != Units(sum) || err != nil || m.Sum() != sum || m.Count() != len(items) {
			t.Fatalf("sum %d of %d: %q, %+v, %v", sum, len(items), reason, rec, err)
		}
	})
}

// The figures were worked out apart from this code by the rules of the DynamoDB developer guide, for the list alone.
func TestStoredSize(t *testing.T) {
	t.Parallel()
	size := func(sets, key, value, tags int, quantity int64) int {
		var a Allocation
		a.Quantity = quantity
		for range tags {
			a.Tags = append(a.Tags, Tag{strings.Repeat("k", key), strings.Repeat("v", value)})
		}
		list := make([]Allocation, sets)
		for i := range list {
			list[i] = a
		}
		return Record{Allocations: list}.storedSize() - Record{}.storedSize() - len(AttrAllocations)
	}
	for _, tt := range []struct {
		tags, key, value int
		quantity         int64
		want, fit        int
	}{
		{5, 100, 256, MaxQuantity, 4727503, 216}, // the largest that the API admits
		{5, 10, 12, 10_000, 547503, 1870},        // case 32
		{2, 9, 12, 10_000, 272503, 3757},
		{1, 9, 12, 10_000, 185003, 5535},
	} {
		got := size(2500, tt.key, tt.value, tt.tags, tt.quantity)
		if got != tt.want {
			t.Errorf("2,500 sets of %d tags (%d+%d): %d bytes, want %d", tt.tags, tt.key, tt.value, got, tt.want)
		}
		const item = 400 * 1024
		if size(tt.fit, tt.key, tt.value, tt.tags, tt.quantity) > item || size(tt.fit+1, tt.key, tt.value, tt.tags, tt.quantity) <= item {
			t.Errorf("an item of 400 KB should hold %d sets of %d tags (%d+%d)", tt.fit, tt.tags, tt.key, tt.value)
		}
	}
}

func TestFullestGroupFits(t *testing.T) {
	t.Parallel()
	var items []Item
	for range 3600 {
		items = append(items, unitRow(MaxQuantity/3600))
	}
	rec, reason := foldOf(items...).Record()
	if reason != "" || len(rec.Manifest) > 40_000 {
		t.Errorf("3,600 rows: %q, a manifest of %d bytes", reason, len(rec.Manifest))
	}
}

func TestFoldHoldsNoRows(t *testing.T) { // a group's rows may come to megabytes; the note on Fold says what stays
	t.Parallel()
	const fingerprint = 16 // hexadecimal digits
	if size := unsafe.Sizeof(foldedRow{}) + fingerprint; size > 64 {
		t.Errorf("a folded row takes %d bytes", size)
	}
}
