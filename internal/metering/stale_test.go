package metering

import (
	"testing"
	"time"
)

// What a stage judged may be written long after: a message is delivered twice, or lay among the dead letters. By then an operator may
// have let the item wait again.

func TestStaleRejectionDoesNotHitARecalledRow(t *testing.T) {
	t.Parallel()
	now := instant("2026-03-10T15:30:00Z")
	waiting := RowFromItem(rejectedItem().with(AttrPending, "2026-03-10T14", AttrStatus, without{}, AttrStatusReason, without{}))
	label := func(of Row) Label {
		c := NewCleanupRow(of)
		return Label{License: of.License, SortKey: c.Key, Marker: true, Fingerprint: c.Fingerprint, Status: RejectedClientSide, Reason: "ConflictingIdentifier", At: now}
	}
	first := label(waiting)
	if !first.Holds(waiting) {
		t.Fatal("the first rejection is refused")
	}
	r := first.Apply(waiting)
	for times := range 3 {
		x, o := RecallOf(r, Rules{}, now.Add(time.Duration(times)*time.Minute))
		if o != "" {
			t.Fatal(o)
		}
		before := label(r)
		if r = x.Apply(r); first.Holds(r) || before.Holds(r) {
			t.Errorf("recalled %d times: it is rejected by a message of before", times+1)
		}
		again := label(r)
		if !again.Holds(RowFromItem(r.Item())) {
			t.Fatalf("recalled %d times: it can no longer be rejected", times+1)
		}
		r = again.Apply(r)
	}
}

// A late label says what is late of a quantity, and a carry changes the quantity: where the label still fits, it is still right.
func TestStaleLateLabelAfterACarry(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ row, record Item }{"whole": {lateItem(), hourRecord()}, "grown": {grownItem(), coveringRecord()}} {
		r := RowFromItem(tt.row)
		x, o := carryOf(tt.row, tt.record, carryNow, carryTarget)
		if o != "" {
			t.Fatal(o)
		}
		waiting := r
		waiting.Pending = "2026-03-10T14"
		stale := Label{License: r.License, SortKey: r.SortKey, Marker: true, Fingerprint: waiting.Fingerprint(), Status: LateUsage, LateQuantity: Units(5)}
		if !stale.Holds(waiting) {
			t.Fatalf("%s: the label is refused from the start", name)
		}
		left := x.Apply(r)
		if stale.Holds(left) {
			t.Errorf("%s: what was carried is late once more", name)
		}
		if left.Pending = "2026-03-10T14"; stale.Holds(left) { // its seller marks it again
			t.Errorf("%s: what was carried is late once more when it waits", name)
		}
		if target := x.Row(); stale.Holds(target) {
			t.Errorf("%s: the target is late", name)
		}
	}
}

// A verdict of a call before a reopening carries the mark of that call, and the reopened record has none. Success is written all the same:
// the service has billed it. Of a record that was never marked, a verdict of before is that of now: it ends as it had ended, unbilled.
func TestStaleVerdictAfterAReopening(t *testing.T) {
	t.Parallel()
	now := instant("2026-03-10T15:30:00Z")
	sent := RecordFromItem(recordItem().with(AttrSentQuantity, number(3), AttrSentSecond, "2026-03-10T14:00:00"))
	verdict := func(s Status) Finish {
		return FinishWith(Verdict{Record: sent, Sent: UsageRecord{Quantity: 3}, Status: s, RecordID: "id"}, 0, now)
	}
	refusal := verdict(CustomerNotSubscribed)
	if !refusal.Holds(sent) {
		t.Fatal("the refusal is refused from the start")
	}
	x, o := ReopenOf(refusal.Apply(sent), Rules{}, now)
	if o != "" {
		t.Fatal(o)
	}
	again := x.Apply(refusal.Apply(sent))
	for name, f := range map[string]Finish{
		"refused": refusal, "a duplicate": verdict(DuplicateRecord), "rejected": FinishRejected(sent, ExceptionDimension, now), "in doubt": FinishExpired(sent, now),
		"a dry run": FinishDryRun(sent, now),
	} {
		if f.Holds(again) {
			t.Errorf("%s: the record that waits again is ended by it", name)
		}
	}
	if f := verdict(Success); !f.Holds(again) || f.Apply(again).Status != Success {
		t.Error("what is billed waits to be sent")
	}
}
