package deploy_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/telemetry"
	"github.com/awsmp/metering/internal/template"
)

// failure is something that can go wrong, and how somebody hears of it.
type failure struct {
	what              string
	namespace, metric string
	alarms            []string // logical IDs
	entry             string   // of docs/runbook.md
	shows             []subject
}

// subject is what a failure is one of. Each kind has a list in the code or in the templates, and none of a list may be without a failure.
type subject struct{ kind, name string }

const (
	placeKind     = "place"          // units are there: internal/ledger
	statusKind    = "status"         // an item ends so
	failsKind     = "function fails" // by handler name
	throttledKind = "function waits" // Lambda does not start it
	idleKind      = "function rests" // nothing calls it
	ruleKind      = "event rule"     // by logical ID: it is switched off, or gone
	heldKind      = "queue holds"    // by logical ID: what should not be in it, or not for so long
)

func units(p ledger.Place, s ...metering.Status) []subject {
	list := []subject{{placeKind, string(p)}}
	for _, status := range s {
		list = append(list, subject{statusKind, string(status)})
	}
	return list
}

// failures are all of them.
func failures() []failure {
	const lambda, sqs, ours = "AWS/Lambda", "AWS/SQS", telemetry.Namespace
	const visible, age = "ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"
	one := func(kind, name string) []subject { return []subject{{kind, name}} }
	return []failure{
		{"waiting usage is not found", lambda, "Errors", []string{"DiscovererErrorsAlarm"}, "discoverer-errors", one(failsKind, functions.Discoverer)},
		{"groups are not summed", lambda, "Errors", []string{"AggregatorErrorsAlarm"}, "aggregator-errors", one(failsKind, functions.Aggregator)},
		{"records are not sent", lambda, "Errors", []string{"SubmitterErrorsAlarm"}, "submitter-errors", append(one(failsKind, functions.Submitter), units(ledger.InFlight)...)},
		{"records whose time is over have no name", lambda, "Errors", []string{"SubmissionExpiryErrorsAlarm"}, "submission-expiry-errors", one(failsKind, functions.SubmissionExpiry)},
		{"events of buyers are not applied", lambda, "Errors", []string{"SubscriptionErrorsAlarm"}, "subscription-errors", one(failsKind, functions.Subscription)},
		{"an event of a buyer cannot be read or applied", ours, string(metering.MetricEventFailed), []string{"SubscriptionEventFailedAlarm"}, "subscription-event-failed", one(failsKind, functions.Subscription)},
		{"last hours are not ended", lambda, "Errors", []string{"DeprovisionCleanupErrorsAlarm"}, "deprovision-cleanup-errors", one(failsKind, functions.DeprovisionCleanup)},

		{"Lambda does not start the submitter", lambda, "Throttles", []string{"SubmitterThrottlesAlarm"}, "submitter-throttles", one(throttledKind, functions.Submitter)},
		{"Lambda does not start aggregators", lambda, "Throttles", []string{"AggregatorThrottlesAlarm"}, "aggregator-throttles", one(throttledKind, functions.Aggregator)},

		{"nothing looks for waiting usage, or one of the rules is gone: it looks like no usage (case 50)", lambda, "Invocations", []string{"DiscovererDidNotRunAlarm"},
			"discoverer-did-not-run", one(idleKind, functions.Discoverer)},
		{"nothing sends records (case 50)", lambda, "Invocations", []string{"SubmitterDidNotRunAlarm"}, "submitter-did-not-run",
			append(one(idleKind, functions.Submitter), units(ledger.InFlight)...)},
		{"nothing ends records whose time is over (case 50)", lambda, "Invocations", []string{"SubmissionExpiryDidNotRunAlarm"}, "submission-expiry-did-not-run", one(idleKind, functions.SubmissionExpiry)},
		{"nothing ends last hours", lambda, "Invocations", []string{"DeprovisionCleanupDidNotRunAlarm"}, "deprovision-cleanup-did-not-run", one(idleKind, functions.DeprovisionCleanup)},
		{"lines of the logs do not arrive, and with them no metrics of ours: silence looks like health (case 50)", "AWS/Logs", "IncomingLogEvents", []string{"LogsMissingAlarm"}, "logs-missing", nil},

		{"a group fails again and again", sqs, visible, []string{"WorkDeadLettersAlarm"}, "work-dead-letters", append(one(failsKind, functions.Aggregator), subject{heldKind, "WorkDeadLetters"})},
		{"a group of a license in its last hour fails again and again", sqs, visible, []string{"DeprovisionWorkDeadLettersAlarm"}, "deprovision-work-dead-letters", one(heldKind, "DeprovisionWorkDeadLetters")},
		{"labels are lost, and rows that are billed look as if they waited (F2)", sqs, visible, []string{"CleanupDeadLettersAlarm"}, "cleanup-dead-letters",
			append(one(failsKind, functions.Cleanup), subject{heldKind, "CleanupDeadLetters"})},
		{"an event waits in vain for its license, or cannot be applied", sqs, visible, []string{"EventsDeadLettersAlarm"}, "events-dead-letters",
			append(one(failsKind, functions.Subscription), subject{heldKind, "EventsDeadLetters"})},
		{"EventBridge does not reach the queue", sqs, visible, []string{"UndeliveredEventsAlarm"}, "events-undelivered", one(heldKind, "UndeliveredEvents")},
		{"nothing takes events", sqs, visible, []string{"EventsWaitingAlarm"}, "events-waiting", append(one(idleKind, functions.Subscription), subject{heldKind, "EventsQueue"})},
		{"nothing takes groups, or too slowly", sqs, age, []string{"WorkAgeAlarm"}, "work-age", append(append(one(idleKind, functions.Aggregator), subject{heldKind, "WorkQueue"}), units(ledger.InFlight)...)},
		{"nothing takes groups of licenses in their last hour, or too slowly", sqs, age, []string{"DeprovisionWorkAgeAlarm"}, "deprovision-work-age", one(heldKind, "DeprovisionWorkQueue")},
		{"nothing takes labels, or too slowly", sqs, age, []string{"CleanupAgeAlarm"}, "cleanup-age", append(one(idleKind, functions.Cleanup), subject{heldKind, "CleanupQueue"})},

		{"rows run out of time: none of them is in a record, so that this is never said of billed ones (F2)", ours, string(metering.MetricRowExpired), []string{"UsageAggregationExpiredAlarm"},
			"usage-aggregation-expired", units(ledger.Expired, metering.AggregationExpired)},
		{"records run out of time", ours, string(metering.MetricSubmissionExpired), []string{"UsageSubmissionExpiredAlarm"}, "usage-submission-expired",
			append(units(ledger.Expired, metering.SubmissionExpired), units(ledger.InDoubt)...)},
		{"usage is malformed: groups are counted once and not at each delivery, and their units beside them (F50)", ours, string(metering.MetricRowRejected), []string{"UsageRecordRejectedAlarm"},
			"usage-record-rejected", units(ledger.Rejected, metering.RejectedClientSide)},
		{"usage comes after its hour was summed (F3)", ours, string(metering.MetricRowLate), []string{"UsageLateAlarm"}, "usage-late", units(ledger.Late, metering.LateUsage)},
		{"a row is lowered or deleted after it was summed", ours, string(metering.MetricCoveredRowChanged), []string{"UsageCoveredRowChangedAlarm"}, "usage-covered-row-changed", nil},
		{"what a record was summed from cannot be read", ours, string(metering.MetricManifestUnreadable), []string{"UsageManifestUnreadableAlarm"}, "usage-manifest-unreadable", units(ledger.InFlight)},
		{"a buyer is not subscribed", ours, string(metering.MetricNotSubscribed), []string{"CustomerNotSubscribedAlarm"}, "customer-not-subscribed", units(ledger.Refused, metering.CustomerNotSubscribed)},
		{"an hour is billed with another quantity, and the rest is not billed (F20)", ours, string(metering.MetricDuplicate), []string{"DuplicateRecordAlarm"}, "duplicate-record",
			units(ledger.Refused, metering.DuplicateRecord)},
		{"the service refuses a record as such", ours, string(metering.MetricException), []string{"BatchMeterUsageExceptionAlarm"}, "batch-meter-usage-exception",
			units(ledger.Rejected, metering.RejectedClientSide)},
		{"the service answers for no record of ours (F33)", ours, string(metering.MetricResultUnmatched), []string{"UsageResultUnmatchedAlarm"}, "usage-result-unmatched", units(ledger.InFlight)},
		{"a record that may be billed is refused", ours, string(metering.MetricInDoubt), []string{"UsageRecordInDoubtAlarm"}, "usage-record-in-doubt", units(ledger.InDoubt)},
		{"the service leaves records undone", ours, string(metering.MetricUnprocessed), []string{"UsageRecordUnprocessedAlarm"}, "usage-record-unprocessed", units(ledger.InFlight)},
		{"licenses in their last hour cannot be looked up", ours, string(metering.MetricDeprovisioningLookup), []string{"DeprovisioningLookupFailedAlarm"}, "deprovisioning-lookup-failed", nil},
		{"somebody forgets that submission is paused", ours, string(metering.MetricSubmissionPaused), []string{"SubmissionPausedAlarm"}, "submission-paused", units(ledger.InFlight)},
		{"somebody forgets that a stack is in dry-run (F38)", ours, string(metering.MetricDryRun), []string{"DryRunSubmittedAlarm"}, "dry-run-submitted", units(ledger.DryRun, metering.DryRunSubmitted)},
		{"a buyer cannot register, and could not mend it", ours, string(metering.MetricRegistrationFailed), []string{"RegistrationFailedAlarm"}, "registration-failed", nil},
		{"a buyer gets no page of ours", "AWS/ApiGateway", "5XXError", []string{"RegistrationErrorsAlarm"}, "registration-errors",
			one(failsKind, functions.Registration)},
	}
}

