package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/awsmp/metering/internal/metering"
)

// outbox sends messages in batches and counts what was really taken. A refused entry does not hold up the others, but fails
// the run in the end: its group is still pending and comes again.
type outbox struct {
	queue   Queue
	bodies  []string
	size    int // of the bodies, in bytes
	sent    int
	refused int
}

func (o *outbox) add(ctx context.Context, body string) error {
	var err error
	if o.size+len(body) > metering.MaxBatchBytes { // keys may be long: a hundred rows are then half of what a batch takes
		err = o.flush(ctx)
	}
	o.bodies, o.size = append(o.bodies, body), o.size+len(body)
	if len(o.bodies) < metering.MaxBatch {
		return err
	}
	return errors.Join(err, o.flush(ctx))
}

// flush sends what has come together. A batch that fails is given up, so that what follows is still sent: the run fails, and its
// groups come again.
func (o *outbox) flush(ctx context.Context) error {
	if len(o.bodies) == 0 {
		return nil
	}
	n := len(o.bodies)
	refused, err := o.queue.Send(ctx, o.bodies)
	o.bodies, o.size = o.bodies[:0], 0
	if err != nil {
		return fmt.Errorf("send %d messages: %w", n, err)
	}
	o.sent += n - len(refused)
	o.refused += len(refused)
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
