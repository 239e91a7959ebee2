// Package memory is a queue in memory that behaves as a standard SQS queue does: at least once, with a visibility timeout,
// a receive count and a dead-letter queue, on a clock that can be moved.
package memory

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/tidwall/btree"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/queue"
)

// Options are the settings of a Queue.
type Options struct {
	// Visibility is how long a delivery keeps its message from others; 0 means 30 s.
	Visibility time.Duration
	// MaxReceive is how often a message is delivered before it goes to DeadLetters; 0 means for ever.
	MaxReceive  int
	DeadLetters *Queue
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Refuse, where set, says which entries of a Send are refused: the partial failures of a real queue.
	Refuse func(body string) bool
}

const defaultVisibility = 30 * time.Second

// Queue is safe for concurrent use.
type Queue struct {
	opts Options

	mu        sync.Mutex
	serial    int64                   // of messages and of deliveries
	waiting   *btree.BTreeG[*message] // all messages, the one that has been visible longest first
	delivered map[string]*message     // by the receipt of the latest delivery
}

type message struct {
	number    int64
	body      string
	sentAt    time.Time
	visibleAt time.Time
	receives  int
	receipt   string // of the latest delivery; empty before the first
	from      *Queue // of a dead letter: the queue that gave it up
}

func earlier(a, b *message) bool {
	if c := a.visibleAt.Compare(b.visibleAt); c != 0 {
		return c < 0
	}
	return a.number < b.number
}

// New makes an empty queue.
func New(o Options) *Queue {
	if o.Visibility <= 0 {
		o.Visibility = defaultVisibility
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Queue{
		opts:      o,
		waiting:   btree.NewBTreeGOptions(earlier, btree.Options{NoLocks: true}),
		delivered: make(map[string]*message),
	}
}

// Send takes up to metering.MaxBatch bodies in, of up to metering.MaxBatchBytes together. The indexes of entries that were refused while
// the others were taken are returned; an error means that none was taken.
func (q *Queue) Send(ctx context.Context, bodies []string) (refused []int, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := queue.CheckBatch(bodies); err != nil {
		return nil, err
	}
	now := q.opts.Now()
	for i, body := range bodies {
		if q.opts.Refuse != nil && q.opts.Refuse(body) {
			refused = append(refused, i)
			continue
		}
		q.take(body, now, now, nil)
	}
	return refused, nil
}

// take puts a body in as a new message.
func (q *Queue) take(body string, sentAt, now time.Time, from *Queue) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.serial++
	q.waiting.Set(&message{number: q.serial, body: body, sentAt: sentAt, visibleAt: now, from: from})
}

// Receive delivers up to limit visible messages, metering.MaxBatch at most, and does not wait for any. A message that has been
// delivered MaxReceive times goes to the dead letters instead.
func (q *Queue) Receive(ctx context.Context, limit int) ([]queue.Delivery, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return q.deliver(min(limit, metering.MaxBatch)), nil
}

func (q *Queue) deliver(limit int) []queue.Delivery {
	now := q.opts.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	var out []queue.Delivery
	for len(out) < limit {
		m, ok := q.waiting.Min()
		if !ok || m.visibleAt.After(now) {
			break
		}
		if q.opts.DeadLetters != nil && q.opts.MaxReceive > 0 && m.receives >= q.opts.MaxReceive {
			q.drop(m)
			q.opts.DeadLetters.take(m.body, m.sentAt, now, q)
			continue
		}
		q.serial++
		delete(q.delivered, m.receipt)
		m.receipt, m.receives = strconv.FormatInt(q.serial, 36), m.receives+1
		q.delivered[m.receipt] = m
		q.hide(m, now.Add(q.opts.Visibility))
		out = append(out, queue.Delivery{
			ID: "m" + strconv.FormatInt(m.number, 10), Receipt: m.receipt,
			Body: m.body, Receives: m.receives, SentAt: m.sentAt,
		})
	}
	return out
}

// hide makes a message visible again at at.
func (q *Queue) hide(m *message, at time.Time) {
	q.waiting.Delete(m)
	m.visibleAt = at
	q.waiting.Set(m)
}

