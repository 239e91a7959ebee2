package lambdahost

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/queue"
)

// Queue is what a mapping asks of a queue.
type Queue interface {
	Receive(ctx context.Context, limit int) ([]queue.Delivery, error)
	Delete(ctx context.Context, receipt string) error
}

// Source is one event source mapping.
type Source struct {
	Queue     Queue
	QueueName string
	Batch     int // messages an invocation, 1 to 10; 0 means 10
	// Concurrency is how many invocations run at once at most; 0 means 1.
	Concurrency int
	// Idle is the pause after an empty receive; 0 means 20 ms.
	Idle time.Duration
}

// Mapping polls a queue and invokes a function with what it receives.
type Mapping struct {
	stop    context.CancelFunc
	all     sync.WaitGroup
	pollers int

	mu    sync.Mutex
	tally Tally
}

// Tally is what a mapping has done.
type Tally struct {
	Empty       int // receives that brought nothing
	Invocations int
	Failures    int // invocations that failed, or whose answer was malformed: whole batches that come again
	Deleted     int
	Returned    int // messages that come again
	LastFailure error
}

// Map runs a mapping until the test ends or Stop: it receives messages, invokes f with them as one SQS event, and deletes those
// that were done. Those that were not become visible again when their timeout is over.
func Map(t testing.TB, f *Function, s Source) *Mapping {
	t.Helper()
	if s.Batch <= 0 {
		s.Batch = metering.MaxBatch
	}
	if s.Idle <= 0 {
		s.Idle = 20 * time.Millisecond
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &Mapping{stop: stop, pollers: max(1, s.Concurrency)}
	for range m.pollers {
		m.all.Go(func() { m.poll(ctx, f, s) })
	}
	t.Cleanup(m.Stop)
	return m
}

// Stop ends the polling; what is being invoked is killed with its process. It returns when all is quiet.
func (m *Mapping) Stop() {
	m.stop()
	m.all.Wait()
}

// Tally is what the mapping has done up to now.
func (m *Mapping) Tally() Tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tally
}

func (m *Mapping) count(change func(*Tally)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.tally)
}

func (m *Mapping) poll(ctx context.Context, f *Function, s Source) {
	for ctx.Err() == nil {
		list, err := s.Queue.Receive(ctx, s.Batch)
		if err != nil || len(list) == 0 {
			m.count(func(t *Tally) {
				if err == nil {
					t.Empty++
				} else if ctx.Err() == nil {
					t.LastFailure = fmt.Errorf("receive: %w", err)
				}
			})
			_ = awsapi.Sleep(ctx, s.Idle)
			continue
		}
		m.deliver(ctx, f, s, list)
	}
}

// deliver invokes the function with one batch and deletes what it did.
func (m *Mapping) deliver(ctx context.Context, f *Function, s Source, list []queue.Delivery) {
	answer, err := f.Invoke(ctx, s.event(list))
	var failed map[string]bool
	if err == nil {
		failed, err = failures(answer, list)
	}
	m.count(func(t *Tally) {
		t.Invocations++
		if err != nil {
			t.Failures, t.LastFailure = t.Failures+1, err
			t.Returned += len(list)
		}
	})
	if err != nil {
		return
	}
	for _, d := range list {
		if failed[d.ID] {
			m.count(func(t *Tally) { t.Returned++ })
			continue
		}
		if err := s.Queue.Delete(ctx, d.Receipt); err != nil { // it comes again, as on AWS
			m.count(func(t *Tally) { t.LastFailure = fmt.Errorf("delete: %w", err) })
			continue
		}
		m.count(func(t *Tally) { t.Deleted++ })
	}
}

// event is the batch as Lambda hands it to a function (developer guide, "Using Lambda with Amazon SQS").
func (s Source) event(list []queue.Delivery) []byte {
	var e events.SQSEvent
	for _, d := range list {
		sum := md5.Sum([]byte(d.Body))
		sent := strconv.FormatInt(d.SentAt.UnixMilli(), 10)
		e.Records = append(e.Records, events.SQSMessage{
			MessageId: d.ID, ReceiptHandle: d.Receipt, Body: d.Body, Md5OfBody: hex.EncodeToString(sum[:]),
			Attributes: map[string]string{
				"ApproximateReceiveCount":          strconv.Itoa(d.Receives),
				"SentTimestamp":                    sent,
				"SenderId":                         account,
				"ApproximateFirstReceiveTimestamp": sent,
			},
			MessageAttributes: map[string]events.SQSMessageAttribute{},
			EventSource:       "aws:sqs", EventSourceARN: "arn:aws:sqs:" + region + ":" + account + ":" + s.QueueName, AWSRegion: region,
		})
	}
	body, err := json.Marshal(e)
	if err != nil { // unreachable: text and numbers
		panic(err)
	}
	return body
}

// failures reads a partial batch response. An error means that the whole batch comes again: AWS treats an answer that is no
// JSON, or that holds an identifier which is empty, null, under another key or of no message of the batch, as a failure of all
// (developer guide, "Reporting batch item failures"; case 46). Null, {} and an empty or null list mean that all
// is done. An object that has other keys only is refused too: AWS does not say, and a misspelt key must not acknowledge.
func failures(answer []byte, list []queue.Delivery) (map[string]bool, error) {
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(answer, &keys); err != nil {
		return nil, fmt.Errorf("read batch response: %w", err)
	}
	raw, ok := keys["batchItemFailures"]
	if !ok {
		if len(keys) > 0 {
			return nil, errors.New("read batch response: no batchItemFailures")
		}
		return nil, nil
	}
	var items []map[string]*string
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("read batch response: %w", err)
	}
	known := make(map[string]bool, len(list))
	for _, d := range list {
		known[d.ID] = true
	}
	failed := make(map[string]bool, len(items))
	for _, item := range items {
		id := item["itemIdentifier"]
		if id == nil || !known[*id] {
			return nil, fmt.Errorf("read batch response: %s names no message of the batch", raw)
		}
		failed[*id] = true
	}
	return failed, nil
}
