package standin_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"golang.org/x/sync/errgroup"

	"github.com/awsmp/metering/internal/standin"
)

func TestTablesAnswer(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) string{"moto": standin.Moto, "dynalite": standin.Dynalite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := dynamodb.NewFromConfig(standin.Config(start(t)))
			if _, err := c.ListTables(t.Context(), &dynamodb.ListTablesInput{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestQueuesAnswer(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) string{"moto": standin.Moto, "fauxqs": standin.Fauxqs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sqs.NewFromConfig(standin.Config(start(t)))
			q, err := c.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(unique("answers"))})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: q.QueueUrl, MessageBody: aws.String("one")}); err != nil {
				t.Fatal(err)
			}
			got, err := c.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: q.QueueUrl, WaitTimeSeconds: 5})
			if err != nil || len(got.Messages) != 1 {
				t.Fatalf("received %d messages, %v, want 1", len(got.Messages), err)
			}
		})
	}
}

// Receivers that give up in the middle of their wait take no message along.
func TestReceiverLeaves(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) string{"moto": standin.Moto, "fauxqs": standin.Fauxqs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := sqs.NewFromConfig(standin.Config(start(t)))
			q, err := c.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(unique("leaves"))})
			if err != nil {
				t.Fatal(err)
			}
			impatient, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			var leave errgroup.Group
			for range 8 {
				leave.Go(func() error {
					_, err := c.ReceiveMessage(impatient, &sqs.ReceiveMessageInput{QueueUrl: q.QueueUrl, WaitTimeSeconds: 20})
					return err
				})
			}
			if err := leave.Wait(); !errors.Is(err, context.DeadlineExceeded) {
				t.Fatalf("the receivers that leave: %v", err)
			}
			if _, err := c.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: q.QueueUrl, MessageBody: aws.String("one")}); err != nil {
				t.Fatal(err)
			}
			for range 20 { // long enough for any of them to take it
				if _, err := c.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: q.QueueUrl}); err != nil {
					t.Fatal(err)
				}
			}
			got, err := c.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: q.QueueUrl, WaitTimeSeconds: 2})
			if err != nil || len(got.Messages) != 1 {
				t.Errorf("the next receiver got %d messages, %v, want 1", len(got.Messages), err)
			}
		})
	}
}

// Behind the lock of serve.py moto neither loses updates nor gives one message to two receivers.
func TestParallelRequestsToMoto(t *testing.T) {
	t.Parallel()
	const n = 100
	tables := newTables(t, standin.Moto(t), "parallel")
	queues := newQueues(standin.Moto(t))
	url := queues.queue(t, "", nil)
	var writers errgroup.Group
	for i := range n {
		writers.Go(func() error { return tables.update(t, "ADD n :0", "", number("1")) })
		writers.Go(func() error { return queues.send(t, url, fmt.Sprint(i)) })
	}
	if err := writers.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := tables.get(t, "n"); got != fmt.Sprint(n) {
		t.Errorf("the sum of %d updates is %s", n, got)
	}
	received := make(chan string, 10*n)
	var receivers errgroup.Group
	for range n {
		receivers.Go(func() error {
			got, err := queues.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10})
			if err == nil {
				for _, m := range got.Messages {
					received <- *m.Body
				}
			}
			return err
		})
	}
	if err := receivers.Wait(); err != nil {
		t.Fatal(err)
	}
	close(received)
	times := map[string]int{}
	for body := range received {
		times[body]++
	}
	if len(times) != n {
		t.Errorf("received %d different messages, want %d", len(times), n)
	}
	for body, k := range times {
		if k != 1 {
			t.Errorf("message %s was received %d times", body, k)
		}
	}
}

// npm would write the address of the registry that it was run with.
func TestLockFileNamesNoRegistry(t *testing.T) {
	t.Parallel()
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(lock), `"resolved"`) {
		t.Error("package-lock.json names a registry; remove each \"resolved\" from it")
	}
}
