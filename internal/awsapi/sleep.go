package awsapi

import (
	"context"
	"math/rand/v2"
	"time"
)

// Sleep waits for d by the wall clock, less when ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Repeat does something up to so many times, while it fails with what passing says will pass. Before the second try it waits for up to
// pause, drawn anew each time, and the longest wait doubles from try to try. Its error is that of the last try, also where ctx ends.
func Repeat(ctx context.Context, tries int, pause time.Duration, passing func(error) bool, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		if err == nil || !passing(err) || try == tries || Sleep(ctx, rand.N(pause<<(try-1))) != nil {
			return err
		}
	}
}
