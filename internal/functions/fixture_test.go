package functions_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/awsmp/metering/internal/functions"
)

var now = time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)

// environment holds a right value of every variable of every function.
func environment() map[string]string {
	return map[string]string{
		"AWS_REGION": "eu-west-1", "LOG_LEVEL": "INFO", "PRODUCT_CODE": "example", "METERING_MODE": "live",
		"USAGE_TABLE": "awsmp-example-usage", "AGGREGATED_USAGE_TABLE": "awsmp-example-aggregated-usage",
		"SUBSCRIBERS_TABLE": "awsmp-subscribers", "SUBSCRIBERS_TABLE_REGION": "us-east-1",
		"WORK_QUEUE_URL":             "https://sqs.eu-west-1.amazonaws.com/111122223333/awsmp-example-work",
		"DEPROVISION_WORK_QUEUE_URL": "https://sqs.eu-west-1.amazonaws.com/111122223333/awsmp-example-deprovision-work",
		"CLEANUP_QUEUE_URL":          "https://sqs.eu-west-1.amazonaws.com/111122223333/awsmp-example-cleanup",
		"METERING_LOCK_HOURS":        "1", "MAX_RECORDS_PER_RUN": "50000", "METERING_CALLS_PER_SECOND": "10",
		"SUBMISSION": "enabled", "USAGE_TTL_DAYS": "365", "AGGREGATED_USAGE_TTL_DAYS": "0",
		"TEST_STAGE": "none", "TEST_ACCOUNTS": "none",
		"CUSTOMER_PROFILE_TABLE": "awsmp-example-customer-profile", "REGISTRATION_FIELDS": "contactName*,contactEmail*,companyName",
		"PROMOTED_FIELDS": "companyName", "SELLER_NAME": "Example Corp.", "PRODUCT_NAME": "Example", "SUPPORT_CONTACT": "help@example.com",
		"CONTINUE_URL": "https://www.example.com/start", "ALLOWED_ORIGIN": "none",
	}
}

// changed is the environment with some variables changed; an empty value takes one away.
func changed(changes map[string]string) func(string) string {
	all := environment()
	maps.Copy(all, changes)
	return func(name string) string { return all[name] }
}

// service answers for all of AWS: its tables and queues are empty, unless answer says otherwise. It keeps what it was asked.
type service struct {
	mu    sync.Mutex
	calls []string // Region service operation
	fail  func(call string) (status int, body string)
	// answer is the body of an answer; an empty one is {}.
	answer func(operation, request string) string
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	// AWS4-HMAC-SHA256 Credential=KEY/DATE/REGION/SERVICE/aws4_request, …
	scope := strings.Split(r.Header.Get("Authorization"), "/")
	if len(scope) < 5 {
		http.Error(w, "not signed", http.StatusForbidden)
		return
	}
	call := scope[2] + " " + scope[3] + " " + operation
	s.mu.Lock()
	s.calls = append(s.calls, call)
	fail := s.fail
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if fail != nil {
		if status, body := fail(call); status != 0 {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return
		}
	}
	body := ""
	if s.answer != nil {
		request, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		body = s.answer(operation, string(request))
		s.mu.Unlock()
	}
	_, _ = io.WriteString(w, cmp.Or(body, `{}`))
}

func (s *service) seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

// opened is a function over a service, with what it printed.
type opened struct {
	*functions.Handler
	service      *service
	metrics, log *bytes.Buffer
}

func open(t *testing.T, handler string, changes map[string]string) opened {
	t.Helper()
	s := &service{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	o := opened{service: s, metrics: &bytes.Buffer{}, log: &bytes.Buffer{}}
	var err error
	o.Handler, err = functions.Open(t.Context(), functions.Process{
		Handler: handler,
		Getenv:  changed(changes),
		Config: func(_ context.Context, region string) (aws.Config, error) {
			return aws.Config{
				Region: region, BaseEndpoint: &server.URL, HTTPClient: server.Client(),
				Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "session"),
				Retryer:     func() aws.Retryer { return aws.NopRetryer{} },
			}, nil
		},
		Metrics: o.metrics, Log: o.log, Version: "v1.2.3", Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// batchOf is an SQS event of messages, by their ids.
func batchOf(t *testing.T, messages ...[2]string) []byte {
	t.Helper()
	var records []map[string]string
	for _, m := range messages {
		records = append(records, map[string]string{"messageId": m[0], "body": m[1], "eventSource": "aws:sqs"})
	}
	payload, err := json.Marshal(map[string]any{"Records": records})
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

// sentAt is an SQS event of one message that was first sent at a time, or does not tell, at one of its deliveries.
func sentAt(t *testing.T, id, body string, at time.Time, receives int) []byte {
	t.Helper()
	attributes := map[string]string{"ApproximateReceiveCount": fmt.Sprint(receives)}
	if !at.IsZero() {
		attributes["SentTimestamp"] = fmt.Sprint(at.UnixMilli())
	}
	payload, err := json.Marshal(map[string]any{"Records": []any{
		map[string]any{"messageId": id, "body": body, "eventSource": "aws:sqs", "attributes": attributes},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return payload
}
