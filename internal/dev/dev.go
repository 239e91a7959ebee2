// Package dev is a node for development, assembled: a durable store, the Marketplace's simulator, the stages on a clock that can be
// moved, and one HTTP address for all of it.
package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/registration"
	"github.com/awsmp/metering/internal/store"
	"github.com/awsmp/metering/internal/telemetry"
	"github.com/awsmp/metering/simulator"
	"github.com/awsmp/metering/usage"
)

const region = "us-east-1" // of a service that looks at none

// Store is where the node keeps its usage.
type Store interface {
	node.Store
	usage.Table
	ledger.Store
	pipeline.RefusedRecords
	// Subscriber is one that is known; nil where it is not.
	Subscriber(ctx context.Context, license, account string) (*metering.Subscriber, error)
	registration.Profiles
	// Waiting is what waits, by bucket.
	Waiting(ctx context.Context) ([]store.Waiting, error)
	folder.Settings
}

// Options are the parts and settings of a Machine.
type Options struct {
	Store     Store
	StorePath string // to be shown
	Journal   string // of the simulator; empty keeps what it holds in memory
	// MarketplaceEndpoint is the service that usage is sent to, unsigned; empty is a simulator in this process.
	MarketplaceEndpoint string
	ProductCode         string // of calls for products of the old kind; empty is what the store has begun with, at first the simulator's default
	LockHours           int    // 1 to 20; 0 means that of the last start on the store, at first 1
	// Registration is what buyers see at their first click, and what they are asked for. Its product code and Region are the node's.
	Registration registration.Settings
	At           time.Time // where the clock starts; zero: at real time, or where the store's clock is
	// Fold is how long a stretch of usage over HTTP becomes one row; 0 means what the store has begun with, at first 1 s.
	Fold time.Duration
	Log  *slog.Logger
	// Observe, where set, is told of every run of a stage and what it did, in words; empty where it found nothing to do. It is
	// called from the stages' own goroutines. Of Marketplace events that changed something it is told as of the stage EventsStage, and of
	// what became of buyers' registrations as of RegisterStage: without it, these go to Log.
	Observe func(e node.Event, did string)
}

// Machine is an assembled node. Serve its Handler, and Run it.
type Machine struct {
	options Options
	store   Store
	clock   *node.LiveClock
	node    *node.Node
	rules   metering.Rules
	before  folder.Node
	sim     *simulator.Simulator // nil: the Marketplace is elsewhere
	writer  *usage.Writer
	metrics telemetry.Counters
	counted *hourly // before metrics
	started time.Time
	chunk   int // lines

	register http.Handler // of buyers

	events sync.Mutex // one event at a time, so that the simulator follows them in their order

	mu   sync.Mutex
	did  map[string]string // by stage, the last run in words
	said verdictSums       // at the end of the last submission
}

// New assembles a machine. The caller closes it.
func New(ctx context.Context, o Options) (*Machine, error) {
	m := &Machine{options: o, store: o.Store, chunk: chunkLines, did: make(map[string]string)}
	if err := m.goBy(ctx); err != nil { // before the clock: a start that fails must not have moved it
		return nil, err
	}
	if err := m.setClock(ctx); err != nil {
		return nil, err
	}
	m.counted = &hourly{next: &m.metrics, now: m.clock.Now}
	if err := folder.KeepNode(ctx, m.store, m.GoesBy()); err != nil {
		return nil, err
	}
	fold, err := m.fold(ctx)
	if err != nil {
		return nil, err
	}
	if m.writer, err = usage.NewWriter(o.Store, usage.Options{Fold: fold, Now: m.clock.Now}); err != nil {
		return nil, fmt.Errorf("open the writer: %w", err)
	}
	if err := m.assemble(); err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	m.started = m.clock.Now()
	return m, nil
}

func (m *Machine) assemble() error {
	api, err := m.marketplace()
	if err != nil {
		return err
	}
	client := marketplace.New(api)
	if m.register, err = m.registrationPage(client); err != nil {
		return err
	}
	m.node, err = node.New(node.Config{
		Store: m.store, Metrics: m.counted, Rules: m.rules, Clock: m.clock, Log: m.options.Log, Observe: m.observe,
		Marketplace: marketplace.NewSender(client, marketplace.Settings{Now: m.clock.Now, Sleep: m.clock.Sleep}),
	})
	return err
}

// marketplace is the way to the service, and makes the simulator where that is it.
func (m *Machine) marketplace() (marketplace.Options, error) {
	api := marketplace.Options{Region: region, Endpoint: m.options.MarketplaceEndpoint, ProductCode: m.options.ProductCode}
	if api.Endpoint != "" {
		return api, nil
	}
	var err error
	m.sim, err = simulator.New(simulator.Options{
		ProductCode: m.options.ProductCode, OpenDoors: true, CallsPerSecond: simulator.DefaultCallsPerSecond,
		Journal: m.options.Journal, Now: m.clock.Now, Sleep: m.clock.Sleep,
	})
	if err != nil {
		return api, fmt.Errorf("start the simulator: %w", err)
	}
	api.Endpoint, api.HTTPClient = simulator.Endpoint, m.sim.Client()
	return api, nil
}

