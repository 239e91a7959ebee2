package node_test

import (
	"fmt"
	"math/bits"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// TestCase10OneBadRecordCostsItsNeighboursNothing, and F24: one undefined dimension had all 25 marked rejected with its message. 24 are
// billed, it alone is refused by the exception's name, in at most 1 + 2·⌈log2 25⌉ calls.
func TestCase10OneBadRecordCostsItsNeighboursNothing(t *testing.T) {
	t.Parallel()
	for position := range 25 {
		w := newWorld(t, afternoon)
		records := many("2026-03-10T14", 25, 1)
		records[position] = direct(licenseOne, buyerOne, records[position].Dimension+"_Api_Calls", "2026-03-10T14", 1)
		w.sim.UndefineDimension(records[position].Dimension)
		w.putRecords(records...)
		w.submit()
		if billed, _ := w.count(records, metering.Success); billed != 24 {
			t.Errorf("position %d: %d billed", position, billed)
		}
		w.wantRecord(records[position], metering.RejectedClientSide, "InvalidUsageDimensionException")
		if calls, most := w.sim.Stats().Calls, 1+2*bits.Len(24); calls > most {
			t.Errorf("position %d: %d calls, want at most %d", position, calls, most)
		}
		if got := w.metrics.By(metering.MetricException, "InvalidUsageDimensionException"); got.Items != 1 || got.Units != 1 {
			t.Errorf("metric %+v", got)
		}
		w.wantPlace(ledger.Rejected, 1)
	}
}

// TestF24ADimensionRefusedForAllCostsOneCallEach: the bound on bisection could never be reached, and each call of a bad dimension was
// taken apart anew. 20 hours of one undefined dimension among 200 good records: the good ones are billed, and a bad record costs about
// one call.
func TestF24ADimensionRefusedForAllCostsOneCallEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.serial(nil) // with calls side by side, several are taken apart before the first refusal is known
	w.sim.UndefineDimension("Api_Calls")
	var good, bad []metering.Record
	for offset := 1; offset <= 20; offset++ {
		hour := (metering.HourOf(afternoon) - metering.Hour(offset)).String()
		good = append(good, many(hour, 10, 1)...)
		bad = append(bad, direct(licenseOne, buyerOne, "Api_Calls", hour, 1))
	}
	w.putRecords(append(good, bad...)...)
	w.submit()
	if billed, _ := w.count(good, metering.Success); billed != len(good) {
		t.Errorf("%d of %d good ones billed", billed, len(good))
	}
	if refused, _ := w.count(bad, metering.RejectedClientSide); refused != len(bad) {
		t.Errorf("%d of %d bad ones refused", refused, len(bad))
	}
	plain := (len(good) + len(bad)) / 25
	if calls := w.sim.Stats().Calls; calls > plain+len(bad)+1+2*bits.Len(24) {
		t.Errorf("%d calls for %d bad records among %d", calls, len(bad), len(good)+len(bad))
	}
	w.wantPlace(ledger.Billed, 200)
}

// TestCase11LonePoisonEndsInItsFirstRun: a permanent refusal was retried for ever, with later usage stuck behind it. It is terminal after
// run 1, runs 2 and 3 make no call, and another license is billed all along.
func TestCase11LonePoisonEndsInItsFirstRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.sim.UndefineDimension("poison")
	poison := direct(licenseOne, buyerOne, "poison", "2026-03-10T13", 5)
	other := direct(licenseTwo, buyerTwo, apiCalls, "2026-03-10T14", 3)
	w.putRecords(poison, other)
	w.submit()
	w.wantRecord(poison, metering.RejectedClientSide, "InvalidUsageDimensionException")
	w.wantRecord(other, metering.Success, "")
	calls := w.sim.Stats().Calls
	w.submit()
	w.submit()
	if got := w.sim.Stats().Calls; got != calls {
		t.Errorf("%d calls more", got-calls)
	}
	w.wantPlace(ledger.Rejected, 5)
}

