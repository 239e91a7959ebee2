package node_test

import (
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// TestF19RecordReplacedDuringItsCall: 10 were sent while the seller replaced the record by 15, and it then read Success with 15. It is
// Success with billedQuantity 10, the 5 beyond are refused with a metric, and nothing more is sent.
func TestF19RecordReplacedDuringItsCall(t *testing.T) {
	t.Parallel()
	for name, replacement := range map[string]struct {
		quantity, refused int64
	}{"more": {15, 5}, "less": {4, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon)
			r := sale("2026-03-10T14", 10)
			w.putRecords(r)
			w.interpose(func(metering.Call) error {
				w.putRecords(sale("2026-03-10T14", replacement.quantity))
				return nil
			}, nil)
			w.submit()
			w.wantRecord(r, metering.Success, "")
			if got := w.stored(r); got.BilledQuantity != metering.Units(10) || got.Quantity != metering.Units(replacement.quantity) {
				t.Errorf("billed %+v of %+v", got.BilledQuantity, got.Quantity)
			}
			if got := w.metrics.Of(metering.MetricDuplicate).Units; got != replacement.refused {
				t.Errorf("%d units refused, want %d", got, replacement.refused)
			}
			calls := w.sim.Stats().Calls
			w.until(afternoon.Add(20 * time.Minute))
			if w.sim.Stats().Calls != calls {
				t.Error("sent again")
			}
			w.wantBilled(usage("2026-03-10T14:00:00", 0), 10)
			w.wantPlace(ledger.Billed, 10)
			w.wantPlace(ledger.Refused, replacement.refused)
		})
	}
}

// TestF19RecordChangedAfterSuccess: a change after Success was sent, and the refusal overwrote status and id of what was billed. An update
// that sets another quantity and the marker again keeps Success and its id, with billedQuantity; nothing is sent.
func TestF19RecordChangedAfterSuccess(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]time.Time{"at the next run": afternoon, "after its hour": afternoon.Add(25 * time.Hour)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon)
			r := sale("2026-03-10T14", 10)
			w.putRecords(r)
			w.submit()
			billed := w.stored(r)
			updated := billed
			updated.Quantity, updated.Pending = metering.Units(15), r.Pending
			w.putRecords(updated)
			w.clock.MoveTo(later)
			w.submit()
			w.expire()
			got := w.stored(r)
			if got.Status != metering.Success || got.MeteringRecordID != billed.MeteringRecordID || got.Pending != "" || got.BilledQuantity != metering.Units(10) {
				t.Errorf("record %+v", got)
			}
			w.wantMetric(metering.MetricDuplicate, 1, 5)
			if calls := w.sim.Stats().Calls; calls != 1 {
				t.Errorf("%d calls", calls)
			}
			w.wantPlace(ledger.Refused, 5)
		})
	}
}

// TestF19UpdateBetweenMarkAndRetry: the record was sent, its answer lost, and its quantity raised by an update. What was sent is asked for
// again, not the new quantity: 10 are billed and kept as billedQuantity.
func TestF19UpdateBetweenMarkAndRetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	r := sale("2026-03-10T14", 10)
	w.putRecords(r)
	failing := true
	w.interpose(nil, func(a *metering.Answer) {
		if failing {
			a.Results = nil // the answer is lost after acceptance
		}
	})
	w.submit()
	updated := w.stored(r)
	updated.Quantity = metering.Units(15)
	w.putRecords(updated)
	failing = false
	w.submit()
	w.wantRecord(r, metering.Success, "")
	if got := w.stored(r).BilledQuantity; got != metering.Units(10) {
		t.Errorf("billedQuantity %+v", got)
	}
	w.wantBilled(usage("2026-03-10T14:00:00", 0), 10)
	w.wantPlace(ledger.Refused, 5)
}