// staysSilent is what no alarm can tell from a quiet day, and why.
func staysSilent() map[subject]string {
	return map[subject]string{
		{idleKind, functions.Registration}: "it is called when a buyer comes, and no buyer is no failure",
		{ruleKind, "MarketplaceEvents"}:    "where nobody comes or goes there are no events; the runbook's last section says how to look",
		{ruleKind, "TestEvents"}:           "a test stage has events when somebody invents one",
	}
}

// meansNoLoss are the metrics that no alarm watches, and why.
func meansNoLoss() map[metering.Metric]string {
	return map[metering.Metric]string{
		metering.MetricBilled:              "it is what all of this is for",
		metering.MetricPendingRepaired:     "a row that was filed under a wrong hour has been put under the right one, and goes its way there; if that hour is over, UsageAggregationExpired says so",
		metering.MetricEventIgnored:        "an event of a kind that changes nothing here",
		metering.MetricAgreementUnknown:    "the agreement of another product of the account, as a rule; an agreement's end moves no money, and what does, a license's own event, ends in the dead-letter queue",
		metering.MetricTestEventRefused:    "an invented event, kept from where buyers are real",
		metering.MetricRegistered:          "a buyer has registered",
		metering.MetricRegistrationRefused: "a buyer was told what to do; usage is metered whether they register or not",
		metering.MetricRegistrationEarly:   "a buyer was told to come back, and what they typed is kept",
	}
}

