package deploy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/telemetry"
	"github.com/awsmp/metering/internal/template"
)

const alarmType = "AWS::CloudWatch::Alarm"

// alarmSettings is when an alarm rings.
type alarmSettings struct {
	statistic  string
	period     int // seconds
	needed, of int // data points
	comparison string
	threshold  int
	missing    string
}

// rings is when each alarm rings, by logical ID. What is missing counts as well where something did not run, and nowhere else.
func rings() map[string]alarmSettings {
	atLeast := func(statistic string, period, needed, of, threshold int) alarmSettings {
		return alarmSettings{statistic, period, needed, of, "GreaterThanOrEqualToThreshold", threshold, "notBreaching"}
	}
	fewerThan := func(period, needed, of, threshold int) alarmSettings {
		return alarmSettings{"Sum", period, needed, of, "LessThanThreshold", threshold, "breaching"}
	}
	deadLetter, happened := atLeast("Maximum", 60, 1, 1, 1), atLeast("Sum", 300, 1, 1, 1)
	return map[string]alarmSettings{
		"DiscovererErrorsAlarm":       atLeast("Sum", 300, 1, 3, 1), // a run of 300 s is told late, and dated by its start
		"AggregatorErrorsAlarm":       atLeast("Sum", 300, 1, 1, 1),
		"SubmitterErrorsAlarm":        atLeast("Sum", 300, 2, 3, 1),
		"SubmissionExpiryErrorsAlarm": atLeast("Sum", 300, 2, 3, 1),
		"SubmitterThrottlesAlarm":     atLeast("Sum", 300, 3, 3, 1),
		"AggregatorThrottlesAlarm":    atLeast("Sum", 300, 3, 3, 10),

		"SubmitterDidNotRunAlarm":        fewerThan(300, 3, 3, 1),
		"SubmissionExpiryDidNotRunAlarm": fewerThan(300, 3, 3, 1),
		"DiscovererDidNotRunAlarm":       fewerThan(900, 2, 2, 31),
		"LogsMissingAlarm":               fewerThan(300, 3, 3, 1),

		"WorkDeadLettersAlarm":            deadLetter,
		"DeprovisionWorkDeadLettersAlarm": deadLetter,
		"CleanupDeadLettersAlarm":         deadLetter,
		"WorkAgeAlarm":                    atLeast("Maximum", 300, 2, 2, 1800),
		"DeprovisionWorkAgeAlarm":         atLeast("Maximum", 60, 3, 3, 600),
		"CleanupAgeAlarm":                 atLeast("Maximum", 300, 3, 3, 3600),

		"UsageAggregationExpiredAlarm":    happened,
		"UsageSubmissionExpiredAlarm":     happened,
		"UsageRecordRejectedAlarm":        happened,
		"UsageLateAlarm":                  happened,
		"UsageCoveredRowChangedAlarm":     happened,
		"UsageManifestUnreadableAlarm":    happened,
		"CustomerNotSubscribedAlarm":      happened,
		"DuplicateRecordAlarm":            happened,
		"BatchMeterUsageExceptionAlarm":   happened,
		"UsageResultUnmatchedAlarm":       happened,
		"UsageRecordInDoubtAlarm":         happened,
		"UsageRecordUnprocessedAlarm":     atLeast("Sum", 300, 3, 3, 1),
		"DeprovisioningLookupFailedAlarm": atLeast("Sum", 300, 3, 3, 1),
		"SubmissionPausedAlarm":           atLeast("Sum", 3600, 6, 6, 1),
		"DryRunSubmittedAlarm":            atLeast("Sum", 3600, 24, 24, 1),

		"RegistrationFailedAlarm": happened,
		"RegistrationErrorsAlarm": happened,

		"SubscriptionErrorsAlarm":          atLeast("Sum", 300, 1, 1, 1),
		"SubscriptionEventFailedAlarm":     atLeast("Sum", 300, 2, 3, 1),
		"EventsWaitingAlarm":               atLeast("Minimum", 300, 3, 3, 1),
		"EventsDeadLettersAlarm":           deadLetter,
		"UndeliveredEventsAlarm":           deadLetter,
		"DeprovisionCleanupErrorsAlarm":    atLeast("Sum", 900, 2, 2, 1),
		"DeprovisionCleanupDidNotRunAlarm": fewerThan(900, 2, 2, 1),
	}
}

