package standin_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/awsmp/metering/internal/standin"
)

// service answers every call with one body, and counts them.
type service struct {
	*httptest.Server
	served atomic.Int32
}

func newService(t *testing.T, status int, answer string, header ...string) *service {
	s := &service{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.served.Add(1)
		if len(header) > 0 {
			w.Header().Set(header[0], header[1])
		}
		w.Header().Set("Called-By", r.Host)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s
}

func call(ctx context.Context, url, target, body string) (int, string, http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return 0, "", nil, err
	}
	if target != "" {
		r.Header.Set("X-Amz-Target", target)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer), resp.Header, err
}

func TestProxyRecords(t *testing.T) {
	t.Parallel()
	const dynamo, queue, market = "DynamoDB_20120810.", "AmazonSQS.", "AWSMPMeteringService."
	for name, tt := range map[string]struct {
		target, body, answer string
		status               int
		header               []string
		want                 standin.Call
	}{
		"table": {
			target: dynamo + "PutItem", body: `{"TableName":"usage"}`, answer: `{"ConsumedCapacity":{"TableName":"usage","CapacityUnits":3}}`,
			want: standin.Call{Service: "dynamodb", Operation: "PutItem", Resource: "usage", Capacity: 3},
		},
		"index": {
			target: dynamo + "Query", body: `{"TableName":"usage","IndexName":"metering_pending"}`, answer: `{"Count":2,"Items":[{},{}],"ScannedCount":2}`,
			want: standin.Call{Service: "dynamodb", Operation: "Query", Resource: "usage/metering_pending", Items: 2},
		},
		"batch": {
			target: dynamo + "BatchWriteItem", body: `{"RequestItems":{"usage":[{"PutRequest":{}},{"DeleteRequest":{}}],"books":[{"PutRequest":{}}]}}`,
			answer: `{"UnprocessedItems":{},"ConsumedCapacity":[{"CapacityUnits":2},{"CapacityUnits":1.5}]}`,
			want:   standin.Call{Service: "dynamodb", Operation: "BatchWriteItem", Resource: "books,usage", Entries: 3, Capacity: 3.5},
		},
		"get in batch": {
			target: dynamo + "BatchGetItem", body: `{"RequestItems":{"usage":{"Keys":[{},{}],"ConsistentRead":true}}}`, answer: `{}`,
			want: standin.Call{Service: "dynamodb", Operation: "BatchGetItem", Resource: "usage", Entries: 2},
		},
		"transaction": {
			target: dynamo + "TransactWriteItems", body: `{"TransactItems":[{"Update":{"TableName":"usage"}},{"Put":{"TableName":"usage"}}]}`, answer: `{}`,
			want: standin.Call{Service: "dynamodb", Operation: "TransactWriteItems", Resource: "usage", Entries: 2},
		},
		"failed condition": {
			target: dynamo + "UpdateItem", body: `{"TableName":"usage"}`, status: 400,
			answer: `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException","message":"The conditional request failed"}`,
			want:   standin.Call{Service: "dynamodb", Operation: "UpdateItem", Resource: "usage", Status: 400, Exception: "ConditionalCheckFailedException"},
		},
		"messages sent": {
			target: queue + "SendMessageBatch", body: `{"QueueUrl":"http://127.0.0.1:1/000000000000/work","Entries":[{"Id":"0"},{"Id":"1"}]}`, answer: `{}`,
			want: standin.Call{Service: "sqs", Operation: "SendMessageBatch", Resource: "work", Entries: 2},
		},
		"messages received": {
			target: queue + "ReceiveMessage", body: `{"QueueUrl":"http://127.0.0.1:1/000000000000/work"}`, answer: `{"Messages":[{},{},{}]}`,
			want: standin.Call{Service: "sqs", Operation: "ReceiveMessage", Resource: "work", Items: 3},
		},
		"queue by name": {
			target: queue + "GetQueueUrl", body: `{"QueueName":"work"}`, status: 400, answer: `{}`, header: []string{"X-Amzn-Errortype", "QueueDoesNotExist:"},
			want: standin.Call{Service: "sqs", Operation: "GetQueueUrl", Resource: "work", Status: 400, Exception: "QueueDoesNotExist"},
		},
		"metering": {
			target: market + "BatchMeterUsage", body: `{"ProductCode":"prod-1","UsageRecords":[{}]}`, answer: `{}`,
			want: standin.Call{Service: "marketplacemetering", Operation: "BatchMeterUsage", Resource: "prod-1", Entries: 1},
		},
		"anything else": {
			body: `no JSON`, answer: `none either`, want: standin.Call{Operation: "POST /"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.status == 0 {
				tt.status, tt.want.Status = 200, 200
			}
			s := newService(t, tt.status, tt.answer, tt.header...)
			p := standin.NewProxy(t, s.URL)
			status, answer, header, err := call(t.Context(), p.URL, tt.target, tt.body)
			if err != nil || status != tt.status || answer != tt.answer {
				t.Errorf("answer %d %q, %v, want %d %q", status, answer, err, tt.status, tt.answer)
			}
			if got := "http://" + header.Get("Called-By"); got != p.URL {
				t.Errorf("the target was called as %s, want %s", got, p.URL)
			}
			tt.want.Body = []byte(tt.body)
			if diff := cmp.Diff([]standin.Call{tt.want}, p.Calls()); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if got := p.Count(tt.want.Operation, tt.want.Resource); got != 1 {
				t.Errorf("counted %d calls, want 1", got)
			}
			p.Forget()
			if got := p.Calls(); len(got) > 0 {
				t.Errorf("still %d calls", len(got))
			}
		})
	}
}

