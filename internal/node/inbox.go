package node

import (
	"context"
	"sync"
	"time"

	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/queue"
)

// Queue is what a node asks of a queue's adapter.
type Queue interface {
	pipeline.Queue
	// Poll hands up to batch messages over together, deletes those that are not named as failed, and says how many it handed
	// over: 0 means that none was visible.
	Poll(ctx context.Context, batch int, handle func(ctx context.Context, batch []queue.Delivery) (failed []string)) int
	Len() (visible, inFlight int)
}

// inbox is a queue that wakes whoever waits for it when something is sent or handled.
type inbox struct {
	Queue
	now     func() time.Time
	changed signal

	mu    sync.Mutex
	since time.Time // from when on the queue has not been empty; zero while it is
}

func newInbox(q Queue, now func() time.Time) *inbox { return &inbox{Queue: q, now: now} }

func (b *inbox) Send(ctx context.Context, bodies []string) (refused []int, err error) {
	b.begin()
	refused, err = b.Queue.Send(ctx, bodies)
	b.changed.raise()
	return refused, err
}

// filled is told of messages that came into the queue in another way.
func (b *inbox) filled() {
	b.begin()
	b.changed.raise()
}

func (b *inbox) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() {
		b.since = b.now()
	}
}

// poll hands one batch to a stage and says how many messages there were.
func (b *inbox) poll(ctx context.Context, batch int, stage func(context.Context, []pipeline.Message) []string) int {
	handled := b.Poll(ctx, batch, func(ctx context.Context, batch []queue.Delivery) []string {
		messages := make([]pipeline.Message, len(batch))
		for i, d := range batch {
			messages[i] = pipeline.Message{ID: d.ID, Body: d.Body}
		}
		return stage(ctx, messages)
	})
	if handled > 0 {
		b.changed.raise()
		return handled
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if visible, hidden := b.Len(); visible+hidden == 0 {
		b.since = time.Time{}
	}
	return 0
}

func (b *inbox) busySince() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.since
}

// signal wakes everyone who waits for something to have changed. The zero value is ready.
type signal struct {
	mu      sync.Mutex
	waiting chan struct{}
}

// next is closed at the next raise. Take it before looking at what may change, so that no change is missed.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == nil {
		s.waiting = make(chan struct{})
	}
	return s.waiting
}

func (s *signal) raise() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting != nil {
		close(s.waiting)
		s.waiting = nil
	}
}
