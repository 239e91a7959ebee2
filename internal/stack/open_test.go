package stack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	dynamosdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/stack"
	"github.com/awsmp/metering/internal/stack/stacktest"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

const listCommand = "aws cloudformation list-stacks --region us-east-1 --query \"StackSummaries[?starts_with(StackName,'awsmp-') && StackStatus!='DELETE_COMPLETE'].StackName\""

// opens: Open finds what was deployed, and says of what it cannot open why.
func opens(t *testing.T, w *world) {
	t.Run("what was deployed", func(t *testing.T) {
		s := w.Stack
		if s.ProductCode != "acme" || s.Direct || s.DryRun || s.Paused || s.Rules != (metering.Rules{LockHours: 3}) || s.Region != "us-east-1" || s.Rows == nil {
			t.Errorf("opened %+v", s)
		}
		d := s.Desk()
		if d.Name != "stack awsmp-acme-metering in us-east-1" || d.Flags != " --stack awsmp-acme-metering --region us-east-1" || d.Tables == nil || d.Plant == nil || d.ProductCode != "acme" {
			t.Errorf("its desk is %+v", d)
		}
		if s.Resources["UsageTable"] != "awsmp-acme-usage" || s.Outputs["UsageTableName"] != "awsmp-acme-usage" || s.Parameters["MeteringLockHours"] != "3" {
			t.Errorf("read %v, %v, %v", s.Resources, s.Outputs, s.Parameters)
		}
	})
	refused := func(name, want string, class awsapi.Class, o stack.Options) {
		t.Run(want, func(t *testing.T) {
			if o.Config == nil {
				o.Config = w.Config
			}
			_, err := stack.Open(t.Context(), name, "us-east-1", o)
			if err == nil || err.Error() != want || awsapi.ClassOf(err) != class {
				t.Errorf("got  %v (%s)\nwant %s (%s)", err, awsapi.ClassOf(err), want, class)
			}
		})
	}
	refused("awsmp-acne-metering", "open stack (awsmp-acne-metering): there is no such stack in us-east-1. Try: --stack awsmp-acme-metering --region us-east-1", awsapi.Missing, stack.Options{})
	refused("awsmp-events-stack", "open stack (awsmp-events-stack): this is the events stack, which serves all products of the account; usage is in the metering stacks. Try: --stack awsmp-acme-metering --region us-east-1",
		awsapi.Invalid, stack.Options{})
	refused("awsmp-acme-metering", "load AWS settings: no Region is set. Try: export AWS_REGION=us-east-1, or the Region of the tables", awsapi.Invalid, stack.Options{
		Config: func(ctx context.Context, _ string) (aws.Config, error) {
			return aws.Config{}, &awsapi.Error{Class: awsapi.Invalid, Operation: "load AWS settings", Err: errors.New("no Region is set"), Hint: "export AWS_REGION=us-east-1, or the Region of the tables"}
		},
	})
	answers := func(action standin.Action) stack.Options {
		proxy := standin.NewProxy(t, w.Endpoint)
		proxy.Intercept(func(c standin.Call) standin.Action {
			if strings.Contains(string(c.Body), "Action=DescribeStacks&") {
				return action
			}
			return standin.Action{}
		})
		return stack.Options{Config: func(ctx context.Context, region string) (aws.Config, error) {
			cfg, err := w.Config(ctx, region)
			cfg.BaseEndpoint = &proxy.URL
			return cfg, err
		}}
	}
	refuses := func(status int, code, message string) stack.Options {
		return answers(standin.Action{Status: status, Header: http.Header{"Content-Type": {"text/xml"}}, Body: fmt.Sprintf("<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error></ErrorResponse>", code, message)})
	}
	const acme = "open stack (awsmp-acme-metering): "
	refused("awsmp-acme-metering", acme+"not you (AccessDenied). Try: allow the caller's role the IAM action cloudformation:DescribeStacks on awsmp-acme-metering, and on its key where it has one of its own", awsapi.Denied, refuses(403, "AccessDenied", "not you"))
	refused("awsmp-acme-metering", acme+"it is over (ExpiredToken). Try: aws sts get-caller-identity, with the same environment: the credentials are missing, expired or not accepted", awsapi.Credentials, refuses(403, "ExpiredToken", "it is over"))
	is := func(status string) stack.Options {
		return answers(standin.Action{Status: 200, Header: http.Header{"Content-Type": {"text/xml"}}, Body: `<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>awsmp-acme-metering</StackName><StackId>arn:aws:cloudformation:us-east-1:111122223333:stack/awsmp-acme-metering/1</StackId><CreationTime>2026-03-10T14:00:00Z</CreationTime><StackStatus>` + status +
			`</StackStatus><Parameters><member><ParameterKey>ProductCode</ParameterKey><ParameterValue>acme</ParameterValue></member><member><ParameterKey>DeploymentMode</ParameterKey><ParameterValue>full</ParameterValue></member></Parameters></member></Stacks></DescribeStacksResult></DescribeStacksResponse>`})
	}
	const events = ". Try: aws cloudformation describe-stack-events --region us-east-1 --stack-name awsmp-acme-metering"
	refused("awsmp-acme-metering", acme+"it is being created (CREATE_IN_PROGRESS). Try: aws cloudformation wait stack-create-complete --region us-east-1 --stack-name awsmp-acme-metering", awsapi.Invalid, is("CREATE_IN_PROGRESS"))
	refused("awsmp-acme-metering", acme+"its creation failed and was rolled back (ROLLBACK_COMPLETE)"+events, awsapi.Invalid, is("ROLLBACK_COMPLETE"))
	refused("awsmp-acme-metering", acme+"it is being deleted; its tables stay (DELETE_IN_PROGRESS)"+events, awsapi.Invalid, is("DELETE_IN_PROGRESS"))
	refused("awsmp-acme-metering", acme+"it has a change set that was never executed (REVIEW_IN_PROGRESS)"+events, awsapi.Invalid, is("REVIEW_IN_PROGRESS"))
	t.Run("a stack that is being changed works", func(t *testing.T) {
		if _, err := stack.Open(t.Context(), "awsmp-acme-metering", "", is("UPDATE_ROLLBACK_COMPLETE")); err != nil {
			t.Error(err)
		}
	})
	t.Run("an account without stacks", func(t *testing.T) {
		empty := stacktest.Deploy(t, stacktest.Options{NoEvents: true, NoMetering: true})
		_, err := stack.Open(t.Context(), "awsmp-acme-metering", "us-east-1", stack.Options{Config: empty.Config})
		if want := acme + "there is no such stack in us-east-1, and --region names another Region. Try: " + listCommand; err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	})
}

