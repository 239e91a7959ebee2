package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/queue/memory"
)

// queue is one behind the seam: it loses messages and doubles them, keeps them back and refuses some.
type queue struct {
	*memory.Queue
	seam *seam
	name string
	dead *memory.Queue
	// handle is the stage that takes the messages.
	handle func(context.Context, []pipeline.Message) []string
}

func newQueue(s *seam, name string, visibility time.Duration, receives int) *queue {
	now := func() time.Time { return s.now }
	q := &queue{seam: s, name: name, dead: memory.New(memory.Options{Now: now})}
	q.Queue = memory.New(memory.Options{Visibility: visibility, MaxReceive: receives, DeadLetters: q.dead, Now: now})
	return q
}

func (q *queue) Send(_ context.Context, bodies []string) ([]int, error) {
	return act(q.seam, "sends to "+q.name+" "+q.bodies(bodies), "", func(key string, luck *rand.Rand) (refused []int, err error) {
		for i, body := range bodies {
			if q.seam.strikes(SendRefused, key+" "+body, q.seam.weather.refuse, luck) {
				q.tell("is refused", body)
				refused = append(refused, i)
				continue
			}
			q.transport(key, body, luck)
		}
		return refused, nil
	})
}

// transport brings a message that was taken to those who receive: mostly at once.
func (q *queue) transport(key, body string, luck *rand.Rand) {
	s := q.seam
	if s.strikes(MessageLost, key+" "+body, s.weather.drop, luck) {
		q.tell("is taken, and never seen again", body)
		return
	}
	copies := 1
	if s.strikes(MessageTwice, key+" "+body, s.weather.double, luck) {
		copies = 2
	}
	for i := range copies {
		late, by := s.strikes(MessageLate, key+" "+body+string(rune('a'+i)), s.weather.delay, luck), time.Duration(luck.Int64N(int64(20*time.Minute)))
		if !late {
			q.put(body)
			continue
		}
		q.tell("comes "+by.Round(time.Second).String()+" late", body)
		s.at(s.now.Add(by), func() { q.put(body) })
	}
}

func (q *queue) tell(what, body string) {
	q.seam.say(q.name+" queue", "a message %s: %s", what, summary(body))
}

// summary says what a message is about.
func summary(body string) string {
	if m, err := metering.Decode[metering.WorkMessage](body); err == nil {
		if g, err := m.Group(); err == nil {
			return "group " + g.RecordKey()
		}
	}
	if m, err := metering.Decode[metering.CleanupMessage](body); err == nil && len(m.Rows) > 0 {
		return fmt.Sprintf("%s for %s from %s on", m.Status, ledger.Counted(int64(len(m.Rows)), "row"), m.Rows[0].Key)
	}
	return "an event"
}

func (q *queue) put(body string) {
	if _, err := q.Queue.Send(context.Background(), []string{body}); err != nil {
		panic(err) // a stage sent what no queue takes
	}
}

// bodies names a batch.
func (q *queue) bodies(list []string) string {
	text := summary(list[0])
	if len(list) > 1 {
		text = fmt.Sprintf("%s and %d more", text, len(list)-1)
	}
	return text
}

// receive is one delivery: a batch of messages is handled, and those that did not fail are deleted.
func (q *queue) receive(ctx context.Context, size int) {
	if _, _, err := q.seam.look("receives from "+q.name, ""); err != nil {
		return
	}
	batch, err := q.Receive(context.WithoutCancel(ctx), size)
	if err != nil {
		return
	}
	messages, receipts := make([]pipeline.Message, len(batch)), make(map[string]string)
	for i, d := range batch {
		messages[i] = pipeline.Message{ID: d.ID, Body: d.Body, SentAt: d.SentAt, Receives: d.Receives}
		receipts[d.ID] = d.Receipt
	}
	for _, id := range q.handle(ctx, messages) {
		delete(receipts, id)
	}
	for _, m := range messages {
		if receipt, done := receipts[m.ID]; done {
			if _, _, err := q.seam.look("deletes from "+q.name+" "+summary(m.Body), ""); err == nil {
				_ = q.Delete(context.WithoutCancel(ctx), receipt)
			}
		}
	}
}
