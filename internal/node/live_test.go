package node_test

import (
	"context"
	"sync"
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

// live runs a test in a bubble, with a world whose clock runs from now on by itself.
func live(t *testing.T, now time.Time, test func(w *world, clock *node.LiveClock, seen *events), options ...option) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		clock, seen := node.NewLiveClock(time.Until(now), nil), &events{}
		test(newWorld(t, now, append([]option{withClock(clock), withConfig(func(c *node.Config) { c.Observe = seen.add })}, options...)...), clock, seen)
	})
}

func withClock(clock node.Clock) option {
	return func(c *node.Config, o *simulator.Options, s *marketplace.Settings) {
		c.Clock, o.Now, o.Sleep, s.Now, s.Sleep = clock, clock.Now, clock.Sleep, clock.Now, clock.Sleep
	}
}

// start runs the node until stop is called, which returns when the node has ended.
func (w *world) start() (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	synctest.Wait()
	return func() {
		w.t.Helper()
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	}
}

// events are the runs of stages that were observed.
type events struct {
	mu   sync.Mutex
	list []node.Event
}

func (e *events) add(v node.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, v)
}

// of are the times at which a stage was observed.
func (e *events) of(stage string) (times []time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, v := range e.list {
		if v.Stage == stage {
			times = append(times, v.At)
		}
	}
	return times
}

// instants are those of a schedule in (from, to].
func instants(s metering.Schedule, from, to time.Time) (times []time.Time) {
	for t := s.Next(from); !t.After(to); t = s.Next(t) {
		times = append(times, t)
	}
	return times
}

func schedules() []metering.Schedule {
	return []metering.Schedule{
		metering.MeterSchedule, metering.AgeoutSchedule, metering.FlushSchedule,
		metering.SubmitSchedule, metering.ExpireSchedule, metering.FinalizeSchedule,
	}
}

// TestRunKeepsTheTimetable: a day by the wall clock, with usage that arrives as it happens.
func TestRunKeepsTheTimetable(t *testing.T) {
	live(t, afternoon, func(w *world, clock *node.LiveClock, seen *events) {
		stop := w.start()
		var units int64
		for i := range 24 {
			r := usage(metering.Second(clock.Now().Unix()).String(), int64(i))
			w.put(r)
			units += int64(i)
			time.Sleep(time.Hour)
		}
		time.Sleep(2*time.Hour + time.Second)
		end := clock.Now()
		stop()
		for _, s := range schedules() {
			if diff := cmp.Diff(instants(s, afternoon, end), seen.of(s.Name)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", s.Name, diff)
			}
		}
		if len(seen.of(node.AggregateStage)) == 0 || len(seen.of(node.CleanupStage)) == 0 {
			t.Error("no message was observed")
		}
		w.wantPlace(ledger.Billed, units)
		w.wantNoDeadLetters()
	})
}

// TestRunHandlesMessagesAsTheyCome: between a row's visit and its label no clock ticks.
func TestRunHandlesMessagesAsTheyCome(t *testing.T) {
	live(t, afternoon, func(w *world, _ *node.LiveClock, _ *events) {
		defer w.start()()
		r := usage("2026-03-10T14:00:00", 3)
		w.put(r)
		time.Sleep(at("2026-03-10T15:35:00").Sub(afternoon)) // the next meter run
		synctest.Wait()
		w.wantRow(r, metering.Aggregated, aggregated(3, 1))
		w.wantBilled(r, 0)
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		w.wantBilled(r, 3)
	})
}

