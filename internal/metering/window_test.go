package metering

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestDeadline(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		window   time.Duration
		hour     string
		deadline string
	}{
		{"an ordinary hour", 0, "2026-03-10T14", "2026-03-11T14:00:00Z"},
		{"the default, written out", 24 * time.Hour, "2026-03-10T14", "2026-03-11T14:00:00Z"},
		{"the first hour of a month", 0, "2026-03-01T00", "2026-03-02T00:00:00Z"},
		{"the last but one day", 0, "2026-03-30T00", "2026-03-31T00:00:00Z"},
		{"the last hour of the 30th of 31", 0, "2026-03-30T23", "2026-03-31T23:00:00Z"},
		{"the last day begins", 0, "2026-03-31T00", "2026-04-01T06:00:00Z"},
		{"grace tail: 31st 04:00 lives until 06:00", 0, "2026-03-31T04", "2026-04-01T06:00:00Z"},
		{"31st 05:00 would die at 05:00", 0, "2026-03-31T05", "2026-04-01T06:00:00Z"},
		{"31st 06:00 either way", 0, "2026-03-31T06", "2026-04-01T06:00:00Z"},
		{"31st 23:00 dies at 06:00", 0, "2026-03-31T23", "2026-04-01T06:00:00Z"},
		{"a month of 30 days", 0, "2026-04-30T12", "2026-05-01T06:00:00Z"},
		{"February, not a leap year", 0, "2026-02-28T04", "2026-03-01T06:00:00Z"},
		{"the day before it", 0, "2026-02-27T23", "2026-02-28T23:00:00Z"},
		{"February 28th of a leap year", 0, "2028-02-28T23", "2028-02-29T23:00:00Z"},
		{"February 29th", 0, "2028-02-29T04", "2028-03-01T06:00:00Z"},
		{"2100 is no leap year", 0, "2100-02-28T04", "2100-03-01T06:00:00Z"},
		{"2000 was one", 0, "2000-02-28T04", "2000-02-29T04:00:00Z"},
		{"December to January", 0, "2026-12-31T23", "2027-01-01T06:00:00Z"},
		{"January 1st", 0, "2027-01-01T00", "2027-01-02T00:00:00Z"},
		{"six hours: case 17", 6 * time.Hour, "2026-03-10T14", "2026-03-10T20:00:00Z"},
		{"six hours, gone before the month ends", 6 * time.Hour, "2026-03-31T17", "2026-03-31T23:00:00Z"},
		{"six hours, alive as the month ends", 6 * time.Hour, "2026-03-31T18", "2026-04-01T06:00:00Z"},
		{"six hours, the last", 6 * time.Hour, "2026-03-31T23", "2026-04-01T06:00:00Z"},
		{"one hour", time.Hour, "2026-03-31T22", "2026-03-31T23:00:00Z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, h, d := Rules{Window: tt.window}, hour(tt.hour), instant(tt.deadline)
			if got := r.Deadline(h); !got.Equal(d) {
				t.Fatalf("Deadline(%s) = %v, want %v", h, got, d)
			}
			last := d.Add(-10 * time.Second)
			for at, want := range map[time.Time]bool{
				h.Start(): true, last.Add(-time.Second): true, last.Add(-time.Nanosecond): true,
				last: false, last.Add(time.Nanosecond): false, d.Add(-time.Nanosecond): false, d: false, d.Add(time.Second): false,
			} {
				if got := r.Billable(h, at); got != want {
					t.Errorf("Billable(%s, %v) = %v, want %v", h, at, got, want)
				}
			}
			past := d.Add(10 * time.Minute)
			for at, want := range map[time.Time]bool{
				d: false, past.Add(-time.Second): false, past.Add(-time.Nanosecond): false, past: true, past.Add(time.Nanosecond): true,
			} {
				if got := r.Expirable(h, at); got != want {
					t.Errorf("Expirable(%s, %v) = %v, want %v", h, at, got, want)
				}
			}
		})
	}
}

