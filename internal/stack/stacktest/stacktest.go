// Package stacktest deploys the stacks of deploy/ into moto, for the tests of what an operator sees and does on AWS.
package stacktest

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/template"
)

// EventsStack is the name of the events stack where it is no test stage.
const EventsStack = "awsmp-events-stack"

// Options say what is deployed. The zero value is a live full pipeline in us-east-1, with its events stack.
type Options struct {
	ProductCode string            // empty: one of its own
	Region      string            // of the metering stack; empty: us-east-1
	Parameters  map[string]string // of the metering stack beyond ProductCode: MeteringMode, DeploymentMode, Submission, …
	Events      map[string]string // parameters of the events stack
	Stage       string            // not empty: the events stack is a test stage of this name, and the metering stack reads its table
	NoEvents    bool              // there is no events stack
	NoMetering  bool              // there is no metering stack
	Account     string            // empty: one of its own. Stacks of several deployments in one account see each other.
}

// Deployed is what stands in moto.
type Deployed struct {
	Endpoint    string // serves all of one account
	Account     string
	StackName   string // of the metering stack
	EventsStack string // of the events stack
	ProductCode string
	Region      string
	Stack       *template.Stack // what the template makes of the parameters; names that CloudFormation invents are invented otherwise
	Events      *template.Stack
}

// Deploy deploys into moto. The account ends with the test's process; what is in it is seen under Endpoint alone.
//
// moto makes no alarms and no schedules of EventBridge Scheduler from a template, and gets a function's reserved concurrency wrong (docs/stand-ins.md): Deploy
// makes them by their own APIs, as the template has them. The functions hold no program.
func Deploy(t testing.TB, o Options) Deployed {
	t.Helper()
	d := Deployed{
		Account: cmp.Or(o.Account, fmt.Sprintf("%012d", 100_000_000_000+rand.Int64N(899_999_999_999))), Region: cmp.Or(o.Region, standin.Region),
		ProductCode: cmp.Or(o.ProductCode, fmt.Sprintf("example-%08x", rand.Uint32())),
	}
	d.Endpoint = serve(t, d.Account)
	d.StackName = "awsmp-" + d.ProductCode + "-metering"
	metering, events := map[string]string{}, map[string]string{}
	maps.Copy(metering, o.Parameters)
	maps.Copy(events, o.Events)
	metering["ProductCode"], d.EventsStack = d.ProductCode, EventsStack
	if o.Stage != "" {
		d.EventsStack = "awsmp-events-test-" + o.Stage
		metering["SubscribersTableName"] = "awsmp-subscribers-test-" + o.Stage
		events["MeteringMode"], events["StageName"] = "dry-run", o.Stage
	}
	if !o.NoEvents {
		d.Events = d.deploy(t, standin.Region, d.EventsStack, "events-stack.yaml", events)
	}
	if !o.NoMetering {
		d.Stack = d.deploy(t, d.Region, d.StackName, "metering-stack.yaml", metering)
	}
	return d
}

// serve stands before moto and says which account is asked: moto takes it from a header.
func serve(t testing.TB, account string) string {
	t.Helper()
	target, err := url.Parse(standin.Moto(t))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16}
	moto := &httputil.ReverseProxy{
		Transport: &mappings{next: transport, on: make(map[string]bool)},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // addresses in answers are this server's
			r.Out.Header.Set("X-Moto-Account-Id", account)
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) }, // a caller that left
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.TrimSuffix(r.URL.Path, "/") == "/2016-08-19/account-settings" {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, accountSettings)
			return
		}
		moto.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		transport.CloseIdleConnections()
	})
	return server.URL
}

// Config is the configuration of an SDK client of the account, as awsapi.Config gives one. An empty region is that of the metering stack.
func (d Deployed) Config(_ context.Context, region string) (aws.Config, error) {
	cfg := standin.Config(d.Endpoint)
	cfg.Region, cfg.DisableRequestCompression = cmp.Or(region, d.Region), true // moto unpacks twice
	return cfg, nil
}

// Env are the settings by which a program of the AWS SDK or the AWS CLI finds the account, and nothing of this machine's own.
func (d Deployed) Env() []string {
	return []string{
		"AWS_ENDPOINT_URL=" + d.Endpoint, "AWS_REGION=" + d.Region, "AWS_DEFAULT_REGION=" + d.Region,
		"AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		"AWS_EC2_METADATA_DISABLED=true", "AWS_CONFIG_FILE=" + os.DevNull, "AWS_SHARED_CREDENTIALS_FILE=" + os.DevNull, "AWS_PAGER=",
	}
}

// deploy makes one stack.
func (d Deployed) deploy(t testing.TB, region, name, file string, parameters map[string]string) *template.Stack {
	t.Helper()
	text := templateText(t, file)
	tmpl, err := template.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	stack, err := tmpl.Resolve(parameters, template.Place{Region: region, Account: d.Account, StackName: name})
	if err != nil {
		t.Fatal(err)
	}
	cfg, _ := d.Config(t.Context(), region)
	in := &cloudformation.CreateStackInput{
		StackName: &name, TemplateBody: aws.String(fit.Replace(text)), Capabilities: []types.Capability{types.CapabilityCapabilityIam},
	}
	for _, key := range slices.Sorted(maps.Keys(stack.Parameters)) { // the defaults too: of a parameter that was never given moto knows no previous value
		in.Parameters = append(in.Parameters, types.Parameter{ParameterKey: aws.String(key), ParameterValue: aws.String(stack.Parameters[key])})
	}
	if _, err := cloudformation.NewFromConfig(cfg).CreateStack(t.Context(), in); err != nil {
		t.Fatalf("deploy %s: %v", name, err)
	}
	addAlarms(t, cfg, stack)
	addSchedules(t, cfg, stack)
	reserve(t, cfg, stack)
	enable(t, cfg)
	return stack
}

// fit makes a template one that moto takes: the functions' program is a line of text, and a number in a function's environment is text as it is on
// AWS (docs/stand-ins.md), without which the SDK reads no function.
var fit = strings.NewReplacer(
	"Code: ../dist/awsmp-bootstrap.zip", "Code: {ZipFile: none}",
	"METERING_CALLS_PER_SECOND: !Ref MeteringCallsPerSecond", "METERING_CALLS_PER_SECOND: !Sub '${MeteringCallsPerSecond}'",
)

// templateText is a template of deploy/, from the folder of whatever package is under test.
func templateText(t testing.TB, file string) string {
	t.Helper()
	at, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		text, err := os.ReadFile(filepath.Join(at, "deploy", file))
		switch up := filepath.Dir(at); {
		case err == nil:
			return string(text)
		case up == at:
			t.Fatalf("no deploy/%s above the working folder; run the tests inside the repository", file)
		default:
			at = up
		}
	}
}
