package metering

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// dryItem is a record of 14:00 that a dry run ended.
func dryItem() Item {
	return recordItem().with(AttrPending, without{}, AttrStatus, "DryRunSubmitted", AttrManifest, "v1 1 3 0:3", AttrCreatedAt, "2026-03-10T15:05:00Z", AttrUpdatedAt, "2026-03-10T15:08:00Z")
}

// TestF38OnlyWhatADryRunEndedIsPromoted goes through every way in which a record ends.
func TestF38OnlyWhatADryRunEndedIsPromoted(t *testing.T) {
	t.Parallel()
	sent := []any{AttrSentQuantity, number(3), AttrSentSecond, "2026-03-10T14:00:00"}
	tests := []struct {
		name  string
		now   string
		pairs []any
		want  Obstacle
	}{
		{"a dry run", "2026-03-10T16:00:00Z", nil, ""},
		{"a moment before its hour is over", "2026-03-11T13:59:49Z", nil, ""},
		{"its hour is over", "2026-03-11T13:59:50Z", nil, ObstacleOver},
		{"sent before, and in doubt", "2026-03-10T16:00:00Z", sent, ObstacleDoubt},
		{"F32: by identifier", "2026-03-10T16:00:00Z", legacyIdentity(), ObstacleLegacy},
		{"waiting", "2026-03-10T16:00:00Z", []any{AttrPending, "2026-03-10T14"}, ObstacleWaiting},
		{"something billed", "2026-03-10T16:00:00Z", []any{AttrBilledQuantity, number(0)}, ObstacleBilled},
		{"another quantity, which is none", "2026-03-10T16:00:00Z", []any{AttrQuantity, "3"}, ObstacleFault},
		{"a key that names no hour", "2026-03-10T16:00:00Z", []any{AttrRecordKey, buyer + "#api_calls#today"}, ObstacleFault},
		{"a trace that is none", "2026-03-10T16:00:00Z", []any{AttrReopened, "never"}, ObstacleForeign},

		{"billed", "2026-03-10T16:00:00Z", append(sent, AttrStatus, "Success"), ObstacleBilled},
		{"refused", "2026-03-10T16:00:00Z", append(sent, AttrStatus, "CustomerNotSubscribed"), ObstacleRefused},
		{"refused for its dimension", "2026-03-10T16:00:00Z", []any{AttrStatus, "RejectedClientSide", AttrStatusReason, ExceptionDimension}, ObstacleRefused},
		{"rejected", "2026-03-10T16:00:00Z", []any{AttrStatus, "RejectedClientSide", AttrStatusReason, "InvalidTag"}, ObstacleFault},
		{"a twin", "2026-03-10T16:00:00Z", []any{AttrStatus, "RejectedClientSide", AttrStatusReason, "DuplicateIdentity"}, ObstacleTwin},
		{"taken", "2026-03-10T16:00:00Z", append(sent, AttrStatus, "DuplicateRecord"), ObstacleTaken},
		{"expired", "2026-03-10T16:00:00Z", []any{AttrStatus, "SubmissionExpired"}, ObstacleOver},
		{"no status", "2026-03-10T16:00:00Z", []any{AttrStatus, without{}}, ObstacleForeign},
	}
	for _, tt := range tests {
		if _, got := PromoteOf(RecordFromItem(dryItem().with(tt.pairs...)), Rules{}, instant(tt.now)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	for _, status := range constants(t, "Status") {
		if _, o := PromoteOf(RecordFromItem(dryItem().with(AttrStatus, status)), Rules{}, instant("2026-03-10T16:00:00Z")); (o == "") != (status == "DryRunSubmitted") {
			t.Errorf("%s: %q", status, o)
		}
	}
}

// TestPromotedRecord: it waits as on its first day, with the trace of a reopening, and is written once.
func TestPromotedRecord(t *testing.T) {
	t.Parallel()
	first := RecordFromItem(dryItem())
	x, o := PromoteOf(first, Rules{}, instant("2026-03-10T16:00:00Z"))
	if o != "" {
		t.Fatal(o)
	}
	waits := x.Apply(first)
	entry := map[string]any{"at": "2026-03-10T16:00:00Z", AttrStatus: "DryRunSubmitted"}
	want := recordItem().with(AttrManifest, "v1 1 3 0:3", AttrCreatedAt, "2026-03-10T15:05:00Z", AttrUpdatedAt, "2026-03-10T16:00:00Z", AttrReopened, []any{entry})
	if diff := cmp.Diff(want, waits.Item()); diff != "" {
		t.Errorf("promoted (-want +got):\n%s", diff)
	}
	if !x.Holds(first) || x.Holds(waits) || !x.Shows(waits) || x.Shows(first) {
		t.Error("the write is not done once")
	}
	for name, change := range map[string][]any{
		"sent":       {AttrSentQuantity, number(3)},
		"billed":     {AttrStatus, "Success"},
		"refused":    {AttrStatus, "CustomerNotSubscribed"},
		"in part":    {AttrBilledQuantity, number(1)},
		"waiting":    {AttrPending, "2026-03-10T14"},
		"other":      {AttrQuantity, number(4)},
		"a reason":   {AttrStatusReason, "why"},
		"had before": {AttrReopened, []any{entry}},
	} {
		if x.Holds(RecordFromItem(dryItem().with(change...))) {
			t.Errorf("%s: it is promoted", name)
		}
	}

	// Refused when it was sent at last, it is one for a retry, whose trace goes on.
	refused := FinishWith(Verdict{Record: waits, Sent: waits.Usage(), Status: CustomerNotSubscribed}, 0, instant("2026-03-10T16:03:00Z")).Apply(waits)
	if _, o := PromoteOf(refused, Rules{}, instant("2026-03-10T17:00:00Z")); o != ObstacleRefused {
		t.Errorf("refused: %q", o)
	}
	if y, o := ReopenOf(refused, Rules{}, instant("2026-03-10T17:00:00Z")); o != "" || y.Times != 1 || x.Holds(refused) || !x.Shows(refused) {
		t.Errorf("reopened: %q, %+v", o, y)
	}
}

// TestPromotedWasNeverSent: of any record at all.
func TestPromotedWasNeverSent(t *testing.T) {
	t.Parallel()
	promoted := 0
	rapid.Check(t, func(t *rapid.T) {
		r := RecordFromItem(drawItem(t, dryItem(), drawSome(t, append(recordAttributes, AttrReopened))).with(AttrStatus, "DryRunSubmitted"))
		x, o := PromoteOf(r, Rules{}, instant("2026-03-10T16:00:00Z"))
		if o != "" {
			return
		}
		promoted++
		waits := x.Apply(r)
		switch {
		case r.SentQuantity.Whole, r.BilledQuantity.Whole, r.Pending != "", LegacyLicense(r.License):
			t.Fatalf("promoted: %+v", r)
		case !x.Holds(r), x.Holds(waits), !x.Shows(waits), waits.Validate() != "", waits.Pending != waits.HourBucket, waits.Quantity != r.Quantity:
			t.Fatalf("not done once: %+v", waits)
		}
	})
	if promoted == 0 {
		t.Error("none was")
	}
}