// A stack of direct-submit in dry-run, paused, in another Region, without an events stack: what it has not is not looked for, and what it lacks is said.
func TestDirectSubmit(t *testing.T) {
	t.Parallel()
	w := deploy(t, stacktest.Options{NoEvents: true, Region: "eu-west-1", Parameters: map[string]string{"DeploymentMode": "direct-submit", "MeteringMode": "dry-run", "Submission": "paused", "AlertsTopicArn": ""}})
	s := w.Stack
	if !s.Direct || !s.DryRun || !s.Paused || s.Rows != nil || s.Region != "eu-west-1" {
		t.Errorf("opened %+v", s)
	}
	if got := must[[]desk.Queue](t)(s.Queues(t.Context())); len(got) > 0 {
		t.Errorf("queues %v", got)
	}
	var names []string
	for _, stage := range must[[]desk.Stage](t)(s.Stages(t.Context())) {
		names = append(names, stage.Name)
	}
	if diff := cmp.Diff([]string{"submitter", "submission-expiry", "subscription", "deprovision-cleanup"}, names); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if got := must[[]desk.Alarm](t)(s.Ringing(t.Context())); len(got) > 0 {
		t.Errorf("%v ring", got)
	}
	var got []string
	for _, f := range w.troubles(t) {
		got = append(got, f.Alarm+" "+f.What)
	}
	want := []string{
		"events-waiting there is no events stack in us-east-1: nobody hears that a buyer leaves, and last hours are missed (deploy/README.md says how to deploy awsmp-events-stack)",
		"deprovisioning-lookup-failed subscribers table awsmp-subscribers is not in us-east-1: licenses in their last hour are not found",
		"submission-paused Submission is paused: nothing is sent, and what waits is lost when its hour is 24 hours old",
		"dry-run-submitted MeteringMode is dry-run: nothing is billed, which is right for a test and for nothing else",
		"usage-submission-expired 19 alarms (usage-submission-expired, submitter-did-not-run, submitter-errors and 16 more) are without an action: nobody is told. Make a topic, and subscribe to it whoever is to hear",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("troubles (-want +got):\n%s", diff)
	}
	withoutRows(t, w)
}

