package simulator_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/awsmp/metering/simulator"
	"github.com/google/go-cmp/cmp"
)

// First write wins: the key is the hour, so minutes do not matter, and several sends are not added up.
func TestFirstWriteWins(t *testing.T) {
	t.Parallel()
	sim, clock := service(t, simulator.Options{})
	first := meter(t, sim, batch(usage()))
	wantOutcome(t, first, "Success")
	clock.now = clock.now.Add(time.Minute)

	again := meter(t, sim, batch(usage()))
	wantOutcome(t, again, "Success")
	later := meter(t, sim, batch(usage(fields{"Timestamp": 1773151200 + 19*60})))
	wantOutcome(t, later, "Success")
	more := meter(t, sim, batch(usage(fields{"Quantity": 13})))
	wantOutcome(t, more, "DuplicateRecord")
	zero := meter(t, sim, batch(usage(fields{"Quantity": nil})))
	wantOutcome(t, zero, "DuplicateRecord")
	for _, r := range []reply{again, later, more, zero} {
		if first.IDs[0] == "" || r.IDs[0] != first.IDs[0] {
			t.Errorf("record id %q, want that of the first write, %q", r.IDs[0], first.IDs[0])
		}
	}
	next := meter(t, sim, batch(usage(fields{"Timestamp": 1773151200 + 3600})))
	wantOutcome(t, next, "Success")

	want := []simulator.Billed{
		{LicenseARN: licenseA, AccountID: buyer, Dimension: "api_calls", Hour: at(t, "2026-03-10T14:00:00"), Quantity: 10,
			MeteringRecordID: first.IDs[0], At: at(t, "2026-03-10T15:20:00"), Timestamp: at(t, "2026-03-10T14:00:00")},
		{LicenseARN: licenseA, AccountID: buyer, Dimension: "api_calls", Hour: at(t, "2026-03-10T15:00:00"), Quantity: 10,
			MeteringRecordID: next.IDs[0], At: at(t, "2026-03-10T15:21:00"), Timestamp: at(t, "2026-03-10T15:00:00")},
	}
	if diff := cmp.Diff(want, sim.Ledger()); diff != "" {
		t.Errorf("ledger (-want +got):\n%s", diff)
	}
}

func TestZeroOwnsTheHour(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{})
	wantOutcome(t, meter(t, sim, batch(usage(fields{"Quantity": 0}))), "Success")
	wantOutcome(t, meter(t, sim, batch(usage(fields{"Quantity": 4}))), "DuplicateRecord")
}

func TestSameKeyTwiceInOneCall(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{})
	got := meter(t, sim, batch(usage(), usage(fields{"Quantity": 7}), usage()))
	wantOutcome(t, got, "Success,DuplicateRecord,Success")
	if b, _ := sim.Billed(licenseA, buyer, "api_calls", at(t, "2026-03-10T14:00:00")); b.Quantity != 10 {
		t.Errorf("billed %d, want the first of the list, 10", b.Quantity)
	}
}

// What separates two entries, and what does not: an ARN and an account, a dimension with "#" in it, both names of one customer.
func TestKeys(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{OpenDoors: true})
	distinct := []fields{
		batch(usage()),
		batch(usage(fields{"LicenseArn": licenseB})),
		batch(usage(fields{"LicenseArn": licenseB, "CustomerAWSAccountId": other})),
		batch(usage(fields{"Dimension": "API_CALLS"})),
		batch(usage(fields{"Dimension": "api_calls#2026-03-10T14"})),
		legacyBatch(legacy()),
		legacyBatch(legacy(fields{"CustomerIdentifier": buyer})),              // an identifier may be all digits
		legacyBatch(usage(fields{"LicenseArn": nil})),                         // and is not the account of that number
		legacyBatch(legacy(fields{"CustomerIdentifier": "cust-1 api_calls"})), // no two keys run together
		legacyBatch(legacy(fields{"Dimension": "api_calls api_calls"})),
	}
	for i, body := range distinct {
		wantOutcome(t, meter(t, sim, body), "Success")
		if n := len(sim.Ledger()); n != i+1 {
			t.Fatalf("%d entries after call %d, want %d", n, i+1, i+1)
		}
	}
	// cust-1 has the account 444455556666: metered by either name it is the same customer.
	byAccount := usage(fields{"LicenseArn": nil, "CustomerAWSAccountId": other, "Quantity": 11})
	wantOutcome(t, meter(t, sim, legacyBatch(byAccount)), "DuplicateRecord")

	ids := map[string]bool{}
	for _, b := range sim.Ledger() {
		ids[b.MeteringRecordID] = true
	}
	if len(ids) != len(distinct) {
		t.Errorf("%d record ids for %d entries", len(ids), len(distinct))
	}
	hour := at(t, "2026-03-10T14:59:59")
	for _, tt := range []struct{ id, account string }{{licenseB, other}, {"cust-1", ""}, {"cust-1", other}, {"", other}, {buyer, ""}, {"", buyer}} {
		if _, ok := sim.Billed(tt.id, tt.account, "api_calls", hour); !ok {
			t.Errorf("Billed(%q, %q) found nothing", tt.id, tt.account)
		}
	}
	if _, ok := sim.Billed(licenseA, other, "api_calls", hour); ok {
		t.Error("Billed found an entry for an account that does not hold the license")
	}
}

