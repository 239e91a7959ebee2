package sqlite

import (
	"context"
	"errors"
	"maps"

	"github.com/awsmp/metering/internal/metering"
)

var errClosed = errors.New("the store is closed")

// maxTogether is how many items one transaction changes. A commit waits for the disk, so changes that wait are put together; the
// more at once, the fewer pages are written twice.
const maxTogether = 10_000

// change is one write. Its run may be called again after a rollback.
type change struct {
	items int
	run   func(*session) error
	done  chan error
}

// session is what a transaction works with: the writing connection, and the names that it has given numbers to, which count only
// once it is committed.
type session struct {
	*conn
	names  *names
	series map[seriesKey]*series
	labels map[label]int64
	fresh  map[int64]label
}

// write runs one change, together with others, and returns when it is on the disk. A change that has begun is waited for
// whatever becomes of ctx, so that its caller knows its outcome.
func (s *Store) write(ctx context.Context, items int, run func(*session) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c := change{items: items, run: run, done: make(chan error, 1)}
	select {
	case <-s.closing:
		return errClosed
	default:
	}
	select {
	case s.changes <- c:
	case <-s.closing:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-c.done:
		return err
	case <-s.served: // it may have come in after the last change was answered
	}
	select {
	case err := <-c.done:
		return err
	default:
		return errClosed
	}
}

// serve applies changes until the store is closed.
func (s *Store) serve() {
	defer close(s.served)
	for {
		select {
		case c := <-s.changes:
			s.apply(s.gather(c))
		case <-s.closing:
			for { // those that came before the end are answered
				select {
				case c := <-s.changes:
					s.apply(s.gather(c))
				default:
					return
				}
			}
		}
	}
}

// gather takes the changes that wait behind the first one, without waiting for any.
func (s *Store) gather(first change) []change {
	batch, items := append(s.batch[:0], first), first.items
	for items < maxTogether {
		select {
		case c := <-s.changes:
			batch = append(batch, c)
			items += c.items
			continue
		default:
		}
		break
	}
	s.batch = batch
	return batch
}

// apply runs changes in one transaction and, where that fails, each in one of its own: one that cannot be written must not take
// its neighbours with it.
func (s *Store) apply(batch []change) {
	errs := make([]error, len(batch))
	err := s.commit(batch, errs)
	switch {
	case err == nil:
	case len(batch) == 1, isLock(err): // nothing was tried under a lock, and each would wait for it in turn
		for i := range errs {
			errs[i] = err
		}
	default:
		for i := range batch {
			if err := s.commit(batch[i:i+1], errs[i:i+1]); err != nil {
				errs[i] = err
			}
		}
	}
	for i, c := range batch {
		c.done <- errs[i]
	}
}

// refusal is an error of a change that has written nothing: the others of its transaction go on.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

// commit runs changes in one transaction. Each error in errs is one that its change has met before it wrote anything.
func (s *Store) commit(batch []change, errs []error) error {
	session := &session{conn: s.writer, names: &s.names, series: map[seriesKey]*series{}, labels: map[label]int64{}, fresh: map[int64]label{}}
	err := s.writer.transact(func() error {
		for i, c := range batch {
			errs[i] = nil
			err := c.run(session)
			var r refusal
			if errors.As(err, &r) {
				errs[i] = r.error
			} else if err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		s.names.learn(maps.Values(session.series), session.labels)
	}
	return err
}

// refused marks an error as met before anything was written.
func refused(err error) error {
	if err == nil {
		return nil
	}
	return refusal{err}
}

// outcome makes the results of a change that failed void: what it has noted was rolled back.
func outcome[T any](out metering.Outcome[T], err error) (metering.Outcome[T], error) {
	if err != nil {
		return metering.Outcome[T]{}, err
	}
	return out, nil
}
