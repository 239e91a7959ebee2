package node_test

import (
	"fmt"
	"testing"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// TestF23LateRowsOfAClosingLicenseAreNamed: under lock 6 the first sweep of a closing license commits its open hours, and 90 of 100 units
// for 08:00 that come ten minutes later were lost. They are LateUsage, with their units, within a quarter of an hour.
func TestF23LateRowsOfAClosingLicenseAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-03-10T10:20:00"), withRules(metering.Rules{LockHours: 6}))
	early := usage("2026-03-10T08:10:00", 10)
	w.put(early)
	w.until(at("2026-03-10T10:30:00"))
	w.deprovision(licenseOne, buyerOne, at("2026-03-10T10:30:00"))
	w.until(at("2026-03-10T10:40:00"))
	w.wantBilled(early, 10)
	late := usage("2026-03-10T08:20:00", 90)
	w.put(late)
	w.until(at("2026-03-10T10:46:00"))
	w.wantRow(late, metering.LateUsage, metering.LateReason)
	w.wantMetric(metering.MetricRowLate, 1, 90)
	w.until(at("2026-03-10T12:00:00"))
	w.wantPlace(ledger.Late, 90)
}

// TestCase54CurrentHourBeforeTheWindowCloses: a chain of twenty minutes stood inside a window of sixty. A row of the hour in progress,
// written at 12:49:30, is in a call before 13:00 and billed.
func TestCase54CurrentHourBeforeTheWindowCloses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-03-10T12:00:00"), withRules(metering.Rules{LockHours: 20}))
	w.deprovision(licenseOne, buyerOne, at("2026-03-10T12:00:00"))
	w.until(at("2026-03-10T12:49:30"))
	r := usage("2026-03-10T12:49:30", 4)
	w.put(r)
	w.until(at("2026-03-10T13:00:00"))
	w.wantBilled(r, 4)
	w.until(at("2026-03-10T14:00:00"))
	w.wantPlace(ledger.Billed, 4)
}

// TestCase55OnlyTheClosingLicenseSkipsTheLock: the ordinary delay was applied to the final usage and always missed the window. Under lock 20
// a closing license's five hours are flushed at once and, after a 500, sent again inside the hour; another license is left alone.
func TestCase55OnlyTheClosingLicenseSkipsTheLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-03-10T15:00:00"), withRules(metering.Rules{LockHours: 20}))
	var closing, active []metering.Row
	for h := 9; h < 14; h++ {
		ts := fmt.Sprintf("2026-03-10T%02d:10:00", h)
		closing, active = append(closing, usage(ts, 2)), append(active, row(licenseTwo, buyerTwo, apiCalls, ts, 3))
	}
	w.put(append(closing, active...)...)
	w.deprovision(licenseOne, buyerOne, at("2026-03-10T15:00:00"))
	w.sim.Inject(simulator.Fault{Kind: simulator.InternalError, Times: 1})
	w.until(at("2026-03-10T15:10:00"))
	for _, r := range closing {
		w.wantBilled(r, 2)
	}
	w.until(at("2026-03-10T16:30:00"))
	w.wantWaiting(active...)
	w.wantPlace(ledger.Billed, 10)
	w.wantPlace(ledger.InFlight, 15)
}

// TestCase56UsageJustBeforeTheEnd: the last interval before a cancellation was never billed and never named. A row written five seconds
// before the window closes ends with a status and a metric, refused either by status or by exception; the finalizer hides nothing.
func TestCase56UsageJustBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for mode, place := range map[simulator.Refusal]ledger.Place{simulator.ByStatus: ledger.Refused, simulator.ByException: ledger.Rejected} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, at("2026-03-10T12:00:00"), withSimulator(func(o *simulator.Options) { o.AfterWindow = mode }))
			w.deprovision(licenseOne, buyerOne, at("2026-03-10T12:00:00"))
			w.until(at("2026-03-10T12:59:55"))
			r := usage("2026-03-10T12:59:55", 4)
			other := direct(licenseTwo, buyerTwo, apiCalls, "2026-03-10T11", 1)
			w.put(r)
			w.putRecords(other)
			w.until(at("2026-03-10T13:40:00"))
			if got := w.record(r); got.Status == "" || got.Status == metering.Success || got.Pending != "" {
				t.Errorf("record %+v", got)
			}
			refused, rejected := w.metrics.Of(metering.MetricNotSubscribed).Units, w.metrics.Of(metering.MetricException).Units
			if refused+rejected != 4 {
				t.Errorf("%d units refused, %d rejected", refused, rejected)
			}
			w.wantRecord(other, metering.Success, "")
			w.wantPlace(place, 4)
		})
	}
}

// TestFlushLetsTheLastHourSettle: the flush of a closing license takes the hour before only from five past on, unless its window is about to
// close; a row that a buffered writer brings at 13:04 is in the sum.
func TestFlushLetsTheLastHourSettle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-03-10T12:55:00"))
	w.deprovision(licenseOne, buyerOne, at("2026-03-10T12:30:00"))
	first, buffered := usage("2026-03-10T12:10:00", 1), usage("2026-03-10T12:59:59", 2)
	w.put(first)
	w.until(at("2026-03-10T13:04:00"))
	w.wantWaiting(first)
	w.put(buffered)
	w.until(at("2026-03-10T13:14:00"))
	w.wantBilled(first, 3)
	w.wantPlace(ledger.Billed, 3)
}

// TestZeroOfAClosingLicenseIsSentAtItsEnd: an hour of zeros of a license that closes cannot wait for offset 23: it is committed as 0 by the
// flush before the end, and not before.
func TestZeroOfAClosingLicenseIsSentAtItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-03-10T12:00:00"))
	w.deprovision(licenseOne, buyerOne, at("2026-03-10T12:00:00"))
	zero := usage("2026-03-10T11:10:00", 0)
	w.put(zero)
	w.until(at("2026-03-10T12:50:30"))
	w.wantWaiting(zero)
	w.until(at("2026-03-10T12:59:00"))
	w.wantRow(zero, metering.Aggregated, aggregated(0, 1))
	if list := w.sim.Ledger(); len(list) != 1 || list[0].Quantity != 0 {
		t.Errorf("billed %+v", list)
	}
	w.books()
}

// TestClosingLicensesGoFirst: the backlog's cap held a closing license's records back until its window was over. They go first, and are not
// counted in the cap.
func TestClosingLicensesGoFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.Submit.MaxRecords = 10
	backlog := many("2026-03-10T02", 40, 1)
	for i := range backlog {
		backlog[i].License, backlog[i].Account = licenseTwo, buyerTwo
		backlog[i].SortKey = buyerTwo + "#" + backlog[i].Dimension + "#2026-03-10T02"
	}
	closing := many("2026-03-10T14", 30, 1)
	w.putRecords(backlog...)
	w.putRecords(closing...)
	w.deprovision(licenseOne, buyerOne, at("2026-03-10T15:00:00"))
	w.submit()
	first, _ := w.count(closing, metering.Success)
	rest, _ := w.count(backlog, metering.Success)
	if first != 30 || rest != 10 {
		t.Errorf("%d of the closing license and %d of the backlog billed, want 30 and 10", first, rest)
	}
	w.wantPlace(ledger.Billed, 40)
}