func TestWindowIsExclusive(t *testing.T) { // case 16, and case 17 with six hours
	t.Parallel()
	h := hour("2026-03-10T14")
	for _, window := range []time.Duration{24 * time.Hour, 6 * time.Hour, 20 * time.Hour} {
		r := Rules{Window: window}
		for _, tt := range []struct {
			age  time.Duration // as the service counts it: our clock and the margin
			want bool
		}{
			{window - time.Second, true}, {window - time.Nanosecond, true}, {window, false}, {window + time.Second, false},
			{window + time.Hour, false},
		} {
			if got := r.Billable(h, h.Start().Add(tt.age-10*time.Second)); got != tt.want {
				t.Errorf("window %v: billable at %v = %v, want %v", window, tt.age, got, tt.want)
			}
		}
	}
}

// seenBillable is the rule as the docs word it, asked at one instant: of now's month and younger than the window, or of the
// month before, before 06:00 on the 1st, and younger than the window or of that month's last day.
func seenBillable(window time.Duration, h Hour, now time.Time) bool {
	start, now := h.Start(), now.UTC()
	young := now.Sub(start) < window
	if start.Year() == now.Year() && start.Month() == now.Month() {
		return young
	}
	first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	before := first.AddDate(0, -1, 0)
	if start.Year() != before.Year() || start.Month() != before.Month() || now.Sub(first) >= 6*time.Hour {
		return false
	}
	return young || !start.Before(first.AddDate(0, 0, -1))
}

// drawHour favours the days around a month's end, where the rules differ.
func drawHour(t *rapid.T) Hour {
	month := time.Date(2026, time.Month(rapid.IntRange(1, 60).Draw(t, "month")), 1, 0, 0, 0, 0, time.UTC)
	return HourOf(month.Add(time.Duration(rapid.IntRange(-60, 36).Draw(t, "hour")) * time.Hour))
}

func drawRules(t *rapid.T) Rules {
	window := rapid.IntRange(2, 24).Draw(t, "window")
	return Rules{Window: time.Duration(window) * time.Hour, LockHours: rapid.IntRange(0, min(20, window-1)).Draw(t, "lock")}
}

func TestBillableIsTheRuleAndNeverComesBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, h := drawRules(t), drawHour(t)
		age := time.Duration(rapid.Int64Range(0, int64(40*time.Hour)).Draw(t, "age"))
		if rapid.Bool().Draw(t, "whole") {
			age = age.Truncate(time.Hour) + time.Duration(rapid.IntRange(-11, 1).Draw(t, "s"))*time.Second
		}
		now := h.Start().Add(max(0, age))
		served := now.Add(10 * time.Second)
		want := seenBillable(r.Window, h, served)
		for b := h.Start(); !b.After(served); b = b.Add(time.Hour) { // it is only ever lost on the hour
			want = want && seenBillable(r.Window, h, b)
		}
		if got := r.Billable(h, now); got != want {
			t.Fatalf("Billable(%s, %v) with %v = %v, want %v", h, now, r.Window, got, want)
		}
		later := now.Add(time.Duration(rapid.Int64Range(0, int64(60*time.Hour)).Draw(t, "later")))
		if !r.Billable(h, now) && r.Billable(h, later) {
			t.Fatalf("%s came back between %v and %v", h, now, later)
		}
		if r.Expirable(h, now) && (!r.Expirable(h, later) || r.Billable(h, now)) {
			t.Fatalf("%s expired at %v, then not at %v", h, now, later)
		}
		if r.Visitable(h, now) && (!r.Billable(h, now) || now.Before(h.End())) {
			t.Fatalf("%s visited at %v", h, now)
		}
		if next := h + 1; r.Deadline(next).Before(r.Deadline(h)) && r.Window == 24*time.Hour {
			t.Fatalf("%s dies before %s", next, h)
		}
	})
}

