package sqs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/queue/queuetest"
	"github.com/awsmp/metering/internal/queue/sqs"
	"github.com/awsmp/metering/internal/standin"
)

var _ pipeline.Queue = (*sqs.Queue)(nil)

func TestMain(m *testing.M) {
	code := m.Run()
	standin.Stop()
	os.Exit(code)
}

func TestContract(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) string{"moto": standin.Moto, "fauxqs": standin.Fauxqs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := awssqs.NewFromConfig(standin.Config(start(t)))
			queuetest.Run(t, func(t *testing.T, o queuetest.Options) queuetest.Setup {
				s := queuetest.Setup{Advance: time.Sleep} // the service's clock is the wall clock
				attributes := map[string]string{"VisibilityTimeout": strconv.Itoa(int(o.Visibility / time.Second))}
				if o.MaxReceive > 0 {
					url := create(t, client, attributes)
					dead := sqs.New(client, url)
					s.DeadLetters = dead
					arn, err := client.GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{"QueueArn"}})
					if err != nil {
						t.Fatal(err)
					}
					attributes["RedrivePolicy"] = fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"%d"}`, arn.Attributes["QueueArn"], o.MaxReceive)
				}
				s.Queue = sqs.New(client, create(t, client, attributes))
				return s
			})
		})
	}
}

var serial atomic.Int64

// create makes a queue of the test's own.
func create(t *testing.T, client *awssqs.Client, attributes map[string]string) (url string) {
	t.Helper()
	name := fmt.Sprintf("awsmp-prod-1-work-%d", serial.Add(1))
	out, err := client.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		t.Fatal(err)
	}
	return aws.ToString(out.QueueUrl)
}

// refusedBy answers every call with an exception.
func refusedBy(status int, name, message string) func(standin.Call) standin.Action {
	return func(standin.Call) standin.Action { return standin.Exception(status, name, message) }
}

// Every method says what was done to which queue, what kind of failure it is and what helps.
func TestErrors(t *testing.T) {
	t.Parallel()
	elsewhere := func(o *awssqs.Options) { o.Region = "eu-west-1" }
	for name, tt := range map[string]struct {
		intercept func(standin.Call) standin.Action
		client    func(*awssqs.Options)
		address   func(testing.TB) string
		url       string
		class     awsapi.Class
		hint      string
	}{
		"expired credential": {
			intercept: refusedBy(400, "ExpiredTokenException", "The security token included in the request is expired"),
			class:     awsapi.Credentials, hint: "aws sts get-caller-identity",
		},
		"no credentials": {
			client: func(o *awssqs.Options) {
				o.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
					return aws.Credentials{}, errors.New("no role, no environment")
				})
			},
			class: awsapi.Credentials, hint: "aws sts get-caller-identity",
		},
		"not allowed": {
			intercept: refusedBy(403, "AccessDeniedException", "User is not authorized to perform this"),
			class:     awsapi.Denied, hint: "IAM action sqs:",
		},
		"throttled":           {intercept: refusedBy(400, "RequestThrottled", "slow down"), class: awsapi.Throttled},
		"service down":        {intercept: refusedBy(503, "ServiceUnavailable", "not now"), class: awsapi.Unavailable},
		"connection lost":     {intercept: func(standin.Call) standin.Action { return standin.Action{Cut: true} }, class: awsapi.Unavailable},
		"no such queue":       {url: "https://sqs.us-east-1.amazonaws.com/111122223333/awsmp-prod-1-wrok", class: awsapi.Missing, hint: "aws sqs get-queue-url --queue-name awsmp-prod-1-wrok"},
		"no such queue, moto": {address: standin.Moto, url: "https://sqs.us-east-1.amazonaws.com/111122223333/awsmp-prod-1-wrok", class: awsapi.Missing, hint: "aws sqs get-queue-url"},
		"wrong Region":        {address: standin.Moto, client: elsewhere, class: awsapi.Missing, hint: "AWS_REGION"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := standin.Fauxqs
			if tt.address != nil {
				start = tt.address
			}
			address := start(t)
			url, resource := create(t, awssqs.NewFromConfig(standin.Config(address)), nil), ""
			if tt.url != "" {
				url = tt.url
			}
			resource = path.Base(url)
			p := standin.NewProxy(t, address)
			p.Intercept(tt.intercept)
			cfg := standin.Config(p.URL)
			cfg.RetryMaxAttempts = 1
			q := sqs.New(awssqs.NewFromConfig(cfg, func(o *awssqs.Options) {
				if tt.client != nil {
					tt.client(o)
				}
			}), url)
			_, sent := q.Send(t.Context(), []string{"a"})
			_, received := q.Receive(t.Context(), 1)
			for operation, err := range map[string]error{
				"send messages": sent, "receive messages": received, "delete message": q.Delete(t.Context(), "r"),
				"change visibility of message": q.Extend(t.Context(), "r", time.Minute),
			} {
				if got := awsapi.ClassOf(err); got != tt.class {
					t.Errorf("%s: class %s of %v, want %s", operation, got, err, tt.class)
					continue
				}
				if text := err.Error(); !strings.HasPrefix(text, operation+" ("+resource+"): ") || !strings.Contains(text, tt.hint) {
					t.Errorf("%s: %q, want the queue %s and the hint %q", operation, text, resource, tt.hint)
				}
			}
		})
	}
}

// A reply that was lost, and a throttled call, are the SDK's to repeat: the same message may then be there twice.
func TestSendLosesReply(t *testing.T) {
	t.Parallel()
	address := standin.Fauxqs(t)
	client := awssqs.NewFromConfig(standin.Config(address))
	url := create(t, client, nil)
	p := standin.NewProxy(t, address)
	first := true
	p.Intercept(func(standin.Call) standin.Action {
		drop := first
		first = false
		return standin.Action{Drop: drop}
	})
	q := sqs.New(awssqs.NewFromConfig(standin.Config(p.URL)), url)
	if refused, err := q.Send(t.Context(), []string{"a"}); err != nil || len(refused) != 0 {
		t.Fatalf("%v refused, %v", refused, err)
	}
	got, err := sqs.New(client, url).Receive(t.Context(), 10)
	if err != nil || len(got) != 2 || got[0].Body != "a" || got[1].Body != "a" {
		t.Errorf("%+v, %v: want the message twice", got, err)
	}
}

func TestReceive(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB) string{"moto": standin.Moto, "fauxqs": standin.Fauxqs} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := start(t)
			url := create(t, awssqs.NewFromConfig(standin.Config(address)), nil)
			p := standin.NewProxy(t, address)
			q := sqs.New(awssqs.NewFromConfig(standin.Config(p.URL)), url)
			from := time.Now().Add(-time.Minute)
			for _, body := range []string{"a", "b", "c"} {
				if _, err := q.Send(t.Context(), []string{body}); err != nil {
					t.Fatal(err)
				}
			}
			for _, limit := range []int{0, -1} {
				if got, err := q.Receive(t.Context(), limit); err != nil || len(got) != 0 {
					t.Errorf("limit %d: %v, %v", limit, got, err)
				}
			}
			got, err := q.Receive(t.Context(), 2)
			if err != nil || len(got) != 2 {
				t.Fatalf("%v, %v, want 2", got, err)
			}
			for _, d := range got {
				if d.Receives != 1 || d.SentAt.Before(from) || d.SentAt.After(from.Add(2*time.Minute)) || d.SentAt.Location() != time.UTC {
					t.Errorf("%+v, sent at about %v", d, from)
				}
			}
			if got, err := q.Receive(t.Context(), 99); err != nil || len(got) != 1 {
				t.Errorf("%v, %v, want what is left", got, err)
			}

			p.Forget()
			q.Wait = time.Second
			if got, err := q.Receive(t.Context(), 10); err != nil || len(got) != 0 {
				t.Errorf("%v, %v, want nothing", got, err)
			}
			asked := p.Calls()
			if len(asked) != 1 || !strings.Contains(string(asked[0].Body), `"WaitTimeSeconds":1`) {
				t.Errorf("calls %+v, want one that waits", asked)
			}
		})
	}
}

// A delivery that is over is nobody's to extend, and that is no error; a receipt that never was one is.
func TestExtendWhatIsOver(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer standin.Action
		ok     bool
	}{
		"visible again": {standin.Exception(400, "com.amazonaws.sqs#MessageNotInflight", "not in flight"), true},
		"gone": {standin.Exception(400, "com.amazonaws.sqs#InvalidParameterValue",
			"Value r for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for visibility timeout change."), true},
		"no receipt":   {standin.Exception(400, "com.amazonaws.sqs#ReceiptHandleIsInvalid", "The input receipt handle is invalid."), false},
		"another time": {standin.Exception(400, "com.amazonaws.sqs#InvalidParameterValue", "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := standin.Fauxqs(t)
			p := standin.NewProxy(t, address)
			p.Intercept(func(standin.Call) standin.Action { return tt.answer })
			q := sqs.New(awssqs.NewFromConfig(standin.Config(p.URL)), "https://sqs.us-east-1.amazonaws.com/111122223333/awsmp-prod-1-work")
			if err := q.Extend(t.Context(), "r", 1500*time.Millisecond); (err == nil) != tt.ok {
				t.Errorf("Extend: %v", err)
			}
			if body := string(p.Calls()[0].Body); !strings.Contains(body, `"VisibilityTimeout":2`) {
				t.Errorf("asked %s, want whole seconds, rounded up", body)
			}
			if err := q.Release(t.Context(), "r"); (err == nil) != tt.ok {
				t.Errorf("Release: %v", err)
			}
			if body := string(p.Calls()[1].Body); !strings.Contains(body, `"VisibilityTimeout":0`) {
				t.Errorf("asked %s, want 0", body)
			}
		})
	}
}
