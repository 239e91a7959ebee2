package awsapi_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/awsmp/metering/internal/awsapi"
)

// slowWriter answers before it has read the request's body, as a transport may whose writing goroutine has no turn yet.
type slowWriter struct{}

func (slowWriter) Do(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: &lateAnswer{request: r}, Request: r}, nil
}

// lateAnswer reads the request's body when it is read itself: after the SDK has done with the request.
type lateAnswer struct {
	request *http.Request
	rest    io.Reader
}

func (a *lateAnswer) Read(p []byte) (int, error) {
	if a.rest == nil {
		if n, err := io.Copy(io.Discard, a.request.Body); err != nil || n != a.request.ContentLength {
			return 0, fmt.Errorf("send %d bytes of %d: %w", n, a.request.ContentLength, errors.Join(err, io.ErrUnexpectedEOF))
		}
		a.rest = strings.NewReader(`{"Table":{"TableName":"awsmp-acme-usage"}}`)
	}
	return a.rest.Read(p)
}

func (a *lateAnswer) Close() error { return nil }

func TestAnswerBeforeTheBodyIsSent(t *testing.T) {
	t.Parallel()
	cfg := settings("http://127.0.0.1")
	cfg.HTTPClient = awsapi.KeepBodies(slowWriter{})
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
		return slowWriter{}.Do(r)
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
