package node

import (
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// Sold is an hour that the simulator has billed, in the terms of the ledger. Products of the old kind go by their customer's
// identifier alone.
func Sold(b simulator.Billed) ledger.Sold {
	id := metering.Identity{Customer: b.LicenseARN, Account: b.AccountID, Dimension: b.Dimension, Hour: metering.HourOf(b.Hour)}
	if b.LicenseARN == "" {
		id.Customer, id.Account = b.CustomerIdentifier, ""
	}
	return ledger.Sold{Identity: id, Quantity: b.Quantity}
}
