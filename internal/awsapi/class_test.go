package awsapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/awsmp/metering/internal/awsapi"
)

const (
	table = "awsmp-acme-usage"
	queue = "awsmp-acme-work"
)

// settings are those of a client that tries each call once.
func settings(url string) aws.Config {
	return aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(url), Retryer: func() aws.Retryer { return aws.NopRetryer{} },
		Credentials: credentials.NewStaticCredentialsProvider("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", ""),
	}
}

// describe and send are a call of each service, wrapped as an adapter does.
func describe(ctx context.Context, cfg aws.Config) error {
	_, err := dynamodb.NewFromConfig(cfg).DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: aws.String(table)})
	return awsapi.Wrap("look at the table", table, err)
}

func send(ctx context.Context, cfg aws.Config) error {
	_, err := sqs.NewFromConfig(cfg).SendMessageBatch(ctx, &sqs.SendMessageBatchInput{
		QueueUrl: aws.String("https://sqs.us-east-1.amazonaws.com/111122223333/" + queue),
		Entries:  []types.SendMessageBatchRequestEntry{{Id: aws.String("0"), MessageBody: aws.String("x")}},
	})
	return awsapi.Wrap("send messages", queue, err)
}

// answering serves one answer to every call.
func answering(t *testing.T, status int, header http.Header, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// What the services answer, as they write it (Amazon DynamoDB developer guide, error handling; Amazon SQS API reference and its
// AWS JSON protocol; AWS general reference, common errors).
func TestClassOfAnswers(t *testing.T) {
	t.Parallel()
	type call = func(context.Context, aws.Config) error
	tests := []struct {
		name          string
		call          call
		status        int
		kind, message string
		query         string // SQS: the code of its older protocol
		class         awsapi.Class
		says          []string
	}{
		{"a partition's limit", describe, 400, "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException", "The level of configured provisioned throughput for the table was exceeded.", "", awsapi.Throttled, []string{"look at the table (awsmp-acme-usage): ", "Try: wait"}},
		{"the account's limit", describe, 400, "com.amazonaws.dynamodb.v20120810#RequestLimitExceeded", "Throughput exceeds the current throughput limit for your account.", "", awsapi.Throttled, nil},
		{"throttled", describe, 400, "com.amazon.coral.availability#ThrottlingException", "Rate of requests exceeds the allowed throughput.", "", awsapi.Throttled, nil},
		{"SQS throttles", send, 403, "com.amazonaws.sqs#RequestThrottled", "Request is throttled.", "RequestThrottled;Sender", awsapi.Throttled, []string{"send messages (awsmp-acme-work): "}},
		{"too many in flight", send, 403, "com.amazonaws.sqs#OverLimit", "Too many messages in flight.", "OverLimit;Sender", awsapi.Throttled, nil},

		{"internal error", describe, 500, "com.amazonaws.dynamodb.v20120810#InternalServerError", "The request processing has failed because of an unknown error.", "", awsapi.Unavailable, nil},
		{"unavailable", describe, 503, "com.amazon.coral.service#ServiceUnavailable", "The service is busy.", "", awsapi.Unavailable, nil},
		{"a transaction holds the item", describe, 400, "com.amazonaws.dynamodb.v20120810#TransactionConflictException", "Transaction is ongoing for the item", "", awsapi.Unavailable, nil},
		{"a gateway between", describe, 502, "", "", "", awsapi.Unavailable, nil},

		{"expired", describe, 400, "com.amazon.coral.service#ExpiredTokenException", "The security token included in the request is expired", "", awsapi.Credentials, []string{"aws sts get-caller-identity", "The security token included in the request is expired (ExpiredTokenException)"}},
		{"unknown key", describe, 400, "com.amazon.coral.service#UnrecognizedClientException", "The security token included in the request is invalid.", "", awsapi.Credentials, nil},
		{"wrong secret", describe, 400, "com.amazon.coral.service#InvalidSignatureException", "The request signature we calculated does not match the signature you provided.", "", awsapi.Credentials, nil},
		{"unsigned", describe, 400, "com.amazon.coral.service#MissingAuthenticationTokenException", "Request is missing Authentication Token", "", awsapi.Credentials, nil},
		{"unknown key at SQS", send, 403, "com.amazonaws.sqs#InvalidClientTokenId", "The security token included in the request is invalid.", "InvalidClientTokenId;Sender", awsapi.Credentials, nil},
		{"expired at SQS", send, 403, "com.amazonaws.sqs#ExpiredToken", "The security token included in the request is expired", "ExpiredToken;Sender", awsapi.Credentials, nil},
		{"a wrong clock", describe, 400, "com.amazon.coral.service#InvalidSignatureException", "Signature expired: 20260310T150000Z is now earlier than 20260310T151500Z (20260310T152000Z - 5 min.)", "", awsapi.Credentials, []string{"clock"}},

		{"not allowed", describe, 400, "com.amazon.coral.service#AccessDeniedException", "User: arn:aws:sts::111122223333:assumed-role/cleanup/f is not authorized to perform: dynamodb:DescribeTable", "", awsapi.Denied, []string{"IAM action dynamodb:DescribeTable on awsmp-acme-usage"}},
		{"not allowed at SQS", send, 403, "com.amazonaws.sqs#AccessDenied", "User is not authorized to perform: sqs:sendmessage", "AccessDenied;Sender", awsapi.Denied, []string{"IAM action sqs:SendMessage on awsmp-acme-work"}},
		{"a wall between", describe, 403, "", "", "", awsapi.Denied, nil},

		{"no table", describe, 400, "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException", "Requested resource not found", "", awsapi.Missing, []string{"AWS_REGION", "aws dynamodb describe-table --table-name awsmp-acme-usage"}},
		{"no queue", send, 400, "com.amazonaws.sqs#QueueDoesNotExist", "The specified queue does not exist.", "AWS.SimpleQueueService.NonExistentQueue;Sender", awsapi.Missing, []string{"aws sqs get-queue-url --queue-name awsmp-acme-work"}},

		{"another Region's endpoint", describe, 400, "com.amazon.coral.service#InvalidSignatureException", "Credential should be scoped to a valid region, not 'us-east-1'. ", "", awsapi.Invalid, []string{"AWS_REGION", "AWS_ENDPOINT_URL"}},
		{"another Region's endpoint at SQS", send, 403, "com.amazonaws.sqs#SignatureDoesNotMatch", "Credential should be scoped to a valid region. ", "SignatureDoesNotMatch;Sender", awsapi.Invalid, []string{"AWS_REGION"}},
		{"no index", describe, 400, "com.amazon.coral.validate#ValidationException", "The table does not have the specified index: metering_pending", "", awsapi.Invalid, []string{"template"}},
		{"other keys", describe, 400, "com.amazon.coral.validate#ValidationException", "The provided key element does not match the schema", "", awsapi.Invalid, []string{"template"}},
		{"not well formed", describe, 400, "com.amazon.coral.validate#ValidationException", "Invalid UpdateExpression: Syntax error", "", awsapi.Invalid, nil},
		{"not what it should be", describe, 400, "com.amazon.coral.service#SerializationException", "", "", awsapi.Invalid, []string{"refused (SerializationException)"}},
		{"characters that SQS does not take", send, 400, "com.amazonaws.sqs#InvalidMessageContents", "Invalid characters found.", "InvalidMessageContents;Sender", awsapi.Invalid, nil},

		{"an item", describe, 400, "com.amazon.coral.validate#ValidationException", "Item size has exceeded the maximum allowed size", "", awsapi.TooLarge, nil},
		{"an item that grows", describe, 400, "com.amazon.coral.validate#ValidationException", "Item size to update has exceeded the maximum allowed size", "", awsapi.TooLarge, nil},
		{"a batch of messages", send, 400, "com.amazonaws.sqs#BatchRequestTooLong", "Batch requests cannot be longer than 1048576 bytes.", "AWS.SimpleQueueService.BatchRequestTooLong;Sender", awsapi.TooLarge, nil},
		{"a message", send, 400, "com.amazonaws.sqs#InvalidParameterValueException", "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.", "InvalidParameterValue;Sender", awsapi.TooLarge, nil},

		{"what nobody knows", describe, 400, "com.amazonaws.dynamodb.v20120810#SurpriseException", "surprise", "", awsapi.Unknown, []string{"surprise (SurpriseException)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			header := http.Header{"Content-Type": {"application/x-amz-json-1.0"}}
			body := fmt.Sprintf(`{"__type":%q,"message":%q}`, tt.kind, tt.message)
			if tt.query != "" {
				header.Set("X-Amzn-Query-Error", tt.query)
			}
			if tt.kind == "" {
				header, body = http.Header{"Content-Type": {"text/html"}}, "<html>no</html>"
			}
			err := tt.call(t.Context(), settings(answering(t, tt.status, header, body)))
			var ours *awsapi.Error
			if !errors.As(err, &ours) || ours.Class != tt.class || awsapi.ClassOf(err) != tt.class || awsapi.ClassOf(fmt.Errorf("run: %w", err)) != tt.class {
				t.Fatalf("%v: class %q, want %q", err, awsapi.ClassOf(err), tt.class)
			}
			for _, s := range tt.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%v, which does not say %q", err, s)
				}
			}
			if strings.Contains(err.Error(), "https response error") && tt.kind != "" {
				t.Errorf("the SDK's own words: %v", err)
			}
			var sdk *smithy.OperationError
			if !errors.As(err, &sdk) {
				t.Errorf("the SDK's error is lost: %v", err)
			}
			if awsapi.ClassOf(ours.Err) != tt.class {
				t.Errorf("unwrapped it is of class %q", awsapi.ClassOf(ours.Err))
			}
		})
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	for class, want := range map[awsapi.Class]bool{
		awsapi.Throttled: true, awsapi.Unavailable: true, awsapi.Unknown: true,
		awsapi.Credentials: false, awsapi.Denied: false, awsapi.Missing: false, awsapi.Invalid: false, awsapi.TooLarge: false,
		awsapi.Ended: false, "": false,
	} {
		if class.Retry() != want {
			t.Errorf("%q is tried again: %v", class, !want)
		}
	}
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
		want(t, describe(t.Context(), settings("http://"+listener.Addr().String())), awsapi.Unavailable, "a way from here to DynamoDB", "AWS_ENDPOINT_URL")
	})
	t.Run("no such name", func(t *testing.T) {
		t.Parallel()
		want(t, describe(t.Context(), settings("http://no.such.name.invalid")), awsapi.Unavailable, "AWS_REGION")
	})
	t.Run("the connection ends", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
		t.Cleanup(server.Close)
		want(t, send(t.Context(), settings(server.URL)), awsapi.Unavailable)
	})
	t.Run("half an answer", func(t *testing.T) {
		t.Parallel()
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			fmt.Fprint(w, `{"Table":{"Table`)
		}))
		t.Cleanup(server.Close)
		want(t, describe(t.Context(), settings(server.URL)), awsapi.Unavailable)
	})
	t.Run("the client's own time is over", func(t *testing.T) {
		t.Parallel()
		url, _ := silent(t)
		cfg := settings(url)
		cfg.HTTPClient = &http.Client{Timeout: time.Millisecond}
		want(t, describe(t.Context(), cfg), awsapi.Unavailable)
	})
}

