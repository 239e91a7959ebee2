package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/simulator"
)

// TestAdvancePlaysEveryInstant: a day passes while no time does; every instant is played once, whether or not the node runs, and
// afterwards the timetable goes on where the advance has ended.
func TestAdvancePlaysEveryInstant(t *testing.T) {
	t.Parallel()
	for _, running := range []bool{false, true} {
		t.Run(fmt.Sprintf("running=%v", running), func(t *testing.T) {
			live(t, afternoon, func(w *world, clock *node.LiveClock, seen *events) {
				r := usage("2026-03-10T14:00:00", 3)
				w.put(r)
				end := afternoon.Add(24*time.Hour + 30*time.Minute)
				if running {
					defer w.start()()
					defer func() { end = clock.Now() }()
				}
				real := time.Now()
				a, err := w.Advance(w.ctx, 24*time.Hour)
				if err != nil || !time.Now().Equal(real) {
					t.Fatalf("%v later: %v", time.Since(real), err)
				}
				if want := (node.Advanced{From: afternoon, To: afternoon.Add(24 * time.Hour), Instants: 24 * 32}); !cmp.Equal(a, want) {
					t.Errorf("advanced %+v, want %+v", a, want)
				}
				if running {
					time.Sleep(30 * time.Minute)
				} else if _, err := w.AdvanceTo(w.ctx, end); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				for _, s := range schedules() {
					if diff := cmp.Diff(instants(s, afternoon, end), seen.of(s.Name)); diff != "" {
						t.Errorf("%s (-want +got):\n%s", s.Name, diff)
					}
				}
				w.wantRow(r, metering.Aggregated, aggregated(3, 1))
				w.wantBilled(r, 3)
				w.books()
			})
		})
	}
}

// TestAdvanceDoesNotWaitForSleepers: a submission that is under way keeps to its pace with the clock that is moved.
func TestAdvanceDoesNotWaitForSleepers(t *testing.T) {
	pace := withPace(func(s *marketplace.Settings) { s.CallsPerSecond, s.Limit = 0.1, time.Hour })
	live(t, afternoon, func(w *world, clock *node.LiveClock, _ *events) {
		records := many("2026-03-10T14", 40*25, 1)
		w.putRecords(records...)
		defer w.start()()
		time.Sleep(at("2026-03-10T15:24:00").Sub(afternoon)) // a minute into a submission of six
		real := time.Now()
		a, err := w.Advance(w.ctx, time.Minute)
		if err != nil || !time.Now().Equal(real) {
			t.Fatalf("%v later: %v", time.Since(real), err)
		}
		if last := w.sim.Stats().LastCall; last.Before(at("2026-03-10T15:29:00")) || a.To.Before(last) || clock.Now().Before(last) {
			t.Errorf("the last call was at %v, the clock shows %v", last, a.To)
		}
		if done, waiting := w.count(records, metering.Success); done != len(records) || waiting != 0 {
			t.Errorf("%d billed, %d wait", done, waiting)
		}
		w.books()
	}, pace)
}

