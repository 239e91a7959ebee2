package node_test

import (
	"testing"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/simulator"
)

// newUnsubscribed is a world whose first buyer is known neither by license nor by customer identifier, until he is admitted by either.
func newUnsubscribed(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, afternoon, withSimulator(func(o *simulator.Options) { o.UnknownCustomer = simulator.ByStatus }))
	check(t, w.sim.PutCustomer(simulator.Customer{Identifier: "cust-1", AccountID: buyerOne}))
	return w
}

func (w *world) admitIdentifier() {
	w.t.Helper()
	check(w.t, w.sim.PutCustomer(simulator.Customer{Identifier: "cust-1", AccountID: buyerOne, Active: true}))
}

// TestF32RetryLeavesRecordsByIdentifier: usage under the customer identifier was refused, and metered by license. When the customer was
// active, a retry billed it once more. Nothing leads from it to the license, so it is left alone, with words that say what to do.
func TestF32RetryLeavesRecordsByIdentifier(t *testing.T) {
	t.Parallel()
	w := newUnsubscribed(t)
	arn, old := sale("2026-03-10T14", 7), legacySale(legacyPartition, "cust-1", buyerOne, apiCalls, 7)
	w.putRecords(old)
	w.submit()
	w.wantRecord(old, metering.CustomerNotSubscribed, "")
	w.putRecords(arn)
	w.submit()
	w.wantRecord(arn, metering.Success, "")
	w.admitIdentifier()
	done := w.retry(pipeline.Retry{License: legacyPartition})
	w.wantRetried(done, 0, 0)
	w.wantSkipped(done, metering.ObstacleLegacy, 1, 7)
	w.submit()
	w.wantPlace(ledger.Billed, 7)
	w.wantPlace(ledger.Refused, 7)
}

// TestF32RetryLeavesASecondRecordOfOneIdentifier: two keys of one identifier, one refused and one billed. Asked for once more, the first was
// answered Success like the second, and the books said twice what was billed.
func TestF32RetryLeavesASecondRecordOfOneIdentifier(t *testing.T) {
	t.Parallel()
	w := newUnsubscribed(t)
	one := legacySale(legacyPartition, "cust-1", buyerOne, apiCalls, 3)
	two := legacySale(legacyPartition+"-2", "cust-1", buyerOne, apiCalls, 3)
	w.putRecords(one)
	w.submit()
	w.wantRecord(one, metering.CustomerNotSubscribed, "")
	w.admitIdentifier()
	w.putRecords(two)
	w.submit()
	w.wantRetried(w.retry(pipeline.Retry{License: one.License}), 0, 0)
	w.submit()
	w.wantPlace(ledger.Billed, 3)
}

// TestF32RetryOfALicenseLooksForItsTwin: usage under the license was refused, and metered by customer identifier, which was billed, or is
// about to be. A retry of the license billed it once more.
func TestF32RetryOfALicenseLooksForItsTwin(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		since  func(w *world, old metering.Record) // what becomes of the usage by identifier
		taken  bool
		billed int64
	}{
		"billed":       {func(w *world, old metering.Record) { w.putRecords(old); w.submit() }, true, 7},
		"waits":        {func(w *world, old metering.Record) { w.putRecords(old) }, true, 7},
		"answer lost":  {func(w *world, old metering.Record) { w.loseReply(old) }, true, 7},
		"not there":    {func(*world, metering.Record) {}, false, 7},
		"another hour": {func(w *world, _ metering.Record) { w.billByIdentifier("2026-03-10T13", apiCalls) }, false, 12},
		"another dimension": {func(w *world, _ metering.Record) {
			check(w.t, w.sim.DefineDimension("storage"))
			w.billByIdentifier("2026-03-10T14", "storage")
		}, false, 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newUnsubscribed(t)
			arn, old := direct(licenseThree, buyerOne, apiCalls, "2026-03-10T14", 7), legacySale(legacyPartition, "cust-1", buyerOne, apiCalls, 7)
			w.putRecords(arn)
			w.submit()
			w.wantRecord(arn, metering.CustomerNotSubscribed, "")
			w.admitIdentifier()
			tt.since(w, old)
			w.activate(licenseThree, buyerOne)
			looked := w.retry(pipeline.Retry{License: licenseThree, DryRun: true})
			done := w.retry(pipeline.Retry{License: licenseThree})
			if tt.taken {
				w.wantRetried(looked, 0, 0)
				w.wantRetried(done, 0, 0)
				w.wantSkipped(done, metering.ObstacleTwin, 1, 7)
			} else {
				w.wantRetried(looked, 1, 7)
				w.wantRetried(done, 1, 7)
			}
			w.submit()
			w.wantPlace(ledger.Billed, tt.billed)
		})
	}
}