// The client's own time may be over while an answer is read. Its error is a deadline's then, but not the caller's: the same call
// may succeed later. Time is not the machine's here, nor is the network.
func TestTimeIsOverWithinAnAnswer(t *testing.T) {
	t.Parallel()
	halting := func() *http.Transport {
		return &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				if r, err := http.ReadRequest(bufio.NewReader(server)); err == nil {
					_, _ = io.Copy(io.Discard, r.Body)
					_, _ = io.WriteString(server, "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"Table\":{")
				}
			}()
			return client, nil
		}}
	}
	for name, tt := range map[string]struct {
		client, caller time.Duration
		class          awsapi.Class
	}{
		"the client's":       {10 * time.Second, time.Hour, awsapi.Unavailable},
		"the caller's":       {10 * time.Second, 5 * time.Second, awsapi.Ended},
		"the caller's alone": {0, 5 * time.Second, awsapi.Ended},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				transport := halting()
				defer transport.CloseIdleConnections()
				cfg := settings("http://127.0.0.1")
				cfg.HTTPClient = awsapi.KeepBodies(&http.Client{Timeout: tt.client, Transport: transport})
				ctx, cancel := context.WithTimeout(t.Context(), tt.caller)
				defer cancel()
				err := describe(ctx, cfg)
				want(t, err, tt.class)
				if ours := tt.class == awsapi.Ended; errors.Is(err, context.DeadlineExceeded) != ours {
					t.Errorf("%v is the caller's: %v, want %v", err, !ours, ours)
				}
			})
		})
	}
}