// TestCase04UnknownCustomerAmongValidOnes: a mixed batch was not answered as documented. Whether the service refuses the call or the
// record alone, 24 are billed, one ends by name, and the next run sends nothing.
func TestCase04UnknownCustomerAmongValidOnes(t *testing.T) {
	t.Parallel()
	for mode, want := range map[simulator.Refusal]struct {
		status metering.Status
		reason string
	}{
		simulator.ByException: {metering.RejectedClientSide, "InvalidLicenseException"},
		simulator.ByStatus:    {metering.CustomerNotSubscribed, ""},
	} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon, withSimulator(func(o *simulator.Options) { o.UnknownCustomer = mode }))
			good := many("2026-03-10T14", 24, 1)
			stranger := direct(licenseOne, "999999999999", apiCalls, "2026-03-10T14", 1)
			w.putRecords(append(good, stranger)...)
			w.submit()
			if billed, _ := w.count(good, metering.Success); billed != 24 {
				t.Errorf("%d billed", billed)
			}
			w.wantRecord(stranger, want.status, want.reason)
			calls := w.sim.Stats().Calls
			w.submit()
			if w.sim.Stats().Calls != calls {
				t.Error("the next run called again")
			}
			w.books()
		})
	}
}

// TestF18OnePoisonousRecordNeverStopsTheOthers: a record without hourBucket, or with a wrong value, ended every run for all customers.
// Each kind is refused by name, never put in a call, and its neighbours are billed in the same run.
func TestF18OnePoisonousRecordNeverStopsTheOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	good := many("2026-03-10T14", 30, 1)
	w.putRecords(good...)
	var bad []metering.Record
	for i, attributes := range []metering.Item{
		{metering.AttrHour: nil}, {metering.AttrHour: "2026-03-10T13"}, {metering.AttrDimension: ""}, {metering.AttrDimension: "another"},
		{metering.AttrAccount: ""}, {metering.AttrAccount: nil}, {metering.AttrAccount: buyerTwo}, {metering.AttrQuantity: number("-1")},
		{metering.AttrQuantity: nil}, {metering.AttrQuantity: "7"}, {metering.AttrCustomerIdentifier: "cust"},
		{metering.AttrRecordKey: "nonsense"}, {metering.AttrAllocations: "all"}, {metering.AttrLicense: "arn:aws:bad license"},
		{metering.AttrAllocations: []any{map[string]any{"AllocatedUsageQuantity": number("3")}}},
	} {
		r := changed(direct(licenseOne, buyerOne, fmt.Sprintf("bad_%02d", i), "2026-03-10T14", 1), attributes)
		bad = append(bad, r)
		w.putRecords(r)
	}
	if s := w.submit(); s.Rejected != len(bad) {
		t.Errorf("%d rejected, want %d", s.Rejected, len(bad))
	}
	if billed, _ := w.count(good, metering.Success); billed != len(good) {
		t.Errorf("%d of %d billed", billed, len(good))
	}
	for i, r := range bad {
		got := w.stored(r)
		if got.Status != metering.RejectedClientSide || got.StatusReason == "" || got.Pending != "" || got.SentQuantity.Whole {
			t.Errorf("bad record %d: %s %q, pending %q", i, got.Status, got.StatusReason, got.Pending)
		}
	}
	if len(w.sim.Stats().Exceptions) > 0 {
		t.Errorf("refused calls: %v", w.sim.Stats().Exceptions)
	}
	w.wantPlace(ledger.Billed, 30)
}

const legacyPartition = "legacy-product-customer"

func legacy(r metering.Row) metering.Row {
	r.License, r.CustomerIdentifier = legacyPartition, "cust-1"
	return r
}

// TestCase59SchemesNeverShareACall: the service refuses calls that carry both identity schemes. One license and one legacy row make two
// calls, and both are billed.
func TestCase59SchemesNeverShareACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	if err := w.sim.PutCustomer(simulator.Customer{Identifier: "cust-1", Active: true}); err != nil {
		t.Fatal(err)
	}
	arn, old := usage("2026-03-10T14:00:00", 2), legacy(row(legacyPartition, buyerTwo, apiCalls, "2026-03-10T14:00:00", 3))
	w.put(arn, old)
	w.until(at("2026-03-10T15:40:00"))
	w.wantBilled(arn, 2)
	w.wantBilled(old, 3)
	if s := w.sim.Stats(); s.Calls != 2 || len(s.Exceptions) > 0 {
		t.Errorf("%d calls, refused %v", s.Calls, s.Exceptions)
	}
	w.wantPlace(ledger.Billed, 5)
}

// TestF32OneSaleUnderTwoSchemesIsBilledOnce: the same account, dimension and hour under a license and under a legacy identifier was billed
// twice. The license's record is sent; the other is refused as MixedIdentitySchemes.
func TestF32OneSaleUnderTwoSchemesIsBilledOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	if err := w.sim.PutCustomer(simulator.Customer{Identifier: "cust-1", Active: true}); err != nil {
		t.Fatal(err)
	}
	arn, old := usage("2026-03-10T14:00:00", 2), legacy(usage("2026-03-10T14:00:00", 2))
	w.put(arn, old)
	w.until(at("2026-03-10T15:40:00"))
	w.wantBilled(arn, 2)
	w.wantBilled(old, 0)
	if got := w.record(old); got.Status != metering.RejectedClientSide || got.StatusReason != string(metering.MixedIdentitySchemes) {
		t.Errorf("record %+v", got)
	}
	w.wantPlace(ledger.Rejected, 2)
}

