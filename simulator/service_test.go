package simulator_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/simulator"
	"github.com/google/go-cmp/cmp"
)

func TestQuota(t *testing.T) {
	t.Parallel()
	sim, clock := service(t, simulator.Options{CallsPerSecond: simulator.DefaultCallsPerSecond})
	try := func() string { return meter(t, sim, batch(usage())).outcome() }
	for range 10 {
		if got := try(); got != "Success" {
			t.Fatalf("%s inside the burst", got)
		}
	}
	if got := try(); got != "ThrottlingException" {
		t.Errorf("%s on call 11 of one instant, want throttling", got)
	}
	clock.now = clock.now.Add(100 * time.Millisecond)
	if got := []string{try(), try()}; !cmp.Equal(got, []string{"Success", "ThrottlingException"}) {
		t.Errorf("%v after a tenth of a second, want one call more", got)
	}
	// ResolveCustomer is not in the published quotas and does not share the bucket.
	token := issue(t, sim, simulator.Token{AccountID: buyer})
	if got := call(t, sim, "ResolveCustomer", fields{"RegistrationToken": token}); got.HTTP != 200 {
		t.Errorf("ResolveCustomer answered HTTP %d", got.HTTP)
	}
	clock.now = clock.now.Add(time.Hour)
	got := repeat(12, func(int) string { return try() })
	if want := append(repeat(10, func(int) string { return "Success" }), "ThrottlingException", "ThrottlingException"); !cmp.Equal(want, got) {
		t.Errorf("%v after an hour, want a burst of 10 and no more", got)
	}

	open, _ := service(t, simulator.Options{})
	for range 1000 {
		wantOutcome(t, meter(t, open, batch(usage())), "Success")
	}
}

func TestDisabledSwitch(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{Disabled: true})
	wantOutcome(t, meter(t, sim, batch(usage())), "DisabledApiException")
	wantOutcome(t, call(t, sim, "ResolveCustomer", fields{"RegistrationToken": "x"}), "DisabledApiException")
}

