package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/internal/telemetry"
	"github.com/awsmp/metering/simulator"
)

// world is one seed's day: the real stages and the real client of the Marketplace, on tables and queues in memory, with the simulator
// at the other end and every effect behind the seam.
type world struct {
	*seam
	plan    plan
	check   *checker
	tables  *tables
	sim     *simulator.Simulator
	metrics *telemetry.Counters
	node    *node.Node
	events  *queue
	queues  []*queue
	stages  stages

	running   map[string]int
	next      map[string]bool // stages of which another run was asked for meanwhile
	scheduled []timetabled
	lastMove  time.Time
	over      bool
	violation *Violation
	flushes   map[string]error // by token: what the writer was told
	effects   int
	carries   int // that operators tried: each has its own token
	service   int // draws of the simulator at this instant
	serviceAt time.Time
}

// stages are what the timetable runs and the queues feed. They are the node's, unless a test puts others in their place.
type stages struct {
	discover  func(context.Context, pipeline.Slice) error
	submit    func(context.Context) error
	expire    func(context.Context) error
	finalize  func(context.Context) error
	aggregate func(context.Context, []pipeline.Message) []string
	clean     func(context.Context, []pipeline.Message) []string
}

// After its last move a day's faults go on for the storm, and the day for the patience, at most.
const (
	storm    = 36 * time.Hour
	patience = 5 * 24 * time.Hour
)

// lookEvery is how often all books are read. What an effect has touched is looked at after every one.
const lookEvery = 2 * time.Hour

// Limits of the processes and settings of the queues, as on AWS.
const (
	processLimit     = 300 * time.Second
	consumerLimit    = 60 * time.Second
	visibility       = 360 * time.Second
	eventsVisibility = 300 * time.Second
	workReceives     = 5
	cleanupReceives  = 8
	eventsReceives   = 12
	consumers        = 2 // of one queue at once
)

// newWorld assembles the day of a seed. With a story only what it names happens.
func newWorld(seed uint64, only *Story, tell func(Line)) (*world, error) {
	p := draw(seed)
	w := &world{plan: p, metrics: &telemetry.Counters{}, running: make(map[string]int), flushes: make(map[string]error), next: make(map[string]bool)}
	l := newLoop(p.start.Add(-2 * time.Hour))
	w.seam = &seam{loop: l, seed: seed, weather: p.weather, calm: w.calm, faults: make(map[FaultKind]int)}
	w.say = func(who, format string, args ...any) {
		if tell != nil {
			tell(Line{At: l.now, Who: who, Text: fmt.Sprintf(format, args...)})
		}
	}
	if only != nil {
		w.only = only.faults()
	}
	store := memory.New(memory.Options{PageBytes: p.page})
	if err := w.openService(); err != nil {
		return nil, err
	}
	w.check = newChecker(checker{now: func() time.Time { return l.now }, store: store, sim: w.sim, rules: p.rules, broken: w.broken})
	w.tables = &tables{
		Store: store, seam: w.seam, check: w.check, rows: make(map[string][]metering.PendingRow),
		records: make(map[string][]metering.Record), members: make(map[string][]metering.Subscriber),
	}
	if err := w.assemble(); err != nil {
		return nil, err
	}
	for i, m := range p.moves {
		if only.includes(i) {
			w.lastMove = latest(w.lastMove, m.at)
			l.at(m.at, func() {
				w.say(m.who, "%s", m.what)
				m.do(w)
			})
		}
	}
	w.lastMove = latest(w.lastMove, p.start.Add(time.Hour))
	l.at(w.node.Next(l.now), w.tick)
	return w, nil
}

// openService sets the Marketplace up.
func (w *world) openService() (err error) {
	luck := w.luck("Marketplace")
	w.sim, err = simulator.New(simulator.Options{
		Now: func() time.Time { return w.now }, Rand: w.serviceRand, Sleep: w.Sleep, CallsPerSecond: simulator.DefaultCallsPerSecond, CallLog: 1,
		Dimensions:         append([]string{"direct-0", "direct-1"}, dimensions[:3]...),
		GraceExtendsWindow: luck.IntN(2) == 0, ResendNeedsSubscription: luck.IntN(2) == 0, ShuffleResults: true,
		HourGranularWindow: luck.IntN(4) == 0, AllocationsDistinguish: luck.IntN(2) == 0,
		UnknownCustomer: either(luck, simulator.ByException, simulator.ByStatus), AfterWindow: either(luck, simulator.ByException, simulator.ByStatus),
		BeforeActivation: either(luck, simulator.ActivationInvalidLicense, simulator.ActivationTimestampOutOfBounds),
	})
	if err != nil {
		return err
	}
	for _, b := range w.plan.buyers {
		if b.identifier != "" {
			err = errors.Join(err, w.sim.PutCustomer(simulator.Customer{Identifier: b.identifier, AccountID: b.account, Active: true}))
		} else {
			err = errors.Join(err, w.sim.PutLicense(simulator.License{ARN: b.license, AccountID: b.account, ActivatedAt: b.activated}))
		}
	}
	return err
}

func either[T any](luck *rand.Rand, a, b T) T {
	if luck.IntN(2) == 0 {
		return a
	}
	return b
}

// serviceRand is the simulator's chance: drawn from the instant, so that it does not depend on what came before.
func (w *world) serviceRand() float64 {
	if w.service++; !w.serviceAt.Equal(w.now) {
		w.service, w.serviceAt = 0, w.now
	}
	return w.luck(fmt.Sprint("service ", w.now.UnixNano(), " ", w.service)).Float64()
}

