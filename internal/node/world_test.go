package node_test

import (
	"context"
	"encoding/json"
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/internal/store/sqlite"
	"github.com/awsmp/metering/internal/telemetry"
	"github.com/awsmp/metering/simulator"
)

// What the scenarios share unless they say otherwise.
const (
	licenseOne = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	licenseTwo = "arn:aws:license-manager::111122223333:license:l-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	buyerOne   = "111122223333"
	buyerTwo   = "444455556666"
	apiCalls   = "api_calls"
)

// afternoon is 15:20 on a day without a month end; the hour of 14:00 has just been complete for twenty minutes.
var afternoon = time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)

// world is a whole pipeline on a virtual clock: the real stages, the real SDK client, and the simulator behind it.
type world struct {
	*node.Node
	t       *testing.T
	ctx     context.Context
	clock   *node.VirtualClock
	store   tables
	sim     *simulator.Simulator
	metrics *telemetry.Counters
}

// tables is what the scenarios ask of a store: of the one in memory, or with -store=durable of the one that lasts.
type tables interface {
	node.Store
	ledger.Store
	PutRow(ctx context.Context, r metering.Row) error
	PutRows(ctx context.Context, rows []metering.Row) error
	UpdateRow(ctx context.Context, license, sortKey string, change func(old *metering.Row) (metering.Row, bool)) (metering.Outcome[metering.Row], error)
	DeleteRow(ctx context.Context, license, sortKey string) error
	PutRecord(ctx context.Context, r metering.Record) error
	DeleteRecord(ctx context.Context, license, sortKey string) error
}

var storeKind = flag.String("store", "memory", "store of the scenarios: memory or durable")

