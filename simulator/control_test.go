package simulator_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/simulator"
	"github.com/google/go-cmp/cmp"
)

// control calls a control endpoint and returns its status and JSON.
func control(t *testing.T, sim *simulator.Simulator, method, path, body string) (int, any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, simulator.Endpoint+"/_simulator/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := sim.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var answer any
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, answer
}

func controlOK(t *testing.T, sim *simulator.Simulator, method, path, body string) any {
	t.Helper()
	status, answer := control(t, sim, method, path, body)
	if status != http.StatusOK {
		t.Fatalf("%s %s: HTTP %d, %v", method, path, status, answer)
	}
	return answer
}

// A whole story over HTTP alone, as a test in another language would play it.
func TestControlStory(t *testing.T) {
	t.Parallel()
	sim, err := simulator.New(simulator.Options{Dimensions: []string{"storage"}})
	if err != nil {
		t.Fatal(err)
	}
	ok := func(method, path, body string) any { t.Helper(); return controlOK(t, sim, method, path, body) }

	ok("PUT", "clock", `{"now": "2026-03-10T15:20:00Z"}`)
	ok("PUT", "licenses", `{"licenseArn": "`+licenseA+`", "accountId": "`+buyer+`", "activatedAt": "2026-03-10T13:00:00Z"}`)
	ok("PUT", "customers", `{"customerIdentifier": "cust-1", "active": true}`)
	wantOutcome(t, meter(t, sim, batch(usage())), "InvalidUsageDimensionException")
	ok("PUT", "dimensions", `{"name": "api_calls"}`)
	wantOutcome(t, meter(t, sim, batch(usage())), "Success")
	wantOutcome(t, meter(t, sim, batch(usage(stampedAt(t, "2026-03-10T12:00:00")))), "InvalidLicenseException")
	wantOutcome(t, meter(t, sim, legacyBatch(legacy())), "Success")

	ok("PUT", "suspensions", `{"accountId": "`+buyer+`", "suspended": true}`)
	wantOutcome(t, meter(t, sim, batch(usage(stampedAt(t, "2026-03-10T13:00:00")))), "CustomerNotSubscribed")
	ok("PUT", "suspensions", `{"accountId": "`+buyer+`", "suspended": false}`)

	token := ok("POST", "tokens", `{"accountId": "`+buyer+`", "ttl": "10m"}`).(map[string]any)["token"].(string)
	resolved := call(t, sim, "ResolveCustomer", fields{"RegistrationToken": token})
	if diff := cmp.Diff(map[string]any{"CustomerAWSAccountId": buyer, "ProductCode": product}, resolved.raw); diff != "" {
		t.Errorf("resolved (-want +got):\n%s", diff)
	}
	ok("POST", "clock", `{"advance": "11m"}`)
	wantOutcome(t, call(t, sim, "ResolveCustomer", fields{"RegistrationToken": token}), "ExpiredTokenException")

	id := ok("POST", "faults", `{"kind": "throttle", "operation": "BatchMeterUsage"}`)
	if diff := cmp.Diff(map[string]any{"id": 1.0}, id); diff != "" {
		t.Errorf("fault (-want +got):\n%s", diff)
	}
	wantOutcome(t, meter(t, sim, batch(usage())), "ThrottlingException")
	ok("DELETE", "faults/1", "")
	wantOutcome(t, meter(t, sim, batch(usage())), "Success")
	ok("POST", "faults", `{"kind": "internalError", "from": "2026-03-10T15:00:00Z", "until": "2026-03-10T16:00:00Z", "probability": 1, "times": 9}`)
	ok("POST", "faults", `{"kind": "latency", "latency": "2s", "from": "2027-01-01T00:00:00Z"}`)
	wantOutcome(t, meter(t, sim, batch(usage())), "InternalServiceErrorException")
	ok("DELETE", "faults", "")

	ledger := ok("GET", "ledger", "").([]any)
	if len(ledger) != 2 {
		t.Fatalf("%d entries, want 2: %v", len(ledger), ledger)
	}
	entry := ledger[1].(map[string]any)
	delete(entry, "at")
	delete(entry, "meteringRecordId")
	want := map[string]any{"licenseArn": licenseA, "accountId": buyer, "dimension": "api_calls",
		"hour": "2026-03-10T14:00:00Z", "quantity": 10.0, "timestamp": "2026-03-10T14:00:00Z"}
	if diff := cmp.Diff(want, entry); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	if stats := ok("GET", "stats", "").(map[string]any); stats["throttled"] != 1.0 || stats["statuses"].(map[string]any)["Success"] != 3.0 {
		t.Errorf("stats %v", stats)
	}
	if calls := ok("GET", "calls", "").([]any); len(calls) != 10 {
		t.Errorf("%d calls, want 10", len(calls))
	}

	ok("DELETE", "dimensions", `{"name": "api_calls"}`)
	wantOutcome(t, meter(t, sim, batch(usage())), "InvalidUsageDimensionException")
	ok("POST", "reset", "")
	if ledger := ok("GET", "ledger", "").([]any); len(ledger) != 0 {
		t.Errorf("%d entries after the reset", len(ledger))
	}
	now := ok("GET", "clock", "").(map[string]any)["now"].(string)
	if shown, err := time.Parse(time.RFC3339Nano, now); err != nil || time.Since(shown).Abs() > time.Hour {
		t.Errorf("the clock shows %s after the reset, want real time", now)
	}
}