func TestLockCountsFromTheHoursStart(t *testing.T) { // F5
	t.Parallel()
	for _, tt := range []struct {
		lock        int
		hour, first string // the first instant at which the hour is visited
	}{
		{0, "2026-03-10T06", "2026-03-10T07:00:00Z"},
		{1, "2026-03-10T06", "2026-03-10T07:00:00Z"},
		{2, "2026-03-10T06", "2026-03-10T08:00:00Z"},
		{6, "2026-03-10T06", "2026-03-10T12:00:00Z"},
		{20, "2026-03-10T06", "2026-03-11T02:00:00Z"},
		{20, "2026-03-31T07", "2026-04-01T03:00:00Z"}, // either way
		{20, "2026-03-31T06", "2026-04-01T02:00:00Z"},
		{20, "2026-03-31T22", "2026-04-01T03:00:00Z"}, // the lock of the month before drops
		{6, "2026-03-31T23", "2026-04-01T03:00:00Z"},
		{1, "2026-03-31T23", "2026-04-01T00:00:00Z"},
		{20, "2026-04-01T00", "2026-04-01T20:00:00Z"}, // but not that of the month itself
	} {
		r, h, first := Rules{LockHours: tt.lock}, hour(tt.hour), instant(tt.first)
		for at, want := range map[time.Time]bool{
			first.Add(-time.Second): false, first.Add(-time.Nanosecond): false, first: true, first.Add(time.Second): true,
		} {
			if got := r.Visitable(h, at); got != want {
				t.Errorf("lock %d: Visitable(%s, %v) = %v, want %v", tt.lock, h, at, got, want)
			}
		}
	}
}

func TestLockAtMonthEnd(t *testing.T) { // case 20
	t.Parallel()
	r, h := Rules{LockHours: 20}, hour("2026-03-31T22")
	for _, tt := range []struct {
		at            string
		lock          int
		visit, expire bool
	}{
		{"2026-04-01T02:59:59Z", 20, false, false},
		{"2026-04-01T02:59:59.999999999Z", 20, false, false},
		{"2026-04-01T03:00:00Z", 0, true, false},
		{"2026-04-01T05:59:49.999999999Z", 0, true, false},
		{"2026-04-01T05:59:50Z", 0, false, false}, // the margin of ten seconds
		{"2026-04-01T05:59:59Z", 0, false, false},
		{"2026-04-01T06:00:00Z", 20, false, false},
		{"2026-04-01T06:09:59Z", 20, false, false},
		{"2026-04-01T06:10:00Z", 20, false, true},
		{"2026-04-01T18:00:00Z", 20, false, true}, // offset 20
	} {
		at := instant(tt.at)
		got := fmt.Sprint(r.Lock(h, at), r.Visitable(h, at), r.Expirable(h, at))
		if want := fmt.Sprint(tt.lock, tt.visit, tt.expire); got != want {
			t.Errorf("at %s: lock, visit, expire = %s, want %s", tt.at, got, want)
		}
	}
}

func TestMeterHours(t *testing.T) {
	t.Parallel()
	now := instant("2026-03-10T15:20:00Z")
	for _, lock := range []int{1, 6, 20} {
		for offset := MinOffset; offset <= MaxOffset; offset++ {
			var want []Hour
			if offset >= lock {
				want = []Hour{HourOf(now) - Hour(offset)}
			}
			if diff := cmp.Diff(want, Rules{LockHours: lock}.MeterHours(offset, now)); diff != "" {
				t.Errorf("lock %d, offset %d (-want +got):\n%s", lock, offset, diff)
			}
		}
	}
}

