package awsapi

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
)

const (
	// RequestTimeout bounds one attempt of a call, from the first byte sent to the last of its answer. A long poll must be shorter.
	RequestTimeout = 10 * time.Second
	// MaxAttempts is how often a call is tried. It is small: who calls repeats too, in a longer rhythm.
	MaxAttempts = 4

	dialTimeout    = 2 * time.Second
	maxBackoff     = 4 * time.Second
	idleTimeout    = 50 * time.Second // below the minute after which load balancers drop what is idle
	idleConns      = 64               // a call that finds no idle connection pays for a handshake
	tlsHandshake   = 3 * time.Second
	keepAliveProbe = 15 * time.Second
)

// Config is the configuration of the clients of one Region: settings and credentials from the SDK's default chain (environment,
// shared files, the function's role), connections that are kept, timeouts, and the SDK's standard retries with jitter. An empty
// region takes the one of the environment. The SDK's own AWS_ENDPOINT_URL and AWS_ENDPOINT_URL_DYNAMODB, _SQS and
// _MARKETPLACE_METERING lead to other endpoints (AWS SDKs and tools reference guide, service-specific endpoints).
//
// Credentials are asked for at the first call, so that missing ones are an error of that call. The error here is an *Error.
func Config(ctx context.Context, region string) (aws.Config, error) {
	options := []func(*config.LoadOptions) error{
		config.WithHTTPClient(httpClient()),
		config.WithRetryer(func() aws.Retryer { return newRetryer() }),
	}
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return aws.Config{}, &Error{
			Class: Invalid, Operation: "load AWS settings", Err: err,
			Hint: "mend what it names in the environment or in ~/.aws/config, then: aws configure list",
		}
	}
	if cfg.Region == "" {
		return aws.Config{}, &Error{Class: Invalid, Operation: "load AWS settings", Err: errNoRegion, Hint: hintNoRegion}
	}
	cfg.HTTPClient = KeepBodies(cfg.HTTPClient)
	return cfg, nil
}

func httpClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTimeout(RequestTimeout).
		WithDialerOptions(func(d *net.Dialer) { d.Timeout, d.KeepAlive = dialTimeout, keepAliveProbe }).
		WithTransportOptions(func(t *http.Transport) {
			t.MaxIdleConns, t.MaxIdleConnsPerHost = 2*idleConns, idleConns
			t.IdleConnTimeout, t.TLSHandshakeTimeout = idleTimeout, tlsHandshake
		})
}

// newRetryer is a client's own: its quota of retries, which ends them when nearly everything fails, is not shared.
func newRetryer() *retry.Standard {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = MaxAttempts, maxBackoff
		o.Retryables = append(o.Retryables, retry.RetryableErrorCode{Codes: map[string]struct{}{
			"TransactionConflictException": {}, // another's transaction on the item is about to end
		}})
	})
}
