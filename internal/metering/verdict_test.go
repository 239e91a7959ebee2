package metering

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// writtenAt is the time of every write in these tests.
func writtenAt() time.Time { return instant("2026-03-10T15:23:00Z") }

func verdict(r Record, status Status) Verdict {
	return Verdict{Record: r, Sent: r.Usage(), Status: status, RecordID: "id"}
}

func TestWhoMayOverwriteWhom(t *testing.T) { // F26: a Success that came late still wins, nothing ever replaces one
	t.Parallel()
	read := pendingRecord()
	success := FinishWith(verdict(read, Success), 0, writtenAt())
	others := map[string]Finish{
		"DuplicateRecord":       FinishWith(verdict(read, DuplicateRecord), 0, writtenAt()),
		"CustomerNotSubscribed": FinishWith(verdict(read, CustomerNotSubscribed), 0, writtenAt()),
		"RejectedClientSide":    FinishRejected(read, "why", writtenAt()),
		"SubmissionExpired":     FinishExpired(read, writtenAt()),
		"DryRunSubmitted":       FinishDryRun(read, writtenAt()),
	}
	for _, status := range []Status{"", Success, DuplicateRecord, CustomerNotSubscribed, RejectedClientSide, SubmissionExpired, DryRunSubmitted} {
		ended := read
		ended.Pending, ended.Status = "", status
		if got, want := success.Holds(ended), status != Success; got != want {
			t.Errorf("Success over %q: %v, want %v", status, got, want)
		}
		for name, f := range others {
			if f.Holds(ended) {
				t.Errorf("%s overwrites %q, which no longer waits", name, status)
			}
			if got := f.Apply(read); string(got.Status) != name || got.Pending != "" || !f.Shows(got) {
				t.Errorf("%s leaves %q, %q", name, got.Status, got.Pending)
			}
		}
		waiting := read
		waiting.Status = status // a status from before: offered again by an operator
		for name, f := range others {
			if got, want := f.Holds(waiting), status != Success; got != want { // what is billed stays billed, marker or not
				t.Errorf("%s over a waiting record that was %q: %v, want %v", name, status, got, want)
			}
		}
		for _, change := range []func(*Record){
			func(r *Record) { r.Quantity = Units(4) }, func(r *Record) { r.Quantity = Quantity{} },
		} {
			changed := waiting
			change(&changed)
			if success.Holds(changed) {
				t.Errorf("Success of 3 holds for %+v", changed.Quantity)
			}
			for name, f := range others {
				if f.Holds(changed) {
					t.Errorf("%s of 3 holds for %+v", name, changed.Quantity)
				}
			}
		}
	}
}

func TestFinishWith(t *testing.T) {
	t.Parallel()
	read := RecordFromItem(recordItem().with(AttrSentQuantity, number(3), AttrSentSecond, "2026-03-10T14:00:00"))
	changed := RecordFromItem(recordItem().with(AttrQuantity, number(5), AttrSentQuantity, number(3), AttrSentSecond, "2026-03-10T14:00:00"))
	base := Finish{License: licenseA, SortKey: read.SortKey, MeteringRecordID: "id", At: writtenAt()}
	with := func(change func(*Finish)) Finish {
		f := base
		change(&f)
		return f
	}
	for _, tt := range []struct {
		name string
		v    Verdict
		ttl  time.Duration
		want Finish
	}{
		{"billed", verdict(read, Success), 0, with(func(f *Finish) { f.Unbilled, f.Quantity, f.Status = true, Units(3), Success })},
		{"billed, kept for a year", verdict(read, Success), 365 * 24 * time.Hour, with(func(f *Finish) {
			f.Unbilled, f.Quantity, f.Status, f.TTL = true, Units(3), Success, Units(writtenAt().Unix()+365*86400)
		})},
		{"billed with what was sent first: F19", verdict(changed, Success), 0, with(func(f *Finish) {
			f.Unbilled, f.Quantity, f.Status, f.BilledQuantity = true, Units(5), Success, Units(3)
		})},
		{"refused: no retention", verdict(read, DuplicateRecord), time.Hour, with(func(f *Finish) {
			f.Pending, f.Unbilled, f.Fingerprint, f.Status = true, true, read.Fingerprint(), DuplicateRecord
		})},
		{"not subscribed", verdict(read, CustomerNotSubscribed), time.Hour, with(func(f *Finish) {
			f.Pending, f.Unbilled, f.Fingerprint, f.Status = true, true, read.Fingerprint(), CustomerNotSubscribed
		})},
	} {
		got := FinishWith(tt.v, tt.ttl, writtenAt())
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if !got.Holds(tt.v.Record) || !got.Shows(got.Apply(tt.v.Record)) {
			t.Errorf("%s: holds %v", tt.name, got.Holds(tt.v.Record))
		}
	}
}

