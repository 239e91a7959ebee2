package simulator_test

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/awsmp/metering/simulator"
	"github.com/google/go-cmp/cmp"
)

// need skips a test whose outside program is missing. Where the build must have it nothing is asked: without it the test fails.
func need(t *testing.T, args ...string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		return
	}
	if err := exec.Command(args[0], args[1:]...).Run(); err != nil {
		t.Skipf("%s: %v", strings.Join(args, " "), err)
	}
}

// run runs a program with invented credentials and nothing of the user's own configuration.
func run(t *testing.T, stdin, name string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AWS_") })
	cmd.Env = append(own,
		"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test", "AWS_DEFAULT_REGION=us-east-1", "AWS_EC2_METADATA_DISABLED=true",
		"AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
		"AWS_MAX_ATTEMPTS=1", "AWS_PAGER=", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		code = cmd.ProcessState.ExitCode()
	}
	return out.String(), errs.String(), code
}

const boto3Program = `
import datetime, json, sys
import boto3
endpoint, license, buyer, token = sys.argv[1:]
client = boto3.client("meteringmarketplace", region_name="us-east-1", endpoint_url=endpoint)
hour = datetime.datetime(2026, 3, 10, 14, tzinfo=datetime.timezone.utc)
said = {}

def record(**changes):
    r = dict(Timestamp=hour, Dimension="api_calls", Quantity=10, CustomerAWSAccountId=buyer, LicenseArn=license)
    r.update(changes)
    return {k: v for k, v in r.items() if v is not None}

def attempt(name, expected, call):
    try:
        call()
        said[name] = "no exception"
    except expected as e:
        said[name] = e.response["Error"]["Code"] + " HTTP %d" % e.response["ResponseMetadata"]["HTTPStatusCode"]
        assert e.response["Error"]["Message"] and e.response["ResponseMetadata"]["RequestId"], e.response

def meter(**kw):
    return client.batch_meter_usage(**kw)

x = client.exceptions
answer = meter(UsageRecords=[record(UsageAllocations=[
    {"AllocatedUsageQuantity": 4, "Tags": [{"Key": "team", "Value": "a"}]}, {"AllocatedUsageQuantity": 6}]), record(Quantity=11)])
said["statuses"] = [r["Status"] for r in answer["Results"]]
echo = answer["Results"][0]["UsageRecord"]
said["echo"] = [echo["LicenseArn"], echo["Quantity"], echo["Timestamp"].astimezone(datetime.timezone.utc).isoformat(), len(echo["UsageAllocations"])]
said["legacy"] = meter(ProductCode="sim-product", UsageRecords=[record(LicenseArn=None, CustomerAWSAccountId=None, CustomerIdentifier="cust-1")])["Results"][0]["Status"]
resolved = client.resolve_customer(RegistrationToken=token)
said["resolved"] = [resolved["CustomerAWSAccountId"], resolved["LicenseArn"], resolved["ProductCode"]]
attempt("license", x.InvalidLicenseException, lambda: meter(UsageRecords=[record(LicenseArn=license + "x")]))
attempt("time", x.TimestampOutOfBoundsException, lambda: meter(UsageRecords=[record(Timestamp=hour - datetime.timedelta(days=2))]))
attempt("dimension", x.InvalidUsageDimensionException, lambda: meter(UsageRecords=[record(Dimension="undefined")]))
attempt("allocations", x.InvalidUsageAllocationsException, lambda: meter(UsageRecords=[record(UsageAllocations=[{"AllocatedUsageQuantity": 9}])]))
attempt("tag", x.InvalidTagException, lambda: meter(UsageRecords=[record(UsageAllocations=[{"AllocatedUsageQuantity": 10, "Tags": [{"Key": "a", "Value": "é"}]}])]))
attempt("identifier", x.InvalidCustomerIdentifierException, lambda: meter(ProductCode="sim-product", UsageRecords=[record(LicenseArn=None, CustomerAWSAccountId=None, CustomerIdentifier="nobody")]))
attempt("product", x.InvalidProductCodeException, lambda: meter(ProductCode="other", UsageRecords=[record(LicenseArn=None)]))
attempt("both", client.exceptions.ClientError, lambda: meter(ProductCode="sim-product", UsageRecords=[record()]))
attempt("token", x.InvalidTokenException, lambda: client.resolve_customer(RegistrationToken="nothing"))
attempt("expired", x.ExpiredTokenException, lambda: client.resolve_customer(RegistrationToken="expired"))
attempt("throttle", x.ThrottlingException, lambda: meter(UsageRecords=[record(Dimension="throttle")]))
attempt("internal", x.InternalServiceErrorException, lambda: meter(UsageRecords=[record(Dimension="internal")]))
attempt("disabled", x.DisabledApiException, lambda: meter(UsageRecords=[record(Dimension="disabled")]))
json.dump(said, sys.stdout)
`

