package awsapi

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Class is what kind of failure an error is. It decides whether the same call can succeed later without anybody's doing.
type Class string

// The classes.
const (
	Throttled   Class = "Throttled"   // too fast; nothing was done
	Unavailable Class = "Unavailable" // the service or the network; whether the call was done is unknown
	Credentials Class = "Credentials" // none, expired, or not accepted
	Denied      Class = "Denied"      // the caller may not do this
	Missing     Class = "Missing"     // there is no such table or queue in this Region
	Invalid     Class = "Invalid"     // the call or the settings are wrong; nothing was done
	TooLarge    Class = "TooLarge"    // an item or a message exceeds what the service takes; nothing was done
	Ended       Class = "Ended"       // the caller's context was done; whether the call was done is unknown
	Unknown     Class = "Unknown"
)

// Retry reports whether the same call may succeed later as it is.
func (c Class) Retry() bool { return c == Throttled || c == Unavailable || c == Unknown }

// classOfCode knows the error codes that the services document: Amazon DynamoDB developer guide (error handling), Amazon SQS API
// reference (common errors and those of each action) and AWS general reference (common errors). Throttling is known by the SDK's own list.
func classOfCode(code string) Class {
	switch code {
	case "OverLimit", "KmsThrottled", "AWS.SimpleQueueService.OverLimit":
		return Throttled
	case "InternalServerError", "InternalFailure", "InternalServiceError", "ServiceUnavailable", "ServiceUnavailableException",
		"TransactionConflictException", "ReplicatedWriteConflictException", "RequestTimeout", "RequestTimeoutException":
		return Unavailable
	case "ExpiredToken", "ExpiredTokenException", "RequestExpired", "UnrecognizedClientException", "InvalidClientTokenId",
		"InvalidSignatureException", "InvalidSignature", "SignatureDoesNotMatch", "IncompleteSignature", "IncompleteSignatureException",
		"MissingAuthenticationToken", "MissingAuthenticationTokenException", "InvalidAccessKeyId", "InvalidSecurity", "AuthFailure":
		return Credentials
	case "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "NotAuthorized", "AuthorizationError", "KMSAccessDeniedException",
		"KmsAccessDenied", "OptInRequired", "OptInRequiredException", "SubscriptionRequiredException":
		return Denied
	case "ResourceNotFoundException", "TableNotFoundException", "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue":
		return Missing
	case "BatchRequestTooLong", "AWS.SimpleQueueService.BatchRequestTooLong", "RequestEntityTooLargeException", "MessageTooLong":
		return TooLarge
	case "ValidationException", "ValidationError", "SerializationException", "InvalidParameterValue", "InvalidParameterValueException",
		"InvalidParameterCombination", "InvalidAttributeName", "InvalidAttributeValue", "InvalidMessageContents", "InvalidAddress",
		"MissingParameter", "UnknownOperationException", "UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation",
		"InvalidBatchEntryId", "EmptyBatchRequest", "TooManyEntriesInBatchRequest", "BatchEntryIdsNotDistinct", "ReceiptHandleIsInvalid":
		return Invalid
	}
	if _, throttled := retry.DefaultThrottleErrorCodes[code]; throttled {
		return Throttled
	}
	return Unknown
}

// classify tells what an error of the SDK means.
func classify(err error) Class {
	var canceled *smithy.CanceledError
	var refused smithy.APIError
	var unsent *smithyhttp.RequestSendError
	var parameters smithy.InvalidParamsError
	var unwritable *smithy.SerializationError
	var unreadable *smithy.DeserializationError
	switch {
	case errors.As(err, &canceled), errors.Is(err, context.Canceled):
		return Ended
	case errors.As(err, &refused):
		return refusal(refused, statusOf(err))
	case errors.As(err, &parameters), errors.As(err, &unwritable), isMissingRegion(err), isEndpoint(err):
		return Invalid
	case isMissingCredentials(err):
		return Credentials
	case errors.As(err, &unsent): // also where the client's own timeout has cut it short
		return Unavailable
	case errors.Is(err, context.DeadlineExceeded):
		return Ended
	case isNetwork(err), statusOf(err) >= http.StatusInternalServerError:
		return Unavailable
	case statusOf(err) >= http.StatusMultipleChoices:
		return classOfStatus(statusOf(err))
	case errors.As(err, &unreadable): // half an answer, or another's
		return Unavailable
	}
	return Unknown
}

func refusal(refused smithy.APIError, status int) Class {
	class := classOfCode(refused.ErrorCode())
	switch {
	case isSize(refused):
		return TooLarge
	case isScope(refused):
		return Invalid
	case class != Unknown:
		return class
	case status != 0:
		return classOfStatus(status)
	case refused.ErrorFault() == smithy.FaultServer:
		return Unavailable
	}
	return Unknown
}

func classOfStatus(status int) Class {
	switch {
	case status == http.StatusTooManyRequests:
		return Throttled
	case status >= http.StatusInternalServerError:
		return Unavailable
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return Denied
	case status == http.StatusRequestEntityTooLarge:
		return TooLarge
	}
	return Unknown
}

// isSize tells an item or message that is too large from other faults of its call, which carry the same code (Amazon DynamoDB
// API reference, PutItem and UpdateItem: "Item size has exceeded the maximum allowed size"; Amazon SQS, SendMessage: "must be shorter than").
func isSize(e smithy.APIError) bool {
	m := e.ErrorMessage()
	return strings.HasPrefix(m, "Item size ") && strings.Contains(m, "exceeded the maximum allowed size") ||
		strings.Contains(m, "Message must be shorter than")
}

// isScope tells a signature for another Region's endpoint from one that is wrong (AWS general reference, Signature Version 4,
// troubleshooting: "Credential should be scoped to a valid Region").
func isScope(e smithy.APIError) bool {
	return strings.Contains(strings.ToLower(e.ErrorMessage()), "credential should be scoped to a valid region")
}

func isMissingRegion(err error) bool {
	return errors.Is(err, errNoRegion) || strings.Contains(err.Error(), "Missing Region")
}

// isEndpoint goes by the SDK's words: an address that it cannot call.
func isEndpoint(err error) bool {
	return strings.Contains(err.Error(), "failed to resolve service endpoint")
}

// isMissingCredentials goes by the SDK's words, since it has no type for it. Where nothing gave credentials, or what should give
// them failed, a call fails before it is signed.
func isMissingCredentials(err error) bool {
	text := err.Error()
	return strings.Contains(text, "get identity: ") || strings.Contains(text, "static credentials are empty")
}

func isNetwork(err error) bool {
	var network net.Error
	return errors.As(err, &network)
}

func statusOf(err error) int {
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.Response != nil && response.Response.Response != nil {
		return response.HTTPStatusCode()
	}
	return 0
}
