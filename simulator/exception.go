package simulator

import (
	"fmt"
	"net/http"
)

const (
	throttlingException       = "ThrottlingException"
	internalServiceError      = "InternalServiceErrorException"
	disabledAPI               = "DisabledApiException"
	invalidProductCode        = "InvalidProductCodeException"
	invalidDimension          = "InvalidUsageDimensionException"
	invalidTag                = "InvalidTagException"
	invalidAllocations        = "InvalidUsageAllocationsException"
	invalidCustomerIdentifier = "InvalidCustomerIdentifierException"
	invalidLicense            = "InvalidLicenseException"
	timestampOutOfBounds      = "TimestampOutOfBoundsException"
	invalidToken              = "InvalidTokenException"
	expiredToken              = "ExpiredTokenException"

	// These three are of the protocol, not of the service's model. Which of them the service answers to a request of a wrong
	// shape is stated nowhere; they are what AWS JSON services answer.
	validationException    = "ValidationException"
	serializationException = "SerializationException"
	unknownOperation       = "UnknownOperationException"
)

// exception is an answer that refuses the whole call.
type exception struct {
	name    string
	message string
}

func (e *exception) Error() string { return e.name + ": " + e.message }

// status is 400 for every exception but the service's own fault, also for throttling (API reference, BatchMeterUsage, Errors).
func (e *exception) status() int {
	if e.name == internalServiceError {
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

func refuse(name, format string, args ...any) error {
	return &exception{name: name, message: fmt.Sprintf(format, args...)}
}

func validation(format string, args ...any) error {
	return refuse(validationException, format, args...)
}

func serialization(format string, args ...any) error {
	return refuse(serializationException, format, args...)
}