func TestStatsAndCalls(t *testing.T) {
	t.Parallel()
	sim, clock := service(t, simulator.Options{CallLog: 3})
	start := clock.now
	step := func(d time.Duration, body fields) {
		clock.now = start.Add(d)
		meter(t, sim, body)
	}
	step(0, batch(usage(), usage(fields{"Quantity": 9})))
	step(400*time.Millisecond, batch(usage(fields{"Quantity": -1})))
	step(999*time.Millisecond, batch(usage(fields{"Dimension": "d2"})))
	call(t, sim, "ResolveCustomer", fields{"RegistrationToken": "x"}) // has no part in the busiest second
	step(1000*time.Millisecond, batch(usage()))
	remove := sim.Inject(simulator.Fault{Kind: simulator.Throttle})
	step(5*time.Second, batch(usage()))
	remove()

	want := simulator.Stats{
		Calls: 6, Records: 4, Throttled: 1, BusiestSecond: 3,
		Statuses:   map[string]int{"Success": 3, "DuplicateRecord": 1},
		Exceptions: map[string]int{"ValidationException": 1, "ThrottlingException": 1, "InvalidTokenException": 1},
		FirstCall:  start, LastCall: start.Add(5 * time.Second),
	}
	if diff := cmp.Diff(want, sim.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
	calls := sim.Calls()
	for i := range calls {
		if calls[i].Bytes == 0 {
			t.Errorf("call %d has no size", i)
		}
		calls[i].Bytes = 0
	}
	wantCalls := []simulator.Call{
		{At: start.Add(999 * time.Millisecond), Operation: "ResolveCustomer", Exception: "InvalidTokenException"},
		{At: start.Add(time.Second), Operation: "BatchMeterUsage", Records: 1},
		{At: start.Add(5 * time.Second), Operation: "BatchMeterUsage", Records: 1, Exception: "ThrottlingException"},
	}
	if diff := cmp.Diff(wantCalls, calls); diff != "" {
		t.Errorf("the last three calls (-want +got):\n%s", diff)
	}
}

func TestResolveCustomer(t *testing.T) {
	t.Parallel()
	sim, clock := service(t, simulator.Options{})
	start := clock.now
	resolve := func(body any) reply { return call(t, sim, "ResolveCustomer", body) }
	licensed := issue(t, sim, simulator.Token{AccountID: buyer, LicenseARN: licenseA})
	old := issue(t, sim, simulator.Token{CustomerIdentifier: "cust-1", AccountID: other, ProductCode: "second", TTL: time.Minute})
	named := issue(t, sim, simulator.Token{Value: "given", AccountID: buyer})
	if named != "given" || licensed == old || !strings.ContainsAny(licensed, "+/=") {
		t.Errorf("tokens %q, %q and %q: want the given value, and distinct ones that need form encoding", named, licensed, old)
	}
	wantLicensed := map[string]any{"CustomerAWSAccountId": buyer, "LicenseArn": licenseA, "ProductCode": product}
	for _, after := range []time.Duration{0, time.Hour, 4*time.Hour - time.Second} { // reusable until it expires
		clock.now = start.Add(after)
		if diff := cmp.Diff(wantLicensed, resolve(fields{"RegistrationToken": licensed}).raw); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", after, diff)
		}
	}
	clock.now = start.Add(4 * time.Hour)
	wantOutcome(t, resolve(fields{"RegistrationToken": licensed}), "ExpiredTokenException")

	clock.now = start.Add(time.Minute - 1)
	wantLegacy := map[string]any{"CustomerIdentifier": "cust-1", "CustomerAWSAccountId": other, "ProductCode": "second"}
	if diff := cmp.Diff(wantLegacy, resolve(fields{"RegistrationToken": old}).raw); diff != "" {
		t.Errorf("legacy (-want +got):\n%s", diff)
	}
	clock.now = start.Add(time.Minute)
	wantOutcome(t, resolve(fields{"RegistrationToken": old}), "ExpiredTokenException")
	wantOutcome(t, resolve(fields{"RegistrationToken": strings.ReplaceAll(licensed, "+", " ")}), "InvalidTokenException")
	wantOutcome(t, resolve(fields{"RegistrationToken": ""}), "ValidationException")
	wantOutcome(t, resolve(fields{"RegistrationToken": nil}), "ValidationException")
	wantOutcome(t, resolve(fields{"RegistrationToken": 7}), "SerializationException")
	wantOutcome(t, resolve("{"), "SerializationException")
}

func TestClock(t *testing.T) {
	t.Parallel()
	sim, err := simulator.New(simulator.Options{OpenDoors: true})
	if err != nil {
		t.Fatal(err)
	}
	target := time.Date(2026, 4, 1, 5, 50, 0, 0, time.UTC)
	if err := sim.SetTime(target); err != nil {
		t.Fatal(err)
	}
	record := batch(usage(stampedAt(t, "2026-03-31T23:00:00")))
	wantOutcome(t, meter(t, sim, record), "Success")
	if err := sim.Advance(10 * time.Minute); err != nil {
		t.Fatal(err)
	}
	if now := sim.Now(); now.Before(target.Add(10*time.Minute)) || now.Location() != time.UTC {
		t.Errorf("the clock shows %v", now)
	}
	wantOutcome(t, meter(t, sim, record), "TimestampOutOfBoundsException")

	foreign, _ := service(t, simulator.Options{})
	if foreign.Advance(time.Hour) != simulator.ErrForeignClock || foreign.SetTime(target) != simulator.ErrForeignClock {
		t.Error("a clock that was given can be moved")
	}
}

