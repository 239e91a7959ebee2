package metering

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// rejectedItem is a row of 14:00:05 that was rejected and has been mended since, without its marker.
func rejectedItem() Item {
	return rowItem().with(AttrPending, without{}, AttrStatus, "RejectedClientSide", AttrStatusReason, "NegativeQuantity",
		AttrCreatedAt, "2026-03-10T14:00:06Z", AttrUpdatedAt, "2026-03-10T15:08:00Z")
}

// TestF8OnlyMendedRowsAreRecalled goes through what stands against it.
func TestF8OnlyMendedRowsAreRecalled(t *testing.T) {
	t.Parallel()
	legacy := []any{AttrLicense, "product-1", AttrCustomerIdentifier, "cust-1"}
	tests := []struct {
		name  string
		now   string
		rules Rules
		pairs []any
		want  RowObstacle
	}{
		{"mended", "2026-03-10T16:00:00Z", Rules{}, nil, ""},
		{"rejected for another row of its group", "2026-03-10T16:00:00Z", Rules{}, []any{AttrStatusReason, "MixedAllocatedAndUnallocated"}, ""},
		{"a zero", "2026-03-10T16:00:00Z", Rules{}, []any{AttrQuantity, number(0)}, ""},
		{"a moment before its hour is over", "2026-03-11T13:59:49Z", Rules{}, nil, ""},
		{"its hour is over", "2026-03-11T13:59:50Z", Rules{}, nil, RowOver},
		{"a shorter window", "2026-03-10T20:00:00Z", Rules{Window: 6 * time.Hour}, nil, RowOver},
		{"wrong, and its hour is over", "2026-03-12T00:00:00Z", Rules{}, []any{AttrQuantity, "3"}, RowOver},

		{"still wrong", "2026-03-10T16:00:00Z", Rules{}, []any{AttrQuantity, number(-1)}, RowFault},
		{"no number", "2026-03-10T16:00:00Z", Rules{}, []any{AttrQuantity, "3"}, RowFault},
		{"a key that names no group", "2026-03-10T16:00:00Z", Rules{}, []any{AttrRowKey, "no key"}, RowFault},
		{"in the future", "2026-03-10T13:00:00Z", Rules{}, nil, RowFault},
		{"dropped", "2026-03-10T16:00:00Z", Rules{}, []any{AttrDropped, true}, RowDropped},
		{"waiting", "2026-03-10T16:00:00Z", Rules{}, []any{AttrPending, "2026-03-10T14"}, RowWaiting},
		{"waiting under another hour", "2026-03-10T16:00:00Z", Rules{}, []any{AttrPending, "2026-03-10T16"}, RowWaiting},
		{"a status that is no text", "2026-03-10T16:00:00Z", Rules{}, []any{AttrStatus, true}, RowNotRejected},
		{"F32: by identifier", "2026-03-10T16:00:00Z", Rules{}, legacy, RowLegacy},
		{"a trace that is none", "2026-03-10T16:00:00Z", Rules{}, []any{AttrRecalled, "never"}, RowForeign},
	}
	for _, tt := range tests {
		if _, got := RecallOf(RowFromItem(rejectedItem().with(tt.pairs...)), tt.rules, instant(tt.now)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	for _, status := range constants(t, "Status") {
		if _, o := RecallOf(RowFromItem(rejectedItem().with(AttrStatus, status)), Rules{}, instant("2026-03-10T16:00:00Z")); (o == "") != (status == "RejectedClientSide") {
			t.Errorf("%s: %q", status, o)
		}
	}
}

// TestRecalledRow: it waits as on its first day, with a trace that grows.
func TestRecalledRow(t *testing.T) {
	t.Parallel()
	first := RowFromItem(rejectedItem())
	x, o := RecallOf(first, Rules{}, instant("2026-03-10T16:00:00Z"))
	if o != "" {
		t.Fatal(o)
	}
	waits := x.Apply(first)
	entry := map[string]any{"at": "2026-03-10T16:00:00Z", AttrStatus: "RejectedClientSide", AttrStatusReason: "NegativeQuantity"}
	want := rowItem().with(AttrCreatedAt, "2026-03-10T14:00:06Z", AttrUpdatedAt, "2026-03-10T16:00:00Z", AttrRecalled, []any{entry})
	if diff := cmp.Diff(want, waits.Item()); diff != "" {
		t.Errorf("recalled (-want +got):\n%s", diff)
	}
	if !x.Holds(first) || x.Holds(waits) || !x.Shows(waits) || x.Shows(first) {
		t.Error("the write is not done once")
	}
	if _, present := first.Other[AttrRecalled]; present {
		t.Error("the row that was judged has changed")
	}
	mine := x
	if mine.Token = "mine"; mine.Shows(waits) || x.Shows(mine.Apply(first)) || !mine.Shows(mine.Apply(first)) {
		t.Error("of two who recall it in one second, one takes the other's write for his own")
	}

	// Rejected for another row of its group, it is let wait once more.
	again := Label{Status: RejectedClientSide, Reason: "ConflictingIdentifier", At: instant("2026-03-10T16:05:00Z")}.Apply(waits)
	y, o := RecallOf(again, Rules{}, instant("2026-03-10T17:00:00Z"))
	if o != "" || x.Holds(again) || !x.Shows(again) || y.Shows(again) {
		t.Errorf("again: %q", o)
	}
	second := map[string]any{"at": "2026-03-10T17:00:00Z", AttrStatus: "RejectedClientSide", AttrStatusReason: "ConflictingIdentifier"}
	if diff := cmp.Diff([]any{entry, second}, y.Apply(again).Other[AttrRecalled]); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
}

// TestRecallIsConditional: whatever was judged has to be as it was read.
func TestRecallIsConditional(t *testing.T) {
	t.Parallel()
	x, _ := RecallOf(RowFromItem(rejectedItem()), Rules{}, instant("2026-03-10T16:00:00Z"))
	for name, change := range map[string][]any{
		"another quantity":    {AttrQuantity, number(4)},
		"other allocations":   {AttrAllocations, []any{allocation(3)}},
		"another dimension":   {AttrDimension, "storage"},
		"waiting":             {AttrPending, "2026-03-10T14"},
		"dropped":             {AttrDropped, true},
		"late":                {AttrStatus, "LateUsage"},
		"another reason":      {AttrStatusReason, "InvalidTag"},
		"recalled before":     {AttrRecalled, []any{map[string]any{"at": "2026-03-10T15:30:00Z"}}},
		"another thing there": {AttrRecalled, true},
	} {
		if x.Holds(RowFromItem(rejectedItem().with(change...))) {
			t.Errorf("%s: it is recalled", name)
		}
	}
	if !x.Holds(RowFromItem(rejectedItem().with("note", "mine", AttrTTL, number(9), AttrFlushes, []any{"a"}, AttrUpdatedAt, "now"))) {
		t.Error("what was not judged stands in the way")
	}
}

// drawSome are a few of the names, so that most of what is drawn is still whole.
func drawSome(t *rapid.T, names []string) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID[string]).Draw(t, "changed")
}

