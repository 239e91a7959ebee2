package node_test

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/queue/memory"
	store "github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/internal/telemetry"
	"github.com/awsmp/metering/simulator"
)

var (
	seedCount = flag.Int("seeds", defaultSeeds, "how many days TestSeeds plays")
	oneSeed   = flag.Uint64("seed", 0, "the one day that TestSeeds plays again, with every effect printed")
)

// TestSeeds plays whole virtual days with duplicate deliveries, lost messages, kills between any two effects, throttling,
// unprocessed records, lost replies, stale indexes and sellers who write while the stages run. After every single effect the
// group that it touched must balance, and agree with what the simulator has billed.
func TestSeeds(t *testing.T) {
	t.Parallel()
	if *oneSeed != 0 {
		synctest.Test(t, func(t *testing.T) { play(t, *oneSeed, true, func(ledger.Balance) {}) })
		return
	}
	var mu sync.Mutex
	var sum ledger.Balance
	t.Cleanup(func() { // days that never reach a place would prove nothing about it
		for _, p := range ledger.Places() {
			if n := sum.Place(p).Units; n == 0 && *seedCount >= 100 && p != ledger.DryRun && p != ledger.InFlight {
				t.Errorf("no day had units %s", p)
			}
		}
		t.Logf("%d days: %d units written, %d billed", *seedCount, sum.Written.Units, sum.Place(ledger.Billed).Units)
	})
	tally := func(b ledger.Balance) {
		mu.Lock()
		defer mu.Unlock()
		sum.Merge(b)
	}
	for i := range *seedCount {
		seed := uint64(i + 1)
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { play(t, seed, false, tally) })
		})
	}
}

// TestSeedReplaysExactly: the same seed is the same day, effect by effect, or a failing seed could not be looked at again.
func TestSeedReplaysExactly(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 6; seed++ {
		var traces [2]uint64
		for i := range traces {
			synctest.Test(t, func(t *testing.T) { traces[i] = play(t, seed, false, func(ledger.Balance) {}) })
		}
		if traces[0] != traces[1] {
			t.Errorf("seed %d took two different courses", seed)
		}
	}
}

// bubbleClock is the clock of a synctest bubble.
type bubbleClock struct{}

func (bubbleClock) Now() time.Time { return time.Now().UTC() }

func (bubbleClock) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// chaos is a day in play.
type chaos struct {
	t       *testing.T
	seed    uint64
	verbose bool
	random  *rand.Rand
	day     day
	gate    *gate
	node    *node.Node
	store   *frailStore
	sim     *simulator.Simulator
	metrics *telemetry.Counters
	dirty   map[metering.Group]bool
	written map[string]metering.Quantity // by license and key: what each row held when last written
	runs    []*process
	last    int
	trace   interface{ Sum64() uint64 }
	record  func(string)
	// startedAt and audited are when each schedule last ran and when all books were last read.
	startedAt map[string]time.Time
	audited   time.Time
	tally     func(ledger.Balance)
	idle      bool // at the last audit nothing was in flight
}

// play plays a seed's day to its end and returns a digest of every effect in its order.
func play(t *testing.T, seed uint64, verbose bool, tally func(ledger.Balance)) uint64 {
	c := newChaos(t, seed, verbose)
	c.tally = tally
	for c.step() {
	}
	c.finish()
	return c.trace.Sum64()
}