// assemble puts the stages together, as a node does, with queues behind the seam.
func (w *world) assemble() (err error) {
	net := &network{seam: w.seam, check: w.check, client: w.sim.Client()}
	api := calls{API: marketplace.New(marketplace.Options{
		Region: "us-east-1", Endpoint: simulator.Endpoint, ProductCode: simulator.DefaultProductCode, HTTPClient: net,
	}), network: net}
	w.node, err = node.New(node.Config{
		Store: w.tables, Metrics: w, Rules: w.plan.rules, Clock: w, Concurrency: w, MaxRecords: w.plan.records, DryRun: !w.plan.dryRun.IsZero(),
		Marketplace: marketplace.NewSender(api, marketplace.Settings{Now: w.Now, Sleep: w.Sleep, Concurrency: w}),
	})
	if err != nil {
		return err
	}
	n := w.node
	n.Clean.Batch, n.Clean.Jitter = w.plan.batch, func(d time.Duration) time.Duration { return d / 2 }
	w.stages = stages{
		discover: func(ctx context.Context, s pipeline.Slice) error { _, err := n.Discover.Run(ctx, s); return err },
		submit:   func(ctx context.Context) error { _, err := n.Submit.Run(ctx); return err },
		expire:   func(ctx context.Context) error { _, err := n.Expire.Run(ctx); return err },
		finalize: func(ctx context.Context) error { _, err := n.Finalize.Run(ctx); return err },
		aggregate: func(ctx context.Context, batch []pipeline.Message) []string {
			return n.Aggregate.Handle(ctx, batch)
		},
		clean: func(ctx context.Context, batch []pipeline.Message) []string { return n.Clean.Handle(ctx, batch) },
	}
	add := func(name string, visibility time.Duration, receives int, handle func(context.Context, []pipeline.Message) []string) *queue {
		q := newQueue(w.seam, name, visibility, receives)
		q.handle = handle
		w.queues = append(w.queues, q)
		return q
	}
	aggregate := func(ctx context.Context, batch []pipeline.Message) []string { return w.stages.aggregate(ctx, batch) }
	n.Discover.Work = add("work", visibility, workReceives, aggregate)
	n.Discover.Deprovision = add("deprovision", visibility, workReceives, aggregate)
	cleanup := add("cleanup", visibility, cleanupReceives, func(ctx context.Context, batch []pipeline.Message) []string { return w.stages.clean(ctx, batch) })
	n.Discover.Cleanup, n.Aggregate.Cleanup = cleanup, cleanup
	w.events = add("events", eventsVisibility, eventsReceives, n.Lifecycle.Handle)
	return nil
}

// Emit takes a measure in, unless who says so is dead.
func (w *world) Emit(m metering.Measure) {
	if w.current == nil || !w.current.process.dead {
		w.metrics.Emit(m)
	}
}

func (w *world) calm(now time.Time) bool { return now.Sub(w.lastMove) > storm }

func (w *world) broken(v Violation) {
	if w.violation == nil {
		w.violation = &v
		w.say("checker", "%s: %s", v.Rule, v.What)
	}
}

func (w *world) must(err error) {
	if err != nil {
		w.broken(Violation{At: w.now, Rule: RuleCrash, What: err.Error()})
	}
}

// play lets the day pass, and stops at the first violation.
func (w *world) play() {
	for w.violation == nil && !w.over && w.step() {
		w.effects++
		if w.failure != "" {
			w.broken(Violation{At: w.now, Rule: RuleCrash, What: w.failure})
		}
		w.check.touched()
		w.consume()
	}
	if w.violation == nil && !w.over {
		w.broken(Violation{At: w.now, Rule: RuleProgress, What: "everything waits, and nothing will happen any more"})
	}
	w.only = map[string]bool{}
	w.unwind()
}

// start lets a process run beside whatever else runs.
func (w *world) start(stage, name string, limit time.Duration, run func(ctx context.Context), ended func()) *process {
	p := &process{name: name, stage: stage, limit: limit, started: w.now}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	if w.weather.skew > 0 {
		luck := w.luck("clock of " + name)
		if skew := time.Duration(luck.Int64N(int64(2*w.weather.skew))) - w.weather.skew; w.strikes(ClockSkewed, name, 0.05, luck) {
			p.skew = skew
		}
	}
	w.running[stage]++
	w.processes = append(w.processes, p)
	w.spawn(p, func() {
		defer func() { // also of a stage that panics
			p.ended = true
			p.cancel()
			w.running[stage]--
			w.forget(p)
			if ended != nil {
				ended()
			}
		}()
		run(p.ctx)
	})
	return p
}

// consume starts processes for messages that can be received.
func (w *world) consume() {
	for _, q := range w.queues {
		visible, _ := q.Len()
		for ; visible > 0 && w.running[q.name] < consumers; visible -= 10 {
			name := fmt.Sprintf("consumer of %s at %s", q.name, w.now.Format("02 15:04:05.000"))
			size := 1 + w.luck(name).IntN(10)
			if w.running[q.name] > 0 {
				name += " b"
			}
			w.start(q.name, name, consumerLimit, func(ctx context.Context) { q.receive(ctx, size) }, nil)
		}
	}
}

// finished reports whether the day is over: nothing will move, and nothing is in flight.
func (w *world) finished(now time.Time) bool {
	if now.Sub(w.check.looked) >= lookEvery {
		w.check.look()
	}
	if now.Before(w.lastMove) || !w.check.quiet || len(w.processes) > 0 {
		w.limitPatience(now)
		return false
	}
	for _, q := range w.queues {
		if visible, hidden := q.Len(); visible+hidden > 0 {
			w.limitPatience(now)
			return false
		}
	}
	return true
}

func (w *world) limitPatience(now time.Time) {
	if now.Sub(w.lastMove) > patience {
		w.broken(Violation{At: now, Rule: RuleProgress, What: fmt.Sprintf("something is still in flight %v after the last move", patience)})
	}
}
