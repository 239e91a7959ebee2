package pipeline

import (
	"context"
	"fmt"

	"github.com/awsmp/metering/internal/metering"
)

// outbox sends messages in batches and counts what was really taken. A refused entry does not hold up the others, but fails
// the run in the end: its group is still pending and comes again.
type outbox struct {
	queue   Queue
	bodies  []string
	sent    int
	refused int
}

func (o *outbox) add(ctx context.Context, body string) error {
	o.bodies = append(o.bodies, body)
	if len(o.bodies) < MaxBatch {
		return nil
	}
	return o.flush(ctx)
}

func (o *outbox) flush(ctx context.Context) error {
	if len(o.bodies) == 0 {
		return nil
	}
	refused, err := o.queue.Send(ctx, o.bodies)
	if err != nil {
		return fmt.Errorf("send %d messages: %w", len(o.bodies), err)
	}
	o.sent += len(o.bodies) - len(refused)
	o.refused += len(refused)
	o.bodies = o.bodies[:0]
	return nil
}

// close sends what is left and reports refusals.
func (o *outbox) close(ctx context.Context) error {
	if err := o.flush(ctx); err != nil {
		return err
	}
	if o.refused > 0 {
		return fmt.Errorf("send messages: the queue refused %d of %d; their groups stay pending and are sent again at the next visit", o.refused, o.refused+o.sent)
	}
	return nil
}

// label queues a label for rows, in messages of limited size.
func (o *outbox) label(ctx context.Context, m metering.CleanupMessage, rows []metering.CleanupRow) error {
	for part := range m.Split(rows) {
		if err := o.add(ctx, metering.Encode(part)); err != nil {
			return err
		}
	}
	return nil
}
