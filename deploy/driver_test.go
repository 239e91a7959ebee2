package deploy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sqssdk "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/lambdahost"
	"github.com/awsmp/metering/internal/queue/sqs"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/simulator"
)

// atOnce is how many processes of a function the driver runs side by side at most. The stacks allow more; the machines that test them have two cores.
const atOnce = 2

// driver does for deployed stacks what EventBridge, Lambda and API Gateway do: it calls the shipped program under the handlers, with the environments,
// on the schedules and from the queues that the stacks say. All of that it reads from moto, but for schedules of EventBridge Scheduler, which moto
// does not make.
type driver struct {
	t      *testing.T
	cloud  cloud
	binary string
	sim    *simulator.Simulator
	simURL string
	sqs    *sqssdk.Client

	functions map[string]*driven // by ARN
	firings   []firing
	mappings  []*lambdahost.Mapping
	queues    []string // ARNs of those that the mappings receive from
	drained   int      // messages that had been sent when the queues were empty last
	bus       string   // name of the driver's own, with the stacks' rules for events
}

// driven is a deployed function and the proxies before what it calls.
type driven struct {
	*lambdahost.Function
	name       string
	statements []statement // of its role
	aws, meter *standin.Proxy
}

// firing is one target of a rule or a schedule.
type firing struct {
	of       string // ARN of the rule
	name     string // of the target
	function string // ARN
	input    string
	minutes  []int // of an hour
}

func newDriver(t *testing.T, options simulator.Options, stacks ...*standing) *driver {
	t.Helper()
	sim, err := simulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	c := stacks[0].cloud
	d := &driver{t: t, cloud: c, binary: stacks[0].binary, sim: sim, simURL: server.URL, sqs: sqssdk.NewFromConfig(standin.Config(c.endpoint)), functions: map[string]*driven{}}
	d.bus = "driver-of-" + stacks[0].name
	_, err = c.call("events", "AWSEvents.CreateEventBus", map[string]any{"Name": d.bus})
	d.must(err)
	for _, s := range stacks {
		d.schedules(s)
		d.rules(s)
		d.sources(s)
	}
	t.Cleanup(d.close)
	return d
}

// rules reads what the rules of a stack call. Those for events are copied to the driver's bus, where moto itself delivers what they match: on the
// default one it would hand each event to the rules that have a schedule too, and fail.
func (d *driver) rules(s *standing) {
	d.t.Helper()
	listed, err := d.cloud.call("events", "AWSEvents.ListRules", map[string]any{})
	d.must(err)
	for _, rule := range listed.list("Rules") {
		if !s.holds(rule.text("Name")) || rule.text("State") != "ENABLED" {
			continue
		}
		targets, err := d.cloud.call("events", "AWSEvents.ListTargetsByRule", map[string]any{"Rule": rule.text("Name")})
		d.must(err)
		if pattern := rule.text("EventPattern"); pattern != "" {
			_, err = d.cloud.call("events", "AWSEvents.PutRule", map[string]any{"Name": rule.text("Name"), "EventBusName": d.bus, "EventPattern": pattern})
			d.must(err)
			_, err = d.cloud.call("events", "AWSEvents.PutTargets", map[string]any{"Rule": rule.text("Name"), "EventBusName": d.bus, "Targets": targets.get("Targets")})
			d.must(err)
			continue
		}
		for _, target := range targets.list("Targets") {
			f := firing{of: rule.text("Arn"), name: target.text("Id"), function: target.text("Arn"), input: target.text("Input"), minutes: d.minutes(rule.text("ScheduleExpression"))}
			if !d.admits(f) {
				d.t.Errorf("%s does not let %s call it", f.function, f.of)
				continue
			}
			d.firings = append(d.firings, f)
		}
	}
}

// schedules reads those of EventBridge Scheduler from the template. Its role has to be allowed to call the function, as moto holds it.
func (d *driver) schedules(s *standing) {
	d.t.Helper()
	for _, r := range s.stack.OfType("AWS::Scheduler::Schedule") {
		f := firing{
			of: r.ID, name: r.ID, function: r.Text("Target", "Arn"), input: r.Text("Target", "Input"), minutes: d.minutes(r.Text("ScheduleExpression")),
		}
		may, err := roleStatements(d.cloud, r.Text("Target", "RoleArn"))
		d.must(err)
		if !allows(may, "lambda:InvokeFunction", f.function) {
			d.t.Errorf("the role of %s may not call %s", f.of, f.function)
			continue
		}
		d.firings = append(d.firings, f)
	}
}

