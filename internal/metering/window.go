package metering

import (
	"fmt"
	"iter"
	"time"
)

// The fixed points of time. The length of the billable window and the lock are settings (Rules).
const (
	// DefaultWindow is how long after its start an hour can be billed: records 24 hours old or older
	// are refused (AWS Marketplace Metering API reference, BatchMeterUsage).
	DefaultWindow = 24 * time.Hour

	// monthGrace is when the month before closes on the 1st: usage of the previous month is accepted
	// until 06:00 UTC (AWS Marketplace Metering API reference, UsageRecord).
	monthGrace = 6 * time.Hour
	// monthUnlock is when the lock of the month before drops to 0 on the 1st, so that three hours are
	// left to submit and retry.
	monthUnlock = 3 * time.Hour
	// lastMonthSweep is the last run of the meter schedule before monthGrace.
	lastMonthSweep = 5*time.Hour + 50*time.Minute

	// billableMargin is kept between our answer and the service's clock.
	billableMargin = 10 * time.Second
	// expiryDelay lets every call and commit that began in time come to its end before an hour that
	// can no longer be billed is finished.
	expiryDelay = 10 * time.Minute
	// flushLead is how long before a license's window closes its hour in progress is flushed.
	flushLead = 10 * time.Minute
	// settleTime is left to the writers' buffers after an hour has ended.
	settleTime = 5 * time.Minute
	// futureTolerance is how far ahead a seller's clock may run.
	futureTolerance = 5 * time.Minute

	// DeprovisionWindow is how long after License Deprovisioned usage of a license is accepted.
	DeprovisionWindow = time.Hour

	// AgeoutShards is the number of slices that the age-out sweep is cut into.
	AgeoutShards = 7
	// MinOffset and MaxOffset bound the hours that the meter mode visits, in hours before the current one.
	MinOffset, MaxOffset = 1, 23

	sweepEveryRun = 3 * 24   // hours back that every sweep looks at
	sweepReach    = 400 * 24 // hours back that are looked at once a day
	sweepSlices   = 96       // quarter hours of a day
)

// Rules are the rules of time under one seller's settings.
type Rules struct {
	// Window is how long after its start an hour can be billed; 0 means DefaultWindow.
	Window time.Duration
	// LockHours is how many hours, counted from its start, an hour is left open for late rows: 1 to 20;
	// 0 means 1. With 1 only complete hours are metered; with 6 the hour of 06:00 is first metered at 12:00.
	LockHours int
}

// Check reports settings outside their range.
func (r Rules) Check() error {
	if r.LockHours < 0 || r.LockHours > 20 {
		return fmt.Errorf("check MeteringLockHours: %d is outside 1 to 20", r.LockHours)
	}
	if r.Window < 0 || r.Window > DefaultWindow || r.Window%time.Hour != 0 {
		return fmt.Errorf("check billable window: %v is not 1 to 24 whole hours", r.Window)
	}
	if time.Duration(r.lock())*time.Hour >= r.window() {
		return fmt.Errorf("check MeteringLockHours: a lock of %d hours leaves nothing of a %v window", r.lock(), r.window())
	}
	return nil
}

func (r Rules) window() time.Duration {
	if r.Window == 0 {
		return DefaultWindow
	}
	return r.Window
}

func (r Rules) lock() int {
	if r.LockHours == 0 {
		return 1
	}
	return r.LockHours
}

// Deadline is the first instant at which h can no longer be billed. An hour of a month's last day lives
// until 06:00 on the 1st, be that sooner than the window says (31st 23:00) or later (31st 04:00, the grace
// tail); every other hour ends with the window. Billability never comes back.
func (r Rules) Deadline(h Hour) time.Time {
	end, month := h.Start().Add(r.window()), h.nextMonth()
	if end.Before(month) || h.Start().Before(month.Add(-24*time.Hour)) {
		return end
	}
	return month.Add(monthGrace)
}

// Billable reports whether usage of h may still be enqueued, committed or sent at now, with a margin of
// ten seconds for clocks that differ. Ask at every such step, not once a run. Hours that have not begun
// count as billable: their time is still to come.
func (r Rules) Billable(h Hour, now time.Time) bool {
	return now.Add(billableMargin).Before(r.Deadline(h))
}

// Expirable reports whether h has been past billing for ten minutes: age-out and submission expiry own it.
func (r Rules) Expirable(h Hour, now time.Time) bool {
	// No deadline lies further ahead of an hour than this, and the sweeps ask for hundreds of old hours at every run.
	if now.Sub(h.Start()) >= max(r.window(), 24*time.Hour+monthGrace)+expiryDelay {
		return true
	}
	return !now.Before(r.Deadline(h).Add(expiryDelay))
}

