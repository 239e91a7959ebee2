package preflight_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/apigateway"
	apitypes "github.com/aws/aws-sdk-go-v2/service/apigateway/types"
	dynamosdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sns"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/preflight"
	"github.com/awsmp/metering/internal/stack/stacktest"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

func TestMain(m *testing.M) {
	code := m.Run()
	standin.Stop()
	os.Exit(code)
}

const (
	code     = "9abcdefghijklmnopqrstuvwx"
	metering = "../../deploy/metering-stack.yaml"
)

// results are the checks by name; of several of one name the worst.
func results(r preflight.Report) map[string]preflight.Result {
	order := []preflight.Result{preflight.OK, preflight.Unknown, preflight.Warning, preflight.Problem}
	all := make(map[string]preflight.Result)
	for _, c := range r.Checks {
		if slices.Index(order, c.Result) >= slices.Index(order, all[c.Name]) {
			all[c.Name] = c.Result
		}
	}
	return all
}

// check is the worst of a name.
func check(t *testing.T, r preflight.Report, name string) preflight.Check {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == name && c.Result == results(r)[name] {
			return c
		}
	}
	t.Fatalf("no check %q in %+v", name, r.Checks)
	return preflight.Check{}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// allOK are the results where nothing is to be said.
func allOK() map[string]preflight.Result {
	all := make(map[string]preflight.Result)
	for _, name := range []string{"product code", "template size", "Region", "credentials", "Region enabled", "Lambda concurrency", "API Gateway log role", "alerts topic", "events stack", "names"} {
		all[name] = preflight.OK
	}
	return all
}

