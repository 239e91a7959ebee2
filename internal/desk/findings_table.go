package desk

import (
	"strings"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// entry is an alarm of the runbook: how it is seen at a place, and by which command it is put right or looked into.
type entry struct {
	alarm string
	fix   string // a command of awsmp, without the place's flags; empty: explain of the alarm
	loses loses  // what runs out while it rings

	// How it is seen beside ringing and what the plant finds. Nothing of it means that these two alone tell.
	metric metering.Metric         // was counted in the last hours
	within int                     // hours; 0 means 24
	noun   string                  // of the metric's items
	said   string                  // what became of them
	final  bool                    // nothing brings it back
	in     func(ledger.Cause) bool // where it is in the books, which are better where they can be recomputed
	queue  string                  // holds messages for as long as age; of a dead-letter queue, any
	age    time.Duration
	stage  []string // has failed at its last run, or where silent has not run for so long
	silent time.Duration
}

// loses is what has a deadline.
type loses string

const (
	losesRows    loses = "rows"    // rows that wait
	losesRecords loses = "records" // records that wait
	losesRefused loses = "refused" // what was refused and can be sent once more
)

// entries are all alarms in the order of the runbook's list, which is that of their urgency.
func entries() []entry {
	// The stages as a machine and as a stack call them.
	discoverer := []string{metering.MeterSchedule.Name, metering.FlushSchedule.Name, metering.AgeoutSchedule.Name, "discoverer"}
	aggregator := []string{"aggregate", "aggregator"}
	submitter := []string{metering.SubmitSchedule.Name, "submitter"}
	expiry := []string{metering.ExpireSchedule.Name, "submission-expiry"}
	finalizer := []string{metering.FinalizeSchedule.Name, "deprovision-cleanup"}
	return []entry{
		{alarm: "deprovision-work-age", queue: "deprovision-work", age: 10 * time.Minute, loses: losesRows},
		{alarm: "deprovision-work-dead-letters", queue: "deprovision-work-dlq", fix: "dlq redrive deprovision-work-dlq", loses: losesRows},
		{alarm: "usage-submission-expired", metric: metering.MetricSubmissionExpired, noun: "record", said: "out of time before AWS Marketplace said that it is billed", final: true, in: submissionExpired, fix: "ledger"},
		{alarm: "usage-aggregation-expired", metric: metering.MetricRowExpired, noun: "row", said: "out of time before it was summed", final: true,
			in: of(ledger.Expired, string(metering.AggregationExpired)), fix: "ledger"},
		{alarm: "submitter-did-not-run", stage: submitter, silent: 15 * time.Minute, loses: losesRecords},
		{alarm: "submitter-errors", stage: submitter, loses: losesRecords},
		{alarm: "submitter-throttles", loses: losesRecords},
		{alarm: "discoverer-did-not-run", stage: discoverer, silent: 30 * time.Minute, loses: losesRows},
		{alarm: "discoverer-errors", stage: discoverer, loses: losesRows},
		{alarm: "aggregator-errors", stage: aggregator, loses: losesRows},
		{alarm: "aggregator-throttles", loses: losesRows},
		{alarm: "events-waiting", queue: "events", age: 15 * time.Minute},
		{alarm: "subscription-errors", stage: []string{"subscription"}},
		{alarm: "subscription-event-failed", metric: metering.MetricEventFailed, within: 2, noun: "event", said: "not read or not applied; it comes again"},
		{alarm: "events-undelivered", queue: "events-undelivered", fix: "dlq redrive events-undelivered"},
		{alarm: "deprovisioning-lookup-failed", metric: metering.MetricDeprovisioningLookup, within: 2, noun: "look-up", said: "which licenses are in their last hour could not be read"},
		{alarm: "events-dead-letters", queue: "events-dlq", fix: "dlq redrive events-dlq"},
		{alarm: "submission-paused", loses: losesRecords},
		{alarm: "work-age", queue: "work", age: 30 * time.Minute, loses: losesRows},
		{alarm: "work-dead-letters", queue: "work-dlq", fix: "dlq redrive work-dlq", loses: losesRows},
		{alarm: "usage-record-unprocessed", metric: metering.MetricUnprocessed, within: 2, noun: "time", said: "AWS Marketplace left a record undone; it is sent again by itself", loses: losesRecords},
		{alarm: "usage-record-rejected", metric: metering.MetricRowRejected, noun: "group", said: "rejected for what it holds, and not billed", in: ownFault, fix: "rejected list"},
		{alarm: "batch-meter-usage-exception", metric: metering.MetricException, noun: "record", said: "rejected by AWS Marketplace with an exception",
			in: exception, fix: "refused list", loses: losesRefused},
		{alarm: "customer-not-subscribed", metric: metering.MetricNotSubscribed, noun: "record", said: "refused, for the buyer has no active subscription",
			in: of(ledger.Refused, string(metering.CustomerNotSubscribed)), fix: "refused list", loses: losesRefused},
		{alarm: "usage-manifest-unreadable", metric: metering.MetricManifestUnreadable, within: 2, noun: "time", said: "a record's manifest could not be read, and its rows wait without a label"},
		{alarm: "usage-result-unmatched", metric: metering.MetricResultUnmatched, within: 2, noun: "answer", said: "fit no record that was sent"},
		{alarm: "usage-record-in-doubt", metric: metering.MetricInDoubt, noun: "record", said: "refused, and perhaps billed by an earlier call without an answer"},
		{alarm: "logs-missing"},
		{alarm: "registration-failed", metric: metering.MetricRegistrationFailed, noun: "registration", said: "failed for a reason that the buyer cannot mend"},
		{alarm: "registration-errors", stage: []string{"registration"}},
		{alarm: "usage-late", metric: metering.MetricRowLate, noun: "row", said: "late, for it came or grew after its hour was summed", in: of(ledger.Late, ""), fix: "late list"},
		{alarm: "duplicate-record", metric: metering.MetricDuplicate, noun: "record", said: "refused, for another quantity is billed for its hour",
			in: of(ledger.Refused, string(metering.DuplicateRecord)), fix: "ledger"},
		{alarm: "usage-covered-row-changed", metric: metering.MetricCoveredRowChanged, noun: "row", said: "lowered, spoilt or deleted after it was summed", fix: "ledger"},
		{alarm: "dry-run-submitted", metric: metering.MetricDryRun, noun: "record", said: "ended by a dry run, and not billed", in: of(ledger.DryRun, ""), fix: "dryrun list"},
		{alarm: "submission-expiry-did-not-run", stage: expiry, silent: 15 * time.Minute},
		{alarm: "submission-expiry-errors", stage: expiry},
		{alarm: "cleanup-age", queue: "cleanup", age: time.Hour},
		{alarm: "cleanup-dead-letters", queue: "cleanup-dlq", fix: "dlq redrive cleanup-dlq"},
		{alarm: "deprovision-cleanup-did-not-run", stage: finalizer, silent: 45 * time.Minute},
		{alarm: "deprovision-cleanup-errors", stage: finalizer},
	}
}

// of are the causes of a place; an empty reason is any.
func of(p ledger.Place, reason string) func(ledger.Cause) bool {
	return func(c ledger.Cause) bool { return c.Place == p && (reason == "" || c.Reason == reason) }
}

func submissionExpired(c ledger.Cause) bool {
	return c.Place == ledger.InDoubt || c.Place == ledger.Expired && c.Reason == string(metering.SubmissionExpired)
}

// exception reports whether the Marketplace rejected a record.
func exception(c ledger.Cause) bool {
	return c.Place == ledger.Rejected && strings.HasSuffix(c.Reason, "Exception")
}

// ownFault leaves out what an operator has dropped: it wants nobody any more.
func ownFault(c ledger.Cause) bool {
	return c.Place == ledger.Rejected && c.Reason != ledger.Dropped && !exception(c)
}

// Alarms are the names of all entries of the runbook, the most urgent first.
func Alarms() []string {
	all := entries()
	names := make([]string, len(all))
	for i, e := range all {
		names[i] = e.alarm
	}
	return names
}

// command is what puts an alarm right, or looks into it, at a place.
func (e entry) command(flags string) string {
	if e.fix == "" {
		return "awsmp explain " + e.alarm + flags
	}
	return "awsmp " + e.fix + flags
}

// Command is what shows or puts right at a place what an alarm is about; flags lead to the place.
func Command(alarm, flags string) string {
	for _, e := range entries() {
		if e.alarm == alarm && e.fix != "" {
			return e.command(flags)
		}
	}
	return "awsmp status" + flags
}