// Lock is how many hours h is kept open as seen at now: the setting, but 0 for the month before from 03:00
// until 06:00 on the 1st.
func (r Rules) Lock(h Hour, now time.Time) int {
	month := h.nextMonth()
	if !now.Before(month.Add(monthUnlock)) && now.Before(month.Add(monthGrace)) {
		return 0
	}
	return r.lock()
}

// Visitable reports whether the meter mode may enqueue h at now: complete, no longer locked, billable.
func (r Rules) Visitable(h Hour, now time.Time) bool {
	return h.Offset(now) >= max(MinOffset, r.Lock(h, now)) && r.Billable(h, now)
}

// MeterHours are the hours that the meter target of one offset visits at now: the hour itself while it may be
// visited, and for offset 23 the grace tail too.
func (r Rules) MeterHours(offset int, now time.Time) []Hour {
	var hours []Hour
	if offset == MaxOffset {
		hours = r.GraceTail(now)
	}
	if h := HourOf(now) - Hour(offset); r.Visitable(h, now) {
		hours = append(hours, h)
	}
	return hours
}

// GraceTail are the hours that only the month end keeps billable: 24 hours old or older, oldest first.
func (r Rules) GraceTail(now time.Time) []Hour {
	var hours []Hour
	for offset := 24 + int(monthGrace/time.Hour); offset >= 24; offset-- {
		if h := HourOf(now) - Hour(offset); r.Billable(h, now) {
			hours = append(hours, h)
		}
	}
	return hours
}

// SubmitHours are the complete billable hours that the submitter reads, oldest first, without the grace tail.
func (r Rules) SubmitHours(now time.Time) []Hour {
	var hours []Hour
	for offset := MaxOffset; offset >= MinOffset; offset-- {
		if h := HourOf(now) - Hour(offset); r.Billable(h, now) {
			hours = append(hours, h)
		}
	}
	return hours
}

// FlushHours are the hours that a license being deprovisioned is flushed for, oldest first: every complete
// billable hour whatever the lock, the last one only when its writers have had five minutes, and within ten
// minutes of the expiry the hour in progress too.
func (r Rules) FlushHours(expiry, now time.Time) []Hour {
	closing := FlushClosing(expiry, now)
	hours := append(r.GraceTail(now), r.SubmitHours(now)...)
	if n := len(hours); n > 0 && hours[n-1].Offset(now) == 1 && !closing && now.Before(hours[n-1].End().Add(settleTime)) {
		hours = hours[:n-1]
	}
	if closing {
		hours = append(hours, HourOf(now))
	}
	return hours
}

// FlushClosing reports whether a deprovisioning window is so close to its end that nothing waits any longer.
func FlushClosing(expiry, now time.Time) bool { return !now.Before(expiry.Add(-flushLead)) }

// ZeroEdge reports whether a group whose quantity is 0 is to be committed at last: a 0 sent early would own the
// hour, and later usage would be refused. In its own month that is the last offset of the window, for the month
// before the last sweep before 06:00 on the 1st.
func (r Rules) ZeroEdge(h Hour, now time.Time) bool {
	if month := h.nextMonth(); !now.Before(month) {
		return !now.Before(month.Add(lastMonthSweep))
	}
	return h.Offset(now) >= int(r.window()/time.Hour)-1
}

// Future reports whether a row's second lies further ahead of now than clocks may differ.
func Future(s Second, now time.Time) bool { return s.Time().After(now.Add(futureTolerance)) }

// SweepHours are the hours past billing that a sweep looks at now: all of the last three days, and of the older
// ones, back to 400 days, the slice of this quarter hour, so that each is seen once a day without any state.
func (r Rules) SweepHours(now time.Time) iter.Seq[Hour] {
	current := HourOf(now)
	quarter := Hour(now.UTC().Hour()*4 + now.UTC().Minute()/15)
	older := func(back Hour) Hour {
		if back++; back <= sweepEveryRun {
			return back
		}
		return back + ((current-back-quarter)%sweepSlices+sweepSlices)%sweepSlices
	}
	return func(yield func(Hour) bool) {
		for back := Hour(MinOffset); back <= sweepReach; back = older(back) {
			if h := current - back; r.Expirable(h, now) && !yield(h) {
				return
			}
		}
	}
}

// ShardOf is the age-out shard that owns h at now.
func ShardOf(h Hour, now time.Time) int { return h.Offset(now) % AgeoutShards }

// BeyondSweep reports whether h is older than any sweep will ever look at again.
func BeyondSweep(h Hour, now time.Time) bool { return h.Offset(now) > sweepReach }
