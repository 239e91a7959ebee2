package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/simulator"
)

// TestF12QuietGapsNeverStopTheSweeps: age-out and expiry stopped at the first quiet hours, so that what lay behind a gap waited for ever.
// A row written five days late and records 31 hours and 40 days old, with nothing between, all end within a day.
func TestF12QuietGapsNeverStopTheSweeps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	rows := []metering.Row{usage("2026-03-05T14:00:00", 1), usage("2026-03-08T03:00:00", 2), usage("2025-03-01T00:00:00", 3)}
	w.put(rows...)
	records := []metering.Record{sale("2026-03-09T08", 4), sale("2026-01-29T14", 5), sale("2025-02-27T23", 6)}
	w.putRecords(records...)
	w.until(afternoon.Add(20 * time.Minute))
	w.wantRow(rows[1], metering.AggregationExpired, metering.ExpiredReason) // within three days: at once
	w.wantRecord(records[0], metering.SubmissionExpired, "")
	w.until(afternoon.Add(24 * time.Hour))
	for _, r := range rows {
		w.wantRow(r, metering.AggregationExpired, metering.ExpiredReason)
	}
	for _, r := range records {
		w.wantRecord(r, metering.SubmissionExpired, "")
	}
	w.wantMetric(metering.MetricRowExpired, 3, 6)
	w.wantMetric(metering.MetricSubmissionExpired, 3, 15)
	if calls := w.sim.Stats().Calls; calls != 0 {
		t.Errorf("%d calls", calls)
	}
	w.wantPlace(ledger.Expired, 21)
}

// TestCase16TheLastSecondOfTheWindow: senders kept trying records that were dead already. Short of 24 hours, less the margin of ten seconds, a
// record is sent; from then on it is never put in a call with live ones, and ten minutes after its end it is SubmissionExpired.
func TestCase16TheLastSecondOfTheWindow(t *testing.T) {
	t.Parallel()
	end := at("2026-03-11T14:00:00")
	for age, sent := range map[time.Duration]bool{-11 * time.Second: true, -10 * time.Second: false, -time.Second: false, 0: false, time.Second: false} {
		t.Run(fmt.Sprint(age), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, end.Add(age))
			old, live := sale("2026-03-10T14", 3), sale("2026-03-11T10", 4)
			w.putRecords(old, live)
			w.submit()
			w.wantRecord(live, metering.Success, "")
			if len(w.sim.Stats().Exceptions) > 0 {
				t.Errorf("refused calls: %v", w.sim.Stats().Exceptions)
			}
			w.clock.MoveTo(end.Add(10*time.Minute - time.Second))
			w.expire()
			if sent {
				w.wantRecord(old, metering.Success, "")
				w.wantPlace(ledger.Billed, 7)
				return
			}
			w.wantRecord(old, "", "")
			w.clock.MoveTo(end.Add(10 * time.Minute))
			w.expire()
			w.wantRecord(old, metering.SubmissionExpired, "")
			w.wantMetric(metering.MetricSubmissionExpired, 1, 3)
			w.wantPlace(ledger.Expired, 3)
		})
	}
}

// TestCase17OneSettingForTheWindow: documents named windows of one hour and more. With a service and rules of 6 hours, as with 24, an hour
// inside is billed; one outside expires with a metric and spoils no call.
func TestCase17OneSettingForTheWindow(t *testing.T) {
	t.Parallel()
	for _, window := range []time.Duration{6 * time.Hour, 24 * time.Hour} {
		t.Run(window.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, at("2026-03-10T23:20:00"), withRules(metering.Rules{Window: window}),
				withSimulator(func(o *simulator.Options) { o.Window = window }))
			hour := func(back time.Duration) string { return metering.HourOf(w.clock.Now().Add(-back)).String() }
			inside, outside := hour(window-time.Hour), hour(window+time.Hour)
			w.putRecords(sale(inside, 3), sale(outside, 4))
			lost := usage(outside+":59:59", 5)
			w.put(lost)
			w.until(at("2026-03-10T23:40:00"))
			w.wantRecord(sale(inside, 3), metering.Success, "")
			w.wantRecord(sale(outside, 4), metering.SubmissionExpired, "")
			if got := w.row(lost); got.Pending != "" {
				t.Errorf("row %+v", got)
			}
			if len(w.sim.Stats().Exceptions) > 0 {
				t.Errorf("refused calls: %v", w.sim.Stats().Exceptions)
			}
			w.wantPlace(ledger.Billed, 3)
		})
	}
}

