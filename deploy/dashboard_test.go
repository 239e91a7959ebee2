package deploy_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/telemetry"
	"github.com/awsmp/metering/internal/template"
)

const dashboardType = "AWS::CloudWatch::Dashboard"

// Limits of a dashboard (Amazon CloudWatch user guide, "CloudWatch service quotas"; API reference, "Dashboard body structure and syntax").
const (
	dashboardColumns      = 24
	dashboardRows         = 1000 // of a widget
	metricsOfAWidget      = 500
	metricsOfADashboard   = 2500
	alarmsOfAWidget       = 100
	widgetsOfADashboard   = 500
	shortestDashboardStep = 60 // seconds: what AWS/SQS and AWS/Lambda publish
)

type widget struct {
	Type       string `json:"type"`
	X          int    `json:"x"`
	Y          int    `json:"y"`
	Width      int    `json:"width"`
	Height     int    `json:"height"`
	Properties struct {
		Title   string   `json:"title"`
		Region  string   `json:"region"`
		Stat    string   `json:"stat"`
		Period  int      `json:"period"`
		Metrics [][]any  `json:"metrics"`
		Alarms  []string `json:"alarms"`
	} `json:"properties"`
}

// widgetsOf reads a dashboard. A member that is not known here is an error: CloudWatch would show something that nobody has looked at.
func widgetsOf(dashboard template.Resource) ([]widget, error) {
	var body struct {
		Widgets []widget `json:"widgets"`
	}
	d := json.NewDecoder(strings.NewReader(dashboard.Text("DashboardBody")))
	d.DisallowUnknownFields()
	if err := d.Decode(&body); err != nil {
		return nil, fmt.Errorf("read the dashboard: %w", err)
	}
	if _, err := d.Token(); err == nil {
		return nil, fmt.Errorf("read the dashboard: something stands behind it")
	}
	return body.Widgets, nil
}

// checkDashboards: one a stack, of valid JSON, laid out without overlap, with every alarm, function and queue of the stack and none that is not, and with metrics that
// are there.
func checkDashboards(s *template.Stack) (wrong []string) {
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	boards := s.OfType(dashboardType)
	if len(boards) != 1 {
		return []string{fmt.Sprintf("there are %d dashboards", len(boards))}
	}
	widgets, err := widgetsOf(boards[0])
	if err != nil {
		return []string{err.Error()}
	}
	seen := &shown{measured: measuredBy(s), functions: map[string]bool{}, queues: map[string]bool{}}
	metrics := 0
	for i, w := range widgets {
		name := fmt.Sprintf("widget %q", w.Properties.Title)
		if w.X < 0 || w.Y < 0 || w.Width < 1 || w.X+w.Width > dashboardColumns || w.Height < 1 || w.Height > dashboardRows {
			note("%s does not fit the columns", name)
		}
		for _, v := range widgets[:i] {
			if w.X < v.X+v.Width && v.X < w.X+w.Width && w.Y < v.Y+v.Height && v.Y < w.Y+w.Height {
				note("%s lies over widget %q", name, v.Properties.Title)
			}
			if w.Properties.Title == v.Properties.Title {
				note("two widgets are titled as %s is", name)
			}
		}
		metrics += len(w.Properties.Metrics)
		for _, problem := range seen.look(w) {
			note("%s: %s", name, problem)
		}
	}
	if len(widgets) > widgetsOfADashboard || metrics > metricsOfADashboard {
		note("%d widgets with %d metrics are too many", len(widgets), metrics)
	}
	return append(wrong, seen.missing()...)
}

// shown is what of a stack its dashboard shows.
type shown struct {
	measured
	alarms            []string
	functions, queues map[string]bool // by name
}

func (x *shown) look(w widget) (wrong []string) {
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	p := w.Properties
	switch {
	case w.Type == "alarm" && len(p.Alarms) > 0 && len(p.Alarms) <= alarmsOfAWidget && p.Metrics == nil && p.Stat == "" && p.Title != "":
		x.alarms = append(x.alarms, p.Alarms...)
		return nil
	case w.Type != "metric" || p.Alarms != nil || p.Title == "" || p.Region != "us-east-1" || len(p.Metrics) == 0 || len(p.Metrics) > metricsOfAWidget:
		return []string{"neither alarms nor metrics of the stack's Region"}
	case p.Period < shortestDashboardStep || p.Period%60 != 0:
		note("periods of %d s", p.Period)
	}
	for _, metric := range p.Metrics {
		problem, statistic := x.metric(metric)
		if problem != "" {
			note("shows %s", problem)
		}
		if statistic != "" || slices.Contains([]string{"Sum", "Maximum"}, p.Stat) {
			continue
		}
		note("statistic %q", p.Stat)
	}
	return wrong
}

