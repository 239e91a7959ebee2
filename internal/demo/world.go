package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/telemetry"
	"github.com/awsmp/metering/simulator"
)

const (
	productCode = "demo-product"
	region      = "us-east-1"
)

// world is everything that a script plays in.
type world struct {
	clock    *node.VirtualClock
	store    *witness
	sim      *simulator.Simulator
	node     *node.Node
	counters *telemetry.Counters
	licenses map[string]simulator.License
	product  map[string]map[string]bool // legacy products by customer identifier
	runs     []node.Event               // since the last look
}

func newWorld(start time.Time, rules metering.Rules) (*world, error) {
	w := &world{
		clock: node.NewVirtualClock(start), store: newWitness(), counters: &telemetry.Counters{},
		licenses: make(map[string]simulator.License), product: make(map[string]map[string]bool),
	}
	var err error
	w.sim, err = simulator.New(simulator.Options{
		ProductCode: productCode, Now: w.clock.Now, Sleep: w.clock.Sleep, CallsPerSecond: simulator.DefaultCallsPerSecond,
	})
	if err != nil {
		return nil, err
	}
	client := marketplace.New(marketplace.Options{
		Region: region, Endpoint: simulator.Endpoint, HTTPClient: w.sim.Client(), ProductCode: productCode,
	})
	w.node, err = node.New(node.Config{
		Store:       w.store,
		Marketplace: marketplace.NewSender(client, marketplace.Settings{Now: w.clock.Now, Sleep: w.clock.Sleep}),
		Metrics:     w.counters, Rules: rules, Clock: w.clock,
		Observe: func(e node.Event) { w.runs = append(w.runs, e) },
	})
	return w, err
}

// register makes the customers of a script known to the Marketplace: each license belongs to the account that the file names
// first with it. What the simulator cannot take is left out, and its usage is refused like any stranger's.
func (w *world) register(actions []action) {
	active := make(map[string]time.Time)
	for _, a := range actions {
		if a.event != nil && a.event.Event == Subscribe && active[a.event.license].IsZero() {
			active[a.event.license] = a.at
		}
	}
	put := func(license, account string) {
		if _, known := w.licenses[license]; known {
			return
		}
		l := simulator.License{ARN: license, AccountID: account, ActivatedAt: active[license]}
		if w.sim.PutLicense(l) == nil {
			w.licenses[license] = l
		}
	}
	for _, a := range actions {
		switch {
		case a.event != nil && a.event.license != "":
			put(a.event.license, a.event.account)
		case a.row != nil && metering.LegacyLicense(a.row.License):
			w.registerLegacy(*a.row)
		case a.row != nil:
			put(a.row.License, a.row.Account)
		}
	}
}

func (w *world) registerLegacy(r metering.Row) {
	if r.CustomerIdentifier == "" {
		return
	}
	if w.product[r.CustomerIdentifier] == nil {
		w.product[r.CustomerIdentifier] = make(map[string]bool)
		c := simulator.Customer{Identifier: r.CustomerIdentifier, AccountID: r.Account, Active: true}
		if w.sim.PutCustomer(c) != nil {
			c.AccountID = ""
			_ = w.sim.PutCustomer(c) // by its identifier alone: that is never refused
		}
	}
	w.product[r.CustomerIdentifier][r.License] = true
}

// happen lets an event take its effect.
func (w *world) happen(ctx context.Context, e event) error {
	switch e.Event {
	case Throttle, Outage, LostReplies, Unprocessed:
		if !e.ends {
			w.sim.Inject(simulator.Fault{Kind: faultOf(e.Event), From: e.from, Until: e.until})
		}
	case Deprovision:
		l, known := w.licenses[e.license]
		if known && !e.ends {
			l.DeprovisionedAt = e.from
			w.licenses[e.license] = l
			if err := w.sim.PutLicense(l); err != nil {
				return err
			}
		}
		if e.ends {
			return nil
		}
		closes := metering.LicenseEvent{License: e.license, Account: e.account, At: e.from}.DeprovisionedAt(e.from)
		_, _, err := w.store.ChangeSubscriber(ctx, closes)
		return err
	case Suspend:
		w.sim.SuspendAccount(e.account, !e.ends)
	case UndefinedDimension:
		if e.ends {
			w.sim.DefineDimension(e.dimension)
		} else {
			w.sim.UndefineDimension(e.dimension)
		}
	case Subscribe: // registered with its activation from the start
	}
	return nil
}

func faultOf(e Event) simulator.FaultKind {
	switch e {
	case Throttle:
		return simulator.Throttle
	case Outage:
		return simulator.InternalError
	case LostReplies:
		return simulator.LoseReply
	}
	return simulator.Unprocessed
}

// Outcome is what a play leaves behind.
type Outcome struct {
	Start, End time.Time
	world      *world
}

// Ledger recomputes the books from the tables and compares them with the Marketplace's own ledger, both within the scope.
func (o *Outcome) Ledger(ctx context.Context, scope ledger.Scope) (ledger.Sheet, error) {
	report, err := ledger.Compute(ctx, o.world.store, scope)
	if err != nil {
		return ledger.Sheet{}, fmt.Errorf("compute the ledger: %w", err)
	}
	sold := o.world.sold(scope)
	check := report.Against(sold)
	return ledger.Sheet{Report: report, Check: &check, Sold: len(sold)}, nil
}

// sold is the Marketplace's own ledger within the scope.
func (w *world) sold(scope ledger.Scope) (sold []ledger.Sold) {
	for _, b := range w.sim.Ledger() {
		hour := metering.HourOf(b.Hour)
		covered := scope.License == "" || scope.License == b.LicenseARN
		if b.LicenseARN == "" {
			covered = scope.License == "" || w.product[b.CustomerIdentifier][scope.License]
		}
		if !covered || scope.From != nil && hour < *scope.From || scope.To != nil && hour > *scope.To {
			continue
		}
		sold = append(sold, node.Sold(b))
	}
	return sold
}

// errNothing is the error of a script without anything to play.
var errNothing = errors.New("there is nothing to play")
