package metering

// Status is where an item has ended. Empty means that it has not.
type Status string

// Statuses of usage rows.
const (
	Aggregated         Status = "Aggregated"
	LateUsage          Status = "LateUsage"
	RejectedClientSide Status = "RejectedClientSide" // rows and records
	AggregationExpired Status = "AggregationExpired"
)

// Statuses of records. Success alone means billed.
const (
	Success               Status = "Success"
	DuplicateRecord       Status = "DuplicateRecord"
	CustomerNotSubscribed Status = "CustomerNotSubscribed"
	SubmissionExpired     Status = "SubmissionExpired"
	DryRunSubmitted       Status = "DryRunSubmitted"
)

// CommittedForGood is what to say wherever usage of a committed hour is refused, and booking it in the current hour is the way out. The
// current hour is committed in its license's last ten minutes alone, and then there is no other one.
const CommittedForGood = "where that is refused too, the license is in its last minutes, and it can no longer be billed"

// VerdictUnknown is the reason of a SubmissionExpired record that was sent and whose answer never came: it may be
// billed, so it is never offered for billing again without asking AWS first.
const VerdictUnknown = "VerdictUnknown"

// Exceptions that a single record brings on its whole call, and is then rejected with as its reason (AWS Marketplace Metering API
// reference, BatchMeterUsage, Errors). Those of shape are common to AWS services; which of them this one uses is not documented.
const (
	ExceptionDimension     = "InvalidUsageDimensionException"
	ExceptionTimestamp     = "TimestampOutOfBoundsException"
	ExceptionTag           = "InvalidTagException"
	ExceptionAllocations   = "InvalidUsageAllocationsException"
	ExceptionLicense       = "InvalidLicenseException"
	ExceptionIdentifier    = "InvalidCustomerIdentifierException"
	ExceptionValidation    = "ValidationException"
	ExceptionSerialization = "SerializationException"
	ExceptionTooLarge      = "RequestEntityTooLargeException"
)

// Reason says why a row, a group or a record was refused before it was sent. Empty means valid.
type Reason string

// The reasons, exactly as they are stored in meteringStatusReason.
const (
	MalformedSortKey               Reason = "MalformedSortKey"
	SortKeyMismatch                Reason = "SortKeyMismatch"
	MalformedTimestamp             Reason = "MalformedTimestamp"
	MissingQuantity                Reason = "MissingQuantity"
	NonNumericQuantity             Reason = "NonNumericQuantity"
	NonIntegerQuantity             Reason = "NonIntegerQuantity"
	NegativeQuantity               Reason = "NegativeQuantity"
	QuantityOutOfRange             Reason = "QuantityOutOfRange"
	MissingDimension               Reason = "MissingDimension"
	DimensionTooLong               Reason = "DimensionTooLong"
	TimestampInFuture              Reason = "TimestampInFuture"
	InvalidLicenseArn              Reason = "InvalidLicenseArn"
	MissingCustomerAWSAccountID    Reason = "MissingCustomerAWSAccountId"
	InvalidCustomerAWSAccountID    Reason = "InvalidCustomerAWSAccountId"
	MissingLegacyIdentifier        Reason = "MissingLegacyIdentifier"
	ConflictingIdentifier          Reason = "ConflictingIdentifier"
	DuplicateIdentity              Reason = "DuplicateIdentity"
	MixedIdentitySchemes           Reason = "MixedIdentitySchemes"
	MalformedAllocations           Reason = "MalformedAllocations"
	NegativeOrNonIntegerAllocation Reason = "NegativeOrNonIntegerAllocation"
	TooManyTags                    Reason = "TooManyTags"
	MissingTagKeyOrValue           Reason = "MissingTagKeyOrValue"
	InvalidTag                     Reason = "InvalidTag"
	TooManyAllocations             Reason = "TooManyAllocations"
	MixedAllocatedAndUnallocated   Reason = "MixedAllocatedAndUnallocated"
	AllocationSumMismatch          Reason = "AllocationSumMismatch"
	RecordTooLarge                 Reason = "RecordTooLarge"
)