// landscape is what failures are held against.
type landscape struct {
	stacks   []*template.Stack
	metrics  []string
	subjects []subject // each must be shown
	runbook  string
}

// theLandscape is the real one, with other stacks and another runbook where they are given.
func theLandscape(t *testing.T, stacks []*template.Stack, runbook string) landscape {
	t.Helper()
	l := landscape{stacks: stacks, metrics: slices.Sorted(maps.Values(metricConstants())), runbook: runbook}
	add := func(kind string, names ...string) {
		for _, name := range names {
			if s := (subject{kind, name}); !slices.Contains(l.subjects, s) {
				l.subjects = append(l.subjects, s)
			}
		}
	}
	for _, place := range constantsOf("../internal/ledger/place.go", "Place") {
		if place != string(ledger.Billed) {
			add(placeKind, place)
		}
	}
	for _, status := range constantsOf("../internal/metering/status.go", "Status") {
		if status != string(metering.Success) && status != string(metering.Aggregated) {
			add(statusKind, status)
		}
	}
	for _, f := range functions.All() {
		add(failsKind, f.Handler)
		add(idleKind, f.Handler)
	}
	add(throttledKind, functions.Submitter, functions.Aggregator) // one alone, and many at once: others come again by themselves, or are told by what waits
	for _, s := range stacks {
		for _, queue := range s.OfType(queueType) {
			add(heldKind, queue.ID)
		}
		for _, rule := range s.OfType(ruleType) {
			if rule.Get("EventPattern") != nil { // that a schedule rests is told by the function that it does not call
				add(ruleKind, rule.ID)
			}
		}
	}
	return l
}

