package ledger

import (
	"strings"

	"github.com/awsmp/metering/internal/metering"
)

// Explanation is what a person is told about units that are not billed: all such text stands in this file.
type Explanation struct {
	Code string // stable: the reason or status as the tables hold it, or a word of ours where that is a sentence with figures
	What string // why they are there
	Do   string // what the seller can do
}

// Codes of ours, for causes that the tables describe in sentences of their own.
const (
	CodeArrivedLate = "ArrivedAfterCommit"
	CodeGrewLate    = "GrewAfterCommit"
	CodeWaiting     = "Waiting"
	CodeDropped     = Dropped
)

// What can be done, where many causes share it.
const (
	mend  = "Mend the row, and its whole hour comes back by awsmp rejected retry while it can be billed."
	anew  = ", and give this one up: awsmp rejected drop. Its hour comes back then by awsmp rejected retry."
	again = "awsmp refused retry, while the hour can be billed."
	atAWS = "Only this record was refused, not the others of its call. "
)

// Explain says in plain words why units are in a place and what to do about them.
func Explain(p Place, reason string) Explanation {
	switch {
	case p == InFlight && reason == Misfiled:
		return Explanation{Misfiled, "the row waits under another hour than its own, and is found when that hour is visited",
			"Set meteringPending to the row's own hour, or it may be found too late."}
	case p == InFlight:
		return Explanation{CodeWaiting, "waits for its next visit", "Nothing: run the ledger again later."}
	case p == Billed:
		return Explanation{}
	case p == Rejected && reason == Dropped:
		return Explanation{CodeDropped, "an operator has given the row up", "Nothing: its units are not billed, and no command brings them back."}
	case p == Late && strings.HasPrefix(reason, "Grew "):
		return Explanation{CodeGrewLate, "the row grew after its hour was committed",
			"awsmp late carry books the difference in the current hour, once. A longer MeteringLockHours leaves hours open for longer."}
	case p == Late:
		return Explanation{CodeArrivedLate, "the row arrived after its hour was committed",
			"awsmp late carry books it in the current hour, once. A longer MeteringLockHours leaves hours open for longer."}
	}
	if e, ok := explanations()[reason]; ok {
		e.Code = reason
		return e
	}
	if p == Rejected {
		return Explanation{reason, "the Marketplace refused the call with this exception", atAWS + "Look the exception up in the BatchMeterUsage reference."}
	}
	return Explanation{reason, "the tables give this reason", "Look the status up in the runbook."}
}

// over ends the advice for units that time has run out for.
const over = "Their hours can no longer be billed: no command brings these units back."

// Explain is what a person is told about units of the cause: nothing that needs time where there is none.
func (c Cause) Explain() Explanation {
	e := Explain(c.Place, c.Reason)
	if !c.Over {
		return e
	}
	lasting := []string{}
	if c.Place != DryRun {
		for _, sentence := range strings.SplitAfter(e.Do, ". ") {
			if i := strings.Index(sentence, " then awsmp "); i >= 0 {
				sentence = strings.TrimRight(sentence[:i], ",;") + "."
			}
			if sentence = strings.TrimSpace(sentence); !strings.Contains(sentence, "awsmp ") && !strings.Contains(sentence, "can be billed") && sentence != "Past hours are closed for good." {
				lasting = append(lasting, sentence)
			}
		}
	}
	e.Do = strings.Join(append(lasting, over), " ")
	return e
}

// explanations are by reason, status or exception.
func explanations() map[string]Explanation {
	texts := map[string]Explanation{
		// The Marketplace's verdicts and ours on time.
		string(metering.CustomerNotSubscribed): {"", "the buyer has no active agreement, or a suspended account",
			"When the buyer is active again: " + again},
		string(metering.DuplicateRecord): {"", "another quantity was billed for this hour before",
			"The first quantity stands. Find out who else meters this license; book the difference in the current hour, once."},
		string(metering.AggregationExpired): {"", "the hour could no longer be billed when the row was found", "Find out why the row came so late; past hours are closed for good."},
		string(metering.SubmissionExpired):  {"", "the hour could no longer be billed before the Marketplace took the record", "Look for an outage or a paused submission in that time; past hours are closed for good."},
		metering.VerdictUnknown: {"", "it was sent and no verdict was received, so it may be billed",
			"Ask the Marketplace what it billed for this hour before you book it anywhere else."},
		string(metering.DryRunSubmitted): {"", "a dry run would have sent it", "Go live, then awsmp dryrun promote, while the hour can be billed."},

		// Exceptions of the Marketplace that a single record causes.
		metering.ExceptionDimension: {"", "the product has no dimension of this name",
			"Define the dimension in the AWS Marketplace Management Portal (names are case-sensitive), then " + again},
		metering.ExceptionTimestamp: {"", "the Marketplace finds the hour outside the time that it takes usage for",
			"Check the clocks, and from when on the license was active; then " + again + " Past hours are closed for good."},
		metering.ExceptionLicense: {"", "the license does not exist, is another account's, or was not active in that hour",
			"Compare license and account with the buyer's registration. When the license is active: " + again},
		metering.ExceptionIdentifier: {"", "the Marketplace knows no customer with this identifier",
			"Compare it with the buyer's registration. When the Marketplace knows the customer: " + again +
				" What is metered by customer identifier stays refused: book it in the current hour, once."},
		metering.ExceptionTag:           {"", "the Marketplace refused a tag", atAWS + "Tags take letters, digits, spaces and + - = . _ : / @."},
		metering.ExceptionAllocations:   {"", "the Marketplace refused the allocations", atAWS + "Each combination of tags may stand once, and all must add up to the quantity."},
		metering.ExceptionValidation:    {"", "the Marketplace refused the record's form", atAWS + "Compare it with the BatchMeterUsage reference."},
		metering.ExceptionSerialization: {"", "the record could not be written in the API's form", "Compare it with the BatchMeterUsage reference."},
		metering.ExceptionTooLarge:      {"", "the record alone is larger than a call may be", "Use fewer combinations of tags in an hour."},
	}
	for reason, e := range rowExplanations() {
		texts[string(reason)] = e
	}
	return texts
}