// TestRecalledIsValidAndOfItsOwnHour: of any row at all.
func TestRecalledIsValidAndOfItsOwnHour(t *testing.T) {
	t.Parallel()
	now, recalled := instant("2026-03-10T16:00:00Z"), 0
	rapid.Check(t, func(t *rapid.T) {
		item := drawItem(t, rejectedItem(), drawSome(t, append(rowAttributes, AttrRecalled)))
		if rapid.Bool().Draw(t, "rejected") {
			item = item.with(AttrStatus, "RejectedClientSide")
		}
		r := RowFromItem(item)
		x, o := RecallOf(r, Rules{}, now)
		if o != "" {
			return
		}
		recalled++
		waits := RowFromItem(x.Apply(r).Item())
		key, reason := ParseRowKey(r.SortKey)
		switch {
		case r.Status != RejectedClientSide, r.Pending != "", r.Dropped, reason != "":
			t.Fatalf("recalled: %+v", r)
		case !x.Holds(r), x.Holds(waits), !x.Shows(waits):
			t.Fatalf("not done once: %+v", r)
		case waits.Validate(now) != "", waits.Status != "", waits.StatusReason != "", waits.Pending != key.Second.Hour().String(),
			waits.Fingerprint() == r.Fingerprint():
			t.Fatalf("not as on its first day: %+v", waits)
		}
		f := NewFold(key.Group(r.License), now)
		if f.Add(waits); f.Pending() != 1 || f.reason != "" {
			t.Fatalf("its group does not take it in: %+v", waits)
		}
	})
	if recalled == 0 {
		t.Error("none was")
	}
}

// TestEveryRowObstacleHasWords: each is shown, and says why.
func TestEveryRowObstacleHasWords(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, o := range RowObstacles() {
		why := o.Why()
		if why == "" || why == string(o) || seen[why] {
			t.Errorf("%s: %q", o, why)
		}
		seen[why] = true
	}
	if len(seen) != 22 {
		t.Errorf("%d obstacles", len(seen))
	}
}
