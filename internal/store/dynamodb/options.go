package dynamodb

import (
	"context"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/awsmp/metering/internal/awsapi"
)

const defaultWorkers = 8

// Options are the settings of Rows and Records. The zero value works.
type Options struct {
	// Writes paces the writes, one token each; nil does not. A partition takes 1,000 writes a second of up to 1 KB (Amazon DynamoDB
	// developer guide, partition key design).
	Writes *rate.Limiter
	// Workers is how many writes of one batch are under way at once; 0 means 8.
	Workers int
	// PageLimit is the most items that one page holds; 0 leaves it to the service, which ends a page at 1 MB.
	PageLimit int32
	// Sleep waits between tries of a batch that the service took only in part; nil is real time.
	Sleep func(context.Context, time.Duration) error
}

func (o Options) workers() int {
	if o.Workers <= 0 {
		return defaultWorkers
	}
	return o.Workers
}

func (o Options) sleep(ctx context.Context, d time.Duration) error {
	if o.Sleep != nil {
		return o.Sleep(ctx, d)
	}
	return awsapi.Sleep(ctx, d)
}

// jitter draws a pause at random, so that writers who were throttled together do not come back together.
func jitter(most time.Duration) time.Duration { return rand.N(most) + 1 }

// each runs do for every number below n, a few at once.
func each(n, workers int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(workers)
	for i := range n {
		group.Go(func() error { do(i); return nil })
	}
	_ = group.Wait() // what fails is told item by item
}
