package usage

import (
	"errors"
	"fmt"

	"github.com/awsmp/metering/internal/metering"
)

// Reason names why usage can never be billed as it is. Beside the constants here it is a reason of the tables, as
// "InvalidLicenseArn".
type Reason string

// Reasons of the writer's own.
const (
	HourClosed  Reason = "HourClosed"  // the hour can no longer be billed
	RowFull     Reason = "RowFull"     // the row has taken as many flushes as a row takes
	RowDropped  Reason = "RowDropped"  // an operator has given the row up: it takes part in no sum any more
	RowTooLarge Reason = "RowTooLarge" // the row would be larger than the table can hold
)

// Refusal says that usage can never be billed as it is. Nothing was written.
type Refusal struct {
	Reason Reason
	What   string // in plain words
	Hint   string // what to do about it
	cause  error
}

// Error is reason, explanation and hint.
func (r *Refusal) Error() string { return fmt.Sprintf("refused, %s: %s. %s", r.Reason, r.What, r.Hint) }

// Unwrap is what stood against the usage in the table, nil where it was refused before.
func (r *Refusal) Unwrap() error { return r.cause }

func refuse(reason metering.Reason) *Refusal { return refusalOf(Reason(reason), nil) }

// refusalOf explains a reason.
func refusalOf(reason Reason, cause error) *Refusal {
	if e, ok := explanations()[reason]; ok {
		return &Refusal{Reason: reason, What: e.what, Hint: e.hint, cause: cause}
	}
	return &Refusal{Reason: reason, What: "the pipeline would reject a row like this", Hint: "See docs/writer-contract.md.", cause: cause}
}

// refusedByTable is what stands in the table against a flush.
func refusedByTable(err error) *Refusal {
	reason := Reason(err.Error())
	switch {
	case errors.Is(err, metering.ErrMixedAllocations):
		reason = Reason(metering.MixedAllocatedAndUnallocated)
	case errors.Is(err, metering.ErrNoNumber):
		reason = Reason(metering.NonNumericQuantity)
	case errors.Is(err, metering.ErrRowIdentifier):
		reason = Reason(metering.ConflictingIdentifier)
	case errors.Is(err, metering.ErrRowAllocations):
		reason = Reason(metering.TooManyAllocations)
	case errors.Is(err, metering.ErrRowFull):
		reason = RowFull
	case errors.Is(err, metering.ErrRowDropped):
		reason = RowDropped
	case errors.Is(err, metering.ErrRowQuantity):
		reason = Reason(metering.QuantityOutOfRange)
	case errors.Is(err, metering.ErrTooLarge):
		reason = RowTooLarge
	}
	return refusalOf(reason, err)
}

type explanation struct{ what, hint string }

const tagRules = "Keys have 1 to 100 and values 1 to 256 letters, digits, spaces and + - = . _ : / @."

func explanations() map[Reason]explanation {
	texts := map[Reason]explanation{
		HourClosed:  {"its hour can no longer be billed", "Check that Time is set, in UTC, and find out why the usage comes so late; past hours are closed for good."},
		RowFull:     {fmt.Sprintf("its row has taken %d flushes, the most that one row takes", metering.MaxFlushes), "Flush less often, send fewer and larger batches, or use a shorter Fold."},
		RowDropped:  {"an operator has dropped its row, so nothing that is added to it would ever be billed", "Book the usage at another second, one Fold away, of the same hour."},
		RowTooLarge: {"its row would be larger than the table can hold", "Use fewer combinations of tags in a row, or a shorter Fold."},
	}
	for reason, e := range rowExplanations() {
		texts[Reason(reason)] = e
	}
	return texts
}

func rowExplanations() map[metering.Reason]explanation {
	return map[metering.Reason]explanation{
		metering.InvalidLicenseArn:              {"License is no license ARN", "Use the LicenseArn that ResolveCustomer returned at registration."},
		metering.MissingCustomerAWSAccountID:    {"Account is empty", "Use the CustomerAWSAccountId that ResolveCustomer returned at registration."},
		metering.InvalidCustomerAWSAccountID:    {"Account is not twelve digits", "Keep account ids as text, so that leading zeros stay."},
		metering.MalformedSortKey:               {"Dimension is no UTF-8 text", "Use the API name that the product's pricing gives the dimension."},
		metering.MissingDimension:               {"Dimension is empty", "Use the API name that the product's pricing gives the dimension."},
		metering.DimensionTooLong:               {"Dimension has more than 255 characters, or makes a key of more than 1,024 bytes", "Use the dimension's short API name."},
		metering.MissingLegacyIdentifier:        {"License is a plain name, and CustomerIdentifier is missing, longer than 255 characters or no UTF-8 text", "Set CustomerIdentifier, or use the license ARN."},
		metering.ConflictingIdentifier:          {"CustomerIdentifier stands beside a license ARN, or differs from other usage of the same hour", "Leave CustomerIdentifier empty where there is a license ARN."},
		metering.MalformedTimestamp:             {"Time is in no year that can be written", "Set Time to the moment of use."},
		metering.TimestampInFuture:              {"its row lies more than five minutes ahead of the clock", "Set the clocks by NTP; with a shorter Fold they may differ by more."},
		metering.NegativeQuantity:               {"Quantity is negative", "Usage cannot be taken back by metering: refund the buyer."},
		metering.QuantityOutOfRange:             {fmt.Sprintf("the quantity, or what its row would hold, exceeds %d", metering.MaxQuantity), "Meter in a larger unit, or use a shorter Fold."},
		metering.NonNumericQuantity:             {"the row in the table holds something that is no whole number", "Mend the row, then write the usage again."},
		metering.NegativeOrNonIntegerAllocation: {"an allocation is negative", "Allocations are whole numbers from 0 up."},
		metering.AllocationSumMismatch:          {"the allocations do not add up to Quantity", "Give the rest an allocation without tags."},
		metering.TooManyTags:                    {"an allocation has more than five tags", "Leave out the tags that the buyer needs least."},
		metering.TooManyAllocations:             {"a row would have more than 2,500 combinations of tags", "Tag more coarsely."},
		metering.MissingTagKeyOrValue:           {"a tag has no key or no value", tagRules},
		metering.InvalidTag:                     {"a tag is too long or holds a character that is not allowed", tagRules},
		metering.MixedAllocatedAndUnallocated:   {"usage with allocations and usage without cannot share a row, nor an hour", "Give every event of the dimension allocations, one without tags where nothing else fits, or none of them."},
	}
}
