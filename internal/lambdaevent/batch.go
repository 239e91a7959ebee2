package lambdaevent

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/awsmp/metering/internal/pipeline"
)

// Batch reads the messages of an SQS event (AWS Lambda developer guide, "Using Lambda with Amazon SQS"). What the bodies hold is
// the stage's to judge, message by message; an event of another kind is an error, because Lambda takes the answer to a batch of
// no messages for success.
func Batch(payload []byte) ([]pipeline.Message, error) {
	var event events.SQSEvent
	if err := json.Unmarshal(payload, &event); err != nil {
		return nil, fmt.Errorf("read SQS event: %w", err)
	}
	if len(event.Records) == 0 {
		return nil, errors.New("read SQS event: it holds no records (this function is called by its queues alone)")
	}
	messages := make([]pipeline.Message, len(event.Records))
	for i, r := range event.Records {
		if r.EventSource != "aws:sqs" || r.MessageId == "" {
			return nil, fmt.Errorf("read SQS event: record %d is no message of a queue: event source %q, message id %q", i, r.EventSource, r.MessageId)
		}
		messages[i] = pipeline.Message{
			ID: r.MessageId, Body: r.Body, SentAt: sentAt(r.Attributes["SentTimestamp"]), Receives: receives(r.Attributes["ApproximateReceiveCount"]),
		}
	}
	return messages, nil
}

// sentAt reads the time at which a message was first sent, in milliseconds since 1970 (Amazon SQS API reference, ReceiveMessage,
// SentTimestamp). Where it is absent or no time it is zero: then nobody knows how old the message is, and whoever asks takes it for young.
func sentAt(milliseconds string) time.Time {
	ms, err := strconv.ParseInt(milliseconds, 10, 64)
	if err != nil || ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// receives reads how often a message was delivered without being deleted (Amazon SQS API reference, ReceiveMessage, ApproximateReceiveCount).
// Where it is absent or no count it is zero.
func receives(count string) int {
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// Failed answers a batch: the messages named by their ids come again, all others are done with (AWS Lambda developer guide,
// "Implementing partial batch responses"; the event source mapping must ask for ReportBatchItemFailures). With none named the
// list is empty, not absent.
func Failed(ids []string) events.SQSEventResponse {
	answer := events.SQSEventResponse{BatchItemFailures: make([]events.SQSBatchItemFailure, len(ids))}
	for i, id := range ids {
		answer.BatchItemFailures[i].ItemIdentifier = id
	}
	return answer
}
