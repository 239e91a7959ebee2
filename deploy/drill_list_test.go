package deploy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// drilled is an alarm of the runbook, and how the drill goes about it.
type drilled struct{ alarm, cause, repair string }

// drills are all of them, in the runbook's order.
func drills() []drilled {
	const (
		mapping = "`aws lambda update-event-source-mapping`, which status names"
		rule    = "`aws events enable-rule`, which status names"
		limited = "`aws lambda put-function-concurrency`, which status names"
		room    = "`aws lambda delete-function-concurrency`, which status names"
		role    = "the statements of the role, which the line of the log names"
		redrive = "the statements of the role, then `awsmp dlq redrive`, which status names"
		nothing = "nothing: it passes by itself"
		leave   = "nothing: it has its name, and is left"
		setting = "`aws cloudformation update-stack`, which status names"
	)
	return []drilled{
		{"deprovision-work-age", "the mapping of the queue is switched off", mapping},
		{"deprovision-work-dead-letters", "the aggregator's role loses its tables", redrive},
		{"usage-submission-expired", "a record whose hour is over", leave},
		{"usage-aggregation-expired", "a row whose hour is over", leave},
		{"submitter-did-not-run", "its rule is disabled; its concurrency is 0", rule + "; " + limited},
		{"submitter-errors", "the Marketplace refuses every call", nothing},
		{"submitter-throttles", "its concurrency is 0", limited},
		{"discoverer-did-not-run", "one of its rules is disabled", rule},
		{"discoverer-errors", "its role loses its tables", role},
		{"aggregator-errors", "its process dies in the middle of a batch", nothing},
		{"aggregator-throttles", "its concurrency is 0", room},
		{"events-waiting", "the mapping of the queue is switched off", mapping},
		{"subscription-errors", "its process dies in the middle of a batch", nothing},
		{"subscription-event-failed", "its role loses its table", role},
		{"events-undelivered", "the queue's policy is gone", "the queue's policy, then `awsmp dlq redrive`, which status names"},
		{"deprovisioning-lookup-failed", "the submitter's role loses the subscribers", role},
		{"events-dead-letters", "the role of the subscription function loses its table", redrive},
		{"submission-paused", "`Submission` is set to `paused`, for seven hours", setting},
		{"work-age", "the mapping of the queue is switched off", mapping},
		{"work-dead-letters", "the aggregator's role loses its tables", redrive},
		{"usage-record-unprocessed", "the Marketplace leaves a record undone, run after run", nothing},
		{"usage-record-rejected", "a quantity that is not whole", "the row, by hand, then `awsmp rejected retry`, which explain names"},
		{"batch-meter-usage-exception", "a dimension that the product does not have", "the dimension, then `awsmp refused retry`, which explain names"},
		{"customer-not-subscribed", "a buyer who is suspended", "the buyer comes back, then `awsmp refused retry`, which explain names"},
		{"usage-manifest-unreadable", "a manifest of another release", "the manifest, from a copy"},
		{"usage-result-unmatched", "an answer for a record that nobody asked about", nothing},
		{"usage-record-in-doubt", "a call without an answer, and then a buyer who is suspended", "the buyer comes back; it is sent again by itself"},
		{"logs-missing", "the submitter's log group is deleted; the submitter does not run", "`aws logs create-log-group`, which status names"},
		{"registration-failed", "the registration's role may not ask the Marketplace", role},
		{"registration-errors", "its process dies with a buyer's click", nothing},
		{"usage-late", "a row that comes after its hour was summed", "`awsmp late carry`, which explain names"},
		{"duplicate-record", "another program has billed the hour", leave},
		{"usage-covered-row-changed", "a row that is lowered after it was summed", leave},
		{"dry-run-submitted", "`MeteringMode` is set to `dry-run`, for a day", setting + ", then `awsmp dryrun promote`, which explain names"},
		{"submission-expiry-did-not-run", "the rule of the submitter is disabled, which is its own too", rule},
		{"submission-expiry-errors", "its role loses its table", role},
		{"cleanup-age", "the mapping of the queue is switched off", mapping},
		{"cleanup-dead-letters", "the cleanup's role loses its table", redrive},
		{"deprovision-cleanup-did-not-run", "its schedule is disabled", "`aws scheduler update-schedule`, which status names"},
		{"deprovision-cleanup-errors", "its role loses its table", role},
	}
}

// TestTheDrillLeavesNoAlarmOut: every alarm of the runbook is in the drill, and docs/drill.md says of each what the drill does.
func TestTheDrillLeavesNoAlarmOut(t *testing.T) {
	t.Parallel()
	var alarms, drill, told, want []string
	for _, row := range tocRow.FindAllStringSubmatch(runbookText(t), -1) {
		alarms = append(alarms, row[1])
	}
	for _, d := range drills() {
		drill = append(drill, d.alarm)
		want = append(want, fmt.Sprintf("| [%s](runbook.md#%[1]s) | %s | %s |", d.alarm, d.cause, d.repair))
	}
	if diff := cmp.Diff(alarms, drill); diff != "" {
		t.Errorf("alarms of the runbook in the drill (-runbook +drill):\n%s", diff)
	}
	for line := range strings.Lines(fileText(t, "../docs/drill.md")) {
		if strings.HasPrefix(line, "| [") {
			told = append(told, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("docs/drill.md (-drill +page):\n%s", diff)
	}
}
