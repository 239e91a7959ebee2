package node

import (
	"context"
	"sync"
	"time"
)

// Clock tells the time to everything that runs on a node, and waits.
type Clock interface {
	Now() time.Time
	// Sleep returns after d, or early with the context's error.
	Sleep(ctx context.Context, d time.Duration) error
}

// VirtualClock is a clock that stands still until it is moved. A sleep moves it to the instant at which the sleeper wakes, so that a
// virtual day passes as fast as its work is done.
type VirtualClock struct {
	mu  sync.Mutex
	now time.Time
}

// NewVirtualClock starts at t.
func NewVirtualClock(t time.Time) *VirtualClock { return &VirtualClock{now: t.UTC()} }

// Now is the virtual time.
func (c *VirtualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// MoveTo moves the clock forward to t; it never goes back.
func (c *VirtualClock) MoveTo(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.After(c.now) {
		c.now = t.UTC()
	}
}

// Sleep moves the clock forward by d at once.
func (c *VirtualClock) Sleep(ctx context.Context, d time.Duration) error {
	c.MoveTo(c.Now().Add(d))
	return ctx.Err()
}
