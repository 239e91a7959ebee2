package marketplace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// wire is an in-process way to a simulator that keeps the bodies.
type wire struct {
	client *http.Client
	mu     sync.Mutex
	bodies [][]byte
}

func (w *wire) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.bodies = append(w.bodies, body)
	w.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	return w.client.Do(r)
}

// service is a simulator that knows licenseA, and a Client of it over the real SDK.
func service(t *testing.T, o simulator.Options) (*simulator.Simulator, *wire, *marketplace.Client) {
	t.Helper()
	o.ProductCode = product
	sim, err := simulator.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := sim.PutLicense(simulator.License{ARN: licenseA, AccountID: buyer}); err != nil {
		t.Fatal(err)
	}
	if err := sim.PutCustomer(simulator.Customer{Identifier: "cust-1", AccountID: buyer, Active: true}); err != nil {
		t.Fatal(err)
	}
	w := &wire{client: sim.Client()}
	return sim, w, marketplace.New(marketplace.Options{
		Region: "us-east-1", Endpoint: simulator.Endpoint, HTTPClient: w, ProductCode: product,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})
}

// Case 59: each scheme has its own members, and nothing of the other's. Tags that are not there are left out.
func TestBodiesOfTheTwoSchemes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		_, wire, client := service(t, simulator.Options{})
		tagged := record("tagged", 5)
		tagged.Allocations = []metering.Allocation{{Quantity: 2}, {Quantity: 3, Tags: []metering.Tag{{Key: "team", Value: "a b"}}}}
		old := legacy("cust-1", "api_calls", 7)
		books := deskOf(tagged, old)
		report, err := marketplace.NewSender(client, marketplace.Settings{}).Send(t.Context(), []lane{laneOf(tagged, old)}, books)
		if err != nil || report.Settled != 2 || report.Unmatched != 0 {
			t.Fatalf("report %+v, error %v", report, err)
		}
		got := map[string]any{}
		for _, body := range wire.bodies {
			var v map[string]any
			if err := json.Unmarshal(body, &v); err != nil {
				t.Fatal(err)
			}
			scheme := "license"
			if _, ok := v["ProductCode"]; ok {
				scheme = "legacy"
			}
			got[scheme] = v
		}
		const hour = 1773151200.0 // 2026-03-10T14:00:00Z
		want := map[string]any{
			"license": map[string]any{"UsageRecords": []any{map[string]any{
				"LicenseArn": licenseA, "CustomerAWSAccountId": buyer, "Dimension": "tagged", "Quantity": 5.0, "Timestamp": hour,
				"UsageAllocations": []any{
					map[string]any{"AllocatedUsageQuantity": 2.0},
					map[string]any{"AllocatedUsageQuantity": 3.0, "Tags": []any{map[string]any{"Key": "team", "Value": "a b"}}},
				},
			}}},
			"legacy": map[string]any{"ProductCode": product, "UsageRecords": []any{map[string]any{
				"CustomerIdentifier": "cust-1", "Dimension": "api_calls", "Quantity": 7.0, "Timestamp": hour,
			}}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// Case 4: the service says of an unknown buyer either that the whole call is refused or that one record is. Both end alike.
func TestAnUnknownBuyerAmongKnownOnes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[simulator.Refusal]metering.Status{
		simulator.ByException: metering.RejectedClientSide, simulator.ByStatus: metering.CustomerNotSubscribed,
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin(t)
				sim, _, client := service(t, simulator.Options{UnknownCustomer: mode, CallsPerSecond: simulator.DefaultCallsPerSecond, ShuffleResults: true})
				pending := records(24)
				for i := range pending {
					pending[i].License = fmt.Sprintf("%s-%d", licenseA, i)
					if err := sim.PutLicense(simulator.License{ARN: pending[i].License, AccountID: buyer}); err != nil {
						t.Fatal(err)
					}
				}
				stranger := recordOf(metering.Group{License: licenseA, Account: "999999999999", Dimension: "d24"}, 5)
				pending = append(pending, stranger)
				books := deskOf(pending...)
				sender := marketplace.NewSender(client, marketplace.Settings{})
				report, err := sender.Send(t.Context(), []lane{laneOf(pending...)}, books)
				if err != nil || report.Settled != 25 || report.Calls > 11 || len(sim.Ledger()) != 24 {
					t.Fatalf("report %+v, error %v, %d billed", report, err, len(sim.Ledger()))
				}
				if diff := cmp.Diff(map[metering.Status]int{metering.Success: 24, want: 1}, books.statuses()); diff != "" {
					t.Error(diff)
				}
				if got := books.of(stranger); mode == simulator.ByException && got.StatusReason != "InvalidLicenseException" {
					t.Errorf("reason %q", got.StatusReason)
				}
				if report, err = sender.Send(t.Context(), []lane{laneOf(books.pending()...)}, books); err != nil || report.Calls != 0 {
					t.Errorf("next run: report %+v, error %v", report, err)
				}
			})
		})
	}
}

