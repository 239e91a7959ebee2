package usage

import (
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// Event is something that was used.
type Event struct {
	License   string // the license ARN, as ResolveCustomer spells it; a plain name of a product that meters by CustomerIdentifier
	Account   string // the buyer's AWS account id, twelve digits
	Dimension string // the API name of the priced unit
	Time      time.Time
	Quantity  int64 // 0 to 2,147,483,647 units; 0 says that nothing was used
	// Allocations split the quantity by tags and add up to it; none leaves it untagged. In one hour of a license, account and
	// dimension either everything above 0 has allocations or nothing.
	Allocations []Allocation
	// CustomerIdentifier is set for products that have no license ARNs, and for no other.
	CustomerIdentifier string
}

// Allocation is the part of a quantity that belongs to one combination of tags; without tags it is the untagged part.
type Allocation struct {
	Quantity int64
	Tags     []Tag // at most five
}

// Tag is a key of up to 100 and a value of up to 256 letters, digits, spaces and + - = . _ : / @ (AWS Marketplace Metering API
// reference, Tag).
type Tag struct{ Key, Value string }

func toMetering(list []Allocation) []metering.Allocation {
	if len(list) == 0 {
		return nil
	}
	out := make([]metering.Allocation, len(list))
	for i, a := range list {
		out[i].Quantity = a.Quantity
		for _, t := range a.Tags {
			out[i].Tags = append(out[i].Tags, metering.Tag(t))
		}
	}
	return out
}

func fromMetering(list []metering.Allocation) []Allocation {
	if len(list) == 0 {
		return nil
	}
	out := make([]Allocation, len(list))
	for i, a := range list {
		out[i].Quantity = a.Quantity
		for _, t := range a.Tags {
			out[i].Tags = append(out[i].Tags, Tag(t))
		}
	}
	return out
}
