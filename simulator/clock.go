package simulator

import (
	"context"
	"errors"
	"time"
)

// ErrForeignClock is returned by Advance and SetTime when Options.Now is set: that clock is not the simulator's to move.
var ErrForeignClock = errors.New("the clock was given by Options.Now and cannot be moved here: move it where it comes from")

// Now is the service's time, UTC.
func (s *Simulator) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

func (s *Simulator) now() time.Time {
	if s.options.Now != nil {
		return s.options.Now().UTC()
	}
	return time.Now().Add(s.offset).UTC()
}

// Advance moves the simulator's own clock by d, which may be negative.
func (s *Simulator) Advance(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.Now != nil {
		return ErrForeignClock
	}
	s.offset += d
	return nil
}

// SetTime moves the simulator's own clock to t, from where it runs on.
func (s *Simulator) SetTime(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.Now != nil {
		return ErrForeignClock
	}
	s.offset = time.Until(t)
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
