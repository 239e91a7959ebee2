package awsapi_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/standin"
)

// late answers before the body of a request is read.
const late = standin.LateBody(`{"Table":{"TableName":"awsmp-acme-usage"}}`)

func TestAnswerBeforeTheBodyIsSent(t *testing.T) {
	t.Parallel()
	cfg := settings("http://127.0.0.1")
	cfg.HTTPClient = awsapi.KeepBodies(late)
	if err := describe(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
}

// A kept connection that the other side has closed costs nothing: the request goes out once more.
func TestRequestsCanBeSentAgain(t *testing.T) {
	t.Parallel()
	var seen *http.Request
	cfg := settings("http://127.0.0.1")
	cfg.HTTPClient = awsapi.KeepBodies(doer(func(r *http.Request) (*http.Response, error) {
		seen = r
		return late.Do(r)
	}))
	if err := describe(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		body, err := seen.GetBody()
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(body); err != nil || string(text) != `{"TableName":"awsmp-acme-usage"}` {
			t.Errorf("body %q, %v", text, err)
		}
	}
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

var _ aws.HTTPClient = doer(nil)
