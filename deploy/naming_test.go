package deploy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/template"
)

// naming is how resources of a type are named: the property, and the longest name that AWS takes, in characters (the type's page in the
// CloudFormation template reference, or the service's CreateX in its API reference).
type naming struct {
	property string
	longest  int
}

func namings() map[string]naming {
	return map[string]naming{
		tableType:                    {"TableName", 255},
		queueType:                    {"QueueName", 80},
		lambdaType:                   {"FunctionName", 64},
		ruleType:                     {"Name", 64},
		scheduleType:                 {"Name", 64},
		"AWS::Logs::LogGroup":        {"LogGroupName", 512},
		"AWS::CloudWatch::Alarm":     {"AlarmName", 255},
		"AWS::CloudWatch::Dashboard": {"DashboardName", 255},
		"AWS::ApiGateway::RestApi":   {"Name", 1024},
		"AWS::WAFv2::WebACL":         {"Name", 128},
	}
}

// withoutName are the types whose resources have no name of ours: they are part of another one, or CloudFormation makes the name. Those of IAM are one
// set for all Regions of an account, so that a name of ours would keep the second Region's stack from being made.
func withoutName() map[string][]string {
	return map[string][]string{
		"AWS::IAM::Role": {"RoleName"}, "AWS::IAM::ManagedPolicy": {"ManagedPolicyName"},
		"AWS::ApiGateway::Account": nil, "AWS::ApiGateway::Deployment": nil, "AWS::ApiGateway::GatewayResponse": nil, "AWS::ApiGateway::Method": nil,
		"AWS::ApiGateway::Resource": nil, "AWS::ApiGateway::Stage": nil, "AWS::Lambda::EventInvokeConfig": nil, mappingType: nil,
		"AWS::Lambda::Permission": nil, "AWS::SQS::QueuePolicy": nil, "AWS::WAFv2::WebACLAssociation": nil,
	}
}

// accountWide are the types whose names are an account's, whatever the Region.
func accountWide(resourceType string) bool { return resourceType == "AWS::CloudWatch::Dashboard" }

// namesIn are the names of a stack, by type and name, with the logical ID.
func namesIn(s *template.Stack) map[string]string {
	found := map[string]string{}
	for id, r := range s.Resources {
		if n, ok := namings()[r.Type]; ok {
			found[r.Type+" "+r.Text(n.property)] = id
		}
	}
	return found
}

// checkNames: every name says what it belongs to, so that no other stack can have the same.
func checkNames(s *template.Stack) (wrong []string) {
	head, tail := "awsmp-", ""
	if code, ofProduct := s.Parameters["ProductCode"]; ofProduct {
		head += code + "-"
	} else if s.Parameters["MeteringMode"] == "dry-run" {
		tail = "-test-" + s.Parameters["StageName"]
	}
	for id, r := range s.Resources {
		forbidden, unnamed := withoutName()[r.Type]
		for _, property := range forbidden {
			if r.Get(property) != nil {
				wrong = append(wrong, fmt.Sprintf("%s has a %s, which a second Region's stack would share", id, property))
			}
		}
		n, named := namings()[r.Type]
		if !named {
			if !unnamed {
				wrong = append(wrong, fmt.Sprintf("%s: how is a %s named?", id, r.Type))
			}
			continue
		}
		name := r.Text(n.property)
		if utf8.RuneCountInString(name) > n.longest {
			wrong = append(wrong, fmt.Sprintf("%s: %q is longer than %d", id, name, n.longest))
		}
		if r.Type == "AWS::Logs::LogGroup" {
			_, name, _ = strings.Cut(strings.TrimPrefix(name, "/aws/"), "/")
			if !strings.HasPrefix(r.Text(n.property), "/aws/lambda/") && !strings.HasPrefix(r.Text(n.property), "/aws/apigateway/") {
				name = r.Text(n.property)
			}
		}
		if own, ok := strings.CutPrefix(name, head); !ok || own == "" || !strings.HasSuffix(own, tail) || own == tail {
			wrong = append(wrong, fmt.Sprintf("%s: %q is not %s…%s", id, name, head, tail))
		}
		if tail == "" && lifecycle.AnyTestTable(name) {
			wrong = append(wrong, fmt.Sprintf("%s: %q looks like a test stage's", id, name))
		}
	}
	return wrong
}