func TestFinishChanged(t *testing.T) { // F19
	t.Parallel()
	sent := pendingRecord()
	changed := RecordFromItem(recordItem().with(AttrQuantity, number(15)))
	f, ok := FinishChanged(verdict(sent, Success), changed, time.Hour, writtenAt())
	want := Finish{
		License: licenseA, SortKey: sent.SortKey, Unbilled: true, Fingerprint: changed.Fingerprint(), Status: Success, MeteringRecordID: "id",
		BilledQuantity: Units(3), TTL: Units(writtenAt().Unix() + 3600), At: writtenAt(),
	}
	if diff := cmp.Diff(want, f); diff != "" || !ok {
		t.Errorf("%v\n%s", ok, diff)
	}
	if !f.Holds(changed) || f.Holds(sent) {
		t.Errorf("holds for the changed %v, for the one sent %v", f.Holds(changed), f.Holds(sent))
	}
	after := f.Apply(changed)
	if after.Status != Success || after.Quantity != Units(15) || after.BilledQuantity != Units(3) || after.Pending != "" || f.Holds(after) {
		t.Errorf("%+v", after)
	}
	expired := changed
	expired.Pending, expired.Status = "", SubmissionExpired
	if f, ok := FinishChanged(verdict(sent, Success), expired, 0, writtenAt()); !ok || !f.Holds(expired) {
		t.Errorf("a changed record that expired meanwhile: %v", ok)
	}
	billed := changed
	billed.Status = Success
	for name, refused := range map[string]func() (Finish, bool){
		"already Success": func() (Finish, bool) { return FinishChanged(verdict(sent, Success), billed, 0, writtenAt()) },
		"a refusal":       func() (Finish, bool) { return FinishChanged(verdict(sent, DuplicateRecord), changed, 0, writtenAt()) },
		"not subscribed": func() (Finish, bool) {
			return FinishChanged(verdict(sent, CustomerNotSubscribed), changed, 0, writtenAt())
		},
	} {
		if f, ok := refused(); ok || f != (Finish{}) {
			t.Errorf("%s is written: %+v", name, f)
		}
	}
	same := RecordFromItem(recordItem().with(AttrQuantity, "3")) // no number any more
	if f, _ := FinishChanged(verdict(sent, Success), same, 0, writtenAt()); f.BilledQuantity != Units(3) || !f.Holds(same) {
		t.Errorf("%+v", f)
	}
}

func TestFinishBilled(t *testing.T) { // F19: put again after Success
	t.Parallel()
	put := func(pairs ...any) Record {
		return RecordFromItem(recordItem().with(AttrStatus, "Success").with(pairs...))
	}
	for _, tt := range []struct {
		name    string
		record  Record
		ok      bool
		refused int64
		billed  Quantity
	}{
		{"grown", put(AttrQuantity, number(15), AttrSentQuantity, number(10)), true, 5, Units(10)},
		{"grown, billed otherwise", put(AttrQuantity, number(15), AttrSentQuantity, number(12), AttrBilledQuantity, number(10)), true, 5, Units(10)},
		{"shrunk", put(AttrQuantity, number(5), AttrSentQuantity, number(10)), true, 0, Units(10)},
		{"the same", put(AttrSentQuantity, number(3)), true, 0, Quantity{}},
		{"no number", put(AttrQuantity, "x", AttrSentQuantity, number(10)), true, 0, Units(10)},
		{"a zero was billed", put(AttrSentQuantity, number(0)), true, 3, Units(0)},
		{"nobody knows what was billed", put(AttrQuantity, number(15)), false, 0, Quantity{}},
		{"not billed", put(AttrStatus, "DuplicateRecord", AttrSentQuantity, number(10)), false, 0, Quantity{}},
		{"not waiting", put(AttrPending, without{}, AttrSentQuantity, number(10)), false, 0, Quantity{}},
	} {
		f, refused, ok := FinishBilled(tt.record, writtenAt())
		if ok != tt.ok || refused != tt.refused || f.BilledQuantity != tt.billed {
			t.Errorf("%s: %v, refused %d, billed %+v; want %v, %d, %+v", tt.name, ok, refused, f.BilledQuantity, tt.ok, tt.refused, tt.billed)
		}
		if !ok {
			continue
		}
		if after := f.Apply(tt.record); !f.Holds(tt.record) || after.Status != Success || after.Pending != "" || !f.Shows(after) || f.Holds(after) {
			t.Errorf("%s: holds %v, after %+v", tt.name, f.Holds(tt.record), after)
		}
	}
}

func TestFinishExpired(t *testing.T) { // F13: sent and never answered is in doubt, not expired
	t.Parallel()
	for _, tt := range []struct {
		name   string
		item   Item
		reason string
	}{
		{"never sent", recordItem(), ""},
		{"sent", recordItem().with(AttrSentQuantity, number(3), AttrSentSecond, "2026-03-10T14:00:00"), "VerdictUnknown"},
		{"a zero was sent", recordItem().with(AttrQuantity, number(0), AttrSentQuantity, number(0)), "VerdictUnknown"},
		{"malformed", recordItem().with(AttrQuantity, "x"), ""},
	} {
		r := RecordFromItem(tt.item)
		f := FinishExpired(r, writtenAt())
		if !f.Holds(r) || f.Reason != tt.reason || f.Status != SubmissionExpired {
			t.Errorf("%s: holds %v, %s, %q", tt.name, f.Holds(r), f.Status, f.Reason)
		}
		sent := RecordFromItem(tt.item.with(AttrSentQuantity, number(7), AttrSentSecond, "2026-03-10T14:00:00"))
		if f.Holds(sent) {
			t.Errorf("%s: expired although it was sent after it was read", tt.name)
		}
	}
}

func TestFinishRejected(t *testing.T) {
	t.Parallel()
	r := RecordFromItem(recordItem().with(AttrQuantity, "x"))
	f := FinishRejected(r, string(NonNumericQuantity), writtenAt())
	if !f.Holds(r) || f.Apply(r).StatusReason != "NonNumericQuantity" {
		t.Errorf("%+v", f)
	}
	if mended := pendingRecord(); f.Holds(mended) {
		t.Error("a mended record is stamped with its old fault")
	}
	for _, at := range []Record{r, pendingRecord()} {
		ended := at
		ended.Pending = ""
		if FinishDryRun(at, writtenAt()).Holds(ended) || !FinishDryRun(at, writtenAt()).Holds(at) {
			t.Error("a dry run ends only what waits, as it was read")
		}
	}
}