// TestCase18TheLastEveningOfAMonth: usage of 23:00 to 24:00 on the last day was lost to the lock. With lock 6, a row of 23:40 written after
// midnight is billed, and so is another group's that is written at 05:49; one that comes to a committed hour is late, and one at 06:10
// expires at once, by name and metric.
func TestCase18TheLastEveningOfAMonth(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-04-01T00:10:00"), withRules(metering.Rules{LockHours: 6}))
	first := usage("2026-03-31T23:40:00", 1)
	w.put(first)
	w.until(at("2026-04-01T02:59:00"))
	w.wantWaiting(first)
	w.until(at("2026-04-01T03:10:00"))
	w.wantBilled(first, 1)

	w.until(at("2026-04-01T05:49:00"))
	second, late := row(licenseTwo, buyerTwo, apiCalls, "2026-03-31T23:40:00", 2), usage("2026-03-31T23:40:01", 4)
	w.put(second, late)
	w.until(at("2026-04-01T05:55:00"))
	w.wantBilled(second, 2)
	w.wantRow(late, metering.LateUsage, metering.LateReason)
	w.wantMetric(metering.MetricRowLate, 1, 4)

	w.until(at("2026-04-01T06:10:00"))
	third := row(licenseTwo, buyerTwo, "other", "2026-03-31T23:40:00", 8)
	w.put(third)
	w.until(at("2026-04-01T06:21:00"))
	w.wantRow(third, metering.AggregationExpired, metering.ExpiredReason)
	w.wantMetric(metering.MetricRowExpired, 1, 8)
	w.wantPlace(ledger.Billed, 3)
}

// TestCase20TheMonthsEndToTheSecond: the window index was wrong exactly at the boundary. A bucket of 03-31T22 under lock 20 is left alone
// until 02:59:59, metered and sent from 03:00:00 until the margin before 06:00, and then ended: nothing is sent.
func TestCase20TheMonthsEndToTheSecond(t *testing.T) {
	t.Parallel()
	for now, billable := range map[string]bool{
		"02:59:59": false, "03:00:00": true, "05:59:49": true, "05:59:50": false, "05:59:59": false, "06:00:00": false,
	} {
		t.Run(now, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, at("2026-04-01T"+now), withRules(metering.Rules{LockHours: 20}))
			r := usage("2026-03-31T22:15:00", 3)
			w.put(r)
			w.meter()
			w.submit()
			w.ageout()
			if billable {
				w.wantBilled(r, 3)
				w.wantPlace(ledger.Billed, 3)
				return
			}
			w.wantWaiting(r)
			if got := w.record(r); got.SortKey != "" {
				t.Errorf("committed %+v", got)
			}
			w.clock.MoveTo(at("2026-04-01T06:10:00"))
			w.meter()
			w.ageout()
			w.wantRow(r, metering.AggregationExpired, metering.ExpiredReason)
			if calls := w.sim.Stats().Calls; calls != 0 {
				t.Errorf("%d calls", calls)
			}
			w.wantPlace(ledger.Expired, 3)
		})
	}
}

// TestF22GraceTailIsMeteredUntilSix: the grace of the month's end was promised and no stage ever looked at it. 03-31T04 at 05:00 on the 1st,
// 25 hours old, is metered, committed and sent; where the service takes it, it is billed, where not, it is refused alone.
func TestF22GraceTailIsMeteredUntilSix(t *testing.T) {
	t.Parallel()
	for _, extends := range []bool{true, false} {
		t.Run(fmt.Sprint("grace extends the window: ", extends), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, at("2026-04-01T05:00:00"), withSimulator(func(o *simulator.Options) { o.GraceExtendsWindow = extends }))
			tail, live := usage("2026-03-31T04:10:00", 5), usage("2026-04-01T03:10:00", 7)
			over := usage("2026-03-30T23:10:00", 2) // not of the last day
			w.put(tail, live, over)
			w.until(at("2026-04-01T05:25:00"))
			w.wantBilled(live, 7)
			w.wantRow(over, metering.AggregationExpired, metering.ExpiredReason)
			if extends {
				w.wantBilled(tail, 5)
				w.wantPlace(ledger.Billed, 12)
				return
			}
			got := w.record(tail)
			if got.Status != metering.RejectedClientSide || got.StatusReason != "TimestampOutOfBoundsException" {
				t.Errorf("record %+v", got)
			}
			w.wantPlace(ledger.Rejected, 5)
		})
	}
}

// TestF22NothingOfLastMonthIsTouchedAfterSix: after 06:00 hours of the month before were still committed and sent, and their refusal took
// others along. Rows expire as such, records as SubmissionExpired, and a record of this month is billed by the same run.
func TestF22NothingOfLastMonthIsTouchedAfterSix(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-04-01T06:00:30"))
	row31, record31 := usage("2026-03-31T20:10:00", 5), direct(licenseTwo, buyerTwo, apiCalls, "2026-03-31T20", 2)
	live := direct(licenseTwo, buyerTwo, apiCalls, "2026-04-01T04", 3)
	w.put(row31)
	w.putRecords(record31, live)
	w.until(at("2026-04-01T06:25:00"))
	w.wantRow(row31, metering.AggregationExpired, metering.ExpiredReason)
	w.wantRecord(record31, metering.SubmissionExpired, "")
	w.wantRecord(live, metering.Success, "")
	if stats := w.sim.Stats(); len(stats.Exceptions) > 0 || stats.Records != 1 {
		t.Errorf("%d records sent, refused %v", stats.Records, stats.Exceptions)
	}
	w.wantPlace(ledger.Expired, 7)
}

