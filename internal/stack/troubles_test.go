package stack_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/stack"
)

// trouble is something that is wrong with what stands, and how it got so.
type trouble struct {
	name  string
	cause func(t *testing.T, w *world)
	want  string // alarm of the finding, and how what it says begins
	fix   fixing
}

// fixing is what is done with the fixes.
type fixing int

const (
	pasted   fixing = iota // into a shell, after which nothing is wrong
	mended                 // the change set of the whole stack, which moto cannot make
	elsewise               // another command, which moto does not know or which only looks
)

func ruleOff(name string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		must[*eventbridge.DisableRuleOutput](t)(w.events.DisableRule(t.Context(), &eventbridge.DisableRuleInput{Name: aws.String(w.queue(name))}))
	}
}

func ruleGone(name string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		rule := aws.String(w.queue(name))
		out := must[*eventbridge.ListTargetsByRuleOutput](t)(w.events.ListTargetsByRule(t.Context(), &eventbridge.ListTargetsByRuleInput{Rule: rule}))
		for _, target := range out.Targets {
			must[*eventbridge.RemoveTargetsOutput](t)(w.events.RemoveTargets(t.Context(), &eventbridge.RemoveTargetsInput{Rule: rule, Ids: []string{*target.Id}}))
		}
		must[*eventbridge.DeleteRuleOutput](t)(w.events.DeleteRule(t.Context(), &eventbridge.DeleteRuleInput{Name: rule}))
	}
}

// mapping is the mapping of a queue.
func (w *world) mapping(t *testing.T, queue string) lambdatypes.EventSourceMappingConfiguration {
	t.Helper()
	out := must[*lambda.ListEventSourceMappingsOutput](t)(w.lambda.ListEventSourceMappings(t.Context(), &lambda.ListEventSourceMappingsInput{}))
	for _, m := range out.EventSourceMappings {
		if strings.HasSuffix(*m.EventSourceArn, ":"+w.queue(queue)) {
			return m
		}
	}
	t.Fatalf("no mapping of %s", queue)
	return lambdatypes.EventSourceMappingConfiguration{}
}

func mappingOff(queue string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		must[*lambda.UpdateEventSourceMappingOutput](t)(w.lambda.UpdateEventSourceMapping(t.Context(), &lambda.UpdateEventSourceMappingInput{UUID: w.mapping(t, queue).UUID, Enabled: aws.Bool(false)}))
	}
}

func mappingGone(queue string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		must[*lambda.DeleteEventSourceMappingOutput](t)(w.lambda.DeleteEventSourceMapping(t.Context(), &lambda.DeleteEventSourceMappingInput{UUID: w.mapping(t, queue).UUID}))
	}
}

func roomTaken(function string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		must[*lambda.PutFunctionConcurrencyOutput](t)(w.lambda.PutFunctionConcurrency(t.Context(), &lambda.PutFunctionConcurrencyInput{
			FunctionName: aws.String(w.own(function)), ReservedConcurrentExecutions: aws.Int32(0),
		}))
	}
}

func logsGone(group string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		must[*cloudwatchlogs.DeleteLogGroupOutput](t)(w.logs.DeleteLogGroup(t.Context(), &cloudwatchlogs.DeleteLogGroupInput{LogGroupName: aws.String("/aws/lambda/" + w.queue(group))}))
	}
}

