package node_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// newTwinWorld is a world in which both buyers are also known by the customer identifiers from before licenses.
func newTwinWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, afternoon)
	check(t, w.sim.PutCustomer(simulator.Customer{Identifier: "cust-1", AccountID: buyerOne, Active: true}))
	check(t, w.sim.PutCustomer(simulator.Customer{Identifier: "cust-2", AccountID: buyerTwo, Active: true}))
	return w
}

// legacySale is a record of the 14:00 hour that names its buyer by the customer identifier.
func legacySale(license, customer, account, dimension string, quantity int64) metering.Record {
	r := direct(license, account, dimension, "2026-03-10T14", quantity)
	r.CustomerIdentifier = customer
	return r
}

// TestLegacyTwinInDoubtGoesFirst: of two legacy records with one identity the one that stood first was sent, and the other, which an
// unanswered call had billed, was rejected. The one in doubt goes first, and the other is DuplicateIdentity.
func TestLegacyTwinInDoubtGoesFirst(t *testing.T) {
	t.Parallel()
	w := newTwinWorld(t)
	doubtful := legacySale("legacy-x", "cust-1", buyerOne, apiCalls, 10)
	fresh := legacySale("legacy-a", "cust-1", buyerOne, apiCalls, 10)
	w.putRecords(doubtful)
	w.sim.Inject(simulator.Fault{Kind: simulator.LoseReply, Times: 1})
	w.submitFails()
	w.putRecords(fresh)
	w.submit()
	w.wantRecord(doubtful, metering.Success, "")
	w.wantRecord(fresh, metering.RejectedClientSide, string(metering.DuplicateIdentity))
	w.wantPlace(ledger.Billed, 10)
}

// TestLegacyTwinOfBilledSale: a sale was billed under its license and waits again because its seller changed it; its legacy twin was
// billed beside it. The twin is MixedIdentitySchemes.
func TestLegacyTwinOfBilledSale(t *testing.T) {
	t.Parallel()
	w := newTwinWorld(t)
	arn, twin := sale("2026-03-10T14", 7), legacySale("legacy-z", "cust-1", buyerOne, apiCalls, 7)
	w.putRecords(arn)
	w.submit()
	raised := w.stored(arn)
	raised.Quantity, raised.Pending = metering.Units(9), arn.Pending
	w.putRecords(raised, twin)
	w.submit()
	w.wantRecord(arn, metering.Success, "")
	w.wantRecord(twin, metering.RejectedClientSide, string(metering.MixedIdentitySchemes))
	w.wantPlace(ledger.Billed, 7)
}

// TestLegacyTwinOfSaleInDoubt: a sale was sent under its license without an answer, and a change keeps it from being sent again; its legacy
// twin was billed beside it. The twin is MixedIdentitySchemes.
func TestLegacyTwinOfSaleInDoubt(t *testing.T) {
	t.Parallel()
	w := newTwinWorld(t)
	arn, twin := sale("2026-03-10T14", 7), legacySale("legacy-z", "cust-1", buyerOne, apiCalls, 7)
	arn.Allocations = []metering.Allocation{{Quantity: 7, Tags: []metering.Tag{{Key: "team", Value: "a"}}}}
	w.putRecords(arn)
	w.sim.Inject(simulator.Fault{Kind: simulator.LoseReply, Times: 1})
	w.submitFails()
	raised := w.stored(arn)
	raised.Quantity = metering.Units(9) // no longer what its allocations add up to
	w.putRecords(raised, twin)
	w.submit()
	w.wantRecord(twin, metering.RejectedClientSide, string(metering.MixedIdentitySchemes))
	w.wantBilled(usage("2026-03-10T14:00:00", 0), 7)
	w.books()
}

// TestTwinBeyondWhatIsHeld: of more legacy records than are held at once, 16 MiB, those beyond waited for a run that no longer saw the sale
// under the license, and were billed beside it. A twin among them is rejected in the run that sends the sale.
func TestTwinBeyondWhatIsHeld(t *testing.T) {
	t.Parallel()
	w := newTwinWorld(t)
	// Large through tags that no call may carry, so that they cost the test no calls.
	tags := []metering.Tag{{Key: "a", Value: strings.Repeat("y", 390<<10)}}
	size := 0
	var large []metering.Record
	for size <= 16<<20 {
		r := legacySale("legacy-a", "cust-2", buyerTwo, fmt.Sprintf("dim_%03d", len(large)), 4)
		r.Allocations = []metering.Allocation{{Quantity: 4, Tags: tags}}
		size += r.WireSize()
		large = append(large, r)
	}
	arn, twin := sale("2026-03-10T14", 7), legacySale("legacy-z", "cust-1", buyerOne, apiCalls, 7)
	w.putRecords(large...)
	w.putRecords(arn, twin)
	w.submit()
	w.wantRecord(arn, metering.Success, "")
	w.wantRecord(twin, metering.RejectedClientSide, string(metering.MixedIdentitySchemes))
	if _, waiting := w.count(large, metering.RejectedClientSide); waiting == 0 {
		t.Error("all were held: the test shows nothing")
	}
	w.submit()
	if ended, _ := w.count(large, metering.RejectedClientSide); ended != len(large) {
		t.Errorf("%d of the large records ended, want %d", ended, len(large))
	}
	w.wantPlace(ledger.Billed, 7)
}