func TestProtocol(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, method, path, target, contentType string
		status                                  int
		want                                    string
	}{
		{"content type with a parameter", "POST", "/", "AWSMPMeteringService.BatchMeterUsage", "application/x-amz-json-1.1; charset=utf-8", 200, `{"Results":[],"UnprocessedRecords":[]}`},
		{"content type of a form", "POST", "/", "AWSMPMeteringService.BatchMeterUsage", "application/x-www-form-urlencoded", 400, "application/x-amz-json-1.1"},
		{"other operation", "POST", "/", "AWSMPMeteringService.MeterUsage", "application/x-amz-json-1.1", 400, "AWSMPMeteringService.BatchMeterUsage"},
		{"no operation", "POST", "/", "", "application/x-amz-json-1.1", 400, "UnknownOperationException"},
		{"other path", "POST", "/usage", "AWSMPMeteringService.BatchMeterUsage", "application/x-amz-json-1.1", 404, "calls are POST /"},
		{"a browser", "GET", "/", "", "", 404, "/_simulator/"},
	} {
		sim, _ := service(t, simulator.Options{})
		req, err := http.NewRequestWithContext(t.Context(), tt.method, simulator.Endpoint+tt.path, strings.NewReader(`{"UsageRecords":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Amz-Target", tt.target)
		req.Header.Set("Content-Type", tt.contentType)
		res, err := sim.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var body strings.Builder
		if err := res.Write(&body); err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != tt.status || !strings.Contains(body.String(), tt.want) {
			t.Errorf("%s: want HTTP %d with %q, got\n%s", tt.name, tt.status, tt.want, body.String())
		}
	}
}

func TestErrorHeaders(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{Disabled: true})
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, simulator.Endpoint, strings.NewReader("{}"))
	req.Header.Set("X-Amz-Target", "AWSMPMeteringService.ResolveCustomer")
	res, err := sim.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.Header.Get("X-Amzn-Errortype") != "DisabledApiException" || res.Header.Get("Content-Type") != "application/x-amz-json-1.1" ||
		len(res.Header.Get("X-Amzn-RequestId")) != 36 {
		t.Errorf("headers %v", res.Header)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		options simulator.Options
		names   string
	}{
		{simulator.Options{Window: -time.Hour}, "Window"},
		{simulator.Options{FutureTolerance: -1}, "FutureTolerance"},
		{simulator.Options{TokenTTL: -1}, "TokenTTL"},
		{simulator.Options{MaxRequestBytes: -1}, "MaxRequestBytes"},
		{simulator.Options{CallLog: -1}, "CallLog"},
		{simulator.Options{CallsPerSecond: -1}, "CallsPerSecond"},
		{simulator.Options{ProductCode: "a b"}, "ProductCode"},
		{simulator.Options{UnknownCustomer: "typo"}, "UnknownCustomer"},
		{simulator.Options{AfterWindow: "typo"}, "AfterWindow"},
		{simulator.Options{BeforeActivation: "typo"}, "BeforeActivation"},
		{simulator.Options{ClosingAnchor: "typo"}, "ClosingAnchor"},
	} {
		if _, err := simulator.New(tt.options); err == nil || !strings.Contains(err.Error(), tt.names) {
			t.Errorf("error %v for a bad %s", err, tt.names)
		}
	}
	sim, _ := service(t, simulator.Options{})
	for _, err := range []error{
		sim.PutLicense(simulator.License{ARN: "l-aaaa", AccountID: buyer}),
		sim.PutLicense(simulator.License{ARN: licenseA, AccountID: "buyer"}),
		sim.PutLicense(simulator.License{ARN: licenseA, AccountID: buyer, ProductCode: "a b"}),
		sim.PutCustomer(simulator.Customer{}),
		sim.PutCustomer(simulator.Customer{AccountID: "buyer"}),
	} {
		if err == nil {
			t.Error("a malformed license or customer was taken")
		}
	}
}

// The LicenseArn pattern of the API, at the edges of each segment.
func TestLicenseARNs(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return strings.Repeat("x", n) }
	for arn, want := range map[string]bool{
		licenseA: true,
		"arn:aws-cn:license-manager:cn-northwest-1:111122223333:license:l-1": true,
		"arn:aws:s:::r":                     true,
		"arn:aws:s::a.b/c_d:r:_/+=,@.-":     true,
		"arn:aws:" + long(63) + ":::r":      true,
		"arn:aws:" + long(64) + ":::r":      false,
		"arn:aws:s:" + long(63) + "::r":     true,
		"arn:aws:s:" + long(64) + "::r":     false,
		"arn:aws:s::" + long(63) + ":r":     true,
		"arn:aws:s::" + long(64) + ":r":     false,
		"arn:aws:s:::" + long(1024):         true,
		"arn:aws:s:::" + long(1025):         false,
		"arn:aws::::r":                      false,
		"arn:aws:-s:::r":                    false,
		"arn:aws:s b:::r":                   false,
		"arn:aws:s:r b::r":                  false,
		"arn:aws:s::a b:r":                  false,
		"arn:aws:s:::":                      false,
		"arn:aws:s:::-r":                    false,
		"arn:aws:s:::r#":                    false,
		"arn:aws1:s:::r":                    false,
		"arn:amazon:s:::r":                  false,
		"arn:aws:s::r":                      false,
		"aws:license-manager:::license:l-1": false,
		" arn:aws:s:::r":                    false,
		"arn:aws:s:::license:l-\u00e9":      false,
	} {
		sim, _ := service(t, simulator.Options{})
		if err := sim.PutLicense(simulator.License{ARN: arn, AccountID: buyer}); (err == nil) != want {
			t.Errorf("%q: error %v, want it taken: %v", arn, err, want)
		}
	}
}

// Many callers at once, each hour sent by all of them with quantities of their own: one wins, and every one hears so.
func TestConcurrentCallers(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{})
	const callers, dimensions = 8, 20
	var all sync.WaitGroup
	answers := make([]reply, callers)
	for c := range callers {
		all.Go(func() {
			answers[c] = meter(t, sim, batch(repeat(dimensions, func(i int) fields {
				return usage(fields{"Dimension": fmt.Sprint("d", i), "Quantity": c})
			})...))
			sim.Ledger()
			sim.Stats()
		})
	}
	all.Wait()
	for i := range dimensions {
		b, ok := sim.Billed(licenseA, buyer, fmt.Sprint("d", i), at(t, "2026-03-10T14:00:00"))
		if !ok {
			t.Fatalf("dimension %d was not billed", i)
		}
		for c, answer := range answers {
			want := "DuplicateRecord"
			if int64(c) == b.Quantity {
				want = "Success"
			}
			if answer.Statuses[i] != want {
				t.Errorf("caller %d heard %s for dimension %d, want %s", c, answer.Statuses[i], i, want)
			}
		}
	}
}

func BenchmarkBatchMeterUsage25(b *testing.B) {
	sim, err := simulator.New(simulator.Options{OpenDoors: true})
	if err != nil {
		b.Fatal(err)
	}
	var body strings.Builder
	body.WriteString(`{"UsageRecords":[`)
	for i := range 25 {
		if i > 0 {
			body.WriteByte(',')
		}
		fmt.Fprintf(&body, `{"CustomerAWSAccountId":"%s","Dimension":"dimension-%d","LicenseArn":"%s","Quantity":%d,"Timestamp":%d}`,
			buyer, i, licenseA, i, sim.Now().Truncate(time.Hour).Unix())
	}
	body.WriteString(`]}`)
	client := sim.Client()
	b.ReportAllocs()
	for b.Loop() {
		req, _ := http.NewRequest(http.MethodPost, simulator.Endpoint, strings.NewReader(body.String()))
		req.Header.Set("Content-Type", "application/x-amz-json-1.1")
		req.Header.Set("X-Amz-Target", "AWSMPMeteringService.BatchMeterUsage")
		res, err := client.Do(req)
		if err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res, err)
		}
	}
}