// admits reports whether the target's function lets the rule call it.
func (d *driver) admits(f firing) bool {
	d.t.Helper()
	out, err := d.cloud.fetch("lambda", "/2015-03-31/functions/"+lastPart(f.function)+"/policy")
	d.must(err)
	policy, err := jsonWithin(out.text("Policy"))
	d.must(err)
	return slices.ContainsFunc(motoAnswer(policy.(map[string]any)).list("Statement"), func(s motoAnswer) bool {
		return s.text("Effect") == "Allow" && s.text("Action") == "lambda:InvokeFunction" && s.text("Principal", "Service") == "events.amazonaws.com" &&
			s.text("Condition", "ArnLike", "AWS:SourceArn") == f.of && s.text("Resource") == f.function
	})
}

// minutes are those of every hour at which a schedule is due.
func (d *driver) minutes(expression string) (list []int) {
	d.t.Helper()
	due, err := cronMinutes(expression)
	d.must(err)
	for _, at := range due {
		if at.Hour() == 0 {
			list = append(list, at.Minute())
		}
	}
	if len(due) != 24*len(list) {
		d.t.Fatalf("%s is not due at the same minutes of each hour", expression)
	}
	return list
}

// sources starts the event source mappings of a stack's functions, in place of moto's own: those would call the functions in containers.
func (d *driver) sources(s *standing) {
	d.t.Helper()
	listed, err := d.cloud.fetch("lambda", "/2015-03-31/event-source-mappings/")
	d.must(err)
	for _, m := range listed.list("EventSourceMappings") {
		if !s.holds(lastPart(m.text("FunctionArn"))) || m.text("State") != "Enabled" {
			continue
		}
		if kinds := m.get("FunctionResponseTypes"); fmt.Sprint(kinds) != "[ReportBatchItemFailures]" {
			d.t.Fatalf("the mapping of %s reports %v, and the functions name the messages that failed", m.text("EventSourceArn"), kinds)
		}
		_, err := d.cloud.send("lambda", http.MethodPut, "/2015-03-31/event-source-mappings/"+m.text("UUID"), "application/json", "", `{"Enabled":false}`)
		d.must(err)
		source, f := m.text("EventSourceArn"), d.function(m.text("FunctionArn"))
		for _, action := range []string{"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"} { // Lambda's own, under the function's role
			if !allows(f.statements, action, source) {
				d.t.Errorf("the role of %s does not allow %s on %s", f.name, action, source)
			}
		}
		d.queues = append(d.queues, source)
		d.mappings = append(d.mappings, lambdahost.Map(d.t, f.Function, lambdahost.Source{
			Queue: sqs.New(d.sqs, d.address(source)), QueueName: lastPart(source), Batch: number(m.get("BatchSize")),
			Concurrency: min(atOnce, number(m.get("ScalingConfig", "MaximumConcurrency"))), Idle: 250 * time.Millisecond,
		}))
	}
}

// function makes a deployed function run here; its first use does.
func (d *driver) function(arn string) *driven {
	d.t.Helper()
	if f := d.functions[arn]; f != nil {
		return f
	}
	name := lastPart(arn)
	out, err := d.cloud.fetch("lambda", "/2015-03-31/functions/"+name+"/configuration")
	d.must(err)
	f := &driven{name: name, aws: standin.NewProxy(d.t, d.cloud.endpoint), meter: standin.NewProxy(d.t, d.simURL)}
	f.statements, err = roleStatements(d.cloud, out.text("Role"))
	d.must(err)
	env := []string{"AWS_ENDPOINT_URL=" + f.aws.URL, "AWS_ENDPOINT_URL_MARKETPLACE_METERING=" + f.meter.URL}
	variables, _ := out.get("Environment", "Variables").(map[string]any)
	for variable, value := range variables {
		env = append(env, fmt.Sprint(variable, "=", levelled(value)))
	}
	f.Function = lambdahost.Start(d.t, lambdahost.Options{
		Binary: d.binary, Handler: out.text("Handler"), Name: name, Env: env, Timeout: time.Duration(number(out.get("Timeout"))) * time.Second,
		MemoryMB: number(out.get("MemorySize")), Concurrency: atOnce,
	})
	d.functions[arn] = f
	return f
}

// quarter is the length of the pipeline's round, in minutes.
const quarter = 15

// pass lets minutes of an hour pass, from its start: all that is due at once is called at once, and a minute is long enough for the queues to run
// dry. The functions' clock is the real one, which has hardly moved when they are over.
func (d *driver) pass(minutes int) {
	d.t.Helper()
	for minute := range minutes {
		var all sync.WaitGroup
		for _, f := range d.firings {
			if slices.Contains(f.minutes, minute) {
				function := d.function(f.function)
				all.Go(func() {
					if _, err := function.Invoke(d.t.Context(), []byte(f.input)); err != nil {
						d.t.Errorf("at minute %d, target %s of %s: %v", minute, f.name, f.of, err)
					}
				})
			}
		}
		all.Wait()
		if sent := d.calls("SendMessage") + d.calls("SendMessageBatch"); sent > d.drained {
			d.settle()
			d.drained = d.calls("SendMessage") + d.calls("SendMessageBatch")
		}
	}
}

