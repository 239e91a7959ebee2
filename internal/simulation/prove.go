// Package simulation is a whole world in one process and in virtual time: all stages, the subscription lifecycle, sellers who write,
// an operator, and the Marketplace, with everything going wrong that can. A seed decides what happens; after every single effect the
// world is held against the law of conservation, and a day that breaks it is made short and told as a story.
package simulation

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/awsmp/metering/internal/ledger"
)

// Options say what to prove.
type Options struct {
	// Days is how many virtual days are played at least.
	Days float64
	// Seed is that of the first day; the others follow it.
	Seed uint64
	// Workers is how many days are played at once; 0 means one a processor.
	Workers int
	// Progress, where set, is told how far the proof is, after every day that was played. It is called by one goroutine at a time.
	Progress func(Result)
}

// Result is what was played and found.
type Result struct {
	Days     float64           // of virtual time
	Seeds    int               // that were played
	Events   int               // effects, moves and firings
	Faults   map[FaultKind]int // by kind
	Books    ledger.Balance    // of all days: units by fate
	Elapsed  time.Duration     // of real time, which alone differs from run to run
	Violated []Violated        // days that broke the law
}

// Violated is a seed whose day broke the law.
type Violated struct {
	Seed      uint64    `json:"seed"`
	Violation Violation `json:"violation"`
}

// maxViolated is after how many broken days a proof ends: it has failed, and the next ones would say the same.
const maxViolated = 5

// Prove plays day after day until there are enough, or five have broken the law. What it returns depends on the options alone, not on
// how many workers there are or how fast they are. It ends early with the context's error, and returns what it has played by then.
func Prove(ctx context.Context, o Options) (Result, error) {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	p := proof{Options: o, next: o.Seed, counted: o.Seed, ahead: make(map[uint64]Day), result: Result{Faults: make(map[FaultKind]int)}}
	started := time.Now()
	var workers sync.WaitGroup
	for range o.Workers {
		workers.Go(func() {
			for seed, more := p.draw(ctx); more; seed, more = p.draw(ctx) {
				d, err := Play(seed, nil, nil)
				p.played(d, err, time.Since(started))
			}
		})
	}
	workers.Wait()
	if p.failure == nil && !p.enough() {
		p.failure = ctx.Err()
	}
	return p.result, p.failure
}

// proof is a Prove under way.
type proof struct {
	Options
	mu      sync.Mutex
	next    uint64         // seed to be played
	counted uint64         // seed that is added to the result next
	ahead   map[uint64]Day // days that were played before their turn
	result  Result
	failure error
}

func (p *proof) enough() bool {
	return p.result.Days >= p.Days || len(p.result.Violated) >= maxViolated
}

// draw is the next seed to play, unless there are days enough.
func (p *proof) draw(ctx context.Context) (uint64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.enough() || p.failure != nil || ctx.Err() != nil {
		return 0, false
	}
	p.next++
	return p.next - 1, true
}

// played adds a day to the result, when those of all seeds before it have been added.
func (p *proof) played(d Day, err error, elapsed time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.failure = err
		return
	}
	p.ahead[d.Seed] = d
	for d, there := p.ahead[p.counted]; there && !p.enough(); d, there = p.ahead[p.counted] {
		delete(p.ahead, p.counted)
		p.result.add(d)
		p.counted++
	}
	p.result.Elapsed = elapsed
	if p.Progress != nil {
		p.Progress(p.result)
	}
}

// Day is a day that was played.
type Day struct {
	Seed      uint64
	Start     time.Time
	Days      float64
	Events    int
	Faults    map[FaultKind]int
	Books     ledger.Balance
	Violation *Violation // nil: the law held

	moves  int      // of the plan
	struck []string // the faults, by name
}

// Play plays the day of a seed, or with a story only what that names of it. Tell, where set, hears everything that happens.
func Play(seed uint64, only *Story, tell func(Line)) (Day, error) {
	w, err := newWorld(seed, only, tell)
	if err != nil {
		return Day{Seed: seed}, err
	}
	return w.day(), nil
}

// day plays the world to its end.
func (w *world) day() Day {
	w.play()
	d := Day{
		Seed: w.seed, Start: w.plan.start, Days: w.now.Sub(w.plan.start).Hours() / 24, Events: w.effects,
		moves: len(w.plan.moves), struck: w.struck,
	}
	if w.violation == nil {
		d.Books = w.finish()
	}
	w.countService()
	d.Faults, d.Violation = w.faults, w.violation
	return d
}

// countService adds what the Marketplace has done wrong.
func (w *world) countService() {
	s := w.sim.Stats()
	for kind, n := range map[FaultKind]int{
		CallThrottled: s.Throttled, CallError: s.Exceptions["InternalServiceErrorException"], CallDisabled: s.Exceptions["DisabledApiException"],
		CallUnseen: s.Unreachable, AnswerLost: s.RepliesLost, Unprocessed: s.Unprocessed,
	} {
		w.faults[kind] += n
	}
	for _, q := range w.queues {
		visible, hidden := q.dead.Len()
		w.faults[DeadLettered] += visible + hidden
	}
}

func (r *Result) add(d Day) {
	r.Seeds++
	r.Days += d.Days
	r.Events += d.Events
	r.Books.Merge(d.Books)
	for kind, n := range d.Faults {
		r.Faults[kind] += n
	}
	if d.Violation != nil {
		r.Violated = append(r.Violated, Violated{d.Seed, *d.Violation})
	}
}
