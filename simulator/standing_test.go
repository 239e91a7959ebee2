package simulator_test

import (
	"testing"

	"github.com/awsmp/metering/simulator"
)

// A license from its activation to the end of its closing hour.
func TestLicenseLife(t *testing.T) {
	t.Parallel()
	const ok, closed, invalid, out = "Success", "CustomerNotSubscribed", "InvalidLicenseException", "TimestampOutOfBoundsException"
	life := func(activated, deprovisioned, ended string) simulator.License {
		l := simulator.License{ARN: licenseA, AccountID: buyer}
		if activated != "" {
			l.ActivatedAt = at(t, activated)
		}
		if deprovisioned != "" {
			l.DeprovisionedAt = at(t, deprovisioned)
		}
		if ended != "" {
			l.EndedAt = at(t, ended)
		}
		return l
	}
	activated := life("2026-03-10T10:37:00", "", "")
	deprovisioned := life("", "2026-03-10T12:00:00", "")
	tests := []struct {
		name    string
		options simulator.Options
		license simulator.License
		now, ts string
		want    string
	}{
		{"before the activation", simulator.Options{}, activated, "2026-03-10T11:10:00", "2026-03-10T10:00:00", invalid},
		{"before the activation, switch", simulator.Options{BeforeActivation: simulator.ActivationTimestampOutOfBounds}, activated, "2026-03-10T11:10:00", "2026-03-10T10:36:59", out},
		{"from the activation", simulator.Options{}, activated, "2026-03-10T11:10:00", "2026-03-10T10:37:00", ok},
		{"clock ahead of an activation to come", simulator.Options{}, activated, "2026-03-10T10:36:00", "2026-03-10T10:37:00", closed},

		{"case 54: current hour in the closing hour", simulator.Options{}, deprovisioned, "2026-03-10T12:59:59", "2026-03-10T12:00:00", ok},
		{"older hour in the closing hour", simulator.Options{}, deprovisioned, "2026-03-10T12:59:59", "2026-03-09T13:00:00", ok},
		{"second after it", simulator.Options{}, deprovisioned, "2026-03-10T13:00:00", "2026-03-10T12:00:00", closed},
		{"after it, switch", simulator.Options{AfterWindow: simulator.ByException}, deprovisioned, "2026-03-10T13:00:00", "2026-03-10T12:00:00", invalid},
		{"usage from after it", simulator.Options{}, deprovisioned, "2026-03-10T12:58:00", "2026-03-10T13:00:00", closed},
		{"usage from after it, switch", simulator.Options{AfterWindow: simulator.ByException}, deprovisioned, "2026-03-10T12:58:00", "2026-03-10T13:00:00", invalid},

		{"ended, deprovisioning decides", simulator.Options{}, life("", "", "2026-03-10T12:00:00"), "2026-03-10T14:00:00", "2026-03-10T13:00:00", ok},
		{"case 51: ended at 12, anchor ended, inside", simulator.Options{ClosingAnchor: simulator.AnchorEnded}, life("", "2026-03-10T13:00:00", "2026-03-10T12:00:00"), "2026-03-10T12:59:59", "2026-03-10T12:00:00", ok},
		{"case 51: ended at 12, anchor ended, outside", simulator.Options{ClosingAnchor: simulator.AnchorEnded}, life("", "2026-03-10T13:00:00", "2026-03-10T12:00:00"), "2026-03-10T13:00:00", "2026-03-10T12:00:00", closed},
		{"anchor ended, never ended, inside", simulator.Options{ClosingAnchor: simulator.AnchorEnded}, deprovisioned, "2026-03-10T12:59:59", "2026-03-10T12:00:00", ok},
		{"anchor ended, never ended, outside", simulator.Options{ClosingAnchor: simulator.AnchorEnded}, deprovisioned, "2026-03-10T13:00:00", "2026-03-10T12:00:00", closed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sim, clock := service(t, tt.options)
			clock.now = at(t, tt.now)
			if err := sim.PutLicense(tt.license); err != nil {
				t.Fatal(err)
			}
			wantOutcome(t, meter(t, sim, batch(usage(stampedAt(t, tt.ts)))), tt.want)
			if _, billed := sim.Billed(licenseA, buyer, "api_calls", at(t, tt.ts)); billed != (tt.want == ok) {
				t.Errorf("billed is %v after %s", billed, tt.want)
			}
		})
	}
}

