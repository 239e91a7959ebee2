package marketplace_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
)

// Each answer comes over HTTP and through the SDK, so that what is classified is what the SDK makes of it.
func TestClassify(t *testing.T) {
	t.Parallel()
	const throttled, fault, fatal = marketplace.Throttled, marketplace.RecordFault, marketplace.Fatal
	tests := []struct {
		status int
		code   string
		want   marketplace.Kind
	}{
		{400, "ThrottlingException", throttled},
		{400, "Throttling", throttled},
		{400, "RequestLimitExceeded", throttled},
		{429, "TooManyRequestsException", throttled},
		{429, "SomethingNewException", throttled},

		{400, "InvalidUsageDimensionException", fault},
		{400, "TimestampOutOfBoundsException", fault},
		{400, "InvalidTagException", fault},
		{400, "InvalidUsageAllocationsException", fault},
		{400, "InvalidLicenseException", fault},
		{400, "InvalidCustomerIdentifierException", fault},
		{400, "ValidationException", fault},
		{400, "SerializationException", fault},
		{413, "RequestEntityTooLargeException", fault},

		{500, "InternalServiceErrorException", fatal},
		{500, "InternalFailure", fatal},
		{503, "ServiceUnavailableException", fatal},
		{400, "AccessDeniedException", fatal},
		{403, "ExpiredTokenException", fatal},
		{403, "UnrecognizedClientException", fatal},
		{400, "DisabledApiException", fatal},
		{400, "InvalidProductCodeException", fatal},
		{400, "InvalidRegionException", fatal},
		{400, "CustomerNotEntitledException", fatal},
		{400, "SomethingNewException", fatal},
	}
	for _, test := range tests {
		t.Run(fmt.Sprint(test.status, " ", test.code), func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(test.status)
				_, _ = io.WriteString(w, `{"__type":"com.amazonaws.marketplacemetering#`+test.code+`","message":"no"}`)
			}))
			defer server.Close()
			client := marketplace.New(marketplace.Options{Region: "us-east-1", Endpoint: server.URL, HTTPClient: server.Client()})
			_, err := client.Call(t.Context(), metering.Call{})
			if kind, exception := marketplace.Classify(err); kind != test.want || exception != test.code {
				t.Errorf("kind %v, exception %q of %v", kind, exception, err)
			}
		})
	}
}

func TestClassifyWithoutAnException(t *testing.T) {
	t.Parallel()
	answering := func(status int, body string) error {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		defer server.Close()
		client := marketplace.New(marketplace.Options{Region: "us-east-1", Endpoint: server.URL, HTTPClient: server.Client()})
		_, err := client.Call(t.Context(), metering.Call{})
		return err
	}
	unsendable := func(u metering.UsageRecord) error {
		client := marketplace.New(marketplace.Options{Region: "us-east-1", Endpoint: "http://127.0.0.1:1"})
		_, err := client.Call(t.Context(), metering.Call{Records: []metering.UsageRecord{u}})
		return err
	}
	tests := []struct {
		name string
		err  error
		want marketplace.Kind
	}{
		{"no error", nil, marketplace.Answered},
		{"an answer that is no JSON", answering(200, "<html>"), marketplace.Fatal},
		{"a proxy's page", answering(502, "<html>bad gateway</html>"), marketplace.Fatal},
		{"a proxy's limit", answering(413, "<html>too large</html>"), marketplace.Fatal},
		{"a proxy's throttle", answering(429, "<html>slow down</html>"), marketplace.Throttled},
		{"timeout", fmt.Errorf("call: %w", context.DeadlineExceeded), marketplace.Fatal},
		{"unknown", errors.New("unknown"), marketplace.Fatal},
		{"a quantity beyond the API's integers", unsendable(metering.UsageRecord{Quantity: 1 << 31}), marketplace.RecordFault},
		{"a negative quantity", unsendable(metering.UsageRecord{Quantity: -1}), marketplace.RecordFault},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if kind, _ := marketplace.Classify(test.err); kind != test.want {
				t.Errorf("kind %v, want %v, of %v", kind, test.want, test.err)
			}
		})
	}
}
