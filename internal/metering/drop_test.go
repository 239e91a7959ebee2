package metering

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestF9OnlyRejectedRowsAreDropped(t *testing.T) {
	t.Parallel()
	now := instant("2026-03-20T16:00:00Z") // an old one too
	for name, tt := range map[string]struct {
		pairs []any
		want  RowObstacle
	}{
		"wrong":                     {[]any{AttrQuantity, "abc"}, ""},
		"not wrong by itself":       {nil, ""},
		"a key that names no group": {[]any{AttrRowKey, "no key"}, ""},
		"by identifier":             {[]any{AttrLicense, "product-1"}, ""},
		"waiting":                   {[]any{AttrPending, "2026-03-10T14"}, RowWaiting},
		"late":                      {[]any{AttrStatus, "LateUsage"}, RowNotRejected},
		"aggregated":                {[]any{AttrStatus, "Aggregated"}, RowNotRejected},
		"expired":                   {[]any{AttrStatus, "AggregationExpired"}, RowNotRejected},
		"dropped":                   {[]any{AttrDropped, true}, RowDropped},
	} {
		if _, got := DropOf(RowFromItem(rejectedItem().with(tt.pairs...)), nil, now); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

// A row that its hour's record holds is billed, whatever the row says until the next visit labels it.
func TestDropOfACoveredRow(t *testing.T) {
	t.Parallel()
	now := instant("2026-03-10T16:00:00Z")
	r := RowFromItem(rejectedItem())
	free, o := DropOf(r, nil, now)
	if o != "" {
		t.Fatal(o)
	}
	other := rejectedItem().with(AttrRowKey, "no key")
	for name, tt := range map[string]struct {
		row    Item
		record Item
		want   RowObstacle
	}{
		"it holds the row":                  {rejectedItem(), recordItem().with(AttrManifest, "v1 1 3 5:3"), RowCovered},
		"with another quantity":             {rejectedItem(), recordItem().with(AttrManifest, "v1 1 2 5:2"), RowCovered},
		"it holds another row":              {rejectedItem(), recordItem().with(AttrManifest, "v1 1 3 6:3"), ""},
		"it has no manifest":                {rejectedItem(), recordItem().with(AttrManifest, without{}), ""},
		"its manifest cannot be read":       {rejectedItem(), recordItem().with(AttrManifest, "v2"), RowManifest},
		"its manifest is no text":           {rejectedItem(), recordItem().with(AttrManifest, number(1)), RowManifest},
		"of another hour":                   {rejectedItem(), recordItem().with(AttrRecordKey, "111122223333#api_calls#2026-03-10T15", AttrManifest, "v1 1 3 5:3"), ""},
		"of another license":                {rejectedItem(), recordItem().with(AttrLicense, "product-1", AttrManifest, "v1 1 3 5:3"), ""},
		"the row's key names no group":      {other, recordItem().with(AttrManifest, "v1 1 3 5:3"), ""},
		"what stands against the row first": {rejectedItem().with(AttrPending, "2026-03-10T14"), recordItem().with(AttrManifest, "v1 1 3 5:3"), RowWaiting},
	} {
		record := RecordFromItem(tt.record)
		if _, got := DropOf(RowFromItem(tt.row), &record, now); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
		if tt.row[AttrRowKey] == r.SortKey && tt.want != RowWaiting && free.Late(&record) != tt.want {
			t.Errorf("%s, found after the write: %q, want %q", name, free.Late(&record), tt.want)
		}
	}
	if free.Late(nil) != "" {
		t.Error("no record is in the way")
	}
}

// TestDroppedRow: nothing about it changes but that it takes no part any more. Who drops it again sees that it is done.
func TestDroppedRow(t *testing.T) {
	t.Parallel()
	now := instant("2026-03-10T16:00:00Z")
	first := RowFromItem(rejectedItem().with(AttrQuantity, "abc", AttrDropped, "no"))
	x, o := DropOf(first, nil, now)
	if o != "" {
		t.Fatal(o)
	}
	dropped := x.Apply(first)
	want := rejectedItem().with(AttrQuantity, "abc", AttrDropped, true, AttrDroppedAt, "2026-03-10T16:00:00Z", AttrUpdatedAt, "2026-03-10T16:00:00Z")
	if diff := cmp.Diff(want, dropped.Item()); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
	if !x.Holds(first) || x.Holds(dropped) || !x.Shows(dropped) || x.Shows(first) {
		t.Error("the write is not done once")
	}
	mine := x
	if mine.Token = "mine"; mine.Made(dropped) || x.Made(mine.Apply(first)) || !mine.Made(mine.Apply(first)) || mine.Made(first) {
		t.Error("of two who drop it in one second, one takes the other's write for his own")
	}
	if first.Dropped || first.Other[AttrDropped] != "no" {
		t.Error("the row that was judged has changed")
	}
	f := NewFold(groupH(), now)
	waiting := rowItem().with(AttrRowKey, groupH().RowKey(groupH().Hour.Second(9)), AttrTimestamp, groupH().Hour.Second(9).String())
	f.Add(RowFromItem(waiting))
	f.Add(RowFromItem(dropped.Item()))
	if rec, reason := f.Record(); reason != "" || rec.Quantity != Units(3) {
		t.Errorf("its group: %q, %+v", reason, rec)
	}
	// The seller makes it wait again: in a committed hour it stays what it is.
	marked := RowFromItem(dropped.Item().with(AttrPending, "2026-03-10T14"))
	if status, reason := Uncovered(marked, now); status != RejectedClientSide || reason != NegativeQuantity {
		t.Errorf("marked again: %s, %s", status, reason)
	}
	for name, change := range map[string][]any{
		"mended":         {AttrQuantity, number(4)},
		"waiting":        {AttrPending, "2026-03-10T14"},
		"late":           {AttrStatus, "LateUsage"},
		"another reason": {AttrStatusReason, "InvalidTag"},
		"dropped":        {AttrDropped, true},
	} {
		if x.Holds(RowFromItem(rejectedItem().with(AttrQuantity, "abc").with(change...))) {
			t.Errorf("%s: it is dropped", name)
		}
	}
}

func TestDroppedIsNeverFolded(t *testing.T) {
	t.Parallel()
	now, dropped := instant("2026-03-10T16:00:00Z"), 0
	rapid.Check(t, func(t *rapid.T) {
		r := RowFromItem(drawItem(t, rejectedItem(), drawSome(t, rowAttributes)))
		x, o := DropOf(r, nil, now)
		if o != "" {
			return
		}
		dropped++
		after := RowFromItem(x.Apply(r).Item())
		f := NewFold(groupH(), now)
		f.Add(after)
		switch {
		case r.Pending != "", r.Status != RejectedClientSide, !x.Holds(r), x.Holds(after), !x.Shows(after):
			t.Fatalf("not done once: %+v", r)
		case len(f.rows) != 0, after.Status != RejectedClientSide, after.Quantity != r.Quantity, after.Fingerprint() != r.Fingerprint():
			t.Fatalf("dropped: %+v", after)
		}
	})
	if dropped == 0 {
		t.Error("none was")
	}
}
