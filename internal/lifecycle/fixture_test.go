package lifecycle_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/internal/telemetry"
)

const (
	licenseOne = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	licenseTwo = "arn:aws:license-manager::111122223333:license:l-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	buyer      = "111122223333"
	otherBuyer = "555566667777"
	product    = "prod-code-1"
)

var errRefused = errors.New("refused by the test")

// clock is a time of the day on which everything happens.
func clock(hour, minute, second int) time.Time {
	return time.Date(2026, 3, 10, hour, minute, second, 0, time.UTC)
}

// world is a handler and a finalizer over a store, and a queue that brings back what failed.
type world struct {
	t         testing.TB
	ctx       context.Context
	now       time.Time
	store     *memory.Store
	metrics   *telemetry.Counters
	log       *bytes.Buffer
	handler   *lifecycle.Handler
	finalizer *lifecycle.Finalizer
	queue     []message
	sent      int
	dead      []string // ids of messages that the queue gave up
}

type message struct {
	pipeline.Message
	received int
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, ctx: t.Context(), now: clock(12, 0, 0), store: memory.New(memory.Options{}), metrics: &telemetry.Counters{}, log: &bytes.Buffer{}}
	now := func() time.Time { return w.now }
	log := telemetry.NewLog(w.log, slog.LevelInfo)
	w.handler = &lifecycle.Handler{Subscribers: w.store, Metrics: w.metrics, Now: now, Log: log}
	w.finalizer = &lifecycle.Finalizer{Subscribers: w.store, Now: now, Log: log}
	return w
}

// event is an event of the first license and its agreement.
func event(kind lifecycle.Kind, at time.Time, change ...func(*lifecycle.TestEvent)) string {
	e := lifecycle.TestEvent{
		Kind: kind, License: licenseOne, Account: buyer, Agreement: "agmt-1", ProductCode: product, At: at, ID: "e-1",
		Start: clock(0, 0, 0), End: clock(0, 0, 0).AddDate(1, 0, 0),
	}
	for _, c := range change {
		c(&e)
	}
	body, err := e.JSON()
	if err != nil {
		panic(err)
	}
	return string(body)
}

func ofSecond(e *lifecycle.TestEvent) { e.License, e.Agreement = licenseTwo, "agmt-2" }

func ofAgreement(id string) func(*lifecycle.TestEvent) {
	return func(e *lifecycle.TestEvent) { e.Agreement = id }
}

func ofLicense(arn string) func(*lifecycle.TestEvent) {
	return func(e *lifecycle.TestEvent) { e.License = arn }
}

func ofStage(stage string) func(*lifecycle.TestEvent) {
	return func(e *lifecycle.TestEvent) { e.Stage = stage }
}

// send puts events into the queue.
func (w *world) send(bodies ...string) {
	for _, b := range bodies {
		w.sent++
		id := fmt.Sprintf("m%d", w.sent)
		w.queue = append(w.queue, message{Message: pipeline.Message{ID: id, Body: b, SentAt: w.now}})
	}
}

// receive handles the next messages of the queue, at most so many in one batch. What fails goes to the queue's end; after its twelfth time it is given up.
func (w *world) receive(most int) (failed []string) {
	n := min(most, len(w.queue))
	taken := w.queue[:n:n]
	w.queue = w.queue[n:]
	batch := make([]pipeline.Message, n)
	for i, m := range taken {
		batch[i] = m.Message
		batch[i].Receives = m.received + 1
	}
	failed = w.handler.Handle(w.ctx, batch)
	for _, m := range taken {
		if m.received++; !slices.Contains(failed, m.ID) {
			continue
		}
		if m.received == 12 {
			w.dead = append(w.dead, m.ID)
		} else {
			w.queue = append(w.queue, m)
		}
	}
	return failed
}

// drain receives until the queue is empty; what failed comes again after five minutes.
func (w *world) drain() {
	for len(w.queue) > 0 {
		round := len(w.queue)
		for round > 0 {
			n := min(10, round)
			w.receive(n)
			round -= n
		}
		w.now = w.now.Add(5 * time.Minute)
	}
}

// apply applies events of which each must succeed.
func (w *world) apply(bodies ...string) (last lifecycle.Applied) {
	w.t.Helper()
	for _, b := range bodies {
		var err error
		if last, err = w.handler.Apply(w.ctx, []byte(b)); err != nil {
			w.t.Fatal(err)
		}
	}
	return last
}

func (w *world) register(license string) {
	w.t.Helper()
	w.change(metering.Registered(license, buyer, product, "us-east-1", w.now))
}

func (w *world) change(c metering.SubscriberChange) {
	w.t.Helper()
	if _, _, err := w.store.ChangeSubscriber(w.ctx, c); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) finalize() int {
	w.t.Helper()
	done, err := w.finalizer.Run(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	return done.Ended
}

// subscriber is a license's subscriber without audit times; the zero Subscriber where there is none.
func (w *world) subscriber(license string) metering.Subscriber {
	w.t.Helper()
	s, err := w.store.Subscriber(w.ctx, license, buyer)
	if err != nil {
		w.t.Fatal(err)
	}
	if s == nil {
		return metering.Subscriber{}
	}
	s.CreatedAt, s.UpdatedAt = "", ""
	return *s
}

// laggingIndex shows a license of an agreement only after it was asked so many times.
type laggingIndex struct {
	lifecycle.Subscribers
	lag map[string]int
}

func (l laggingIndex) AgreementSubscribers(ctx context.Context, agreement string) iter.Seq2[metering.Subscriber, error] {
	return func(yield func(metering.Subscriber, error) bool) {
		for s, err := range l.Subscribers.AgreementSubscribers(ctx, agreement) {
			if l.lag[s.License]--; l.lag[s.License] >= 0 {
				continue
			}
			if !yield(s, err) {
				return
			}
		}
	}
}
