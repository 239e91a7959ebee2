package awsapi_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/awsapi"
)

// bare takes everything out of the environment that settings could come from.
func bare(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
		"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN",
	} {
		t.Setenv(name, "")
	}
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func credible(t *testing.T) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
}

func TestNoRegion(t *testing.T) {
	bare(t)
	_, err := awsapi.Config(t.Context(), "")
	want(t, err, awsapi.Invalid, "no Region is set. Try: export AWS_REGION=us-east-1")
	t.Setenv("AWS_REGION", "eu-west-1")
	cfg, err := awsapi.Config(t.Context(), "")
	if err != nil || cfg.Region != "eu-west-1" {
		t.Errorf("Region %q, %v", cfg.Region, err)
	}
	cfg, err = awsapi.Config(t.Context(), "us-east-1") // the subscribers table is there, wherever the function is
	if err != nil || cfg.Region != "us-east-1" {
		t.Errorf("Region %q, %v", cfg.Region, err)
	}
}

func TestNoCredentials(t *testing.T) {
	bare(t)
	cfg, err := awsapi.Config(t.Context(), "us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	want(t, describe(t.Context(), cfg), awsapi.Credentials, "aws sts get-caller-identity")
	want(t, send(t.Context(), cfg), awsapi.Credentials)
}

func TestUnknownProfile(t *testing.T) {
	bare(t)
	t.Setenv("AWS_PROFILE", "none")
	_, err := awsapi.Config(t.Context(), "us-east-1")
	want(t, err, awsapi.Invalid, "load AWS settings", "none", "aws configure list")
}

// The SDK's own setting leads to another endpoint. A call that the service fails is tried a few times, and no more.
func TestEndpointAndTries(t *testing.T) {
	bare(t)
	credible(t)
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL_DYNAMODB", server.URL)
	cfg, err := awsapi.Config(t.Context(), "us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	err = describe(t.Context(), cfg)
	want(t, err, awsapi.Unavailable)
	if n := calls.Load(); n != awsapi.MaxAttempts {
		t.Errorf("%d tries, want %d", n, awsapi.MaxAttempts)
	}
	var ours *awsapi.Error
	if !errors.As(err, &ours) || ours.Hint != "" {
		t.Errorf("there is nothing to do but to wait: %v", err)
	}
}

// What another's transaction on an item holds up is tried again; what the caller did wrong is not.
func TestWhatIsTriedAgain(t *testing.T) {
	bare(t)
	credible(t)
	for _, tt := range []struct {
		kind  string
		calls int32
	}{
		{"com.amazonaws.dynamodb.v20120810#TransactionConflictException", 2},
		{"com.amazon.coral.validate#ValidationException", 1},
	} {
		var calls atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-amz-json-1.0")
			if calls.Add(1) == 1 {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"__type":%q,"message":"no"}`, tt.kind)
				return
			}
			fmt.Fprint(w, `{}`)
		}))
		defer server.Close()
		t.Setenv("AWS_ENDPOINT_URL", server.URL)
		cfg, err := awsapi.Config(t.Context(), "us-east-1")
		if err != nil {
			t.Fatal(err)
		}
		err = describe(t.Context(), cfg)
		if (err == nil) != (tt.calls > 1) || calls.Load() != tt.calls {
			t.Errorf("%s: %d calls and %v, want %d", tt.kind, calls.Load(), err, tt.calls)
		}
	}
}

// An answer whose head comes while the request is still being sent is read to its end: nobody closes the request's body meanwhile.
func TestAnswerWhileTheBodyIsSent(t *testing.T) {
	bare(t)
	credible(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = c.Close() }()
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: 2\r\n\r\n{")
		if _, err := io.CopyN(io.Discard, buffered, r.ContentLength); err != nil { // all of it: to close on an unread rest resets the connection
			t.Errorf("read the request: %v", err)
		}
		_, _ = io.WriteString(c, "}")
	}))
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL", server.URL)
	cfg, err := awsapi.Config(t.Context(), "us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	_, err = dynamodb.NewFromConfig(cfg).PutItem(t.Context(), &dynamodb.PutItemInput{
		TableName: aws.String(table), Item: map[string]types.AttributeValue{"note": &types.AttributeValueMemberS{Value: strings.Repeat("x", 16<<20)}},
	})
	if err != nil {
		t.Error(err)
	}
}

// An address without a scheme is nothing that an SDK can call, however often it tries.
func TestAddressWithoutAScheme(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL", "127.0.0.1:8000")
	t.Setenv("AWS_ACCESS_KEY_ID", "invented")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "invented")
	cfg, err := awsapi.Config(t.Context(), "us-east-1")
	if err == nil {
		err = describe(t.Context(), cfg)
	}
	if awsapi.ClassOf(err) != awsapi.Invalid || !strings.Contains(err.Error(), "http://127.0.0.1:8000") {
		t.Errorf("%v (%s)", err, awsapi.ClassOf(err))
	}
}
