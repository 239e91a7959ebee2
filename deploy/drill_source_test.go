package deploy_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sqssdk "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/awsmp/metering/internal/lambdahost"
	"github.com/awsmp/metering/internal/queue"
	"github.com/awsmp/metering/internal/queue/sqs"
)

// drillSource is the event source mapping of a queue. It receives when it is told to, once, and the mapping calls the function with what comes. What is not
// done comes back when its visibility timeout is over on the console's clock.
type drillSource struct {
	d       *drill
	arn     string // of the queue
	url     string
	of      *driven
	queue   *sqs.Queue
	mapping *lambdahost.Mapping
	turn    chan bool // a receive; false where Lambda has no room for the function
	back    chan int  // the mapping has done with what it received, and how many that were
	hidden  time.Duration

	mu       sync.Mutex
	received int
	out      map[string]time.Time // receipts, and when they come back
	told     lambdahost.Tally
}

// connect makes the sources those that moto has enabled.
func (d *drill) connect() {
	d.t.Helper()
	enabled := map[string]bool{}
	for _, m := range d.mapped() {
		source := m.text("EventSourceArn")
		if m.text("State") != "Enabled" {
			continue
		}
		enabled[source] = true
		if d.sources[source] == nil {
			d.sources[source] = d.source(source, d.functions[m.text("FunctionArn")], number(m.get("BatchSize")))
		}
	}
	for arn, s := range d.sources {
		if !enabled[arn] {
			s.end()
			delete(d.sources, arn)
		}
	}
}

func (d *drill) source(arn string, of *driven, batch int) *drillSource {
	d.t.Helper()
	s := &drillSource{
		d: d, arn: arn, url: d.queueURL(lastPart(arn)), of: of, turn: make(chan bool), back: make(chan int), out: map[string]time.Time{},
	}
	out, err := d.cloud.call("sqs", "AmazonSQS.GetQueueAttributes", map[string]any{"QueueUrl": s.url, "AttributeNames": []string{"VisibilityTimeout"}})
	d.must(err)
	s.hidden, err = time.ParseDuration(out.text("Attributes", "VisibilityTimeout") + "s")
	d.must(err)
	s.queue = sqs.New(d.sqs, s.url)
	s.mapping = lambdahost.Map(d.t, of.Function, lambdahost.Source{Queue: s, QueueName: lastPart(arn), Batch: batch, Idle: time.Millisecond})
	<-s.back
	return s
}

// end ends the mapping. What it has received and not done comes back to whoever receives next.
func (s *drillSource) end() {
	s.mapping.Stop()
	s.show(func(time.Time) bool { return true })
}

// Receive waits for its turn.
func (s *drillSource) Receive(ctx context.Context, limit int) ([]queue.Delivery, error) {
	select {
	case s.back <- s.received:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	var room bool
	select {
	case room = <-s.turn:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !room {
		limit = 1 // SQS may give fewer than it is asked for, and each is refused alone
	}
	list, err := s.queue.Receive(ctx, limit)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, delivery := range list {
		s.out[delivery.Receipt] = s.d.console.now.Add(s.hidden)
	}
	s.received = len(list)
	if !room {
		return nil, err
	}
	return list, err
}

// Delete deletes what is done.
func (s *drillSource) Delete(ctx context.Context, receipt string) error {
	s.mu.Lock()
	delete(s.out, receipt)
	s.mu.Unlock()
	return s.queue.Delete(ctx, receipt)
}

// dry lets the mappings work until no queue gives anything.
func (d *drill) dry() {
	d.t.Helper()
	for more := true; more; {
		more = false
		for _, arn := range slices.Sorted(maps.Keys(d.sources)) {
			s := d.sources[arn]
			room := !d.throttled[s.of.name]
			s.turn <- room
			n := <-s.back
			more = more || n > 0
			switch tally := s.mapping.Tally(); {
			case !room && n > 0:
				d.counted(s.of.name, 0, 0, 1)
			case n > 0:
				d.counted(s.of.name, tally.Invocations-s.told.Invocations, tally.Failures-s.told.Failures, 0)
				s.told = tally
			}
			if n > 0 {
				d.hear(s.of)
			}
		}
	}
}

// comeBack lets messages be seen again whose time is over, and reports whether there are any.
func (s *drillSource) comeBack() bool {
	return s.show(func(at time.Time) bool { return !at.After(s.d.console.now) })
}

func (s *drillSource) show(due func(time.Time) bool) (any bool) {
	s.d.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for receipt, at := range s.out {
		if !due(at) {
			continue
		}
		any = true
		delete(s.out, receipt)
		_, err := s.d.sqs.ChangeMessageVisibility(s.d.t.Context(), &sqssdk.ChangeMessageVisibilityInput{QueueUrl: &s.url, ReceiptHandle: aws.String(receipt), VisibilityTimeout: 0})
		s.d.must(err)
	}
	return any
}