// A metering stack that reads the table of a test stage has the queues and alarms of that stage. What is set so that nothing is billed, and nobody told, is changed by
// what is pasted; the other settings stay.
func TestTestStage(t *testing.T) {
	t.Parallel()
	w := deploy(t, stacktest.Options{Stage: "qa", Parameters: map[string]string{"MeteringMode": "dry-run", "Submission": "paused", "AlertsTopicArn": "", "MeteringLockHours": "7"}})
	if queues := must[[]desk.Queue](t)(w.Queues(t.Context())); len(queues) != 9 {
		t.Errorf("queues %v", queues)
	}
	ring(t, w, "awsmp-subscription-errors-test-qa")
	if got := must[[]desk.Alarm](t)(w.Ringing(t.Context())); len(got) != 1 || got[0].Name != "subscription-errors" {
		t.Errorf("ringing %v", got)
	}
	var names []string
	fixes := map[string]string{}
	for _, f := range w.troubles(t) {
		names, fixes[f.Alarm] = append(names, f.Alarm), f.Fix
	}
	if diff := cmp.Diff([]string{"submission-paused", "dry-run-submitted", "deprovision-work-age"}, names); diff != "" {
		t.Fatalf("troubles (-want +got):\n%s", diff)
	}
	if alarms := fixes["deprovision-work-age"]; !strings.HasPrefix(alarms, "aws sns create-topic --region us-east-1 --name awsmp-alerts && ") {
		t.Errorf("alarms are made to tell by %q", alarms)
	}
	for _, name := range names {
		w.paste(t, fixes[name])
	}
	is := w.open(t, stack.Options{})
	want := map[string]string{
		"MeteringMode": "live", "SubscribersTableName": "awsmp-subscribers", "Submission": "enabled", "AlertsTopicArn": "arn:aws:sns:us-east-1:" + w.Account + ":awsmp-alerts",
		"MeteringLockHours": "7", "ProductCode": w.Deployed.ProductCode,
	}
	for name, value := range want {
		if is.Parameters[name] != value {
			t.Errorf("%s is %q now, want %q", name, is.Parameters[name], value)
		}
	}
}

// withoutRows reads the tables of a stack without a usage table, and then of one that a switch of the mode has left one behind of.
func withoutRows(t *testing.T, w *world) {
	now := time.Now().UTC()
	g := metering.Group{License: "arn:aws:license-manager::111122223333:license:l-00000000000000000000000000000001", Account: "444455556666", Dimension: "api_calls", Hour: metering.HourOf(now) - 3}
	record := metering.NewRecord(g, 3)
	record.Pending, record.Status = "", metering.CustomerNotSubscribed
	if err := w.Records.PutRecord(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	tables := w.Desk().Tables
	report, err := ledger.Compute(t.Context(), tables, ledger.Scope{})
	if err != nil || !report.Balanced() || report.Groups != 1 || report.Total.Written.Units != 3 {
		t.Errorf("ledger %+v, %v", report, err)
	}
	if accounts, err := tables.Accounts(t.Context(), g.License); err != nil || len(accounts) != 1 || accounts[0] != g.Account {
		t.Errorf("accounts %v, %v", accounts, err)
	}
	n := 0
	for _, err := range tables.EndedRecords(t.Context(), "", metering.CustomerNotSubscribed) {
		if n++; err != nil {
			t.Error(err)
		}
	}
	if n != 1 {
		t.Errorf("%d records have ended", n)
	}
	for name, err := range map[string]error{
		"pending": last(tables.PendingRows(t.Context(), g.Hour, "")), "group": last(tables.GroupRows(t.Context(), g)), "license": last(tables.LicenseRows(t.Context(), g.License)),
		"ended": last(tables.EndedRows(t.Context(), "", metering.LateUsage)), "dropped": second(tables.DropRow(t.Context(), metering.Drop{})), "carried": second(tables.CarryRow(t.Context(), metering.Carry{})),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := dynamodb.Create(t.Context(), dynamosdk.NewFromConfig(w.config), dynamodb.UsageTable(w.own("usage"))); err != nil {
		t.Fatal(err)
	}
	if s := w.open(t, stack.Options{}); s.Rows == nil || !s.Direct {
		t.Errorf("with a usage table that was left behind: %+v", s)
	}
}
