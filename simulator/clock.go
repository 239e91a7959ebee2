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

// errTooFar is the error of a clock that would stand where no time.Duration reaches from real time.
var errTooFar = errors.New("the clock stays within 292 years of real time")

// Advance moves the simulator's own clock by d, which may be negative. It cannot be moved 292 years away from real time.
func (s *Simulator) Advance(d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.Now != nil {
		return ErrForeignClock
	}
	return s.setOffset(s.offset+d, s.now().Add(d))
}

// SetTime moves the simulator's own clock to t, from where it runs on. It cannot be moved 292 years away from real time.
func (s *Simulator) SetTime(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.Now != nil {
		return ErrForeignClock
	}
	return s.setOffset(time.Until(t), t)
}

// setOffset moves the clock, provided that it then shows what it is meant to: a duration ends, or begins again, where it overflows. Called
// with mu held.
func (s *Simulator) setOffset(offset time.Duration, want time.Time) error {
	if time.Now().Add(offset).Sub(want).Abs() > time.Minute {
		return errTooFar
	}
	s.offset = offset
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
