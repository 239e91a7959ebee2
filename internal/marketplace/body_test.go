package marketplace_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
)

// slowWriter answers before it has read the request's body, as a transport may whose writing goroutine has no turn yet.
type slowWriter struct{}

func (slowWriter) Do(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: &lateAnswer{request: r}, Request: r}, nil
}

type lateAnswer struct {
	request *http.Request
	rest    io.Reader
}

func (a *lateAnswer) Read(p []byte) (int, error) {
	if a.rest == nil {
		if n, err := io.Copy(io.Discard, a.request.Body); err != nil || n != a.request.ContentLength {
			return 0, fmt.Errorf("send %d bytes of %d: %w", n, a.request.ContentLength, errors.Join(err, io.ErrUnexpectedEOF))
		}
		a.rest = strings.NewReader(`{"Results":[{"Status":"Success","MeteringRecordId":"id-1"}]}`)
	}
	return a.rest.Read(p)
}

func (a *lateAnswer) Close() error { return nil }

// The verdicts of a call whose request is still being sent when the answer begins are not lost.
func TestAnswerBeforeTheCallIsSent(t *testing.T) {
	t.Parallel()
	client := marketplace.New(marketplace.Options{Region: "us-east-1", Endpoint: "http://127.0.0.1", HTTPClient: slowWriter{}})
	got, err := client.Call(t.Context(), metering.Call{Records: []metering.UsageRecord{{License: licenseA, Account: buyer, Dimension: "api_calls", Quantity: 5}}})
	if err != nil || len(got.Results) != 1 || got.Results[0].RecordID != "id-1" {
		t.Errorf("%+v, %v", got, err)
	}
}