// TestF35FirstHourOfABuyerIsBilled: a license was activated at 14:37 and its usage sent as of 14:00, before it existed. It is sent once
// more as of its first row, and its neighbours are billed as ever; both kinds of refusal.
func TestF35FirstHourOfABuyerIsBilled(t *testing.T) {
	t.Parallel()
	for _, kind := range []simulator.ActivationError{simulator.ActivationInvalidLicense, simulator.ActivationTimestampOutOfBounds} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon, withSimulator(func(o *simulator.Options) { o.BeforeActivation = kind }))
			if err := w.sim.PutLicense(simulator.License{ARN: licenseOne, AccountID: buyerOne, ActivatedAt: at("2026-03-10T14:37:00")}); err != nil {
				t.Fatal(err)
			}
			first, zero := usage("2026-03-10T14:38:10", 5), usage("2026-03-10T14:38:00", 0)
			old := row(licenseTwo, buyerTwo, apiCalls, "2026-03-10T14:00:00", 7)
			w.put(first, zero, old)
			w.until(at("2026-03-10T15:40:00"))
			w.wantBilled(first, 5)
			w.wantBilled(old, 7)
			if got := w.record(first); got.SentSecond != "2026-03-10T14:38:10" || got.Status != metering.Success {
				t.Errorf("record %s, sent as of %s", got.Status, got.SentSecond)
			}
			w.wantPlace(ledger.Billed, 12)
		})
	}
}

// TestF35OnlyTheLaterSecondIsUsedFromThenOn: the retry's answer is lost. The next run sends the later second again, so that what may be
// billed is asked for exactly so.
func TestF35OnlyTheLaterSecondIsUsedFromThenOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	if err := w.sim.PutLicense(simulator.License{ARN: licenseOne, AccountID: buyerOne, ActivatedAt: at("2026-03-10T14:37:00")}); err != nil {
		t.Fatal(err)
	}
	first := usage("2026-03-10T14:38:10", 5)
	w.put(first)
	w.meter()
	w.sim.Inject(simulator.Fault{Kind: simulator.LoseReply, Times: 1})
	w.submitFails()
	w.books()
	before := w.sim.Stats().Calls
	w.submit()
	if calls := w.sim.Stats().Calls - before; calls != 1 {
		t.Errorf("%d calls, want one", calls)
	}
	w.wantBilled(first, 5)
	w.wantPlace(ledger.Billed, 5)
}

// TestF21RefusalIsTerminalAndCounted: a buyer was suspended for a while. What was refused meanwhile stands as CustomerNotSubscribed with
// its units, until an operator retries it; usage after it is billed.
func TestF21RefusalIsTerminalAndCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.sim.SuspendAccount(buyerOne, true)
	refused := usage("2026-03-10T14:00:00", 4)
	w.put(refused)
	w.until(at("2026-03-10T15:40:00"))
	w.sim.SuspendAccount(buyerOne, false)
	later := usage("2026-03-10T15:50:00", 3)
	w.put(later)
	w.until(at("2026-03-10T16:10:00"))
	if got := w.record(refused); got.Status != metering.CustomerNotSubscribed {
		t.Errorf("record %+v", got)
	}
	w.wantMetric(metering.MetricNotSubscribed, 1, 4)
	w.wantBilled(later, 3)
	w.wantPlace(ledger.Refused, 4)
}

// TestOversizedRecordEndsAlone: a direct-submit record larger than any call could hold is refused by name, before it is sent.
func TestOversizedRecordEndsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	huge, good := sale("2026-03-10T14", 2501), direct(licenseOne, buyerOne, "good", "2026-03-10T14", 1)
	for i := range 2501 {
		huge.Allocations = append(huge.Allocations, metering.Allocation{Quantity: 1, Tags: []metering.Tag{{Key: "k", Value: fmt.Sprint(i) + strings.Repeat("v", 80)}}})
	}
	w.putRecords(huge, good)
	w.submit()
	w.wantRecord(huge, metering.RejectedClientSide, string(metering.TooManyAllocations))
	w.wantRecord(good, metering.Success, "")
	w.until(afternoon.Add(20 * time.Minute))
	w.wantPlace(ledger.Rejected, 2501)
}