func troubles() []trouble {
	return []trouble{
		{name: "a rule is off", cause: ruleOff("meter-2"), want: "discoverer-did-not-run rule awsmp-PRODUCT-meter-2 is off: "},
		{name: "a rule is gone", cause: ruleGone("meter-5"), want: "discoverer-did-not-run rule awsmp-PRODUCT-meter-5 is missing: "},
		{name: "the flush is gone", cause: ruleGone("flush"), want: "discoverer-did-not-run rule awsmp-PRODUCT-flush is missing: "},
		{name: "a rule lacks a target", cause: func(t *testing.T, w *world) {
			must[*eventbridge.RemoveTargetsOutput](t)(w.events.RemoveTargets(t.Context(), &eventbridge.RemoveTargetsInput{Rule: aws.String(w.own("submit")), Ids: []string{"submission-expiry"}}))
		}, want: "submitter-did-not-run rule awsmp-PRODUCT-submit lacks 1 of its 2 targets: "},
		{name: "a target has another input", cause: func(t *testing.T, w *world) {
			out := must[*eventbridge.ListTargetsByRuleOutput](t)(w.events.ListTargetsByRule(t.Context(), &eventbridge.ListTargetsByRuleInput{Rule: aws.String(w.own("meter-1"))}))
			out.Targets[0].Input = aws.String(`{"mode":"meter","hourOffset":7}`)
			must[*eventbridge.PutTargetsOutput](t)(w.events.PutTargets(t.Context(), &eventbridge.PutTargetsInput{Rule: aws.String(w.own("meter-1")), Targets: out.Targets[:1]}))
		}, want: "discoverer-did-not-run rule awsmp-PRODUCT-meter-1 lacks 1 of its 5 targets: "},
		{name: "events are gone", cause: ruleGone("events-rule"), want: "events-undelivered rule awsmp-marketplace-events is missing: "},
		{name: "the schedule is off", cause: func(t *testing.T, w *world) {
			name := aws.String("awsmp-deprovision-cleanup")
			is := must[*scheduler.GetScheduleOutput](t)(w.scheduler.GetSchedule(t.Context(), &scheduler.GetScheduleInput{Name: name}))
			must[*scheduler.UpdateScheduleOutput](t)(w.scheduler.UpdateSchedule(t.Context(), &scheduler.UpdateScheduleInput{
				Name: name, ScheduleExpression: is.ScheduleExpression, FlexibleTimeWindow: is.FlexibleTimeWindow, Target: is.Target, State: schedulertypes.ScheduleStateDisabled,
			}))
		}, want: "deprovision-cleanup-did-not-run schedule awsmp-deprovision-cleanup is off: "},
		{name: "a mapping is off", cause: mappingOff("deprovision-work"), want: "deprovision-work-age nobody takes from the queue awsmp-PRODUCT-deprovision-work, since its mapping to awsmp-PRODUCT-aggregator is disabled: "},
		{name: "a mapping is gone", cause: mappingGone("work"), want: "work-age nobody takes from the queue awsmp-PRODUCT-work, since its mapping to awsmp-PRODUCT-aggregator is missing: "},
		{name: "events' mapping is off", cause: mappingOff("events"), want: "events-waiting nobody takes from the queue awsmp-events, since its mapping to awsmp-subscription is disabled: "},
		{name: "the submitter may not run", cause: roomTaken("submitter"), want: "submitter-did-not-run function awsmp-PRODUCT-submitter may not run: its reserved concurrency is 0"},
		{name: "the aggregator may not run", cause: roomTaken("aggregator"), want: "aggregator-throttles function awsmp-PRODUCT-aggregator may not run: its reserved concurrency is 0"},
		{name: "logs are gone", cause: logsGone("submitter"), want: "logs-missing log group /aws/lambda/awsmp-PRODUCT-submitter is missing: "},
		{name: "events' logs are gone", cause: logsGone("events-logs"), want: "logs-missing log group /aws/lambda/awsmp-subscription is missing: "},
		{name: "alarms are off", fix: elsewise, cause: func(t *testing.T, w *world) { // moto knows neither DisableAlarmActions nor EnableAlarmActions
			for _, name := range []string{"usage-late", "submitter-errors"} {
				must[*cloudwatch.PutMetricAlarmOutput](t)(w.cloudwatch.PutMetricAlarm(t.Context(), &cloudwatch.PutMetricAlarmInput{
					AlarmName: aws.String(w.own(name)), ActionsEnabled: aws.Bool(false), AlarmActions: []string{topic}, Namespace: aws.String("a"), MetricName: aws.String("b"), Period: aws.Int32(60),
					EvaluationPeriods: aws.Int32(1), Threshold: aws.Float64(1), ComparisonOperator: "GreaterThanThreshold", Statistic: "Sum",
				}))
			}
		}, want: "submitter-errors alarms submitter-errors and usage-late are switched off: nobody is told"},
		{name: "a function is gone", fix: mended, cause: func(t *testing.T, w *world) {
			must[*lambda.DeleteFunctionOutput](t)(w.lambda.DeleteFunction(t.Context(), &lambda.DeleteFunctionInput{FunctionName: aws.String(w.own("cleanup"))}))
		}, want: "cleanup-age function awsmp-PRODUCT-cleanup is missing"},
		{name: "an alarm is gone", fix: mended, cause: func(t *testing.T, w *world) {
			must[*cloudwatch.DeleteAlarmsOutput](t)(w.cloudwatch.DeleteAlarms(t.Context(), &cloudwatch.DeleteAlarmsInput{AlarmNames: []string{w.own("cleanup-age")}}))
		}, want: "cleanup-age alarm cleanup-age is missing: nobody is told"},
		{name: "a queue is gone", fix: mended, cause: func(t *testing.T, w *world) {
			must[*sqs.DeleteQueueOutput](t)(w.sqs.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: w.url(t, "cleanup-dlq")}))
		}, want: "cleanup-dead-letters queue awsmp-PRODUCT-cleanup-dlq is missing"},
		{name: "the schedule is gone", fix: mended, cause: func(t *testing.T, w *world) {
			must[*scheduler.DeleteScheduleOutput](t)(w.scheduler.DeleteSchedule(t.Context(), &scheduler.DeleteScheduleInput{Name: aws.String("awsmp-deprovision-cleanup")}))
		}, want: "deprovision-cleanup-did-not-run schedule awsmp-deprovision-cleanup is missing: "},
		{name: "the subscribers are gone", fix: elsewise, cause: func(t *testing.T, w *world) {
			must[*dynamodb.DeleteTableOutput](t)(dynamodb.NewFromConfig(w.config).DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("awsmp-subscribers")}))
		}, want: "deprovisioning-lookup-failed subscribers table awsmp-subscribers is not in us-east-1: "},
	}
}

