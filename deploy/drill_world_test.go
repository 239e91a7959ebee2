package deploy_test

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	dynamosdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	sqssdk "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/lambdahost"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/stack/stacktest"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/internal/template"
	"github.com/awsmp/metering/simulator"
)

// drill is a live events stack and a live full pipeline in moto, with everything that AWS does around them: schedules, queues, permissions, concurrency,
// metrics and alarms. In contrast to the driver of TestDeployed it looks again and again at what stands in moto, since in a drill somebody breaks it,
// and somebody puts it right.
type drill struct {
	*driver
	deployed stacktest.Deployed
	console  *console
	alarms   []template.Resource // of both stacks, as they are now
	tools    string              // folder with the program awsmp
	hour     metering.Hour       // the last complete one when the drill began
	dynamo   *dynamosdk.Client
	store    *dynamodb.Ledger

	sources      map[string]*drillSource // by the queue's ARN
	environments map[string]string       // of functions, by ARN
	last         map[string]drillRun     // the last real run of each target
	metered      map[string]bool         // licenses with usage
	elsewhere    int64                   // units that another program sold
	proven       map[string][]string     // the steps that each alarm has gone through
	heard        map[*driven]int         // bytes of a log that the console has
	silent       map[string]bool         // functions whose lines did not arrive the last time
	held         map[string]int          // visible messages, by the queue's name
	since        map[string]time.Time    // since when a queue has not been empty, on the console's clock

	mu        sync.Mutex
	allowed   map[string][]statement // by the function's name
	throttled map[string]bool        // functions that Lambda does not start
	trouble   map[string]func(standin.Call) standin.Action
}

// drillRun is a run of a target, or that there was none.
type drillRun struct {
	of                string // function
	at                time.Time
	failed, throttled bool
}

const (
	drillProduct = "example-drill"
	drillAccount = "777788889999"
	drillTopic   = "arn:aws:sns:" + standin.Region + ":" + drillAccount + ":alerts"
	drillLength  = 48 * time.Hour // of the console's clock, which ends at the real time at the latest
)

// newDrill deploys both stacks and builds the functions and the program.
func newDrill(t *testing.T, options simulator.Options) *drill {
	t.Helper()
	if _, err := exec.LookPath("aws"); err != nil {
		newCloud(t) // says what to install
	}
	parameters := defaultsOf(meteringTemplate) // all are given: moto knows no previous value of others
	delete(parameters, "ProductCode")
	parameters["AlertsTopicArn"] = drillTopic
	deployed := stacktest.Deploy(t, stacktest.Options{ProductCode: drillProduct, Account: drillAccount, Parameters: parameters})
	options.ProductCode = drillProduct
	sim, err := simulator.New(options)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	c := cloud{deployed.Endpoint}
	d := &drill{
		driver: &driver{
			t: t, cloud: c, binary: lambdahost.Build(t, "../cmd/bootstrap"), sim: sim, simURL: server.URL, sqs: sqssdk.NewFromConfig(standin.Config(c.endpoint)), functions: map[string]*driven{},
		},
		deployed: deployed, console: newConsole(t, c, time.Now().Add(-drillLength).Truncate(time.Hour)), tools: t.TempDir(), hour: metering.HourOf(time.Now()) - 1, dynamo: dynamosdk.NewFromConfig(standin.Config(c.endpoint)),
		sources: map[string]*drillSource{}, environments: map[string]string{}, last: map[string]drillRun{}, heard: map[*driven]int{}, proven: map[string][]string{}, metered: map[string]bool{}, silent: map[string]bool{},
		held: map[string]int{}, since: map[string]time.Time{}, trouble: map[string]func(standin.Call) standin.Action{},
	}
	if out, err := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(d.tools, "awsmp"), "../cmd/awsmp").CombinedOutput(); err != nil {
		t.Fatalf("build awsmp: %v\n%s", err, out)
	}
	d.store = &dynamodb.Ledger{
		Rows: dynamodb.NewRows(d.dynamo, d.name("usage"), dynamodb.Options{}), Records: dynamodb.NewRecords(d.dynamo, d.name("aggregated-usage"), dynamodb.Options{}),
	}
	d.policies(deployed.Events)
	d.tells()
	d.calm()
	return d
}

// name is that of a thing of the metering stack.
func (d *drill) name(thing string) string { return "awsmp-" + drillProduct + "-" + thing }

