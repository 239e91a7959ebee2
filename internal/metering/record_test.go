package metering

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// pendingRecord is the valid record of recordItem.
func pendingRecord() Record { return RecordFromItem(recordItem()) }

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		item := drawItem(t, recordItem(), recordAttributes)
		before := maps.Clone(item)
		rec := RecordFromItem(item)
		written := rec.Item()
		if !sameItem(item, before) || !sameItem(written, item) {
			t.Fatalf("lost on the way (-stored +written):\n%s", cmp.Diff(item, written))
		}
		again := RecordFromItem(written)
		if diff := cmp.Diff(rec, again); diff != "" {
			t.Fatalf("read differently the second time:\n%s", diff)
		}
		if rec.Validate() != again.Validate() || rec.Fingerprint() != again.Fingerprint() || rec.WireSize() <= 0 {
			t.Fatalf("judged differently the second time: %#v", item)
		}
	})
}

func TestRecordFromItem(t *testing.T) {
	t.Parallel()
	item := recordItem().with(AttrAllocations, []any{allocation(3)}, AttrCustomerIdentifier, "c", AttrManifest, "v1 1 3 5:3", AttrSentQuantity, number(3),
		AttrSentSecond, "2026-03-10T14:00:05", AttrStatus, "Success", AttrStatusReason, "why", AttrRecordID, "id", AttrBilledQuantity, number(2),
		AttrCreatedAt, "x", AttrUpdatedAt, "y", AttrTTL, number(9), "note", true)
	want := Record{
		License: licenseA, SortKey: buyer + "#api_calls#2026-03-10T14", Account: buyer, Dimension: "api_calls", HourBucket: "2026-03-10T14",
		Quantity: Units(3), Allocations: []Allocation{{Quantity: 3}}, CustomerIdentifier: "c", Manifest: "v1 1 3 5:3", Pending: "2026-03-10T14",
		SentQuantity: Units(3), SentSecond: "2026-03-10T14:00:05", Status: Success, StatusReason: "why", MeteringRecordID: "id",
		BilledQuantity: Units(2), CreatedAt: "x", UpdatedAt: "y", TTL: Units(9), Other: Item{"note": true},
	}
	if diff := cmp.Diff(want, RecordFromItem(item)); diff != "" {
		t.Error(diff)
	}
}