// metric looks at one entry of a widget: a namespace, a name, dimensions in pairs and perhaps options, or options alone with an expression (API reference, "Dashboard
// body structure and syntax", metrics array). It returns what is wrong with it, and the statistic that it has of its own.
func (x *shown) metric(entry []any) (problem, statistic string) {
	if options, ok := entry[len(entry)-1].(map[string]any); ok {
		entry = entry[:len(entry)-1]
		for name := range options {
			if !slices.Contains([]string{"stat", "yAxis", "expression"}, name) {
				return fmt.Sprintf("an option %q", name), ""
			}
		}
		statistic, _ = options["stat"].(string)
		if expression, ok := options["expression"].(string); ok {
			if len(entry) > 0 || len(options) > 1 {
				return "a metric and an expression at once", ""
			}
			return x.queryProblem(expression), "SUM"
		}
	}
	texts := make([]string, len(entry))
	for i, v := range entry {
		texts[i], _ = v.(string)
	}
	if len(texts) < 2 || len(texts)%2 == 1 {
		return fmt.Sprintf("half a metric: %q", texts), statistic
	}
	dimensions := map[string]string{}
	for i := 2; i < len(texts); i += 2 {
		dimensions[texts[i]] = texts[i+1]
	}
	switch texts[0] {
	case "AWS/Lambda":
		x.functions[dimensions["FunctionName"]] = true
	case "AWS/SQS":
		x.queues[dimensions["QueueName"]] = true
	case telemetry.Namespace:
		if rows := strings.TrimSuffix(texts[1], "Units"); x.Conditions["DirectSubmit"] && slices.Contains(ofRows(), metering.Metric(rows)) {
			return texts[1] + ", which only the full pipeline emits", statistic
		}
	}
	return x.problem(texts[0], texts[1], dimensions), statistic
}

// ofRows are the metrics of usage rows, which direct-submit does not have.
func ofRows() []metering.Metric {
	return []metering.Metric{
		metering.MetricRowLate, metering.MetricRowExpired, metering.MetricCoveredRowChanged, metering.MetricPendingRepaired, metering.MetricManifestUnreadable,
	}
}

// insights is the one form of a Metrics Insights query that is used here: a sum by cause (Amazon CloudWatch user guide, "Metrics Insights query components and syntax").
var insights = regexp.MustCompile(`^SELECT SUM\((\w+)\) FROM SCHEMA\("([^"]+)", ([\w, ]+)\) WHERE (\w+) = '([^']+)' GROUP BY (\w+)$`)

// queryProblem says what is wrong with a query: SCHEMA finds metrics with exactly the dimensions that it names.
func (m measured) queryProblem(query string) string {
	part := insights.FindStringSubmatch(query)
	if part == nil {
		return "a query of another form: " + query
	}
	metric, namespace, names, where, value, by := part[1], part[2], strings.Split(part[3], ", "), part[4], part[5], part[6]
	sets := m.sets(metric)
	for _, set := range sets {
		same := cmp.Equal(names, slices.Collect(maps.Keys(set)), cmpopts.SortSlices(strings.Compare))
		if same && namespace == telemetry.Namespace && set[where] == value && set[by] == someCause && slices.Contains(m.constants, metric) {
			return ""
		}
	}
	return fmt.Sprintf("a query that finds nothing of what is emitted, %v: %s", sets, query)
}

// missing says what the dashboard does not show although the stack has it, and what it shows although the stack does not.
func (x *shown) missing() (wrong []string) {
	var alarms []string
	for _, a := range x.OfType(alarmType) {
		alarms = append(alarms, "arn:aws:cloudwatch:us-east-1:111122223333:alarm:"+a.Text("AlarmName"))
	}
	if diff := cmp.Diff(alarms, x.alarms, cmpopts.SortSlices(strings.Compare)); diff != "" {
		wrong = append(wrong, "the alarms of the dashboard are not those of the stack: "+diff)
	}
	for _, f := range x.OfType(lambdaType) {
		if !x.functions[f.Text("FunctionName")] {
			wrong = append(wrong, "the dashboard lacks the function "+f.ID)
		}
	}
	for _, q := range x.OfType(queueType) {
		if !x.queues[q.Text("QueueName")] {
			wrong = append(wrong, "the dashboard lacks the queue "+q.ID)
		}
	}
	return wrong
}

// lastWidgets stand in the dashboard of the events stack: nothing else there shows the function.
const lastWidgets = `,
              ["AWS/Lambda", "Duration", "FunctionName", "${SubscriptionFunction}", {"stat": "p99", "yAxis": "right"}]]}},
            {"type": "metric", "x": 12, "y": 9, "width": 12, "height": 6, "properties": {"title": "deprovision-cleanup", "region": "${AWS::Region}", "stat": "Sum", "period": 900, "metrics": [
              ["AWS/Lambda", "Invocations", "FunctionName", "${DeprovisionCleanupFunction}"],
              ["AWS/Lambda", "Errors", "FunctionName", "${DeprovisionCleanupFunction}"],
              ["AWS/Lambda", "Throttles", "FunctionName", "${DeprovisionCleanupFunction}"],
              ["AWS/Lambda", "Duration", "FunctionName", "${DeprovisionCleanupFunction}", {"stat": "p99", "yAxis": "right"}]]}}`

