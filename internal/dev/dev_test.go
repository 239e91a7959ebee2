package dev_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/store/sqlite"
	"github.com/awsmp/metering/simulator"
)

// TestUsageBecomesRevenue goes the whole way over HTTP, and over a restart.
func TestUsageBecomesRevenue(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := start(t, dir)
	m.post("application/json", "", object("2026-03-10T14:10:00", 3))
	m.advance(afternoon.Add(20 * time.Minute))
	m.post("application/json", "", object("2026-03-10T15:10:00", 4))
	m.wantPlaces(7, map[ledger.Place]int64{ledger.Billed: 3, ledger.InFlight: 4})
	m.stop()

	m = start(t, dir, func(o *dev.Options) { o.At = time.Time{} })
	m.wantPlaces(7, map[ledger.Place]int64{ledger.Billed: 3, ledger.InFlight: 4})
	m.advance(afternoon.Add(time.Hour))
	m.wantPlaces(7, map[ledger.Place]int64{ledger.Billed: 7})
	for query, units := range map[string]int64{
		"?hour=2026-03-10T14": 3, "?from=2026-03-10T15": 4, "?to=2026-03-10T14": 3, "?license=" + licenseOne: 7, "?license=" + licenseOne[:len(licenseOne)-1] + "b": 0,
	} {
		if d := m.ledger(query); d.Written.Units != units || !d.CrossCheck.Equal || d.CrossCheck.Theirs != units {
			t.Errorf("%s: written %d, compared %+v", query, d.Written.Units, d.CrossCheck)
		}
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	m.post("application/json", "", object("2026-03-10T13:10:00", 3))
	m.post("application/json", "", object("2026-03-10T15:10:00", 40))
	m.advance(afternoon.Add(15 * time.Minute)) // 13:00 is metered, and not yet sent
	var got dev.Status
	if r := m.ask(http.MethodGet, "/v1/status", nil, nil, &got); r.StatusCode != http.StatusOK {
		t.Fatal(r.Status)
	}
	within := cmpopts.EquateApproxTime(2 * time.Second) // the clock runs
	want := []dev.Waiting{
		{Bucket: "2026-03-10T13", Records: 1, Units: 3, LostAt: time.Date(2026, 3, 11, 13, 0, 0, 0, time.UTC)},
		{Bucket: "2026-03-10T15", Rows: 1, Units: 40, LostAt: time.Date(2026, 3, 11, 15, 0, 0, 0, time.UTC)},
	}
	if diff := cmp.Diff(want, got.Waiting, cmpopts.IgnoreFields(dev.Waiting{}, "LostIn")); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	if left, err := time.ParseDuration(got.Waiting[0].LostIn); err != nil || !cmp.Equal(got.Now.Add(left), got.Waiting[0].LostAt, within) {
		t.Errorf("lost in %q at %v: %v", got.Waiting[0].LostIn, got.Now, err)
	}
	if !cmp.Equal(got.Now, afternoon.Add(15*time.Minute), within) || !cmp.Equal(got.Started, afternoon, within) ||
		got.Store != "usage.db" || got.Marketplace != "simulator" || got.LockHours != 1 || got.DeadLetters != 0 {
		t.Errorf("status %+v", got)
	}
	var did []string
	for _, s := range got.Stages {
		did = append(did, s.Name+": "+s.Last)
	}
	if diff := cmp.Diff([]string{
		"meter: 1 group found", "flush-deprovisioning: ", "aggregate: 1 group visited", "cleanup: 1 label message written",
		"submit: ", "expire: ", "ageout: ", "finalize: ",
	}, did); diff != "" {
		t.Errorf("stages (-want +got):\n%s", diff)
	}
	if len(got.Queues) != 3 || got.Queues[0].Visible+got.Queues[0].InFlight != 0 {
		t.Errorf("queues %+v", got.Queues)
	}
	m.advance(afternoon.Add(20 * time.Minute))
	m.ask(http.MethodGet, "/v1/status", nil, nil, &got)
	if did := got.Stages[4].Last; did != "1 call, 1 record answered, 3 units billed" {
		t.Errorf("submit: %s", did)
	}
	if diff := cmp.Diff([]dev.Metric{{Name: "UsageBilled", Items: 1, Units: 3}}, got.Metrics); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if got.Simulator == nil || *got.Simulator != (dev.Simulator{Hours: 1, Units: 3, Calls: 1}) {
		t.Errorf("simulator %+v", got.Simulator)
	}
}

func TestRequestsThatAreNone(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"GET", "/v1/usage", "", 405},
		{"POST", "/v1/status", "", 405},
		{"DELETE", "/v1/clock", "", 405},
		{"GET", "/v1/other", "", 404},
		{"GET", "/other", "", 404}, // the simulator's word
		{"GET", "/v1/ledger?hour=today", "", 400},
		{"GET", "/v1/ledger?hour=2026-03-10T14&to=2026-03-10T15", "", 400},
		{"GET", "/v1/ledger?day=2026-03-10", "", 400},
		{"GET", "/v1/ledger?license=%zz", "", 400},
		{"GET", "/v1/ledger?license=x;hour=2026-03-10T14", "", 400},
		{"GET", "/v1/ledger?hour=2026-03-10T14&hour=2026-03-10T15", "", 400},
		{"GET", "/v1/refused?license=%zz", "", 400},
		{"POST", "/v1/clock", "", 400},
		{"POST", "/v1/clock", "{}", 400},
		{"POST", "/v1/clock", `{"advance": "1h", "to": "2026-03-10T18:00:00Z"}`, 400},
		{"POST", "/v1/clock", `{"advance": "one hour"}`, 400},
		{"POST", "/v1/clock", `{"forward": "1h"}`, 400},
		{"POST", "/v1/clock", `{"advance": "1h"} {}`, 400},
		{"POST", "/v1/clock", `{"advance": "` + strings.Repeat(" ", 70_000) + `"}`, 400},
		{"POST", "/v1/clock", `{"to": "2026-03-10T15:00:00Z"}`, 409},
		{"POST", "/v1/clock", `{"advance": "-1h"}`, 409},
	} {
		var p dev.Problem
		r := m.ask(c.method, c.path, nil, strings.NewReader(c.body), &p)
		if r.StatusCode != c.status || p.Error == "" || p.Hint == "" {
			t.Errorf("%s %s %s: %d %+v, want %d", c.method, c.path, c.body, r.StatusCode, p, c.status)
		}
		if c.status == 405 && r.Header.Get("Allow") == "" {
			t.Errorf("%s %s does not say what is allowed", c.method, c.path)
		}
	}
	foreign := map[string]string{"Origin": "https://elsewhere.example", "Content-Type": "application/json"}
	if r := m.ask("POST", "/v1/clock", foreign, strings.NewReader(`{"advance": "1h"}`), nil); r.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign page moved the clock: %s", r.Status)
	}
	if r := m.ask("GET", "/", nil, nil, nil); r.StatusCode != http.StatusOK || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("%s %v", r.Status, r.Header)
	}
	if now := m.Now(); now.Sub(afternoon) > time.Minute {
		t.Errorf("the clock shows %v", now)
	}
}

