package deploy_test

import (
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
)

// dryRun: for a day all usage ends as a dry run. What can still be billed is promoted.
func dryRun(d *drill) {
	b := d.buys(1)
	d.set("MeteringMode", "dry-run")
	d.hours(25, 60, func(function string) int {
		if function == d.name("submitter") {
			return 60
		}
		return 24 * 60
	}, func(hour int) { d.record(b.group(fmt.Sprintf("dry-%d", hour), 0), int64(1+hour)) })
	d.rings("dry-run-submitted")
	found := d.sees("dry-run-submitted")
	d.understands("dry-run-submitted")
	d.explains(b.group("dry-1", 0), string(metering.DryRunSubmitted))
	d.repair(found, "dry-run-submitted", "aws cloudformation update-stack")
	d.pass(1, often())
	d.explains(b.group("dry-1", 0), "awsmp dryrun promote")
	d.do("awsmp dryrun promote --yes" + d.place())
	d.pass(20, often("submitter"))
	d.quiet("dry-run-submitted")
	d.clear("dry-run-submitted")
}

// paused: records wait for hours because somebody has stopped what sends them, and forgot it.
func paused(d *drill) {
	b := d.buys(2)
	d.set("Submission", "paused")
	d.record(b.group("seats", 0), 5)
	d.hours(7, 60, func(function string) int {
		if function == d.name("submitter") {
			return 60
		}
		return 24 * 60
	}, func(int) {})
	d.rings("submission-paused")
	found := d.sees("submission-paused")
	d.understands("submission-paused")
	d.explains(b.group("seats", 0), "5")
	d.repair(found, "submission-paused", "aws cloudformation update-stack")
	d.pass(2*60, often())
	d.quiet("submission-paused")
	d.clear("submission-paused")
}

// standingStill: what starts the stages is switched off, piece by piece.
func standingStill(d *drill) {
	b, leaving := d.buys(3), d.buys(4)
	stillLabels, stillGroup, stillLast := b.group("labels", 0), b.group("seats", 7), leaving.group("seats", 2)
	alarms := []string{"submitter-did-not-run", "submission-expiry-did-not-run", "logs-missing", "discoverer-did-not-run", "deprovision-cleanup-did-not-run", "work-age", "deprovision-work-age", "cleanup-age", "events-waiting"}
	d.switches("cleanup", false)
	d.row(stillLabels, 0, "4")
	d.happens(lifecycle.LicenseUpdated, leaving, 3*time.Hour)
	d.happens(lifecycle.LicenseDeprovisioned, leaving, 5*time.Minute)
	d.round(often("submitter"))

	for _, queue := range []string{"work", "deprovision-work", "events"} {
		d.switches(queue, false)
	}
	for _, rule := range []string{"submit", "meter-1"} {
		_, err := eventbridge.NewFromConfig(standin.Config(d.cloud.endpoint)).DisableRule(d.t.Context(), &eventbridge.DisableRuleInput{Name: aws.String(d.name(rule))})
		d.must(err)
	}
	d.schedule("DISABLED")
	d.row(stillGroup, 0, "6")
	d.row(stillLast, 0, "7")
	d.happens(lifecycle.LicenseUpdated, b, time.Minute)
	d.pass(90, often())
	d.rings(alarms...)
	found := d.sees(alarms...)
	d.understands(alarms...)
	d.explains(stillGroup, "6")
	d.explains(stillLast, "7")
	for alarm, begins := range map[string]string{
		"submitter-did-not-run": "aws events enable-rule", "discoverer-did-not-run": "aws events enable-rule", "deprovision-cleanup-did-not-run": "aws scheduler update-schedule",
		"work-age": "aws lambda update-event-source-mapping", "deprovision-work-age": "aws lambda update-event-source-mapping", "cleanup-age": "aws lambda update-event-source-mapping",
		"events-waiting": "aws lambda update-event-source-mapping",
	} {
		d.repair(found, alarm, begins)
	}
	d.round(often("submitter"))
	d.pass(45, often("submitter"))
	d.quiet(alarms...)
	d.clear(alarms...)
}

// noRoom: the account's concurrency is used up.
func noRoom(d *drill) {
	b := d.buys(5)
	d.round(often())
	for _, function := range []string{"submitter", "aggregator"} {
		_, err := d.cloud.send("lambda", "PUT", "/2017-10-31/functions/"+d.name(function)+"/concurrency", "application/json", "", `{"ReservedConcurrentExecutions":0}`)
		d.must(err)
	}
	for i := range 12 {
		d.row(b.group(fmt.Sprintf("room-%d", i), 0), 0, "1")
	}
	d.pass(26, often("submitter"))
	alarms := []string{"submitter-throttles", "aggregator-throttles", "submitter-did-not-run", "logs-missing"}
	d.rings(alarms...)
	found := d.sees(alarms...)
	d.understands(alarms...)
	d.explains(b.group("room-0", 0), "1")
	d.repair(found, "submitter-did-not-run", "aws lambda put-function-concurrency") // back to what the template has
	d.repair(found, "aggregator-throttles", "aws lambda delete-function-concurrency")
	d.pass(30, often("submitter"))
	d.quiet(alarms...)
	d.clear(alarms...)
}

// undelivered: the queue's policy is gone, and so is the log group of the submitter.
func undelivered(d *drill) {
	b := d.buys(6)
	d.setQueue("awsmp-events", "Policy", "")
	group := "/aws/lambda/" + d.name("submitter")
	_, err := cloudwatchlogs.NewFromConfig(standin.Config(d.cloud.endpoint)).DeleteLogGroup(d.t.Context(), &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: &group})
	d.must(err)
	d.happens(lifecycle.LicenseUpdated, b, time.Minute)
	d.pass(20, often("submitter"))
	alarms := []string{"events-undelivered", "logs-missing"}
	d.rings(alarms...)
	found := d.sees(alarms...)
	d.understands(alarms...)
	d.repair(found, "logs-missing", "aws logs create-log-group")
	d.policies(d.deployed.Events) // deploying the events stack again
	d.repair(found, "events-undelivered", "awsmp dlq redrive")
	d.pass(20, often("submitter"))
	d.quiet(alarms...)
	d.clear(alarms...)
	if s, err := d.subscriber(b); err != nil || s == nil {
		d.t.Errorf("the event that was put back: %+v, %v, want its license known", s, err)
	}
}