func TestNamesSayWhatTheyBelongTo(t *testing.T) {
	t.Parallel()
	upholds(t, checkNames,
		fault{"full live", "WorkQueue", "awsmp-${ProductCode}-work", "awsmp-work", `WorkQueue: "awsmp-work" is not`},
		fault{"full live", "WorkQueue", "      QueueName: !Sub awsmp-${ProductCode}-work\n", "", `WorkQueue: "" is not`},
		fault{"full live", "DiscovererLogs", "/aws/lambda/awsmp-${ProductCode}-discoverer", "/aws/lambda/discoverer", `"discoverer" is not`},
		fault{"full live", "DiscovererLogs", "/aws/lambda/awsmp", "/awsmp", "is not awsmp-exampleproduct-"},
		fault{"direct-submit live", "SubmitterRole", "    Properties:\n", "    Properties:\n      RoleName: submitter\n", "has a RoleName"},
		fault{"full live", "UsageWriterPolicy", "    Properties:\n", "    Properties:\n      ManagedPolicyName: writer\n", "has a ManagedPolicyName"},
		fault{"events test stage", "EventsQueue", "!If [TestStage, !Sub 'awsmp-events-test-${StageName}', awsmp-events]", "awsmp-events", `"awsmp-events" is not`},
		fault{"events live", "SubscribersTable", "awsmp-subscribers]", "awsmp-subscribers-test-live]", "looks like a test stage's"},
		fault{"full live", "DiscovererInvocations", "AWS::Lambda::EventInvokeConfig", "AWS::SNS::Topic", "how is a AWS::SNS::Topic named"},
	)
	// At the longest product code and stage that the templates take, all names still fit.
	code, stage := strings.Repeat("x", 36), strings.Repeat("q", 31)
	for _, name := range []string{"full live", "events test stage"} {
		d := deploymentNamed(t, name)
		parameters := map[string]string{"StageName": stage}
		if d.file == meteringTemplate {
			parameters["ProductCode"] = code
		}
		for _, problem := range checkNames(d.with(t, parameters)) {
			t.Errorf("%s: %s", name, problem)
		}
	}
	for _, long := range []fault{
		{"full live", "SubmissionExpiryFunction", "-submission-expiry\n", "-submission-expiry-of-records\n", "SubmissionExpiryFunction"},
		{"full live", "MeterRule1", "-meter-1", "-meters-of-the-first-slices", "MeterRule1"},
		{"full live", "DeprovisionWorkDeadLetters", "-deprovision-work-dlq", "-dead-letters-of-groups-of-deprovision-work", "DeprovisionWorkDeadLetters"},
	} {
		s := long.stack(t, map[string]string{"ProductCode": code})
		if problems := checkNames(s); !slices.ContainsFunc(problems, func(p string) bool {
			return strings.HasPrefix(p, long.says+": ") && strings.Contains(p, "is longer than")
		}) {
			t.Errorf("%s is not found too long: %q", long.at, problems)
		}
	}
}

// sharedNames are those that two stacks have in common, of the types asked for.
func sharedNames(a, b *template.Stack, of func(resourceType string) bool) (both []string) {
	others := namesIn(b)
	for key, id := range namesIn(a) {
		if _, there := others[key]; there && of(a.Resources[id].Type) {
			both = append(both, fmt.Sprintf("%s: %s", id, key))
		}
	}
	return both
}

func ofAnyType(string) bool { return true }