// elsewhere are the fixes of what is put right elsewise.
func elsewhere() map[string]string {
	return map[string]string{
		"submitter-errors alarms submitter-errors and usage-late are switched off: nobody is told": "aws cloudwatch enable-alarm-actions --region us-east-1 --alarm-names awsmp-PRODUCT-submitter-errors awsmp-PRODUCT-usage-late",
		"deprovisioning-lookup-failed subscribers table awsmp-subscribers is not in us-east-1: ":   "aws dynamodb list-tables --region us-east-1",
	}
}

// fixed: each trouble is caused, seen as what it is and nothing else beside it, and put right by the command that is named with it. They are caused at once and put right
// side by side, since the AWS CLI takes its time.
func fixed(t *testing.T, w *world) {
	if found := w.troubles(t); len(found) > 0 {
		t.Fatalf("in a stack in which nothing is wrong: %+v", found)
	}
	before := w.ruleSettings(t)
	fixes := w.caused(t, pasted)
	w.stopped(t)
	t.Run("pasted", func(t *testing.T) {
		for _, fix := range fixes {
			t.Run(fix, func(t *testing.T) {
				t.Parallel()
				w.paste(t, strings.ReplaceAll(fix, "PRODUCT", w.Deployed.ProductCode))
			})
		}
	})
	if left := w.troubles(t); len(left) > 0 {
		t.Errorf("after the fixes: %+v", left)
	}
	if diff := cmp.Diff(before, w.ruleSettings(t)); diff != "" {
		t.Errorf("rules are not as they were (-before +after):\n%s", diff)
	}
	for what, fix := range w.caused(t, mended, elsewise) {
		if text, told := elsewhere()[what]; told {
			if fix != text {
				t.Errorf("the fix of %q is %q, want %q", what, fix, text)
			}
		} else if !strings.HasPrefix(fix, "CHANGES=mend-$(date +%s); aws cloudformation create-change-set ") || !strings.Contains(fix, " --deployment-mode REVERT_DRIFT ") || !strings.HasSuffix(fix, " --change-set-name $CHANGES") {
			t.Errorf("the fix of %q is no change set that reverts drift: %q", what, fix)
		}
	}
}

