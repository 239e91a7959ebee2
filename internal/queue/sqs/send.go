package sqs

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/queue"
)

// Entries that the service failed are sent once more after a random time between these.
const (
	resendFrom = 50 * time.Millisecond
	resendTo   = 250 * time.Millisecond
)

// Send takes up to metering.MaxBatch bodies in, of up to metering.MaxBatchBytes together. The indexes of entries that were refused while
// the others were taken are returned; an error means that none is known to be taken.
//
// An answer with status 200 may still name entries that failed, or fewer entries than were sent (case 44): only what it names
// as taken is taken. What fails by the service's fault, and what it does not name, is sent once more before it counts as
// refused: so an entry can arrive twice.
func (q *Queue) Send(ctx context.Context, bodies []string) (refused []int, err error) {
	if err := queue.CheckBatch(bodies); err != nil {
		return nil, err
	}
	states := make([]state, len(bodies))
	for i, body := range bodies {
		if !sendable(body) {
			states[i] = state{settled: true, code: "InvalidMessageContents", message: "the body holds characters that SQS does not carry"}
		}
	}
	if err := q.send(ctx, bodies, states); err != nil {
		return nil, err
	}
	if waits(states) && q.sleep(ctx, resendFrom+rand.N(resendTo-resendFrom)) == nil {
		if err := q.send(ctx, bodies, states); err != nil && q.Log != nil { // what was taken before stays taken
			q.Log.Warn("entries were not sent a second time", "queue", q.name, "error", err)
		}
	}
	for i, s := range states {
		if s.taken {
			continue
		}
		refused = append(refused, i)
		if q.Log != nil {
			q.Log.Warn("the queue refused a message", "queue", q.name, "entry", i, "code", s.code, "reason", s.message)
		}
	}
	return refused, nil
}

// state is what is known of an entry.
type state struct {
	taken         bool
	settled       bool // taken, or refused for its own fault: it is not sent again
	code, message string
}

func waits(states []state) bool {
	for _, s := range states {
		if !s.settled {
			return true
		}
	}
	return false
}

// send sends the entries that are not settled, in one call, and notes what the answer says of each. Their ids are their indexes.
func (q *Queue) send(ctx context.Context, bodies []string, states []state) error {
	in := &sqs.SendMessageBatchInput{QueueUrl: &q.url}
	for i := range states {
		if states[i].settled {
			continue
		}
		in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), MessageBody: &bodies[i]})
		states[i].code, states[i].message = "NotNamed", "the answer does not say what became of it"
	}
	if len(in.Entries) == 0 {
		return nil
	}
	out, err := q.batch(ctx, in)
	if err != nil {
		return err
	}
	for _, s := range out.Successful {
		if e := entry(states, s.Id); e != nil {
			e.taken, e.settled = true, true
		}
	}
	for _, f := range out.Failed { // last: an entry that is named twice did not surely arrive
		if e := entry(states, f.Id); e != nil {
			*e = state{settled: f.SenderFault, code: aws.ToString(f.Code), message: aws.ToString(f.Message)}
		}
	}
	return nil
}

// batch is the one call. The SDK panics over an answer that names an entry without an id (service/sqs v1.53.0, validateSendMessageBatchChecksum):
// that is half an answer, or another's, and what was taken is unknown.
func (q *Queue) batch(ctx context.Context, in *sqs.SendMessageBatchInput) (out *sqs.SendMessageBatchOutput, err error) {
	const operation = "send messages"
	defer func() {
		if r := recover(); r != nil {
			err = &awsapi.Error{Class: awsapi.Unavailable, Operation: operation, Resource: q.name, Err: fmt.Errorf("the answer cannot be read: %v", r)}
		}
	}()
	out, err = q.client.SendMessageBatch(ctx, in)
	return out, awsapi.Wrap(operation, q.name, err)
}

// entry is the one of an id; nil where no entry was sent under it.
func entry(states []state, id *string) *state {
	for i := range states {
		if strconv.Itoa(i) == aws.ToString(id) {
			return &states[i]
		}
	}
	return nil
}

func (q *Queue) sleep(ctx context.Context, d time.Duration) error {
	if q.Sleep != nil {
		return q.Sleep(ctx, d)
	}
	return awsapi.Sleep(ctx, d)
}

// sendable reports whether SQS carries a body: tab, line feed, carriage return and U+0020 to U+D7FF, U+E000 to U+FFFD, U+10000 to
// U+10FFFF (Amazon SQS API reference, SendMessageBatch). One call with a body beyond these could fail as a whole.
func sendable(body string) bool {
	if !utf8.ValidString(body) {
		return false
	}
	for _, r := range body {
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == '\uFFFE' || r == '\uFFFF' {
			return false
		}
	}
	return true
}