func TestGraceTail(t *testing.T) { // F22: offset 23 reads the hours that only the month end keeps alive
	t.Parallel()
	for _, tt := range []struct {
		at    string
		rules Rules
		want  []string
		meter string // offset 23 itself
	}{
		{"2026-03-31T23:59:59Z", Rules{}, nil, "2026-03-31T00"},
		{"2026-04-01T00:05:00Z", Rules{}, []string{"2026-03-31T00"}, "2026-03-31T01"},
		{"2026-04-01T01:05:00Z", Rules{LockHours: 20}, []string{"2026-03-31T00", "2026-03-31T01"}, "2026-03-31T02"},
		{"2026-04-01T05:20:00Z", Rules{}, []string{"2026-03-31T00", "2026-03-31T01", "2026-03-31T02", "2026-03-31T03", "2026-03-31T04", "2026-03-31T05"}, "2026-03-31T06"},
		{"2026-04-01T05:59:50Z", Rules{}, nil, ""},
		{"2026-04-01T06:05:00Z", Rules{}, nil, ""},
		{"2026-04-02T00:05:00Z", Rules{}, nil, "2026-04-01T01"},
		{"2026-04-01T05:20:00Z", Rules{Window: 6 * time.Hour}, nil, ""},
		{"2028-03-01T00:05:00Z", Rules{}, []string{"2028-02-29T00"}, "2028-02-29T01"},
		{"2027-01-01T00:05:00Z", Rules{}, []string{"2026-12-31T00"}, "2026-12-31T01"},
	} {
		at := instant(tt.at)
		if diff := cmp.Diff(tt.want, buckets(tt.rules.GraceTail(at))); diff != "" {
			t.Errorf("GraceTail at %s (-want +got):\n%s", tt.at, diff)
		}
		want := tt.want
		if tt.meter != "" {
			want = append(slices.Clone(want), tt.meter)
		}
		if diff := cmp.Diff(want, buckets(tt.rules.MeterHours(23, at))); diff != "" {
			t.Errorf("MeterHours(23) at %s (-want +got):\n%s", tt.at, diff)
		}
	}
}

func buckets(hours []Hour) []string {
	var out []string
	for _, h := range hours {
		out = append(out, h.String())
	}
	return out
}

func TestFlushHours(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, at, expiry string
		newest           string
		count            int
	}{
		{"the last hour settles", "2026-03-10T10:04:59.999999999Z", "2026-03-10T11:00:00Z", "2026-03-10T08", 22},
		{"settled", "2026-03-10T10:05:00Z", "2026-03-10T11:00:00Z", "2026-03-10T09", 23},
		{"mid hour", "2026-03-10T10:30:00Z", "2026-03-10T11:30:00Z", "2026-03-10T09", 23},
		{"not yet closing", "2026-03-10T10:19:59.999999999Z", "2026-03-10T10:30:00Z", "2026-03-10T09", 23},
		{"closing: the current hour too", "2026-03-10T10:20:00Z", "2026-03-10T10:30:00Z", "2026-03-10T10", 24},
		{"closing waits for no settling", "2026-03-10T10:01:00Z", "2026-03-10T10:11:00Z", "2026-03-10T10", 24},
		{"one second before that", "2026-03-10T10:00:59Z", "2026-03-10T10:11:00Z", "2026-03-10T08", 22},
		{"past the expiry", "2026-03-10T10:35:00Z", "2026-03-10T10:30:00Z", "2026-03-10T10", 24},
		{"with the grace tail", "2026-04-01T02:06:00Z", "2026-04-01T03:00:00Z", "2026-04-01T01", 26},
		{"after the month closed", "2026-04-01T06:06:00Z", "2026-04-01T07:00:00Z", "2026-04-01T05", 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, lock := range []int{1, 20} { // the flush ignores the lock
				hours := Rules{LockHours: lock}.FlushHours(instant(tt.expiry), instant(tt.at))
				if len(hours) != tt.count || hours[len(hours)-1].String() != tt.newest || !slices.IsSorted(hours) {
					t.Errorf("lock %d: %d hours %v, want %d, sorted, the newest %s", lock, len(hours), buckets(hours), tt.count, tt.newest)
				}
			}
		})
	}
}

func TestFlushClosing(t *testing.T) {
	t.Parallel()
	expiry := instant("2026-03-10T11:30:00Z")
	for at, want := range map[string]bool{
		"2026-03-10T11:19:59.999999999Z": false, "2026-03-10T11:20:00Z": true, "2026-03-10T11:30:00Z": true, "2026-03-10T12:00:00Z": true,
	} {
		if got := FlushClosing(expiry, instant(at)); got != want {
			t.Errorf("FlushClosing at %s = %v, want %v", at, got, want)
		}
	}
}

