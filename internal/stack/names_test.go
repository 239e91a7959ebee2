package stack

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/template"
)

// deployed are a stack and its events stack as the templates make them.
func deployed(t *testing.T, mode, stage, metering string) (s *Stack, here, events *template.Stack) {
	t.Helper()
	s = &Stack{ProductCode: "acme", id: "arn:aws:cloudformation:us-east-1:111122223333:stack/awsmp-acme-metering/1", here: clients{region: "us-east-1"}, events: clients{region: "us-east-1"}}
	s.Parameters = map[string]string{"ProductCode": "acme", "DeploymentMode": mode, "MeteringMode": metering}
	s.Direct, s.DryRun = mode == "direct-submit", metering == "dry-run"
	outer := map[string]string{}
	if stage != "" {
		s.Parameters["SubscribersTableName"] = "awsmp-subscribers-test-" + stage
		outer["MeteringMode"], outer["StageName"] = "dry-run", stage
	}
	resolve := func(file string, parameters map[string]string) *template.Stack {
		tmpl, err := template.Read("../../deploy/" + file)
		if err != nil {
			t.Fatal(err)
		}
		stack, err := tmpl.Resolve(parameters, template.Place{Account: "111122223333"})
		if err != nil {
			t.Fatal(err)
		}
		return stack
	}
	return s, resolve("metering-stack.yaml", s.Parameters), resolve("events-stack.yaml", outer)
}

// What is looked at is what the templates make, in every mode, under the same names and with the same settings.
func TestNamesAreTheTemplates(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ mode, stage, metering string }{{"full", "", "live"}, {"full", "qa", "dry-run"}, {"direct-submit", "", "live"}, {"direct-submit", "qa", "dry-run"}} {
		t.Run(tt.mode+" "+tt.stage+" "+tt.metering, func(t *testing.T) {
			t.Parallel()
			s, here, events := deployed(t, tt.mode, tt.stage, tt.metering)
			both := func(kind, property string) (all []string) {
				for _, of := range []*template.Stack{here, events} {
					for _, r := range of.OfType(kind) {
						all = append(all, r.Text(property))
					}
				}
				return all
			}
			same := func(what string, got, want []string) {
				t.Helper()
				slices.Sort(got)
				slices.Sort(want)
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-template +code):\n%s", what, diff)
				}
			}
			var names []string
			for _, q := range in(s, queues(), func(q queue) where { return q.in }) {
				names = append(names, s.named(q.name, q.in))
			}
			same("queues", names, both("AWS::SQS::Queue", "QueueName"))
			names = nil
			for _, a := range in(s, alarms(), func(a alarm) where { return a.in }) {
				names = append(names, s.named(a.name, a.in))
			}
			same("alarms", names, both("AWS::CloudWatch::Alarm", "AlarmName"))
			names = nil
			var logs []string
			for _, f := range s.functions() {
				names, logs = append(names, s.named(f.name, f.in)), append(logs, s.logsOf(f))
			}
			same("functions", names, both("AWS::Lambda::Function", "FunctionName"))
			same("logs", logs, slices.DeleteFunc(both("AWS::Logs::LogGroup", "LogGroupName"), func(name string) bool { return strings.HasPrefix(name, "/aws/apigateway/") }))
			same("schedule", []string{s.named("deprovision-cleanup", outside)}, both("AWS::Scheduler::Schedule", "Name"))
			same("rules", s.rulesInWords(), templateRules(here, events))
			same("mappings", s.mappingsInWords(), templateMappings(here, events))
			for _, f := range s.functions() {
				if f.reserves != "" && s.parameterOf(t, f.reserves) == "" {
					t.Errorf("%s reserves by %s, which is no parameter", f.name, f.reserves)
				}
			}
			if got, want := s.subscribersTable(), events.Resources["SubscribersTable"].Text("TableName"); got != want {
				t.Errorf("subscribers table %s, in the template %s", got, want)
			}
		})
	}
}

