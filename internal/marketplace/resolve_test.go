package marketplace_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

func issued(t *testing.T, sim *simulator.Simulator, token simulator.Token) string {
	t.Helper()
	value, err := sim.IssueToken(token)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestResolve(t *testing.T) {
	t.Parallel()
	sim, _, client := service(t, simulator.Options{})
	tests := []struct {
		name  string
		token simulator.Token
		want  metering.Customer
	}{
		{"by license", simulator.Token{AccountID: buyer, LicenseARN: licenseA}, metering.Customer{License: licenseA, Account: buyer, ProductCode: product}},
		{"by identifier", simulator.Token{AccountID: buyer, CustomerIdentifier: "cust-1"}, metering.Customer{CustomerIdentifier: "cust-1", Account: buyer, ProductCode: product}},
		{"no license yet", simulator.Token{AccountID: buyer}, metering.Customer{Account: buyer, ProductCode: product}},
		{"another product", simulator.Token{AccountID: buyer, LicenseARN: licenseA, ProductCode: "other"}, metering.Customer{License: licenseA, Account: buyer, ProductCode: "other"}},
		{"odd characters", simulator.Token{Value: "a+b/c=%3D%2B&;", AccountID: buyer}, metering.Customer{Account: buyer, ProductCode: product}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			token := issued(t, sim, test.token)
			for range 2 { // it is good for more than one time
				got, err := client.Resolve(t.Context(), token)
				if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
					t.Errorf("error %v, %s", err, diff)
				}
			}
		})
	}
}

// A token that is no good is known as such at the first try, and does not show.
func TestResolveOfATokenThatIsNoGood(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sim, wire, client := service(t, simulator.Options{})
		expired := issued(t, sim, simulator.Token{AccountID: buyer, TTL: time.Minute})
		if _, err := client.Resolve(t.Context(), expired); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for token, want := range map[string]error{
			expired: metering.ErrTokenExpired, "unknown+token/": metering.ErrTokenInvalid, "": metering.ErrTokenInvalid,
		} {
			wire.bodies = nil
			got, err := client.Resolve(t.Context(), token)
			if !errors.Is(err, want) || got != (metering.Customer{}) || len(wire.bodies) > 1 {
				t.Errorf("%v, error %v after %d calls, want %v", got, err, len(wire.bodies), want)
			}
			if token != "" && strings.Contains(err.Error(), token) {
				t.Errorf("the token is in %q", err)
			}
		}
	})
}

// What passes is asked again, three times in all and not for long.
func TestResolveAsksAgain(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fault simulator.Fault
		class awsapi.Class // empty: it succeeds
		calls int
	}{
		{simulator.Fault{Kind: simulator.Throttle, Times: 2}, "", 3},
		{simulator.Fault{Kind: simulator.Throttle}, awsapi.Throttled, 3},
		{simulator.Fault{Kind: simulator.InternalError, Times: 1}, "", 2},
		{simulator.Fault{Kind: simulator.InternalError}, awsapi.Unavailable, 3},
		{simulator.Fault{Kind: simulator.LoseReply, Times: 1}, "", 2},
		{simulator.Fault{Kind: simulator.Unreachable, Times: 2}, "", 3},
		{simulator.Fault{Kind: simulator.Unreachable}, awsapi.Unavailable, 3},
		{simulator.Fault{Kind: simulator.Latency, Latency: time.Hour, Times: 1}, "", 2},
		{simulator.Fault{Kind: simulator.Latency, Latency: time.Hour}, awsapi.Unavailable, 3},
		{simulator.Fault{Kind: simulator.Disabled}, awsapi.Denied, 1},
	}
	for _, test := range tests {
		t.Run(string(test.fault.Kind)+" "+string(test.class), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				sim, wire, client := service(t, simulator.Options{})
				token := issued(t, sim, simulator.Token{AccountID: buyer, LicenseARN: licenseA})
				test.fault.Operation = "ResolveCustomer"
				sim.Inject(test.fault)
				start := time.Now()
				got, err := client.Resolve(t.Context(), token)
				if took := time.Since(start); took > 8*time.Second {
					t.Errorf("it took %v", took)
				}
				if len(wire.bodies) != test.calls || awsapi.ClassOf(err) != test.class || (err == nil) != (got.License == licenseA) {
					t.Errorf("%v, error %v of class %q after %d calls, want %q after %d", got, err, awsapi.ClassOf(err), len(wire.bodies), test.class, test.calls)
				}
				if err != nil && strings.Contains(err.Error(), token) {
					t.Errorf("the token is in %q", err)
				}
			})
		})
	}
}

// A buyer who has gone is not asked for again.
func TestResolveEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sim, wire, client := service(t, simulator.Options{})
		sim.Inject(simulator.Fault{Kind: simulator.Latency, Latency: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := client.Resolve(ctx, "token")
		if !errors.Is(err, context.Canceled) || awsapi.ClassOf(err) != awsapi.Ended || len(wire.bodies) != 1 {
			t.Errorf("error %v of class %q after %d calls", err, awsapi.ClassOf(err), len(wire.bodies))
		}
	})
}

// The service's refusals, some of which speak of the token; and of what a seller can mend is said how.
func TestResolveRefusals(t *testing.T) {
	t.Parallel()
	const token = "secret+token/="
	tests := []struct {
		code, message string
		is            error
		class         awsapi.Class
		says          string
	}{
		{"InvalidTokenException", "Registration token " + token + " is invalid", metering.ErrTokenInvalid, awsapi.Unknown, ""},
		{"ValidationException", "Value '" + token + "' at 'registrationToken' failed to satisfy constraint", metering.ErrTokenInvalid, awsapi.Unknown, ""},
		{"ExpiredTokenException", "The submitted registration token has expired", metering.ErrTokenExpired, awsapi.Unknown, ""},
		{"ExpiredTokenException", "The security token included in the request is expired", nil, awsapi.Credentials, "aws sts get-caller-identity"},
		{"UnrecognizedClientException", "The security token included in the request is invalid", nil, awsapi.Credentials, "aws sts get-caller-identity"},
		{"AccessDeniedException", "not authorized to perform: aws-marketplace:ResolveCustomer", nil, awsapi.Denied, "aws-marketplace:ResolveCustomer on resource *"},
		{"DisabledApiException", "The API is disabled in the Region", nil, awsapi.Denied, "in eu-west-1 it is not"},
		{"SomethingNewException", "no " + token + " here", nil, awsapi.Unknown, "no … here (SomethingNewException)"},
		{"No" + token, "no", nil, awsapi.Unknown, "no (No…)"},
	}
	for _, test := range tests {
		t.Run(test.code+" "+string(test.class), func(t *testing.T) {
			t.Parallel()
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				calls++
				w.Header().Set("X-Amzn-Errortype", test.code)
				w.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(w, `{"__type":"`+test.code+`","message":"`+test.message+`"}`)
			}))
			defer server.Close()
			client := marketplace.New(marketplace.Options{Region: "eu-west-1", Endpoint: server.URL, HTTPClient: server.Client()})
			_, err := client.Resolve(t.Context(), token)
			if err == nil || strings.Contains(err.Error(), token) || !strings.Contains(err.Error(), test.says) || calls != 1 {
				t.Errorf("error %v after %d calls, want one that says %q", err, calls, test.says)
			}
			if test.is != nil && !errors.Is(err, test.is) || awsapi.ClassOf(err) != test.class {
				t.Errorf("error %v of class %q, want %v of class %q", err, awsapi.ClassOf(err), test.is, test.class)
			}
		})
	}
}
