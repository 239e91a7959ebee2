// Package intake makes usage of the lines that come in by a file or over HTTP, and says in words what is wrong with those that
// cannot become any.
package intake

import (
	"fmt"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/usagefile"
	"github.com/awsmp/metering/usage"
)

// Event makes usage of a line. The error is a *usagefile.Refusal. The time is left to the writer, which judges it for whole rows: what
// the lines of a row are must not depend on when each was read, or the row would be another one when it is sent again.
func Event(l usagefile.Line) (usage.Event, error) {
	given, _ := l.Item[metering.AttrPending].(string)
	row, err := l.Row()
	if err != nil {
		return usage.Event{}, err
	}
	second, err := metering.ParseSecond(row.Timestamp)
	if err != nil {
		return usage.Event{}, Refuse(l.Number, metering.MalformedTimestamp)
	}
	if reason := row.Validate(second.Time()); reason != "" {
		return usage.Event{}, Refuse(l.Number, reason)
	}
	if hour := second.Hour().String(); given != "" && given != hour {
		return usage.Event{}, &usagefile.Refusal{Code: usagefile.Code(metering.SortKeyMismatch), Line: l.Number,
			Reason: fmt.Sprintf("its %s %.60q is not the hour of its timestamp", metering.AttrPending, given),
			Hint:   "leave it empty, or write " + hour}
	}
	return usage.Event{
		License: row.License, Account: row.Account, Dimension: row.Dimension, Time: second.Time(),
		Quantity: row.Quantity.N, Allocations: allocationsOf(row), CustomerIdentifier: row.CustomerIdentifier,
	}, nil
}

func allocationsOf(row metering.Row) []usage.Allocation {
	var list []usage.Allocation
	for _, a := range row.Allocated() {
		into := usage.Allocation{Quantity: a.Quantity}
		for _, t := range a.Tags {
			into.Tags = append(into.Tags, usage.Tag(t))
		}
		list = append(list, into)
	}
	return list
}

// Refuse is the refusal of a line that breaks a rule of metering.
func Refuse(line int, reason metering.Reason) *usagefile.Refusal {
	return &usagefile.Refusal{Code: usagefile.Code(reason), Line: line, Reason: ledger.Explain(ledger.Rejected, string(reason)).What, Hint: Hint(reason)}
}

// Hint is what to do about a line that was refused for a reason.
func Hint(reason metering.Reason) string {
	switch reason {
	case metering.MissingQuantity:
		return "write a whole number of units, 0 where there was no usage"
	case metering.NonNumericQuantity:
		return "write a whole number without quotes, blanks or thousands separators"
	case metering.NonIntegerQuantity:
		return "meter in a smaller unit, so that every quantity is a whole number"
	case metering.NegativeQuantity:
		return "leave the line out: usage cannot be taken back by metering"
	case metering.QuantityOutOfRange:
		return "meter in a larger unit, or spread it over several hours"
	case metering.DimensionTooLong:
		return "use the dimension's short API name"
	case metering.TimestampInFuture:
		return "write it again, from the same file or under the same key, when that minute has come"
	case metering.InvalidLicenseArn:
		return "use the LicenseArn that ResolveCustomer gave at registration"
	case metering.InvalidCustomerAWSAccountID, metering.MissingCustomerAWSAccountID:
		return "write twelve digits, leading zeros too: treat account ids as text"
	case metering.MissingLegacyIdentifier:
		return "fill customerIdentifier, which products of the old kind need, or write a license ARN"
	case metering.ConflictingIdentifier:
		return "leave customerIdentifier empty: there is a license ARN"
	case metering.SortKeyMismatch, metering.MalformedSortKey, metering.MalformedTimestamp:
		return "leave " + metering.AttrRowKey + " empty: it is derived from account, dimension and timestamp"
	case metering.TooManyTags:
		return "name at most five tags"
	case metering.InvalidTag, metering.MissingTagKeyOrValue:
		return "use letters, digits, spaces and + - = . _ : / @: up to 100 in a key and 256 in a value, one at least in each"
	case metering.MixedAllocatedAndUnallocated:
		return "give all lines of the dimension usageAllocations, or none"
	case metering.AllocationSumMismatch:
		return "let the allocated quantities add up to the quantity of the line"
	case metering.TooManyAllocations, metering.RecordTooLarge:
		return "tag more coarsely"
	}
	return `write usageAllocations as a JSON list like [{"AllocatedUsageQuantity": 3, "Tags": [{"Key": "team", "Value": "blue"}]}]`
}