func (s *Stack) parameterOf(t *testing.T, name string) string {
	tmpl, err := template.Read("../../deploy/metering-stack.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return tmpl.Parameters[name].Name
}

// rulesInWords are the rules with their targets as the fixes make them, but for that of invented events, which nothing rests on.
func (s *Stack) rulesInWords() (all []string) {
	for _, r := range in(s, rules(), func(r rule) where { return r.in }) {
		for _, t := range r.targets {
			all = append(all, fmt.Sprint(s.named(r.name, r.in), " ", r.cron, " ", t.id, " ", s.targetARN(r, t), " ", t.input))
		}
	}
	return all
}

func templateRules(stacks ...*template.Stack) (all []string) {
	for _, of := range stacks {
		for _, r := range of.OfType("AWS::Events::Rule") {
			if r.ID == "TestEvents" {
				continue
			}
			targets, _ := r.Get("Targets").([]any)
			for i := range targets {
				at := func(name string) string { return r.Text("Targets", strconv.Itoa(i), name) }
				all = append(all, fmt.Sprint(r.Text("Name"), " ", r.Text("ScheduleExpression"), " ", at("Id"), " ", at("Arn"), " ", at("Input")))
			}
		}
	}
	return all
}

func (s *Stack) mappingsInWords() (all []string) {
	for _, f := range s.functions() {
		for _, from := range f.from {
			all = append(all, fmt.Sprint(s.named(f.name, f.in), " ", s.arn("sqs", f.in, s.named(from.queue, f.in)), " ", from.batch, " ", s.concurrency(from)))
		}
	}
	return all
}

func templateMappings(stacks ...*template.Stack) (all []string) {
	for _, of := range stacks {
		for _, r := range of.OfType("AWS::Lambda::EventSourceMapping") {
			n := fmt.Sprint(r.Get("ScalingConfig", "MaximumConcurrency"))
			all = append(all, fmt.Sprint(r.Text("FunctionName"), " ", r.Text("EventSourceArn"), " ", r.Get("BatchSize"), " ", n))
		}
	}
	return all
}

// The alarms stand in the order in which the runbook lists them, and every finding has an entry there.
func TestAlarmsAreTheRunbooks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, line := range regexp.MustCompile(`(?m)^\| \[([a-z-]+)\]\(#`).FindAllStringSubmatch(string(page), -1) {
		want = append(want, line[1])
	}
	for _, a := range alarms() {
		got = append(got, a.name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("alarms (-runbook +code):\n%s", diff)
	}
	var used []string
	for _, q := range queues() {
		used = append(used, q.alarm)
	}
	for _, f := range functions() {
		used = append(used, f.alarm)
	}
	for _, r := range rules() {
		used = append(used, r.alarm)
	}
	for _, name := range used {
		if !slices.Contains(want, name) {
			t.Errorf("the runbook has no entry %s", name)
		}
	}
}

// Every metric of package metering is counted, but for those of events, which bear no product code.
func TestEveryMetricIsCounted(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "../metering/port.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.ValueSpec)
		if is && fmt.Sprint(spec.Type) == "Metric" {
			name, _ := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			want[name] = true
		}
		return true
	})
	for _, ofEvents := range []metering.Metric{metering.MetricEventIgnored, metering.MetricEventFailed, metering.MetricAgreementUnknown, metering.MetricTestEventRefused} {
		delete(want, string(ofEvents))
	}
	got := map[string]bool{}
	for _, m := range counted() {
		got[string(m)] = true
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" || len(want) < 20 {
		t.Errorf("metrics (-metering +counted):\n%s", diff)
	}
}

// The numbers that are told of a run are in its report, under these names.
func TestWordsAreOfReports(t *testing.T) {
	t.Parallel()
	batch, err := os.ReadFile("../functions/stages.go")
	if err != nil {
		t.Fatal(err)
	}
	members := func(report any) (names []string) {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(report)) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
		return names
	}
	reports := map[string][]string{
		"discoverer": members(pipeline.Discovery{}), "submitter": members(pipeline.Submission{}), "submission-expiry": members(pipeline.Expiry{}),
		"deprovision-cleanup": members(lifecycle.Finalized{}),
	}
	for _, f := range functions() {
		for _, p := range f.says {
			known := slices.Contains(reports[f.name], p.field)
			if len(f.from) > 0 { // a batch
				known = strings.Contains(string(batch), "`json:\""+p.field+"\"`")
			}
			if !known {
				t.Errorf("%s reports no %s", f.name, p.field)
			}
		}
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]map[string]string{
		`time=2026-03-10T14:05:01.123Z level=INFO msg="run ended" input="{\"mode\":\"meter\"}" took=90ms`: {"time": "2026-03-10T14:05:01.123Z", "level": "INFO", "msg": "run ended", "input": `{"mode":"meter"}`, "took": "90ms"},
		`a=1`:                         {"a": "1"},
		`a= b=2`:                      {"a": "", "b": "2"},
		`a="" b="x y" c`:              {"a": "", "b": "x y"},
		`Task timed out after 3 s`:    {},
		`REPORT RequestId: 1 a=b`:     {},
		`msg="unfinished`:             {"msg": `"unfinished`},
		"":                            {},
		`{"UsageBilled":1,"x":"a=b"}`: {},
	} {
		if diff := cmp.Diff(want, fields(line)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
}

// A fix that is JSON within quotes is JSON.
func TestTargetsAreJSON(t *testing.T) {
	t.Parallel()
	s, _, _ := deployed(t, "full", "", "live")
	for _, r := range rules() {
		_, list, _ := strings.Cut(s.putTargets(r, r.targets), " --targets '")
		var targets []struct{ ID, Arn, Input string }
		if err := json.Unmarshal([]byte(strings.TrimSuffix(list, "'")), &targets); err != nil || len(targets) != len(r.targets) {
			t.Errorf("%s: %v in %s", r.name, err, list)
		}
	}
}