// TestAccount goes through an account from an empty one to one with everything in it.
func TestAccount(t *testing.T) {
	t.Parallel()
	d := stacktest.Deploy(t, stacktest.Options{NoEvents: true, NoMetering: true})
	cfg, _ := d.Config(t.Context(), "")
	topic := "arn:aws:sns:us-east-1:" + d.Account + ":awsmp-alerts"
	o := preflight.Options{Config: d.Config, ProductCode: code, Topic: topic, Template: metering}
	expect := func(what string, changed map[string]preflight.Result) preflight.Report {
		t.Helper()
		r := preflight.Run(t.Context(), o)
		want := allOK()
		for name, result := range changed {
			want[name] = result
		}
		if diff := cmp.Diff(want, results(r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		if r.Account != d.Account || r.Region != "us-east-1" {
			t.Errorf("%s: %s in %s", what, r.Account, r.Region)
		}
		return r
	}

	r := expect("an empty account", map[string]preflight.Result{"alerts topic": preflight.Problem, "events stack": preflight.Problem})
	if c := check(t, r, "events stack"); !strings.Contains(c.Try, "--stack-name awsmp-events-stack") {
		t.Errorf("events stack: %+v", c)
	}

	client := sns.NewFromConfig(cfg)
	_, err := client.CreateTopic(t.Context(), &sns.CreateTopicInput{Name: aws.String("awsmp-alerts")})
	must(t, err)
	expect("a topic that nobody hears", map[string]preflight.Result{"alerts topic": preflight.Warning, "events stack": preflight.Problem})
	_, err = client.Subscribe(t.Context(), &sns.SubscribeInput{TopicArn: &topic, Protocol: aws.String("sqs"), Endpoint: aws.String("arn:aws:sqs:us-east-1:" + d.Account + ":mail")})
	must(t, err)
	stacktest.Deploy(t, stacktest.Options{Account: d.Account, NoMetering: true})
	if r = expect("all that a live stack needs", nil); !slices.Equal(r.Parameters, []string{"AlertsTopicArn=" + topic}) {
		t.Errorf("parameters: %v", r.Parameters)
	}

	_, err = client.SetTopicAttributes(t.Context(), &sns.SetTopicAttributesInput{TopicArn: &topic, AttributeName: aws.String("KmsMasterKeyId"), AttributeValue: aws.String("alias/aws/sns")})
	must(t, err)
	expect("a topic that CloudWatch may not use", map[string]preflight.Result{"alerts topic": preflight.Problem})
	o.Topic = "arn:aws:sns:eu-west-1:" + d.Account + ":awsmp-alerts"
	expect("a topic of another Region", map[string]preflight.Result{"alerts topic": preflight.Problem})
	o.Topic = topic + ".fifo"
	expect("a topic that alarms do not take", map[string]preflight.Result{"alerts topic": preflight.Problem})
	o.Topic = ""
	without := func(changed map[string]preflight.Result) map[string]preflight.Result {
		changed["alerts topic"] = ""
		return changed
	}
	expectNone := func(what string, changed map[string]preflight.Result) preflight.Report {
		t.Helper()
		r := preflight.Run(t.Context(), o)
		want := allOK()
		for name, result := range without(changed) {
			if want[name] = result; result == "" {
				delete(want, name)
			}
		}
		if diff := cmp.Diff(want, results(r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
		return r
	}

	role := "arn:aws:iam::" + d.Account + ":role/of-another-stack"
	_, err = apigateway.NewFromConfig(cfg).UpdateAccount(t.Context(), &apigateway.UpdateAccountInput{PatchOperations: []apitypes.PatchOperation{
		{Op: apitypes.OpReplace, Path: aws.String("/cloudwatchRoleArn"), Value: &role},
	}})
	must(t, err)
	r = expectNone("a log role that is set", map[string]preflight.Result{"API Gateway log role": preflight.Warning})
	if !slices.Contains(r.Parameters, "CreateApiGatewayLogRole=false") || !strings.Contains(check(t, r, "API Gateway log role").Try, "--role-name of-another-stack") {
		t.Errorf("a log role that is set: %+v, %v", check(t, r, "API Gateway log role"), r.Parameters)
	}

	o.DryRun = true
	expectNone("no test stage", map[string]preflight.Result{"API Gateway log role": preflight.Warning, "events stack": preflight.Warning})
	stacktest.Deploy(t, stacktest.Options{Account: d.Account, NoMetering: true, Stage: "qa"})
	r = expectNone("a test stage", map[string]preflight.Result{"API Gateway log role": preflight.Warning})
	if !slices.Contains(r.Parameters, "SubscribersTableName=awsmp-subscribers-test-qa") {
		t.Errorf("a test stage: %v", r.Parameters)
	}

	must(t, dynamodb.Create(t.Context(), dynamosdk.NewFromConfig(cfg), dynamodb.UsageTable("awsmp-"+code+"-usage")))
	r = expectNone("a table that an earlier stack has left", map[string]preflight.Result{"API Gateway log role": preflight.Warning, "names": preflight.Problem})
	if c := check(t, r, "names"); !strings.Contains(c.Found, "awsmp-"+code+"-usage") || !strings.Contains(c.Try, "--import-existing-resources") {
		t.Errorf("a table that an earlier stack has left: %+v", c)
	}

	metering := stacktest.Deploy(t, stacktest.Options{Account: d.Account, NoEvents: true})
	o.ProductCode = metering.ProductCode
	r = expectNone("a stack that is there", map[string]preflight.Result{"API Gateway log role": preflight.Warning, "product code": preflight.Warning})
	if c := check(t, r, "names"); !strings.Contains(c.Found, metering.StackName+" is there") {
		t.Errorf("a stack that is there: %+v", c)
	}
}

// TestUpdate: a stack that is there has its concurrency already.
func TestUpdate(t *testing.T) {
	t.Parallel()
	d := stacktest.Deploy(t, stacktest.Options{NoEvents: true})
	config := func(free int) func(context.Context, string) (aws.Config, error) {
		return answering(t, d.Endpoint, "/2016-08-19/account-settings", fmt.Sprintf(`{"AccountLimit": {"ConcurrentExecutions": 1000, "UnreservedConcurrentExecutions": %d}}`, free))
	}
	for _, c := range []struct {
		code string
		free int
		want preflight.Result
	}{{d.ProductCode, 100, preflight.OK}, {d.ProductCode, 99, preflight.Problem}, {code, 131, preflight.Problem}, {code, 132, preflight.OK}} {
		r := preflight.Run(t.Context(), preflight.Options{Config: config(c.free), ProductCode: c.code})
		if got := check(t, r, "Lambda concurrency"); got.Result != c.want {
			t.Errorf("%s with %d unreserved: %+v, want %s", c.code, c.free, got, c.want)
		}
	}
}

// answering stands before an account and gives one answer by itself.
func answering(t *testing.T, target, path, body string) func(context.Context, string) (aws.Config, error) {
	t.Helper()
	behind, err := url.Parse(target)
	must(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(behind); r.Out.Host = r.In.Host }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.TrimSuffix(r.URL.Path, "/") == path {
			fmt.Fprint(w, body)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return func(_ context.Context, region string) (aws.Config, error) {
		cfg := standin.Config(server.URL)
		if region != "" {
			cfg.Region = region
		}
		return cfg, nil
	}
}

// TestProductCode tells the Management Portal's two kinds of code apart.
func TestProductCode(t *testing.T) {
	t.Parallel()
	blind := func(context.Context, string) (aws.Config, error) {
		return aws.Config{}, awsapi.Wrap("load AWS settings", "", fmt.Errorf("not here"))
	}
	for given, want := range map[string]preflight.Result{
		code: preflight.OK, "": preflight.Unknown, "prod-abcdefghijk12": preflight.Problem, "0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f": preflight.Problem, "example": preflight.Warning,
		"with space": preflight.Problem, strings.Repeat("a", 37): preflight.Problem, "shop-aggregated": preflight.Warning,
	} {
		if got := results(preflight.Run(t.Context(), preflight.Options{Config: blind, ProductCode: given}))["product code"]; got != want {
			t.Errorf("%q: %s, want %s", given, got, want)
		}
	}
}

// TestRegions: only Regions that have the Metering Service, and one partition, will do.
func TestRegions(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	config := func(_ context.Context, region string) (aws.Config, error) {
		cfg := standin.Config(closed.URL)
		cfg.Region, cfg.RetryMaxAttempts = region, 1
		return cfg, nil
	}
	for region, want := range map[string]preflight.Result{
		"us-east-1": preflight.OK, "me-central-1": preflight.OK, "eu-central-2": preflight.OK, "us-gov-west-1": preflight.Problem, "cn-northwest-1": preflight.Problem, "mars-north-1": preflight.Warning,
	} {
		r := preflight.Run(t.Context(), preflight.Options{Config: config, Region: region, EventsRegion: "us-east-1"})
		if got := results(r)["Region"]; got != want {
			t.Errorf("%s: %s, want %s", region, got, want)
		}
		if c := check(t, r, "credentials"); c.Result != preflight.Problem || !strings.Contains(c.Try, "look for a way from here") {
			t.Errorf("without a network: %+v", c)
		}
		if got := results(r)["names"]; got != preflight.Unknown {
			t.Errorf("without a network names are %s", got)
		}
	}
	r := preflight.Run(t.Context(), preflight.Options{Config: config, Region: "eu-west-1", EventsRegion: "eu-west-1"})
	if got := results(r)["events Region"]; got != preflight.Problem {
		t.Errorf("an events stack in eu-west-1 is %s", got)
	}
}

// front stands before an account and refuses what it is told to.
func front(t *testing.T, target string, refuse func(service, region string) (code string)) func(context.Context, string) (aws.Config, error) {
	t.Helper()
	behind, err := url.Parse(target)
	must(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(behind); r.Out.Host = r.In.Host }}
	scope := regexp.MustCompile(`Credential=[^/]+/\d+/([^/]+)/([^/]+)/`)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		called := scope.FindStringSubmatch(r.Header.Get("Authorization"))
		refused := ""
		if called != nil {
			refused = refuse(called[2], called[1])
		}
		switch {
		case refused == "":
			proxy.ServeHTTP(w, r)
		case slices.Contains([]string{"sts", "sns", "cloudformation"}, called[2]):
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "<ErrorResponse><Error><Code>%s</Code><Message>refused here</Message></Error></ErrorResponse>", refused)
		default:
			w.Header().Set("X-Amzn-Errortype", refused)
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, `{"__type":%q,"message":"refused here"}`, refused)
		}
	}))
	t.Cleanup(server.Close)
	return func(_ context.Context, region string) (aws.Config, error) {
		cfg := standin.Config(server.URL)
		if region != "" {
			cfg.Region = region
		}
		return cfg, nil
	}
}