// rowExplanations are the reasons for which rows, and with them their hours, are rejected before any call.
func rowExplanations() map[metering.Reason]Explanation {
	return map[metering.Reason]Explanation{
		metering.MalformedSortKey:               {"", "the sort key is not account#dimension#time", "The key of a row cannot be changed: write it anew under one of that form" + anew},
		metering.SortKeyMismatch:                {"", "the sort key says something else than the attributes", "Write the row anew with a key made of its own account, dimension and timestamp" + anew},
		metering.MalformedTimestamp:             {"", "the time is not of the form YYYY-MM-DDTHH:MM:SS", "Write the row anew with a UTC time of that form" + anew},
		metering.MissingQuantity:                {"", "a row has no quantity", mend},
		metering.NonNumericQuantity:             {"", "a quantity is no number", "Write quantity as a number, not as text. " + mend},
		metering.NonIntegerQuantity:             {"", "a quantity is not a whole number", "Meter in a smaller unit. " + mend},
		metering.NegativeQuantity:               {"", "a quantity is negative", "Usage cannot be taken back by metering. " + mend},
		metering.QuantityOutOfRange:             {"", "a row or the sum of its hour is over 2,147,483,647", "Meter in a larger unit. " + mend},
		metering.MissingDimension:               {"", "a row has no dimension", "Write the row anew with one" + anew},
		metering.DimensionTooLong:               {"", "the dimension is longer than 255 characters, or its key than 1,024 bytes", "Write the row anew with the dimension's short API name" + anew},
		metering.TimestampInFuture:              {"", "a row lies more than five minutes in the future", "Set the writer's clock, in UTC. " + mend},
		metering.InvalidLicenseArn:              {"", "the license is no license ARN", "Use the LicenseArn that ResolveCustomer gave at registration."},
		metering.MissingCustomerAWSAccountID:    {"", "a row has no customerAWSAccountId", "Write the row anew with one" + anew},
		metering.InvalidCustomerAWSAccountID:    {"", "customerAWSAccountId is not twelve digits", "Keep leading zeros: treat account ids as text. Write the row anew" + anew},
		metering.MissingLegacyIdentifier:        {"", "a row of a legacy product has no customerIdentifier", "Mend the row and set its marker again, and its whole hour comes back while it can be billed."},
		metering.ConflictingIdentifier:          {"", "an hour's rows name different customers, or a row with a license ARN names a customerIdentifier too", "Leave customerIdentifier out where there is a license ARN. " + mend},
		metering.DuplicateIdentity:              {"", "another record asks for the same sale", "Keep one of the two keys for this customer."},
		metering.MixedIdentitySchemes:           {"", "the same sale is metered by its license ARN too, and would be billed twice", "Stop the legacy writer for this buyer."},
		metering.MalformedAllocations:           {"", "usageAllocations is not a list of the API's form", mend},
		metering.NegativeOrNonIntegerAllocation: {"", "an allocated quantity is negative or not whole", mend},
		metering.TooManyTags:                    {"", "an allocation has more than five tags", mend},
		metering.MissingTagKeyOrValue:           {"", "a tag has no key or no value", mend},
		metering.InvalidTag:                     {"", "a tag is too long or holds a character that is not allowed", "Tags take letters, digits, spaces and + - = . _ : / @. " + mend},
		metering.TooManyAllocations:             {"", "an hour has more than 2,500 combinations of tags", "Tag more coarsely. " + mend},
		metering.MixedAllocatedAndUnallocated:   {"", "an hour mixes tagged and untagged rows", "Tag all rows of a dimension or none. " + mend},
		metering.AllocationSumMismatch:          {"", "the allocations do not add up to the quantity", mend},
		metering.RecordTooLarge:                 {"", "the hour's allocations are larger than a record may be", "Tag more coarsely. " + mend},
	}
}