func settingsOf(alarm template.Resource) alarmSettings {
	number := func(name string) int {
		n, whole := alarm.Int(name)
		if !whole {
			return -1
		}
		return n
	}
	return alarmSettings{
		alarm.Text("Statistic"), number("Period"), number("DatapointsToAlarm"), number("EvaluationPeriods"),
		alarm.Text("ComparisonOperator"), number("Threshold"), alarm.Text("TreatMissingData"),
	}
}

// checkAlarmSettings: every alarm rings when it is meant to, and CloudWatch takes it.
func checkAlarmSettings(s *template.Stack) (wrong []string) {
	want := rings()
	for _, alarm := range s.OfType(alarmType) {
		got, meant := settingsOf(alarm), want[alarm.ID]
		if got != meant {
			wrong = append(wrong, fmt.Sprintf("%s rings otherwise than meant: %s", alarm.ID, cmp.Diff(meant, got, cmp.AllowUnexported(alarmSettings{}))))
		}
		if got.needed < 1 || got.needed > got.of {
			wrong = append(wrong, fmt.Sprintf("%s: %d of %d data points", alarm.ID, got.needed, got.of))
		}
		// Amazon CloudWatch API reference, PutMetricAlarm, Period and EvaluationPeriods.
		longest := 24 * 60 * 60
		if got.period >= 60*60 {
			longest *= 7
		}
		if got.period != 10 && got.period != 20 && got.period != 30 && (got.period < 60 || got.period%60 != 0) || got.period*got.of > longest {
			wrong = append(wrong, fmt.Sprintf("%s: CloudWatch evaluates no %d periods of %d s", alarm.ID, got.of, got.period))
		}
	}
	return wrong
}

func TestAlarmsRingWhenTheyShould(t *testing.T) {
	t.Parallel()
	upholds(t, checkAlarmSettings,
		fault{"full live", "SubmitterErrorsAlarm", "DatapointsToAlarm: 2", "DatapointsToAlarm: 4", "4 of 3 data points"},
		fault{"full live", "SubmitterErrorsAlarm", "DatapointsToAlarm: 2", "DatapointsToAlarm: 1", "rings otherwise"},
		fault{"full live", "DiscovererDidNotRunAlarm", "Threshold: 31", "Threshold: 1", "rings otherwise"},
		fault{"full live", "SubmitterDidNotRunAlarm", "breaching", "notBreaching", "rings otherwise"},
		fault{"full live", "SubmitterDidNotRunAlarm", "LessThanThreshold", "GreaterThanOrEqualToThreshold", "rings otherwise"},
		fault{"full live", "WorkAgeAlarm", "Statistic: Maximum", "Statistic: Average", "rings otherwise"},
		fault{"full live", "WorkAgeAlarm", "Period: 300", "Period: 90", "no 2 periods of 90 s"},
		fault{"full dry-run", "DryRunSubmittedAlarm", "EvaluationPeriods: 24", "EvaluationPeriods: 169", "no 169 periods of 3600 s"},
		fault{"full live", "UsageRecordUnprocessedAlarm", "EvaluationPeriods: 3", "EvaluationPeriods: 289", "no 289 periods of 300 s"},
		fault{"events live", "EventsWaitingAlarm", "Statistic: Minimum", "Statistic: Maximum", "rings otherwise"},
		fault{"full live", "UsageLateAlarm", "UsageLateAlarm:", "UsageLatelyAlarm:", "UsageLatelyAlarm rings otherwise"},
	)
	deployed := map[string]bool{}
	for _, d := range deployments() {
		for _, alarm := range d.whole(t).OfType(alarmType) {
			deployed[alarm.ID] = true
		}
	}
	for id := range rings() {
		if !deployed[id] {
			t.Errorf("no stack has %s", id)
		}
	}
}

