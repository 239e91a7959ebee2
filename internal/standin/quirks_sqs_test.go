package standin_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/awsmp/metering/internal/standin"
)

// queues is a stand-in. Each question makes a queue of its own.
type queues struct {
	*sqs.Client
	suffix string
}

func newQueues(endpoint string) queues {
	return queues{suffix: unique(""), Client: sqs.NewFromConfig(standin.Config(endpoint), func(o *sqs.Options) { o.RetryMaxAttempts = 1 })}
}

// queue makes a queue named after the question, and what is added.
func (c queues) queue(t *testing.T, add string, attributes map[string]string) *string {
	t.Helper()
	name := strings.Map(func(r rune) rune {
		if r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'z' {
			return r
		}
		return '-'
	}, t.Name())
	name = name[max(0, len(name)-60):] + add + c.suffix
	got, err := c.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		t.Fatal(err)
	}
	return got.QueueUrl
}

// redriven makes a dead-letter queue and a queue that moves what was received n times there.
func (c queues) redriven(t *testing.T, n int) (source, dead *string, deadARN string) {
	t.Helper()
	dead = c.queue(t, "-dead", nil)
	got, err := c.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: dead, AttributeNames: []types.QueueAttributeName{"QueueArn"}})
	if err != nil {
		t.Fatal(err)
	}
	deadARN = got.Attributes["QueueArn"]
	return c.queue(t, "", map[string]string{"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":%d}`, deadARN, n)}), dead, deadARN
}

func (c queues) send(t *testing.T, url *string, body string) error {
	_, err := c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: url, MessageBody: &body})
	return err
}

// tenThrough sends ten messages, receives them and deletes them.
func (c queues) tenThrough(t testing.TB, url *string) error {
	sent, received := &sqs.SendMessageBatchInput{QueueUrl: url}, &sqs.DeleteMessageBatchInput{QueueUrl: url}
	for i := range 10 {
		id := aws.String(fmt.Sprint(i))
		sent.Entries = append(sent.Entries, types.SendMessageBatchRequestEntry{Id: id, MessageBody: id})
	}
	if _, err := c.SendMessageBatch(t.Context(), sent); err != nil {
		return err
	}
	got, err := c.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10})
	if err != nil {
		return err
	}
	for _, m := range got.Messages {
		received.Entries = append(received.Entries, types.DeleteMessageBatchRequestEntry{Id: m.Body, ReceiptHandle: m.ReceiptHandle})
	}
	_, err = c.DeleteMessageBatch(t.Context(), received)
	return err
}

// batch sends bodies in one call, and says which entries failed and why.
func (c queues) batch(t *testing.T, bodies ...string) string {
	in := &sqs.SendMessageBatchInput{QueueUrl: c.queue(t, "", nil), Entries: []types.SendMessageBatchRequestEntry{}}
	for i, body := range bodies {
		in.Entries = append(in.Entries, types.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), MessageBody: &body})
	}
	got, err := c.SendMessageBatch(t.Context(), in)
	if err != nil {
		return said("", err)
	}
	answer := "accepted"
	for _, f := range got.Failed {
		answer = fmt.Sprint("entry ", *f.Id, " ", short(*f.Code))
	}
	return answer
}

// receive takes the next message and gives it back at once, so that it can be received again.
func (c queues) receive(t *testing.T, url *string) (types.Message, error) {
	got, err := c.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, MessageSystemAttributeNames: []types.MessageSystemAttributeName{"All"}})
	switch {
	case err != nil:
		return types.Message{}, err
	case len(got.Messages) == 0:
		return types.Message{}, errors.New("no message")
	}
	_, err = c.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: got.Messages[0].ReceiptHandle, VisibilityTimeout: 0})
	return got.Messages[0], err
}

func (c queues) remove(t *testing.T, url *string, receipt string) error {
	_, err := c.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: &receipt})
	return err
}

// short is an exception's name without the prefix of the older protocol.
func short(name string) string { return strings.TrimPrefix(name, "AWS.SimpleQueueService.") }

// TestSQSQuirks asks what the adapter of the queues rests on.
func TestSQSQuirks(t *testing.T) {
	t.Parallel()
	ask(t, queueQuirks(), map[string]queues{"moto": newQueues(standin.Moto(t)), "fauxqs": newQueues(standin.Fauxqs(t))})
}

func queueQuirks() []quirk[queues] {
	const (
		accepted = "accepted"
		value    = "InvalidParameterValue"
		receipt  = "ReceiptHandleIsInvalid"
		contents = "InvalidMessageContents"
		tooLong  = "BatchRequestTooLong"

		send    = "API reference, SendMessage"
		batch   = "API reference, SendMessageBatch"
		receive = "API reference, ReceiveMessage"
		remove  = "API reference, DeleteMessage"
		dead    = "Developer guide, dead-letter queues"
		mebi    = 1 << 20
	)
	return []quirk[queues]{
		{"queue that is not there", "QueueDoesNotExist", "QueueDoesNotExist", "QueueDoesNotExist", send, func(t *testing.T, c queues) string {
			err := c.send(t, aws.String(*c.queue(t, "", nil)+"-not"), "a")
			var gone *types.QueueDoesNotExist
			if errors.As(err, &gone) {
				return "QueueDoesNotExist"
			}
			return short(said(accepted, err))
		}},
		{"queue made again with another setting", "QueueNameExists", "QueueAlreadyExists", "QueueNameExists", "API reference, CreateQueue", func(t *testing.T, c queues) string {
			u := *c.queue(t, "", nil)
			_, err := c.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(u[strings.LastIndexByte(u, '/')+1:]), Attributes: map[string]string{"VisibilityTimeout": "9"}})
			return short(said(accepted, err))
		}},
		{"host in a queue's address", "that of the service", "that of the caller's request", "sqs.us-east-1.localhost", "API reference, CreateQueue", func(t *testing.T, c queues) string {
			u, err := url.Parse(*c.queue(t, "", nil))
			if err != nil {
				return err.Error()
			}
			if u.Hostname() == "127.0.0.1" {
				return "that of the caller's request"
			}
			return u.Hostname()
		}},
		{"message of 1 MiB", accepted, accepted, accepted, send, func(t *testing.T, c queues) string {
			return short(said(accepted, c.send(t, c.queue(t, "", nil), strings.Repeat("x", mebi))))
		}},
		{"message of 1 MiB and a byte", value, value, value, send, func(t *testing.T, c queues) string {
			return short(said(accepted, c.send(t, c.queue(t, "", nil), strings.Repeat("x", mebi+1))))
		}},
		{"message without a character", "an error", accepted, "MissingParameter", send, func(t *testing.T, c queues) string {
			return short(said(accepted, c.send(t, c.queue(t, "", nil), "")))
		}},
		{"message with U+0000", contents, accepted, contents, send, func(t *testing.T, c queues) string {
			return short(said(accepted, c.send(t, c.queue(t, "", nil), "\x00")))
		}},
		{"message with U+1F600", accepted, accepted, contents, send, func(t *testing.T, c queues) string {
			return short(said(accepted, c.send(t, c.queue(t, "", nil), "\U0001F600")))
		}},
		{"message delayed by 901 s", value, value, accepted, send, func(t *testing.T, c queues) string {
			_, err := c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: c.queue(t, "", nil), MessageBody: aws.String("a"), DelaySeconds: 901})
			return short(said(accepted, err))
		}},
		{"batch of which one message has U+0000", "entry 1 InvalidMessageContents", accepted, "entry 1 InvalidMessageContents", batch, func(t *testing.T, c queues) string {
			return c.batch(t, "a", "\x00", "b")
		}},
		{"batch of 11", "TooManyEntriesInBatchRequest", "TooManyEntriesInBatchRequest", "TooManyEntriesInBatchRequest", batch, func(t *testing.T, c queues) string {
			return short(c.batch(t, strings.Split("abcdefghijk", "")...))
		}},
		{"batch without entries", "EmptyBatchRequest", "EmptyBatchRequest", "EmptyBatchRequest", batch, func(t *testing.T, c queues) string {
			return short(c.batch(t))
		}},
		{"batch of more than 1 MiB together", tooLong, tooLong, tooLong, batch, func(t *testing.T, c queues) string {
			return short(c.batch(t, strings.Repeat("x", mebi/2), strings.Repeat("x", mebi/2), "x"))
		}},

		{"receive of 11", value, value, value, receive, func(t *testing.T, c queues) string {
			_, err := c.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: c.queue(t, "", nil), MaxNumberOfMessages: 11})
			return short(said(accepted, err))
		}},
		{"wait of 21 s", value, value, value, receive, func(t *testing.T, c queues) string {
			url := c.queue(t, "", nil)
			_, err := c.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 21})
			return short(said(accepted, first(c.send(t, url, "a"), err)))
		}},
		{"three messages, received at once", "some, in any order", "all, in order", "all, in order", receive, func(t *testing.T, c queues) string {
			url := c.queue(t, "", nil)
			for _, body := range []string{"1", "2", "3"} {
				if err := c.send(t, url, body); err != nil {
					return err.Error()
				}
			}
			got, err := c.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10})
			if err != nil {
				return said("", err)
			}
			order := ""
			for _, m := range got.Messages {
				order += *m.Body
			}
			if order != "123" {
				return order
			}
			return "all, in order"
		}},
		{"receives counted at the third", "3", "3", "3", receive, func(t *testing.T, c queues) string {
			url := c.queue(t, "", nil)
			_ = c.send(t, url, "a")
			return receives(c.again(t, url, 3))
		}},
		{"message deleted under an older receipt", "stays or goes", "goes", "stays", remove, func(t *testing.T, c queues) string {
			url := c.queue(t, "", nil)
			_ = c.send(t, url, "a")
			old, err := c.receive(t, url)
			if err == nil {
				_, err = c.receive(t, url)
			}
			if err == nil {
				err = c.remove(t, url, *old.ReceiptHandle)
			}
			if err != nil {
				return said("", err)
			}
			if _, err := c.receive(t, url); err != nil {
				return "goes"
			}
			return "stays"
		}},
		{"delete once more", accepted, accepted, accepted, remove, func(t *testing.T, c queues) string {
			url := c.queue(t, "", nil)
			_ = c.send(t, url, "a")
			m, err := c.receive(t, url)
			if err != nil {
				return said("", err)
			}
			return short(said(accepted, first(c.remove(t, url, *m.ReceiptHandle), c.remove(t, url, *m.ReceiptHandle))))
		}},
		{"delete under an invented receipt", receipt, receipt, accepted, remove, func(t *testing.T, c queues) string {
			return short(said(accepted, c.remove(t, c.queue(t, "", nil), "invented")))
		}},
		{"visibility of a message that is deleted", "MessageNotInflight", receipt, "MessageNotInflight", "API reference, ChangeMessageVisibility", func(t *testing.T, c queues) string {
			url := c.queue(t, "", nil)
			_ = c.send(t, url, "a")
			m, err := c.receive(t, url)
			if err == nil {
				err = c.remove(t, url, *m.ReceiptHandle)
			}
			if err != nil {
				return said("", err)
			}
			_, err = c.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 9})
			return short(said(accepted, err))
		}},

		{"message received twice where two is the most", "in the dead-letter queue", "in the dead-letter queue", "in the dead-letter queue", dead, func(t *testing.T, c queues) string {
			url, dead, _ := c.redriven(t, 2)
			_ = c.send(t, url, "a")
			if _, err := c.again(t, url, 2); err != nil {
				return said("", err)
			}
			if _, err := c.receive(t, url); err == nil {
				return "received a third time"
			}
			_, err := c.receive(t, dead)
			return said("in the dead-letter queue", err)
		}},
		{"receives counted there at the first", "not said", "3", "4", dead, func(t *testing.T, c queues) string {
			url, dead, _ := c.redriven(t, 2)
			_ = c.send(t, url, "a")
			_, _ = c.again(t, url, 3)
			return receives(c.receive(t, dead))
		}},
		{"StartMessageMoveTask", accepted, "status 500", "InvalidAction", "API reference, StartMessageMoveTask", func(t *testing.T, c queues) string {
			_, _, arn := c.redriven(t, 2)
			_, err := c.StartMessageMoveTask(t.Context(), &sqs.StartMessageMoveTaskInput{SourceArn: &arn})
			return short(said(accepted, err))
		}},
		{"ListDeadLetterSourceQueues", accepted, accepted, "InvalidAction", "API reference, ListDeadLetterSourceQueues", func(t *testing.T, c queues) string {
			_, dead, _ := c.redriven(t, 2)
			_, err := c.ListDeadLetterSourceQueues(t.Context(), &sqs.ListDeadLetterSourceQueuesInput{QueueUrl: dead})
			return short(said(accepted, err))
		}},
		{"queue of the same name in another Region", "QueueDoesNotExist", "QueueDoesNotExist", "QueueDoesNotExist", "Developer guide, queue and message identifiers", func(t *testing.T, c queues) string {
			u := *c.queue(t, "", nil)
			_, err := c.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(u[strings.LastIndexByte(u, '/')+1:])}, func(o *sqs.Options) { o.Region = "eu-west-1" })
			var gone *types.QueueDoesNotExist
			if errors.As(err, &gone) {
				return "QueueDoesNotExist"
			}
			return short(said("the same queue", err))
		}},
	}
}

// again receives the next message n times.
func (c queues) again(t *testing.T, url *string, n int) (m types.Message, err error) {
	for i := 0; i < n && err == nil; i++ {
		m, err = c.receive(t, url)
	}
	return m, err
}

func receives(m types.Message, err error) string {
	return said(m.Attributes["ApproximateReceiveCount"], err)
}