func TestAllocationsOfAResend(t *testing.T) {
	t.Parallel()
	a := allocations([]int{4, 6}, tags("team", "a"), tags("team", "b"))
	reordered := allocations([]int{6, 4}, tags("team", "b"), tags("team", "a"))
	b := allocations([]int{5, 5}, tags("team", "a"), tags("team", "b"))
	for _, tt := range []struct {
		distinguish bool
		want        string
	}{{false, "Success"}, {true, "DuplicateRecord"}} {
		sim, _ := service(t, simulator.Options{AllocationsDistinguish: tt.distinguish})
		wantOutcome(t, meter(t, sim, batch(usage(a))), "Success")
		wantOutcome(t, meter(t, sim, batch(usage(reordered))), "Success")
		wantOutcome(t, meter(t, sim, batch(usage(b))), tt.want)
		got, _ := sim.Billed(licenseA, buyer, "api_calls", at(t, "2026-03-10T14:00:00"))
		want := []simulator.Allocation{
			{Quantity: 4, Tags: []simulator.Tag{{Key: "team", Value: "a"}}},
			{Quantity: 6, Tags: []simulator.Tag{{Key: "team", Value: "b"}}},
		}
		if diff := cmp.Diff(want, got.Allocations); diff != "" {
			t.Errorf("stored allocations (-want +got):\n%s", diff)
		}
	}
}

// A reply was lost, the license closed meanwhile, and the call is sent again.
func TestResendAfterTheClosingHour(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		options simulator.Options
		want    string
	}{
		{simulator.Options{}, "Success"},
		{simulator.Options{ResendNeedsSubscription: true}, "CustomerNotSubscribed"},
	} {
		sim, clock := service(t, tt.options)
		wantOutcome(t, meter(t, sim, batch(usage())), "Success")
		sim.SuspendAccount(buyer, true)
		wantOutcome(t, meter(t, sim, batch(usage())), tt.want)
		sim.SuspendAccount(buyer, false)
		if err := sim.PutLicense(simulator.License{ARN: licenseA, AccountID: buyer, DeprovisionedAt: clock.now.Add(-2 * time.Hour)}); err != nil {
			t.Fatal(err)
		}
		wantOutcome(t, meter(t, sim, batch(usage())), tt.want)
		wantOutcome(t, meter(t, sim, batch(usage(fields{"Dimension": "storage"}))), "CustomerNotSubscribed")
	}
}

// A buyer's first hour: that it was billed from the activation on does not make its start a legal timestamp.
func TestFirstHourBilledFromTheActivation(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{})
	if err := sim.PutLicense(simulator.License{ARN: licenseA, AccountID: buyer, ActivatedAt: at(t, "2026-03-10T14:37:00")}); err != nil {
		t.Fatal(err)
	}
	start, later := usage(), usage(stampedAt(t, "2026-03-10T14:37:12"))
	wantOutcome(t, meter(t, sim, batch(start)), "InvalidLicenseException")
	wantOutcome(t, meter(t, sim, batch(later)), "Success")
	wantOutcome(t, meter(t, sim, batch(later)), "Success")
	wantOutcome(t, meter(t, sim, batch(start)), "InvalidLicenseException")
}

func TestEcho(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{})
	record := usage(allocations([]int{4, 6}, tags("team", "a")), fields{"Timestamp": 1773151200.25, "Dimension": "a\"b\n#<>é"})
	got := meter(t, sim, batch(record))
	want := map[string]any{
		"Results": []any{map[string]any{
			"MeteringRecordId": got.IDs[0],
			"Status":           "Success",
			"UsageRecord": map[string]any{
				"CustomerAWSAccountId": buyer,
				"LicenseArn":           licenseA,
				"Dimension":            "a\"b\n#<>é",
				"Quantity":             10.0,
				"Timestamp":            1773151200.25,
				"UsageAllocations": []any{
					map[string]any{"AllocatedUsageQuantity": 4.0, "Tags": []any{map[string]any{"Key": "team", "Value": "a"}}},
					map[string]any{"AllocatedUsageQuantity": 6.0},
				},
			},
		}},
		"UnprocessedRecords": []any{},
	}
	if diff := cmp.Diff(want, got.raw); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
}

func TestShuffledResults(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{ShuffleResults: true})
	body := batch(repeat(25, func(i int) fields { return usage(fields{"Dimension": fmt.Sprint("d", i)}) })...)
	first, moved := meter(t, sim, body), false
	for range 3 { // one order of 25! comes back three times only if nothing shuffles
		moved = moved || !cmp.Equal(first.IDs, meter(t, sim, body).IDs)
	}
	if !moved {
		t.Error("four answers came in the same order")
	}
}
