package node

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/awsmp/metering/internal/pipeline"
)

const (
	defaultGrace = 30 * time.Second
	// wholeGate is all of the gate: what an advance holds, so that no stage runs beside it.
	wholeGate = math.MaxInt32
	// labelsAhead bounds the messages of labels that wait while more groups are visited.
	labelsAhead = 64
	// lookAgain is how often a queue is looked at whose messages are all hidden: those that failed come back.
	lookAgain = visibility / 6
)

var errNotLive = errors.New("run the node: its clock does not run by itself, give it a LiveClock")

// Run keeps the timetable and handles messages until ctx ends: each schedule and each queue in a goroutine of its own, so that a
// submission of minutes holds up nothing else. A schedule that is still running when it is due again is next run at the
// instant after. A stage that fails is observed; it ends nothing.
//
// When ctx ends no stage starts any more. A submission starts no more calls and writes back the verdicts of those under way; the
// others are let finish. What still runs after Config.Grace has its context cancelled; Run returns when all have ended. Run a
// node once at a time.
func (n *Node) Run(ctx context.Context) error {
	clock, ok := n.config.Clock.(*LiveClock)
	if !ok {
		return errNotLive
	}
	work, force := context.WithCancel(context.WithoutCancel(ctx))
	defer force()
	n.state.begin(n.jobs, clock.Now(), ctx, work)
	defer n.state.end()

	var all sync.WaitGroup
	for i, j := range n.jobs {
		all.Go(func() { n.keep(ctx, work, clock, i, j) })
	}
	for _, c := range []consumer{
		{n.deprovision, AggregateStage, workBatch, n.Aggregate.Handle, n.room},
		{n.work, AggregateStage, workBatch, n.Aggregate.Handle, n.room},
		{n.cleanup, CleanupStage, cleanupBatch, n.Clean.Handle, func(context.Context) bool { return true }},
	} {
		all.Go(func() { n.consume(ctx, work, clock, c) })
	}
	<-ctx.Done()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		all.Wait()
		_ = n.gate.Acquire(context.WithoutCancel(ctx), wholeGate) // an advance comes to its end too
		n.gate.Release(wholeGate)
	}()
	grace := time.NewTimer(n.grace())
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
		force()
		<-ended
	}
	return nil
}

func (n *Node) grace() time.Duration {
	if n.config.Grace == 0 {
		return defaultGrace
	}
	return n.config.Grace
}

// keep runs one stage at its instants.
func (n *Node) keep(ctx, work context.Context, clock *LiveClock, i int, j job) {
	if j.stops {
		work = ctx
	}
	for {
		due := n.state.dueAt(i)
		if clock.until(ctx, due, nil) != nil || n.gate.Acquire(ctx, 1) != nil {
			return
		}
		if ctx.Err() != nil {
			n.gate.Release(1)
			return
		}
		if n.state.dueAt(i).Equal(due) { // otherwise an advance has played it
			report, err := j.run(work)
			n.observe(j.schedule.Name, report, err)
			n.state.ran(i, j.schedule.Next(later(due, clock.Now())))
		}
		n.gate.Release(1)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// consumer handles the messages of one queue.
type consumer struct {
	from  *inbox
	stage string
	batch int
	// handle is the stage's.
	handle func(context.Context, []pipeline.Message) []string
	// ready waits until a batch may be taken, and reports false when the node ends.
	ready func(ctx context.Context) bool
}

// consume handles messages as they come. It is told of them, and looks by itself only for those that failed.
func (n *Node) consume(ctx, work context.Context, clock *LiveClock, c consumer) {
	total := 0
	for {
		woken := c.from.changed.next()
		if !c.ready(ctx) || n.gate.Acquire(ctx, 1) != nil {
			break
		}
		handled := 0
		if ctx.Err() == nil {
			handled = c.from.poll(work, c.batch, c.handle)
		}
		n.gate.Release(1)
		if total += handled; handled > 0 {
			continue
		}
		if total > 0 {
			n.observe(c.stage, total, nil)
			total = 0
		}
		if _, hidden := c.from.Len(); hidden > 0 {
			_ = clock.until(ctx, clock.Now().Add(lookAgain), woken)
		} else {
			select {
			case <-woken:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
	if total > 0 {
		n.observe(c.stage, total, nil)
	}
}

// room waits until few labels wait to be written, so that memory does not grow with the number of rows.
func (n *Node) room(ctx context.Context) bool {
	for {
		handled := n.cleanup.changed.next()
		if visible, _ := n.cleanup.Len(); visible <= labelsAhead {
			return true
		}
		select {
		case <-handled:
		case <-ctx.Done():
			return false
		}
	}
}