// alarmEntry is the alarm's entry in the runbook: its name without those of the product and the stage.
func alarmEntry(s *template.Stack, alarm template.Resource) (string, error) {
	name, head, tail := alarm.Text("AlarmName"), "awsmp-", ""
	if code, metered := s.Parameters["ProductCode"]; metered {
		head += code + "-"
	} else if s.Conditions["TestStage"] {
		tail = "-test-" + s.Parameters["StageName"]
	}
	entry, front := strings.CutPrefix(name, head)
	entry, back := strings.CutSuffix(entry, tail)
	if !front || !back || entry == "" {
		return "", fmt.Errorf("%s is named %q, want %s…%s", alarm.ID, name, head, tail)
	}
	return entry, nil
}

// checkAlarms: each has a name of the stack's own, says what has happened and where to go on reading, watches one metric that is there, and tells the topic where
// there is one. Whatever else an alarm can have (a unit, an expression, Metrics Insights) would make it see less, or cost more, than its settings say.
func checkAlarms(s *template.Stack) (wrong []string) {
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	known := []string{"AlarmActions", "AlarmDescription", "AlarmName", "ComparisonOperator", "DatapointsToAlarm", "Dimensions", "EvaluationPeriods", "MetricName",
		"Namespace", "Period", "Statistic", "Threshold", "TreatMissingData"}
	named, metrics := map[string]bool{}, measuredBy(s)
	for _, alarm := range s.OfType(alarmType) {
		for _, property := range slices.Sorted(maps.Keys(alarm.Properties)) {
			if !slices.Contains(known, property) {
				note("%s has %s", alarm.ID, property)
			}
		}
		entry, err := alarmEntry(s, alarm)
		if err != nil {
			note("%v", err)
		}
		if named[entry] {
			note("two alarms are named as %s is", alarm.ID)
		}
		named[entry] = true
		if words, told := strings.CutSuffix(alarm.Text("AlarmDescription"), ". docs/runbook.md#"+entry); !told || len(words) < 20 {
			note("%s does not say what happened and where to read on: %q", alarm.ID, alarm.Text("AlarmDescription"))
		}
		var actions any
		if topic := s.Parameters["AlertsTopicArn"]; topic != "" {
			actions = []any{topic}
		}
		if diff := cmp.Diff(actions, alarm.Get("AlarmActions")); diff != "" {
			note("%s tells another topic, or none: %s", alarm.ID, diff)
		}
		dimensions := map[string]string{}
		for _, d := range objects(alarm.Get("Dimensions")) {
			dimensions[fmt.Sprint(d["Name"])] = fmt.Sprint(d["Value"])
		}
		if problem := metrics.problem(alarm.Text("Namespace"), alarm.Text("MetricName"), dimensions); problem != "" {
			note("%s watches %s", alarm.ID, problem)
		}
		if strings.HasSuffix(alarm.Text("MetricName"), "Units") {
			note("%s watches units, of which a lost item may have none", alarm.ID)
		}
	}
	return wrong
}