// silent takes calls and answers none; asked is closed when the first has come.
func silent(t *testing.T) (url string, asked chan struct{}) {
	t.Helper()
	ended := make(chan struct{})
	asked = make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		select {
		case <-ended:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(ended) })
	return server.URL, asked
}

// The caller's own end stays visible, and is no failure of the service.
func TestEnded(t *testing.T) {
	t.Parallel()
	url, asked := silent(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	err := describe(ctx, settings(url))
	want(t, err, awsapi.Ended)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v is not %v", err, context.Canceled)
	}
	want(t, awsapi.Wrap("wait", "", context.DeadlineExceeded), awsapi.Ended)

	past, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	err = send(past, settings(url))
	want(t, err, awsapi.Ended)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is not %v", err, context.DeadlineExceeded)
	}
}

func TestWrap(t *testing.T) {
	t.Parallel()
	if err := awsapi.Wrap("read", table, nil); err != nil || awsapi.ClassOf(nil) != "" {
		t.Errorf("nil became %v", err)
	}
	inner := awsapi.Wrap("read rows", table, errors.New("boom"))
	if outer := awsapi.Wrap("read", "", fmt.Errorf("page 2: %w", inner)); outer.Error() != "page 2: read rows (awsmp-acme-usage): boom" {
		t.Errorf("wrapped twice: %v", outer)
	}
	want(t, inner, awsapi.Unknown)
	want(t, awsapi.Wrap("send", "", &smithy.SerializationError{Err: errors.New("no")}), awsapi.Invalid)
}

func want(t *testing.T, err error, class awsapi.Class, says ...string) {
	t.Helper()
	if got := awsapi.ClassOf(err); got != class {
		t.Errorf("%v: class %q, want %q", err, got, class)
	}
	for _, s := range says {
		if err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("%v, which does not say %q", err, s)
		}
	}
}