// TestTheAddressIsAMarketplace: what is not the node's own goes to the simulator, on the node's clock.
func TestTheAddressIsAMarketplace(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	call := `{"UsageRecords": [{"LicenseArn": "` + licenseOne + `", "CustomerAWSAccountId": "` + buyerOne + `", "Dimension": "d", "Quantity": 2, "Timestamp": ` +
		jsonNumber(afternoon.Add(-time.Hour).Unix()) + `}]}`
	header := map[string]string{"X-Amz-Target": "AWSMPMeteringService.BatchMeterUsage", "Content-Type": "application/x-amz-json-1.1"}
	var out struct{ Results []struct{ Status string } }
	if r := m.ask("POST", "/", header, strings.NewReader(call), &out); r.StatusCode != 200 || len(out.Results) != 1 || out.Results[0].Status != "Success" {
		t.Errorf("%s %+v", r.Status, out)
	}
	var billed []simulator.Billed
	if m.ask("GET", "/_simulator/ledger", nil, nil, &billed); len(billed) != 1 || billed[0].Quantity != 2 {
		t.Errorf("billed %+v", billed)
	}
	if d := m.ledger(""); d.CrossCheck.Equal || len(d.CrossCheck.Differences) != 1 { // billed past the pipeline
		t.Errorf("compared %+v", d.CrossCheck)
	}
}

func jsonNumber(n int64) string {
	text, _ := json.Marshal(n)
	return string(text)
}

