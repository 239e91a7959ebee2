package stack

import (
	"fmt"
	"slices"
	"strings"

	"github.com/awsmp/metering/internal/metering"
)

// What the templates make, by the names that they give it. A test holds these lists to the templates.

// where is in which stacks something is.
type where int

const (
	always  where = iota // in every metering stack
	full                 // in those of the full pipeline
	dryRun               // in those in dry-run
	outside              // in the events stack
)

// holds reports whether the stack, or the events stack beside it, should have what is there.
func (s *Stack) holds(w where) bool {
	switch w {
	case full:
		return !s.Direct
	case dryRun:
		return s.DryRun
	case outside:
		_, known := s.stage()
		return known && !s.alone
	}
	return true
}

// in picks what the stack should have.
func in[T any](s *Stack, all []T, at func(T) where) []T {
	return slices.DeleteFunc(all, func(x T) bool { return !s.holds(at(x)) })
}

// named is the name of a thing in its stack: every name of a metering stack begins with its product code, and every name of an events stack that is a
// test stage ends with the stage's.
func (s *Stack) named(thing string, w where) string {
	if w != outside {
		return "awsmp-" + s.ProductCode + "-" + thing
	}
	stage, _ := s.stage()
	return "awsmp-" + thing + stage
}

// stage is what the names of the events stack end with, by the name of its table: nothing, or -test-qa. A table that is named otherwise leads to no events
// stack.
func (s *Stack) stage() (suffix string, known bool) {
	rest, is := strings.CutPrefix(s.subscribersTable(), "awsmp-subscribers")
	return rest, is && (rest == "" || strings.HasPrefix(rest, "-test-"))
}

// eventsStack is the name that deploy/README.md gives the events stack.
func (s *Stack) eventsStack() string {
	if stage, _ := s.stage(); stage != "" {
		return "awsmp-events" + stage
	}
	return "awsmp-events-stack"
}

// at are the clients of the Region in which something is.
func (s *Stack) at(w where) *clients {
	if w == outside {
		return &s.events
	}
	return &s.here
}

// queue is a queue of the pipeline.
type queue struct {
	name   string // as the desk calls it
	in     where
	source string // of dead letters: the queue that they came from, by its name here
	alarm  string // rings where it stands still, or of dead letters where there are some
}

func (q queue) dead() bool { return q.source != "" }

// queues are the queues, in the order of the pipeline, each with its dead letters behind it.
func queues() []queue {
	return []queue{
		{"work", full, "", "work-age"},
		{"work-dlq", full, "work", "work-dead-letters"},
		{"deprovision-work", full, "", "deprovision-work-age"},
		{"deprovision-work-dlq", full, "deprovision-work", "deprovision-work-dead-letters"},
		{"cleanup", full, "", "cleanup-age"},
		{"cleanup-dlq", full, "cleanup", "cleanup-dead-letters"},
		{"events", outside, "", "events-waiting"},
		{"events-dlq", outside, "events", "events-dead-letters"},
		{"events-undelivered", outside, "events", "events-undelivered"},
	}
}

// function is a Lambda function.
type function struct {
	name     string
	in       where
	alarm    string              // rings where it does not run
	due      []metering.Schedule // none where it runs when something comes
	reserves string              // parameter that reserves its concurrency; empty where none does
	from     []source            // queues that call it
	says     []phrase            // what a run did, in words; none where it is no stage of the pipeline
}

// source is a queue that calls a function, with the settings of the mapping.
type source struct {
	queue       string
	batch       int
	concurrency string // MaximumConcurrency: a number, or the parameter that holds it
}

// functions are the functions, in the order of the pipeline.
func functions() []function {
	handled := []phrase{{"messages", "message", "handled"}, {"failed", "message", "failed, to come again"}}
	return []function{
		{"discoverer", full, "discoverer-did-not-run", []metering.Schedule{metering.MeterSchedule, metering.AgeoutSchedule, metering.FlushSchedule}, "DiscovererReservedConcurrency", nil,
			[]phrase{{"enqueued", "group", "sent on"}, {"repaired", "row", "moved to its hour"}, {"labels", "message", "sent for labels"}, {"licenses", "license", "flushed"}}},
		{"aggregator", full, "aggregator-throttles", nil, "", []source{{"work", 10, "AggregatorMaximumConcurrency"}, {"deprovision-work", 5, "5"}}, handled},
		{"cleanup", full, "cleanup-age", nil, "", []source{{"cleanup", 5, "5"}}, handled},
		{"submitter", always, "submitter-did-not-run", []metering.Schedule{metering.SubmitSchedule}, "SubmitterReservedConcurrency", nil, []phrase{
			{"settled", "record", "with a verdict"}, {"calls", "call", "made"}, {"dryRun", "record", "ended as a dry run"}, {"rejected", "record", "rejected before any call"},
			{"unprocessed", "record", "left unprocessed by AWS"}, {"inDoubt", "record", "in doubt"}, {"unmatched", "result", "of no record"}, {"throttled", "call", "throttled"},
			{"left", "record", "left for the next run"}}},
		{"submission-expiry", always, "submission-expiry-did-not-run", []metering.Schedule{metering.ExpireSchedule}, "ExpiryReservedConcurrency", nil,
			[]phrase{{"expired", "record", "expired"}, {"inDoubt", "record", "of these in doubt"}, {"rejected", "record", "rejected"}}},
		{"registration", always, "registration-errors", nil, "", nil, nil},
		{"subscription", outside, "events-waiting", nil, "", []source{{"events", 10, "2"}}, handled},
		{"deprovision-cleanup", outside, "deprovision-cleanup-did-not-run", []metering.Schedule{metering.FinalizeSchedule}, "", nil, []phrase{{"ended", "last hour", "ended"}}},
	}
}

