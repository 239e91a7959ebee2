package stack_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cloudwatchtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/stack"
	"github.com/awsmp/metering/internal/standin"
)

// put sends messages to a queue, each with an attribute.
func (w *world) put(t *testing.T, queue string, bodies ...string) {
	t.Helper()
	for _, body := range bodies {
		must[*sqs.SendMessageOutput](t)(w.sqs.SendMessage(t.Context(), &sqs.SendMessageInput{
			QueueUrl: w.url(t, queue), MessageBody: aws.String(body),
			MessageAttributes: map[string]sqstypes.MessageAttributeValue{"ERROR_CODE": {DataType: aws.String("String"), StringValue: aws.String("of " + body)}},
		}))
	}
}

// take takes all messages out of a queue, as body and attribute, in order.
func (w *world) take(t *testing.T, queue string) (all []string) {
	t.Helper()
	for {
		out := must[*sqs.ReceiveMessageOutput](t)(w.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: w.url(t, queue), MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"}}))
		for _, m := range out.Messages {
			all = append(all, aws.ToString(m.Body)+" "+aws.ToString(m.MessageAttributes["ERROR_CODE"].StringValue))
			must[*sqs.DeleteMessageOutput](t)(w.sqs.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: w.url(t, queue), ReceiptHandle: m.ReceiptHandle}))
		}
		if len(out.Messages) == 0 {
			slices.Sort(all)
			return all
		}
	}
}

func bodies(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf("message %02d", i))
	}
	return list
}

func withAttributes(bodies []string) (list []string) {
	for _, b := range bodies {
		list = append(list, b+" of "+b)
	}
	return list
}

// The queues of dead letters and where they came from.
func deadLetters() map[string]string {
	return map[string]string{"work-dlq": "work", "deprovision-work-dlq": "deprovision-work", "cleanup-dlq": "cleanup", "events-dlq": "events", "events-undelivered": "events"}
}

func allQueues(t *testing.T, w *world) {
	t.Run("seen", func(t *testing.T) { seen(t, w) })
	t.Run("letters", func(t *testing.T) { letters(t, w) })
	t.Run("redriven", func(t *testing.T) { redriven(t, w) })
	t.Run("redriven in trouble", func(t *testing.T) { inTrouble(t, w) })
}

func seen(t *testing.T, w *world) {
	names := []string{"work", "work-dlq", "deprovision-work", "deprovision-work-dlq", "cleanup", "cleanup-dlq", "events", "events-dlq", "events-undelivered"}
	t.Run("empty", func(t *testing.T) {
		var want []desk.Queue
		for _, name := range names {
			want = append(want, desk.Queue{Name: name, Dead: deadLetters()[name] != ""})
		}
		got := must[[]desk.Queue](t)(w.Queues(t.Context()))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("queues (-want +got):\n%s", diff)
		}
	})
	t.Run("with messages", func(t *testing.T) {
		w.put(t, "work", bodies(3)...)
		must[*sqs.ReceiveMessageOutput](t)(w.sqs.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: w.url(t, "work"), MaxNumberOfMessages: 1}))
		w.put(t, "events-undelivered", "an event")
		now := time.Now()
		must[*cloudwatch.PutMetricDataOutput](t)(w.cloudwatch.PutMetricData(t.Context(), &cloudwatch.PutMetricDataInput{
			Namespace: aws.String("AWS/SQS"), MetricData: []cloudwatchtypes.MetricDatum{
				age(w.queue("work"), now.Add(-6*time.Minute), 1500), age(w.queue("work"), now.Add(-2*time.Minute), 1800),
				age(w.queue("cleanup"), now.Add(-2*time.Minute), 60), // it is empty by now
			},
		}))
		s := w.open(t, stack.Options{Now: func() time.Time { return now.Add(3*time.Hour + 10*time.Minute) }})
		got := must[[]desk.Queue](t)(w.Queues(t.Context()))
		later := must[[]desk.Queue](t)(s.Queues(t.Context()))
		for _, want := range []desk.Queue{{Name: "work", Visible: 2, InFlight: 1, Oldest: "30m0s"}, {Name: "cleanup"}} {
			if i := slices.Index(names, want.Name); !cmp.Equal(got[i], want) {
				t.Errorf("got %+v, want %+v", got[i], want)
			}
		}
		i := slices.Index(names, "events-undelivered")
		if want := (desk.Queue{Name: "events-undelivered", Dead: true, Visible: 1}); !cmp.Equal(later[i], want, cmpopts.IgnoreFields(desk.Queue{}, "Oldest")) || !strings.HasPrefix(later[i].Oldest, "3h") {
			t.Errorf("got %+v, want one message that is three hours old", later[i])
		}
		for _, name := range []string{"work", "events-undelivered"} {
			must[*sqs.PurgeQueueOutput](t)(w.sqs.PurgeQueue(t.Context(), &sqs.PurgeQueueInput{QueueUrl: w.url(t, name)}))
		}
	})
}

