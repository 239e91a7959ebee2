package verify_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	sqssdk "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/lambdahost"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/queue/sqs"
	"github.com/awsmp/metering/internal/stack"
	"github.com/awsmp/metering/internal/stack/stacktest"
	"github.com/awsmp/metering/internal/template"
	"github.com/awsmp/metering/internal/verify"
	"github.com/awsmp/metering/simulator"
)

var everything = flag.Bool("everything", false, "let TestDeployed try every case that moto and the time of day allow, which takes minutes")

// TestDeployed runs against the stack as its template makes it: the shipped program under its handlers, with its environments, on its rules and
// queues. First as a dry run, then live with the simulator in the place of AWS Marketplace. Of the cases it tries one of each mechanism; every one
// runs through the same stages on a virtual clock (TestWhenever), and here with -args -everything.
func TestDeployed(t *testing.T) {
	t.Parallel()
	deployed := stacktest.Deploy(t, stacktest.Options{Parameters: map[string]string{"MeteringMode": "dry-run"}})
	opened, err := stack.Open(t.Context(), deployed.StackName, "", stack.Options{Config: deployed.Config})
	if err != nil {
		t.Fatal(err)
	}
	binary := lambdahost.Build(t, "../../cmd/bootstrap")
	t.Run("dry run", func(t *testing.T) {
		h := newHost(t, deployed, opened, binary, "dry-run")
		report := h.do(nil, oneOfEach()...)
		if diff := cmp.Diff([]string{"undefined-dimension", "billed-unit", "registration-page"}, names(report, verify.Skipped)); diff != "" {
			t.Errorf("skipped (-want +got):\n%s", diff)
		}
		h.left(nil)
	})
	t.Run("live", func(t *testing.T) {
		h := newHost(t, deployed, opened, binary, "live")
		report := h.do(buyer, "happy-path", "zero-at-last", "late-row", "rejected-NonIntegerQuantity", "direct-record", "duplicate", "direct-DuplicateIdentity",
			"direct-MixedIdentitySchemes", "direct-MissingQuantity", "silent", "undefined-dimension", "billed-unit")
		if sold := h.sim.Ledger(); len(sold) != 1 || sold[0].LicenseARN != realLicense || sold[0].Quantity != 1 {
			t.Errorf("billed: %+v, want one unit of the buyer", sold)
		}
		if report.Books.Places[ledger.Billed].Units != 1 {
			t.Errorf("books: %+v", report.Books)
		}
		h.left([]string{realLicense})
	})
}

func oneOfEach() []string {
	if *everything {
		return nil
	}
	return []string{
		"happy-path", "tagged-rows", "zero-waits", "wrong-bucket", "age-out", "late-row", "grown-row", "rejected-NonNumericQuantity", "rejected-MalformedAllocations",
		"rejected-MalformedSortKey", "direct-record", "submission-expiry", "silent", "direct-DuplicateIdentity", "direct-NegativeQuantity",
		"undefined-dimension", "billed-unit", "registration-page",
	}
}

// host does for a deployed stack what EventBridge and Lambda do, on a clock that its sleeper moves. The functions' own clock is the real one, so
// that cases which wait for another hour than the present one are left out.
type host struct {
	t         *testing.T
	deployed  stacktest.Deployed
	stack     *stack.Stack
	dryRun    bool
	sim       *simulator.Simulator
	functions map[string]*lambdahost.Function // by ARN
	rules     []template.Resource
	queues    []string // addresses
	sqs       *sqssdk.Client
	mappings  []*lambdahost.Mapping
	ahead     time.Duration
}