// Case 33: calls stay under 1,000,000 bytes as they go over the wire.
func TestLargeRecordsAreSpreadOverCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		sim, wire, client := service(t, simulator.Options{})
		pending := records(25)
		for i := range pending {
			pending[i].Allocations = allocations(60_000)
			for j := range pending[i].Allocations {
				pending[i].Allocations[j].Quantity = 1
			}
			pending[i].Quantity = metering.Units(int64(len(pending[i].Allocations)))
		}
		report, err := marketplace.NewSender(client, marketplace.Settings{}).Send(t.Context(), []lane{laneOf(pending...)}, deskOf(pending...))
		if err != nil || report.Settled != 25 || len(sim.Ledger()) != 25 {
			t.Fatalf("report %+v, error %v", report, err)
		}
		if len(wire.bodies) != 2 {
			t.Errorf("%d calls, want 2", len(wire.bodies))
		}
		for _, body := range wire.bodies {
			if len(body) >= 1_000_000 {
				t.Errorf("a call of %d bytes", len(body))
			}
		}
	})
}

// A reply that was lost leaves its records pending; sent again they are billed once.
func TestALostReplyIsSentAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		sim, _, client := service(t, simulator.Options{})
		pending := records(25)
		books := deskOf(pending...)
		sim.Inject(simulator.Fault{Kind: simulator.LoseReply, Times: 1})
		sender := marketplace.NewSender(client, marketplace.Settings{})
		if _, err := sender.Send(t.Context(), []lane{laneOf(pending...)}, books); !errors.Is(err, simulator.ErrConnection) {
			t.Fatalf("error %v", err)
		}
		if billed := len(sim.Ledger()); billed != 25 || len(books.pending()) != 25 {
			t.Fatalf("%d billed, %d pending", billed, len(books.pending()))
		}
		report, err := sender.Send(t.Context(), []lane{laneOf(books.pending()...)}, books)
		if err != nil || report.Settled != 25 || len(sim.Ledger()) != 25 || books.statuses()[metering.Success] != 25 {
			t.Errorf("report %+v, error %v, %v", report, err, books.statuses())
		}
	})
}

// The SDK makes one attempt: repeats are ours, and paced.
func TestTheClientDoesNotRepeat(t *testing.T) {
	t.Parallel()
	sim, wire, client := service(t, simulator.Options{OpenDoors: true})
	for _, kind := range []simulator.FaultKind{simulator.Throttle, simulator.InternalError, simulator.Unreachable} {
		remove := sim.Inject(simulator.Fault{Kind: kind})
		before := len(wire.bodies)
		_, err := client.Call(t.Context(), metering.Call{Records: []metering.UsageRecord{{
			License: licenseA, Account: buyer, Dimension: "d", Second: metering.Second(time.Now().Unix()),
		}}})
		remove()
		if err == nil || len(wire.bodies) != before+1 {
			t.Errorf("%s: error %v after %d attempts", kind, err, len(wire.bodies)-before)
		}
	}
}

// F33, and an answer with every member left out.
func TestAnswersWithMissingMembers(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		_, _ = io.WriteString(w, `{"Results":[{"Status":"Success"},{"UsageRecord":{"Dimension":"d","Quantity":3,"LicenseArn":"`+licenseA+`","Timestamp":1773151200},"Status":"DuplicateRecord","MeteringRecordId":"m"}],"UnprocessedRecords":[{}]}`)
	}))
	defer server.Close()
	client := marketplace.New(marketplace.Options{Region: "us-east-1", Endpoint: server.URL, HTTPClient: server.Client()})
	got, err := client.Call(t.Context(), metering.Call{})
	if err != nil {
		t.Fatal(err)
	}
	want := metering.Answer{
		Results: []metering.Result{
			{Status: metering.Success},
			{Status: metering.DuplicateRecord, RecordID: "m", Usage: metering.UsageRecord{License: licenseA, Dimension: "d", Quantity: 3, Second: 1773151200}},
		},
		Unprocessed: []metering.UsageRecord{{}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What a person can act on is said with the command that helps.
func TestErrorsCarryAHint(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	free := "http://" + listener.Addr().String()
	_ = listener.Close()
	refusing := func(code string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amzn-Errortype", code)
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"__type":"`+code+`","message":"no"}`)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	tests := []struct{ name, endpoint, region, want string }{
		{"nothing listens", free, "us-east-1", "awsmp simulator"},
		{"no permission", refusing("AccessDeniedException"), "us-east-1", "aws-marketplace:BatchMeterUsage"},
		{"old credentials", refusing("ExpiredTokenException"), "us-east-1", "aws sts get-caller-identity"},
		{"unknown credentials", refusing("UnrecognizedClientException"), "us-east-1", "aws sts get-caller-identity"},
		{"Region not enabled", refusing("DisabledApiException"), "eu-west-1", "not enabled in eu-west-1"},
		{"another product", refusing("InvalidProductCodeException"), "us-east-1", product},
		{"no Region", "", "", "AWS_REGION"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			transport := &http.Transport{DisableKeepAlives: true}
			client := marketplace.New(marketplace.Options{
				Region: test.region, Endpoint: test.endpoint, ProductCode: product, HTTPClient: &http.Client{Transport: transport},
			})
			_, err := client.Call(t.Context(), metering.Call{Legacy: true})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v, want a hint with %q", err, test.want)
			}
			if kind, _ := marketplace.Classify(err); kind != marketplace.Fatal {
				t.Errorf("kind %v, want Fatal", kind)
			}
		})
	}
}