func TestRecordSegments(t *testing.T) { // F18: one record, whatever its shape, is refused alone
	t.Parallel()
	for name, tt := range map[string]struct {
		item Item
		want Reason
	}{
		"complete":                      {recordItem(), ""},
		"already ended, without marker": {recordItem().with(AttrPending, without{}), ""},
		"no hour":                       {recordItem().with(AttrHour, without{}), SortKeyMismatch},
		"another hour":                  {recordItem().with(AttrHour, "2026-03-10T15"), SortKeyMismatch},
		"a marker that is not its hour": {recordItem().with(AttrPending, "2026-03-10T15"), SortKeyMismatch},
		"an hour of another type":       {recordItem().with(AttrHour, number(14)), SortKeyMismatch},
		"another account":               {recordItem().with(AttrAccount, "111122223334"), SortKeyMismatch},
		"another dimension":             {recordItem().with(AttrDimension, "api"), SortKeyMismatch},
		"no dimension":                  {recordItem().with(AttrDimension, without{}), MissingDimension},
		"empty dimension":               {recordItem().with(AttrDimension, ""), MissingDimension},
		"no account":                    {recordItem().with(AttrAccount, without{}), MissingCustomerAWSAccountID},
		"no key":                        {recordItem().with(AttrRecordKey, without{}), MalformedSortKey},
		"the key of a row":              {recordItem().with(AttrRecordKey, buyer+"#api_calls#2026-03-10T14:00:00"), MalformedTimestamp},
		"no license":                    {recordItem().with(AttrLicense, without{}), InvalidLicenseArn},
		"sent with a smaller quantity":  {recordItem().with(AttrSentQuantity, number(2), AttrSentSecond, "2026-03-10T14:00:00"), ""},
		"sent at a later second":        {recordItem().with(AttrSentQuantity, number(3), AttrSentSecond, "2026-03-10T14:59:59"), ""},
		"the mark of another hour":      {recordItem().with(AttrSentQuantity, number(3), AttrSentSecond, "2026-03-10T13:00:00"), SortKeyMismatch},
		"that mark, and no quantity":    {recordItem().with(AttrSentSecond, "2026-03-10T15:00:00"), SortKeyMismatch},
		"sent with less than nothing":   {recordItem().with(AttrSentQuantity, number(-3), AttrSentSecond, "2026-03-10T14:00:00"), NegativeQuantity},
		"sent with too much":            {recordItem().with(AttrSentQuantity, number(MaxQuantity+1), AttrSentSecond, "2026-03-10T14:00:00"), QuantityOutOfRange},
	} {
		if got := RecordFromItem(tt.item).Validate(); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestSend(t *testing.T) {
	t.Parallel()
	read := pendingRecord()
	send := Send{
		License: read.License, SortKey: read.SortKey, Fingerprint: read.Fingerprint(), Quantity: 3, Second: second("2026-03-10T14:00:00"),
		At: instant("2026-03-10T15:23:00Z"),
	}
	if !send.Holds(read) || send.Shows(read) {
		t.Fatalf("as read: holds %v, shows %v", send.Holds(read), send.Shows(read))
	}
	marked := send.Apply(read)
	want := read
	want.SentQuantity, want.SentSecond, want.CreatedAt, want.UpdatedAt = Units(3), "2026-03-10T14:00:00", "2026-03-10T15:23:00Z", "2026-03-10T15:23:00Z"
	if diff := cmp.Diff(want, marked); diff != "" {
		t.Error(diff)
	}
	if send.Holds(marked) || !send.Shows(marked) {
		t.Errorf("once marked: holds %v, shows %v", send.Holds(marked), send.Shows(marked))
	}
	for name, now := range map[string]Item{
		"another quantity": recordItem().with(AttrQuantity, number(5)),
		"ended":            recordItem().with(AttrPending, without{}),
		"other account":    recordItem().with(AttrAccount, "111122223334"),
		"sent by another":  recordItem().with(AttrSentQuantity, number(2), AttrSentSecond, "2026-03-10T14:00:00"),
		"sent later":       recordItem().with(AttrSentQuantity, number(3), AttrSentSecond, "2026-03-10T14:00:05"),
	} {
		if r := RecordFromItem(now); send.Holds(r) || send.Shows(r) {
			t.Errorf("%s: holds %v, shows %v", name, send.Holds(r), send.Shows(r))
		}
	}
	ended := marked
	ended.Pending = ""
	if send.Shows(ended) {
		t.Error("the mark shows on a record that no longer waits")
	}
}

func TestFinishApply(t *testing.T) {
	t.Parallel()
	read := RecordFromItem(recordItem().with(AttrManifest, "v1 1 3 5:3", AttrSentQuantity, number(3), AttrSentSecond, "2026-03-10T14:00:00",
		AttrCreatedAt, "2026-03-10T15:05:00Z", AttrTTL, number(7), AttrRecordID, "old", "note", "kept"))
	finish := Finish{
		Pending: true, Quantity: Units(3), Status: Success, MeteringRecordID: "new", BilledQuantity: Units(2), TTL: Units(9), At: instant("2026-03-10T15:23:00Z"),
	}
	want := read
	want.Pending, want.Status, want.MeteringRecordID, want.BilledQuantity, want.TTL, want.UpdatedAt = "", Success, "new", Units(2), Units(9), "2026-03-10T15:23:00Z"
	got := finish.Apply(read)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if finish.Shows(read) || !finish.Shows(got) {
		t.Errorf("shows before %v, after %v", finish.Shows(read), finish.Shows(got))
	}
	finish.MeteringRecordID, finish.TTL = "", Quantity{} // what a finish does not bring stays
	if got := finish.Apply(read); got.MeteringRecordID != "old" || got.TTL != Units(7) {
		t.Errorf("lost %q or %+v", got.MeteringRecordID, got.TTL)
	}
	for _, f := range []Finish{
		{Status: DuplicateRecord, BilledQuantity: Units(2)}, {Status: Success, Reason: "why", BilledQuantity: Units(2)}, {Status: Success},
	} {
		if f.Shows(got) {
			t.Errorf("%+v shows on a record that says otherwise", f)
		}
	}
}
