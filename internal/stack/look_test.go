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
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cloudwatchtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/stack"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/telemetry"
)

// log puts lines into the log of a function.
func (w *world) log(t *testing.T, function string, lines map[time.Time][]string) {
	t.Helper()
	group, stream := aws.String("/aws/lambda/"+function), aws.String("2026/11/30/[$LATEST]0")
	must[*cloudwatchlogs.CreateLogStreamOutput](t)(w.logs.CreateLogStream(t.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: group, LogStreamName: stream}))
	for at, texts := range lines {
		for _, text := range texts {
			must[*cloudwatchlogs.PutLogEventsOutput](t)(w.logs.PutLogEvents(t.Context(), &cloudwatchlogs.PutLogEventsInput{
				LogGroupName: group, LogStreamName: stream, LogEvents: []logtypes.InputLogEvent{{Message: aws.String(text + "\n"), Timestamp: aws.Int64(at.UnixMilli())}},
			}))
		}
	}
}

func looks(t *testing.T, w *world) {
	t.Run("stages", func(t *testing.T) { stages(t, w) })
	t.Run("ringing", func(t *testing.T) { ringing(t, w) })
	t.Run("counted", func(t *testing.T) { counted(t, w) })
	t.Run("side by side", func(t *testing.T) { partsFail(t, w) })
	t.Run("answered", func(t *testing.T) { answered(t, w) })
}

// stages shows a stack in which nothing has run yet, and then one in which it has.
func stages(t *testing.T, w *world) {
	now := time.Now().UTC().Truncate(time.Hour).Add(21*time.Minute + 30*time.Second)
	s := w.open(t, stack.Options{Now: func() time.Time { return now }})
	at := func(minute int) time.Time { return now.Truncate(time.Hour).Add(time.Duration(minute) * time.Minute) }
	want := []desk.Stage{
		{Name: "discoverer", Next: at(26)}, {Name: "aggregator"}, {Name: "cleanup"}, {Name: "submitter", Next: at(23)}, {Name: "submission-expiry", Next: at(23)},
		{Name: "subscription"}, {Name: "deprovision-cleanup", Next: at(22)},
	}
	if diff := cmp.Diff(want, must[[]desk.Stage](t)(s.Stages(t.Context()))); diff != "" {
		t.Errorf("fresh stages (-want +got):\n%s", diff)
	}
	ended := func(text string) string { return `time=2026-11-30T13:20:01.123Z level=INFO msg="run ended" ` + text }
	slices := map[time.Time][]string{at(16): {ended(`input="{\"mode\":\"flush-deprovisioning\"}" enqueued=0 entries=0 labels=0 licenses=2 repaired=0 took=90ms`)}}
	for i := range 23 {
		slices[at(20).Add(time.Duration(i)*time.Second)] = []string{
			"START RequestId: 4f6c Version: $LATEST", ended(fmt.Sprintf(`input="{\"mode\":\"meter\",\"hourOffset\":%d}" enqueued=1 entries=7 labels=0 licenses=0 repaired=0 took=90ms`, i+1)), "END RequestId: 4f6c",
		}
	}
	w.log(t, w.own("discoverer"), slices)
	w.log(t, w.own("aggregator"), map[time.Time][]string{
		at(20): {ended("failed=0 messages=10 took=1s")}, at(21): {ended("failed=1 messages=3 took=1s"), `time=2026-11-30T13:20:01.123Z level=INFO msg="a line about \"run ended\"" messages=99`},
	})
	w.log(t, w.own("submitter"), map[time.Time][]string{
		at(18): {`time=2026-11-30T13:18:01.123Z level=ERROR msg="run failed" calls=1 settled=0 left=9 took=31s error="send records: Access denied (AccessDeniedException). Try: allow it"`},
		at(13): {"2026-11-30T13:13:01.123Z 4f6c Task timed out after 300.00 seconds"},
	})
	w.log(t, w.own("submission-expiry"), map[time.Time][]string{at(18): {ended("expired=1500 inDoubt=1 rejected=0 took=1s")}})
	w.log(t, "awsmp-subscription", map[time.Time][]string{at(-300): {ended("failed=0 messages=1 took=1s")}})
	want = []desk.Stage{
		{Name: "discoverer", Next: at(26), Runs: 24, LastAt: at(20).Add(22 * time.Second), Last: "23 runs: 23 groups sent on"},
		{Name: "aggregator", Runs: 2, LastAt: at(21), Last: "2 runs: 13 messages handled, 1 message failed, to come again"},
		{Name: "cleanup"},
		{Name: "submitter", Next: at(23), Runs: 2, Failures: 2, LastAt: at(18), Last: "failed", Error: "send records: Access denied (AccessDeniedException). Try: allow it"},
		{Name: "submission-expiry", Next: at(23), Runs: 1, LastAt: at(18), Last: "1,500 records expired, 1 record of these in doubt"},
		{Name: "subscription", LastAt: at(-300), Last: "1 message handled"},
		{Name: "deprovision-cleanup", Next: at(22)},
	}
	if diff := cmp.Diff(want, must[[]desk.Stage](t)(s.Stages(t.Context()))); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
}

