package metering

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func second(s string) Second {
	sec, err := ParseSecond(s)
	if err != nil {
		panic(err)
	}
	return sec
}

func TestScheduleMinutes(t *testing.T) {
	t.Parallel()
	quarters := []int{5, 20, 35, 50}
	fives := func(phase int) (m []int) {
		for ; phase < 60; phase += 5 {
			m = append(m, phase)
		}
		return m
	}
	for s, want := range map[Schedule][]int{
		MeterSchedule: quarters, AgeoutSchedule: quarters, FinalizeSchedule: {7, 22, 37, 52},
		FlushSchedule: fives(1), SubmitSchedule: fives(3), ExpireSchedule: fives(3),
	} {
		var got []int
		start := instant("2026-03-10T22:59:59.999999999Z")
		for at := s.Next(start); at.Before(start.Add(time.Hour)); at = s.Next(at) {
			got = append(got, at.Minute())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.Name, diff)
		}
	}
}

func TestScheduleNext(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		s        Schedule
		at, want string
	}{
		{MeterSchedule, "2026-03-10T15:04:59.999999999Z", "2026-03-10T15:05:00Z"},
		{MeterSchedule, "2026-03-10T15:05:00Z", "2026-03-10T15:20:00Z"},
		{MeterSchedule, "2026-03-10T15:50:00Z", "2026-03-10T16:05:00Z"},
		{MeterSchedule, "2026-03-31T23:50:01Z", "2026-04-01T00:05:00Z"},
		{FlushSchedule, "2026-03-10T15:00:00Z", "2026-03-10T15:01:00Z"},
		{FlushSchedule, "2026-03-10T15:56:00Z", "2026-03-10T16:01:00Z"},
		{SubmitSchedule, "2026-12-31T23:58:00Z", "2027-01-01T00:03:00Z"},
		{MeterSchedule, "2026-03-10T20:35:00+05:30", "2026-03-10T15:20:00Z"}, // 15:05 UTC
	} {
		if got := tt.s.Next(instant(tt.at)); !got.Equal(instant(tt.want)) || got.Location() != time.UTC {
			t.Errorf("%s.Next(%s) = %v, want %s", tt.s.Name, tt.at, got, tt.want)
		}
	}
}

func TestScheduleIsEvenlySpaced(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom([]Schedule{MeterSchedule, AgeoutSchedule, FlushSchedule, SubmitSchedule, ExpireSchedule, FinalizeSchedule}).Draw(t, "s")
		at := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "t"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		next := s.Next(at)
		if !next.After(at) || next.Sub(at) > s.Every || s.Next(next).Sub(next) != s.Every {
			t.Fatalf("%s: %v, %v, %v", s.Name, at, next, s.Next(next))
		}
	})
}

// The latency of all stages together, by arithmetic over the real timetables.

const lostDelivery = 6 * time.Minute // one delivery lost: the visibility timeout of 360 seconds

// firstVisit is when a group of h is first discovered.
func firstVisit(t *testing.T, r Rules, meter Schedule, h Hour) time.Time {
	t.Helper()
	at := meter.Next(h.Start())
	for !r.Visitable(h, at) {
		if !r.Billable(h, at) {
			t.Fatalf("lock %d: %s is never visited", r.LockHours, h)
		}
		at = meter.Next(at)
	}
	return at
}

func TestLatencyBudget(t *testing.T) { // case 27
	t.Parallel()
	r := Rules{LockHours: 20}
	worst := time.Duration(0)
	for _, first := range []string{"2026-03-10T00", "2026-03-31T00", "2028-02-29T00", "2026-12-31T00"} {
		for h := hour(first); h < hour(first)+24; h++ {
			for meterPhase := range 15 {
				visit := firstVisit(t, r, Schedule{"meter", 15 * time.Minute, time.Duration(meterPhase) * time.Minute}, h)
				for submitPhase := range 5 {
					at := Schedule{"submit", 5 * time.Minute, time.Duration(submitPhase) * time.Minute}.Next(visit.Add(lostDelivery))
					if !r.Billable(h, at) {
						t.Fatalf("phases %d and %d: %s is first sent at %v, after %v", meterPhase, submitPhase, h, at, r.Deadline(h))
					}
					worst = max(worst, at.Sub(h.Start()))
				}
			}
		}
	}
	// 20 h of lock, up to 15 min to the discoverer, 6 min lost, up to 5 min to the submitter.
	if bound := 20*time.Hour + 26*time.Minute; worst > bound || worst < 20*time.Hour+20*time.Minute {
		t.Errorf("the worst age at the first call is %v, want about %v", worst, bound)
	}
}