// stopped: the schedules whose rules are broken are named with the command that lets them run, and the stage that none of them starts has no next run.
func (w *world) stopped(t *testing.T) {
	t.Helper()
	s := w.open(t, stack.Options{})
	found := must[map[string]desk.Stop](t)(s.Stopped(t.Context()))
	want := []string{"expire", "finalize", "flush-deprovisioning"}
	for _, offset := range []int{1, 6, 7, 8, 9, 10, 21, 22, 23} {
		want = append(want, desk.MeterAt(offset))
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(found))); diff != "" {
		t.Errorf("stopped (-want +got):\n%s", diff)
	}
	if is := found[desk.MeterAt(7)]; is.Why != "rule "+w.own("meter-2")+" is off" || is.Fix != "aws events enable-rule --region us-east-1 --name "+w.own("meter-2") {
		t.Errorf("stopped for %+v", is)
	}
	for _, stage := range must[[]desk.Stage](t)(s.Stages(t.Context())) {
		off := stage.Name == "submission-expiry" || stage.Name == "deprovision-cleanup"
		if stage.Off != off || off && !stage.Next.IsZero() {
			t.Errorf("stage %+v", stage)
		}
	}
}

// caused causes the troubles that are fixed in one of the ways, and returns the fixes that are named, by what is found.
func (w *world) caused(t *testing.T, ways ...fixing) map[string]string {
	t.Helper()
	var want, got []string
	for _, tt := range troubles() {
		if slices.Contains(ways, tt.fix) {
			tt.cause(t, w)
			want = append(want, tt.want)
		}
	}
	fixes := map[string]string{}
	urgency := -1
	for _, f := range w.troubles(t) {
		text := strings.ReplaceAll(f.Alarm+" "+f.What, w.Deployed.ProductCode, "PRODUCT")
		if i := slices.IndexFunc(want, func(begin string) bool { return strings.HasPrefix(text, begin) }); i >= 0 {
			text = want[i]
		}
		got, fixes[text] = append(got, text), strings.ReplaceAll(f.Fix, w.Deployed.ProductCode, "PRODUCT")
		at := stack.Urgency(f.Alarm)
		if f.Kind == desk.KindAlarms { // behind all that stands still
			at += stack.Urgent()
		}
		if at < urgency {
			t.Errorf("%s stands behind what is less urgent", f.Alarm)
		}
		urgency = at
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("troubles (-want +got):\n%s", diff)
	}
	return fixes
}

// ruleSettings is what rules and their targets hold.
func (w *world) ruleSettings(t *testing.T) map[string]any {
	t.Helper()
	all := map[string]any{}
	for _, name := range []string{"meter-1", "meter-2", "meter-5", "flush", "submit", "events-rule"} {
		rule := must[*eventbridge.DescribeRuleOutput](t)(w.events.DescribeRule(t.Context(), &eventbridge.DescribeRuleInput{Name: aws.String(w.queue(name))}))
		targets := must[*eventbridge.ListTargetsByRuleOutput](t)(w.events.ListTargetsByRule(t.Context(), &eventbridge.ListTargetsByRuleInput{Rule: rule.Name}))
		list := map[string]string{}
		for _, target := range targets.Targets {
			list[aws.ToString(target.Id)] = aws.ToString(target.Arn) + " " + aws.ToString(target.Input)
			if target.DeadLetterConfig != nil {
				list[aws.ToString(target.Id)] += aws.ToString(target.DeadLetterConfig.Arn)
			}
		}
		all[name] = []any{rule.State, aws.ToString(rule.ScheduleExpression), strings.ReplaceAll(aws.ToString(rule.EventPattern), " ", ""), list}
	}
	return all
}