// Run keeps the timetable until ctx ends, as node.Run does.
func (m *Machine) Run(ctx context.Context) error { return m.node.Run(ctx) }

// Close frees what New has opened; the store stays open.
func (m *Machine) Close(ctx context.Context) error {
	err := m.writer.Close(ctx)
	if m.sim != nil {
		err = errors.Join(err, m.sim.Close())
	}
	return err
}

// Offset is how far the machine's clock runs ahead of real time.
func (m *Machine) Offset() time.Duration { return m.clock.Offset() }

// Now is the machine's time.
func (m *Machine) Now() time.Time { return m.clock.Now() }

// ClockError is the error of a start before the store's own clock.
type ClockError struct{ At, Clock time.Time }

func (e *ClockError) Error() string {
	return fmt.Sprintf("the clock of this store shows %s and cannot start at %s: it never goes back",
		e.Clock.Format(time.RFC3339), e.At.UTC().Format(time.RFC3339))
}

// setClock starts the clock where the store's stood, real time passed since then, or later if that is asked for. Only a store
// without any usage can start earlier than real time.
func (m *Machine) setClock(ctx context.Context) error {
	offset, set, err := folder.Offset(ctx, m.store)
	if err != nil {
		return err
	}
	save := func(d time.Duration) error { return folder.SetOffset(context.WithoutCancel(ctx), m.store, d) }
	now := time.Now().Round(0)
	if at := m.options.At; !at.IsZero() {
		fresh, err := m.fresh(ctx, set)
		if err != nil {
			return err
		}
		if clock := now.Add(offset).UTC(); !fresh && at.Before(clock) {
			return &ClockError{At: at, Clock: clock}
		}
		offset = at.Sub(now)
		if err := save(offset); err != nil {
			return err
		}
	}
	m.clock = node.NewLiveClock(offset, save)
	return nil
}

// ProductError is the error of a start with another product code than the store's.
type ProductError struct{ Asked, Kept string }

func (e *ProductError) Error() string {
	return fmt.Sprintf("usage in this folder is of the product %s: what is sent again as usage of %s would be billed twice", e.Kept, e.Asked)
}

// goBy settles what the machine goes by: what is asked for, or else what the store's last one did. Hours may be left open for longer or shorter
// from any start on, as on AWS; the product stays.
func (m *Machine) goBy(ctx context.Context) error {
	kept, err := folder.NodeOf(ctx, m.store)
	if err != nil {
		return err
	}
	if asked := m.options.ProductCode; asked != "" && kept.ProductCode != "" && asked != kept.ProductCode {
		return &ProductError{asked, kept.ProductCode}
	}
	m.before = kept
	m.options.ProductCode = cmp.Or(m.options.ProductCode, kept.ProductCode, simulator.DefaultProductCode)
	m.rules.LockHours = cmp.Or(m.options.LockHours, kept.LockHours)
	return nil
}

// GoesBy is what the machine goes by.
func (m *Machine) GoesBy() folder.Node {
	return folder.Node{ProductCode: m.options.ProductCode, LockHours: m.rules.LockHours}
}

// Before is what the last machine on the store went by; its product code is empty where there was none.
func (m *Machine) Before() folder.Node { return m.before }

// defaultFold is finer than the writer's: over HTTP each request is a flush of its own, and a row takes a hundred.
const defaultFold = time.Second

// foldSetting keeps the fold of usage over HTTP: a request that is sent again under another one would count twice.
const foldSetting = "http-fold"

// FoldError is the error of a start with another fold than the store's.
type FoldError struct{ Asked, Kept time.Duration }

func (e *FoldError) Error() string {
	return fmt.Sprintf("usage over HTTP becomes rows of %v in this folder, and would count twice with %v if it was sent again", e.Kept, e.Asked)
}

// fold is the store's, or the one that is asked for at its first start.
func (m *Machine) fold(ctx context.Context) (time.Duration, error) {
	text, err := m.store.Setting(ctx, foldSetting)
	if err != nil {
		return 0, fmt.Errorf("read the fold: %w", err)
	}
	asked := m.options.Fold
	if text == "" {
		asked = cmp.Or(asked, defaultFold)
		return asked, m.store.SetSetting(ctx, foldSetting, asked.String())
	}
	kept, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("read the fold: %w", err)
	}
	if asked != 0 && asked != kept {
		return 0, &FoldError{asked, kept}
	}
	return kept, nil
}

// fresh reports whether nothing has happened in the store yet.
func (m *Machine) fresh(ctx context.Context, clockSet bool) (bool, error) {
	if clockSet {
		return false, nil
	}
	for _, err := range m.store.Licenses(ctx) {
		if err != nil {
			return false, fmt.Errorf("look for usage in the store: %w", err)
		}
		return false, nil
	}
	return true, nil
}
