package marketplace_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
)

func TestTheTimeLimitStopsStartingCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := begin(t)
		pending := records(1000)
		books := deskOf(pending...)
		service := &api{latency: 3 * time.Second}
		pulled := 0
		source := func(yield func(metering.Record, error) bool) {
			for _, r := range pending {
				if pulled++; !yield(r, nil) {
					return
				}
			}
		}
		sender := marketplace.NewSender(service, marketplace.Settings{Limit: 2 * time.Second})
		report, err := sender.Send(t.Context(), []lane{source}, books)
		if err != nil {
			t.Fatalf("error %v: running out of time is none", err)
		}
		if last := service.started[len(service.started)-1].Sub(start); last >= 2*time.Second {
			t.Errorf("a call started after %v", last)
		}
		if report.Settled != 25*report.Calls || report.Calls < 18 || report.Settled+report.Left != pulled || report.Left == 0 {
			t.Errorf("report %+v after %d were pulled", report, pulled)
		}
		if len(books.prepared)-report.Settled > 4*25 {
			t.Errorf("%d records were marked as sent and not sent", len(books.prepared)-report.Settled)
		}
		if pulled > report.Settled+6*25 {
			t.Errorf("%d records were pulled for %d sent", pulled, report.Settled)
		}
	})
}

// A function that AWS ends at its timeout must have stored what its calls have billed: 15 s for a call, 10 s for the verdicts.
func TestTheContextsDeadlineStopsStartingCalls(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name       string
		limit, end time.Duration // of the settings (0: the default), and of the context
		last       time.Duration // calls start up to here
	}{
		{"the context ends first", 0, 40 * time.Second, 15 * time.Second},
		{"the limit ends first", 5 * time.Second, 300 * time.Second, 5 * time.Second},
		{"a function's 300 s leave the limit of 270 s alone", 0, 298 * time.Second, 270 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start := begin(t)
				pending := records(25 * 600)
				books := deskOf(pending...)
				service := &api{latency: 15 * time.Second}
				ctx, cancel := context.WithTimeout(t.Context(), test.end)
				defer cancel()
				sender := marketplace.NewSender(service, marketplace.Settings{Limit: test.limit, InFlight: 200, CallsPerSecond: 2})
				report, err := sender.Send(ctx, []lane{laneOf(pending...)}, books)
				if err != nil {
					t.Fatalf("error %v: running out of time is none", err)
				}
				last := service.started[len(service.started)-1].Sub(start)
				if last >= test.last || last < test.last-time.Second {
					t.Errorf("the last call started after %v, want just before %v", last, test.last)
				}
				if ctx.Err() != nil || report.Settled != 25*report.Calls || report.Left == 0 {
					t.Errorf("report %+v, context %v", report, ctx.Err())
				}
			})
		})
	}
}

func TestAContextTooShortForOneCallIsAnError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		pending := records(30)
		books, service := deskOf(pending...), &api{}
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		report, err := marketplace.NewSender(service, marketplace.Settings{}).Send(ctx, []lane{laneOf(pending...)}, books)
		if err == nil || report.Calls != 0 || len(books.prepared) != 0 {
			t.Errorf("report %+v, error %v, %d records marked: want an error and nothing begun", report, err, len(books.prepared))
		}
	})
}

func TestACancelledRunSettlesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := begin(t)
		pending := records(1000)
		books := deskOf(pending...)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		service := &api{latency: 3 * time.Second}
		report, err := marketplace.NewSender(service, marketplace.Settings{}).Send(ctx, []lane{laneOf(pending...)}, books)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if report.Calls == 0 || report.Settled != 25*report.Calls || len(books.verdicts) != report.Settled {
			t.Errorf("report %+v, %d verdicts: the answered calls are money", report, len(books.verdicts))
		}
		if last := service.started[len(service.started)-1].Sub(start); last > time.Second {
			t.Errorf("a call started after %v", last)
		}
	})
}

// At most four batches are marked ahead of their calls, and the bound on calls in flight holds.
func TestSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		pending := records(2000)
		books := &counting{desk: deskOf(pending...)}
		service := &api{latency: 4 * time.Second}
		sender := marketplace.NewSender(service, marketplace.Settings{InFlight: 7})
		report, err := sender.Send(t.Context(), []lane{laneOf(pending...)}, books)
		if err != nil || report.Settled != 2000 {
			t.Fatalf("report %+v, error %v", report, err)
		}
		if service.peak != 7 {
			t.Errorf("%d calls in flight, want 7", service.peak)
		}
		if most := books.most.Load(); most > 4 {
			t.Errorf("%d batches ahead, want at most 4", most)
		}
	})
}

// counting counts the batches that were prepared and not yet about to be called.
type counting struct {
	*desk
	ahead, most atomic.Int64
}

func (c *counting) Prepare(ctx context.Context, records []metering.Record) ([]metering.Marked, error) {
	if n := c.ahead.Add(1); n > c.most.Load() {
		c.most.Store(n)
	}
	return c.desk.Prepare(ctx, records)
}

func (c *counting) Sendable(records []metering.Record) []metering.Record {
	c.ahead.Add(-1)
	return c.desk.Sendable(records)
}