func TestProxyActions(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	close(closed)
	for name, tt := range map[string]struct {
		do     standin.Action
		served int32
		answer string // empty: the connection is closed
		want   standin.Call
	}{
		"pass":   {served: 1, answer: `200 {"Count":1}`, want: standin.Call{Status: 200, Items: 1}},
		"answer": {do: standin.Action{Status: 503, Body: "busy"}, answer: "503 busy", want: standin.Call{Status: 503}},
		"exception": {
			do:     standin.Exception(400, "ThrottlingException", "slow down"),
			answer: `400 {"__type":"ThrottlingException","message":"slow down"}`,
			want:   standin.Call{Status: 400, Exception: "ThrottlingException"},
		},
		"drop":            {do: standin.Action{Drop: true}, served: 1, want: standin.Call{Status: 200, Items: 1, Lost: true}},
		"cut":             {do: standin.Action{Cut: true}},
		"released":        {do: standin.Action{Hold: closed}, served: 1, answer: `200 {"Count":1}`, want: standin.Call{Status: 200, Items: 1}},
		"released to cut": {do: standin.Action{Hold: closed, Cut: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newService(t, 200, `{"Count":1}`)
			p := standin.NewProxy(t, s.URL)
			p.Intercept(func(c standin.Call) standin.Action {
				if c.Operation == "Query" {
					return tt.do
				}
				return standin.Action{}
			})
			status, answer, _, err := call(t.Context(), p.URL, "DynamoDB_20120810.Query", `{"TableName":"usage"}`)
			switch {
			case tt.answer == "" && !errors.Is(err, io.EOF):
				t.Errorf("answer %d %q, %v, want a closed connection", status, answer, err)
			case tt.answer != "" && (err != nil || fmt.Sprint(status, " ", answer) != tt.answer):
				t.Errorf("answer %d %q, %v, want %s", status, answer, err, tt.answer)
			}
			if got := s.served.Load(); got != tt.served {
				t.Errorf("the target saw %d calls, want %d", got, tt.served)
			}
			tt.want.Service, tt.want.Operation, tt.want.Resource = "dynamodb", "Query", "usage"
			if diff := cmp.Diff([]standin.Call{tt.want}, p.Calls(), cmpopts.IgnoreFields(standin.Call{}, "Body")); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if _, _, _, err := call(t.Context(), p.URL, "DynamoDB_20120810.GetItem", `{}`); err != nil {
				t.Errorf("another operation: %v", err)
			}
			p.Intercept(nil)
			if _, _, _, err := call(t.Context(), p.URL, "DynamoDB_20120810.Query", `{}`); err != nil {
				t.Errorf("after the faults: %v", err)
			}
		})
	}
}