// rule is a rule of EventBridge.
type rule struct {
	name    string
	in      where
	alarm   string
	cron    string // empty: it matches events, all that AWS Marketplace sends
	targets []target
	loses   string // what stands still without it, in words
}

// target is what a rule calls: a function with a constant input, or the events queue.
type target struct{ id, function, input string }

// rules are the rules, each with all of its targets.
func rules() []rule {
	const meters, slices = 6, 5
	var all []rule
	for i := range meters {
		r := rule{fmt.Sprintf("meter-%d", i+1), full, "discoverer-did-not-run", "cron(5/15 * * * ? *)", nil, "waiting usage of some hours is not found, or what ran out is not named"}
		for slice := i*slices + 1; slice <= (i+1)*slices; slice++ {
			t := target{fmt.Sprintf("meter-%d", slice), "discoverer", fmt.Sprintf(`{"mode":"meter","hourOffset":%d}`, slice)}
			if shard := slice - metering.MaxOffset - 1; shard >= 0 {
				t = target{fmt.Sprintf("ageout-%d", shard), "discoverer", fmt.Sprintf(`{"mode":"ageout","shard":%d}`, shard)}
			}
			r.targets = append(r.targets, t)
		}
		all = append(all, r)
	}
	return append(all,
		rule{"flush", full, "discoverer-did-not-run", "cron(1/5 * * * ? *)", []target{{"flush", "discoverer", `{"mode":"flush-deprovisioning"}`}}, "usage of licenses in their last hour is found too late"},
		rule{"submit", always, "submitter-did-not-run", "cron(3/5 * * * ? *)", []target{{"submitter", "submitter", "{}"}, {"submission-expiry", "submission-expiry", "{}"}}, "records are not sent, or those whose time is over are not named"},
		rule{"marketplace-events", outside, "events-undelivered", "", []target{{id: "events-queue"}}, "events of AWS Marketplace do not come, and last hours of licenses are missed"},
	)
}

// alarm is an alarm of CloudWatch.
type alarm struct {
	name string
	in   where
}

// alarms are the alarms by the names of their entries in docs/runbook.md, and in its order: the most urgent first.
func alarms() []alarm {
	return []alarm{
		{"deprovision-work-age", full}, {"deprovision-work-dead-letters", full}, {"usage-submission-expired", always}, {"usage-aggregation-expired", full},
		{"submitter-did-not-run", always}, {"submitter-errors", always}, {"submitter-throttles", always}, {"discoverer-did-not-run", full}, {"discoverer-errors", full},
		{"aggregator-errors", full}, {"aggregator-throttles", full}, {"events-waiting", outside}, {"subscription-errors", outside}, {"subscription-event-failed", outside},
		{"events-undelivered", outside}, {"deprovisioning-lookup-failed", always}, {"events-dead-letters", outside}, {"submission-paused", always}, {"work-age", full},
		{"work-dead-letters", full}, {"usage-record-unprocessed", always}, {"usage-record-rejected", always}, {"batch-meter-usage-exception", always},
		{"customer-not-subscribed", always}, {"usage-manifest-unreadable", full}, {"usage-result-unmatched", always}, {"usage-record-in-doubt", always},
		{"logs-missing", always}, {"registration-failed", always}, {"registration-errors", always}, {"usage-late", full}, {"duplicate-record", always},
		{"usage-covered-row-changed", full}, {"dry-run-submitted", dryRun}, {"submission-expiry-did-not-run", always}, {"submission-expiry-errors", always},
		{"cleanup-age", full}, {"cleanup-dead-letters", full}, {"deprovision-cleanup-did-not-run", outside}, {"deprovision-cleanup-errors", outside},
	}
}