// TestNotPermitted: what the caller may not look at is unknown, with the action that it lacks.
func TestNotPermitted(t *testing.T) {
	t.Parallel()
	d := stacktest.Deploy(t, stacktest.Options{NoEvents: true, NoMetering: true})
	o := preflight.Options{ProductCode: code, Topic: "arn:aws:sns:us-east-1:" + d.Account + ":awsmp-alerts"}
	o.Config = front(t, d.Endpoint, func(service, _ string) string {
		if service == "sts" {
			return ""
		}
		return "AccessDenied"
	})
	r := preflight.Run(t.Context(), o)
	got := map[string]string{}
	for _, c := range r.Checks {
		if c.Action != "" {
			got[c.Name] = string(c.Result) + " " + c.Action
		}
	}
	want := map[string]string{
		"Lambda concurrency": "unknown lambda:GetAccountSettings", "API Gateway log role": "unknown apigateway:GET", "alerts topic": "unknown sns:GetTopicAttributes",
		"events stack": "unknown cloudformation:DescribeStacks", "names": "unknown cloudformation:DescribeStacks",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what may not be looked at (-want +got):\n%s", diff)
	}
	if r.Count(preflight.Problem) != 0 {
		t.Errorf("%+v", r.Checks)
	}
}

// TestRegionNotEnabled: credentials that are good in one Region and unknown in another.
func TestRegionNotEnabled(t *testing.T) {
	t.Parallel()
	d := stacktest.Deploy(t, stacktest.Options{NoEvents: true, NoMetering: true})
	o := preflight.Options{Region: "me-central-1"}
	o.Config = front(t, d.Endpoint, func(service, region string) string {
		if service == "sts" && region == "me-central-1" {
			return "InvalidClientTokenId"
		}
		return ""
	})
	c := check(t, preflight.Run(t.Context(), o), "Region enabled")
	if c.Result != preflight.Problem || !strings.Contains(c.Try, "aws account enable-region --region-name me-central-1") {
		t.Errorf("%+v", c)
	}
	o.Config = front(t, d.Endpoint, func(string, string) string { return "ExpiredToken" })
	r := preflight.Run(t.Context(), o)
	if c := check(t, r, "credentials"); c.Result != preflight.Problem || !strings.Contains(c.Try, "aws sts get-caller-identity") {
		t.Errorf("expired credentials: %+v", c)
	}
	if results(r)["Region enabled"] != preflight.Unknown {
		t.Errorf("expired credentials: %+v", r.Checks)
	}
}