func TestAlarmsSeeAndTell(t *testing.T) {
	t.Parallel()
	upholds(t, checkAlarms,
		fault{"full live", "UsageLateAlarm", "MetricName: UsageLate", "MetricName: UsageLateUnits", "watches units"},
		fault{"full live", "UsageLateAlarm", "MetricName: UsageLate", "MetricName: LateUsage", "LateUsage, which no code emits"},
		fault{"full live", "UsageLateAlarm", "Name: ProductCode", "Name: Product", "in no set of dimensions"},
		fault{"full live", "UsageLateAlarm", "!Ref ProductCode}", "other}", "in no set of dimensions"},
		fault{"full live", "UsageLateAlarm", "Value: !Ref ProductCode}", "Value: !Ref ProductCode}, {Name: MeteringMode, Value: live}", "in no set of dimensions"},
		fault{"full live", "UsageLateAlarm", "AwsMarketplace/Metering", "Marketplace", "namespace Marketplace"},
		fault{"full live", "UsageLateAlarm", "Period: 300", "Period: 300\n      Unit: Count", "has Unit"},
		fault{"full live", "UsageLateAlarm", "#usage-late", "#usage-record-rejected", "does not say"},
		fault{"full live", "UsageLateAlarm", "docs/runbook.md#usage-late", "docs/runbook.md", "does not say"},
		fault{"full live", "UsageLateAlarm", "awsmp-${ProductCode}-usage-late", "awsmp-usage-late", "UsageLateAlarm is named"},
		fault{"full live", "UsageLateAlarm", "awsmp-${ProductCode}-usage-late", "awsmp-${ProductCode}-usage-record-rejected", "two alarms are named"},
		fault{"full live", "UsageLateAlarm", "!If [HasAlertsTopic, [!Ref AlertsTopicArn], !Ref AWS::NoValue]", "[arn:aws:sns:us-east-1:111122223333:other]", "tells another topic"},
		fault{"full live", "SubmitterErrorsAlarm", "!Ref SubmitterFunction", "!GetAtt SubmitterFunction.Arn", "no function of the stack"},
		fault{"full live", "SubmitterErrorsAlarm", "MetricName: Errors", "MetricName: Error", "Error, which AWS/Lambda does not have"},
		fault{"full live", "WorkAgeAlarm", "!GetAtt WorkQueue.QueueName", "!Ref WorkQueue", "no queue of the stack"},
		fault{"full live", "LogsMissingAlarm", "!Ref SubmitterLogs", "!GetAtt SubmitterLogs.Arn", "no log group of the stack"},
		fault{"full live", "RegistrationErrorsAlarm", "{Name: Stage, Value: !Ref RegistrationStage}", "{Name: Stage, Value: test}", "no stage of an API of the stack"},
		fault{"full live", "RegistrationErrorsAlarm", ", {Name: Stage, Value: !Ref RegistrationStage}", "", "no stage of an API of the stack"},
		fault{"events test stage", "SubscriptionErrorsAlarm", "awsmp-subscription-errors-test-${StageName}", "awsmp-subscription-errors", "SubscriptionErrorsAlarm is named"},
	)
}

func TestAlarmsTellTheTopic(t *testing.T) {
	t.Parallel()
	for _, d := range deployments() {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := d.with(t, map[string]string{"AlertsTopicArn": "arn:aws:sns:us-east-1:111122223333:alerts"})
			for _, problem := range checkAlarms(s) {
				t.Error(problem)
			}
			for id, alarm := range s.Resources { // shows that the check looks
				if alarm.Type == alarmType {
					delete(alarm.Properties, "AlarmActions")
					if problems := checkAlarms(s); !slices.ContainsFunc(problems, func(p string) bool { return strings.HasPrefix(p, id+" tells another topic") }) {
						t.Errorf("nothing says that %s tells nobody: %q", id, problems)
					}
					return
				}
			}
			t.Error("there is no alarm")
		})
	}
}

// awsMetrics are those that AWS itself publishes and that are used here, by namespace, with their dimensions (AWS Lambda developer guide, "Types of metrics"; Amazon
// SQS developer guide, "Available CloudWatch metrics"; Amazon API Gateway developer guide, "dimensions and metrics"; Amazon CloudWatch Logs user guide, "Monitoring usage").
func awsMetrics() map[string][]string {
	return map[string][]string{
		"AWS/Lambda":     {"Invocations", "Errors", "Throttles", "Duration"},
		"AWS/SQS":        {"ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"},
		"AWS/ApiGateway": {"5XXError", "4XXError", "Count", "Latency"},
		"AWS/Logs":       {"IncomingLogEvents"},
	}
}

// measured is what a stack publishes metrics of.
type measured struct {
	*template.Stack
	constants []string               // the metrics that the code knows
	emitters  []telemetry.EMFOptions // with which functions of the stack emit
	err       error
}

