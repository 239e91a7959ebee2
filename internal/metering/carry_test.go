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
	x, o := CarryOf(RowFromItem(row), r, Rules{}, second(target), instant(now))
	x.Token = "token"
	return x, o
}

// carriedEntry is an entry of a record's list.
func carriedEntry(second string, quantity int64, with ...any) map[string]any {
	return Item{
		"at": "2026-03-10T15:30:00Z", AttrTimestamp: second, AttrQuantity: number(quantity), "to": buyer + "#api_calls#2026-03-10T15:20:01", "token": "earlier",
	}.with(with...)
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
		{"put once more after it was carried", lateItem(), hourRecord().with(AttrCarried, []any{carriedEntry("2026-03-10T14:00:05", 3)}), carryNow, carryTarget, RowCarried},
		{"put once more with more", lateItem().with(AttrQuantity, number(4)), hourRecord().with(AttrCarried, []any{carriedEntry("2026-03-10T14:00:05", 3)}), carryNow, carryTarget, ""},
		{"that with allocations", lateItem().with(AttrQuantity, number(4), AttrAllocations, []any{allocation(4, "team", "a")}), hourRecord().with(AttrCarried, []any{carriedEntry("2026-03-10T14:00:05", 3)}), carryNow, carryTarget, RowTagged},
		{"another second was carried", lateItem(), hourRecord().with(AttrCarried, []any{carriedEntry("2026-03-10T14:00:06", 3)}), carryNow, carryTarget, ""},
		{"a grown row, put once more", grownItem(), coveringRecord().with(AttrCarried, []any{carriedEntry("2026-03-10T14:00:05", 2), carriedEntry("2026-03-10T14:00:05", 3)}), carryNow, carryTarget, RowCarried},
		{"a list of the record that is none", lateItem(), hourRecord().with(AttrCarried, "x"), carryNow, carryTarget, RowForeign},
		{"a list with an entry that is none", lateItem(), hourRecord().with(AttrCarried, []any{carriedEntry("2026-03-10T14:00:05", 0)}), carryNow, carryTarget, RowForeign},
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
		{"in its last hour", nil, &Subscriber{Status: LifecycleDeprovisioning, Expiry: expiry}, carryNow, ""},
		{"flushed at 16:21, sent at 16:23", nil, &Subscriber{Status: LifecycleDeprovisioning, Expiry: instant("2026-03-10T16:23:01Z")}, carryNow, ""},
		{"flushed at 16:21, sent too late", nil, &Subscriber{Status: LifecycleDeprovisioning, Expiry: instant("2026-03-10T16:23:00Z")}, carryNow, RowEnded},
		{"the last flush is over", nil, &Subscriber{Status: LifecycleDeprovisioning, Expiry: expiry}, "2026-03-10T16:26:00Z", RowEnded},
		{"it ends in the next hour", nil, &Subscriber{Status: LifecycleDeprovisioning, Expiry: instant("2026-03-10T17:02:00Z")}, "2026-03-10T16:55:00Z", ""},
		{"flushed after its hour, sent too late", nil, &Subscriber{Status: LifecycleDeprovisioning, Expiry: instant("2026-03-10T17:02:00Z")}, "2026-03-10T16:58:00Z", RowEnded},
		{"flushed after its hour", nil, &Subscriber{Status: LifecycleDeprovisioning, Expiry: instant("2026-03-10T17:04:00Z")}, "2026-03-10T16:58:00Z", ""},
		{"after it", nil, &Subscriber{Status: LifecycleDeprovisioning, Expiry: expiry}, "2026-03-10T16:30:00Z", RowEnded},
		{"inactive", nil, &Subscriber{Status: LifecycleInactive}, carryNow, RowEnded},
	} {
		if got := TargetObstacle(tt.current, tt.subscriber, Rules{}, instant(tt.now)); got != tt.want {
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
	entry := map[string]any{"at": carryNow, "to": targetKey, AttrQuantity: number(3), "token": "token"}
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
	record := RecordFromItem(hourRecord())
	noted := x.Note(record)
	note := map[string]any{"at": carryNow, AttrTimestamp: "2026-03-10T14:00:05", AttrQuantity: number(3), "to": targetKey, "token": "token", AttrFlushes: number(1), "lapses": true}
	if diff := cmp.Diff(hourRecord().with(AttrCarried, []any{note}, AttrUpdatedAt, carryNow, AttrCreatedAt, noted.CreatedAt), noted.Item()); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if !x.Holds(first) || x.Holds(left) || !x.HoldsOf(record) || x.HoldsOf(noted) || !x.Shows(noted) || x.Shows(record) {
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
	late, noted := label.Apply(more), x.Note(RecordFromItem(coveringRecord()))
	y, o := carryOf(late.Item(), noted.Item(), "2026-03-10T17:00:00Z", "2026-03-10T17:00:00")
	if o != "" || y.Quantity != 2 || x.Holds(late) || !x.Shows(noted) || y.Shows(noted) {
		t.Fatalf("grown again: %q, %+v", o, y)
	}
	trace, _ := y.Apply(late).Other[AttrCarriedTo].([]any)
	if list, _ := y.Note(noted).Carried(); len(trace) != 2 || len(list) != 2 {
		t.Errorf("trace %v, list %v", trace, list)
	}

	// Set to what it was, and not added to: it bears its trace, and took no flush.
	again := left
	again.Quantity, again.Status = Units(8), LateUsage
	if _, o := carryOf(again.Item(), noted.Item(), "2026-03-10T17:00:00Z", "2026-03-10T17:00:00"); o != RowCarried {
		t.Errorf("set once more: %q", o)
	}
	// Put once more, and added to: only what was added is late.
	grown := NewFlush(groupH(), second("2026-03-10T14:00:05"), 2, "more").Apply(&Row{License: again.License, SortKey: again.SortKey, Account: again.Account,
		Dimension: again.Dimension, Timestamp: again.Timestamp, Quantity: Units(8)})
	grown.Pending, grown.Status = "", LateUsage
	if y, o := carryOf(grown.Item(), noted.Item(), "2026-03-10T17:00:00Z", "2026-03-10T17:00:00"); o != "" || y.Quantity != 2 {
		t.Errorf("put once more and added to: %q, %+v", o, y)
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
	record := RecordFromItem(hourRecord())
	for name, change := range map[string][]any{
		"another manifest":           {AttrManifest, "v1 1 10 60:10"},
		"a manifest that is no text": {AttrManifest, number(1)},
		"carried before":             {AttrCarried, []any{carriedEntry("2026-03-10T14:00:06", 3)}},
		"another list":               {AttrCarried, true},
	} {
		if x.HoldsOf(RecordFromItem(hourRecord().with(change...))) {
			t.Errorf("the record has %s: it is carried", name)
		}
	}
	if !x.HoldsOf(RecordFromItem(hourRecord().with(AttrStatus, "CustomerNotSubscribed", AttrPending, "2026-03-10T14", AttrUpdatedAt, "now"))) {
		t.Error("what was not judged of the record stands in the way")
	}
	for name, change := range map[string]func(*Carry){
		"to another second":        func(x *Carry) { x.Target++ },
		"of another quantity":      func(x *Carry) { x.Quantity++ },
		"by another in one second": func(x *Carry) { x.Token = "another" },
	} {
		other := x
		if change(&other); other.Shows(x.Note(record)) {
			t.Errorf("a carry %s is taken for this one", name)
		}
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
		case !x.Holds(r), x.Holds(left), !x.HoldsOf(rec), x.HoldsOf(x.Note(rec)), !x.Shows(RecordFromItem(x.Note(rec).Item())):
			t.Fatalf("not done once: %+v", r)
		case rec.Other[AttrCarried] == nil && left.Quantity.N+target.Quantity.N != r.Quantity.N, target.Quantity.N < 1, left.Quantity != Units(committed):
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