// TestRunLongSubmissionHoldsUpNothing: a slow pace makes a submission last for longer than its schedule's period. The others keep
// their times, and the submission that was due meanwhile follows at the next instant.
func TestRunLongSubmissionHoldsUpNothing(t *testing.T) {
	pace := withPace(func(s *marketplace.Settings) { s.CallsPerSecond, s.Limit = 0.1, time.Hour })
	live(t, afternoon, func(w *world, clock *node.LiveClock, seen *events) {
		records := many("2026-03-10T14", 40*25, 1) // 40 calls, one every ten seconds
		w.putRecords(records...)
		stop := w.start()
		time.Sleep(at("2026-03-10T15:39:00").Sub(afternoon))
		end := clock.Now()
		stop()
		for _, s := range []metering.Schedule{metering.MeterSchedule, metering.FlushSchedule, metering.ExpireSchedule} {
			if diff := cmp.Diff(instants(s, afternoon, end), seen.of(s.Name)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", s.Name, diff)
			}
		}
		submissions := seen.of(metering.SubmitSchedule.Name)
		if len(submissions) != 3 || !submissions[1].Equal(at("2026-03-10T15:33:00")) || submissions[0].Before(at("2026-03-10T15:29:00")) {
			t.Errorf("submissions ended at %v", submissions)
		}
		if done, waiting := w.count(records, metering.Success); done != len(records) || waiting != 0 {
			t.Errorf("%d billed, %d wait", done, waiting)
		}
		w.books()
	}, pace)
}

// TestRunStopWritesBackWhatIsUnderWay: a stop in the middle of a submission starts no more calls, and every verdict of those under
// way is written: nothing is in doubt.
func TestRunStopWritesBackWhatIsUnderWay(t *testing.T) {
	live(t, afternoon, func(w *world, clock *node.LiveClock, _ *events) {
		records := many("2026-03-10T14", 200*25, 1) // 20 s of calls that take 3 s each
		w.putRecords(records...)
		w.sim.Inject(simulator.Fault{Kind: simulator.Latency, Latency: 3 * time.Second})
		stop := w.start()
		time.Sleep(at("2026-03-10T15:23:10").Sub(afternoon))
		before := w.sim.Stats().Calls
		asked := clock.Now()
		stop()
		if took := clock.Now().Sub(asked); took > 4*time.Second {
			t.Errorf("the stop took %v", took)
		}
		calls := w.sim.Stats().Calls
		if calls > before+1 || calls < 50 {
			t.Errorf("%d calls after the stop, %d in all", calls-before, calls)
		}
		done, waiting := w.count(records, metering.Success)
		if done != calls*25 || waiting != len(records)-done {
			t.Errorf("%d calls, %d billed, %d wait", calls, done, waiting)
		}
		w.wantPlace(ledger.Billed, int64(done))

		w.sim.ClearFaults()
		again := w.start()
		time.Sleep(10 * time.Minute)
		again()
		w.wantPlace(ledger.Billed, int64(len(records)))
		w.wantMetric(metering.MetricInDoubt, 0, 0)
	})
}

// stuckStore hangs in its answer about licenses in their last hour until the caller's context ends.
type stuckStore struct{ node.Store }