// Each mistake gets one sentence and an example of the right call.
func TestControlErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		method, path, body string
		status             int
		message, hint      string
	}{
		{"GET", "nothing", "", 404, "there is no GET /_simulator/nothing", "GET /_simulator/"},
		{"POST", "ledger", "", 404, "there is no POST", "GET /_simulator/"},
		{"PUT", "licenses", "", 400, "body is empty", `"licenseArn"`},
		{"PUT", "licenses", "{", 400, "unexpected EOF", `"licenseArn"`},
		{"PUT", "licenses", `{} {}`, 400, "more than one", `"licenseArn"`},
		{"PUT", "customers", `{"accountId": "` + buyer + `", "active": true} ]`, 400, "something follows", `"customerIdentifier"`},
		{"PUT", "licenses", `{"licenseArn": "` + licenseA + `", "accountId": "` + buyer + `", "endedAt": "9999-12-31T23:59:59-01:00"}`, 400, "year 10000", `"licenseArn"`},
		{"PUT", "licenses", `{"licenseArn": "` + licenseA + `", "accountId": "` + buyer + `", "activatedAt": "0000-01-01T00:00:00+01:00"}`, 400, "year -1", `"licenseArn"`},
		{"GET", "first-click?to=http://127.0.0.1/&customerIdentifier=%ff", "", 400, "no UTF-8 text", "first-click?to="},
		{"PUT", "licenses", `{"arn": "x"}`, 400, `unknown field "arn"`, `"licenseArn"`},
		{"PUT", "licenses", `{"licenseArn": "x"}`, 400, "arn:aws:license-manager", `"licenseArn"`},
		{"PUT", "licenses", `{"licenseArn": "` + licenseA + `", "accountId": "12"}`, 400, "12 digits", `"licenseArn"`},
		{"PUT", "customers", `{"accountId": "12"}`, 400, "12 digits", `"customerIdentifier"`},
		{"PUT", "suspensions", `{"accountId": "12", "suspended": true}`, 400, "12 digits", `"suspended"`},
		{"POST", "tokens", `{"accountId": "12"}`, 400, `account "12": use the buyer's 12 digits`, `"ttl": "4h"`},
		{"PUT", "customers", `{"active": true}`, 400, "neither an identifier nor an account", `"customerIdentifier"`},
		{"PUT", "suspensions", `{"accountId": "1"}`, 400, "true or false", `"suspended"`},
		{"PUT", "suspensions", `{"suspended": true}`, 400, "12 digits", `"suspended"`},
		{"POST", "tokens", `{"ttl": "tomorrow"}`, 400, "tomorrow", `"ttl": "4h"`},
		{"PUT", "dimensions", `{}`, 400, "name is missing", `"name"`},
		{"DELETE", "dimensions", `{}`, 400, "name is missing", "DELETE /_simulator/dimensions"},
		{"POST", "faults", `{"kind": "typo"}`, 400, `"throttle"`, `"kind"`},
		{"POST", "faults", `{"kind": "latency"}`, 400, "delay", `"kind"`},
		{"DELETE", "faults/7", "", 404, `no fault "7"`, "POST /_simulator/faults"},
		{"PUT", "clock", `{}`, 400, "now is missing", `"now"`},
		{"POST", "clock", `{}`, 400, "advance is missing", `"advance"`},
		{"PUT", "clock", `{"now": "2026-03-10T15:20:00Z"}`, 409, "cannot be moved here", "without a clock"},
		{"POST", "clock", `{"advance": "1h"}`, 409, "cannot be moved here", "without a clock"},
	} {
		sim, _ := service(t, simulator.Options{})
		status, answer := control(t, sim, tt.method, tt.path, tt.body)
		said := answer.(map[string]any)
		message, hint := said["error"].(string), said["hint"].(string)
		if status != tt.status || !strings.Contains(message, tt.message) || !strings.Contains(hint, tt.hint) {
			t.Errorf("%s %s %s: HTTP %d %q, hint %q", tt.method, tt.path, tt.body, status, message, hint)
		}
	}
}

// The clock is where it was put, or it says that it cannot be put there.
func TestClockStaysInReach(t *testing.T) {
	t.Parallel()
	sim, err := simulator.New(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	try(t, sim.SetTime(at(t, "2300-01-01T00:00:00")))
	for name, move := range map[string]func() error{
		"set too far ahead": func() error { return sim.SetTime(at(t, "9999-12-31T23:59:59")) },
		"set too far back":  func() error { return sim.SetTime(at(t, "1700-01-01T00:00:00")) },
		"advanced too far":  func() error { return sim.Advance(100 * 365 * 24 * time.Hour) },
	} {
		if err := move(); err == nil || sim.Now().Year() != 2300 {
			t.Errorf("%s: %v, the clock shows %v", name, err, sim.Now())
		}
	}
	try(t, sim.Advance(-274*365*24*time.Hour))
	if year := sim.Now().Year(); year != 2026 {
		t.Errorf("moved back to %d", year)
	}
}

// The list that GET /_simulator/ prints is the truth: every line of it works as it stands.
func TestControlListIsTrue(t *testing.T) {
	t.Parallel()
	sim, err := simulator.New(simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	res, err := sim.Client().Get(simulator.Endpoint + "/_simulator/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	list, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(list)) {
		method, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		path, body, _ := strings.Cut(strings.TrimSpace(rest), " ")
		path = strings.TrimPrefix(path, "/_simulator/")
		if path == "faults/{id}" {
			id := controlOK(t, sim, "POST", "faults", `{"kind": "throttle"}`).(map[string]any)["id"].(float64)
			path = "faults/" + string(rune('0'+int(id)))
		}
		lines++
		if strings.HasPrefix(path, "first-click") { // a page, and no JSON
			if status, page := firstClick(t, sim, path); status != http.StatusOK {
				t.Errorf("%s: HTTP %d\n%s", path, status, page)
			}
			continue
		}
		controlOK(t, sim, method, path, body)
	}
	if lines < 17 {
		t.Errorf("%d lines", lines)
	}
}