// ring lets an alarm ring.
func ring(t *testing.T, w *world, name string) {
	t.Helper()
	must[*cloudwatch.SetAlarmStateOutput](t)(w.cloudwatch.SetAlarmState(t.Context(), &cloudwatch.SetAlarmStateInput{AlarmName: &name, StateValue: cloudwatchtypes.StateValueAlarm, StateReason: aws.String("test")}))
}

// ringing lets alarms of both stacks ring.
func ringing(t *testing.T, w *world) {
	if got := must[[]desk.Alarm](t)(w.Ringing(t.Context())); len(got) > 0 {
		t.Errorf("%v ring from the start", got)
	}
	before := time.Now().Add(-time.Second)
	for _, name := range []string{w.own("usage-late"), w.own("submitter-errors"), "awsmp-events-waiting"} {
		ring(t, w, name)
	}
	got := must[[]desk.Alarm](t)(w.Ringing(t.Context()))
	want := []desk.Alarm{{Name: "submitter-errors"}, {Name: "events-waiting"}, {Name: "usage-late"}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(desk.Alarm{}, "Since")); diff != "" {
		t.Errorf("ringing (-want +got):\n%s", diff)
	}
	for _, a := range got {
		if a.Since.Before(before) || a.Since.After(time.Now()) {
			t.Errorf("%s rings since %v", a.Name, a.Since)
		}
	}
}

// counted counts in two hours, and under other products.
func counted(t *testing.T, w *world) {
	now := time.Now().UTC()
	if got := must[[]desk.Count](t)(w.Counted(t.Context(), now.Add(-24*time.Hour), now)); len(got) > 0 {
		t.Errorf("%v are counted from the start", got)
	}
	hour := metering.HourOf(now.Add(-2 * time.Hour))
	put := func(product string, m metering.Metric, suffix string, at time.Time, n float64, more ...cloudwatchtypes.Dimension) {
		must[*cloudwatch.PutMetricDataOutput](t)(w.cloudwatch.PutMetricData(t.Context(), &cloudwatch.PutMetricDataInput{
			Namespace: aws.String(telemetry.Namespace), MetricData: []cloudwatchtypes.MetricDatum{{
				MetricName: aws.String(string(m) + suffix), Timestamp: &at, Value: &n, Dimensions: append([]cloudwatchtypes.Dimension{{Name: aws.String("ProductCode"), Value: &product}}, more...),
			}},
		}))
	}
	own := w.Deployed.ProductCode
	put(own, metering.MetricBilled, "", hour.Start(), 2)
	put(own, metering.MetricBilled, "", hour.Start().Add(59*time.Minute), 1)
	put(own, metering.MetricBilled, "Units", hour.Start().Add(time.Minute), 700)
	put(own, metering.MetricRowLate, "", hour.Start().Add(time.Minute), 1)
	put(own, metering.MetricBilled, "", hour.End(), 5)
	put("another", metering.MetricBilled, "", hour.End(), 50)
	put(own, metering.MetricSubmissionExpired, "Units", hour.End(), 90,
		cloudwatchtypes.Dimension{Name: aws.String("MeteringMode"), Value: aws.String("live")}, cloudwatchtypes.Dimension{Name: aws.String("Reason"), Value: aws.String("VerdictUnknown")})
	want := []desk.Count{
		{Hour: hour, Metric: metering.MetricRowLate, Items: 1}, {Hour: hour, Metric: metering.MetricBilled, Items: 3, Units: 700}, {Hour: hour + 1, Metric: metering.MetricBilled, Items: 5},
		{Hour: hour + 1, Metric: metering.MetricSubmissionExpired, Cause: metering.VerdictUnknown, Units: 90},
	}
	if diff := cmp.Diff(want, must[[]desk.Count](t)(w.Counted(t.Context(), now.Add(-24*time.Hour), now))); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[2:], must[[]desk.Count](t)(w.Counted(t.Context(), hour.End().Add(time.Minute), now))); diff != "" {
		t.Errorf("counted in the last hours (-want +got):\n%s", diff)
	}
}