// measuredBy reads how each function of a stack emits from its own environment, as the function does when it starts.
func measuredBy(s *template.Stack) measured {
	m := measured{Stack: s, constants: slices.Collect(maps.Values(metricConstants()))}
	for _, r := range s.OfType(lambdaType) {
		f, err := functions.Named(r.Text("Handler"))
		if err != nil {
			return measured{err: err}
		}
		settings, err := f.Read(func(variable string) string {
			if variable == "AWS_REGION" {
				return "us-east-1"
			}
			return r.Text("Environment", "Variables", variable)
		})
		if err != nil {
			return measured{err: err}
		}
		o := telemetry.EMFOptions{ProductCode: settings.ProductCode, MeteringMode: settings.Mode}
		if !slices.ContainsFunc(m.emitters, func(e telemetry.EMFOptions) bool {
			return e.ProductCode == o.ProductCode && e.MeteringMode == o.MeteringMode
		}) {
			m.emitters = append(m.emitters, o)
		}
	}
	return m
}

// problem says what is wrong with a metric of a stack: nothing emits it, or not with exactly these dimensions, which are all that CloudWatch finds it by.
func (m measured) problem(namespace, name string, dimensions map[string]string) string {
	named := func(resourceType, dimension, what string) string {
		for _, r := range m.OfType(resourceType) {
			if maps.Equal(dimensions, map[string]string{dimension: r.Text(dimension)}) {
				return ""
			}
		}
		return fmt.Sprintf("%s of %v, which is no %s of the stack", name, dimensions, what)
	}
	metrics, known := awsMetrics()[namespace]
	switch {
	case m.err != nil:
		return m.err.Error()
	case namespace == telemetry.Namespace:
		return m.ourProblem(name, dimensions)
	case !known:
		return fmt.Sprintf("%s in the namespace %s", name, namespace)
	case !slices.Contains(metrics, name):
		return fmt.Sprintf("%s, which %s does not have", name, namespace)
	case namespace == "AWS/Lambda":
		return named(lambdaType, "FunctionName", "function")
	case namespace == "AWS/SQS":
		return named(queueType, "QueueName", "queue")
	case namespace == "AWS/Logs":
		return named("AWS::Logs::LogGroup", "LogGroupName", "log group")
	}
	for _, stage := range m.OfType("AWS::ApiGateway::Stage") {
		for _, id := range stage.Uses {
			api := m.Resources[id]
			if api.Type == "AWS::ApiGateway::RestApi" && maps.Equal(dimensions, map[string]string{"ApiName": api.Text("Name"), "Stage": stage.Text("StageName")}) {
				return ""
			}
		}
	}
	return fmt.Sprintf("%s of %v, which is no stage of an API of the stack", name, dimensions)
}

func (m measured) ourProblem(name string, dimensions map[string]string) string {
	if !slices.Contains(m.constants, strings.TrimSuffix(name, "Units")) {
		return name + ", which no code emits"
	}
	sets := m.sets(name)
	if slices.ContainsFunc(sets, func(set map[string]string) bool { return maps.Equal(set, dimensions) }) {
		return ""
	}
	return fmt.Sprintf("%s of %v, in no set of dimensions that is emitted: %v", name, dimensions, sets)
}

// someCause stands for any cause of a measure.
const someCause = "SomeCause"

// sets are the sets of dimensions that a metric is published with: read from the lines that functions of the stack print.
func (m measured) sets(name string) (sets []map[string]string) {
	for _, o := range m.emitters {
		var line bytes.Buffer
		telemetry.NewEMF(&line, o).Emit(metering.Measure{Metric: metering.Metric(strings.TrimSuffix(name, "Units")), Items: 1, Units: 1, Cause: someCause})
		var root map[string]any
		if err := json.Unmarshal(line.Bytes(), &root); err != nil {
			return nil // and so no metric is found
		}
		printed := template.Resource{Properties: root}
		for _, directive := range objects(printed.Get("_aws", "CloudWatchMetrics")) {
			if directive["Namespace"] != telemetry.Namespace || !slices.ContainsFunc(objects(directive["Metrics"]), func(m map[string]any) bool { return m["Name"] == name }) {
				continue
			}
			list, _ := directive["Dimensions"].([]any)
			for _, names := range list {
				set := map[string]string{}
				for _, dimension := range oneOrMore(names) {
					set[dimension] = printed.Text(dimension)
				}
				sets = append(sets, set)
			}
		}
	}
	return sets
}