func age(queue string, at time.Time, seconds float64) cloudwatchtypes.MetricDatum {
	return cloudwatchtypes.MetricDatum{
		MetricName: aws.String("ApproximateAgeOfOldestMessage"), Timestamp: &at, Value: &seconds,
		Dimensions: []cloudwatchtypes.Dimension{{Name: aws.String("QueueName"), Value: &queue}},
	}
}

// letters stay, and are shown once each whatever their number.
func letters(t *testing.T, w *world) {
	sent := bodies(23)
	w.put(t, "work-dlq", sent...)
	for _, tt := range []struct{ limit, want int }{{5, 5}, {100, 23}, {100, 23}} {
		letters, err := w.Letters(t.Context(), "work-dlq", tt.limit)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, l := range letters {
			if l.ID == "" || l.Queue != "work-dlq" || l.Receives == 0 || time.Since(l.SentAt) > time.Hour {
				t.Errorf("letter %+v", l)
			}
			got = append(got, l.Body)
		}
		slices.Sort(got)
		if len(got) != tt.want || len(slices.Compact(slices.Clone(got))) != tt.want {
			t.Errorf("with a limit of %d got %q", tt.limit, got)
		}
	}
	if letters, err := w.Letters(t.Context(), "cleanup-dlq", 10); err != nil || len(letters) > 0 {
		t.Errorf("of an empty queue: %v, %v", letters, err)
	}
	if got := w.take(t, "work-dlq"); !cmp.Equal(got, withAttributes(sent)) {
		t.Errorf("afterwards the queue holds %q", got)
	}
	_, err := w.Letters(t.Context(), "work", 10)
	if want := "find the queue (work): the stack has no dead letters of this name. Try: one of work-dlq, deprovision-work-dlq, cleanup-dlq, events-dlq, events-undelivered"; err == nil || err.Error() != want {
		t.Errorf("of a queue without dead letters: %v, want %s", err, want)
	}
}

func redriven(t *testing.T, w *world) {
	t.Run("each", func(t *testing.T) {
		for _, froms := range [][]string{{"work-dlq"}, {"deprovision-work-dlq"}, {"cleanup-dlq"}, {"events-dlq", "events-undelivered"}} {
			for _, from := range froms {
				t.Run(from, func(t *testing.T) {
					if len(froms) == 1 { // the others share a queue
						t.Parallel()
					}
					redrivenFrom(t, w, from, deadLetters()[from])
				})
			}
		}
	})
	t.Run("no such queue", func(t *testing.T) {
		if n, err := w.Redrive(t.Context(), "events", nil); n != 0 || awsapi.ClassOf(err) != awsapi.Invalid {
			t.Errorf("moved %d, %v", n, err)
		}
	})
}

func redrivenFrom(t *testing.T, w *world, from, to string) {
	sent := bodies(13)
	w.put(t, from, sent...)
	var told []int
	n, err := w.Redrive(t.Context(), from, func(n int) { told = append(told, n) })
	if err != nil || n != len(sent) || len(told) != n || told[n-1] != n {
		t.Errorf("moved %d, %v, and told %v", n, err, told)
	}
	if got := w.take(t, to); !cmp.Equal(got, withAttributes(sent)) {
		t.Errorf("%s holds %q", to, got)
	}
	if left := w.take(t, from); len(left) > 0 {
		t.Errorf("%s still holds %q", from, left)
	}
	if n, err := w.Redrive(t.Context(), from, nil); n != 0 || err != nil {
		t.Errorf("once more moved %d, %v", n, err)
	}
}

// through is the stack as seen through a proxy.
func (w *world) through(t *testing.T) (*stack.Stack, *standin.Proxy) {
	t.Helper()
	proxy := standin.NewProxy(t, w.Endpoint)
	return w.open(t, stack.Options{Config: func(ctx context.Context, region string) (aws.Config, error) {
		cfg, err := w.Config(ctx, region)
		cfg.BaseEndpoint, cfg.Retryer = &proxy.URL, func() aws.Retryer { return aws.NopRetryer{} }
		return cfg, err
	}}), proxy
}