// partsFail: what one may not read costs that alone, and is named once with the action that is missing.
func partsFail(t *testing.T, w *world) {
	s, proxy := w.through(t)
	deny := func(matches func(c standin.Call) bool) {
		proxy.Intercept(func(c standin.Call) standin.Action {
			if matches(c) {
				return standin.Exception(400, "AccessDeniedException", "not you")
			}
			return standin.Action{}
		})
	}
	operation := func(name string) func(standin.Call) bool {
		return func(c standin.Call) bool { return c.Operation == name }
	}
	wants := func(t *testing.T, err error, action string) {
		t.Helper()
		if err == nil || strings.Count(err.Error(), "not you") != 1 || !strings.Contains(err.Error(), "the IAM action "+action+" on ") {
			t.Errorf("got %v, want %s once", err, action)
		}
	}
	t.Run("ages of messages", func(t *testing.T) {
		deny(operation("GetMetricData"))
		list, err := s.Queues(t.Context())
		wants(t, err, "cloudwatch:GetMetricData")
		if len(list) != 9 {
			t.Errorf("queues %v", list)
		}
	})
	t.Run("the events stack's queues", func(t *testing.T) {
		deny(func(c standin.Call) bool {
			return c.Operation == "GetQueueAttributes" && strings.HasPrefix(c.Resource, "awsmp-events")
		})
		list, err := s.Queues(t.Context())
		wants(t, err, "sqs:GetQueueAttributes")
		if len(list) != 6 {
			t.Errorf("queues %v", list)
		}
	})
	t.Run("logs", func(t *testing.T) {
		deny(operation("FilterLogEvents"))
		list, err := s.Stages(t.Context())
		wants(t, err, "logs:FilterLogEvents")
		if len(list) != 7 || list[0].Next.IsZero() {
			t.Errorf("stages %v", list)
		}
	})
	t.Run("rules", func(t *testing.T) {
		deny(operation("DescribeRule"))
		_, err := s.Troubles(t.Context())
		wants(t, err, "events:DescribeRule")
	})
	t.Run("functions", func(t *testing.T) {
		deny(func(c standin.Call) bool { return strings.HasSuffix(c.Operation, "/configuration") })
		_, err := s.Troubles(t.Context())
		wants(t, err, "lambda:GetFunctionConfiguration")
	})
	t.Run("an interrupt", func(t *testing.T) {
		proxy.Intercept(nil)
		ctx, interrupt := context.WithCancel(t.Context())
		interrupt()
		for name, err := range map[string]error{
			"queues": second(s.Queues(ctx)), "stages": second(s.Stages(ctx)), "troubles": second(s.Troubles(ctx)), "ringing": second(s.Ringing(ctx)),
		} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func second[T any](_ T, err error) error { return err }

// answered are troubles that moto cannot get into: what AWS answers of them is answered by the proxy.
func answered(t *testing.T, w *world) {
	s, proxy := w.through(t)
	for name, tt := range map[string]struct{ operation, answer, want, fix string }{
		"an account with little room": {
			"GET /2016-08-19/account-settings", `{"AccountLimit":{"ConcurrentExecutions":10,"UnreservedConcurrentExecutions":10}}`,
			"aggregator-throttles this account may run 10 functions at once in us-east-1 beyond what is reserved, and the stack may start 31: some are throttled",
			"aws service-quotas request-service-quota-increase --region us-east-1 --service-code lambda --quota-code L-B99A9384 --desired-value 1000",
		},
		"a function that failed": {
			"GET /2015-03-31/functions/" + w.own("submitter") + "/configuration", `{"State":"Failed","StateReason":"The image is gone."}`,
			"submitter-did-not-run function " + w.own("submitter") + " cannot run: The image is gone", "",
		},
		"a function that could not be changed": {
			"GET /2015-03-31/functions/awsmp-subscription/configuration", `{"State":"Active","LastUpdateStatus":"Failed"}`,
			"events-waiting function awsmp-subscription could not be changed and runs as before: AWS Lambda does not say why", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxy.Intercept(func(c standin.Call) standin.Action {
				if strings.TrimSuffix(c.Operation, "/") == tt.operation {
					return standin.Action{Status: 200, Body: tt.answer, Header: http.Header{"Content-Type": {"application/json"}}}
				}
				return standin.Action{}
			})
			found, err := s.Troubles(t.Context())
			if err != nil || len(found) != 1 || found[0].Alarm+" "+found[0].What != tt.want || tt.fix != "" && found[0].Fix != tt.fix {
				t.Errorf("found %+v, %v, want %s", found, err, tt.want)
			}
		})
	}
}
