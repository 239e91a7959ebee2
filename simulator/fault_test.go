package simulator_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awsmp/metering/simulator"
)

func TestFaultsThatRefuse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind   simulator.FaultKind
		want   string
		status int
	}{
		{simulator.Throttle, "ThrottlingException", 400},
		{simulator.InternalError, "InternalServiceErrorException", 500},
		{simulator.Disabled, "DisabledApiException", 400},
	} {
		t.Run(string(tt.kind), func(t *testing.T) {
			t.Parallel()
			sim, _ := service(t, simulator.Options{})
			sim.Inject(simulator.Fault{Kind: tt.kind, Times: 2})
			for range 2 {
				got := meter(t, sim, batch(usage()))
				wantOutcome(t, got, tt.want)
				if got.HTTP != tt.status || len(sim.Ledger()) != 0 {
					t.Errorf("HTTP %d and %d entries, want %d and none", got.HTTP, len(sim.Ledger()), tt.status)
				}
			}
			wantOutcome(t, meter(t, sim, batch(usage())), "Success")
		})
	}
}

// Case 7: record 2 of 3 stays unprocessed on the call and on the retry.
func TestUnprocessedFaultCase7(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{})
	sim.Inject(simulator.Fault{Kind: simulator.Unprocessed, Times: 2, Match: func(r simulator.Record) bool { return r.Dimension == "second" }})
	second := usage(fields{"Dimension": "second"})
	got := meter(t, sim, batch(usage(), second, usage(fields{"Dimension": "third"})))
	wantOutcome(t, got, "Success,Success,1 unprocessed")
	echoed := got.raw["UnprocessedRecords"].([]any)[0].(map[string]any)
	if echoed["Dimension"] != "second" || echoed["Quantity"] != 10.0 || echoed["Status"] != nil {
		t.Errorf("unprocessed record %v, want the bare record that was sent", echoed)
	}
	wantOutcome(t, meter(t, sim, batch(second)), "1 unprocessed")
	if _, ok := sim.Billed(licenseA, buyer, "second", at(t, "2026-03-10T14:00:00")); ok {
		t.Error("an unprocessed record was billed")
	}
	wantOutcome(t, meter(t, sim, batch(second)), "Success")
}

func TestUnprocessedFaultTakesAllOfACall(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{})
	sim.Inject(simulator.Fault{Kind: simulator.Unprocessed, Times: 2})
	two := batch(usage(), usage(fields{"Dimension": "second"}))
	wantOutcome(t, meter(t, sim, two), "2 unprocessed") // Times counts calls, not records
	wantOutcome(t, meter(t, sim, two), "2 unprocessed")
	wantOutcome(t, meter(t, sim, two), "Success,Success")
}

func TestFaultBounds(t *testing.T) {
	t.Parallel()
	const struck, ok = "ThrottlingException", "Success"
	sim, clock := service(t, simulator.Options{})
	now := clock.now
	remove := sim.Inject(simulator.Fault{Kind: simulator.Throttle, From: now.Add(time.Minute), Until: now.Add(2 * time.Minute)})
	for _, tt := range []struct {
		after time.Duration
		want  string
	}{{time.Minute - 1, ok}, {time.Minute, struck}, {2*time.Minute - 1, struck}, {2 * time.Minute, ok}} {
		clock.now = now.Add(tt.after)
		wantOutcome(t, meter(t, sim, batch(usage())), tt.want)
	}
	clock.now = now.Add(time.Minute)
	remove()
	wantOutcome(t, meter(t, sim, batch(usage())), ok)

	sim.Inject(simulator.Fault{Kind: simulator.Throttle, Match: func(r simulator.Record) bool { return r.Quantity > 100 }})
	wantOutcome(t, meter(t, sim, batch(usage())), ok)
	wantOutcome(t, meter(t, sim, batch(usage(), usage(fields{"Dimension": "big", "Quantity": 101}))), struck)
	sim.ClearFaults()
	wantOutcome(t, meter(t, sim, batch(usage(fields{"Dimension": "big", "Quantity": 101}))), ok)

	token := issue(t, sim, simulator.Token{AccountID: buyer})
	sim.Inject(simulator.Fault{Kind: simulator.Throttle, Operation: "ResolveCustomer"})
	wantOutcome(t, meter(t, sim, batch(usage())), ok)
	wantOutcome(t, call(t, sim, "ResolveCustomer", fields{"RegistrationToken": token}), struck)
}

func TestFaultProbability(t *testing.T) {
	t.Parallel()
	draws := []float64{0.24, 0.25, 0.9, 0}
	sim, _ := service(t, simulator.Options{Rand: func() float64 { d := draws[0]; draws = draws[1:]; return d }})
	sim.Inject(simulator.Fault{Kind: simulator.Throttle, Probability: 0.25})
	for _, want := range []string{"ThrottlingException", "Success", "Success", "ThrottlingException"} {
		wantOutcome(t, meter(t, sim, batch(usage())), want)
	}
}