// gaps are what the failures leave out, and what they speak of that is not there.
func (l landscape) gaps(list []failure, harmless map[metering.Metric]string) (wrong []string) {
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	alarms, watched, shown, entries := map[string]bool{}, map[string]bool{}, map[subject]bool{}, map[string]bool{}
	for _, s := range l.stacks {
		for _, a := range s.OfType(alarmType) {
			alarms[a.ID] = false
		}
	}
	for _, f := range list {
		entries[f.entry] = true
		if f.namespace == telemetry.Namespace {
			watched[f.metric] = true
		}
		for _, s := range f.shows {
			if shown[s] = true; !slices.Contains(l.subjects, s) {
				note("%s: there is no %s %s", f.what, s.kind, s.name)
			}
		}
		if len(f.alarms) == 0 {
			note("%s: nothing rings", f.what)
		}
		for _, id := range f.alarms {
			if _, there := alarms[id]; !there {
				note("%s: no stack has %s", f.what, id)
			}
			alarms[id] = true
			wrong = append(wrong, l.mismatches(f, id)...)
		}
	}
	for id, named := range alarms {
		if !named {
			note("%s is of no failure", id)
		}
	}
	for _, s := range l.subjects {
		switch silent := staysSilent()[s] != ""; {
		case !shown[s] && !silent:
			note("no failure is of the %s %s", s.kind, s.name)
		case shown[s] && silent:
			note("the %s %s has a failure, and a reason why nothing can tell", s.kind, s.name)
		}
	}
	for s := range staysSilent() {
		if !slices.Contains(l.subjects, s) {
			note("there is no %s %s", s.kind, s.name)
		}
	}
	for _, m := range l.metrics {
		if reason := harmless[metering.Metric(m)]; watched[m] == (reason != "") {
			note("%s has to have an alarm, or a reason why it needs none, and not both", m)
		}
	}
	for m := range harmless {
		if !slices.Contains(l.metrics, string(m)) {
			note("no code counts %s", m)
		}
	}
	return append(wrong, entryProblems(l.runbook, entries)...)
}

// mismatches are how an alarm differs from the failure that it should ring for.
func (l landscape) mismatches(f failure, id string) (wrong []string) {
	for _, s := range l.stacks {
		alarm, there := s.Resources[id]
		if !there {
			continue
		}
		if alarm.Text("Namespace") != f.namespace || alarm.Text("MetricName") != f.metric {
			wrong = append(wrong, fmt.Sprintf("%s: %s watches %s", f.what, id, alarm.Text("MetricName")))
		}
		if entry, err := alarmEntry(s, alarm); err != nil || entry != f.entry || !strings.HasSuffix(alarm.Text("AlarmDescription"), "#"+f.entry) {
			wrong = append(wrong, fmt.Sprintf("%s: %s leads to the entry %s, not to %s", f.what, id, entry, f.entry))
		}
		for _, of := range f.shows { // what it is said to show is what it looks at
			name := alarm.Text("Dimensions", "0", "Value")
			queue := of.kind == heldKind && s.Resources[of.name].Text("QueueName") != name
			function := f.namespace == "AWS/Lambda" && strings.HasPrefix(of.kind, "function") && handled(s, of.name).Text("FunctionName") != name
			if queue || function {
				wrong = append(wrong, fmt.Sprintf("%s: %s looks at %s and not at %s", f.what, id, name, of.name))
			}
		}
	}
	return wrong
}

