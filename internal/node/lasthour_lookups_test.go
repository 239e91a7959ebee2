package node_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/simulator"
)

// failingLookups fails what the submitter asks about licenses in their last hour, each time after a while.
type failingLookups struct {
	node.Store
	healthy bool
	failure func(ctx context.Context)
}

func (s *failingLookups) PendingRecords(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.Record, error] {
	if s.healthy || license == "" {
		return s.Store.PendingRecords(ctx, h, license)
	}
	return func(yield func(metering.Record, error) bool) {
		s.failure(ctx)
		yield(metering.Record{}, errors.New("throttled"))
	}
}

func withFailingLookups(s *failingLookups) option {
	return withConfig(func(c *node.Config) { s.Store, c.Store = c.Store, s })
}

// TestF32FailedLookUpDoesNotHideASale: the look-ups of a license in its last hour failed; its record was passed over with the backlog as well,
// and the same usage under the customer identifier was billed. When the look-ups worked again it was billed a second time.
func TestF32FailedLookUpDoesNotHideASale(t *testing.T) {
	t.Parallel()
	s := &failingLookups{failure: func(context.Context) {}}
	w := newWorld(t, afternoon, withFailingLookups(s))
	check(t, w.sim.PutCustomer(simulator.Customer{Identifier: "cust-1", AccountID: buyerOne, Active: true}))
	w.deprovision(licenseOne, buyerOne, afternoon)
	arn, old := sale("2026-03-10T14", 7), legacySale(legacyPartition, "cust-1", buyerOne, apiCalls, 7)
	w.putRecords(arn, old)
	w.submitFails()
	w.wantRecord(arn, metering.Success, "")
	w.wantRecord(old, metering.RejectedClientSide, string(metering.MixedIdentitySchemes))
	s.healthy = true
	w.submit()
	w.wantPlace(ledger.Billed, 7)
}

// lateEntry keeps a license's records from the index until the look-ups of last hours are over.
type lateEntry struct {
	node.Store
	license string
	shown   atomic.Bool
}

func (s *lateEntry) PendingRecords(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.Record, error] {
	return func(yield func(metering.Record, error) bool) {
		if license == "" {
			s.shown.Store(true)
		}
		for r, err := range s.Store.PendingRecords(ctx, h, license) {
			if !s.shown.Load() && r.License == s.license {
				continue
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// TestF32SaleThatReachesTheIndexBetweenTwoLanes: a record that the look-up of a last hour did not see yet stands in the index when the backlog
// is read. It goes with the next run, and its twin by customer identifier not before it.
func TestF32SaleThatReachesTheIndexBetweenTwoLanes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, withConfig(func(c *node.Config) { c.Store = &lateEntry{Store: c.Store, license: licenseOne} }))
	check(t, w.sim.PutCustomer(simulator.Customer{Identifier: "cust-1", AccountID: buyerOne, Active: true}))
	w.deprovision(licenseOne, buyerOne, afternoon)
	arn, old := sale("2026-03-10T14", 7), legacySale(legacyPartition, "cust-1", buyerOne, apiCalls, 7)
	w.putRecords(arn, old)
	w.submit()
	w.wantRecord(arn, "", "")
	w.wantRecord(old, metering.RejectedClientSide, string(metering.MixedIdentitySchemes))
	w.submit()
	w.wantRecord(arn, metering.Success, "")
	w.wantPlace(ledger.Billed, 7)
}

// TestLookUpsThatFailForAnHourCostNoUsage: no look-up succeeds until the license has ended; its complete hours go with the backlog.
func TestLookUpsThatFailForAnHourCostNoUsage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, withFailingLookups(&failingLookups{failure: func(context.Context) {}}))
	w.deprovision(licenseOne, buyerOne, afternoon)
	w.putRecords(sale("2026-03-10T14", 7))
	w.until(at("2026-03-10T16:40:00"))
	w.wantPlace(ledger.Billed, 7)
}

// TestLookUpsThatFailSlowlyLeaveTimeForTheRest: 2,400 look-ups of a hundred licenses fail, each after two seconds. They took the whole run,
// and nobody's usage was sent. After nine failures the submitter goes on to the backlog, where it finds those licenses too.
func TestLookUpsThatFailSlowlyLeaveTimeForTheRest(t *testing.T) {
	t.Parallel()
	s := &failingLookups{}
	w := newWorld(t, afternoon, withFailingLookups(s))
	s.failure = func(ctx context.Context) { _ = w.clock.Sleep(ctx, 2*time.Second) }
	rows := []metering.Record{direct(licenseTwo, buyerTwo, apiCalls, "2026-03-10T14", 7)}
	for i := range 100 {
		license := fmt.Sprintf("arn:aws:license-manager::111122223333:license:l-%032x", i)
		w.deprovision(license, buyerOne, afternoon)
		rows = append(rows, direct(license, buyerOne, apiCalls, "2026-03-10T14", 1))
	}
	w.putRecords(rows...)
	w.submitFails()
	for _, r := range rows {
		w.wantRecord(r, metering.Success, "")
	}
	if took := w.clock.Now().Sub(afternoon); took > time.Minute {
		t.Errorf("the run took %v", took)
	}
	w.wantPlace(ledger.Billed, 107)
}

// TestLastHourIsThatOfTheLicense: an event names another account than the usage goes by. It is the license that closes, so its usage is billed
// inside the hour all the same.
func TestLastHourIsThatOfTheLicense(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, withRules(metering.Rules{LockHours: 20}))
	_, _, err := w.store.ChangeSubscriber(w.ctx, metering.LicenseEvent{License: licenseOne, Account: buyerTwo, At: afternoon}.DeprovisionedAt(afternoon))
	check(t, err)
	check(t, w.sim.PutLicense(simulator.License{ARN: licenseOne, AccountID: buyerOne, DeprovisionedAt: afternoon}))
	complete, current := usage("2026-03-10T14:10:00", 3), usage("2026-03-10T16:01:00", 4)
	w.put(complete)
	w.until(at("2026-03-10T15:30:00"))
	w.wantBilled(complete, 3)
	w.until(at("2026-03-10T16:02:00"))
	w.put(current)
	w.until(at("2026-03-10T16:20:00"))
	w.wantBilled(current, 4)
	w.wantPlace(ledger.Billed, 7)
}