func newChaos(t *testing.T, seed uint64, verbose bool) *chaos {
	random := rand.New(rand.NewPCG(seed, 0x5eed))
	c := &chaos{
		t: t, seed: seed, verbose: verbose, random: random, day: draw(random), gate: newGate(), metrics: &telemetry.Counters{},
		dirty: make(map[metering.Group]bool), written: make(map[string]metering.Quantity), startedAt: make(map[string]time.Time),
	}
	hash := fnv.New64a()
	c.trace, c.record = hash, func(s string) { fmt.Fprintln(hash, s) }
	time.Sleep(time.Until(c.day.start))
	c.store = &frailStore{
		Store: store.New(store.Options{}), gate: c.gate, weather: c.day.weather,
		touched: func(g metering.Group) { c.dirty[g] = true },
		rows:    make(map[string][]metering.PendingRow), records: make(map[string][]metering.Record),
	}
	var err error
	if c.sim, err = simulator.New(simulator.Options{
		Now: time.Now, Rand: rand.New(rand.NewPCG(seed, 0x51a)).Float64, CallsPerSecond: simulator.DefaultCallsPerSecond, Sleep: bubbleClock{}.Sleep,
		Dimensions:         []string{apiCalls, "storage#gb", "api_calls#2026-03-10T14", "direct-0", "direct-1"},
		GraceExtendsWindow: random.IntN(2) == 0, ResendNeedsSubscription: random.IntN(2) == 0, ShuffleResults: true,
	}); err != nil {
		t.Fatal(err)
	}
	check(t, c.sim.PutLicense(simulator.License{ARN: licenseOne, AccountID: buyerOne}))
	check(t, c.sim.PutLicense(simulator.License{ARN: licenseTwo, AccountID: buyerTwo}))
	check(t, c.sim.PutCustomer(simulator.Customer{Identifier: legacyIdentifier, AccountID: "777788889999", Active: true}))
	api := marketplace.New(marketplace.Options{
		Region: "us-east-1", Endpoint: "http://simulator.invalid", ProductCode: simulator.DefaultProductCode,
		HTTPClient: frailNetwork{client: c.sim.Client(), gate: c.gate, called: func() { c.audited = time.Time{} }},
	})
	c.node, err = node.New(node.Config{
		Store: c.store, Metrics: c.metrics, Rules: c.day.rules, Clock: bubbleClock{},
		Marketplace: marketplace.NewSender(api, marketplace.Settings{Now: bubbleClock{}.Now, Sleep: bubbleClock{}.Sleep}),
	})
	check(t, err)
	frail := func(name string, q *memory.Queue) *frailQueue {
		return &frailQueue{Queue: q, name: name, gate: c.gate, weather: c.day.weather}
	}
	c.node.Clean.Batch = c.day.batch
	c.node.Clean.Jitter = func(d time.Duration) time.Duration { return d / 2 }
	c.node.Discover.Work, c.node.Discover.Deprovision = frail("work", c.node.Work), frail("deprovision", c.node.Deprovision)
	cleanup := frail("cleanup", c.node.Cleanup)
	c.node.Discover.Cleanup, c.node.Aggregate.Cleanup = cleanup, cleanup
	return c
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// step does one thing: grants one effect, starts what is due, or lets time pass. It reports whether the day goes on.
func (c *chaos) step() bool {
	c.gate.settle()
	c.verify()
	now := time.Now()
	c.reap(now)
	if c.startDue(now) {
		return true
	}
	if c.random.IntN(10) == 0 && c.move(now) {
		return true
	}
	if ready := c.gate.ready(now); len(ready) > 0 {
		c.grant(ready[c.random.IntN(len(ready))], now)
		return true
	}
	if c.consume(now) || c.move(now) {
		return true
	}
	if c.over(now) {
		return false
	}
	c.wait(now)
	return true
}

// move does what comes from outside and is due, between any two effects.
func (c *chaos) move(now time.Time) bool {
	if len(c.day.moves) == 0 || c.day.moves[0].at.After(now) {
		return false
	}
	m := c.day.moves[0]
	c.day.moves = c.day.moves[1:]
	c.say("move %s", m.what)
	m.do(c)
	return true
}

func (c *chaos) grant(e *effect, now time.Time) {
	if c.random.Float64() < c.day.weather.stall && e.until.IsZero() {
		e.until = now.Add(time.Duration(c.random.IntN(50)) * time.Second)
		c.say("stall %v", e)
		return
	}
	f := c.day.weather.fate(c.random)
	if len(c.day.moves) == 0 && now.Sub(c.day.start) > storm { // or a storm could hold up for ever what is looked at once a day
		f = proceeds
	}
	c.say("%v: fate %d", e, f)
	if f == dies {
		c.gate.kill(e.run)
		return
	}
	c.gate.grant(e, ticket{f, rand.New(rand.NewPCG(c.random.Uint64(), 0))})
}

// say notes what happens, and prints it when one seed is looked at.
func (c *chaos) say(format string, args ...any) {
	line := time.Now().UTC().Format("01-02 15:04:05.000 ") + fmt.Sprintf(format, args...)
	c.record(line)
	if c.verbose {
		c.t.Log(line)
	}
}

// start lets a process run beside whatever else runs.
func (c *chaos) start(name string, limit time.Duration, run func(ctx context.Context)) {
	c.last++
	p := &process{id: c.last, name: name, started: time.Now(), limit: limit, serials: make(map[string]int)}
	ctx, cancel := context.WithCancel(context.WithValue(c.t.Context(), processKey{}, p))
	p.cancel = cancel
	c.runs = append(c.runs, p)
	c.say("start %d/%s", p.id, name)
	go func() {
		run(ctx)
		cancel()
		c.gate.mu.Lock()
		p.done = true
		c.gate.mu.Unlock()
	}()
}

// reap forgets the processes that have ended and kills those over their time.
func (c *chaos) reap(now time.Time) {
	c.gate.mu.Lock()
	alive := c.runs[:0]
	var late []*process
	for _, p := range c.runs {
		if p.done {
			continue
		}
		alive = append(alive, p)
		if !p.dead && now.Sub(p.started) > p.limit {
			late = append(late, p)
		}
	}
	c.runs = alive
	c.gate.mu.Unlock()
	for _, p := range late {
		c.say("kill %d/%s: out of time", p.id, p.name)
		c.gate.kill(p)
	}
}

// startDue starts the stages whose time has come.
func (c *chaos) startDue(now time.Time) bool {
	started := false
	for _, s := range c.timetable() {
		if !s.schedule.Next(now.Add(-time.Nanosecond)).Equal(now) || c.startedAt[s.schedule.Name].Equal(now) {
			continue
		}
		started, c.startedAt[s.schedule.Name] = true, now
		for _, r := range s.runs {
			c.start(r.name, 300*time.Second, r.do)
		}
	}
	return started
}

type stageRun struct {
	name string
	do   func(ctx context.Context)
}

type timetabled struct {
	schedule metering.Schedule
	runs     []stageRun
}

// timetable are the stages as their schedules start them: every slice a process of its own.
func (c *chaos) timetable() []timetabled {
	slice := func(name string, s pipeline.Slice) stageRun {
		return stageRun{name, func(ctx context.Context) { _, _ = c.node.Discover.Run(ctx, s) }}
	}
	var meter, ageout []stageRun
	for offset := metering.MinOffset; offset <= metering.MaxOffset; offset++ {
		meter = append(meter, slice(fmt.Sprint("meter", offset), pipeline.MeterSlice(offset)))
	}
	for shard := range metering.AgeoutShards {
		ageout = append(ageout, slice(fmt.Sprint("ageout", shard), pipeline.AgeoutSlice(shard)))
	}
	return []timetabled{
		{metering.MeterSchedule, meter}, {metering.AgeoutSchedule, ageout},
		{metering.FlushSchedule, []stageRun{slice("flush", pipeline.FlushSlice())}},
		{metering.SubmitSchedule, []stageRun{{"submit", func(ctx context.Context) { _, _ = c.node.Submit.Run(ctx) }}}},
		{metering.ExpireSchedule, []stageRun{{"expire", func(ctx context.Context) { _, _ = c.node.Expire.Run(ctx) }}}},
		{metering.FinalizeSchedule, []stageRun{{"finalize", func(ctx context.Context) { _, _ = c.node.Finalize.Run(ctx) }}}},
	}
}