// Case 4: a good batch with one customer that does not exist, in both documented answers.
func TestUnknownCustomerCase4(t *testing.T) {
	t.Parallel()
	stranger := fields{"CustomerAWSAccountId": "999999999999"}
	tests := []struct {
		name      string
		body      func(good []fields) fields
		good      func(i int) fields
		exception string
	}{
		{"account does not hold the license",
			func(good []fields) fields { return batch(append(good, usage(stranger))...) },
			func(i int) fields { return usage(fields{"Dimension": string(rune('a' + i))}) }, "InvalidLicenseException"},
		{"license does not exist",
			func(good []fields) fields { return batch(append(good, usage(fields{"LicenseArn": licenseB}))...) },
			func(i int) fields { return usage(fields{"Dimension": string(rune('a' + i))}) }, "InvalidLicenseException"},
		{"identifier does not exist",
			func(good []fields) fields {
				return legacyBatch(append(good, legacy(fields{"CustomerIdentifier": "nobody"}))...)
			},
			func(i int) fields { return legacy(fields{"Dimension": string(rune('a' + i))}) }, "InvalidCustomerIdentifierException"},
		{"account is no customer",
			func(good []fields) fields {
				return legacyBatch(append(good, usage(stranger, fields{"LicenseArn": nil}))...)
			},
			func(i int) fields { return legacy(fields{"Dimension": string(rune('a' + i))}) }, "InvalidCustomerIdentifierException"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body := tt.body(repeat(24, tt.good))

			strict, _ := service(t, simulator.Options{})
			wantOutcome(t, meter(t, strict, body), tt.exception)
			if n := len(strict.Ledger()); n != 0 {
				t.Errorf("exception mode stored %d entries, want none", n)
			}

			lenient, _ := service(t, simulator.Options{UnknownCustomer: simulator.ByStatus})
			got := meter(t, lenient, body)
			if n := len(lenient.Ledger()); n != 24 || got.Statuses[24] != "CustomerNotSubscribed" || got.IDs[24] != "" {
				t.Errorf("status mode stored %d entries and answered %q with id %q for the stranger", n, got.Statuses[24], got.IDs[24])
			}
		})
	}
}

func TestCustomersThatCannotUseTheProduct(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{})

	sim.SuspendAccount(buyer, true)
	wantOutcome(t, meter(t, sim, batch(usage())), "CustomerNotSubscribed")
	sim.SuspendAccount(buyer, false)
	// Nothing was honoured, so nothing holds the hour: another quantity is billed.
	wantOutcome(t, meter(t, sim, batch(usage(fields{"Quantity": 11}))), "Success")

	if err := sim.PutCustomer(simulator.Customer{Identifier: "cust-2", Active: false}); err != nil {
		t.Fatal(err)
	}
	wantOutcome(t, meter(t, sim, legacyBatch(legacy(fields{"CustomerIdentifier": "cust-2"}), legacy())), "CustomerNotSubscribed,Success")
	sim.SuspendAccount(other, true) // the account of cust-1
	wantOutcome(t, meter(t, sim, legacyBatch(legacy(fields{"Dimension": "storage"}))), "CustomerNotSubscribed")
}

func TestPutCustomerReplacesBothNames(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{})
	if err := sim.PutCustomer(simulator.Customer{Identifier: "cust-1", AccountID: buyer, Active: true}); err != nil {
		t.Fatal(err)
	}
	byAccount := func(account string) fields {
		return legacyBatch(usage(fields{"LicenseArn": nil, "CustomerAWSAccountId": account}))
	}
	wantOutcome(t, meter(t, sim, byAccount(other)), "InvalidCustomerIdentifierException")
	wantOutcome(t, meter(t, sim, byAccount(buyer)), "Success")
	wantOutcome(t, meter(t, sim, legacyBatch(legacy(fields{"Quantity": 11}))), "DuplicateRecord")
}

func TestOpenDoors(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{OpenDoors: true})
	wantOutcome(t, meter(t, sim, batch(usage(fields{"LicenseArn": licenseB, "CustomerAWSAccountId": "999999999999"}))), "Success")
	wantOutcome(t, meter(t, sim, legacyBatch(legacy(fields{"CustomerIdentifier": "anyone"}))), "Success")
	wantOutcome(t, meter(t, sim, legacyBatch(usage(fields{"LicenseArn": nil, "CustomerAWSAccountId": "999999999999"}))), "Success")
	// What was put keeps its own rules.
	wantOutcome(t, meter(t, sim, batch(usage(fields{"CustomerAWSAccountId": "999999999999"}))), "InvalidLicenseException")
	wantOutcome(t, meter(t, sim, batch(usage(fields{"LicenseArn": "l-aaaa"}))), "ValidationException")
	wantOutcome(t, meter(t, sim, fields{"ProductCode": "other", "UsageRecords": []fields{legacy()}}), "InvalidProductCodeException")
}

func TestDimensions(t *testing.T) {
	t.Parallel()
	sim, _ := service(t, simulator.Options{Dimensions: []string{"api_calls"}})
	const undefined = "InvalidUsageDimensionException"
	wantOutcome(t, meter(t, sim, batch(usage(), usage(fields{"Dimension": "Api_Calls"}))), undefined)
	wantOutcome(t, meter(t, sim, batch(usage())), "Success")
	sim.DefineDimension("Api_Calls")
	wantOutcome(t, meter(t, sim, batch(usage(fields{"Dimension": "Api_Calls"}))), "Success")
	sim.UndefineDimension("Api_Calls")
	wantOutcome(t, meter(t, sim, batch(usage(fields{"Dimension": "Api_Calls"}))), undefined)

	open, _ := service(t, simulator.Options{})
	open.UndefineDimension("storage")
	wantOutcome(t, meter(t, open, batch(usage(fields{"Dimension": "storage"}))), undefined)
	wantOutcome(t, meter(t, open, batch(usage())), "Success")

	none, _ := service(t, simulator.Options{Dimensions: []string{}})
	wantOutcome(t, meter(t, none, batch(usage())), undefined)
}
