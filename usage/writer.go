package usage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Writer adds usage to the usage table. It is safe for use by many goroutines; any number of processes may write the same rows
// with a Writer each. Close it when it is no longer needed.
type Writer struct {
	o      Options
	sender sender

	life  context.Context // ends when Close runs out of time
	end   context.CancelFunc
	round chan struct{} // taken by whoever sends added rows: one round at a time
	wake  chan struct{} // asks the background to look at once
	stop  chan struct{} // closed by Close
	ended chan struct{} // closed when the background has stopped

	mu      sync.Mutex
	fold    *fold
	queue   []*part         // the parts of fold, the one that is due first first
	flights map[place]*part // sent, or about to be, and not answered: one for each row, so that a row gathers no tokens in vain
	held    int             // cost of both
	waiting int             // Adds that wait for room
	freed   chan struct{}   // closed when there is room again
	failed  RowErrors       // answered with an error and not yet returned
	untold  int             // likewise, beyond mostFailed: told to Outcome alone
	trouble error           // why what was tried last could not be written; nil once something is answered
	closed  bool

	batches map[string]chan struct{} // ids that are being written, each closed when it is done
}

// mostFailed is how many answers are kept for Flush and Close to return.
const mostFailed = 1000

// NewWriter makes a writer over a table. It fails where the options are outside their ranges.
func NewWriter(table Table, o Options) (*Writer, error) {
	if table == nil {
		return nil, errors.New("make writer: it has no table")
	}
	if clock, ok := table.(interface{ Now() time.Time }); ok && o.Now == nil {
		o.Now = clock.Now
	}
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("make writer: %w", err)
	}
	w := &Writer{
		o:       o,
		sender:  sender{table: table, rules: o.rules(), parallel: o.Parallel, now: o.Now},
		round:   make(chan struct{}, 1),
		wake:    make(chan struct{}, 1),
		stop:    make(chan struct{}),
		ended:   make(chan struct{}),
		freed:   make(chan struct{}),
		fold:    newFold(o.Fold),
		flights: make(map[place]*part),
		batches: make(map[string]chan struct{}),
	}
	w.life, w.end = context.WithCancel(context.Background())
	go w.background()
	return w, nil
}

// Add takes an event in: it is folded into its row and written within FlushEvery, or by the next Flush or Close. What became of it
// is told then, with its row. An event that can never be billed is refused at once with a *Refusal.
//
// While MaxRows are held, Add waits until some are written, and fails with the context's error if that is done first. After Close
// it fails with ErrClosed. What is added and not yet written is lost in a crash: where that must not be, use WriteBatch.
func (w *Writer) Add(ctx context.Context, e Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		now := w.o.Now()
		in, err := w.admit(&e, now)
		if err != nil {
			return err
		}
		if w.room(in) {
			return w.put(in, now)
		}
		if err := w.await(ctx); err != nil {
			return err
		}
	}
}

// admit says where an event belongs, or why it is not taken.
func (w *Writer) admit(e *Event, now time.Time) (entry, error) {
	if w.closed {
		return entry{}, ErrClosed
	}
	if w.o.Outcome == nil && len(w.failed) >= mostFailed {
		return entry{}, fmt.Errorf("add usage: %d rows were not simply written, and nobody has asked for them\nTry: call Flush and act on its error, or set Options.Outcome", len(w.failed))
	}
	in, refusal := w.fold.check(e, now)
	if refusal == nil && !w.sender.rules.Billable(in.second.Hour(), now) {
		refusal = refusalOf(HourClosed, nil)
	}
	if refusal != nil {
		return entry{}, refusal
	}
	return in, nil
}

func (w *Writer) room(in entry) bool {
	need := len(in.allocations)
	if w.fold.parts[in.place()] == nil {
		need++
	}
	return need == 0 || w.held == 0 || w.held+need <= w.o.MaxRows
}

func (w *Writer) put(in entry, now time.Time) error {
	before := 0
	if p := w.fold.parts[in.place()]; p != nil {
		before = p.cost
	}
	p, began, refusal := w.fold.add(in, now)
	if refusal != nil {
		return refusal
	}
	w.held += p.cost - before
	if began {
		p.due = time.Now().Add(w.o.FlushEvery)
		w.queue = append(w.queue, p)
	}
	return nil
}

// await lets the lock go until there may be room.
func (w *Writer) await(ctx context.Context) error {
	freed := w.freed
	w.waiting++
	w.mu.Unlock()
	w.rouse()
	var err error
	select {
	case <-freed:
	case <-w.stop:
	case <-ctx.Done():
		err = fmt.Errorf("add usage: wait for room: %w", ctx.Err())
	}
	w.mu.Lock()
	w.waiting--
	if err != nil && w.trouble != nil {
		err = fmt.Errorf("%w; what is held cannot be written: %w", err, w.trouble)
	}
	return err
}

// Flush writes everything that was added before, and returns what is to be said of rows since the last Flush as RowErrors: nil if
// all were simply written. A row whose answer does not come in a few tries is among them as ErrUnknown; it stays in the writer,
// which goes on trying under the same token.
func (w *Writer) Flush(ctx context.Context) error {
	ctx, cancel := w.within(ctx)
	defer cancel()
	if err := w.begin(ctx); err != nil {
		return fmt.Errorf("flush usage: %w", err)
	}
	defer w.finish()
	if w.isClosed() {
		return ErrClosed
	}
	if left := w.deliver(ctx, w.take(takeAll), fewTries); len(left) == 0 {
		w.deliver(ctx, w.take(takeAll), fewTries) // what had to wait for a row's earlier flush
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return append(w.collect(), w.unanswered()...).orNil()
}

// closeWithin is how long Close tries where its context sets no end.
const closeWithin = 30 * time.Second

// Close writes everything that is held and stops the writer. It tries until ctx is done, and for half a minute where ctx has no
// deadline. It returns what is to be said of rows since the last Flush as RowErrors; those among them that are ErrUnknown carry
// all that Resend needs. A second Close does nothing.
func (w *Writer) Close(ctx context.Context) error {
	if !w.shut() {
		return nil
	}
	if _, ends := ctx.Deadline(); !ends {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, closeWithin)
		defer cancel()
	}
	defer w.end()
	stopLife := context.AfterFunc(ctx, w.end) // whoever is still sending ends with it
	defer stopLife()
	<-w.ended
	w.round <- struct{}{}
	defer w.finish()
	for try := 0; ctx.Err() == nil; try++ {
		parts := w.take(takeAll)
		if len(parts) == 0 {
			break
		}
		if left := w.deliver(ctx, parts, 1); len(left) > 0 {
			_ = pause(ctx, backoff(try))
		}
	}
	return w.abandon().orNil()
}

// shut closes the writer for Adds, and says whether it was open.
func (w *Writer) shut() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.closed = true
	close(w.stop)
	return true
}

// abandon names all that is left as unknown.
func (w *Writer) abandon() RowErrors {
	w.mu.Lock()
	left := make([]*part, 0, len(w.flights)+len(w.queue))
	for _, p := range w.flights {
		left = append(left, p)
	}
	for _, p := range w.queue {
		p.seal()
		p.flush.Token = newToken()
		left = append(left, p)
	}
	inOrder(left)
	failed := w.collect()
	for _, p := range left {
		failed = append(failed, p.unknown())
	}
	w.flights, w.queue, w.fold, w.held = nil, nil, newFold(w.o.Fold), 0
	w.mu.Unlock()
	if w.o.Outcome != nil {
		for _, e := range failed[len(failed)-len(left):] {
			w.o.Outcome(Outcome(*e))
		}
	}
	return failed
}
