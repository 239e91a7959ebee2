package marketplace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/marketplacemetering"
	"github.com/aws/smithy-go"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
)

// A buyer waits at their browser, and API Gateway does so for 29 s at most (Amazon API Gateway quotas, integration timeout).
const (
	resolveTries    = 3
	resolvePatience = 8 * time.Second         // for all tries and the pauses between them
	resolveTimeout  = 3500 * time.Millisecond // for one try
	resolvePause    = 200 * time.Millisecond  // the longest before the second try; it doubles
)

const resolving = "resolve the registration token"

// Resolve asks whom a registration token stands for. That reads and changes nothing, so what throttling, the service's own trouble or the
// network ends is asked again, three times in all and within 8 s.
//
// Of the errors, errors.Is tells metering.ErrTokenInvalid and metering.ErrTokenExpired; all others are an *awsapi.Error with a hint. None
// says a word of the token.
func (c *Client) Resolve(ctx context.Context, token string) (customer metering.Customer, err error) {
	if token == "" {
		return metering.Customer{}, fmt.Errorf("%s: %w", resolving, metering.ErrTokenInvalid)
	}
	ctx, cancel := context.WithTimeout(ctx, resolvePatience)
	defer cancel()
	passing := func(err error) bool {
		class := awsapi.ClassOf(err)
		return class == awsapi.Throttled || class == awsapi.Unavailable
	}
	err = awsapi.Repeat(ctx, resolveTries, resolvePause, passing, func() (err error) {
		if customer, err = c.resolveOnce(ctx, token); err != nil {
			err = c.resolveFault(err, token)
		}
		return err
	})
	return customer, err // what it failed with says more than that time is up
}

func (c *Client) resolveOnce(ctx context.Context, token string) (metering.Customer, error) {
	once, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	out, err := c.sdk.ResolveCustomer(once, &marketplacemetering.ResolveCustomerInput{RegistrationToken: &token})
	switch {
	case err == nil:
		return metering.Customer{
			License: aws.ToString(out.LicenseArn), Account: aws.ToString(out.CustomerAWSAccountId),
			CustomerIdentifier: aws.ToString(out.CustomerIdentifier), ProductCode: aws.ToString(out.ProductCode),
		}, nil
	case errors.Is(once.Err(), context.DeadlineExceeded) && !errors.Is(ctx.Err(), context.Canceled): // our own time, not the caller's doing
		return metering.Customer{}, &awsapi.Error{Class: awsapi.Unavailable, Operation: resolving, Err: errors.New("the service did not answer in time")}
	}
	return metering.Customer{}, err
}

// resolveFault says what the error of a call means. The service's words may hold the token, which must not get into a log.
func (c *Client) resolveFault(err error, token string) error {
	if known := (*awsapi.Error)(nil); errors.As(err, &known) {
		return err
	}
	refused := tokenless{error: err, token: token}
	switch code := refused.ErrorCode(); code {
	case "InvalidTokenException", metering.ExceptionValidation, "ValidationError", metering.ExceptionSerialization, metering.ExceptionTooLarge:
		// The token is all that such a call holds, so what is wrong with the call is wrong with it.
		return fmt.Errorf("%s: %w (%s)", resolving, metering.ErrTokenInvalid, code)
	case "ExpiredTokenException":
		// Expired credentials have the same name in AWS's protocols (AWS general reference, common errors).
		if !strings.Contains(strings.ToLower(refused.ErrorMessage()), "security token") {
			return fmt.Errorf("%s: %w (%s)", resolving, metering.ErrTokenExpired, code)
		}
	}
	fault := &awsapi.Error{Class: awsapi.ClassOf(err), Operation: resolving, Err: refused}
	fault.Hint = c.resolveHint(fault.Class, err)
	if refused.ErrorCode() == "DisabledApiException" {
		fault.Class = awsapi.Denied // waiting does not mend it
		fault.Hint = fmt.Sprintf("run the registration in a Region in which the Metering Service is enabled for this account; in %s it is not", c.options.Region)
	}
	return fault
}

func (c *Client) resolveHint(class awsapi.Class, err error) string {
	switch {
	case class == awsapi.Denied:
		return "allow the IAM action aws-marketplace:ResolveCustomer on resource * to the caller, which must be of the account that published the product: aws sts get-caller-identity"
	case class == awsapi.Unavailable && c.options.Endpoint != "" && statusOf(err) == 0:
		return fmt.Sprintf("look whether %s runs; the simulator is started with: awsmp simulator", c.options.Endpoint)
	}
	var known *awsapi.Error
	errors.As(awsapi.Wrap(resolving, "", err), &known)
	return known.Hint
}

// tokenless is an error of the SDK in whose words a token does not show.
type tokenless struct {
	error
	token string
}

func (e tokenless) Error() string { return strings.ReplaceAll(e.error.Error(), e.token, "…") }
func (e tokenless) Unwrap() error { return e.error }

// ErrorCode is empty where the service did not refuse, and without the token, as all that came with the answer. It, ErrorMessage and ErrorFault make a smithy.APIError of the error, so that
// those who look for one find this one and not what it wraps.
func (e tokenless) ErrorCode() string {
	if refused := e.refusal(); refused != nil {
		return strings.ReplaceAll(refused.ErrorCode(), e.token, "…")
	}
	return ""
}

// ErrorMessage is the service's, without the token.
func (e tokenless) ErrorMessage() string {
	if refused := e.refusal(); refused != nil {
		return strings.ReplaceAll(refused.ErrorMessage(), e.token, "…")
	}
	return ""
}

// ErrorFault is the service's.
func (e tokenless) ErrorFault() smithy.ErrorFault {
	if refused := e.refusal(); refused != nil {
		return refused.ErrorFault()
	}
	return smithy.FaultUnknown
}

func (e tokenless) refusal() (refused smithy.APIError) {
	errors.As(e.error, &refused)
	return refused
}