func newTables(t *testing.T) tables {
	t.Helper()
	if *storeKind != "durable" {
		return memory.New(memory.Options{})
	}
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "usage.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// stats is what was asked of the store so far, which the one in memory counts.
func (w *world) stats() memory.Stats {
	s, ok := w.store.(*memory.Store)
	if !ok {
		w.t.Skip("only the store in memory counts what is asked of it")
	}
	return s.Stats()
}

// option changes the parts of a world before it is assembled.
type option func(*node.Config, *simulator.Options, *marketplace.Settings)

func withRules(r metering.Rules) option {
	return func(c *node.Config, _ *simulator.Options, _ *marketplace.Settings) { c.Rules = r }
}

func withConfig(change func(*node.Config)) option {
	return func(c *node.Config, _ *simulator.Options, _ *marketplace.Settings) { change(c) }
}

func withSimulator(change func(*simulator.Options)) option {
	return func(_ *node.Config, o *simulator.Options, _ *marketplace.Settings) { change(o) }
}

// newWorld starts at now with both licenses active for both buyers' accounts.
func newWorld(t *testing.T, now time.Time, options ...option) *world {
	t.Helper()
	w := &world{t: t, ctx: t.Context(), clock: node.NewVirtualClock(now), metrics: &telemetry.Counters{}}
	w.store = newTables(t)
	config := node.Config{Store: w.store, Metrics: w.metrics, Clock: w.clock}
	sim := simulator.Options{Now: w.clock.Now, Sleep: w.clock.Sleep, CallsPerSecond: simulator.DefaultCallsPerSecond}
	pace := marketplace.Settings{Now: w.clock.Now, Sleep: w.clock.Sleep}
	for _, o := range options {
		o(&config, &sim, &pace)
	}
	var err error
	if w.sim, err = simulator.New(sim); err != nil {
		t.Fatal(err)
	}
	for license, account := range map[string]string{licenseOne: buyerOne, licenseTwo: buyerTwo} {
		if err := w.sim.PutLicense(simulator.License{ARN: license, AccountID: account}); err != nil {
			t.Fatal(err)
		}
	}
	if config.Marketplace == nil {
		config.Marketplace = marketplace.NewSender(marketplace.New(marketplace.Options{
			Region: "us-east-1", Endpoint: "http://simulator.invalid", HTTPClient: w.sim.Client(), ProductCode: simulator.DefaultProductCode,
		}), pace)
	}
	if w.Node, err = node.New(config); err != nil {
		t.Fatal(err)
	}
	return w
}

// row is a well-formed usage row, waiting.
func row(license, account, dimension, timestamp string, quantity int64) metering.Row {
	s, err := metering.ParseSecond(timestamp)
	if err != nil {
		panic(err)
	}
	return metering.NewRow(metering.Group{License: license, Account: account, Dimension: dimension}, s, quantity)
}

// usage is a row of the first buyer's api_calls.
func usage(timestamp string, quantity int64) metering.Row {
	return row(licenseOne, buyerOne, apiCalls, timestamp, quantity)
}

// altered is a row with attributes replaced as a seller's code might write them; nil removes one.
func altered(r metering.Row, attributes metering.Item) metering.Row {
	return metering.RowFromItem(replaced(r.Item(), attributes))
}

func replaced(item, attributes metering.Item) metering.Item {
	for name, v := range attributes {
		if v == nil {
			delete(item, name)
			continue
		}
		item[name] = v
	}
	return item
}

func number(s string) json.Number { return json.Number(s) }

func (w *world) put(rows ...metering.Row) {
	w.t.Helper()
	for _, r := range rows {
		if err := w.store.PutRow(w.ctx, r); err != nil {
			w.t.Fatal(err)
		}
	}
}

// grow adds to a row as the writer does: the quantity, and the marker again.
func (w *world) grow(r metering.Row, by int64) {
	w.t.Helper()
	_, err := w.store.UpdateRow(w.ctx, r.License, r.SortKey, func(old *metering.Row) (metering.Row, bool) {
		next := r
		if old != nil {
			next = *old
		}
		next.Quantity, next.Pending = metering.Units(next.Quantity.N+by), r.Pending
		return next, true
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// until moves the clock and runs what is due on the way, instant by instant.
func (w *world) until(t time.Time) {
	w.t.Helper()
	for {
		next := w.Next(w.clock.Now())
		if next.After(t) {
			w.clock.MoveTo(t)
			return
		}
		w.clock.MoveTo(next)
		_ = w.RunDue(w.ctx, next) // a stage's failure shows in the books
	}
}

func (w *world) row(r metering.Row) metering.Row {
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

// record is the record of a row's group; the zero Record where there is none.
func (w *world) record(r metering.Row) metering.Record {
	w.t.Helper()
	key, reason := metering.ParseRowKey(r.SortKey)
	if reason != "" {
		w.t.Fatal(reason)
	}
	got, err := w.store.Record(w.ctx, key.Group(r.License))
	if err != nil {
		w.t.Fatal(err)
	}
	if got == nil {
		return metering.Record{}
	}
	return *got
}

// billed is what the simulator billed for a row's group.
func (w *world) billed(r metering.Row) int64 {
	w.t.Helper()
	key, _ := metering.ParseRowKey(r.SortKey)
	customer := r.License
	if metering.LegacyLicense(r.License) {
		customer = r.CustomerIdentifier
	}
	b, _ := w.sim.Billed(customer, key.Account, key.Dimension, key.Second.Hour().Start())
	return b.Quantity
}

// books are the ledger and its comparison with the simulator's; both must hold.
func (w *world) books() ledger.Report {
	w.t.Helper()
	report, err := ledger.Compute(w.ctx, w.store, ledger.Scope{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, b := range report.Imbalances {
		w.t.Errorf("imbalance in %v: written %d, named %d, %v", b.Group, b.Written.Units, b.Named(), b.Findings)
	}
	for _, d := range report.Against(sold(w.sim)).Differences {
		w.t.Errorf("the books differ from the Marketplace's: %+v", d)
	}
	return report
}

// sold is the simulator's ledger in the terms of ours.
func sold(sim *simulator.Simulator) []ledger.Sold {
	var list []ledger.Sold
	for _, b := range sim.Ledger() {
		list = append(list, node.Sold(b))
	}
	return list
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
