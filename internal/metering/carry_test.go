package metering

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	carryNow    = "2026-03-10T16:20:00Z"
	carryTarget = "2026-03-10T16:19:59"
)

// lateItem is a row of 14:00:05 that came after its hour was committed.
func lateItem() Item {
	return rowItem().with(AttrPending, without{}, AttrStatus, "LateUsage", AttrStatusReason, LateReason,
		AttrCreatedAt, "2026-03-10T15:10:00Z", AttrUpdatedAt, "2026-03-10T15:20:00Z")
}

// grownItem is a row that was committed with 3 and holds 8.
func grownItem() Item {
	return lateItem().with(AttrQuantity, number(8), AttrLateQuantity, number(5), AttrStatusReason, "Grew from 3 to 8 after its hour was committed")
}

// hourRecord is the record of their hour, which covers other rows: seconds 60 with 4 and 61 with 6.
func hourRecord() Item {
	return recordItem().with(AttrPending, without{}, AttrStatus, "Success", AttrQuantity, number(10), AttrManifest, "v1 2 10 60:4 1:6")
}

// coveringRecord is one that covers the row at second 5 with 3 as well.
func coveringRecord() Item {
	return hourRecord().with(AttrQuantity, number(13), AttrManifest, "v1 3 13 5:3 55:4 1:6")
}

func carryOf(row, record Item, now, target string) (Carry, RowObstacle) {
	var r *Record
	if record != nil {
		rec := RecordFromItem(record)
		r = &rec
	}
	return CarryOf(RowFromItem(row), r, Rules{}, second(target), instant(now))
}

