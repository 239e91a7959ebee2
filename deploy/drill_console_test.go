package deploy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"

	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/telemetry"
	"github.com/awsmp/metering/internal/template"
)

// console does in the drill what CloudWatch does: it takes the lines that functions print, makes metrics of those in the embedded metric format, keeps
// what Lambda and SQS tell of themselves, and says which alarms ring. All of that it puts into moto too, where the operator's commands look.
//
// It has a clock of its own, which the drill moves, and which ends near the real one: so a day can pass within a test. Metrics are dated by that
// clock; lines of the logs by the real one, which the functions have too.
type console struct {
	t     *testing.T
	cloud cloud
	now   time.Time

	data    map[series][]datum
	waiting map[series][]datum // of data, those that moto does not have yet
	states  map[string]string  // of alarms, as moto has them
}

// series is one metric with exactly its dimensions, as alarms find it.
type series struct{ namespace, metric, dimensions string }

type datum struct {
	at    time.Time
	value float64
}

func newConsole(t *testing.T, c cloud, start time.Time) *console {
	return &console{
		t: t, cloud: c, now: start.Truncate(time.Minute), data: map[series][]datum{}, waiting: map[series][]datum{}, states: map[string]string{},
	}
}

// dimensionsOf writes dimensions in the order of their names.
func dimensionsOf(pairs map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(pairs)) {
		parts = append(parts, name+"="+pairs[name])
	}
	return strings.Join(parts, ",")
}

// count notes a value of a metric at this minute.
func (c *console) count(namespace, metric string, dimensions map[string]string, value float64) {
	s := series{namespace, metric, dimensionsOf(dimensions)}
	d := datum{c.now, value}
	c.data[s] = append(c.data[s], d)
	c.waiting[s] = append(c.waiting[s], d)
}

// printed takes what a function printed. Lines that do not arrive, because their log group is gone, make no metrics.
func (c *console) printed(function, text string) (lines int) {
	c.t.Helper()
	var events []logs.InputLogEvent
	var metrics []map[string]any
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		events = append(events, logs.InputLogEvent{Timestamp: aws.Int64(time.Now().UnixMilli()), Message: aws.String(line)})
		var document map[string]any
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &document) == nil && document["_aws"] != nil {
			metrics = append(metrics, document)
		}
	}
	if len(events) == 0 || !c.arrives("/aws/lambda/"+function, events) {
		return 0
	}
	for _, document := range metrics {
		c.embedded(document)
	}
	c.count("AWS/Logs", "IncomingLogEvents", map[string]string{"LogGroupName": "/aws/lambda/" + function}, float64(len(events)))
	return len(events)
}

// arrives puts lines into a log group, and reports whether it is there.
func (c *console) arrives(group string, lines []logs.InputLogEvent) bool {
	c.t.Helper()
	client, stream := cloudwatchlogs.NewFromConfig(standin.Config(c.cloud.endpoint)), aws.String("drill")
	put := func() error {
		_, err := client.PutLogEvents(c.t.Context(), &cloudwatchlogs.PutLogEventsInput{LogGroupName: &group, LogStreamName: stream, LogEvents: lines})
		return err
	}
	err := put()
	if _, missing := errors.AsType[*logs.ResourceNotFoundException](err); missing {
		if _, err = client.CreateLogStream(c.t.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: &group, LogStreamName: stream}); err == nil {
			err = put()
		}
	}
	if _, missing := errors.AsType[*logs.ResourceNotFoundException](err); err != nil && !missing {
		c.t.Fatal(err)
	}
	return err == nil
}

// embedded takes the metrics of one line (Amazon CloudWatch user guide, "Specification: Embedded metric format").
func (c *console) embedded(document map[string]any) {
	text, err := json.Marshal(document["_aws"])
	if err != nil {
		c.t.Fatal(err)
	}
	var head struct {
		CloudWatchMetrics []struct {
			Namespace  string
			Dimensions [][]string
			Metrics    []struct{ Name string }
		}
	}
	if err := json.Unmarshal(text, &head); err != nil {
		c.t.Fatalf("read %s: %v", text, err)
	}
	for _, directive := range head.CloudWatchMetrics {
		for _, set := range directive.Dimensions {
			dimensions := map[string]string{}
			for _, name := range set {
				dimensions[name] = fmt.Sprint(document[name])
			}
			for _, metric := range directive.Metrics {
				value, _ := document[metric.Name].(float64)
				c.count(directive.Namespace, metric.Name, dimensions, value)
			}
		}
	}
}

