package desk_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/simulator"
)

// What the scenarios share unless they say otherwise.
const (
	driveLicense = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	driveAccount = "111122223333"
	apiCalls     = "api_calls"
	storage      = "storage_gb"
)

// driveWorld is a whole pipeline on a virtual clock, the simulated Marketplace behind it, and a desk over its tables.
type driveWorld struct {
	*node.Node
	t     *testing.T
	ctx   context.Context
	clock *node.VirtualClock
	store *memory.Store
	sim   *simulator.Simulator
	desk  *desk.Desk
}

// noLaptop is a plant that says nothing: something runs at the place.
type noLaptop struct{ desk.Plant }

// newDriveWorld starts at 15:20 on a day without a month end, with the license active.
func newDriveWorld(t *testing.T, change ...func(*node.Config)) *driveWorld {
	t.Helper()
	return driveWorldOn(t, memory.New(memory.Options{}), node.NewVirtualClock(instant("2026-03-10T15:20:00")), change...)
}

func driveWorldOn(t *testing.T, store *memory.Store, clock *node.VirtualClock, change ...func(*node.Config)) *driveWorld {
	t.Helper()
	w := &driveWorld{t: t, ctx: t.Context(), store: store, clock: clock}
	var err error
	if w.sim, err = simulator.New(simulator.Options{Now: w.clock.Now, Sleep: w.clock.Sleep, CallsPerSecond: simulator.DefaultCallsPerSecond}); err != nil {
		t.Fatal(err)
	}
	if err = w.sim.PutLicense(simulator.License{ARN: driveLicense, AccountID: driveAccount}); err != nil {
		t.Fatal(err)
	}
	config := node.Config{Store: w.store, Metrics: noMetrics{}, Clock: w.clock, Marketplace: marketplace.NewSender(marketplace.New(marketplace.Options{
		Region: "us-east-1", Endpoint: simulator.Endpoint, HTTPClient: w.sim.Client(), ProductCode: simulator.DefaultProductCode,
	}), marketplace.Settings{Now: w.clock.Now, Sleep: w.clock.Sleep})}
	for _, c := range change {
		c(&config)
	}
	if w.Node, err = node.New(config); err != nil {
		t.Fatal(err)
	}
	w.desk = &desk.Desk{Name: "test", Tables: w.store, Plant: noLaptop{}, ProductCode: simulator.DefaultProductCode, Now: w.clock.Now}
	return w
}

type noMetrics struct{}

func (noMetrics) Emit(metering.Measure) {}

func instant(s string) time.Time {
	t, err := time.Parse("2006-01-02T15:04:05", s)
	if err != nil {
		panic(err)
	}
	return t
}

func hourOf(s string) metering.Hour {
	h, err := metering.ParseHour(s)
	if err != nil {
		panic(err)
	}
	return h
}

func groupIn(dimension, hour string) metering.Group {
	return metering.Group{License: driveLicense, Account: driveAccount, Dimension: dimension, Hour: hourOf(hour)}
}

// waiting is a row of a dimension that waits.
func waiting(dimension, second string, quantity int64) metering.Row {
	s, err := metering.ParseSecond(second)
	if err != nil {
		panic(err)
	}
	return metering.NewRow(metering.Group{License: driveLicense, Account: driveAccount, Dimension: dimension}, s, quantity)
}

// rejected is such a row that was rejected for a reason.
func rejected(dimension, second string, quantity int64, reason metering.Reason) metering.Row {
	r := waiting(dimension, second, quantity)
	r.Pending, r.Status, r.StatusReason = "", metering.RejectedClientSide, string(reason)
	return r
}

