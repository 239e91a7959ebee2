// Package ledger recomputes the law of conservation from the tables alone: for every license, account, dimension and hour,
// each written unit is in exactly one place.
//
//	written = billed + refused + rejected + late + expired + in doubt + dry run + in flight
//
// The record decides first, the row's label second. What is in no place is an imbalance and has no excuse.
package ledger

import "github.com/awsmp/metering/internal/metering"

// Place is where a unit of quantity is.
type Place string

// The places, in the order in which they are shown.
const (
	Billed   Place = "billed"
	Refused  Place = "refused"
	Rejected Place = "rejected"
	Late     Place = "late"
	Expired  Place = "expired"
	InDoubt  Place = "inDoubt"
	DryRun   Place = "dryRun"
	InFlight Place = "inFlight"
)

// Misfiled is the cause of a row that waits under another hour than its own: it is found when that hour is visited, which may
// be years away.
const Misfiled = "Misfiled"

// Dropped is the cause of a rejected row that an operator has given up: it comes back by no command.
const Dropped = "Dropped"

// Places lists every place once.
func Places() []Place {
	return []Place{Billed, Refused, Rejected, Late, Expired, InDoubt, DryRun, InFlight}
}

// Words is the place as it is called in a text.
func (p Place) Words() string {
	switch p {
	case InDoubt:
		return "in doubt"
	case DryRun:
		return "dry run"
	case InFlight:
		return "in flight"
	}
	return string(p)
}

// Amount is a number of items (seconds of usage, or records without rows) and the units they hold.
type Amount struct {
	Items int   `json:"items"`
	Units int64 `json:"units"`
}

func (a *Amount) add(b Amount) {
	a.Items += b.Items
	a.Units += b.Units
}

// recordPlace is where the quantity of a record is, and why.
func recordPlace(r metering.Record) (Place, string, bool) {
	if r.Pending != "" {
		return InFlight, "", isHour(r.Pending)
	}
	switch r.Status {
	case metering.Success:
		return Billed, "", true
	case metering.DuplicateRecord, metering.CustomerNotSubscribed:
		return Refused, string(r.Status), true
	case metering.RejectedClientSide:
		return Rejected, r.StatusReason, true
	case metering.SubmissionExpired:
		if r.SentQuantity.Whole {
			return InDoubt, metering.VerdictUnknown, true
		}
		return Expired, string(r.Status), true
	case metering.DryRunSubmitted:
		return DryRun, string(r.Status), true
	}
	return "", "", false
}

// rowPlace is where the quantity of a row is that no manifest holds, and why.
func rowPlace(r metering.Row) (Place, string, bool) {
	if r.Pending != "" {
		key, reason := metering.ParseRowKey(r.SortKey)
		if reason == "" && r.Pending != key.Second.Hour().String() {
			return InFlight, Misfiled, isHour(r.Pending)
		}
		return InFlight, "", isHour(r.Pending)
	}
	switch r.Status {
	case metering.LateUsage:
		return Late, r.StatusReason, true
	case metering.RejectedClientSide:
		if r.Dropped {
			return Rejected, Dropped, true
		}
		return Rejected, r.StatusReason, true
	case metering.AggregationExpired:
		return Expired, string(r.Status), true
	}
	return "", "", false
}

// isHour reports whether a marker can be found: what waits under no hour is in no place.
func isHour(marker string) bool {
	_, err := metering.ParseHour(marker)
	return err == nil
}
