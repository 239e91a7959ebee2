package metering

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestRowRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		item := drawItem(t, rowItem(), rowAttributes)
		before := maps.Clone(item)
		row := RowFromItem(item)
		if !sameItem(item, before) {
			t.Fatalf("reading changed the item:\n%s", cmp.Diff(before, item))
		}
		written := row.Item()
		if !sameItem(written, item) {
			t.Fatalf("lost on the way (-stored +written):\n%s", cmp.Diff(item, written))
		}
		again := RowFromItem(written)
		if diff := cmp.Diff(row, again); diff != "" {
			t.Fatalf("read differently the second time:\n%s", diff)
		}
		if row.Fingerprint() != again.Fingerprint() || row.Validate(instant("2026-03-10T15:20:00Z")) != again.Validate(instant("2026-03-10T15:20:00Z")) {
			t.Fatalf("judged differently the second time: %#v", item)
		}
	})
}

func TestRowFromItem(t *testing.T) {
	t.Parallel()
	item := rowItem().with(AttrAllocations, []any{allocation(1, "team", "a"), allocation(2)}, AttrStatus, "LateUsage", AttrStatusReason, "why",
		AttrLateQuantity, number(2), AttrDropped, true, AttrCustomerIdentifier, "c", AttrCreatedAt, "x", AttrUpdatedAt, "y", "note", "kept", AttrTTL, number(9))
	want := Row{
		License: licenseA, SortKey: buyer + "#api_calls#2026-03-10T14:00:05", Account: buyer, Dimension: "api_calls", Timestamp: "2026-03-10T14:00:05",
		Quantity: Units(3), Allocations: []Allocation{{1, []Tag{{"team", "a"}}}, {2, nil}}, CustomerIdentifier: "c", Pending: "2026-03-10T14",
		Status: LateUsage, StatusReason: "why", LateQuantity: Units(2), Dropped: true, CreatedAt: "x", UpdatedAt: "y",
		Other: Item{"note": "kept", AttrTTL: number(9)},
	}
	if diff := cmp.Diff(want, RowFromItem(item)); diff != "" {
		t.Error(diff)
	}
}

// pendingRow is the valid row of rowItem.
func pendingRow() Row { return RowFromItem(rowItem()) }

func TestLabelHoldsOnlyWhatWasRead(t *testing.T) {
	t.Parallel()
	read := pendingRow()
	judged := Label{Marker: true, Fingerprint: read.Fingerprint(), Status: RejectedClientSide, Reason: "why"}
	covered := Label{Quantity: Units(3), Status: Aggregated, Reason: "why"} // cleanup alone needs no marker
	for _, tt := range []struct {
		name            string
		now             Item
		judged, covered bool
	}{
		{"as read", rowItem(), true, true},
		{"an attribute that nobody judged", rowItem().with("note", "x", AttrTTL, number(9), AttrUpdatedAt, "now"), true, true},
		{"grown: F7", rowItem().with(AttrQuantity, number(5)), false, false},
		{"the same number written differently", rowItem().with(AttrQuantity, number(3)+".0"), true, true},
		{"no number any more", rowItem().with(AttrQuantity, "3"), false, false},
		{"without a quantity", rowItem().with(AttrQuantity, without{}), false, false},
		{"no longer waiting", rowItem().with(AttrPending, without{}, AttrStatus, "LateUsage"), false, true},
		{"other allocations", rowItem().with(AttrAllocations, []any{allocation(3)}), false, true},
		{"another timestamp", rowItem().with(AttrTimestamp, "2026-03-10T14:00:06"), false, true},
	} {
		now := RowFromItem(tt.now)
		if got := judged.Holds(now); got != tt.judged {
			t.Errorf("%s: a judged label holds: %v, want %v", tt.name, got, tt.judged)
		}
		if got := covered.Holds(now); got != tt.covered {
			t.Errorf("%s: a covered label holds: %v, want %v", tt.name, got, tt.covered)
		}
	}
	if (Label{Status: Aggregated}).Holds(RowFromItem(rowItem().with(AttrQuantity, "abc"))) {
		t.Error("a label without any quantity holds for a row without any")
	}
}

func TestLabelApply(t *testing.T) {
	t.Parallel()
	at := instant("2026-03-10T15:20:00Z")
	row := RowFromItem(rowItem().with("note", "kept", AttrLateQuantity, number(1), AttrStatus, "LateUsage"))
	label := Label{Marker: true, Fingerprint: row.Fingerprint(), Status: Aggregated, Reason: "why", At: at}
	if label.Shows(row) {
		t.Error("the label shows before it is applied")
	}
	after := label.Apply(row)
	want := row
	want.Pending, want.Status, want.StatusReason, want.LateQuantity = "", Aggregated, "why", Quantity{}
	want.CreatedAt, want.UpdatedAt = "2026-03-10T15:20:00Z", "2026-03-10T15:20:00Z"
	if diff := cmp.Diff(want, after); diff != "" {
		t.Error(diff)
	}
	if !label.Shows(after) {
		t.Error("the label does not show after it was applied")
	}
	if after.Fingerprint() != row.Fingerprint() {
		t.Error("a label changes what it was judged by")
	}
	label.At = at.AddDate(0, 0, 1)
	if again := label.Apply(after); again.CreatedAt != want.CreatedAt || again.UpdatedAt != "2026-03-11T15:20:00Z" {
		t.Errorf("stamped %s, %s", again.CreatedAt, again.UpdatedAt)
	}
	for _, l := range []Label{
		{Status: LateUsage, Reason: "why"}, {Status: Aggregated, Reason: "other"}, {Status: Aggregated, Reason: "why", LateQuantity: Units(1)},
	} {
		if l.Shows(after) {
			t.Errorf("%+v shows on a row that says otherwise", l)
		}
	}
	waiting := after
	waiting.Pending = "2026-03-10T14"
	if label.Shows(waiting) {
		t.Error("the label shows on a row that waits again")
	}
}

func TestValidateNamesTheFirstFault(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { // and never panics, whatever the store holds
		row := RowFromItem(drawItem(t, rowItem(), rowAttributes))
		reason := row.Validate(instant("2026-03-10T15:20:00Z"))
		if reason != "" {
			return
		}
		key, malformed := ParseRowKey(row.SortKey)
		q, whole := row.Quantity.Count()
		if malformed != "" || key.Account != row.Account || key.Dimension != row.Dimension || key.Second.String() != row.Timestamp || !whole || q > MaxQuantity {
			t.Fatalf("a row passes that should not: %+v", row)
		}
		list, _ := allocationsOf(row.Allocations, row.Other)
		var sum int64
		for _, a := range list {
			sum += a.Quantity
		}
		if len(list) > 0 && sum != q {
			t.Fatalf("%d allocated of %d", sum, q)
		}
	})
}

func TestStatusOfARowSurvivesWriting(t *testing.T) {
	t.Parallel()
	for _, s := range []Status{Aggregated, LateUsage, RejectedClientSide, AggregationExpired} {
		row := Label{Status: s, Reason: fmt.Sprint("because ", s)}.Apply(pendingRow())
		if diff := cmp.Diff(row, RowFromItem(row.Item())); diff != "" {
			t.Error(diff)
		}
	}
}
