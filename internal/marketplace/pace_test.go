package marketplace_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
)

// busiest is the most starts in any sliding second.
func busiest(starts []time.Time) (most int) {
	for i := range starts {
		n := 0
		for _, s := range starts[i:] {
			if s.Sub(starts[i]) >= time.Second {
				break
			}
			n++
		}
		most = max(most, n)
	}
	return most
}

// single is a lane, and so a call, for each record.
func single(records []metering.Record) []lane {
	var lanes []lane
	for _, r := range records {
		lanes = append(lanes, laneOf(r))
	}
	return lanes
}

func TestPaceHoldsInEverySecondAndReachesTheLimit(t *testing.T) {
	t.Parallel()
	jitter := func(ctx context.Context, d time.Duration) error { // a timer that fires up to 8 ms late
		time.Sleep(d + time.Duration(rand.Int64N(int64(8*time.Millisecond))))
		return ctx.Err()
	}
	tests := []struct {
		name    string
		latency time.Duration
		sleep   func(context.Context, time.Duration) error
		peak    int // calls in flight at least
	}{
		{name: "latency 50 ms", latency: 50 * time.Millisecond, peak: 1},
		{name: "latency 200 ms", latency: 200 * time.Millisecond, peak: 2},
		{name: "latency 500 ms", latency: 500 * time.Millisecond, peak: 5},
		{name: "late timers", latency: 200 * time.Millisecond, sleep: jitter, peak: 2},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin(t)
				pending := records(600) // 60 seconds
				service := &api{latency: test.latency}
				books := deskOf(pending...)
				report, err := marketplace.NewSender(service, marketplace.Settings{Sleep: test.sleep}).Send(t.Context(), single(pending), books)
				if err != nil || report.Settled != len(pending) || report.Calls != 600 {
					t.Fatalf("report %+v, error %v", report, err)
				}
				if most := busiest(service.started); most > 10 {
					t.Errorf("%d calls in one second", most)
				}
				span := service.started[599].Sub(service.started[0])
				if rate := 599 / span.Seconds(); rate < 9.8 {
					t.Errorf("%.2f calls a second, want at least 9.8", rate)
				}
				if service.peak < test.peak {
					t.Errorf("at most %d calls in flight, want %d", service.peak, test.peak)
				}
			})
		})
	}
}

func TestPaceHoldsOverRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		service := &api{}
		sender := marketplace.NewSender(service, marketplace.Settings{})
		for _, r := range records(30) {
			if _, err := sender.Send(t.Context(), []lane{laneOf(r)}, deskOf(r)); err != nil {
				t.Fatal(err)
			}
		}
		if most := busiest(service.started); most > 10 {
			t.Errorf("%d calls in one second", most)
		}
	})
}

// F17: the quota is shared with other products, so throttling is a pace to find, not an error.
func TestThrottlingHalvesThePaceAndSuccessRestoresIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := begin(t)
		pending := records(600)
		service := &api{latency: 200 * time.Millisecond, answer: func(int, metering.Call) (metering.Answer, error) {
			if at := time.Since(start); at > 10*time.Second && at < 20*time.Second {
				return metering.Answer{}, exception("ThrottlingException")
			}
			return metering.Answer{}, nil
		}}
		books := deskOf(pending...)
		report, err := marketplace.NewSender(service, marketplace.Settings{}).Send(t.Context(), single(pending), books)
		if err != nil || report.Settled != len(pending) || report.Throttled == 0 || report.Calls != 600+report.Throttled {
			t.Fatalf("report %+v, error %v", report, err)
		}
		in := func(from, to time.Duration) (n int) {
			for _, s := range service.started {
				if at := s.Sub(start); at >= from && at < to {
					n++
				}
			}
			return n
		}
		if n := in(15*time.Second, 20*time.Second); n > 7 {
			t.Errorf("%d calls in 5 seconds of throttling, want about 1 a second", n)
		}
		if n := in(35*time.Second, 45*time.Second); n < 98 {
			t.Errorf("%d calls in 10 seconds, 15 seconds after the throttling: the pace did not come back", n)
		}
		if most := busiest(service.started); most > 10 {
			t.Errorf("%d calls in one second", most)
		}
	})
}

func TestThrottledCallsAreRepeatedUntilPatienceEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		throttled time.Duration
		fails     bool
	}{
		{"for 25 seconds", 25 * time.Second, false},
		{"for ever", time.Hour, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := begin(t)
				pending := records(200)
				service := &api{answer: func(int, metering.Call) (metering.Answer, error) {
					if time.Since(start) < test.throttled {
						return metering.Answer{}, exception("ThrottlingException")
					}
					return metering.Answer{}, nil
				}}
				books := deskOf(pending...)
				report, err := marketplace.NewSender(service, marketplace.Settings{}).Send(t.Context(), []lane{laneOf(pending...)}, books)
				if !test.fails {
					if err != nil || report.Settled != 200 {
						t.Fatalf("report %+v, error %v", report, err)
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), "throttled") {
					t.Fatalf("error %v, want one about throttling", err)
				}
				if took := time.Since(start); took < 30*time.Second || took > 32*time.Second {
					t.Errorf("ended after %v, want 30 s", took)
				}
				if report.Settled != 0 || len(books.pending()) != 200 {
					t.Errorf("%d settled, %d pending: throttling must finish nothing", report.Settled, len(books.pending()))
				}
			})
		})
	}
}

// A run in which some calls go through is slow, not failed, however long it lasts.
func TestPatienceBeginsAnewWithEveryCallThatGoesThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := begin(t)
		pending := records(100)
		service := &api{answer: func(n int, _ metering.Call) (metering.Answer, error) {
			if n%10 != 0 {
				return metering.Answer{}, exception("ThrottlingException")
			}
			return metering.Answer{}, nil
		}}
		report, err := marketplace.NewSender(service, marketplace.Settings{}).Send(t.Context(), single(pending), deskOf(pending...))
		if took := time.Since(start); took < time.Minute {
			t.Fatalf("took %v: not long enough to show anything", took)
		}
		if err != nil || report.Settled < 20 {
			t.Errorf("report %+v, error %v", report, err)
		}
	})
}