// post sends a valid call that is expected to get no answer.
func post(ctx context.Context, client *http.Client, url string) error {
	body := `{"UsageRecords":[{"CustomerAWSAccountId":"` + buyer + `","LicenseArn":"` + licenseA + `","Dimension":"api_calls","Quantity":10,"Timestamp":1773151200}]}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", "AWSMPMeteringService.BatchMeterUsage")
	res, err := client.Do(req)
	if err != nil {
		return err
	}
	return res.Body.Close()
}

func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind   simulator.FaultKind
		stored bool
	}{{simulator.LoseReply, true}, {simulator.Unreachable, false}} {
		for _, socket := range []bool{false, true} {
			sim, _ := service(t, simulator.Options{})
			client, url := sim.Client(), simulator.Endpoint
			if socket {
				server := httptest.NewServer(sim)
				t.Cleanup(server.Close)
				client, url = server.Client(), server.URL
			}
			sim.Inject(simulator.Fault{Kind: tt.kind, Times: 1})
			err := post(t.Context(), client, url)
			if err == nil || !socket && !errors.Is(err, simulator.ErrConnection) {
				t.Errorf("%s, socket %v: error %v, want a broken connection", tt.kind, socket, err)
			}
			if _, ok := sim.Billed(licenseA, buyer, "api_calls", at(t, "2026-03-10T14:00:00")); ok != tt.stored {
				t.Errorf("%s, socket %v: stored is %v", tt.kind, socket, ok)
			}
			if err := post(t.Context(), client, url); err != nil {
				t.Errorf("%s, socket %v: the call after it: %v", tt.kind, socket, err)
			}
			wantOutcome(t, meter(t, sim, batch(usage())), "Success")
			stats := sim.Stats()
			if want := map[simulator.FaultKind][2]int{simulator.LoseReply: {1, 0}, simulator.Unreachable: {0, 1}}[tt.kind]; want != [2]int{stats.RepliesLost, stats.Unreachable} {
				t.Errorf("%s: stats count %d lost replies and %d unreachable", tt.kind, stats.RepliesLost, stats.Unreachable)
			}
		}
	}
}

// A reply cannot be lost that says nothing was stored: the fault waits for a call that is accepted.
func TestLoseReplyWaitsForAnAcceptedCall(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{})
	sim.Inject(simulator.Fault{Kind: simulator.LoseReply, Times: 1})
	wantOutcome(t, meter(t, sim, batch(usage(fields{"Quantity": -1}))), "ValidationException")
	if err := post(t.Context(), sim.Client(), simulator.Endpoint); !errors.Is(err, simulator.ErrConnection) {
		t.Errorf("error %v, want a broken connection", err)
	}
}

// Inside a synctest bubble: the default clock and the default sleep are the bubble's.
func TestLatency(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sim, err := simulator.New(simulator.Options{OpenDoors: true, Window: 1e6 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if err := sim.SetTime(time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)); err != nil {
			t.Fatal(err)
		}
		sim.Inject(simulator.Fault{Kind: simulator.Latency, Latency: 2 * time.Second, Times: 2})
		sim.Inject(simulator.Fault{Kind: simulator.Latency, Latency: time.Second, Times: 1})

		start := time.Now()
		if err := post(t.Context(), sim.Client(), simulator.Endpoint); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != 3*time.Second {
			t.Errorf("took %v, want the sum of both latencies, 3s", took)
		}

		sim.ClearFaults()
		sim.Inject(simulator.Fault{Kind: simulator.Latency, Latency: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		before := sim.Stats().Calls
		err = post(ctx, sim.Client(), simulator.Endpoint)
		if !errors.Is(err, context.DeadlineExceeded) || sim.Stats().Calls != before+1 {
			t.Errorf("error %v after %d calls: the caller gives up, the call was handled", err, sim.Stats().Calls-before)
		}

		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if err := post(gone, sim.Client(), simulator.Endpoint); !errors.Is(err, context.Canceled) || sim.Stats().Calls != before+1 {
			t.Errorf("error %v: a call of a cancelled context must not arrive", err)
		}
	})
}

func TestMalformedFaultsPanic(t *testing.T) {
	t.Parallel()
	for _, f := range []simulator.Fault{
		{},
		{Kind: "typo"},
		{Kind: simulator.Throttle, Probability: 1.1},
		{Kind: simulator.Throttle, Probability: -0.1},
		{Kind: simulator.Throttle, Times: -1},
		{Kind: simulator.Throttle, Operation: "MeterUsage"},
		{Kind: simulator.Latency},
	} {
		sim, _ := service(t, simulator.Options{})
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Inject(%+v) took it", f)
				}
			}()
			sim.Inject(f)
		}()
	}
}
