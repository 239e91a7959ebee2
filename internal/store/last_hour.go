package store

import (
	"cmp"

	"github.com/awsmp/metering/internal/metering"
)

// EndsFirst orders the licenses in their last hour: the one that ends first at the head.
func EndsFirst(a, b metering.Deprovisioning) int {
	return cmp.Or(a.Expiry.Compare(b.Expiry), cmp.Compare(a.License, b.License), cmp.Compare(a.Account, b.Account))
}