func (stuckStore) Deprovisioning(ctx context.Context) ([]metering.Deprovisioning, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestRunCancelsWhatOutlastsTheGrace(t *testing.T) {
	stuck := withConfig(func(c *node.Config) { c.Store, c.Grace = stuckStore{c.Store}, 20*time.Second })
	live(t, afternoon, func(w *world, clock *node.LiveClock, seen *events) {
		stop := w.start()
		time.Sleep(2 * time.Minute) // the flush of 15:21 hangs
		asked := clock.Now()
		stop()
		if took := clock.Now().Sub(asked); took != 20*time.Second {
			t.Errorf("the stop took %v, want the grace", took)
		}
		if flushes := seen.of(metering.FlushSchedule.Name); len(flushes) != 1 {
			t.Errorf("flushes %v", flushes)
		}
	}, stuck)
}

// failingStore cannot tell the licenses in their last hour.
type failingStore struct{ node.Store }

func (failingStore) Deprovisioning(context.Context) ([]metering.Deprovisioning, error) {
	return nil, errStruck
}

func TestRunOutlivesAStageThatFails(t *testing.T) {
	failing := withConfig(func(c *node.Config) { c.Store = failingStore{c.Store} })
	live(t, afternoon, func(w *world, _ *node.LiveClock, seen *events) {
		r := usage("2026-03-10T14:00:00", 3)
		w.put(r)
		stop := w.start()
		time.Sleep(time.Hour)
		flush := w.State().Stages[metering.FlushSchedule.Name]
		stop()
		if flush.Runs != 12 || flush.Failures != 12 || flush.Err == nil || len(seen.of(metering.FlushSchedule.Name)) != 12 {
			t.Errorf("flush %+v", flush)
		}
		w.wantBilled(r, 3)
	}, failing)
}

// TestRunTakesBackWhatFailed: a label that cannot be written comes back after its timeout, without any new message.
func TestRunTakesBackWhatFailed(t *testing.T) {
	var store *brittleStore
	broken := true
	live(t, afternoon, func(w *world, _ *node.LiveClock, _ *events) {
		r := usage("2026-03-10T14:00:00", 3)
		w.put(r)
		defer w.start()()
		time.Sleep(at("2026-03-10T15:36:00").Sub(afternoon))
		w.wantWaiting(r)
		store.mu.Lock()
		broken = false
		store.mu.Unlock()
		if cleanup := w.State().Queues[2]; cleanup.InFlight != 1 || !cleanup.BusySince.Equal(at("2026-03-10T15:35:00")) {
			t.Errorf("queue %+v", cleanup)
		}
		time.Sleep(8 * time.Minute) // the meter runs at 15:50 only
		w.wantRow(r, metering.Aggregated, aggregated(3, 1))
		if cleanup := w.State().Queues[2]; cleanup.InFlight != 0 || !cleanup.BusySince.IsZero() {
			t.Errorf("queue %+v", cleanup)
		}
	}, brittle(&store, func(o op, _ int, _ string) outcome {
		store.mu.Lock()
		defer store.mu.Unlock()
		if o == opLabel && broken {
			return refuse
		}
		return pass
	}))
}

// deepest notes how many messages of labels waited at most.
type deepest struct {
	node.Queue
	most int
}

func (d *deepest) Send(ctx context.Context, bodies []string) ([]int, error) {
	refused, err := d.Queue.Send(ctx, bodies)
	visible, _ := d.Len()
	d.most = max(d.most, visible)
	return refused, err
}

// TestLabelsNeverPileUp: 60 groups of 400 rows ask for 240 messages of labels. However a node is driven, few of them wait.
func TestLabelsNeverPileUp(t *testing.T) {
	t.Parallel()
	fill := func(w *world) {
		for g := range 60 {
			rows := secondsOf("2026-03-10T14", 400, 1)
			for i := range rows {
				rows[i] = row(licenseOne, buyerOne, "dim_"+string(rune('A'+g)), rows[i].Timestamp, 1)
			}
			if err := w.store.PutRows(w.ctx, rows); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	t.Run("drained", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, afternoon)
		queue := &deepest{Queue: w.Cleanup}
		w.Aggregate.Cleanup = queue
		fill(w)
		w.until(at("2026-03-10T15:36:00"))
		if queue.most == 0 || queue.most > 80 { // two batches of ten visits: the labels of one are written during the next
			t.Errorf("%d messages waited", queue.most)
		}
		w.wantPlace(ledger.InFlight, 24_000)
	})
	t.Run("running, while labels are slower than visits", func(t *testing.T) {
		slow := withConfig(func(c *node.Config) { c.Store = slowStore{c.Store, c.Clock} })
		live(t, afternoon, func(w *world, _ *node.LiveClock, _ *events) {
			queue := &deepest{Queue: w.Aggregate.Cleanup.(node.Queue)}
			w.Aggregate.Cleanup = queue
			fill(w)
			stop := w.start()
			time.Sleep(20 * time.Minute)
			stop()
			if queue.most == 0 || queue.most > 64+40 {
				t.Errorf("%d messages waited", queue.most)
			}
			w.wantPlace(ledger.Billed, 24_000)
		}, slow)
	})
}

// slowStore takes a second for each write of labels.
type slowStore struct {
	node.Store
	clock node.Clock
}

func (s slowStore) LabelRows(ctx context.Context, labels []metering.Label) []metering.Labelled {
	_ = s.clock.Sleep(ctx, time.Second)
	return s.Store.LabelRows(ctx, labels)
}

func TestRunNeedsAClockThatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	if err := w.Run(w.ctx); err == nil {
		t.Error("a virtual clock never reaches the next instant")
	}
	if _, err := w.Advance(w.ctx, time.Hour); err == nil {
		t.Error("a virtual clock is moved by its owner")
	}
}