// A held call waits while others pass, and leaves with its caller.
func TestProxyHolds(t *testing.T) {
	t.Parallel()
	s := newService(t, 200, `{}`)
	p := standin.NewProxy(t, s.URL)
	arrived := make(chan struct{}, 2)
	release := make(chan struct{})
	p.Intercept(func(c standin.Call) standin.Action {
		if c.Operation != "Query" {
			return standin.Action{}
		}
		arrived <- struct{}{}
		return standin.Action{Hold: release}
	})
	first, second := make(chan error, 1), make(chan error, 1)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	ask := func(ctx context.Context, done chan error) {
		_, _, _, err := call(ctx, p.URL, "DynamoDB_20120810.Query", `{}`)
		done <- err
	}
	go ask(t.Context(), first)
	<-arrived
	go ask(ctx, second)
	<-arrived
	if _, _, _, err := call(t.Context(), p.URL, "DynamoDB_20120810.GetItem", `{}`); err != nil {
		t.Errorf("a call beside the held ones: %v", err)
	}
	if got := s.served.Load(); got != 1 {
		t.Errorf("the target saw %d calls, want the one that is not held", got)
	}
	leave()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that left: %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Errorf("the released call: %v", err)
	}
}

// A test that forgets to release a call ends all the same.
func TestProxyEndsWithHeldCalls(t *testing.T) {
	t.Parallel()
	done := make(chan error, 1)
	t.Run("holding", func(t *testing.T) {
		s := newService(t, 200, `{}`)
		p := standin.NewProxy(t, s.URL)
		arrived := make(chan struct{})
		p.Intercept(func(standin.Call) standin.Action {
			close(arrived)
			return standin.Action{Hold: make(chan struct{})}
		})
		go func() {
			_, _, _, err := call(context.WithoutCancel(t.Context()), p.URL, "", "")
			done <- err
		}()
		<-arrived
	})
	if err := <-done; !errors.Is(err, io.EOF) {
		t.Errorf("the held call: %v, want a closed connection", err)
	}
}

func TestProxyWithoutTarget(t *testing.T) {
	t.Parallel()
	s := newService(t, 200, "")
	s.Close()
	p := standin.NewProxy(t, s.URL)
	if status, _, _, err := call(t.Context(), p.URL, "", ""); status != http.StatusBadGateway {
		t.Errorf("answer %d, %v, want 502", status, err)
	}
}

// A receiver that leaves is gone for the target too, and takes no message along. Any other call is finished for whoever left.
func TestProxyTellsOfReceiversThatLeave(t *testing.T) {
	t.Parallel()
	for operation, told := range map[string]bool{"ReceiveMessage": true, "SendMessage": false} {
		t.Run(operation, func(t *testing.T) {
			t.Parallel()
			arrived, release, left := make(chan struct{}), make(chan struct{}), make(chan bool, 1)
			target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				close(arrived)
				select {
				case <-r.Context().Done():
				case <-release:
				}
				left <- r.Context().Err() != nil
			}))
			t.Cleanup(target.Close)
			p := standin.NewProxy(t, target.URL)
			ctx, leave := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() {
				_, _, _, err := call(ctx, p.URL, "AmazonSQS."+operation, "{}")
				done <- err
			}()
			<-arrived
			leave()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that left: %v", err)
			}
			if !told {
				close(release)
			}
			if got := <-left; got != told {
				t.Errorf("the target was told: %v, want %v", got, told)
			}
		})
	}
}
