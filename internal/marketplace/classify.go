package marketplace

import (
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/awsmp/metering/internal/metering"
)

// Kind says whose fault a failed call is.
type Kind int

// The kinds. What is not known to be a record's fault is Fatal: a service fault must never cost a record its place (F14).
const (
	Answered    Kind = iota // no error: the answer speaks for each record
	Throttled               // too fast: nothing was processed, the same call is repeated
	RecordFault             // one of the call's records was refused, and with it the call: nothing was processed
	Fatal                   // the service, the network or the settings: no record is to blame, none may be finished
)

// Classify tells whose fault the error of a call is, and the name of the exception behind it: empty where there was none,
// as with a broken connection.
func Classify(err error) (Kind, string) {
	if err == nil {
		return Answered, ""
	}
	var params smithy.InvalidParamsError
	var unwritable *smithy.SerializationError
	switch {
	case errors.As(err, &params): // found by the SDK before sending
		return RecordFault, metering.ExceptionValidation
	case errors.As(err, &unwritable):
		return RecordFault, metering.ExceptionSerialization
	}
	var code string
	var refused smithy.APIError
	if errors.As(err, &refused) {
		code = refused.ErrorCode()
	}
	if _, throttled := retry.DefaultThrottleErrorCodes[code]; throttled || statusOf(err) == http.StatusTooManyRequests {
		return Throttled, code
	}
	switch code {
	case metering.ExceptionDimension, metering.ExceptionTimestamp, metering.ExceptionTag, metering.ExceptionAllocations, metering.ExceptionLicense, metering.ExceptionIdentifier,
		metering.ExceptionValidation, "ValidationError", metering.ExceptionSerialization, metering.ExceptionTooLarge:
		return RecordFault, code
	}
	return Fatal, code
}

func statusOf(err error) int {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.Response != nil && response.Response.Response != nil {
		return response.HTTPStatusCode()
	}
	return 0
}

// hint is what a person can do about a call that failed for nobody's record, or nothing.
func hint(err error, o Options) string {
	var refused smithy.APIError
	var network net.Error
	switch {
	case errors.As(err, &refused):
		return exceptionHint(refused.ErrorCode(), o)
	case errors.As(err, &network) && o.Endpoint != "":
		return fmt.Sprintf(" (no answer from %s: is it running? The simulator is started with: awsmp simulator)", o.Endpoint)
	case errors.As(err, &network):
		return fmt.Sprintf(" (no answer from the Metering Service in %s: is the Region right, and is there a way out to the internet?)", o.Region)
	case o.Region == "":
		return " (no Region is set. Try: export AWS_REGION=us-east-1)"
	}
	return ""
}

func exceptionHint(code string, o Options) string {
	switch code {
	case "AccessDeniedException", "AccessDenied", "UnauthorizedOperation":
		return " (allow the IAM action aws-marketplace:BatchMeterUsage on resource * to the caller, in the account that published the product)"
	case "ExpiredToken", "ExpiredTokenException", "UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException",
		"SignatureDoesNotMatch", "MissingAuthenticationTokenException":
		return " (the credentials are not accepted. Try: aws sts get-caller-identity)"
	case "DisabledApiException":
		return fmt.Sprintf(" (the Metering Service is not enabled in %s for this account)", o.Region)
	case "InvalidProductCodeException":
		return fmt.Sprintf(" (product code %q is not the published one: see the product's page in the AWS Marketplace Management Portal)", o.ProductCode)
	}
	return ""
}