// loseReply has a record billed, and its answer lost.
func (w *world) loseReply(r metering.Record) {
	w.t.Helper()
	w.putRecords(r)
	w.sim.Inject(simulator.Fault{Kind: simulator.LoseReply, Times: 1})
	w.submitFails()
}

// billByIdentifier bills five units of another sale.
func (w *world) billByIdentifier(hour, dimension string) {
	w.t.Helper()
	r := direct(legacyPartition, buyerOne, dimension, hour, 5)
	r.CustomerIdentifier = "cust-1"
	w.putRecords(r)
	w.submit()
	w.wantRecord(r, metering.Success, "")
}

// TestF32BothSchemesRefusedAreBilledOnce: a sale was refused under the identifier and under the license. A retry sends it under the license.
func TestF32BothSchemesRefusedAreBilledOnce(t *testing.T) {
	t.Parallel()
	w := newUnsubscribed(t)
	arn, old := direct(licenseThree, buyerOne, apiCalls, "2026-03-10T14", 7), legacySale(legacyPartition, "cust-1", buyerOne, apiCalls, 7)
	for _, r := range []metering.Record{old, arn} {
		w.putRecords(r)
		w.submit()
		w.wantRecord(r, metering.CustomerNotSubscribed, "")
	}
	w.admitIdentifier()
	w.activate(licenseThree, buyerOne)
	w.wantRetried(w.retry(pipeline.Retry{License: legacyPartition}), 0, 0)
	w.wantRetried(w.retry(pipeline.Retry{License: licenseThree}), 1, 7)
	w.submit()
	w.wantRecord(arn, metering.Success, "")
	w.wantPlace(ledger.Billed, 7)
	w.wantPlace(ledger.Refused, 7)
}

// TestF32TwinThatComesWithTheReopening: usage by identifier is written between the look for it and the reopening. Both wait then, and the
// submitter sends one.
func TestF32TwinThatComesWithTheReopening(t *testing.T) {
	t.Parallel()
	w := newUnsubscribed(t)
	arn, old := direct(licenseThree, buyerOne, apiCalls, "2026-03-10T14", 7), legacySale(legacyPartition, "cust-1", buyerOne, apiCalls, 7)
	w.putRecords(arn)
	w.submit()
	w.admitIdentifier()
	w.activate(licenseThree, buyerOne)
	w.wantRetried(w.retry(pipeline.Retry{License: licenseThree}), 1, 7)
	w.putRecords(old)
	w.submit()
	w.wantRecord(arn, metering.Success, "")
	w.wantRecord(old, metering.RejectedClientSide, string(metering.MixedIdentitySchemes))
	w.wantPlace(ledger.Billed, 7)
}

// TestF32RejectedTwinsAreNotRetried: one sale goes by license ARN and by a legacy identifier, another twice by one identifier. The second
// records were rejected unsent; sent alone they would bill their sales twice, and nobody would see it.
func TestF32RejectedTwinsAreNotRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	check(t, w.sim.PutCustomer(simulator.Customer{Identifier: "cust-1", Active: true}))
	arn, mixed := usage("2026-03-10T14:00:00", 2), legacy(usage("2026-03-10T14:00:00", 2))
	one := legacy(row(legacyPartition, buyerTwo, apiCalls, "2026-03-10T14:00:00", 3))
	double := one
	double.License = legacyPartition + "-2"
	w.put(arn, mixed, one, double)
	w.until(at("2026-03-10T15:40:00"))
	w.wantPlace(ledger.Billed, 5)
	w.wantPlace(ledger.Rejected, 5)
	twins := int64(0)
	for _, license := range []string{legacyPartition, double.License} {
		done := w.retry(pipeline.Retry{License: license})
		w.wantRetried(done, 0, 0)
		for _, s := range done.Skipped {
			if s.Cause == metering.ObstacleTwin {
				twins += s.Units
			}
		}
	}
	if twins != 5 {
		t.Errorf("%d units named as twins, want 5", twins)
	}
	w.until(at("2026-03-10T17:00:00"))
	w.wantPlace(ledger.Billed, 5)
}