// settle waits until the queues are empty. Two looks are enough: messages are handled long before they would be seen again, and no message leads to a
// second one that leads to a third.
func (d *driver) settle() {
	d.t.Helper()
	lambdahost.Drain(d.t, time.Minute, func() string {
		for _, arn := range d.queues {
			out, err := d.cloud.call("sqs", "AmazonSQS.GetQueueAttributes", map[string]any{"QueueUrl": d.address(arn), "AttributeNames": []string{"All"}})
			d.must(err)
			waiting, underWay := out.text("Attributes", "ApproximateNumberOfMessages"), out.text("Attributes", "ApproximateNumberOfMessagesNotVisible")
			if waiting != "0" || underWay != "0" {
				return fmt.Sprintf("%s holds %s messages, and %s are under way", arn, waiting, underWay)
			}
		}
		return ""
	})
	for _, m := range d.mappings {
		if tally := m.Tally(); tally.Failures > 0 || tally.Returned > 0 {
			d.t.Errorf("a mapping: %+v, want no failure", tally)
		}
	}
}

// calls counts the calls of an operation that the functions made.
func (d *driver) calls(operation string) (n int) {
	for _, f := range d.functions {
		n += f.aws.Count(operation, "") + f.meter.Count(operation, "")
	}
	return n
}

// close holds what the functions called against their roles (F48), and that CloudWatch takes what they print, which it does under the same role.
func (d *driver) close() {
	for _, f := range d.functions {
		for _, problem := range forbidden(f, f.statements) {
			d.t.Error(problem)
		}
		group := "arn:aws:logs:" + standin.Region + ":" + motoAccount + ":log-group:/aws/lambda/" + f.name
		for _, action := range []string{"logs:CreateLogStream", "logs:PutLogEvents"} {
			if !allows(f.statements, action, group) {
				d.t.Errorf("the role of %s does not allow %s on %s", f.name, action, group)
			}
		}
		if len(f.aws.Calls())+len(f.meter.Calls()) == 0 {
			d.t.Errorf("%s called nothing, so its role was not tried", f.name)
		}
	}
}

// address is where moto serves a queue.
func (d *driver) address(arn string) string {
	return d.cloud.endpoint + "/" + motoAccount + "/" + lastPart(arn)
}

func (d *driver) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// holds reports whether a physical ID is one of the stack's.
func (s *standing) holds(physical string) bool {
	for _, id := range s.made {
		if id == physical {
			return true
		}
	}
	return false
}

func number(v any) int {
	n, _ := v.(float64)
	return int(n)
}

// statement is one of a policy.
type statement struct {
	Effect           string
	Action, Resource texts
}

// texts is a text or a list of them.
type texts []string

func (l *texts) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*l = texts{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(l))
}

// roleStatements are those of the policies that stand in a role.
func roleStatements(c cloud, arn string) (all []statement, err error) {
	policies, err := rolePolicies(c, arn[strings.LastIndexByte(arn, '/')+1:])
	if err != nil {
		return nil, err
	}
	for _, p := range policies {
		text, err := json.Marshal(p)
		if err != nil {
			return nil, err
		}
		var policy struct {
			PolicyDocument struct{ Statement []statement }
		}
		if err := json.Unmarshal(text, &policy); err != nil {
			return nil, err
		}
		all = append(all, policy.PolicyDocument.Statement...)
	}
	return all, nil
}

// allows reports whether an action on a resource is allowed. There are no patterns in the roles, and * alone is a resource.
func allows(list []statement, action, resource string) bool {
	return slices.ContainsFunc(list, func(s statement) bool {
		return s.Effect == "Allow" && slices.Contains(s.Action, action) && (slices.Contains(s.Resource, resource) || slices.Contains(s.Resource, "*"))
	})
}

// resourceOf is what a call is about, as a policy names it; empty where it has no name.
func resourceOf(c standin.Call, account string) string {
	here := ":" + standin.Region + ":" + account + ":"
	switch c.Service {
	case "dynamodb":
		table, index, indexed := strings.Cut(c.Resource, "/")
		arn := "arn:aws:dynamodb" + here + "table/" + table
		if indexed {
			arn += "/index/" + index
		}
		return arn
	case "sqs":
		return "arn:aws:sqs" + here + c.Resource
	}
	return ""
}

// forbidden are the calls of a function that statements do not allow.
func forbidden(f *driven, statements []statement) (problems []string) {
	for _, call := range append(f.aws.Calls(), f.meter.Calls()...) {
		resource := resourceOf(call, motoAccount)
		if action := awsapi.Action(call.Service, call.Operation); !allows(statements, action, resource) {
			problem := fmt.Sprintf("%s calls %s on %q, which its role does not allow", f.name, action, resource)
			if !slices.Contains(problems, problem) {
				problems = append(problems, problem)
			}
		}
	}
	return problems
}