// publish gives moto what was counted since the last time, as far as a command asks for it: of the pipeline's metrics one sum an hour, and of what queues hold the
// last word. moto looks at all that it has for each hour of each question, and would take minutes over every minute's value.
func (c *console) publish() {
	c.t.Helper()
	by := map[string][]any{}
	for s, list := range c.waiting {
		var dimensions []any
		for pair := range strings.SplitSeq(s.dimensions, ",") {
			if name, value, ok := strings.Cut(pair, "="); ok {
				dimensions = append(dimensions, map[string]any{"Name": name, "Value": value})
			}
		}
		sums := map[int64]float64{}
		switch s.namespace {
		case telemetry.Namespace:
			for _, d := range list {
				sums[d.at.Truncate(time.Hour).Unix()] += d.value
			}
		case "AWS/SQS":
			last := list[len(list)-1]
			sums[last.at.Unix()] = last.value
		}
		for at, value := range sums {
			by[s.namespace] = append(by[s.namespace], map[string]any{"MetricName": s.metric, "Dimensions": dimensions, "Timestamp": at, "Value": value})
		}
	}
	clear(c.waiting)
	for namespace, list := range by {
		if _, err := c.cloud.call("monitoring", "GraniteServiceVersion20100801.PutMetricData", map[string]any{"Namespace": namespace, "MetricData": list}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// watch evaluates alarms as the templates define them, tells moto which state each has, and returns the names of those that ring.
func (c *console) watch(alarms []template.Resource) (ringing []string) {
	c.t.Helper()
	c.publish()
	for _, alarm := range alarms {
		name, state := alarm.Text("AlarmName"), "OK"
		breaching, of := c.breaching(alarm)
		if settings := settingsOf(alarm); breaching >= settings.needed {
			state, ringing = "ALARM", append(ringing, name)
		}
		if c.states[name] == state {
			continue
		}
		reason := fmt.Sprintf("%d of the last %d data points breach", breaching, of)
		if _, err := c.cloud.call("monitoring", "GraniteServiceVersion20100801.SetAlarmState", map[string]any{"AlarmName": name, "StateValue": state, "StateReason": reason}); err != nil {
			c.t.Fatal(err)
		}
		c.states[name] = state
	}
	return ringing
}

// breaching counts the data points of an alarm's last periods that breach. Periods begin at multiples of their length, and the last one is over. What is
// missing breaches where the alarm says so (Amazon CloudWatch user guide, "Configuring how CloudWatch alarms treat missing data"). CloudWatch may look
// at a few periods more before it takes a point for missing: an alarm may go off that much later than here.
func (c *console) breaching(alarm template.Resource) (breaching, of int) {
	settings := settingsOf(alarm)
	dimensions := map[string]string{}
	for _, d := range objects(alarm.Get("Dimensions")) {
		dimensions[fmt.Sprint(d["Name"])] = fmt.Sprint(d["Value"])
	}
	list := c.data[series{alarm.Text("Namespace"), alarm.Text("MetricName"), dimensionsOf(dimensions)}]
	period := time.Duration(settings.period) * time.Second
	end := c.now.Truncate(period)
	for range settings.of {
		start := end.Add(-period)
		var values []float64
		for _, d := range list {
			if !d.at.Before(start) && d.at.Before(end) {
				values = append(values, d.value)
			}
		}
		end = start
		if breaches(settings, values) {
			breaching++
		}
	}
	return breaching, settings.of
}

// breaches reports whether a period breaches.
func breaches(s alarmSettings, values []float64) bool {
	if len(values) == 0 {
		return s.missing == "breaching"
	}
	var value float64
	switch s.statistic {
	case "Sum":
		for _, v := range values {
			value += v
		}
	case "Maximum":
		value = slices.Max(values)
	case "Minimum":
		value = slices.Min(values)
	default:
		value = math.NaN() // no alarm has another one, and such a one never rings here
	}
	switch s.comparison {
	case "GreaterThanOrEqualToThreshold":
		return value >= float64(s.threshold)
	case "LessThanThreshold":
		return value < float64(s.threshold)
	}
	return false
}

// TestTheConsoleRingsAsCloudWatchDoes: M of N, statistics, missing data, dimensions and the edges of periods.
func TestTheConsoleRingsAsCloudWatchDoes(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 3, 10, 14, 0, 0, 0, time.UTC)
	alarm := func(change map[string]any) template.Resource {
		properties := map[string]any{
			"AlarmName": "a", "Namespace": "AWS/SQS", "MetricName": "Depth", "Dimensions": []any{map[string]any{"Name": "QueueName", "Value": "work"}}, "Statistic": "Sum", "Period": 300,
			"EvaluationPeriods": 3, "DatapointsToAlarm": 2, "ComparisonOperator": "GreaterThanOrEqualToThreshold", "Threshold": 5, "TreatMissingData": "notBreaching",
		}
		maps.Copy(properties, change)
		return template.Resource{ID: "A", Properties: properties}
	}
	type counted struct {
		minute int
		value  float64
	}
	for _, tt := range []struct {
		name   string
		change map[string]any
		data   []counted
		at     int
		want   bool
	}{
		{"nothing is counted", nil, nil, 15, false},
		{"two of three", nil, []counted{{0, 5}, {10, 5}}, 15, true},
		{"one of three", nil, []counted{{0, 5}, {10, 4}}, 15, false},
		{"a sum within a period", nil, []counted{{0, 3}, {4, 2}, {5, 3}, {9, 2}}, 15, true},
		{"the same over the edge of periods", nil, []counted{{4, 3}, {5, 2}, {9, 2}, {10, 3}}, 15, false},
		{"the period that runs does not count", nil, []counted{{10, 5}, {15, 5}}, 19, false},
		{"and does when it is over", nil, []counted{{10, 5}, {15, 5}}, 20, true},
		{"older ones do not", nil, []counted{{0, 5}, {5, 5}}, 25, false},
		{"missing breaches", map[string]any{"TreatMissingData": "breaching"}, []counted{{0, 1}}, 15, true},
		{"maximum", map[string]any{"Statistic": "Maximum"}, []counted{{0, 3}, {1, 4}, {5, 5}, {10, 5}}, 15, true},
		{"maximum of small ones", map[string]any{"Statistic": "Maximum"}, []counted{{0, 3}, {1, 4}, {5, 4}, {10, 5}}, 15, false},
		{"minimum", map[string]any{"Statistic": "Minimum"}, []counted{{0, 5}, {1, 4}, {5, 5}, {10, 5}, {11, 0}}, 15, false},
		{"fewer than", map[string]any{"ComparisonOperator": "LessThanThreshold"}, []counted{{0, 4}, {5, 5}, {10, 4}}, 15, true},
		{"another series", map[string]any{"Dimensions": []any{map[string]any{"Name": "QueueName", "Value": "cleanup"}}}, []counted{{0, 5}, {10, 5}}, 15, false},
		{"fewer dimensions", map[string]any{"Dimensions": []any{}}, []counted{{0, 5}, {10, 5}}, 15, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newConsole(t, cloud{}, start)
			for _, d := range tt.data {
				c.now = start.Add(time.Duration(d.minute) * time.Minute)
				c.count("AWS/SQS", "Depth", map[string]string{"QueueName": "work"}, d.value)
			}
			c.now = start.Add(time.Duration(tt.at) * time.Minute)
			of := alarm(tt.change)
			if n, _ := c.breaching(of); n >= settingsOf(of).needed != tt.want {
				t.Errorf("%d data points breach; rings: %t, want %t", n, !tt.want, tt.want)
			}
		})
	}
	t.Run("a line of a function", func(t *testing.T) {
		t.Parallel()
		c := newConsole(t, cloud{}, start)
		var document map[string]any
		line := `{"UsageLate":2,"UsageLateUnits":30,"ProductCode":"p","MeteringMode":"live","Reason":"r","_aws":{"Timestamp":1,"CloudWatchMetrics":[{"Namespace":"N","Dimensions":[["ProductCode"],["ProductCode","MeteringMode","Reason"]],"Metrics":[{"Name":"UsageLate"},{"Name":"UsageLateUnits"}]}]}}`
		if err := json.Unmarshal([]byte(line), &document); err != nil {
			t.Fatal(err)
		}
		c.embedded(document)
		for s, want := range map[series]float64{
			{"N", "UsageLate", "ProductCode=p"}: 2, {"N", "UsageLateUnits", "ProductCode=p"}: 30, {"N", "UsageLate", "MeteringMode=live,ProductCode=p,Reason=r"}: 2,
		} {
			if got := c.data[s]; len(got) != 1 || got[0].value != want {
				t.Errorf("%v is %v, want %v", s, got, want)
			}
		}
	})
}