func (w *driveWorld) put(rows ...metering.Row) {
	w.t.Helper()
	for _, r := range rows {
		if err := w.store.PutRow(w.ctx, r); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *driveWorld) putRecords(records ...metering.Record) {
	w.t.Helper()
	for _, r := range records {
		if err := w.store.PutRecord(w.ctx, r); err != nil {
			w.t.Fatal(err)
		}
	}
}

// until moves the clock and runs what is due on the way, instant by instant.
func (w *driveWorld) until(t string) {
	w.t.Helper()
	for end := instant(t); ; {
		next := w.Next(w.clock.Now())
		if next.After(end) {
			w.clock.MoveTo(end)
			return
		}
		w.clock.MoveTo(next)
		if err := w.RunDue(w.ctx, next); err != nil {
			w.t.Error(err)
		}
	}
}

func (w *driveWorld) row(r metering.Row) metering.Row {
	w.t.Helper()
	got, err := w.store.Row(w.ctx, r.License, r.SortKey)
	if err != nil {
		w.t.Fatal(err)
	}
	if got == nil {
		return metering.Row{}
	}
	return *got
}

// books computes the ledger, which has to balance and to be the Marketplace's own.
func (w *driveWorld) books() ledger.Report {
	w.t.Helper()
	report, err := ledger.Compute(w.ctx, w.store, ledger.Scope{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, b := range report.Imbalances {
		w.t.Errorf("imbalance in %v: written %d, named %d, %v", b.Group, b.Written.Units, b.Named(), b.Findings)
	}
	var sold []ledger.Sold
	for _, b := range w.sim.Ledger() {
		sold = append(sold, node.Sold(b))
	}
	for _, d := range report.Against(sold).Differences {
		w.t.Errorf("the books differ from the Marketplace's: %+v", d)
	}
	return report
}

// sold is what the Marketplace has billed, by dimension and hour.
func (w *driveWorld) sold() map[string]int64 {
	sold := make(map[string]int64)
	for _, b := range w.sim.Ledger() {
		s := node.Sold(b)
		sold[s.Dimension+" "+s.Hour.String()] += s.Quantity
	}
	return sold
}

func (w *driveWorld) wantSold(want map[string]int64) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.sold()); diff != "" {
		w.t.Errorf("billed (-want +got):\n%s", diff)
	}
}

var errDead = errors.New("the operator's machine died")

// mortal are tables whose operator dies at a write: before it, or when it has been written and its answer is on the way.
type mortal struct {
	desk.Tables
	left     int // writes that go well
	answered bool
}

func (m *mortal) write() (before, after error) {
	m.left--
	switch {
	case m.left >= 0:
		return nil, nil
	case m.left == -1 && m.answered:
		return nil, errDead
	}
	return errDead, nil
}

// dying makes a write of the tables one that its operator may die at.
func dying[X, T any](m *mortal, write func(context.Context, X) (metering.Outcome[T], error)) func(context.Context, X) (metering.Outcome[T], error) {
	return func(ctx context.Context, x X) (metering.Outcome[T], error) {
		before, after := m.write()
		if before != nil {
			return metering.Outcome[T]{}, before
		}
		out, err := write(ctx, x)
		if after != nil {
			return metering.Outcome[T]{}, after
		}
		return out, err
	}
}

func (m *mortal) RecallRow(ctx context.Context, x metering.Recall) (metering.Outcome[metering.Row], error) {
	return dying(m, m.Tables.RecallRow)(ctx, x)
}

func (m *mortal) DropRow(ctx context.Context, x metering.Drop) (metering.Outcome[metering.Row], error) {
	return dying(m, m.Tables.DropRow)(ctx, x)
}

func (m *mortal) CarryRow(ctx context.Context, x metering.Carry) (metering.Outcome[metering.Row], error) {
	return dying(m, m.Tables.CarryRow)(ctx, x)
}

func (m *mortal) ReopenRecord(ctx context.Context, x metering.Reopen) (metering.Outcome[metering.Record], error) {
	return dying(m, m.Tables.ReopenRecord)(ctx, x)
}

// killed runs an operation that dies at each of its writes in turn, and then once more. In a world of its own each time, which setup makes
// and check looks at in the end. The operation tells how many items it has done.
func killed(t *testing.T, setup func(*testing.T) *driveWorld, operate func(*desk.Desk, context.Context) (int, error), writes int, check func(*driveWorld)) {
	t.Helper()
	for left := range writes + 1 {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprintf("after %d, written %v", left, answered), func(t *testing.T) {
				t.Parallel()
				w := setup(t)
				w.desk.Tables = &mortal{Tables: w.store, left: left, answered: answered}
				first, err := operate(w.desk, w.ctx)
				if died := errors.Is(err, errDead); died != (left < writes) {
					t.Errorf("died %v: %v", died, err)
				}
				if want := min(left, writes); first > writes || first < want && err == nil {
					t.Errorf("told %d done, want %d", first, want)
				}
				w.books()
				w.desk.Tables = w.store
				again, err := operate(w.desk, w.ctx)
				if err != nil {
					t.Error(err)
				}
				done := min(left, writes)
				if answered && left < writes {
					done++
				}
				if again != writes-done {
					t.Errorf("the second try did %d, want %d", again, writes-done)
				}
				if third, err := operate(w.desk, w.ctx); third != 0 || err != nil {
					t.Errorf("the third try did %d: %v", third, err)
				}
				w.books()
				check(w)
			})
		}
	}
}