func TestOnlyLateUsageIsCarried(t *testing.T) {
	t.Parallel()
	tagged := []any{allocation(8, "team", "a")}
	tests := []struct {
		name        string
		row, record Item
		now, target string
		want        RowObstacle
	}{
		{"a late row", lateItem(), hourRecord(), carryNow, carryTarget, ""},
		{"a late row with allocations", lateItem().with(AttrAllocations, []any{allocation(3, "team", "a")}), hourRecord(), carryNow, carryTarget, ""},
		{"a grown row", grownItem(), coveringRecord(), carryNow, carryTarget, ""},
		{"a row of last year", lateItem(), hourRecord(), "2027-03-10T16:20:00Z", "2027-03-10T16:00:00", ""},
		{"its record is refused", lateItem(), hourRecord().with(AttrStatus, "CustomerNotSubscribed"), carryNow, carryTarget, ""},
		{"its record waits", lateItem(), hourRecord().with(AttrPending, "2026-03-10T14", AttrStatus, without{}), carryNow, carryTarget, ""},
		{"its record was written by the seller", lateItem(), hourRecord().with(AttrManifest, without{}), carryNow, carryTarget, ""},

		{"waiting", lateItem().with(AttrPending, "2026-03-10T14"), hourRecord(), carryNow, carryTarget, RowWaiting},
		{"aggregated", lateItem().with(AttrStatus, "Aggregated"), hourRecord(), carryNow, carryTarget, RowNotLate},
		{"rejected", lateItem().with(AttrStatus, "RejectedClientSide"), hourRecord(), carryNow, carryTarget, RowNotLate},
		{"expired", lateItem().with(AttrStatus, "AggregationExpired"), hourRecord(), carryNow, carryTarget, RowNotLate},
		{"dropped", lateItem().with(AttrDropped, true), hourRecord(), carryNow, carryTarget, RowDropped},
		{"F32: by identifier", lateItem().with(AttrLicense, "product-1", AttrCustomerIdentifier, "c"), hourRecord().with(AttrLicense, "product-1"), carryNow, carryTarget, RowLegacy},
		{"no record", lateItem(), nil, carryNow, carryTarget, RowNoRecord},
		{"another hour's record", lateItem(), hourRecord().with(AttrRecordKey, buyer+"#api_calls#2026-03-10T13"), carryNow, carryTarget, RowNoRecord},
		{"another license's record", lateItem(), hourRecord().with(AttrLicense, licenseA+"0"), carryNow, carryTarget, RowNoRecord},
		{"a key that names no group", lateItem().with(AttrRowKey, "no key"), hourRecord(), carryNow, carryTarget, RowFault},
		{"a manifest of another kind", lateItem(), hourRecord().with(AttrManifest, "v2 1 1 0:1"), carryNow, carryTarget, RowManifest},
		{"a manifest that is no text", lateItem(), hourRecord().with(AttrManifest, number(1)), carryNow, carryTarget, RowManifest},
		{"no number", lateItem().with(AttrQuantity, "3"), hourRecord(), carryNow, carryTarget, RowFault},
		{"negative", lateItem().with(AttrQuantity, number(-3)), hourRecord(), carryNow, carryTarget, RowFault},
		{"not valid", lateItem().with(AttrDimension, "storage"), hourRecord(), carryNow, carryTarget, RowFault},
		{"allocations that do not add up", lateItem().with(AttrAllocations, tagged), hourRecord(), carryNow, carryTarget, RowFault},
		{"nothing", lateItem().with(AttrQuantity, number(0)), hourRecord(), carryNow, carryTarget, RowCovered},
		{"a stale label", lateItem(), coveringRecord(), carryNow, carryTarget, RowCovered},
		{"it shrank", lateItem().with(AttrQuantity, number(2)), coveringRecord(), carryNow, carryTarget, RowCovered},
		{"it grew, with allocations", grownItem().with(AttrAllocations, tagged), coveringRecord(), carryNow, carryTarget, RowTagged},
		{"it grew, with odd allocations", grownItem().with(AttrAllocations, "x"), coveringRecord(), carryNow, carryTarget, RowTagged},
		{"too much", grownItem().with(AttrQuantity, number(3+MaxQuantity+1)), coveringRecord(), carryNow, carryTarget, RowTooMuch},
		{"as much as there may be", grownItem().with(AttrQuantity, number(3+MaxQuantity)), coveringRecord(), carryNow, carryTarget, ""},
		{"too much, and all late", lateItem().with(AttrQuantity, number(MaxQuantity+1)), hourRecord(), carryNow, carryTarget, RowTooMuch},
		{"a trace that is none", lateItem().with(AttrCarriedTo, "x"), hourRecord(), carryNow, carryTarget, RowForeign},

		{"its own hour", lateItem(), hourRecord(), "2026-03-10T14:30:00Z", "2026-03-10T14:29:00", RowNotYet},
		{"before its own hour", lateItem(), hourRecord(), "2026-03-10T13:30:00Z", "2026-03-10T13:29:00", RowNotYet},
		{"the hour before", lateItem(), hourRecord(), carryNow, "2026-03-10T15:59:59", RowTarget},
		{"the hour after", lateItem(), hourRecord(), carryNow, "2026-03-10T17:00:00", RowTarget},
		{"the first second", lateItem(), hourRecord(), carryNow, "2026-03-10T16:00:00", ""},
		{"a second that clocks may have", lateItem(), hourRecord(), carryNow, "2026-03-10T16:25:00", ""},
		{"a second to come", lateItem(), hourRecord(), carryNow, "2026-03-10T16:25:01", RowTarget},
	}
	for _, tt := range tests {
		if _, got := carryOf(tt.row, tt.record, tt.now, tt.target); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestCarryIntoAnHourThatCanBeBilled: under a window of one hour, the current hour's last seconds are too late already.
func TestCarryIntoAnHourThatCanBeBilled(t *testing.T) {
	t.Parallel()
	record := RecordFromItem(hourRecord())
	for now, want := range map[string]RowObstacle{"2026-03-10T16:59:49Z": "", "2026-03-10T16:59:50Z": RowTarget} {
		if _, got := CarryOf(RowFromItem(lateItem()), &record, Rules{Window: time.Hour}, second(carryTarget), instant(now)); got != want {
			t.Errorf("at %s: %q, want %q", now, got, want)
		}
	}
}

func TestTargetObstacle(t *testing.T) {
	t.Parallel()
	record, expiry := RecordFromItem(recordItem()), instant("2026-03-10T16:30:00Z")
	for _, tt := range []struct {
		name       string
		current    *Record
		subscriber *Subscriber
		now        string
		want       RowObstacle
	}{
		{"nothing is known", nil, nil, carryNow, ""},
		{"active", nil, &Subscriber{Status: LifecycleActive}, carryNow, ""},
		{"committed", &record, &Subscriber{Status: LifecycleActive}, carryNow, RowCommitted},
		{"in its last hour", nil, &Subscriber{Status: LifecycleDeprovisioning, Expiry: expiry}, "2026-03-10T16:29:59Z", ""},
		{"after it", nil, &Subscriber{Status: LifecycleDeprovisioning, Expiry: expiry}, "2026-03-10T16:30:00Z", RowEnded},
		{"inactive", nil, &Subscriber{Status: LifecycleInactive}, carryNow, RowEnded},
	} {
		if got := TargetObstacle(tt.current, tt.subscriber, instant(tt.now)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestCarriedRow: a row that came late leaves nothing behind, its allocations and retention go with it.
func TestCarriedRow(t *testing.T) {
	t.Parallel()
	tags := []any{allocation(1, "team", "a"), allocation(2)}
	row := lateItem().with(AttrAllocations, tags, AttrTTL, number(1_000_000), AttrFlushes, []any{"token"}, "note", "mine")
	x, o := carryOf(row, hourRecord(), carryNow, carryTarget)
	if o != "" {
		t.Fatal(o)
	}
	first := RowFromItem(row)
	left := x.Apply(first)
	targetKey := buyer + "#api_calls#" + carryTarget
	entry := map[string]any{"at": carryNow, "to": targetKey, AttrQuantity: number(3)}
	want := row.with(AttrAllocations, without{}, AttrQuantity, number(0), AttrStatus, "Aggregated", AttrUpdatedAt, carryNow,
		AttrStatusReason, "Aggregated total quantity 10 from 2 raw usage records", AttrCarriedTo, []any{entry})
	if diff := cmp.Diff(want, left.Item()); diff != "" {
		t.Errorf("source (-want +got):\n%s", diff)
	}
	shift := int64(second(carryTarget) - second("2026-03-10T14:00:05"))
	wantTarget := rowItem().with(AttrRowKey, targetKey, AttrTimestamp, carryTarget, AttrPending, "2026-03-10T16", AttrAllocations, tags,
		AttrTTL, number(1_000_000+shift), AttrCarriedFrom, first.SortKey, AttrCreatedAt, carryNow, AttrUpdatedAt, carryNow)
	if diff := cmp.Diff(wantTarget, x.Row().Item()); diff != "" {
		t.Errorf("target (-want +got):\n%s", diff)
	}
	if !x.Holds(first) || x.Holds(left) || !x.Shows(left) || x.Shows(first) {
		t.Error("the write is not done once")
	}
	if len(first.Allocations) != 2 || first.Other[AttrCarriedTo] != nil {
		t.Error("the row that was judged has changed")
	}
	if status, reason := Uncovered(RowFromItem(left.Item().with(AttrPending, "2026-03-10T14")), instant(carryNow)); status != Aggregated || reason != "" {
		t.Errorf("what is left, made to wait again: %s, %s", status, reason)
	}
}

// TestCarriedAllocationsThatAreNotInOurForm: what the pipeline reads of them goes along, and nothing of them stays behind.
func TestCarriedAllocationsThatAreNotInOurForm(t *testing.T) {
	t.Parallel()
	coloured := allocation(3, "team", "a")
	coloured["Colour"] = "red"
	row := lateItem().with(AttrAllocations, []any{coloured})
	x, o := carryOf(row, hourRecord(), carryNow, carryTarget)
	if o != "" {
		t.Fatal(o)
	}
	if left, there := x.Apply(RowFromItem(row)).Item()[AttrAllocations]; there {
		t.Errorf("left behind: %v", left)
	}
	if diff := cmp.Diff([]Allocation{{3, []Tag{{"team", "a"}}}}, x.Row().Allocations); diff != "" {
		t.Errorf("carried (-want +got):\n%s", diff)
	}
}

// TestCarriedGrowth: a row that grew keeps what was committed, as the rule of coverage would leave it, and can grow and be carried from again.
func TestCarriedGrowth(t *testing.T) {
	t.Parallel()
	const total = "Aggregated total quantity 13 from 3 raw usage records"
	x, o := carryOf(grownItem(), coveringRecord(), carryNow, carryTarget)
	if o != "" {
		t.Fatal(o)
	}
	left := x.Apply(RowFromItem(grownItem()))
	if left.Quantity != Units(3) || left.Status != Aggregated || left.StatusReason != total || left.LateQuantity.Whole || x.Row().Quantity != Units(5) {
		t.Errorf("left %+v of which %+v was carried", left, x.Row())
	}
	if label, changed := Covered(left, 3, total); changed {
		t.Errorf("the next visit changes it: %+v", label)
	}

	more := NewFlush(groupH(), second("2026-03-10T14:00:05"), 2, "more").Apply(&left)
	label, _ := Covered(more, 3, total)
	late := label.Apply(more)
	y, o := carryOf(late.Item(), coveringRecord(), "2026-03-10T17:00:00Z", "2026-03-10T17:00:00")
	if o != "" || y.Quantity != 2 || x.Holds(late) || !x.Shows(late) || y.Shows(late) {
		t.Fatalf("grown again: %q, %+v", o, y)
	}
	trace, _ := y.Apply(late).Other[AttrCarriedTo].([]any)
	if len(trace) != 2 {
		t.Errorf("trace %v", trace)
	}
}

// TestCarryIsConditional: whatever was judged has to be as it was read.
func TestCarryIsConditional(t *testing.T) {
	t.Parallel()
	x, _ := carryOf(lateItem(), hourRecord(), carryNow, carryTarget)
	for name, change := range map[string][]any{
		"another quantity":  {AttrQuantity, number(4)},
		"other allocations": {AttrAllocations, []any{allocation(3)}},
		"waiting":           {AttrPending, "2026-03-10T14"},
		"aggregated":        {AttrStatus, "Aggregated"},
		"dropped":           {AttrDropped, true},
		"carried before":    {AttrCarriedTo, []any{map[string]any{"at": "x"}}},
		"another trace":     {AttrCarriedTo, true},
	} {
		if x.Holds(RowFromItem(lateItem().with(change...))) {
			t.Errorf("%s: it is carried", name)
		}
	}
	if !x.Holds(RowFromItem(lateItem().with("note", "mine", AttrTTL, number(9), AttrUpdatedAt, "now"))) {
		t.Error("what was not judged stands in the way")
	}
	other := x
	other.Target++
	if other.Shows(x.Apply(RowFromItem(lateItem()))) {
		t.Error("a carry to another second is taken for this one")
	}
}

// TestCarryConservesUnits: of any row and record at all. What the source held is what it keeps and what the target has; the record
// covers what is kept, and nothing of it is late any more; the target is valid by itself.
func TestCarryConservesUnits(t *testing.T) {
	t.Parallel()
	now, carried := instant(carryNow), 0
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.SampledFrom([]Item{lateItem(), grownItem()}).Draw(t, "row")
		item := drawItem(t, base, drawSome(t, append(rowAttributes, AttrCarriedFrom)))
		rec := RecordFromItem(drawItem(t, rapid.SampledFrom([]Item{hourRecord(), coveringRecord()}).Draw(t, "record"), drawSome(t, recordAttributes)))
		r := RowFromItem(item)
		at := now.Unix() + rapid.Int64Range(-4000, 4000).Draw(t, "target")
		x, o := CarryOf(r, &rec, Rules{}, Second(at), now)
		if o != "" {
			return
		}
		carried++
		left, target := RowFromItem(x.Apply(r).Item()), RowFromItem(x.Row().Item())
		key, _ := ParseRowKey(r.SortKey)
		manifest, err := rec.Covers()
		committed, covered := manifest.Quantity(key.Second)
		switch {
		case err != nil, r.Pending != "", r.Status != LateUsage:
			t.Fatalf("carried: %+v", r)
		case !x.Holds(r), x.Holds(left), !x.Shows(left):
			t.Fatalf("not done once: %+v", r)
		case left.Quantity.N+target.Quantity.N != r.Quantity.N, target.Quantity.N < 1, left.Quantity != Units(committed):
			t.Fatalf("%d became %d and %d, of which %d is committed", r.Quantity.N, left.Quantity.N, target.Quantity.N, committed)
		case target.Validate(now) != "", target.Pending != HourOf(now).String(), target.Status != "", target.SortKey != x.TargetKey():
			t.Fatalf("target %+v", target)
		case left.Status != Aggregated, left.Pending != "", left.LateQuantity.Whole:
			t.Fatalf("left %+v", left)
		}
		if _, changed := Covered(left, committed, left.StatusReason); covered && changed {
			t.Fatalf("the next visit changes it: %+v", left)
		}
	})
	if carried == 0 {
		t.Error("none was")
	}
}
