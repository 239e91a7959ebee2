package metering

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// refusedItem is a record of 14:00 that was sent and refused.
func refusedItem() Item {
	return recordItem().with(AttrPending, without{}, AttrSentQuantity, number(3), AttrSentSecond, "2026-03-10T14:00:00",
		AttrStatus, "CustomerNotSubscribed", AttrRecordID, "id-1", AttrManifest, "v1 1 3 0:3", AttrCreatedAt, "2026-03-10T15:05:00Z", AttrUpdatedAt, "2026-03-10T15:08:00Z")
}

// legacyIdentity makes a record one that meters by customer identifier.
func legacyIdentity() []any { return []any{AttrLicense, "product-1", AttrCustomerIdentifier, "cust-1"} }

func obstacleOf(now string, rules Rules, pairs ...any) Obstacle {
	_, o := ReopenOf(RecordFromItem(refusedItem().with(pairs...)), rules, instant(now))
	return o
}

// TestOnlyRefusalsThatCanBeLiftedAreReopened goes through every way in which a record ends.
func TestOnlyRefusalsThatCanBeLiftedAreReopened(t *testing.T) {
	t.Parallel()
	rejected := func(reason string) []any { return []any{AttrStatus, "RejectedClientSide", AttrStatusReason, reason} }
	tests := []struct {
		name  string
		pairs []any
		want  Obstacle
	}{
		{"F21: the buyer was not subscribed", nil, ""},
		{"F34: the dimension was not defined", rejected("InvalidUsageDimensionException"), ""},
		{"the license was not active", rejected("InvalidLicenseException"), ""},
		{"the service's clock was another", rejected("TimestampOutOfBoundsException"), ""},
		{"the customer was not known", rejected("InvalidCustomerIdentifierException"), ""},
		{"a refusal that lost its mark", []any{AttrSentQuantity, without{}, AttrSentSecond, without{}}, ""},

		{"a tag", rejected("InvalidTagException"), ObstacleFault},
		{"allocations", rejected("InvalidUsageAllocationsException"), ObstacleFault},
		{"its shape", rejected("ValidationException"), ObstacleFault},
		{"its size", rejected("RequestEntityTooLargeException"), ObstacleFault},
		{"nothing that is known", rejected("SomethingNewException"), ObstacleFault},
		{"no reason", rejected(""), ObstacleFault},
		{"the ARN's twin", rejected("MixedIdentitySchemes"), ObstacleTwin},
		{"the identifier's twin", rejected("DuplicateIdentity"), ObstacleTwin},

		{"billed", []any{AttrStatus, "Success"}, ObstacleBilled},
		{"billed otherwise", []any{AttrStatus, "Success", AttrBilledQuantity, number(2)}, ObstacleBilled},
		{"refused, and something billed", []any{AttrBilledQuantity, number(2)}, ObstacleBilled},
		{"refused, and a nothing billed", []any{AttrBilledQuantity, number(0)}, ObstacleBilled},
		{"refused, and billed is no number", []any{AttrBilledQuantity, "2"}, ObstacleBilled},
		{"taken", []any{AttrStatus, "DuplicateRecord"}, ObstacleTaken},
		{"expired", []any{AttrStatus, "SubmissionExpired", AttrSentQuantity, without{}}, ObstacleOver},
		{"in doubt", []any{AttrStatus, "SubmissionExpired", AttrStatusReason, VerdictUnknown}, ObstacleDoubt},
		{"dry run", []any{AttrStatus, "DryRunSubmitted", AttrSentQuantity, without{}}, ObstacleDryRun},
		{"sent, then a dry run", []any{AttrStatus, "DryRunSubmitted"}, ObstacleDoubt},

		{"F32: by identifier", legacyIdentity(), ObstacleLegacy},
		{"F32: by identifier, not known", append(rejected("InvalidCustomerIdentifierException"), legacyIdentity()...), ObstacleLegacy},
		{"by identifier, billed", append(legacyIdentity(), AttrStatus, "Success"), ObstacleBilled},
		{"by identifier, its twin", append(rejected("DuplicateIdentity"), legacyIdentity()...), ObstacleTwin},

		{"waiting", []any{AttrPending, "2026-03-10T14", AttrStatus, without{}}, ObstacleWaiting},
		{"in doubt, and waiting", []any{AttrPending, "2026-03-10T14"}, ObstacleWaiting},
		{"no status", []any{AttrStatus, without{}}, ObstacleForeign},
		{"a status of rows", []any{AttrStatus, "LateUsage"}, ObstacleForeign},
		{"a status that is no text", []any{AttrStatus, true}, ObstacleForeign},
		{"a trace that is none", []any{AttrReopened, "never"}, ObstacleForeign},

		{"a key that names no hour", []any{AttrRecordKey, buyer + "#api_calls#today"}, ObstacleFault},
		{"an hour that is not the key's", []any{AttrHour, "2026-03-10T13"}, ObstacleFault},
		{"no quantity", []any{AttrQuantity, without{}}, ObstacleFault},
		{"a quantity that is no number", []any{AttrQuantity, "3"}, ObstacleFault},
	}
	for _, tt := range tests {
		if got := obstacleOf("2026-03-10T16:00:00Z", Rules{}, tt.pairs...); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	for _, reason := range constants(t, "Reason") {
		if obstacleOf("2026-03-10T16:00:00Z", Rules{}, rejected(reason)...) == "" {
			t.Errorf("%s is a fault of the record, and reopened", reason)
		}
	}
	for _, status := range constants(t, "Status") {
		if o := obstacleOf("2026-03-10T16:00:00Z", Rules{}, AttrStatus, status); (o == "") != (status == "CustomerNotSubscribed") {
			t.Errorf("%s: %q", status, o)
		}
	}
}

// TestF32SaleTaken: of two records of a sale the second may be sent only where it is certain that the first billed nothing and never will.
func TestF32SaleTaken(t *testing.T) {
	t.Parallel()
	rejected := func(reason string) []any { return []any{AttrStatus, "RejectedClientSide", AttrStatusReason, reason} }
	for name, tt := range map[string]struct {
		pairs []any
		want  bool
	}{
		"refused":                       {nil, false},
		"a dimension refused":           {rejected("InvalidUsageDimensionException"), false},
		"a tag refused":                 {rejected("InvalidTagException"), false},
		"never sent, faulty":            {append(rejected("NegativeQuantity"), AttrSentQuantity, without{}), false},
		"never sent, for the license":   {append(rejected("MixedIdentitySchemes"), AttrSentQuantity, without{}), false},
		"never sent in time":            {[]any{AttrStatus, "SubmissionExpired", AttrSentQuantity, without{}}, false},
		"never sent, but by a dry run":  {[]any{AttrStatus, "DryRunSubmitted", AttrSentQuantity, without{}}, false},
		"sent, then a dry run":          {[]any{AttrStatus, "DryRunSubmitted"}, true},
		"another identifier has it":     {append(rejected("DuplicateIdentity"), AttrSentQuantity, without{}), true},
		"waits":                         {[]any{AttrPending, "2026-03-10T14", AttrStatus, without{}, AttrSentQuantity, without{}}, true},
		"sent, waits":                   {[]any{AttrPending, "2026-03-10T14", AttrStatus, without{}}, true},
		"billed":                        {[]any{AttrStatus, "Success"}, true},
		"billed in part":                {[]any{AttrBilledQuantity, number(2)}, true},
		"billed with another quantity":  {[]any{AttrStatus, "DuplicateRecord"}, true},
		"in doubt":                      {[]any{AttrStatus, "SubmissionExpired", AttrStatusReason, VerdictUnknown}, true},
		"ended in no way that is known": {[]any{AttrStatus, without{}}, true},
	} {
		r := RecordFromItem(refusedItem().with(append(legacyIdentity(), tt.pairs...)...))
		if got := SaleTaken(r); got != tt.want {
			t.Errorf("%s: taken %v, want %v", name, got, tt.want)
		}
	}
}

func TestReopenedOnlyInsideTheWindow(t *testing.T) {
	t.Parallel()
	lastDay := []any{AttrRecordKey, buyer + "#api_calls#2026-03-31T04", AttrHour, "2026-03-31T04"}
	tests := []struct {
		now   string
		rules Rules
		pairs []any
		want  Obstacle
	}{
		{"2026-03-11T13:59:49Z", Rules{}, nil, ""},
		{"2026-03-11T13:59:50Z", Rules{}, nil, ObstacleOver}, // the margin
		{"2026-03-11T14:00:00Z", Rules{}, nil, ObstacleOver},
		{"2026-04-10T14:30:00Z", Rules{}, nil, ObstacleOver},
		{"2026-03-10T19:59:00Z", Rules{Window: 6 * time.Hour}, nil, ""},
		{"2026-03-10T20:00:00Z", Rules{Window: 6 * time.Hour}, nil, ObstacleOver},
		{"2026-04-01T05:59:00Z", Rules{}, lastDay, ""}, // the grace tail
		{"2026-04-01T06:00:00Z", Rules{}, lastDay, ObstacleOver},
	}
	for _, tt := range tests {
		if got := obstacleOf(tt.now, tt.rules, tt.pairs...); got != tt.want {
			t.Errorf("at %s with %+v: %q, want %q", tt.now, tt.rules, got, tt.want)
		}
	}
}

// TestReopenedRecord: it waits as on its first day, with a trace that grows.
func TestReopenedRecord(t *testing.T) {
	t.Parallel()
	first := RecordFromItem(refusedItem())
	x, o := ReopenOf(first, Rules{}, instant("2026-03-10T16:00:00Z"))
	if o != "" {
		t.Fatal(o)
	}
	again := x.Apply(first)
	entry := map[string]any{"at": "2026-03-10T16:00:00Z", AttrStatus: "CustomerNotSubscribed", AttrRecordID: "id-1"}
	want := recordItem().with(AttrManifest, "v1 1 3 0:3", AttrCreatedAt, "2026-03-10T15:05:00Z", AttrUpdatedAt, "2026-03-10T16:00:00Z", AttrReopened, []any{entry})
	if diff := cmp.Diff(want, again.Item()); diff != "" {
		t.Errorf("reopened (-want +got):\n%s", diff)
	}
	if !x.Holds(first) || x.Holds(again) || !x.Shows(again) || x.Shows(first) {
		t.Error("the write is not done once")
	}
	if _, present := first.Other[AttrReopened]; present {
		t.Error("the record that was judged has changed")
	}

	mine := x
	if mine.Token = "mine"; mine.Shows(again) || x.Shows(mine.Apply(first)) || !mine.Shows(mine.Apply(first)) {
		t.Error("of two who reopen it in one second, one takes the other's write for his own")
	}

	refused := FinishWith(Verdict{Record: again, Sent: again.Usage(), Status: RejectedClientSide, Reason: "InvalidLicenseException"}, 0, instant("2026-03-10T16:03:00Z")).Apply(again)
	y, o := ReopenOf(refused, Rules{}, instant("2026-03-10T17:00:00Z"))
	if o != "" {
		t.Fatal(o)
	}
	if x.Holds(refused) || !x.Shows(refused) {
		t.Error("the first reopening is taken for the second")
	}
	third := y.Apply(refused)
	second := map[string]any{"at": "2026-03-10T17:00:00Z", AttrStatus: "RejectedClientSide", AttrStatusReason: "InvalidLicenseException"}
	if diff := cmp.Diff([]any{entry, second}, third.Other[AttrReopened]); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
	if trace, _ := traceOf(again.Other, AttrReopened); len(trace) != 1 {
		t.Error("the trace before has grown too")
	}
	if got := RecordFromItem(third.Item()); cmp.Diff(third, got) != "" {
		t.Errorf("read back otherwise:\n%s", cmp.Diff(third, got))
	}
}

// TestReopenIsConditional: whatever was judged has to be as it was read.
func TestReopenIsConditional(t *testing.T) {
	t.Parallel()
	x, _ := ReopenOf(RecordFromItem(refusedItem()), Rules{}, instant("2026-03-10T16:00:00Z"))
	for name, change := range map[string][]any{
		"another quantity":    {AttrQuantity, number(4)},
		"no mark":             {AttrSentQuantity, without{}},
		"another second":      {AttrSentSecond, "2026-03-10T14:00:05"},
		"waiting":             {AttrPending, "2026-03-10T14"},
		"billed":              {AttrStatus, "Success"},
		"billed in part":      {AttrBilledQuantity, number(1)},
		"rejected":            {AttrStatus, "RejectedClientSide", AttrStatusReason, "InvalidLicenseException"},
		"a reason":            {AttrStatusReason, "why"},
		"reopened before":     {AttrReopened, []any{map[string]any{"at": "2026-03-10T15:30:00Z"}}},
		"another thing there": {AttrReopened, true},
		"other allocations":   {AttrAllocations, []any{allocation(3)}},
	} {
		if x.Holds(RecordFromItem(refusedItem().with(change...))) {
			t.Errorf("%s: it is reopened", name)
		}
	}
	odd, _ := ReopenOf(RecordFromItem(refusedItem().with(AttrStatusReason, "InvalidLicenseException")), Rules{}, instant("2026-03-10T16:00:00Z"))
	if odd.Holds(RecordFromItem(refusedItem().with(AttrStatus, "RejectedClientSide", AttrStatusReason, "InvalidLicenseException"))) {
		t.Error("another status with the same reason: it is reopened")
	}
	if !x.Holds(RecordFromItem(refusedItem().with("note", "mine", AttrManifest, without{}, AttrTTL, number(9)))) {
		t.Error("what was not judged stands in the way")
	}
}

// TestReopenedIsNeverBilledOrInDoubt holds whatever is reopened, of any record at all, against what must be true of it.
func TestReopenedIsNeverBilledOrInDoubt(t *testing.T) {
	t.Parallel()
	now := instant("2026-03-10T16:00:00Z")
	reopened := 0
	rapid.Check(t, func(t *rapid.T) {
		item := refusedItem()
		if rapid.Bool().Draw(t, "arbitrary") {
			item = drawItem(t, item, append(recordAttributes, AttrReopened))
		}
		item = item.with(AttrStatus, rapid.SampledFrom([]string{"CustomerNotSubscribed", "RejectedClientSide", "Success", "DuplicateRecord", "SubmissionExpired"}).Draw(t, "status"))
		if rapid.Bool().Draw(t, "reason") {
			item = item.with(AttrStatusReason, rapid.SampledFrom([]string{"InvalidUsageDimensionException", "DuplicateIdentity"}).Draw(t, "reason"))
		}
		r := RecordFromItem(item)
		x, o := ReopenOf(r, Rules{}, now)
		if o != "" {
			return
		}
		reopened++
		again := x.Apply(r)
		g, _ := r.Group()
		switch {
		case r.Status != CustomerNotSubscribed && r.Status != RejectedClientSide, r.BilledQuantity.Whole, r.Pending != "":
			t.Fatalf("reopened: %+v", r)
		case !x.Holds(r), x.Holds(again), !x.Shows(again):
			t.Fatalf("not done once: %+v", r)
		case again.Validate() != "", again.SentQuantity.Whole, again.SentSecond != "", again.Status != "", again.StatusReason != "":
			t.Fatalf("not as on its first day: %+v", again)
		case again.Pending != g.Hour.String(), again.Quantity != r.Quantity, again.Manifest != r.Manifest, again.Usage().Second != g.Hour.Second(0):
			t.Fatalf("another record: %+v", again)
		}
	})
	if reopened == 0 {
		t.Error("none was")
	}
}

// TestEveryObstacleHasWords: each is shown, and says why.
func TestEveryObstacleHasWords(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, o := range Obstacles() {
		why := o.Why()
		if why == "" || why == string(o) || seen[why] {
			t.Errorf("%s: %q", o, why)
		}
		seen[why] = true
	}
	if len(seen) != 12 {
		t.Errorf("%d obstacles", len(seen))
	}
}
