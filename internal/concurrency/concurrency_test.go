package concurrency_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awsmp/metering/internal/concurrency"
)

func TestGroupKeepsItsLimitAndWaits(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{0, 1, 3} {
		synctest.Test(t, func(t *testing.T) {
			start, running := time.Now(), make(chan struct{}, 10)
			var most atomic.Int64
			g := concurrency.Or(nil).Group(limit)
			for range 10 {
				g.Go(func() {
					running <- struct{}{}
					time.Sleep(time.Second) // a bubble's
					if n := int64(len(running)); n > most.Load() {
						most.Store(n)
					}
					<-running
				})
			}
			g.Wait()
			want := int64(10)
			if limit > 0 {
				want = int64(limit)
			}
			if most.Load() != want {
				t.Errorf("limit %d: %d ran at once", limit, most.Load())
			}
			if took := time.Since(start); took != time.Duration((10+want-1)/want)*time.Second {
				t.Errorf("limit %d: took %v", limit, took)
			}
		})
	}
}

func TestSemaphoreEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := concurrency.Or(nil).Semaphore(1)
		if !s.Acquire(t.Context()) {
			t.Fatal("a free slot was refused")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if s.Acquire(ctx) {
			t.Error("a slot was held twice")
		}
		s.Release()
		if !s.Acquire(t.Context()) {
			t.Error("a released slot was refused")
		}
	})
}
