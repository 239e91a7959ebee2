package node_test

import (
	"fmt"
	"testing"
	"time"

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

// TestF31AReturningLicenseLosesNothing: a license whose hour was over was flushed until the finalizer came; one that was active again at once
// had its hour in progress committed at its first minute, and the rest of it was late. Ended at 12:59:30 and back five minutes later, nothing
// of it is late or refused, before and after.
func TestF31AReturningLicenseLosesNothing(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]string{"before the finalizer": "13:04:30", "after it": "13:07:30"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, at("2026-03-10T11:55:00"))
			w.deprovision(licenseOne, buyerOne, at("2026-03-10T11:59:30"))
			var rows []metering.Row
			use := func(dimension, timestamp string) {
				w.until(at(timestamp))
				rows = append(rows, row(licenseOne, buyerOne, dimension, timestamp, 5))
				w.put(rows[len(rows)-1])
			}
			use(apiCalls, "2026-03-10T11:59:40")
			use(apiCalls, "2026-03-10T12:50:00") // just before the flush takes the hour in progress
			use(apiCalls, "2026-03-10T13:00:30") // its hour is over, and its software goes on
			returned := at("2026-03-10T" + back)
			w.until(returned)
			w.reactivate(licenseOne, buyerOne, returned)
			use(apiCalls, "2026-03-10T13:20:00")
			use("other_calls", "2026-03-10T13:59:59")
			w.until(at("2026-03-10T14:20:00"))
			w.wantBilled(rows[0], 5)
			w.wantBilled(rows[1], 5)
			w.wantBilled(rows[2], 10)
			w.wantBilled(rows[4], 5)
			w.wantMetric(metering.MetricRowLate, 0, 0)
			w.wantPlace(ledger.Billed, 25)
		})
	}
}

// reactivate tells that a license is active again, here and at the Marketplace.
func (w *world) reactivate(license, account string, from time.Time) {
	w.t.Helper()
	event := metering.LicenseEvent{License: license, Account: account, At: from}
	if _, _, err := w.store.ChangeSubscriber(w.ctx, event.UpdatedAt(w.clock.Now())); err != nil {
		w.t.Fatal(err)
	}
	if err := w.sim.PutLicense(simulator.License{ARN: license, AccountID: account}); err != nil {
		w.t.Fatal(err)
	}
}

// TestCase51cAnHourThatBeganWithTheAgreementsEnd: pages contradict each other on which event opens the last hour. Ended at 12:00 and
// Deprovisioned at 13:00, at a Marketplace whose hour began with Ended: what was sent by then is billed, and what it refuses afterwards has
// its status, its metric and its units. Nothing is silent.
func TestCase51cAnHourThatBeganWithTheAgreementsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-03-10T12:00:00"), withSimulator(func(o *simulator.Options) { o.ClosingAnchor = simulator.AnchorEnded }))
	ended := simulator.License{ARN: licenseOne, AccountID: buyerOne, EndedAt: at("2026-03-10T12:00:00")}
	anchored := func() {
		if err := w.sim.PutLicense(ended); err != nil {
			t.Fatal(err)
		}
	}
	anchored()
	before, after := usage("2026-03-10T11:30:00", 3), usage("2026-03-10T12:30:00", 4)
	w.put(before)
	w.until(at("2026-03-10T12:30:00"))
	w.wantBilled(before, 3)
	w.put(after)
	w.until(at("2026-03-10T13:00:00"))
	w.deprovision(licenseOne, buyerOne, at("2026-03-10T13:00:00"))
	ended.DeprovisionedAt = at("2026-03-10T13:00:00")
	anchored()
	w.until(at("2026-03-10T13:10:00"))
	w.wantRecord(w.record(after), metering.CustomerNotSubscribed, "")
	w.wantMetric(metering.MetricNotSubscribed, 1, 4)
	w.until(at("2026-03-10T14:10:00"))
	w.wantPlace(ledger.Refused, 4)
	w.wantPlace(ledger.Billed, 3)
	if left, err := w.store.Deprovisioning(w.ctx); err != nil || len(left) > 0 {
		t.Errorf("still in its last hour: %v, %v", left, err)
	}
}

// TestRowsOfTheLastTenMinutes: what becomes of usage of the hour in progress by when it is written, in a last hour that ends at 13:30: the
// flush takes that hour at 13:21 and 13:26. Each unit is billed, or has a name.
func TestRowsOfTheLastTenMinutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-03-10T12:30:00"))
	w.deprovision(licenseOne, buyerOne, at("2026-03-10T12:30:00"))
	use := func(dimension, timestamp string, quantity int64) metering.Row {
		w.until(at(timestamp))
		r := row(licenseOne, buyerOne, dimension, timestamp, quantity)
		w.put(r)
		return r
	}
	steady := use("steady", "2026-03-10T13:20:30", 1) // the flush commits its hour
	late := use("steady", "2026-03-10T13:25:30", 2)   // and so this is late
	fresh := use("fresh", "2026-03-10T13:25:40", 4)   // the first of its hour: the next flush commits it
	later := use("steady", "2026-03-10T13:29:00", 8)
	last := use("last", "2026-03-10T13:29:10", 16) // no flush comes any more, and the ordinary way leads past the end
	w.until(at("2026-03-10T13:30:00"))
	w.wantBilled(steady, 1)
	w.wantBilled(fresh, 4)
	w.wantRow(late, metering.LateUsage, metering.LateReason)
	w.until(at("2026-03-10T14:20:00"))
	w.wantRow(later, metering.LateUsage, metering.LateReason)
	w.wantRecord(w.record(last), metering.CustomerNotSubscribed, "")
	w.wantMetric(metering.MetricRowLate, 2, 10)
	w.wantMetric(metering.MetricNotSubscribed, 1, 16)
	w.wantPlace(ledger.Billed, 5)
	w.wantPlace(ledger.Late, 10)
	w.wantPlace(ledger.Refused, 16)
}