func allStacks(t *testing.T) (list []*template.Stack) {
	t.Helper()
	for _, d := range deployments() {
		list = append(list, d.whole(t))
	}
	return list
}

func TestEveryFailureIsHeardOf(t *testing.T) {
	t.Parallel()
	for _, gap := range theLandscape(t, allStacks(t), runbookText(t)).gaps(failures(), meansNoLoss()) {
		t.Error(gap)
	}
}

// TestNoFailureCanBeLeftOut: each is needed, and so is each reason why a metric needs no alarm.
func TestNoFailureCanBeLeftOut(t *testing.T) {
	t.Parallel()
	l := theLandscape(t, allStacks(t), runbookText(t))
	for i, f := range failures() {
		if list := slices.Delete(failures(), i, i+1); len(l.gaps(list, meansNoLoss())) == 0 {
			t.Errorf("nothing misses %q", f.what)
		}
	}
	for m := range meansNoLoss() {
		rest := meansNoLoss()
		delete(rest, m)
		if len(l.gaps(failures(), rest)) == 0 {
			t.Errorf("nothing misses %s", m)
		}
	}
}

// TestGapsAreSeen breaks the templates, the runbook and the lists on purpose.
func TestGapsAreSeen(t *testing.T) {
	t.Parallel()
	text, stacks := runbookText(t), allStacks(t)
	replaced := func(old, with string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("the runbook has no %q", old)
		}
		return strings.Replace(text, old, with, 1)
	}
	for _, tt := range []struct {
		name     string
		template *fault
		runbook  string
		list     func(*landscape, *[]failure, map[metering.Metric]string)
		says     string
	}{
		{name: "an alarm is taken out", template: &fault{in: "full live", at: "UsageLateAlarm"}, says: "no stack has UsageLateAlarm"},
		{name: "an alarm is new", template: &fault{"events live", "EventsWaitingAlarm", "EventsWaitingAlarm:", "EventsRestingAlarm:", ""}, says: "EventsRestingAlarm is of no failure"},
		{name: "an alarm watches another metric", template: &fault{"full live", "DuplicateRecordAlarm", "MetricName: DuplicateRecord", "MetricName: UsageBilled", ""}, says: "DuplicateRecordAlarm watches UsageBilled"},
		{name: "an alarm watches another queue", template: &fault{"full live", "WorkAgeAlarm", "WorkQueue", "CleanupQueue", ""}, says: "WorkAgeAlarm looks at awsmp-exampleproduct-cleanup and not at WorkQueue"},
		{name: "an alarm watches another function", template: &fault{"full live", "SubmitterErrorsAlarm", "SubmitterFunction", "RegistrationFunction", ""}, says: "and not at submitter"},
		{name: "an alarm leads elsewhere", template: &fault{"full live", "UsageLateAlarm", "#usage-late", "#duplicate-record", ""}, says: "UsageLateAlarm leads"},
		{name: "an alarm has another name", template: &fault{"full live", "UsageLateAlarm", "-usage-late", "-late", ""}, says: "leads to the entry late"},
		{name: "a queue is new", template: &fault{"full live", "CleanupMapping", "CleanupMapping:", "OtherQueue:\n    Type: AWS::SQS::Queue\n  CleanupMapping:", ""}, says: "no failure is of the queue holds OtherQueue"},
		{name: "an event rule is new", template: &fault{"events live", "TestEvents", "TestEvents:", "OtherEvents:\n    Type: AWS::Events::Rule\n    Properties: {EventPattern: {source: [any]}}\n\n  TestEvents:", ""},
			says: "no failure is of the event rule OtherEvents"},
		{name: "throttling is not watched", list: func(_ *landscape, list *[]failure, _ map[metering.Metric]string) {
			*list = slices.DeleteFunc(*list, func(f failure) bool { return f.metric == "Throttles" })
		}, says: "no failure is of the function waits submitter"},
		{name: "silence is told after all", list: func(_ *landscape, list *[]failure, _ map[metering.Metric]string) {
			(*list)[0].shows = append((*list)[0].shows, subject{ruleKind, "MarketplaceEvents"})
		}, says: "MarketplaceEvents has a failure, and a reason"},

		{name: "a heading is gone", runbook: replaced("## usage-late\n", ""), says: "the runbook has no entry usage-late"},
		{name: "a heading is no alarm's", runbook: replaced("## usage-late\n", "## usage-lately\n"), says: "entry usage-lately is no alarm's"},
		{name: "a part is gone", runbook: replaced("**What to do.**", ""), says: "lacks the part **What to do.**"},
		{name: "parts change places", runbook: replaced("**What it means in money.**", "**How to look.**"), says: "lacks the part **What it means in money.**"},
		{name: "an entry is long", runbook: replaced("## usage-late\n", "## usage-late\n"+strings.Repeat("\n", longestEntry)), says: "entry usage-late has"},
		{name: "the list leaves one out", runbook: replaced("| [usage-late](#usage-late) |", "| usage-late |"), says: "other entries or another order"},
		{name: "the list leads elsewhere", runbook: replaced("[usage-late](#usage-late)", "[usage-late](#duplicate-record)"), says: "leads from usage-late"},
		{name: "the list has no time", runbook: replaced("| [cleanup-age](#cleanup-age) | none |", "| [cleanup-age](#cleanup-age) |  |"), says: "other entries or another order"},

		{name: "a metric is new", list: func(l *landscape, _ *[]failure, _ map[metering.Metric]string) {
			l.metrics = append(l.metrics, "UsageStolen")
		}, says: "UsageStolen has to have an alarm"},
		{name: "a metric has both", list: func(_ *landscape, _ *[]failure, no map[metering.Metric]string) {
			no[metering.MetricRowLate] = "it happens"
		}, says: "UsageLate has to have an alarm"},
		{name: "a reason is empty", list: func(_ *landscape, _ *[]failure, no map[metering.Metric]string) { no[metering.MetricBilled] = "" }, says: "UsageBilled has to have"},
		{name: "a metric is gone", list: func(_ *landscape, _ *[]failure, no map[metering.Metric]string) { no["UsageStolen"] = "it is not" }, says: "no code counts UsageStolen"},
		{name: "a place is new", list: func(l *landscape, _ *[]failure, _ map[metering.Metric]string) {
			l.subjects = append(l.subjects, subject{placeKind, "stolen"})
		}, says: "no failure is of the place stolen"},
		{name: "a place is gone", list: func(_ *landscape, list *[]failure, _ map[metering.Metric]string) { (*list)[0].shows = units("stolen") }, says: "there is no place stolen"},
		{name: "a status is new", list: func(l *landscape, _ *[]failure, _ map[metering.Metric]string) {
			l.subjects = append(l.subjects, subject{statusKind, "Stolen"})
		}, says: "no failure is of the status Stolen"},
		{name: "nothing rings", list: func(_ *landscape, list *[]failure, _ map[metering.Metric]string) { (*list)[0].alarms = nil }, says: "nothing rings"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := theLandscape(t, stacks, text)
			if tt.template != nil {
				l = theLandscape(t, tt.template.everywhere(t), text)
			}
			if tt.runbook != "" {
				l.runbook = tt.runbook
			}
			list, harmless := failures(), meansNoLoss()
			if tt.list != nil {
				tt.list(&l, &list, harmless)
			}
			gaps := l.gaps(list, harmless)
			if !slices.ContainsFunc(gaps, func(gap string) bool { return strings.Contains(gap, tt.says) }) {
				t.Errorf("nothing says %q: %q", tt.says, gaps)
			}
		})
	}
}

// everywhere is every deployment, those of the broken template with the fault in it.
func (f fault) everywhere(t *testing.T) (list []*template.Stack) {
	t.Helper()
	file := deploymentNamed(t, f.in).file
	for _, d := range deployments() {
		if d.file != file {
			list = append(list, d.whole(t))
			continue
		}
		if f.in = d.name; d.parameters["DeploymentMode"] == "" { // what is only in the full pipeline is broken there
			list = append(list, f.stack(t, nil))
		}
	}
	return list
}
