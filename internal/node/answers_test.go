package node_test

import (
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// TestCase01OnlySuccessIsBilled: a refused record was booked as remitted. Of two groups one is Success; the other is
// CustomerNotSubscribed, no longer pending, not sent again, and not billed.
func TestCase01OnlySuccessIsBilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, withSimulator(func(o *simulator.Options) { o.ShuffleResults = true }))
	good, refused := usage("2026-03-10T14:00:00", 5), row(licenseTwo, buyerTwo, apiCalls, "2026-03-10T14:00:00", 3)
	w.sim.SuspendAccount(buyerTwo, true)
	w.put(good, refused)
	w.until(at("2026-03-10T15:40:00"))
	if got := w.record(refused); got.Status != metering.CustomerNotSubscribed || got.Pending != "" {
		t.Errorf("record %+v", got)
	}
	w.wantMetric(metering.MetricNotSubscribed, 1, 3)
	calls := w.sim.Stats().Calls
	w.until(at("2026-03-10T15:50:00"))
	if got := w.sim.Stats().Calls; got != calls {
		t.Errorf("%d calls more", got-calls)
	}
	w.wantBilled(good, 5)
	w.wantBilled(refused, 0)
	w.wantPlace(ledger.Refused, 3)
}

// TestF20Case02DuplicateRecordShowsItsUnits, and case 2: the hour is billed with 5 and a record of 8 asks for it: a container of results was
// taken for acceptance, and nothing said that 3 units are unbilled. DuplicateRecord, with its units; 5 stay billed.
func TestF20Case02DuplicateRecordShowsItsUnits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.putRecords(sale("2026-03-10T14", 5))
	w.submit()
	w.putRecords(sale("2026-03-10T14", 8)) // a whole put: nothing of the first record is left
	w.submit()
	w.wantRecord(sale("2026-03-10T14", 8), metering.DuplicateRecord, "")
	w.wantMetric(metering.MetricDuplicate, 1, 8)
	w.wantBilled(usage("2026-03-10T14:00:00", 0), 5)
	check := w.books().Against(sold(w.sim))
	if len(check.Explained) != 1 || check.Explained[0].Ours != 0 || check.Explained[0].Theirs != 5 {
		t.Errorf("explained %+v", check.Explained)
	}
}

// TestCase06LateUsageIsNoHarmlessDuplicate: duplicates were called safe to ignore, and a late +3 was lost behind them. The 3 units show
// as late usage; no DuplicateRecord is provoked.
func TestCase06LateUsageIsNoHarmlessDuplicate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.put(usage("2026-03-10T14:00:00", 7))
	w.until(at("2026-03-10T15:40:00"))
	w.put(usage("2026-03-10T14:00:01", 3))
	w.until(at("2026-03-10T16:10:00"))
	w.wantMetric(metering.MetricRowLate, 1, 3)
	w.wantMetric(metering.MetricDuplicate, 0, 0)
	w.wantPlace(ledger.Late, 3)
	w.wantPlace(ledger.Billed, 7)
}

// TestF33AnEchoThatMatchesNothing: a result whose echo had lost its account was passed over in silence. The record waits, a metric says so,
// and it is billed once the echo is whole.
func TestF33AnEchoThatMatchesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	altered := true
	w.interpose(nil, func(a *metering.Answer) {
		for i := range a.Results {
			if altered && a.Results[i].Usage.Dimension == "odd" {
				a.Results[i].Usage.Account = ""
			}
		}
	})
	odd, even := direct(licenseOne, buyerOne, "odd", "2026-03-10T14", 2), direct(licenseOne, buyerOne, "even", "2026-03-10T14", 3)
	w.putRecords(odd, even)
	if s := w.submit(); s.Unmatched != 1 || s.Settled != 1 {
		t.Errorf("reported %+v", s)
	}
	w.wantMetric(metering.MetricResultUnmatched, 1, 0)
	w.wantRecord(odd, "", "")
	w.wantRecord(even, metering.Success, "")
	w.books()
	altered = false
	w.submit()
	w.wantRecord(odd, metering.Success, "")
	w.wantPlace(ledger.Billed, 5)
}

// TestF33VerdictUnknownIsInDoubt: no answer ever speaks of the record, though it is billed. When its hour ends it is in doubt, by reason
// and in the books, and never called plainly expired.
func TestF33VerdictUnknownIsInDoubt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.interpose(nil, func(a *metering.Answer) { a.Results = nil })
	r := sale("2026-03-10T14", 2)
	w.putRecords(r)
	w.until(afternoon.Add(24 * time.Hour))
	w.wantRecord(r, metering.SubmissionExpired, metering.VerdictUnknown)
	if got := w.metrics.By(metering.MetricSubmissionExpired, metering.VerdictUnknown); got.Items != 1 || got.Units != 2 {
		t.Errorf("metric %+v", got)
	}
	w.wantPlace(ledger.InDoubt, 2)
	w.wantBilled(usage("2026-03-10T14:00:00", 0), 2)
}

// TestUnknownStatusIsNoSuccess: a status that the service adds one day is not taken for anything.
func TestUnknownStatusIsNoSuccess(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.interpose(nil, func(a *metering.Answer) {
		for i := range a.Results {
			a.Results[i].Status = "PartialSuccess"
		}
	})
	r := sale("2026-03-10T14", 2)
	w.putRecords(r)
	w.submit()
	w.wantRecord(r, "", "")
	w.wantMetric(metering.MetricResultUnmatched, 1, 0)
	w.wantPlace(ledger.InFlight, 2)
}