func TestDashboardsShowTheStack(t *testing.T) {
	t.Parallel()
	const product = "${ProductCode}"
	upholds(t, checkDashboards,
		fault{in: "full live", at: "Dashboard", says: "there are 0 dashboards"},
		fault{"full live", "Dashboard", `"title": "Alarms", `, `"title": "Alarms", "titel": "", `, "titel"},
		fault{"full live", "Dashboard", `"widgets": [`, `"widgets": [,`, "read the dashboard"},
		fault{"full live", "Dashboard", "              ,\n", "", "read the dashboard"},
		fault{"full live", "Dashboard", `"x": 12, "y": 4, "width": 12`, `"x": 11, "y": 4, "width": 12`, `"Records by fate" lies over widget "Units by fate"`},
		fault{"full live", "Dashboard", `"x": 12, "y": 4, "width": 12`, `"x": 12, "y": 4, "width": 13`, "does not fit"},
		fault{"full live", "Dashboard", `"y": 28`, `"y": 27`, "lies over"},
		fault{"full live", "Dashboard", `alarm:awsmp-` + product + `-submitter-errors`, `alarm:awsmp-submitter-errors`, "not those of the stack"},
		fault{"full dry-run", "Dashboard", `-dry-run-submitted"'`, `-dry-run"'`, "not those of the stack"},
		fault{"full live", "Dashboard", `${AWS::Partition}:cloudwatch:${AWS::Region}`, `${AWS::Partition}:cloudwatch:eu-west-1`, "not those of the stack"},
		fault{in: "full live", at: "UsageLateAlarm", says: "not those of the stack"},
		fault{"events live", "Dashboard", `alarm:awsmp-events-waiting${Suffix}`, `alarm:awsmp-events-waiting-test`, "not those of the stack"},
		fault{"full live", "Dashboard", `"UsageBilledUnits"`, `"BilledUnits"`, "BilledUnits, which no code emits"},
		fault{"full live", "Dashboard", `"UsageBilledUnits", "ProductCode", "` + product + `"`, `"UsageBilledUnits"`, "in no set of dimensions"},
		fault{"full live", "Dashboard", `"UsageBilledUnits", "ProductCode", "` + product + `"`, `"UsageBilledUnits", "ProductCode"`, "half a metric"},
		fault{"events live", "Dashboard", `"AgreementUnknown", "MeteringMode"`, `"AgreementUnknown", "ProductCode"`, "in no set of dimensions"},
		fault{"full live", "Dashboard", `ProductCode, MeteringMode, Reason)`, `ProductCode, Reason)`, "finds nothing of what is emitted"},
		fault{"full live", "Dashboard", `ProductCode, MeteringMode, Exception)`, `ProductCode, MeteringMode, Reason)`, "finds nothing of what is emitted"},
		fault{"full live", "Dashboard", `SUM(UsageRecordRejected) FROM`, `SUM(RecordRejected) FROM`, "finds nothing of what is emitted"},
		fault{"full live", "Dashboard", `WHERE ProductCode = '` + product + `'`, `WHERE ProductCode = 'other'`, "finds nothing of what is emitted"},
		fault{"full live", "Dashboard", `"stat": "Sum"`, `"stat": "Average"`, `statistic "Average"`},
		fault{"full live", "Dashboard", `"region": "${AWS::Region}"`, `"region": "eu-west-1"`, "Region"},
		fault{"full live", "Dashboard", `"${CleanupFunction}"`, `"${AggregatorFunction}x"`, "no function of the stack"},
		fault{"full live", "Dashboard", `["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "${WorkDeadLetters.QueueName}"],`, "", "lacks the queue WorkDeadLetters"},
		fault{"events live", "Dashboard", lastWidgets, `]}}`, "lacks the function DeprovisionCleanupFunction"},
		fault{"direct-submit live", "Dashboard", `["AwsMarketplace/Metering", "UsageRecordInDoubt"`, `["AwsMarketplace/Metering", "UsageLate"`, "only the full pipeline"},
	)
}

func TestNoDashboardWhereNoneIsWanted(t *testing.T) {
	t.Parallel()
	for _, d := range deployments() {
		if boards := d.with(t, map[string]string{"CreateDashboard": "false"}).OfType(dashboardType); len(boards) > 0 {
			t.Errorf("%s: there is %s", d.name, boards[0].ID)
		}
	}
}
