// Package sqs is a queue on Amazon SQS: a standard one, at least once and in no order.
package sqs

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/queue"
)

// Queue is one queue. It is safe for concurrent use; its settings are set before its first use. Every error is an
// *awsapi.Error with the queue's name, or names a batch out of bounds.
type Queue struct {
	// Wait is how long a Receive waits for a first message, in whole seconds, shorter than awsapi.RequestTimeout. 0 does not
	// wait, and may overlook messages that are there (Amazon SQS developer guide, short and long polling).
	Wait time.Duration
	// Sleep waits before the entries that the service failed are sent once more; nil waits on the wall clock.
	Sleep func(ctx context.Context, d time.Duration) error
	// Log is told why entries were refused; nil tells nobody.
	Log *slog.Logger

	client *sqs.Client
	url    string
	name   string
}

// New makes the queue of an address. The client's Region has to be the queue's.
func New(client *sqs.Client, url string) *Queue {
	return &Queue{client: client, url: url, name: path.Base(url)}
}

// Receive delivers up to limit visible messages, metering.MaxBatch at most. None is no error. The messages are kept from others for
// the queue's own visibility timeout.
func (q *Queue) Receive(ctx context.Context, limit int) ([]queue.Delivery, error) {
	if limit < 1 {
		return nil, nil
	}
	out, err := q.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl:            &q.url,
		MaxNumberOfMessages: int32(min(limit, metering.MaxBatch)),
		WaitTimeSeconds:     seconds(q.Wait),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameApproximateReceiveCount, types.MessageSystemAttributeNameSentTimestamp,
		},
	})
	if err != nil {
		return nil, awsapi.Wrap("receive messages", q.name, err)
	}
	deliveries := make([]queue.Delivery, len(out.Messages))
	for i, m := range out.Messages {
		deliveries[i] = delivery(m)
	}
	return deliveries, nil
}

// delivery reads a message. An attribute that is missing is no reason to keep the message from who can handle it.
func delivery(m types.Message) queue.Delivery {
	d := queue.Delivery{ID: aws.ToString(m.MessageId), Receipt: aws.ToString(m.ReceiptHandle), Body: aws.ToString(m.Body)}
	d.Receives, _ = strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	if ms, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64); err == nil {
		d.SentAt = time.UnixMilli(ms).UTC()
	}
	return d
}

// Delete removes the message of a delivery. A message that is gone is no error; whether the receipt of an earlier delivery still
// removes its message is for SQS to say.
func (q *Queue) Delete(ctx context.Context, receipt string) error {
	_, err := q.client.DeleteMessage(ctx, &sqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: &receipt})
	return awsapi.Wrap("delete message", q.name, err)
}

// Extend keeps the message of a delivery from others for d from now on, rounded up to whole seconds; all its extensions
// together may last 12 hours (Amazon SQS API reference, ChangeMessageVisibility). A delivery that is over, because its time
// was up or its message is gone, is no error and nothing happens.
func (q *Queue) Extend(ctx context.Context, receipt string, d time.Duration) error {
	_, err := q.client.ChangeMessageVisibility(ctx, &sqs.ChangeMessageVisibilityInput{
		QueueUrl: &q.url, ReceiptHandle: &receipt, VisibilityTimeout: seconds(d),
	})
	if isOver(err) {
		return nil
	}
	return awsapi.Wrap("change visibility of message", q.name, err)
}

// isOver tells a delivery that is over from other faults of a receipt: of a message that is visible again SQS says
// MessageNotInflight, of one that is gone InvalidParameterValue (Amazon SQS API reference, ChangeMessageVisibility).
func isOver(err error) bool {
	var visible *types.MessageNotInflight
	var refused smithy.APIError
	return errors.As(err, &visible) || errors.As(err, &refused) && strings.HasSuffix(refused.ErrorCode(), "InvalidParameterValue") &&
		strings.Contains(refused.ErrorMessage(), "Message does not exist or is not available for visibility timeout change")
}

// Release makes the message of a delivery visible at once.
func (q *Queue) Release(ctx context.Context, receipt string) error { return q.Extend(ctx, receipt, 0) }

func seconds(d time.Duration) int32 {
	return int32(min((d+time.Second-1)/time.Second, math.MaxInt32))
}