func newHost(t *testing.T, d stacktest.Deployed, s *stack.Stack, binary, mode string) *host {
	t.Helper()
	sim, err := simulator.New(simulator.Options{ProductCode: d.ProductCode, Dimensions: []string{seats}})
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.PutLicense(simulator.License{ARN: realLicense, AccountID: realAccount}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	cfg, err := d.Config(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	h := &host{
		t: t, deployed: d, stack: s, dryRun: mode == "dry-run", sim: sim, functions: map[string]*lambdahost.Function{}, rules: d.Stack.OfType("AWS::Events::Rule"), sqs: sqssdk.NewFromConfig(cfg),
	}
	for _, r := range d.Stack.OfType("AWS::Lambda::Function") {
		env := d.Env()
		variables, _ := r.Get("Environment", "Variables").(map[string]any)
		for name := range variables {
			env = append(env, name+"="+r.Text("Environment", "Variables", name))
		}
		env = append(env, "METERING_MODE="+mode, "AWS_ENDPOINT_URL_MARKETPLACE_METERING="+server.URL)
		h.functions["arn:aws:lambda:"+d.Region+":"+d.Account+":function:"+r.Text("FunctionName")] = lambdahost.Start(t, lambdahost.Options{
			Binary: binary, Handler: r.Text("Handler"), Name: r.Text("FunctionName"), Env: env, Timeout: time.Minute, Concurrency: 2,
		})
	}
	h.mute(lambda.NewFromConfig(cfg))
	for _, m := range d.Stack.OfType("AWS::Lambda::EventSourceMapping") {
		arn := m.Text("EventSourceArn")
		name := arn[strings.LastIndex(arn, ":")+1:]
		address := d.Endpoint + "/" + d.Account + "/" + name
		h.queues = append(h.queues, address)
		batch, _ := m.Int("BatchSize")
		h.mappings = append(h.mappings, lambdahost.Map(t, h.function(m.Text("FunctionName")), lambdahost.Source{
			Queue: sqs.New(h.sqs, address), QueueName: name, Batch: batch, Concurrency: 2, Idle: 100 * time.Millisecond,
		}))
	}
	return h
}

// mute keeps moto from calling the functions in containers.
func (h *host) mute(client *lambda.Client) {
	h.t.Helper()
	listed, err := client.ListEventSourceMappings(h.t.Context(), &lambda.ListEventSourceMappingsInput{})
	if err != nil {
		h.t.Fatal(err)
	}
	for _, m := range listed.EventSourceMappings {
		if _, err := client.UpdateEventSourceMapping(h.t.Context(), &lambda.UpdateEventSourceMappingInput{UUID: m.UUID, Enabled: aws.Bool(false)}); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *host) function(name string) *lambdahost.Function {
	h.t.Helper()
	for arn, f := range h.functions {
		if strings.HasSuffix(arn, ":"+name) {
			return f
		}
	}
	h.t.Fatalf("no function %s in %v", name, slices.Collect(maps.Keys(h.functions)))
	return nil
}

func (h *host) now() time.Time { return time.Now().Add(h.ahead) }

// sleep lets d pass at once, minute by minute, and calls what the rules have due in each.
func (h *host) sleep(ctx context.Context, d time.Duration) error {
	begin := h.now()
	h.ahead += d
	for at := begin.Truncate(time.Minute).Add(time.Minute); !at.After(h.now()); at = at.Add(time.Minute) {
		if err := h.due(ctx, at); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (h *host) due(ctx context.Context, at time.Time) error {
	var all sync.WaitGroup
	called := false
	for _, r := range h.rules {
		var first, every int
		if _, err := fmt.Sscanf(r.Text("ScheduleExpression"), "cron(%d/%d * * * ? *)", &first, &every); err != nil {
			return fmt.Errorf("rule %s: %w", r.ID, err)
		}
		if at.Minute()%every != first {
			continue
		}
		targets, _ := r.Get("Targets").([]any)
		for i := range targets {
			called = true
			target := func(name string) string { return r.Text("Targets", fmt.Sprint(i), name) }
			all.Go(func() {
				if _, err := h.functions[target("Arn")].Invoke(ctx, []byte(target("Input"))); err != nil && ctx.Err() == nil {
					h.t.Errorf("%s: %v", target("Id"), err)
				}
			})
		}
	}
	if all.Wait(); called {
		h.drain()
	}
	return nil
}

// drain waits until the queues are empty.
func (h *host) drain() {
	lambdahost.Drain(h.t, time.Minute, func() string {
		for _, address := range h.queues {
			out, err := h.sqs.GetQueueAttributes(h.t.Context(), &sqssdk.GetQueueAttributesInput{QueueUrl: &address, AttributeNames: []sqstypes.QueueAttributeName{
				sqstypes.QueueAttributeNameApproximateNumberOfMessages, sqstypes.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
			}})
			if err != nil {
				return err.Error()
			}
			for name, n := range out.Attributes {
				if n != "0" {
					return address + " " + name + " " + n
				}
			}
		}
		return ""
	}, h.mappings...)
}

// do runs the cases that the functions' own clock lets come out: all, or those that are named, where live is another thing than a dry run.
func (h *host) do(who *verify.Buyer, only ...string) verify.Report {
	h.t.Helper()
	s := h.settings()
	s.Buyer = who
	for _, c := range verify.List(s) {
		another := c.Name == "zero-at-last" && verify.OldestZeros(s) != metering.HourOf(s.Now())-metering.MaxOffset ||
			strings.HasPrefix(c.Name, "month-boundary") && s.Now().UTC().Day() > 3 ||
			strings.HasSuffix(c.Name, "RecordTooLarge") || strings.HasSuffix(c.Name, "TooManyAllocations") // half a megabyte, which moto reads for seconds
		if !another && (len(only) == 0 || slices.Contains(only, c.Name)) {
			s.Only = append(s.Only, c.Name)
		}
	}
	report, err := verify.Do(h.t.Context(), s)
	if err != nil {
		h.t.Fatal(err)
	}
	if !report.Passed() {
		h.t.Errorf("failed: %v; books %+v; left %d", strings.Join(failures(report), "\n"), report.Books, report.Left)
	}
	return report
}

func (h *host) settings() verify.Settings {
	return verify.Settings{
		Target: verify.Target{Name: h.deployed.StackName, Rows: h.stack.Rows, Records: h.stack.Records, Rules: h.stack.Rules, DryRun: h.dryRun},
		ID:     verify.NewID(time.Now(), 0x17), Now: h.now, Sleep: h.sleep, Tell: func(line string) { h.t.Log(line) },
	}
}

// left fails the test where a run has left anything.
func (h *host) left(more []string) {
	h.t.Helper()
	if left, err := verify.Leftovers(h.t.Context(), h.settings().Target, more); err != nil || len(left) > 0 {
		h.t.Errorf("left: %v, %v", left, err)
	}
}