func TestAdvancesFollowOneAnother(t *testing.T) {
	live(t, afternoon, func(w *world, clock *node.LiveClock, seen *events) {
		defer w.start()()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if a, err := w.Advance(w.ctx, 90*time.Minute); err != nil || a.To.Sub(a.From) != 90*time.Minute {
					t.Errorf("advanced %+v: %v", a, err)
				}
			})
		}
		all.Wait()
		if now := clock.Now(); !now.Equal(afternoon.Add(6 * time.Hour)) {
			t.Errorf("the clock shows %v", now)
		}
		if diff := cmp.Diff(instants(metering.MeterSchedule, afternoon, clock.Now()), seen.of(metering.MeterSchedule.Name)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAdvanceStopsBetweenInstants(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want error
		stop func(caller, node context.CancelFunc)
	}{
		"the caller goes away": {context.Canceled, func(caller, _ context.CancelFunc) { caller() }},
		"the node stops":       {node.ErrStopping, func(_, node context.CancelFunc) { node() }},
	} {
		t.Run(name, func(t *testing.T) {
			live(t, afternoon, func(w *world, clock *node.LiveClock, seen *events) {
				caller, cancel := context.WithCancel(w.ctx)
				running, stop := context.WithCancel(w.ctx)
				defer cancel()
				defer stop()
				ended := make(chan error, 1)
				go func() { ended <- w.Run(running) }()
				synctest.Wait()
				w.Discover.Subscribers = observed{w.store, func() { // in the middle of the instant of 20:01
					if clock.Now().Equal(at("2026-03-10T20:01:00")) {
						c.stop(cancel, stop)
					}
				}}
				a, err := w.AdvanceTo(caller, at("2026-03-12T00:00:00"))
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), "stopped at 2026-03-10T20:01:00Z") {
					t.Errorf("error %v", err)
				}
				if a.To != at("2026-03-10T20:01:00") || !clock.Now().Equal(a.To) {
					t.Errorf("advanced %+v, the clock shows %v", a, clock.Now())
				}
				if n := len(seen.of(metering.FlushSchedule.Name)); n != len(instants(metering.FlushSchedule, afternoon, a.To)) {
					t.Errorf("%d flushes", n)
				}
				if c.want == node.ErrStopping {
					if _, err := w.Advance(w.ctx, time.Hour); !errors.Is(err, node.ErrStopping) {
						t.Errorf("error %v", err)
					}
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// observed tells of each look at the licenses in their last hour.
type observed struct {
	node.Store
	look func()
}

func (o observed) Deprovisioning(ctx context.Context) ([]metering.Deprovisioning, error) {
	o.look()
	return o.Store.Deprovisioning(ctx)
}

func TestAdvanceToThePastIsRefused(t *testing.T) {
	live(t, afternoon, func(w *world, clock *node.LiveClock, seen *events) {
		if a, err := w.AdvanceTo(w.ctx, afternoon.Add(-time.Second)); !errors.Is(err, node.ErrPast) || !a.To.Equal(afternoon) {
			t.Errorf("advanced %+v: %v", a, err)
		}
		if a, err := w.Advance(w.ctx, -time.Second); !errors.Is(err, node.ErrPast) || !clock.Now().Equal(a.To) {
			t.Errorf("advanced %+v: %v", a, err)
		}
		if len(seen.list) > 0 {
			t.Errorf("observed %v", seen.list)
		}
	})
}

// TestClockNeverFallsBehindItsOwnPast: whenever a process dies, the next one's clock is at no earlier time than any stage has acted
// at, also where sleeps have moved it, and the advance's end is saved as it is.
func TestClockNeverFallsBehindItsOwnPast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var saved []time.Duration
		start := time.Until(afternoon)
		var offset atomic.Int64
		offset.Store(int64(start))
		restart := func() time.Time { return node.NewLiveClock(time.Duration(offset.Load()), nil).Now() }
		clock := node.NewLiveClock(start, func(o time.Duration) error {
			offset.Store(int64(o))
			saved = append(saved, o)
			return nil
		})
		w := newWorld(t, afternoon, withClock(clock), withPace(func(s *marketplace.Settings) { s.CallsPerSecond = 1 }))
		w.putRecords(many("2026-03-10T14", 100*25, 1)...)
		w.Submit.Records = marked{w.store, func() {
			acts := clock.Now() // first: another call may move the clock meanwhile
			if restarted := restart(); restarted.Before(acts) {
				t.Errorf("a restart would be at %v, this is %v", restarted, acts)
			}
		}}
		time.Sleep(time.Second)
		a, err := w.Advance(w.ctx, time.Hour)
		if err != nil || len(saved) < 32 || len(saved) > 50 {
			t.Fatalf("saved %d times: %v", len(saved), err)
		}
		if restarted := restart(); !restarted.Equal(a.To) || !clock.Now().Equal(a.To) || int64(clock.Offset()) != offset.Load() {
			t.Errorf("a restart would be at %v, the advance ended at %v", restarted, a.To)
		}
		if done := w.sim.Stats().Records; done != 2500 {
			t.Errorf("%d records were sent", done)
		}
		w.books()
	})
}

// marked looks on whenever a record is marked or ended.
type marked struct {
	node.Store
	look func()
}

func (m marked) MarkSent(ctx context.Context, s metering.Send) (metering.Outcome[metering.Record], error) {
	m.look()
	return m.Store.MarkSent(ctx, s)
}

func (m marked) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	m.look()
	return m.Store.FinishRecord(ctx, f)
}

// TestAdvanceStopsWhereTheClockCannotBeSaved: nothing acts at a time that a restart would fall behind.
func TestAdvanceStopsWhereTheClockCannotBeSaved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		full, saves := errors.New("disk full"), 0
		clock := node.NewLiveClock(time.Until(afternoon), func(time.Duration) error {
			if saves++; saves > 3 {
				return full
			}
			return nil
		})
		seen := &events{}
		w := newWorld(t, afternoon, withClock(clock), withConfig(func(c *node.Config) { c.Observe = seen.add }))
		a, err := w.Advance(w.ctx, time.Hour)
		if !errors.Is(err, full) || a.Instants != 3 || !a.To.Equal(at("2026-03-10T15:23:00")) || !clock.Now().Equal(a.To) {
			t.Errorf("advanced %+v: %v", a, err)
		}
		for _, e := range seen.list {
			if e.At.After(a.To) {
				t.Errorf("%s ran at %v", e.Stage, e.At)
			}
		}
	})
}

