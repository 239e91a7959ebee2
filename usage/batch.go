package usage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// endOfTime is a moment from which nothing lies ahead.
var endOfTime = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)

// WriteBatch writes a list of events under an id of the caller's own: of a file, a request, an offset in a queue. It answers each
// event with its refusal or with what became of its row, nil where that was written.
//
// The error is nil where every event has its final answer. Otherwise it names, as RowErrors, the rows of which none came in a few
// tries: send the same batch again under the same id. What was written of it is not written twice, be it by this writer or, after
// a crash, by another with the same Fold. The same batch is the same events; their order does not matter but for which of two
// that exclude each other is refused. Another list under an id that was used before is taken as new.
//
// Each batch leaves a token in every row that it adds to, and a row takes 100: write few large batches rather than many small
// ones. Until all have answered, one batch must not be written by two processes at once.
func (w *Writer) WriteBatch(ctx context.Context, id string, events []Event) ([]error, error) {
	if id == "" {
		return nil, errors.New("write batch: it has no id\nTry: the hash of what the events come from")
	}
	done, err := w.turn(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("write batch: %w", err)
	}
	defer done()

	f := newFold(w.o.Fold)
	errs, of, parts := make([]error, len(events)), make([]*part, len(events)), []*part(nil)
	for i := range events {
		// What belongs together, and what excludes what, must not depend on when the batch is sent.
		in, refusal := f.check(&events[i], endOfTime)
		if refusal != nil {
			errs[i] = refusal
			continue
		}
		p, began, refusal := f.add(in, endOfTime)
		if refusal != nil {
			errs[i] = refusal
			continue
		}
		if of[i] = p; began {
			parts = append(parts, p)
		}
	}
	var buf []byte
	now, due := w.o.Now(), parts[:0]
	for _, p := range parts {
		if metering.Future(p.flush.Second, now) {
			p.answer(refuse(metering.TimestampInFuture))
			continue
		}
		due = append(due, p)
		p.seal()
		p.known = true
		p.flush.Token, buf = contentToken(id, p.flush, buf)
	}
	answers, unknown := w.persist(ctx, due)
	for i, p := range of {
		if p == nil {
			continue
		}
		if e := answers[p]; e != nil {
			errs[i] = e
		} else if p.err != nil {
			errs[i] = p.err
		}
	}
	return errs, unknown.orNil()
}

// Resend sends rows again that Close has named as unknown, each under its own token, so that what had been written is not written
// twice. Another process may do it. It returns what is to be said of them, as Flush does.
func (w *Writer) Resend(ctx context.Context, rows []Row) error {
	done, err := w.turn(ctx, "") // no batch has this id
	if err != nil {
		return fmt.Errorf("resend rows: %w", err)
	}
	defer done()
	f, now := newFold(w.o.Fold), w.o.Now()
	var parts []*part
	var failed RowErrors
	for i, row := range rows {
		if row.Token == "" {
			return fmt.Errorf("resend row %d of %d: it has no token, so it is none that Close has named", i+1, len(rows))
		}
		p, refusal := f.again(row, now)
		if refusal != nil {
			failed = append(failed, &RowError{Row: row, Err: refusal})
			continue
		}
		parts = append(parts, p)
	}
	answers, _ := w.persist(ctx, parts)
	for _, p := range parts {
		if e := answers[p]; e != nil {
			failed = append(failed, e)
		}
	}
	return failed.orNil()
}

// persist sends parts of a caller who waits. It returns those that were not simply written, and once more those without an answer.
func (w *Writer) persist(ctx context.Context, parts []*part) (answers map[*part]*RowError, unknown RowErrors) {
	answers = make(map[*part]*RowError)
	left := append([]*part(nil), parts...)
	for try := 0; len(left) > 0; try++ {
		left = w.sender.try(ctx, left, func(answered []*part) {
			for _, p := range answered {
				if p.err != nil {
					answers[p] = p.failure()
				}
			}
		})
		if len(left) == 0 || try+1 == fewTries || pause(ctx, backoff(try)) != nil {
			break
		}
	}
	for _, p := range left {
		answers[p] = p.unknown()
		unknown = append(unknown, answers[p])
	}
	return answers, unknown
}

// turn lets one batch of an id through at a time: a client that lost patience and asks again must not overtake itself, or it hears
// that its hour is committed while the first request still writes.
func (w *Writer) turn(ctx context.Context, id string) (done func(), err error) {
	for {
		w.mu.Lock()
		if w.closed {
			w.mu.Unlock()
			return nil, ErrClosed
		}
		busy, found := w.batches[id]
		if !found {
			mine := make(chan struct{})
			w.batches[id] = mine
			w.mu.Unlock()
			return func() {
				w.mu.Lock()
				delete(w.batches, id)
				w.mu.Unlock()
				close(mine)
			}, nil
		}
		w.mu.Unlock()
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