func TestMonthEndBudget(t *testing.T) { // case 18
	t.Parallel()
	r, h := Rules{LockHours: 6}, hour("2026-03-31T23")
	at, want := SubmitSchedule.Next(firstVisit(t, r, MeterSchedule, h).Add(lostDelivery)), instant("2026-04-01T03:13:00Z")
	if !at.Equal(want) {
		t.Errorf("a row written at 00:10 is first sent at %v, want %v", at, want)
	}
	last := instant("2026-04-01T05:50:00Z") // the last discovery that a row written just before it can make
	if next := MeterSchedule.Next(last); !r.Visitable(h, last) || r.Visitable(h, next) {
		t.Errorf("visits of %s: %v at %v, %v at %v", h, r.Visitable(h, last), last, r.Visitable(h, next), next)
	}
	chances := 0
	for at := SubmitSchedule.Next(last); r.Billable(h, at); at = SubmitSchedule.Next(at) {
		chances++
	}
	if chances != 2 {
		t.Errorf("%d submitter runs after the last discovery, want 05:53 and 05:58", chances)
	}
	if at := instant("2026-04-01T06:10:00Z"); r.Billable(h, at) || !r.Expirable(h, at) {
		t.Errorf("a row written at 06:10 is not expired at once")
	}
}

func TestSweepsLoseNothing(t *testing.T) { // F12
	t.Parallel()
	for _, start := range []string{
		"2026-03-10T15:20:00Z", "2026-03-31T00:00:00Z", "2026-03-31T22:11:00Z", "2026-04-01T05:52:00Z", "2028-02-29T12:00:00Z", "2026-12-31T23:59:59Z",
	} {
		t.Run(start, func(t *testing.T) {
			t.Parallel()
			begin := instant(start)
			oldest, newest := HourOf(begin)-sweepReach, HourOf(begin)+24
			swept := make([]int, newest-oldest+1)
			read := make([]int, newest-oldest+1) // hours that the submitter reads, or whose time is still to come
			at := begin
			for range 24 * 4 {
				at = AgeoutSchedule.Next(at)
				var rules Rules
				for h := range rules.SweepHours(at) {
					if !rules.Expirable(h, at) || rules.Billable(h, at) {
						t.Fatalf("%s is swept at %v", h, at)
					}
					if shard := ShardOf(h, at); shard < 0 || shard >= AgeoutShards {
						t.Fatalf("%s has shard %d", h, shard)
					}
					if h >= oldest {
						swept[h-oldest]++
					}
				}
				for _, h := range append(rules.GraceTail(at), rules.SubmitHours(at)...) {
					read[h-oldest]++
				}
				for h := HourOf(at); h <= newest; h++ {
					read[h-oldest]++
				}
			}
			for i := range swept {
				back := int(HourOf(begin)) - int(oldest) - i
				switch h := oldest + Hour(i); {
				case back <= sweepReach-25 && swept[i]+read[i] == 0:
					t.Errorf("%s, %d hours back, is seen by nobody", h, back)
				case back > sweepEveryRun && back <= sweepReach-25 && swept[i] != 1:
					t.Errorf("%s, %d hours back, is swept %d times a day", h, back, swept[i])
				case back >= 31 && back <= sweepEveryRun-25 && swept[i] != 96:
					t.Errorf("%s, %d hours back, is swept by %d runs of 96", h, back, swept[i])
				}
			}
		})
	}
}

func TestEveryHourHasAnOwner(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r, base := drawRules(t), drawHour(t)
		now := base.Start().Add(time.Duration(rapid.Int64Range(0, int64(30*time.Hour)).Draw(t, "now")))
		owners := map[Hour]int{}
		for h := range r.SweepHours(now) {
			if h.Offset(now) > sweepEveryRun {
				break
			}
			owners[h]++
		}
		for _, h := range append(r.GraceTail(now), r.SubmitHours(now)...) {
			owners[h]++
		}
		for offset := -2; offset <= sweepEveryRun; offset++ {
			h := HourOf(now) - Hour(offset)
			closing := !r.Billable(h, now) && !r.Expirable(h, now) // for ten minutes, calls under way come to their end
			want := 1
			if offset <= 0 || closing {
				want = 0
			}
			if owners[h] != want {
				t.Fatalf("at %v with %+v: %s has %d owners, want %d", now, r, h, owners[h], want)
			}
		}
	})
}

func TestSweepReach(t *testing.T) {
	t.Parallel()
	now := instant("2026-03-10T15:20:00Z")
	for back, want := range map[Hour]bool{1: false, sweepReach: false, sweepReach + 1: true} {
		if got := BeyondSweep(HourOf(now)-back, now); got != want {
			t.Errorf("BeyondSweep %d hours back = %v, want %v", back, got, want)
		}
	}
	for h := range (Rules{}).SweepHours(now) {
		if BeyondSweep(h, now) {
			t.Errorf("%s is swept and beyond all sweeps", h)
		}
	}
}