func TestClockSleeps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock := node.NewLiveClock(time.Hour, nil)
		before := time.Now()
		if err := clock.Sleep(t.Context(), 150*time.Second); err != nil || time.Since(before) != 150*time.Second {
			t.Errorf("slept %v: %v", time.Since(before), err)
		}
		if now := clock.Now(); !now.Equal(time.Now().Add(time.Hour)) || clock.Offset() != time.Hour {
			t.Errorf("it shows %v", now)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := clock.Sleep(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(before) != 151*time.Second {
			t.Errorf("slept %v: %v", time.Since(before), err)
		}
	})
}

// TestAdvancePanicIsNotSwallowed: an HTTP server catches the panics of its handlers. One of a stage ends the process all the same.
func TestAdvancePanicIsNotSwallowed(t *testing.T) {
	t.Parallel()
	const marker = "AWSMP_TEST_PANIC"
	if os.Getenv(marker) != "" {
		w := newWorld(t, afternoon, withClock(node.NewLiveClock(0, nil)))
		w.Discover.Subscribers = observed{w.store, func() { panic("a stage's own fault") }}
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _ = w.Advance(r.Context(), time.Hour) }))
		_, _ = http.Get(server.URL)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAdvancePanicIsNotSwallowed$")
	cmd.Env = append(os.Environ(), marker+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "panic: a stage's own fault") {
		t.Errorf("error %v\n%s", err, out)
	}
}

// The books of a day that was advanced are those of a day that passed.
func TestAdvanceBillsWhatTimeWouldBill(t *testing.T) {
	t.Parallel()
	place := func(t *testing.T, pass func(w *world)) map[ledger.Place]int64 {
		units := make(map[ledger.Place]int64)
		live(t, at("2026-03-31T13:00:00"), func(w *world, _ *node.LiveClock, _ *events) {
			defer w.start()()
			for i, second := range []string{"2026-03-31T12:10:00", "2026-03-31T12:59:59", "2026-03-30T14:00:00", "2026-03-31T13:00:01"} {
				w.put(usage(second, int64(1+i)))
			}
			w.deprovision(licenseTwo, buyerTwo, at("2026-03-31T13:00:00"))
			w.put(row(licenseTwo, buyerTwo, apiCalls, "2026-03-31T13:00:00", 100))
			pass(w)
			total := w.books().Total
			for _, p := range ledger.Places() {
				units[p] = total.Place(p).Units
			}
		})
		return units
	}
	var passed, advanced map[ledger.Place]int64
	t.Run("both", func(t *testing.T) {
		t.Run("passed", func(t *testing.T) { passed = place(t, func(*world) { time.Sleep(40 * time.Hour); synctest.Wait() }) })
		t.Run("advanced", func(t *testing.T) {
			advanced = place(t, func(w *world) {
				if _, err := w.Advance(w.ctx, 40*time.Hour); err != nil {
					t.Error(err)
				}
			})
		})
	})
	if diff := cmp.Diff(passed, advanced); diff != "" || passed[ledger.Billed] != 110 {
		t.Errorf("billed %d (-passed +advanced):\n%s", passed[ledger.Billed], diff)
	}
}

// marking tells of every record that is marked as sent.
type marking struct {
	node.Store
	marked func()
}

func (m marking) MarkSent(ctx context.Context, s metering.Send) (metering.Outcome[metering.Record], error) {
	m.marked()
	return m.Store.MarkSent(ctx, s)
}

// TestStopDuringAnAdvanceStartsNoCalls: a node that is told to stop while its clock is moved starts no more calls, as at any other time.
func TestStopDuringAnAdvanceStartsNoCalls(t *testing.T) {
	var (
		stop    context.CancelFunc
		sim     *simulator.Simulator
		marks   atomic.Int64
		atStop  atomic.Int64
		pace    = withPace(func(s *marketplace.Settings) { s.CallsPerSecond, s.Limit = 0.1, time.Hour })
		watched = withConfig(func(c *node.Config) {
			c.Store = marking{c.Store, func() {
				if marks.Add(1) == 60 {
					atStop.Store(int64(sim.Stats().Calls))
					stop()
				}
			}}
		})
	)
	live(t, afternoon, func(w *world, _ *node.LiveClock, _ *events) {
		sim = w.sim
		w.putRecords(many("2026-03-10T14", 40*25, 1)...)
		ctx, cancel := context.WithCancel(w.ctx)
		stop = cancel
		ended := make(chan error, 1)
		go func() { ended <- w.Run(ctx) }()
		time.Sleep(time.Second)
		if _, err := w.Advance(w.ctx, 10*time.Minute); !errors.Is(err, node.ErrStopping) {
			w.t.Errorf("the advance ended with %v", err)
		}
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
		if calls, before := int64(w.sim.Stats().Calls), atStop.Load(); calls > before+5 { // those that were under way
			w.t.Errorf("%d calls, %d of them before the stop", calls, before)
		}
	}, pace, watched)
}