// TestF26ExpiryOverAStaleIndexKeepsSuccess: expiry wrote SubmissionExpired over a Success of a second before, since its index page was
// older. Nothing is written over a verdict.
func TestF26ExpiryOverAStaleIndexKeepsSuccess(t *testing.T) {
	t.Parallel()
	var store *brittleStore
	w := newWorld(t, at("2026-03-11T13:50:00"), brittle(&store, nil))
	r, refused := sale("2026-03-10T14", 10), direct(licenseTwo, buyerTwo, apiCalls, "2026-03-10T14", 2)
	w.putRecords(r, refused)
	w.sim.SuspendAccount(buyerTwo, true)
	store.freeze(w.ctx, metering.HourOf(at("2026-03-10T14:00:00")))
	w.submit()
	w.clock.MoveTo(at("2026-03-11T14:20:00"))
	if e := w.expire(); e.Expired != 0 {
		t.Errorf("%+v", e)
	}
	w.wantRecord(r, metering.Success, "")
	w.wantRecord(refused, metering.CustomerNotSubscribed, "")
	w.wantPlace(ledger.Billed, 10)
}

// TestF26LateSuccessOverwritesExpired: expiry came while the last call was under way, and the answer is Success. Billed is billed: Success
// is written over SubmissionExpired; a refusal would not be.
func TestF26LateSuccessOverwritesExpired(t *testing.T) {
	t.Parallel()
	for name, suspended := range map[string]bool{"success": false, "refusal": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, at("2026-03-11T13:50:00"))
			w.sim.SuspendAccount(buyerOne, suspended)
			r := sale("2026-03-10T14", 10)
			w.putRecords(r)
			w.interpose(nil, func(*metering.Answer) {
				w.clock.MoveTo(at("2026-03-11T14:20:00"))
				w.expire()
			})
			w.submit()
			if suspended {
				w.wantRecord(r, metering.SubmissionExpired, metering.VerdictUnknown)
				w.wantPlace(ledger.InDoubt, 10)
				return
			}
			w.wantRecord(r, metering.Success, "")
			w.wantPlace(ledger.Billed, 10)
		})
	}
}

// TestF27DeletedRecordLeavesNoGhost: a record was deleted while its call was under way, and the write-back made an item of keys and
// status. It stays gone, and a metric counts what was billed without a record.
func TestF27DeletedRecordLeavesNoGhost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	r := sale("2026-03-10T14", 10)
	w.putRecords(r)
	w.interpose(func(metering.Call) error { return w.store.DeleteRecord(w.ctx, r.License, r.SortKey) }, nil)
	w.submit()
	if got := w.stored(r); got.SortKey != "" {
		t.Errorf("ghost %+v", got)
	}
	w.wantMetric(metering.MetricResultUnmatched, 1, 10)
	check := ledgerOf(w).Against(sold(w.sim))
	if len(check.Differences) != 1 || check.Differences[0].Theirs != 10 {
		t.Errorf("differences %+v: the comparison must show what was billed without a record", check.Differences)
	}
}

func ledgerOf(w *world) ledger.Report {
	w.t.Helper()
	report, err := ledger.Compute(w.ctx, w.store, ledger.Scope{})
	if err != nil {
		w.t.Fatal(err)
	}
	return report
}

// TestRetentionOnSuccessOnly: a record is given a ttl when it is billed and never otherwise.
func TestRetentionOnSuccessOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.Submit.Retention = 367 * 24 * time.Hour
	good, refused := sale("2026-03-10T14", 1), direct(licenseTwo, buyerTwo, apiCalls, "2026-03-10T14", 2)
	bad := changed(direct(licenseOne, buyerOne, "bad", "2026-03-10T14", 1), metering.Item{metering.AttrQuantity: nil})
	old := sale("2026-03-09T14", 1)
	w.sim.SuspendAccount(buyerTwo, true)
	w.putRecords(good, refused, bad, old)
	w.submit()
	w.expire()
	if got := w.stored(good).TTL; got != metering.Units(afternoon.Add(w.Submit.Retention).Unix()) {
		t.Errorf("ttl %+v", got)
	}
	for _, r := range []metering.Record{refused, bad, old} {
		if got := w.stored(r); got.TTL.Whole || got.Status == "" {
			t.Errorf("%s: %s with ttl %+v", r.SortKey, got.Status, got.TTL)
		}
	}
	w.books()
}
