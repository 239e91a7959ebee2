package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// longestNap bounds a wait by a timer. Timers stand still while a machine sleeps, wall clocks do not.
	longestNap = time.Minute
	// reserved is how far ahead the clock's position is saved when a sleep moves it, so that a run of many short sleeps costs
	// few writes. A process that dies then finds its clock that much later, never earlier.
	reserved = time.Minute
)

// LiveClock is real time plus an offset, which an advance of the node moves. It never goes back, also not over restarts:
// every position is saved before anything acts at it.
//
// While an advance is under way the clock is held: it stands still but for being moved, and a sleep moves it to the instant at
// which the sleeper wakes.
type LiveClock struct {
	save    func(offset time.Duration) error
	changed signal // held, or running again

	mu     sync.Mutex
	offset time.Duration
	last   time.Time // the latest time told, or while it is held the time itself
	holds  int
	saved  time.Time // while it is held: what a restart would not fall behind
}

// NewLiveClock is a clock that runs offset ahead of real time. Save, where set, keeps a new offset durably; pass what it kept
// to the clock of the next process.
func NewLiveClock(offset time.Duration, save func(offset time.Duration) error) *LiveClock {
	return &LiveClock{offset: offset, save: save}
}

// Now is the clock's time, in UTC and without a monotonic reading.
func (c *LiveClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *LiveClock) now() time.Time {
	if c.holds == 0 {
		if t := wall().Add(c.offset); t.After(c.last) { // the machine's own clock may be set back
			c.last = t
		}
	}
	return c.last
}

// wall is the machine's time without its monotonic reading, which stands still while the machine sleeps.
func wall() time.Time { return time.Now().Round(0).UTC() }

// Offset is how far the clock runs ahead of real time.
func (c *LiveClock) Offset() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holds > 0 {
		return c.last.Sub(wall())
	}
	return c.offset
}

// Sleep returns after d, or early with the context's error. While the clock is held it moves the clock by d and returns at once,
// also in the middle of a sleep.
func (c *LiveClock) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	wake := c.Now().Add(d)
	for {
		c.mu.Lock()
		if c.holds > 0 {
			err := c.move(wake, reserved)
			c.mu.Unlock()
			return errors.Join(err, ctx.Err())
		}
		left, changed := wake.Sub(c.now()), c.changed.next()
		c.mu.Unlock()
		if left <= 0 {
			return nil
		}
		if err := nap(ctx, left, changed, nil); err != nil {
			return err
		}
	}
}

// until waits for the clock to show t without moving it, and not at all while the clock is held. It returns early with the
// context's error, or with none as soon as woken is closed.
func (c *LiveClock) until(ctx context.Context, t time.Time, woken <-chan struct{}) error {
	for {
		c.mu.Lock()
		left, held, changed := t.Sub(c.now()), c.holds > 0, c.changed.next()
		c.mu.Unlock()
		if held {
			left = longestNap // whoever holds it tells when it runs again
		} else if left <= 0 {
			return ctx.Err()
		}
		if err := nap(ctx, left, changed, woken); err != nil {
			return err
		}
		select {
		case <-woken:
			return nil
		default:
		}
	}
}

// nap waits for d, less if something happens, and fails only with the context's error.
func nap(ctx context.Context, d time.Duration, changed, woken <-chan struct{}) error {
	timer := time.NewTimer(min(d, longestNap))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-woken:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// hold stops the clock. Several may hold it; it runs again when the last has released it.
func (c *LiveClock) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if c.holds++; c.holds == 1 {
		c.saved = now // the offset saved last leads here
		c.changed.raise()
	}
}

// release lets the clock run on from where it stands.
func (c *LiveClock) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.holds--; c.holds > 0 {
		return nil
	}
	c.offset = c.last.Sub(wall())
	c.changed.raise()
	if c.save == nil {
		return nil
	}
	if err := c.save(c.offset); err != nil {
		return fmt.Errorf("save the clock's offset: %w", err)
	}
	return nil
}

// moveTo moves a held clock forward to t.
func (c *LiveClock) moveTo(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.move(t, 0)
}

// move saves the new position first: a process that dies right after it must not come back at an earlier time.
func (c *LiveClock) move(t time.Time, ahead time.Duration) error {
	if !t.After(c.last) {
		return nil
	}
	if t.After(c.saved) && c.save != nil {
		mark := t.Add(ahead)
		if err := c.save(mark.Sub(wall())); err != nil {
			return fmt.Errorf("save the clock's offset: %w", err)
		}
		c.saved = mark
	}
	c.last = t.UTC()
	return nil
}
