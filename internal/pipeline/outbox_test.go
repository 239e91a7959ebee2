package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// strictQueue takes what a batch may hold, as SQS does, and fails the batches it is told to.
type strictQueue struct {
	fail    func(batch int) bool
	batches int
	taken   []string
}

func (q *strictQueue) Send(_ context.Context, bodies []string) ([]int, error) {
	q.batches++
	size := 0
	for _, body := range bodies {
		size += len(body)
	}
	if len(bodies) > metering.MaxBatch || size > metering.MaxBatchBytes {
		return nil, fmt.Errorf("%d messages of %d bytes are too much", len(bodies), size)
	}
	if q.fail != nil && q.fail(q.batches) {
		return nil, errRefused
	}
	q.taken = append(q.taken, bodies...)
	return nil, nil
}

// Case 34: a key of a kilobyte whose every character takes six bytes in JSON. A message of a hundred such rows is half of what a
// batch takes, so ten of them are no batch.
func TestBatchesKeepWithinTheirBytes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := groupOf(licenseOne, strings.Repeat("<", 900), hour)
	for i := range 1000 {
		b.put(rowAt(g, i, 1))
	}
	q := &strictQueue{}
	a := b.aggregator()
	a.Cleanup = q
	if failed := a.Handle(b.ctx, []pipeline.Message{{ID: "one", Body: metering.Encode(metering.NewWorkMessage(g, false))}}); len(failed) > 0 {
		t.Fatalf("failed: %v", failed)
	}
	if len(q.taken) != 10 || q.batches < 5 {
		t.Errorf("%d messages in %d batches, want 10 in several", len(q.taken), q.batches)
	}
}

// A batch that fails takes none of the later ones with it; its groups stay pending.
func TestAFailedBatchIsNotSentTogetherWithTheNext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 35 {
		b.put(rowAt(groupOf(licenseOne, fmt.Sprintf("d-%02d", i), hour), 0, 1))
	}
	q := &strictQueue{fail: func(batch int) bool { return batch == 1 }}
	d := b.discoverer()
	d.Work = q
	found, err := d.Run(b.ctx, pipeline.MeterSlice(1))
	if !errors.Is(err, errRefused) || found.Enqueued != 25 || len(q.taken) != 25 {
		t.Errorf("%+v, %d taken, %v; want 25 and the error of the first batch", found, len(q.taken), err)
	}
}
