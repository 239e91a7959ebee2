package stack

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/desk"
)

const (
	// held is how long messages that were received are kept from other receivers, in seconds; one call has less time by far. glance is the same for a look that
	// lets go of them at once. The SDK cannot ask for 0: it leaves out what is 0, and the queue's own time stands for it.
	held, glance = 60, 5
	// patience is how long a receive waits for a message, in seconds. One that waits asks all of the service's servers, so that what is there is found
	// (Amazon SQS developer guide, short and long polling).
	patience = 1
)

// deadLetters is a queue of dead letters by its name, and its source.
func (s *Stack) deadLetters(name string) (dead, source queue, err error) {
	all := in(s, queues(), func(q queue) where { return q.in })
	var names []string
	for _, q := range all {
		if !q.dead() {
			continue
		}
		names = append(names, q.name)
		if q.name != name {
			continue
		}
		for _, of := range all {
			if of.name == q.source {
				return q, of, nil
			}
		}
	}
	hint := ""
	if len(names) > 0 {
		hint = "one of " + strings.Join(names, ", ")
	}
	return queue{}, queue{}, &awsapi.Error{Class: awsapi.Invalid, Operation: "find the queue", Resource: name, Hint: hint, Err: errors.New("the stack has no dead letters of this name")}
}

// Letters are up to limit messages of a dead-letter queue. They are kept from others while they are read, and let go at its end.
func (s *Stack) Letters(ctx context.Context, name string, limit int) (letters []desk.Letter, err error) {
	dead, _, err := s.deadLetters(name)
	if err != nil {
		return nil, err
	}
	url, err := s.address(ctx, dead)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool)
	var taken []types.Message
	defer func() { err = errors.Join(err, s.letGo(ctx, dead, url, taken)) }()
	for len(letters) < limit {
		got, err := s.receive(ctx, dead, url, min(maxReceived, limit-len(letters)), held)
		if err != nil {
			return letters, err
		}
		taken = append(taken, got...)
		fresh := false
		for _, m := range got {
			if id := aws.ToString(m.MessageId); !seen[id] {
				seen[id], fresh = true, true
				letters = append(letters, desk.Letter{ID: id, Queue: name, SentAt: sentAt(m), Receives: receives(m), Body: aws.ToString(m.Body)})
			}
		}
		if !fresh {
			break
		}
	}
	return letters, nil
}

func receives(m types.Message) int {
	n, _ := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	return n
}

func (s *Stack) receive(ctx context.Context, q queue, url string, n int, hold int32) ([]types.Message, error) {
	out, err := s.at(q.in).sqs.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &url, MaxNumberOfMessages: int32(n), VisibilityTimeout: hold, WaitTimeSeconds: patience, MessageAttributeNames: []string{"All"},
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameSentTimestamp, types.MessageSystemAttributeNameApproximateReceiveCount},
	})
	if err != nil {
		return nil, awsapi.Wrap("receive from the queue", s.named(q.name, q.in), err)
	}
	return out.Messages, nil
}

// letGo lets others see messages again, also when the caller has left. Where that fails they are seen again by themselves, a minute later.
func (s *Stack) letGo(ctx context.Context, q queue, url string, messages []types.Message) error {
	for ; len(messages) > 0; messages = messages[min(maxReceived, len(messages)):] {
		in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &url}
		for i, m := range messages[:min(maxReceived, len(messages))] {
			in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0})
		}
		if _, err := s.at(q.in).sqs.ChangeMessageVisibilityBatch(context.WithoutCancel(ctx), in); err != nil {
			return awsapi.Wrap("let go of messages", s.named(q.name, q.in), err)
		}
	}
	return nil
}

// Redrive moves the messages of a dead-letter queue to the queue that they came from, or for events that EventBridge could not deliver, were meant for. It
// sends each, with its attributes, before it deletes it, and counts it when both are done. What comes back meanwhile is left, so that it ends. A message that
// the queue does not take stays where it is, and the error names it; the others are moved.
//
// When the context ends, the message that is on its way is brought to its end and the rest is let go: the same call again does the rest.
func (s *Stack) Redrive(ctx context.Context, name string, moved func(n int)) (n int, err error) {
	dead, source, err := s.deadLetters(name)
	if err != nil {
		return 0, err
	}
	r := redrive{s: s, dead: dead, source: source, left: make(map[string]bool), moved: moved}
	if r.from, err = s.address(ctx, dead); err != nil {
		return 0, err
	}
	if r.to, err = s.address(ctx, source); err != nil {
		return 0, err
	}
	err = r.run(ctx)
	return r.n, errors.Join(append(r.refused, err, s.letGo(ctx, dead, r.from, r.kept))...)
}

// redrive is one that is under way.
type redrive struct {
	s            *Stack
	dead, source queue
	from, to     string          // URLs
	left         map[string]bool // IDs of messages that are to stay; true once they have been met again
	kept         []types.Message // these, kept from others so that the ones behind them are found
	refused      []error
	moved        func(n int)
	n            int
}

// run ends when nothing is received, or nothing but what was met twice.
func (r *redrive) run(ctx context.Context) error {
	for ctx.Err() == nil {
		got, err := r.s.receive(ctx, r.dead, r.from, maxReceived, held)
		if err != nil {
			return err
		}
		fresh := false
		for i, m := range got {
			again, stays := r.left[aws.ToString(m.MessageId)]
			fresh = fresh || !again
			switch {
			case stays:
				r.left[aws.ToString(m.MessageId)] = true
				r.kept = append(r.kept, m)
			case ctx.Err() != nil:
				r.kept = append(r.kept, got[i:]...)
				return ctx.Err()
			default:
				if err := r.move(context.WithoutCancel(ctx), m); err != nil {
					r.kept = append(r.kept, got[i:]...)
					return err
				}
			}
		}
		if !fresh {
			return nil
		}
	}
	return ctx.Err()
}

// move moves one message. An error is one that the next message would meet too.
func (r *redrive) move(ctx context.Context, m types.Message) error {
	id, client := aws.ToString(m.MessageId), r.s.at(r.dead.in).sqs
	out, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &r.to, MessageBody: m.Body, MessageAttributes: m.MessageAttributes})
	if err != nil {
		err = awsapi.Wrap("send message "+id+" back", r.s.named(r.source.name, r.source.in), err)
		if class := awsapi.ClassOf(err); class != awsapi.Invalid && class != awsapi.TooLarge {
			return err
		}
		r.left[id] = false
		r.kept, r.refused = append(r.kept, m), append(r.refused, fmt.Errorf("it stays in %s: %w", r.dead.name, err))
		return nil
	}
	r.left[aws.ToString(out.MessageId)] = false // a message keeps its ID when it is given up again
	if _, err := client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &r.from, ReceiptHandle: m.ReceiptHandle}); err != nil {
		return fmt.Errorf("message %s is in both queues, which does no harm: %w", id, awsapi.Wrap("delete a message that was sent back", r.s.named(r.dead.name, r.dead.in), err))
	}
	r.n++
	if r.moved != nil {
		r.moved(r.n)
	}
	return nil
}
