package stacktest

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatch"
	cloudwatchtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatch/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/scheduler"
	schedulertypes "github.com/aws/aws-sdk-go-v2/service/scheduler/types"

	"github.com/awsmp/metering/internal/stack"
	"github.com/awsmp/metering/internal/template"
)

// addAlarms makes the alarms of a template. They ring when they are told to (SetAlarmState) and by nothing else.
func addAlarms(t testing.TB, cfg aws.Config, s *template.Stack) {
	t.Helper()
	client := stack.CloudWatch(cfg)
	for _, r := range s.OfType("AWS::CloudWatch::Alarm") {
		in := &cloudwatch.PutMetricAlarmInput{
			AlarmName: aws.String(r.Text("AlarmName")), AlarmDescription: aws.String(r.Text("AlarmDescription")),
			Namespace: aws.String(r.Text("Namespace")), MetricName: aws.String(r.Text("MetricName")), Statistic: cloudwatchtypes.Statistic(r.Text("Statistic")),
			Period: number(r, "Period"), EvaluationPeriods: number(r, "EvaluationPeriods"), DatapointsToAlarm: number(r, "DatapointsToAlarm"),
			Threshold: aws.Float64(float64(*number(r, "Threshold"))), ComparisonOperator: cloudwatchtypes.ComparisonOperator(r.Text("ComparisonOperator")),
			TreatMissingData: aws.String(r.Text("TreatMissingData")), ActionsEnabled: aws.Bool(true),
		}
		if topic := r.Text("AlarmActions", "0"); topic != "" {
			in.AlarmActions = []string{topic}
		}
		if name := r.Text("Dimensions", "0", "Name"); name != "" {
			in.Dimensions = []cloudwatchtypes.Dimension{{Name: aws.String(name), Value: aws.String(r.Text("Dimensions", "0", "Value"))}}
		}
		if _, err := client.PutMetricAlarm(t.Context(), in); err != nil {
			t.Fatalf("make alarm %s: %v", r.ID, err)
		}
	}
}

// addSchedules makes the schedules of EventBridge Scheduler of a template.
func addSchedules(t testing.TB, cfg aws.Config, s *template.Stack) {
	t.Helper()
	client := scheduler.NewFromConfig(cfg)
	for _, r := range s.OfType("AWS::Scheduler::Schedule") {
		_, err := client.CreateSchedule(t.Context(), &scheduler.CreateScheduleInput{
			Name: aws.String(r.Text("Name")), ScheduleExpression: aws.String(r.Text("ScheduleExpression")), State: schedulertypes.ScheduleState(r.Text("State")),
			FlexibleTimeWindow: &schedulertypes.FlexibleTimeWindow{Mode: schedulertypes.FlexibleTimeWindowModeOff},
			Target:             &schedulertypes.Target{Arn: aws.String(r.Text("Target", "Arn")), RoleArn: aws.String(r.Text("Target", "RoleArn")), Input: aws.String(r.Text("Target", "Input"))},
		})
		if err != nil {
			t.Fatalf("make schedule %s: %v", r.ID, err)
		}
	}
}

// reserve reserves the functions' concurrency as a number. From a template moto keeps it as the text that the parameter is, which no SDK reads.
func reserve(t testing.TB, cfg aws.Config, s *template.Stack) {
	t.Helper()
	for _, r := range s.OfType("AWS::Lambda::Function") {
		n, err := strconv.Atoi(fmt.Sprint(r.Get("ReservedConcurrentExecutions")))
		if err != nil {
			continue
		}
		_, err = lambda.NewFromConfig(cfg).PutFunctionConcurrency(t.Context(), &lambda.PutFunctionConcurrencyInput{
			FunctionName: aws.String(r.Text("FunctionName")), ReservedConcurrentExecutions: aws.Int32(int32(n)),
		})
		if err != nil {
			t.Fatalf("reserve concurrency of %s: %v", r.ID, err)
		}
	}
}

// enable enables the mappings of the account, which Deploy holds in moto's place (mappings).
func enable(t testing.TB, cfg aws.Config) {
	t.Helper()
	client := lambda.NewFromConfig(cfg)
	list, err := client.ListEventSourceMappings(t.Context(), &lambda.ListEventSourceMappingsInput{})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.EventSourceMappings {
		if _, err := client.UpdateEventSourceMapping(t.Context(), &lambda.UpdateEventSourceMappingInput{UUID: m.UUID, Enabled: aws.Bool(true)}); err != nil {
			t.Fatal(err)
		}
	}
}

// accountSettings are what Lambda answers of an account, which moto does not: 1,000 functions may run at once (AWS Lambda API reference, GetAccountSettings).
// What is reserved is left out of it.
const accountSettings = `{"AccountLimit":{"CodeSizeUnzipped":262144000,"CodeSizeZipped":52428800,"ConcurrentExecutions":1000,"TotalCodeSize":80530636800,"UnreservedConcurrentExecutions":900},` +
	`"AccountUsage":{"FunctionCount":8,"TotalCodeSize":80000000}}`

func number(r template.Resource, name string) *int32 {
	n, _ := r.Get(name).(int)
	return aws.Int32(int32(n))
}