// TestStacksShareNoName: two products in a Region, one product in two Regions, the events stack and test stages beside it can all be deployed into one account.
func TestStacksShareNoName(t *testing.T) {
	t.Parallel()
	metering, events := deploymentNamed(t, "full live"), deploymentNamed(t, "events live")
	one, live := metering.whole(t), events.whole(t)
	inRegion := func(d deployment, region string) *template.Stack {
		s, err := d.template(t).Resolve(d.all(nil), template.Place{Region: region})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	stage := func(name string) *template.Stack {
		return deploymentNamed(t, "events test stage").with(t, map[string]string{"StageName": name})
	}
	for _, test := range []struct {
		what string
		a, b *template.Stack
		of   func(string) bool
	}{
		{"two products", one, metering.with(t, map[string]string{"ProductCode": "otherproduct"}), ofAnyType},
		{"a product whose code begins like another's", one, metering.with(t, map[string]string{"ProductCode": product + "2"}), ofAnyType},
		{"two Regions", one, inRegion(metering, "eu-central-1"), accountWide},
		{"events live and a test stage", live, stage("qa"), ofAnyType},
		{"two test stages", stage("qa"), stage("qa-2"), ofAnyType},
		{"events and metering", live, one, ofAnyType},
		{"a test stage and metering", stage(product), one, ofAnyType},
	} {
		if both := sharedNames(test.a, test.b, test.of); len(both) > 0 {
			t.Errorf("%s share %q", test.what, both)
		}
		if len(namesIn(test.a)) < 10 || len(sharedNames(test.a, test.a, test.of)) == 0 {
			t.Errorf("%s: there is nothing that could be shared", test.what)
		}
	}
	broken := fault{in: "full live", at: "Dashboard", old: "${ProductCode}-${AWS::Region}", new: "${ProductCode}-metering"}
	if both := sharedNames(broken.stack(t, nil), broken.stack(t, nil), accountWide); len(both) != 1 {
		t.Errorf("a dashboard without a Region is not found: %q", both)
	}
}

// TestTestStagesAreTheCodes: what a stage's stack is named and listens to is what awsmp events send writes to, and nothing live reads it.
func TestTestStagesAreTheCodes(t *testing.T) {
	t.Parallel()
	for _, stage := range []string{"q", "qa", strings.Repeat("q", 31)} {
		if !lifecycle.ValidStage(stage) {
			t.Fatalf("%q is no stage", stage)
		}
		s := deploymentNamed(t, "events test stage").with(t, map[string]string{"StageName": stage})
		table := s.Resources["SubscribersTable"].Text("TableName")
		if !lifecycle.TestTable(table, stage) || !lifecycle.AnyTestTable(table) {
			t.Errorf("%q is no table of stage %s", table, stage)
		}
		if name := handled(s, functions.Subscription).Text("FunctionName"); name != lifecycle.TestFunction(stage) {
			t.Errorf("the function is %q, want %q", name, lifecycle.TestFunction(stage))
		}
		if sources := eventSources(s); !slices.Equal(sources, []string{lifecycle.Source, lifecycle.TestSource(stage)}) {
			t.Errorf("stage %s listens to %q", stage, sources)
		}
		refused := 0
		for _, d := range deployments() {
			if d.parameters["MeteringMode"] == "dry-run" {
				continue
			}
			live := d.whole(t)
			if sources := eventSources(live); d.file == eventsTemplate && !slices.Equal(sources, []string{lifecycle.Source}) {
				t.Errorf("%s listens to %q", d.name, sources)
			}
			for id, f := range readersOf(live, "SUBSCRIBERS_TABLE") {
				if f.Handler == functions.DeprovisionCleanup {
					continue // it has no mode: it ends last hours of the table that its own stack has
				}
				refused++
				if _, err := f.Read(getenvOf(environmentOf(live.Resources[id], "us-east-1"), map[string]string{"SUBSCRIBERS_TABLE": table})); err == nil {
					t.Errorf("%s of %s takes %q", id, d.name, table)
				}
			}
		}
		if refused != 1+3+2 {
			t.Errorf("%d live functions were asked", refused)
		}
	}
}

// eventSources are the sources that a stack listens to.
func eventSources(s *template.Stack) []string {
	var sources []string
	for _, rule := range s.OfType(ruleType) {
		sources = append(sources, oneOrMore(rule.Get("EventPattern", "source"))...)
	}
	return slices.Sorted(slices.Values(sources))
}
