package metering

import (
	"errors"
	"time"
)

// What the stages and the adapters of stores, queues and metrics say to each other.

// Outcome is what became of a conditional write: done, or not, with the item that stood against it, nil where there is none.
type Outcome[T any] struct {
	Done bool
	Old  *T
}

// Labelled is what became of one of several labels.
type Labelled struct {
	Outcome[Row]
	Err error // the write failed, or its answer was lost
}

// ErrTooLarge is a store's word that an item exceeds what it can hold.
var ErrTooLarge = errors.New("item too large for the store")

// PendingRow is an entry of the usage table's pending index: the table's own key, the bucket it was found under and the two
// attributes that the index carries, empty where the item has none.
type PendingRow struct {
	License, SortKey   string
	Bucket             string
	Account, Dimension string
}

// Rebucket moves a waiting row whose bucket is not the hour of its key to the right one, provided that it still stands
// under the wrong one.
type Rebucket struct {
	License, SortKey string
	From, To         string
	At               time.Time
}

// Holds reports whether the row still stands under the wrong bucket.
func (b Rebucket) Holds(r Row) bool { return r.Pending == b.From }

// Apply is the row under its right bucket.
func (b Rebucket) Apply(r Row) Row {
	r.Pending = b.To
	r.CreatedAt, r.UpdatedAt = stamp(r.CreatedAt, b.At)
	return r
}

// Deprovisioning is a license in its last hour: usage is accepted until Expiry.
type Deprovisioning struct {
	License, Account string
	Expiry           time.Time
}

// Metric is the name of a metric: X counts items, and beside it XUnits sums their units.
type Metric string

// The metrics of the pipeline. Each is emitted before the write that it speaks of: twice is possible, never is not.
const (
	MetricRowLate              Metric = "UsageLate"
	MetricRowRejected          Metric = "UsageRecordRejected" // groups, rows outside any group, and records
	MetricRowExpired           Metric = "UsageAggregationExpired"
	MetricCoveredRowChanged    Metric = "UsageCoveredRowChanged"
	MetricPendingRepaired      Metric = "UsagePendingRepaired"
	MetricManifestUnreadable   Metric = "UsageManifestUnreadable"
	MetricBilled               Metric = "UsageBilled"
	MetricDuplicate            Metric = "DuplicateRecord"
	MetricNotSubscribed        Metric = "CustomerNotSubscribed"
	MetricUnprocessed          Metric = "UsageRecordUnprocessed"
	MetricResultUnmatched      Metric = "UsageResultUnmatched"
	MetricException            Metric = "BatchMeterUsageException"
	MetricInDoubt              Metric = "UsageRecordInDoubt" // refused now, and perhaps billed by an earlier call without an answer
	MetricSubmissionExpired    Metric = "UsageSubmissionExpired"
	MetricDryRun               Metric = "DryRunSubmitted"
	MetricDeprovisioningLookup Metric = "DeprovisioningLookupFailed"
	MetricSubmissionPaused     Metric = "SubmissionPaused" // once a run; nothing is sent meanwhile

	// Of the lifecycle.
	MetricEventIgnored     Metric = "SubscriptionEventIgnored" // an event that metering has no use for; the cause is its kind
	MetricEventFailed      Metric = "SubscriptionEventFailed"  // an event that could not be read or applied; once a delivery, and it comes again
	MetricAgreementUnknown Metric = "AgreementUnknown"         // Ended or Amended of an agreement that no license here belongs to
	MetricTestEventRefused Metric = "TestEventRefused"         // an invented event where none is allowed

	// Of registration.
	MetricRegistered          Metric = "BuyerRegistered"
	MetricRegistrationRefused Metric = "RegistrationRefused" // the cause says why
	MetricRegistrationEarly   Metric = "RegistrationWithoutLicense"
	MetricRegistrationFailed  Metric = "RegistrationFailed" // nothing that the buyer could mend
)

// Measure is one observation: items of a metric, the units they hold, and the reason or exception behind them, if any.
type Measure struct {
	Metric Metric
	Items  int64
	Units  int64
	Cause  string
}

// Marked is a record that may be sent, marked in the store as sent. In doubt it bore the mark already: a call that nobody heard the
// answer of may have billed it.
type Marked struct {
	Record  Record
	InDoubt bool
}

// SendReport is what came of sending records to the Marketplace.
type SendReport struct {
	Calls            int   `json:"calls"`            // calls answered or attempted, repeats included
	Throttled        int   `json:"throttled"`        // calls that were throttled and repeated
	Settled          int   `json:"settled"`          // records with a verdict that was handed over
	Unprocessed      int   `json:"unprocessed"`      // records that the service left unprocessed twice: still pending
	UnprocessedUnits int64 `json:"unprocessedUnits"` // their units
	Unmatched        int   `json:"unmatched"`        // results that speak of none of our records
	InDoubt          int   `json:"inDoubt"`          // records refused now that may have been billed by an earlier, unanswered call: still pending
	InDoubtUnits     int64 `json:"inDoubtUnits"`     // their units
	Left             int   `json:"left"`             // records not reached in time: still pending
}

// Masked is an identifier fit for a log: enough to recognise one that you hold, too little to learn one.
func Masked(id string) string {
	if len(id) <= 8 {
		return "…"
	}
	return "…" + id[len(id)-4:]
}