func (q *Queue) drop(m *message) {
	q.waiting.Delete(m)
	delete(q.delivered, m.receipt)
}

// Delete removes the message of a delivery. The receipt of an earlier delivery, or of a message that is gone, does nothing.
func (q *Queue) Delete(ctx context.Context, receipt string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if m, ok := q.delivered[receipt]; ok {
		q.drop(m)
	}
	return nil
}

// Extend keeps the message of a delivery from others for d from now on. A receipt that is no longer the latest does
// nothing.
func (q *Queue) Extend(ctx context.Context, receipt string, d time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	at := q.opts.Now().Add(d)
	q.mu.Lock()
	defer q.mu.Unlock()
	if m, ok := q.delivered[receipt]; ok {
		q.hide(m, at)
	}
	return nil
}

// Release makes the message of a delivery visible at once.
func (q *Queue) Release(ctx context.Context, receipt string) error { return q.Extend(ctx, receipt, 0) }

// Len is how many messages can be received now, and how many are kept for who received them.
func (q *Queue) Len() (visible, inFlight int) {
	now := q.opts.Now()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting.Scan(func(m *message) bool {
		if m.visibleAt.After(now) {
			return false
		}
		visible++
		return true
	})
	return visible, q.waiting.Len() - visible
}

// Letters are up to limit of the queue's own messages among its dead letters, the one that was given up first in front, and how many there
// are. They stay there.
func (q *Queue) Letters(limit int) (letters []queue.Delivery, total int) {
	dead := q.opts.DeadLetters
	if dead == nil {
		return nil, 0
	}
	dead.mu.Lock()
	defer dead.mu.Unlock()
	dead.waiting.Scan(func(m *message) bool {
		if m.from != q {
			return true
		}
		if total++; len(letters) < limit {
			letters = append(letters, queue.Delivery{ID: "m" + strconv.FormatInt(m.number, 10), Body: m.body, Receives: m.receives, SentAt: m.sentAt})
		}
		return true
	})
	return letters, total
}

// Redrive brings the queue's own visible messages back from its dead letters, as new messages, and says how many.
func (q *Queue) Redrive(ctx context.Context) (moved int, err error) {
	dead := q.opts.DeadLetters
	if dead == nil {
		return 0, errors.New("redrive dead letters: the queue has no dead-letter queue")
	}
	now := dead.opts.Now()
	for {
		if err := ctx.Err(); err != nil {
			return moved, err
		}
		body, ok := dead.shift(now, q)
		if !ok {
			return moved, nil
		}
		q.take(body, now, now, nil)
		moved++
	}
}

// shift takes the message that has been visible longest out of the queue, among those that were given up by a queue, or sent here.
func (q *Queue) shift(now time.Time, from *Queue) (body string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	var found *message
	q.waiting.Scan(func(m *message) bool {
		if m.visibleAt.After(now) {
			return false
		}
		if m.from == nil || m.from == from {
			found = m
		}
		return found == nil
	})
	if found == nil {
		return "", false
	}
	q.drop(found)
	return found.body, true
}

// Poll is one round of an event source mapping: up to batch messages are received and handed over together. Those that handle
// does not name as failed are deleted; the failed ones come back after their visibility timeout. An id that is empty or not of
// this batch makes the whole answer void: everything comes back (AWS Lambda developer guide, partial batch responses).
//
// It returns how many messages were handed over, whatever became of them: 0 means that none was visible.
func (q *Queue) Poll(ctx context.Context, batch int, handle func(ctx context.Context, batch []queue.Delivery) (failed []string)) int {
	if ctx.Err() != nil {
		return 0
	}
	deliveries := q.deliver(batch)
	if len(deliveries) == 0 {
		return 0
	}
	handled := make(map[string]bool, len(deliveries))
	for _, d := range deliveries {
		handled[d.ID] = true
	}
	for _, id := range handle(ctx, deliveries) {
		if _, ours := handled[id]; !ours {
			return len(deliveries)
		}
		handled[id] = false
	}
	for _, d := range deliveries {
		if handled[d.ID] {
			_ = q.Delete(context.WithoutCancel(ctx), d.Receipt) // it fails for a context that is done only
		}
	}
	return len(deliveries)
}