func TestMarketplaceElsewhere(t *testing.T) {
	t.Parallel()
	sim, err := simulator.New(simulator.Options{OpenDoors: true, Now: func() time.Time { return afternoon.Add(time.Hour) }})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := httptest.NewServer(sim)
	defer elsewhere.Close()
	m := start(t, t.TempDir(), func(o *dev.Options) { o.MarketplaceEndpoint = elsewhere.URL })
	m.post("application/json", "", object("2026-03-10T14:10:00", 3))
	m.advance(afternoon.Add(20 * time.Minute))
	if b, ok := sim.Billed(licenseOne, buyerOne, "api_calls", afternoon.Add(-time.Hour)); !ok || b.Quantity != 3 {
		t.Errorf("billed %+v", b)
	}
	if d := m.ledger(""); !d.Balanced || d.CrossCheck != nil || d.Places[ledger.Billed].Units != 3 {
		t.Errorf("ledger %+v", d)
	}
	var p dev.Problem
	if r := m.ask("POST", "/", nil, nil, &p); r.StatusCode != 404 || !strings.Contains(p.Error, elsewhere.URL) {
		t.Errorf("%s %+v", r.Status, p)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestClockStartsWhereItStood(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := start(t, dir)
	m.advance(afternoon.Add(9 * time.Hour))
	m.stop()
	m = start(t, dir, func(o *dev.Options) { o.At = time.Time{} })
	stood := m.Now()
	if d := stood.Sub(afternoon.Add(9 * time.Hour)); d < 0 || d > time.Minute {
		t.Errorf("it shows %v", stood)
	}
	m.stop()
	folder, err := dev.OpenFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	var past *dev.ClockError
	if _, err := dev.New(t.Context(), dev.Options{Store: folder.Store, At: afternoon}); !errors.As(err, &past) || past.Clock.Before(stood) {
		t.Errorf("error %v", err)
	}
	ahead, err := dev.New(t.Context(), dev.Options{Store: folder.Store, At: afternoon.Add(72 * time.Hour)})
	if err != nil || ahead.Now().Sub(afternoon.Add(72*time.Hour)) > time.Minute {
		t.Fatalf("it shows %v: %v", ahead.Now(), err)
	}
	if err := ahead.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestClockOfAStoreThatWasOnlyImportedInto: its usage is of real time, so the clock does not begin before it.
func TestClockOfAStoreThatWasOnlyImportedInto(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, err := dev.OpenFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	m, err := dev.New(t.Context(), dev.Options{Store: folder.Store})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(m.Handler())
	defer server.Close()
	now := time.Now().UTC()
	r, err := server.Client().Post(server.URL+"/v1/usage", "application/json", strings.NewReader(object(now.Format("2006-01-02T15:04:05"), 3)))
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("%v %v", r, err)
	}
	r.Body.Close()
	if err := m.Close(t.Context()); err != nil {
		t.Error(err)
	}
	var past *dev.ClockError
	if _, err := dev.New(t.Context(), dev.Options{Store: folder.Store, At: afternoon}); !errors.As(err, &past) {
		t.Errorf("error %v", err)
	}
}

func TestFolderIsTakenOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder, err := dev.OpenFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.Announce("http://127.0.0.1:1234"); err != nil {
		t.Fatal(err)
	}
	var inUse *dev.InUseError
	if _, err := dev.OpenFolder(t.Context(), dir); !errors.As(err, &inUse) || inUse.Process != os.Getpid() || inUse.Node != "http://127.0.0.1:1234" {
		t.Errorf("error %v", err)
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	if owner, err := dev.OwnerOf(dir); err != nil || owner != (dev.Owner{}) {
		t.Errorf("owner %+v: %v", owner, err)
	}
	if folder, err = dev.OpenFolder(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := folder.Close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(folder.StorePath(), []byte("this is no store, whatever its name may say"), 0o600); err != nil {
		t.Fatal(err)
	}
	var problem *sqlite.Problem
	if _, err := dev.OpenFolder(t.Context(), dir); !errors.As(err, &problem) || problem.Hint == "" {
		t.Errorf("error %v", err)
	}
}

// TestServeEndsInOrder: an advance that is under way stops between two instants, its caller hears where, and the node ends.
func TestServeEndsInOrder(t *testing.T) {
	t.Parallel()
	folder, err := dev.OpenFolder(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	played := 0
	m, err := dev.New(ctx, dev.Options{Store: folder.Store, At: afternoon, Observe: func(node.Event, string) {
		if played++; played == 100 {
			stop()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close(context.Background()) }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- m.Serve(ctx, listener) }()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	r, err := client.Post("http://"+listener.Addr().String()+"/v1/clock", "application/json", strings.NewReader(`{"advance": "2000h"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var p dev.Problem
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil || r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(p.Error, "stopped at 2026-03-10T") {
		t.Errorf("%s %+v: %v", r.Status, p, err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}

func TestServeFailsWithItsListener(t *testing.T) {
	t.Parallel()
	folder, err := dev.OpenFolder(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	m, err := dev.New(t.Context(), dev.Options{Store: folder.Store})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = m.Close(context.Background()) }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	if err := m.Serve(t.Context(), listener); err == nil {
		t.Error("a node nobody can reach goes on")
	}
}