func TestZeroEdge(t *testing.T) { // case 29
	t.Parallel()
	for _, tt := range []struct {
		window   time.Duration
		hour, at string
		want     bool
	}{
		{0, "2026-03-10T14", "2026-03-10T15:05:00Z", false},
		{0, "2026-03-10T14", "2026-03-11T12:59:59.999999999Z", false},
		{0, "2026-03-10T14", "2026-03-11T13:00:00Z", true}, // offset 23
		{0, "2026-03-31T00", "2026-03-31T23:05:00Z", true},
		{0, "2026-03-31T00", "2026-04-01T00:05:00Z", false}, // it has got until 06:00 now
		{0, "2026-03-31T12", "2026-03-31T23:05:00Z", false},
		{0, "2026-03-31T12", "2026-04-01T05:49:59Z", false},
		{0, "2026-03-31T12", "2026-04-01T05:50:00Z", true},
		{0, "2026-03-31T00", "2026-04-01T05:50:00Z", true},
		{0, "2026-12-31T23", "2027-01-01T05:50:00Z", true},
		{0, "2026-04-01T00", "2026-04-01T05:50:00Z", false},
		{6 * time.Hour, "2026-03-10T14", "2026-03-10T18:59:59Z", false},
		{6 * time.Hour, "2026-03-10T14", "2026-03-10T19:00:00Z", true}, // offset 5
	} {
		r, h, at := Rules{Window: tt.window}, hour(tt.hour), instant(tt.at)
		if got := r.ZeroEdge(h, at); got != tt.want {
			t.Errorf("window %v: ZeroEdge(%s, %s) = %v, want %v", tt.window, h, tt.at, got, tt.want)
		}
	}
}

func TestZeroEdgeIsMetBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, h := drawRules(t), drawHour(t)
		for at := MeterSchedule.Next(h.Start()); r.Billable(h, at); at = MeterSchedule.Next(at) {
			if r.ZeroEdge(h, at) && r.Visitable(h, at) {
				return
			}
		}
		t.Fatalf("a zero group of %s is never committed with %+v", h, r)
	})
}

func TestFuture(t *testing.T) { // case 25
	t.Parallel()
	now := instant("2026-03-10T15:20:00Z")
	for s, want := range map[string]bool{
		"2026-03-10T15:20:00": false, "2026-03-10T15:24:59": false, "2026-03-10T15:25:00": false, "2026-03-10T15:25:01": true, "2026-03-10T17:00:00": true,
	} {
		if got := Future(second(s), now); got != want {
			t.Errorf("Future(%s) = %v, want %v", s, got, want)
		}
	}
}

func TestRulesCheck(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rules Rules
		ok    bool
	}{
		{Rules{}, true}, {Rules{LockHours: 1}, true}, {Rules{LockHours: 20}, true}, {Rules{LockHours: 21}, false}, {Rules{LockHours: -1}, false},
		{Rules{Window: 24 * time.Hour, LockHours: 20}, true}, {Rules{Window: 25 * time.Hour}, false}, {Rules{Window: -time.Hour}, false},
		{Rules{Window: 90 * time.Minute}, false}, {Rules{Window: 6*time.Hour + 1}, false}, {Rules{Window: time.Nanosecond}, false},
		{Rules{Window: 6 * time.Hour}, true}, {Rules{Window: 6 * time.Hour, LockHours: 5}, true}, {Rules{Window: 6 * time.Hour, LockHours: 6}, false},
		{Rules{Window: 6 * time.Hour, LockHours: 7}, false}, {Rules{Window: time.Hour}, false}, // F36: the lock eats the window
		{Rules{Window: 2 * time.Hour}, true},
	} {
		if err := tt.rules.Check(); (err == nil) != tt.ok {
			t.Errorf("%+v.Check() = %v, want ok %v", tt.rules, err, tt.ok)
		}
	}
}