// serveProcesses is a simulator on a loopback socket with a fault behind each of three dimensions.
func serveProcesses(t *testing.T) (sim *simulator.Simulator, url, token string) {
	t.Helper()
	sim, _ = service(t, simulator.Options{})
	sim.UndefineDimension("undefined")
	issue(t, sim, simulator.Token{Value: "expired", TTL: -1})
	for dimension, kind := range map[string]simulator.FaultKind{"throttle": simulator.Throttle, "internal": simulator.InternalError, "disabled": simulator.Disabled} {
		sim.Inject(simulator.Fault{Kind: kind, Match: func(r simulator.Record) bool { return r.Dimension == dimension }})
	}
	server := httptest.NewServer(sim)
	t.Cleanup(server.Close)
	return sim, server.URL, issue(t, sim, simulator.Token{AccountID: buyer, LicenseARN: licenseA})
}

func TestBoto3(t *testing.T) {
	t.Parallel()
	need(t, "python3", "-c", "import boto3")
	sim, url, token := serveProcesses(t)
	out, errs, code := run(t, boto3Program, "python3", "-", url, licenseA, buyer, token)
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, errs)
	}
	var said map[string]any
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := map[string]any{
		"statuses":    []any{"Success", "DuplicateRecord"},
		"echo":        []any{licenseA, 10.0, "2026-03-10T14:00:00+00:00", 2.0},
		"legacy":      "Success",
		"resolved":    []any{buyer, licenseA, product},
		"license":     "InvalidLicenseException HTTP 400",
		"time":        "TimestampOutOfBoundsException HTTP 400",
		"dimension":   "InvalidUsageDimensionException HTTP 400",
		"allocations": "InvalidUsageAllocationsException HTTP 400",
		"tag":         "InvalidTagException HTTP 400",
		"identifier":  "InvalidCustomerIdentifierException HTTP 400",
		"product":     "InvalidProductCodeException HTTP 400",
		"both":        "ValidationException HTTP 400",
		"token":       "InvalidTokenException HTTP 400",
		"expired":     "ExpiredTokenException HTTP 400",
		"throttle":    "ThrottlingException HTTP 400",
		"internal":    "InternalServiceErrorException HTTP 500",
		"disabled":    "DisabledApiException HTTP 400",
	}
	if diff := cmp.Diff(want, said); diff != "" {
		t.Errorf("boto3 said (-want +got):\n%s", diff)
	}
	if n := len(sim.Ledger()); n != 2 {
		t.Errorf("%d entries, want 2", n)
	}
}

func TestAWSCLI(t *testing.T) {
	t.Parallel()
	need(t, "aws", "--version")
	sim, url, token := serveProcesses(t)
	records := func(dimension string) string {
		return fmt.Sprintf(`[{"Timestamp":"2026-03-10T14:00:00Z","Dimension":%q,"Quantity":10,"CustomerAWSAccountId":%q,"LicenseArn":%q}]`, dimension, buyer, licenseA)
	}

	out, errs, code := run(t, "", "aws", "meteringmarketplace", "batch-meter-usage", "--endpoint-url", url, "--output", "json", "--usage-records", records("api_calls"))
	if code != 0 || !strings.Contains(out, `"Status": "Success"`) || !strings.Contains(out, licenseA) {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if _, ok := sim.Billed(licenseA, buyer, "api_calls", at(t, "2026-03-10T14:00:00")); !ok {
		t.Error("the ledger has no such entry")
	}
	out, errs, code = run(t, "", "aws", "meteringmarketplace", "resolve-customer", "--endpoint-url", url, "--output", "json", "--registration-token", token)
	if code != 0 || !strings.Contains(out, licenseA) {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	_, errs, code = run(t, "", "aws", "meteringmarketplace", "batch-meter-usage", "--endpoint-url", url, "--usage-records", records("undefined"))
	if code == 0 || !strings.Contains(errs, "(InvalidUsageDimensionException) when calling the BatchMeterUsage operation") {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}
