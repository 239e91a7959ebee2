package metering

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const total = "Aggregated total quantity 10 from 3 raw usage records"

func TestAggregatedReason(t *testing.T) {
	t.Parallel()
	if got := AggregatedReason(10, 3); got != total {
		t.Error(got)
	}
}

func TestCovered(t *testing.T) {
	t.Parallel()
	waiting := func(pairs ...any) Item { return rowItem().with(pairs...) }
	ended := func(status string, pairs ...any) Item {
		return rowItem().with(AttrPending, without{}, AttrStatus, status).with(pairs...)
	}
	const grew, shrank, none = "Grew from 3 to 5 after its hour was committed", "Aggregated with quantity 3, the row now holds 2", "Aggregated with quantity 3, the row now holds none"
	for _, tt := range []struct {
		name    string
		item    Item
		changed bool
		status  Status
		late    Quantity
		reason  string
	}{
		{"equal", waiting(), true, Aggregated, Quantity{}, total},
		{"equal, written as 3.0", waiting(AttrQuantity, number(3)+".0"), true, Aggregated, Quantity{}, total},
		{"equal, other allocations", waiting(AttrAllocations, []any{allocation(3)}), true, Aggregated, Quantity{}, total},
		{"equal, expired: F2", ended("AggregationExpired"), true, Aggregated, Quantity{}, total},
		{"equal, rejected: F25", ended("RejectedClientSide", AttrStatusReason, "MissingDimension"), true, Aggregated, Quantity{}, total},
		{"equal, late", ended("LateUsage", AttrLateQuantity, number(3)), true, Aggregated, Quantity{}, total},
		{"equal, no label at all", waiting(AttrPending, without{}), true, Aggregated, Quantity{}, total},
		{"equal, another reason", ended("Aggregated", AttrStatusReason, "why"), true, Aggregated, Quantity{}, total},
		{"equal, as it should be", ended("Aggregated", AttrStatusReason, total), false, Aggregated, Quantity{}, total},
		{"equal, waiting again", waiting(AttrStatus, "Aggregated", AttrStatusReason, total), true, Aggregated, Quantity{}, total},
		{"grown: F7", waiting(AttrQuantity, number(5)), true, LateUsage, Units(2), grew},
		{"grown, without marker", ended("Aggregated", AttrQuantity, number(5)), false, "", Quantity{}, ""},
		{"grown, already late", ended("LateUsage", AttrQuantity, number(5)), false, "", Quantity{}, ""},
		{"grown beyond any record", waiting(AttrQuantity, number(1e12)), true, LateUsage, Units(1e12 - 3), "Grew from 3 to 1000000000000 after its hour was committed"},
		{"smaller", waiting(AttrQuantity, number(2)), true, Aggregated, Quantity{}, shrank},
		{"smaller, without marker", ended("Aggregated", AttrQuantity, number(2)), false, "", Quantity{}, ""},
		{"zero now", waiting(AttrQuantity, number(0)), true, Aggregated, Quantity{}, "Aggregated with quantity 3, the row now holds 0"},
		{"negative", waiting(AttrQuantity, number(-1)), true, Aggregated, Quantity{}, "Aggregated with quantity 3, the row now holds -1"},
		{"text", waiting(AttrQuantity, "abc"), true, Aggregated, Quantity{}, "Aggregated with quantity 3, the row now holds abc"},
		{"a fraction", waiting(AttrQuantity, number(2)+".5"), true, Aggregated, Quantity{}, "Aggregated with quantity 3, the row now holds 2.5"},
		{"no number, without marker", ended("Aggregated", AttrQuantity, "abc"), false, "", Quantity{}, ""},
		{"none", waiting(AttrQuantity, without{}), true, Aggregated, Quantity{}, none},
		{"none, without marker", ended("Aggregated", AttrQuantity, without{}), false, "", Quantity{}, ""},
	} {
		row := RowFromItem(tt.item)
		label, changed := Covered(row, 3, total)
		if changed != tt.changed {
			t.Errorf("%s: changed %v, want %v", tt.name, changed, tt.changed)
			continue
		}
		if !changed {
			continue
		}
		want := Label{License: row.License, SortKey: row.SortKey, Status: tt.status, Reason: tt.reason, LateQuantity: tt.late}
		if row.Quantity == Units(3) { // only the quantity counts, and no marker is needed
			want.Quantity = Units(3)
		} else {
			want.Marker, want.Fingerprint = true, row.Fingerprint()
		}
		if diff := cmp.Diff(want, label); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if !label.Holds(row) {
			t.Errorf("%s: the label does not hold for the row it was made for", tt.name)
		}
		if after := label.Apply(row); !label.Shows(after) {
			t.Errorf("%s: the label does not show once written", tt.name)
		} else if again, changed := Covered(after, 3, total); changed {
			t.Errorf("%s: a second visit labels it again: %+v", tt.name, again)
		}
	}
}

func TestCoverageConservesUnits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		row := RowFromItem(drawItem(t, rowItem(), rowAttributes))
		committed := rapid.Int64Range(0, 9).Draw(t, "committed")
		label, changed := Covered(row, committed, total)
		if !changed {
			return
		}
		after := label.Apply(row)
		q, known := after.Quantity.Count()
		late, isLate := after.LateQuantity.Count()
		switch {
		case known && q > committed && (after.Status != LateUsage || late != q-committed):
			t.Fatalf("%d of %d: %s, late %d", q, committed, after.Status, late)
		case (!known || q <= committed) && (after.Status != Aggregated || isLate):
			t.Fatalf("%d (%v) of %d: %s, late %d", q, known, committed, after.Status, late)
		case !label.Holds(row) || !label.Shows(after):
			t.Fatalf("holds %v, shows %v", label.Holds(row), label.Shows(after))
		}
	})
}

func TestUncovered(t *testing.T) {
	t.Parallel()
	now := instant("2026-03-10T15:20:00Z")
	for _, tt := range []struct {
		name   string
		item   Item
		status Status
		reason Reason
	}{
		{"late: F3", rowItem(), LateUsage, ""},
		{"a zero changes nothing", rowItem().with(AttrQuantity, number(0)), Aggregated, ""},
		{"not valid", rowItem().with(AttrQuantity, "7"), RejectedClientSide, NonNumericQuantity},
		{"a zero that is not valid", rowItem().with(AttrQuantity, number(0), AttrDimension, without{}), RejectedClientSide, MissingDimension},
		{"its bucket does not count", rowItem().with(AttrPending, "2026-03-10T16"), LateUsage, ""},
	} {
		if status, reason := Uncovered(RowFromItem(tt.item), now); status != tt.status || reason != tt.reason {
			t.Errorf("%s: %s, %q, want %s, %q", tt.name, status, reason, tt.status, tt.reason)
		}
	}
}