// TestF22AnHourThatLapsesOnItsWay: billability is asked at each step, not once a run. An hour that was enqueued in time and is
// handled after 06:00 is not committed; a record that was read in time and whose turn comes after 06:00 is not sent.
func TestF22AnHourThatLapsesOnItsWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-04-01T05:50:00"))
	r := usage("2026-03-31T20:10:00", 5)
	w.put(r)
	for offset := metering.MinOffset; offset <= metering.MaxOffset; offset++ {
		if _, err := w.Discover.Run(w.ctx, pipeline.MeterSlice(offset)); err != nil {
			t.Fatal(err)
		}
	}
	if waiting, _ := w.Work.Len(); waiting != 1 {
		t.Fatalf("%d messages", waiting)
	}
	w.clock.MoveTo(at("2026-04-01T05:59:55"))
	w.Drain(w.ctx)
	if got := w.record(r); got.SortKey != "" {
		t.Errorf("committed %+v", got)
	}
	w.wantWaiting(r)

	old := sale("2026-03-31T21", 3)
	w.putRecords(old)
	slow := newWorld(t, at("2026-04-01T05:59:40"))
	slow.putRecords(old)
	slow.serial(nil)
	// The mark before its call takes half a minute: by then the hour has lapsed.
	slow.Submit.Records = lateMarks{slow.Submit.Records, func() { slow.clock.MoveTo(at("2026-04-01T06:00:10")) }}
	slow.submit()
	if calls := slow.sim.Stats().Calls; calls != 0 {
		t.Errorf("%d calls", calls)
	}
	slow.until(at("2026-04-01T06:14:00"))
	// It was marked and may, for all that the table says, have been sent.
	slow.wantRecord(old, metering.SubmissionExpired, metering.VerdictUnknown)
	slow.wantPlace(ledger.InDoubt, 3)
	w.books()
}

// TestF22LockOfTwentyAtTheMonthsEnd: under lock 20, hours of the 31st after 07:00 had no time left to be sent. All are billed before 06:00.
func TestF22LockOfTwentyAtTheMonthsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-03-31T12:00:00"), withRules(metering.Rules{LockHours: 20}))
	var rows []metering.Row
	for h := range 24 {
		rows = append(rows, usage(fmt.Sprintf("2026-03-31T%02d:30:00", h), 1))
	}
	w.put(rows...)
	w.until(at("2026-04-01T06:00:00"))
	for _, r := range rows {
		w.wantBilled(r, 1)
	}
	w.wantPlace(ledger.Billed, 24)
}

// TestCase24DowntimeIsCaughtUp: after five hours without the discoverer, items whose time had passed were skipped for good. Rows of every
// hour are billed by the first run after it.
func TestCase24DowntimeIsCaughtUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	for back := 1; back <= 23; back++ {
		w.put(usage(metering.HourOf(afternoon.Add(-time.Duration(back)*time.Hour)).String()+":10:00", 1))
	}
	w.until(at("2026-03-10T15:39:00"))
	entries := w.sim.Ledger()
	if len(entries) != 23 {
		t.Errorf("%d hours billed, want 23", len(entries))
	}
	w.wantPlace(ledger.Billed, 23)
}

// TestCase27DelaysAddUpToLessThanTheWindow: the delays of the stages added up beyond the service's limit. With the longest lock, a row in the
// first second of its hour, and the first delivery of its message lost, the call still starts well before 24 hours.
func TestCase27DelaysAddUpToLessThanTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-03-10T01:00:00"), withRules(metering.Rules{LockHours: 20}), brittle(nil, func(o op, n int, _ string) outcome {
		if o == opCreate && n == 1 {
			return refuse
		}
		return pass
	}))
	r := usage("2026-03-10T00:00:00", 3)
	w.put(r)
	w.until(at("2026-03-10T23:59:00"))
	b, ok := w.sim.Billed(licenseOne, buyerOne, apiCalls, at("2026-03-10T00:00:00"))
	const worst = 20*time.Hour + 5*time.Minute + 6*time.Minute + 15*time.Minute + 5*time.Minute // lock, phase, visibility, next visit, next call
	if age := b.At.Sub(at("2026-03-10T00:00:00")); !ok || age > worst || worst > 23*time.Hour {
		t.Errorf("billed after %v, want at most %v", age, worst)
	}
	w.wantPlace(ledger.Billed, 3)
}
