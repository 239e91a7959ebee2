package lambdahost_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/lambdahost"
	"github.com/awsmp/metering/internal/queue/memory"
)

// clock is moved by the test.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

const visibility = 30 * time.Second

// mapped is a queue with a dead-letter queue, mapped onto the toy.
type mapped struct {
	queue, dead *memory.Queue
	clock       *clock
	function    *lambdahost.Function
	mapping     *lambdahost.Mapping
}

func held(q *memory.Queue) int {
	visible, inFlight := q.Len()
	return visible + inFlight
}

func newMapped(t *testing.T, bodies ...string) mapped {
	t.Helper()
	c := &clock{now: time.Date(2026, 3, 10, 14, 0, 0, 0, time.UTC)}
	dead := memory.New(memory.Options{Now: c.Now})
	q := memory.New(memory.Options{Visibility: visibility, MaxReceive: 2, DeadLetters: dead, Now: c.Now})
	if refused, err := q.Send(t.Context(), bodies); err != nil || len(refused) > 0 {
		t.Fatalf("send: %v, %v", refused, err)
	}
	f := lambdahost.Start(t, lambdahost.Options{Binary: toy, Handler: "batch", Timeout: time.Minute})
	m := lambdahost.Map(t, f, lambdahost.Source{Queue: q, QueueName: "work", Idle: time.Millisecond})
	return mapped{q, dead, c, f, m}
}

// TestCase46 holds that an answer which is no partial batch response acknowledges nothing: the batch comes again, and at last
// is a dead letter.
func TestCase46(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]string{
		"empty identifier":     `{"batchItemFailures":[{"itemIdentifier":""}]}`,
		"null identifier":      `{"batchItemFailures":[{"itemIdentifier":null}]}`,
		"number as identifier": `{"batchItemFailures":[{"itemIdentifier":7}]}`,
		"unknown identifier":   `{"batchItemFailures":[{"itemIdentifier":"$id"},{"itemIdentifier":"nobody"}]}`,
		"wrong key of an item": `{"batchItemFailures":[{"messageId":"$id"}]}`,
		"wrong key of all":     `{"batchItemFailure":[{"itemIdentifier":"$id"}]}`,
		"no list":              `{"batchItemFailures":"$id"}`,
		"no object":            `["$id"]`,
		"no JSON":              `not JSON`,
		"nothing":              `nothing`,
		"an error":             `error`,
		"a death":              `exit`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMapped(t, answer, answer, answer)
			eventually(t, "the batch fails", func() bool { return m.mapping.Tally().Failures == 1 })
			m.clock.add(visibility)
			eventually(t, "it fails again", func() bool { return m.mapping.Tally().Failures == 2 })
			m.clock.add(visibility)
			eventually(t, "all are dead letters", func() bool { return held(m.dead) == 3 })
			m.mapping.Stop()
			got := m.mapping.Tally()
			if got.Invocations != 2 || got.Deleted != 0 || got.Returned != 6 || got.LastFailure == nil {
				t.Errorf("%+v, want 2 failed invocations, 6 messages returned and none deleted", got)
			}
			if !strings.Contains(m.function.Logs(), "received 2") {
				t.Errorf("no second receive in the log:\n%s", m.function.Logs())
			}
		})
	}
}

func TestAnswersThatAcknowledge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer   string
		returned int
	}{
		"null":            {`null`, 0},
		"empty object":    {`{}`, 0},
		"null list":       {`{"batchItemFailures":null}`, 0},
		"empty list":      {`{"batchItemFailures":[]}`, 0},
		"one of three":    {`{"batchItemFailures":[{"itemIdentifier":"$id"}]}`, 1},
		"one named twice": {`{"batchItemFailures":[{"itemIdentifier":"$id"},{"itemIdentifier":"$id"}]}`, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMapped(t, c.answer, "second", "third")
			eventually(t, "the batch is done", func() bool {
				got := m.mapping.Tally()
				return got.Deleted == 3-c.returned && got.Returned == c.returned
			})
			m.mapping.Stop()
			if got := held(m.queue); got != c.returned {
				t.Errorf("%d messages are left, want %d", got, c.returned)
			}
			if got := m.mapping.Tally(); got.Invocations != 1 || got.Failures != 0 || got.LastFailure != nil {
				t.Errorf("%+v, want one invocation without a failure", got)
			}
		})
	}
}