func inTrouble(t *testing.T, w *world) {
	s, proxy := w.through(t)
	refuse := func(operation string, which func(body string) bool, action standin.Action) {
		proxy.Intercept(func(c standin.Call) standin.Action {
			if c.Operation == operation && which(string(c.Body)) {
				return action
			}
			return standin.Action{}
		})
	}
	any := func(string) bool { return true }
	t.Run("a message that is refused stays and is named", func(t *testing.T) {
		sent := bodies(12)
		w.put(t, "work-dlq", sent...)
		refuse("SendMessage", func(body string) bool { return strings.Contains(body, "message 03") }, standin.Exception(400, "InvalidMessageContents", "not allowed"))
		n, err := s.Redrive(t.Context(), "work-dlq", nil)
		if n != 11 || err == nil || !strings.HasPrefix(err.Error(), "it stays in work-dlq: send message ") || !strings.Contains(err.Error(), "not allowed (InvalidMessageContents)") {
			t.Errorf("moved %d, %v", n, err)
		}
		if got := w.take(t, "work-dlq"); !cmp.Equal(got, []string{"message 03 of message 03"}) {
			t.Errorf("the queue holds %q", got)
		}
		if got := w.take(t, "work"); len(got) != 11 {
			t.Errorf("moved %q", got)
		}
	})
	t.Run("what nobody may send stays, all of it", func(t *testing.T) {
		sent := bodies(12)
		w.put(t, "cleanup-dlq", sent...)
		refuse("SendMessage", any, standin.Exception(400, "AccessDeniedException", "not you"))
		n, err := s.Redrive(t.Context(), "cleanup-dlq", nil)
		if n != 0 || awsapi.ClassOf(err) != awsapi.Denied || !strings.Contains(err.Error(), "IAM action sqs:SendMessage on "+w.queue("cleanup")) || strings.Count(err.Error(), "send message") != 1 {
			t.Errorf("moved %d, %v", n, err)
		}
		if got := w.take(t, "cleanup-dlq"); !cmp.Equal(got, withAttributes(sent)) {
			t.Errorf("the queue holds %q", got)
		}
	})
	t.Run("interrupted between send and delete it is in both", func(t *testing.T) {
		w.put(t, "events-dlq", "an event")
		refuse("DeleteMessage", any, standin.Action{Cut: true})
		n, err := s.Redrive(t.Context(), "events-dlq", nil)
		if n != 0 || err == nil || !strings.Contains(err.Error(), "is in both queues, which does no harm") {
			t.Errorf("moved %d, %v", n, err)
		}
		if from, to := w.take(t, "events-dlq"), w.take(t, "events"); len(from) != 1 || len(to) != 1 {
			t.Errorf("%q and %q", from, to)
		}
	})
	t.Run("an interrupt ends it after a message, and the rest can be moved then", func(t *testing.T) {
		sent := bodies(25)
		w.put(t, "work-dlq", sent...)
		proxy.Intercept(nil)
		ctx, interrupt := context.WithCancel(t.Context())
		n, err := s.Redrive(ctx, "work-dlq", func(n int) {
			if n == 7 {
				interrupt()
			}
		})
		if n != 7 || !errors.Is(err, context.Canceled) {
			t.Errorf("moved %d, %v", n, err)
		}
		if n, err := s.Redrive(t.Context(), "work-dlq", nil); n != 18 || err != nil {
			t.Errorf("then moved %d, %v", n, err)
		}
		if got := w.take(t, "work"); !cmp.Equal(got, withAttributes(sent)) {
			t.Errorf("the queue holds %q", got)
		}
	})
	t.Run("what comes back at once is left", func(t *testing.T) {
		w.put(t, "deprovision-work-dlq", bodies(3)...)
		answers := 0
		proxy.Intercept(func(c standin.Call) standin.Action {
			if c.Operation == "SendMessage" { // the function fails and the message is given up, before the next is received
				answers++
				out := must[*sqs.SendMessageOutput](t)(w.sqs.SendMessage(context.Background(), &sqs.SendMessageInput{QueueUrl: w.url(t, "deprovision-work-dlq"), MessageBody: aws.String("back")}))
				return standin.Action{Status: 200, Body: fmt.Sprintf(`{"MessageId":%q}`, *out.MessageId)}
			}
			return standin.Action{}
		})
		n, err := s.Redrive(t.Context(), "deprovision-work-dlq", nil)
		if n != 3 || err != nil || answers != 3 {
			t.Errorf("moved %d in %d calls, %v", n, answers, err)
		}
		if got := w.take(t, "deprovision-work-dlq"); len(got) != 3 {
			t.Errorf("the queue holds %q", got)
		}
	})
}
