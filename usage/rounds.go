package usage

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// tryFor bounds one try in the background, so that a call that hangs does not hold up everything behind it.
	tryFor = 30 * time.Second
	// fewTries is how often a row is sent while a caller waits.
	fewTries    = 4
	backoffFrom = 50 * time.Millisecond
	backoffTo   = 20 * time.Second
)

// background sends what is due, until Close.
func (w *Writer) background() {
	defer close(w.ended)
	timer := time.NewTimer(w.o.FlushEvery)
	defer timer.Stop()
	for {
		select {
		case <-w.stop:
			return
		case <-w.wake:
		case <-timer.C:
		}
		if w.begin(w.life) != nil {
			return
		}
		ctx, cancel := context.WithTimeout(w.life, tryFor)
		w.deliver(ctx, w.take(takeDue), 1)
		cancel()
		w.finish()
		timer.Reset(w.untilDue())
	}
}

// begin waits for its turn to send.
func (w *Writer) begin(ctx context.Context) error {
	select {
	case w.round <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *Writer) finish() { <-w.round }

// within is a context that ends with the writer, too.
func (w *Writer) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(w.life, cancel)
	return ctx, func() { stop(); cancel() }
}

func (w *Writer) rouse() {
	select {
	case w.wake <- struct{}{}:
	default: // it is about to look anyway
	}
}

func (w *Writer) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// What a round takes.
type taking bool

const (
	takeDue taking = false // what has waited long enough; everything not yet sent while an Add waits for room
	takeAll taking = true
)

// take hands out parts for sending. Who calls it has the round, so no other part is being sent. A part stays behind while an
// earlier one of its row has no answer.
func (w *Writer) take(what taking) (parts []*part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	for _, p := range w.flights {
		if what == takeAll || !now.Before(p.next) {
			parts = append(parts, p)
		}
	}
	behind := w.queue[:0]
	for i, p := range w.queue {
		if what == takeDue && w.waiting == 0 && now.Before(p.due) {
			behind = append(behind, w.queue[i:]...)
			break
		}
		at := p.place()
		if w.flights[at] != nil {
			behind = append(behind, p)
			continue
		}
		p.seal()
		p.flush.Token = newToken()
		delete(w.fold.parts, at)
		w.flights[at] = p
		parts = append(parts, p)
	}
	clear(w.queue[len(behind):])
	w.queue = behind
	return parts
}

// untilDue is how long nothing needs to be sent: a FlushEvery at most, within which nothing new comes due.
func (w *Writer) untilDue() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := time.Now()
	until := at.Add(w.o.FlushEvery)
	for _, p := range w.flights {
		if p.next.Before(until) {
			until = p.next
		}
	}
	for _, p := range w.queue {
		if !p.due.Before(until) {
			break
		}
		if w.flights[p.place()] == nil {
			until = p.due
			break
		}
	}
	return max(until.Sub(at), 0)
}

// deliver sends parts until all are answered, a number of times at most. Those that are left are tried again later.
func (w *Writer) deliver(ctx context.Context, parts []*part, tries int) []*part {
	for try := 0; len(parts) > 0; try++ {
		parts = w.sender.try(ctx, parts, w.settle)
		if len(parts) == 0 || try+1 == tries || pause(ctx, backoff(try)) != nil {
			break
		}
	}
	if len(parts) > 0 {
		w.postpone(parts)
	}
	return parts
}

func (w *Writer) postpone(parts []*part) {
	most := 0
	for _, p := range parts {
		most = max(most, p.tries)
	}
	w.mu.Lock()
	next := time.Now().Add(backoff(most))
	for _, p := range parts {
		if p.next = next; p.cause != nil {
			w.trouble = p.cause
		}
	}
	w.mu.Unlock()
	w.rouse()
}

// settle lets answered parts go and tells what became of them.
func (w *Writer) settle(parts []*part) {
	if len(parts) == 0 {
		return
	}
	w.mu.Lock()
	w.trouble = nil
	for _, p := range parts {
		delete(w.flights, p.place())
		w.held -= p.cost
		w.fold.forget(p)
		switch {
		case p.err == nil:
		case w.o.Outcome != nil && len(w.failed) >= mostFailed:
			w.untold++
		default:
			w.failed = append(w.failed, p.failure())
		}
	}
	if w.waiting > 0 {
		close(w.freed)
		w.freed = make(chan struct{})
	}
	w.mu.Unlock()
	if w.o.Outcome != nil {
		for _, p := range parts {
			w.o.Outcome(Outcome{Row: p.named(), Err: p.err})
		}
	}
}

// collect takes the answers that Flush and Close return.
func (w *Writer) collect() RowErrors {
	failed := w.failed
	if w.untold > 0 {
		failed = append(failed, &RowError{Err: fmt.Errorf("and %d rows more, told to Outcome alone", w.untold)})
	}
	w.failed, w.untold = nil, 0
	return failed
}

// unanswered are the rows that Flush could not settle: sent without an answer, and what gathers behind them.
func (w *Writer) unanswered() (list RowErrors) {
	var parts []*part
	for _, p := range w.flights {
		parts = append(parts, p)
	}
	for _, p := range w.queue {
		if w.flights[p.place()] != nil {
			parts = append(parts, p)
		}
	}
	inOrder(parts)
	for _, p := range parts {
		list = append(list, p.unknown())
	}
	return list
}

// backoff is the pause after so many tries, half of it at random so that writers that failed together do not come back together.
func backoff(tries int) time.Duration {
	d := min(backoffFrom<<min(tries, 20), backoffTo)
	return d/2 + rand.N(d/2)
}

// pause waits, and fails once ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
