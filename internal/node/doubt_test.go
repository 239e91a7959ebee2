package node_test

import (
	"testing"

	"github.com/aws/smithy-go"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// resends lets a resend of what was billed fail like any other record.
func resends(o *simulator.Options) {
	o.ResendNeedsSubscription, o.AfterWindow = true, simulator.ByException
}

// TestStaleIndexKeepsDoubt: a run that read the entry from before the mark took a refusal of the resend for final, though an earlier call
// had billed. The record waits, whether the refusal is a result or an exception.
func TestStaleIndexKeepsDoubt(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(w *world){
		"not subscribed": func(w *world) { w.sim.SuspendAccount(buyerOne, true) },
		"exception": func(w *world) {
			check(w.t, w.sim.PutLicense(simulator.License{ARN: licenseOne, AccountID: buyerOne, DeprovisionedAt: at("2026-03-10T14:00:00")}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var store *brittleStore
			w := newWorld(t, afternoon, brittle(&store, nil), withSimulator(resends))
			r := sale("2026-03-10T14", 10)
			w.putRecords(r)
			store.freeze(w.ctx, metering.HourOf(at("2026-03-10T14:00:00")))
			w.sim.Inject(simulator.Fault{Kind: simulator.LoseReply, Times: 1})
			w.submitFails()
			leave(w)
			w.submit()
			w.wantRecord(r, "", "")
			w.wantBilled(usage("2026-03-10T14:00:00", 0), 10)
			w.books()
		})
	}
}

// TestOverlappingRunKeepsDoubt: a run marked and sent a record between another's reading and marking it, and the other did not know of the
// doubt. It leaves the record to the next run.
func TestOverlappingRunKeepsDoubt(t *testing.T) {
	t.Parallel()
	var w *world
	w = newWorld(t, afternoon, withSimulator(resends), brittle(nil, func(o op, n int, _ string) outcome {
		if o == opMark && n == 1 {
			w.submitFails()
			w.sim.SuspendAccount(buyerOne, true)
		}
		return pass
	}))
	r := sale("2026-03-10T14", 10)
	w.putRecords(r)
	w.sim.Inject(simulator.Fault{Kind: simulator.LoseReply, Times: 1})
	w.submit()
	w.wantRecord(r, "", "")
	w.wantBilled(usage("2026-03-10T14:00:00", 0), 10)
	w.books()
}

// TestDoubtfulRecordWithNewAllocations: a record in doubt that had changed was resent without its allocations, and DuplicateRecord was taken
// to mean that nothing of it was billed. The resend was not identical, so the record waits.
func TestDoubtfulRecordWithNewAllocations(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, withSimulator(func(o *simulator.Options) { o.AllocationsDistinguish = true }))
	tagged := func(r metering.Record, quantity int64) metering.Record {
		r.Quantity = metering.Units(quantity)
		r.Allocations = []metering.Allocation{{Quantity: quantity, Tags: []metering.Tag{{Key: "team", Value: "a"}}}}
		return r
	}
	r := tagged(sale("2026-03-10T14", 10), 10)
	w.putRecords(r)
	w.sim.Inject(simulator.Fault{Kind: simulator.LoseReply, Times: 1})
	w.submitFails()
	w.putRecords(tagged(w.stored(r), 15))
	w.submit()
	w.wantRecord(r, "", "")
	w.wantMetric(metering.MetricInDoubt, 1, 10)
	w.wantBilled(usage("2026-03-10T14:00:00", 0), 10)
	w.books()
}

// TestSuccessFollowsEveryChange: a Success was answered, the record changed before its write and expired before the second one, and the
// Success was lost. It is written with what was billed, and the rest is refused.
func TestSuccessFollowsEveryChange(t *testing.T) {
	t.Parallel()
	var w *world
	r := sale("2026-03-10T14", 10)
	w = newWorld(t, at("2026-03-11T13:50:00"), brittle(nil, func(o op, n int, _ string) outcome {
		switch {
		case o == opFinish && n == 1: // its seller raises it
			raised := w.stored(r)
			raised.Quantity = metering.Units(15)
			w.putRecords(raised)
		case o == opFinish && n == 2: // and its hour ends
			w.clock.MoveTo(at("2026-03-11T14:20:00"))
			w.expire()
		}
		return pass
	}))
	w.putRecords(r)
	w.submit()
	w.wantRecord(r, metering.Success, "")
	if got := w.stored(r); got.BilledQuantity != metering.Units(10) || got.Quantity != metering.Units(15) {
		t.Errorf("billed %+v of %+v", got.BilledQuantity, got.Quantity)
	}
	w.wantPlace(ledger.Billed, 10)
	w.wantPlace(ledger.Refused, 5)
	w.wantMetric(metering.MetricDuplicate, 1, 5)
}

// TestExpiryNeverOverwritesSuccess: a billed record waited again with the quantity that was sent, and expiry, which read a lagging index,
// called it expired. It stays Success, and only its marker goes once the index shows it.
func TestExpiryNeverOverwritesSuccess(t *testing.T) {
	t.Parallel()
	var w *world
	var store *brittleStore
	hour := metering.HourOf(at("2026-03-10T14:00:00"))
	w = newWorld(t, at("2026-03-11T13:50:00"), brittle(&store, func(o op, n int, _ string) outcome {
		if o == opFinish && n == 1 { // marked, and not Success yet
			store.freeze(w.ctx, hour)
		}
		return pass
	}))
	r := sale("2026-03-10T14", 10)
	w.putRecords(r)
	w.submit()
	billed := w.stored(r)
	waiting := billed
	waiting.Pending = r.Pending
	w.putRecords(waiting)
	w.clock.MoveTo(at("2026-03-11T14:20:00"))
	w.expire()
	if got := w.stored(r); got.Status != metering.Success || got.MeteringRecordID != billed.MeteringRecordID {
		t.Errorf("expired although billed: %s %q, id %q", got.Status, got.StatusReason, got.MeteringRecordID)
	}
	store.freeze(w.ctx, hour)
	w.expire()
	w.wantRecord(r, metering.Success, "")
	w.wantPlace(ledger.Billed, 10)
}

// TestMendedRecordIsNotGivenItsOldFault: a record was mended while the call that found its fault was under way, and was rejected for the
// fault that it no longer had. It is sent again and billed.
func TestMendedRecordIsNotGivenItsOldFault(t *testing.T) {
	t.Parallel()
	tagged := func(key string) metering.Record {
		r := sale("2026-03-10T14", 10)
		r.Allocations = []metering.Allocation{{Quantity: 10, Tags: []metering.Tag{{Key: key, Value: "a"}}}}
		return r
	}
	w := newWorld(t, afternoon)
	w.putRecords(tagged("bad"))
	w.serial(func(c metering.Call) error {
		for _, u := range c.Records {
			if len(u.Allocations) > 0 && u.Allocations[0].Tags[0].Key == "bad" {
				w.putRecords(tagged("good"))
				return &smithy.GenericAPIError{Code: "InvalidTagException"}
			}
		}
		return nil
	})
	w.submit()
	w.wantRecord(tagged("good"), "", "")
	w.submit()
	w.wantRecord(tagged("good"), metering.Success, "")
	w.wantBilled(usage("2026-03-10T14:00:00", 0), 10)
	w.books()
}

// TestDuplicateUnitsAreTheRecords: of a raised record that was refused as a duplicate, the metric counted what was sent and the ledger what
// it holds. Both name the record's own units.
func TestDuplicateUnitsAreTheRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	r := sale("2026-03-10T14", 10)
	w.putRecords(r)
	w.sim.Inject(simulator.Fault{Kind: simulator.InternalError, Times: 1})
	w.submitFails()
	raised := w.stored(r)
	raised.Quantity = metering.Units(15)
	w.putRecords(raised)
	w.soldElsewhere(r, 7)
	w.submit()
	w.wantRecord(r, metering.DuplicateRecord, "")
	w.wantMetric(metering.MetricDuplicate, 1, 15)
	if got := ledgerOf(w).Total.Place(ledger.Refused).Units; got != 15 { // not books: 7 were billed without our knowledge
		t.Errorf("%d units refused in the ledger, want 15", got)
	}
}

// soldElsewhere bills a record's identity with another quantity, past the pipeline.
func (w *world) soldElsewhere(r metering.Record, quantity int64) {
	w.t.Helper()
	client := marketplace.New(marketplace.Options{
		Region: "us-east-1", Endpoint: "http://simulator.invalid", HTTPClient: w.sim.Client(), ProductCode: simulator.DefaultProductCode,
	})
	u := r.Usage()
	u.Quantity = quantity
	if _, err := client.Call(w.ctx, metering.Call{Records: []metering.UsageRecord{u}}); err != nil {
		w.t.Fatal(err)
	}
}