// look reads what stands in moto: which rules and schedules fire, which mappings take messages, what roles allow and which functions have no room.
func (d *drill) look() {
	d.t.Helper()
	d.settings()
	d.firings = nil
	listed, err := d.cloud.call("events", "AWSEvents.ListRules", map[string]any{})
	d.must(err)
	for _, rule := range listed.list("Rules") {
		if rule.text("ScheduleExpression") == "" || rule.text("State") != "ENABLED" {
			continue
		}
		targets, err := d.cloud.call("events", "AWSEvents.ListTargetsByRule", map[string]any{"Rule": rule.text("Name")})
		d.must(err)
		for _, target := range targets.list("Targets") {
			d.fires(rule.text("Arn"), target.text("Id"), target.text("Arn"), target.text("Input"), rule.text("ScheduleExpression"))
		}
	}
	for _, r := range d.deployed.Events.OfType(scheduleType) {
		schedule, err := d.cloud.fetch("scheduler", "/schedules/"+r.Text("Name"))
		if err == nil && schedule.text("State") == "ENABLED" {
			d.fires(r.ID, r.ID, schedule.text("Target", "Arn"), schedule.text("Target", "Input"), schedule.text("ScheduleExpression"))
		}
	}
	allowed, throttled := map[string][]statement{}, map[string]bool{}
	for _, s := range []*template.Stack{d.deployed.Events, d.deployed.Stack} {
		for _, r := range s.OfType(lambdaType) {
			name := r.Text("FunctionName")
			configuration, err := d.cloud.fetch("lambda", "/2015-03-31/functions/"+name+"/configuration")
			d.must(err)
			for _, of := range d.statementsOf(configuration.text("Role")).list {
				var s statement
				d.must(json.Unmarshal(of, &s))
				allowed[name] = append(allowed[name], s)
			}
			room, err := d.cloud.fetch("lambda", "/2019-09-30/functions/"+name+"/concurrency")
			d.must(err)
			reserved, limited := room.get("ReservedConcurrentExecutions").(float64)
			throttled[name] = limited && reserved == 0
			d.renew(configuration)
		}
	}
	d.mu.Lock()
	d.allowed, d.throttled = allowed, throttled
	d.mu.Unlock()
	d.connect()
}

func (d *drill) fires(of, name, function, input, expression string) {
	d.t.Helper()
	f := firing{of: of, name: name, function: function, input: input}
	f.minutes = d.minutes(expression)
	d.firings = append(d.firings, f)
}

// renew ends a function's processes where its environment has changed: Lambda starts new ones then.
func (d *drill) renew(configuration motoAnswer) {
	d.t.Helper()
	arn := configuration.text("FunctionArn")
	old, environment := d.functions[arn], fmt.Sprint(levelled(configuration.get("Environment", "Variables")))
	if old != nil && d.environments[arn] == environment {
		return
	}
	if old != nil {
		d.hear(old)
		for queue, s := range d.sources {
			if s.of == old {
				s.end()
				delete(d.sources, queue)
			}
		}
		old.Kill()
		delete(d.functions, arn)
	}
	f := d.function(arn)
	d.environments[arn] = environment
	guard := func(c standin.Call) standin.Action { return d.guard(f.name, c) }
	f.aws.Intercept(guard)
	f.meter.Intercept(guard)
}

// guard stands before each call of a function: what its role does not allow is denied, as AWS does and moto does not, and then comes the scene's trouble.
func (d *drill) guard(function string, c standin.Call) standin.Action {
	d.mu.Lock()
	statements, trouble := d.allowed[function], d.trouble[function]
	d.mu.Unlock()
	resource := resourceOf(c, d.deployed.Account)
	if action := awsapi.Action(c.Service, c.Operation); !allows(statements, action, resource) {
		who := "arn:aws:sts::" + d.deployed.Account + ":assumed-role/" + function
		denied := standin.Exception(400, "AccessDeniedException", fmt.Sprintf("User: %s is not authorized to perform: %s on resource: %s", who, action, resource))
		denied.Header.Set("X-Amz-Crc32", fmt.Sprint(crc32.ChecksumIEEE([]byte(denied.Body))))
		return denied
	}
	if trouble != nil {
		return trouble(c)
	}
	return standin.Action{}
}

// troubles sets what goes wrong before a function; nil ends it.
func (d *drill) troubles(function string, f func(standin.Call) standin.Action) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trouble[function] = f
}

// called is a deployed function by its name.
func (d *drill) called(name string) *driven {
	d.t.Helper()
	for _, f := range d.functions {
		if f.name == name {
			return f
		}
	}
	d.t.Fatalf("no function %s is deployed", name)
	return nil
}
