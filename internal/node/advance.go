package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Advance errors.
var (
	// ErrPast is the error of an advance to a time that is over.
	ErrPast = errors.New("the clock never goes back")
	// ErrStopping is the error of an advance while the node stops.
	ErrStopping = errors.New("the node is stopping")
)

// Advanced is how far an advance came.
type Advanced struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`       // where the clock stands
	Instants int       `json:"instants"` // of the timetable that were played
}

// Advance moves the clock by d and plays every instant of the timetable on the way, one by one, with all the messages that come of
// it: nothing is skipped. Sleeps on the way move the clock instead of waiting, so the clock may end up later than asked for.
//
// Stages that run by themselves stand still meanwhile, several advances follow one another, and d counts from when this one's turn
// comes. When ctx ends, or the node does, the advance stops between two instants; Advanced says where. It needs a LiveClock, and
// works whether or not Run does.
func (n *Node) Advance(ctx context.Context, d time.Duration) (Advanced, error) {
	return n.advance(ctx, func(now time.Time) time.Time { return now.Add(d) })
}

// AdvanceTo moves the clock to the time named, as Advance does. A time that is over by the advance's turn is ErrPast.
func (n *Node) AdvanceTo(ctx context.Context, to time.Time) (Advanced, error) {
	return n.advance(ctx, func(time.Time) time.Time { return to })
}

func (n *Node) advance(ctx context.Context, target func(now time.Time) time.Time) (a Advanced, err error) {
	clock, ok := n.config.Clock.(*LiveClock)
	if !ok {
		return a, errNotLive
	}
	clock.hold() // first, so that whoever sleeps in a running stage wakes and the stage ends
	if err := n.gate.Acquire(ctx, wholeGate); err != nil {
		now := clock.Now()
		err = fmt.Errorf("advance the clock: stopped at %s before its turn came: %w", now.Format(time.RFC3339), err)
		return Advanced{From: now, To: now}, errors.Join(err, clock.release())
	}
	defer func() {
		err = errors.Join(err, clock.release())
		n.gate.Release(wholeGate) // after it: no stage may sleep on a clock that is held
	}()
	var played sync.WaitGroup // a goroutine of its own: a stage's panic must not be caught by the server that asked for the advance
	played.Go(func() { a, err = n.play(ctx, clock, target) })
	played.Wait()
	return a, err
}

func (n *Node) play(ctx context.Context, clock *LiveClock, target func(now time.Time) time.Time) (Advanced, error) {
	now := clock.Now()
	a, to := Advanced{From: now, To: now}, target(now)
	if to.Before(now) {
		return a, fmt.Errorf("advance the clock from %s to %s: %w", now.Format(time.RFC3339Nano), to.UTC().Format(time.RFC3339Nano), ErrPast)
	}
	for t := n.state.playedUntil(now); ; {
		open, work := n.state.contexts(ctx)
		if err := errors.Join(ctx.Err(), open.Err()); err != nil {
			if open.Err() != nil {
				err = ErrStopping
			}
			return a, fmt.Errorf("advance the clock to %s: stopped at %s: %w", to.UTC().Format(time.RFC3339), a.To.Format(time.RFC3339), err)
		}
		if t = n.Next(t); t.After(to) {
			break
		}
		if err := clock.moveTo(t); err != nil {
			return a, err
		}
		_ = n.runDue(open, work, t) // a stage that failed is observed; what it left is found again
		n.state.played(n.jobs, t)
		a.To, a.Instants = clock.Now(), a.Instants+1
	}
	err := clock.moveTo(to)
	n.state.played(n.jobs, to)
	a.To = clock.Now()
	return a, err
}
