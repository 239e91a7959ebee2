package modelcheck

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/ledger"
)

// maxSlots is how many processes may be at work at once.
const maxSlots = 10

// state is the whole world at an instant.
type state struct {
	tables, index, service, queue int32
	slots                         [maxSlots]int32
	moment, faults, doubles       int8 // faults and doubles are what is left of them
}

// fate is what becomes of an effect.
type fate uint8

const (
	happens fate = iota
	fails        // nothing is done, and the process is told so
	unheard      // it is done, and the process is told that it failed
)

// act is what kind of step is taken.
type act uint8

const (
	acts    act = iota // a process does an effect
	ticks              // the clock moves on
	dies               // a process is killed
	catches            // the indexes catch up with their tables
	returns            // a process ends without having done anything
)

// step is one step of the world.
type step struct {
	act     act
	fate    fate
	slot    int8
	want    int8
	handles bool  // a message
	twice   bool  // the message it begins with stays in its queue
	message int32 // that it begins with, or that comes again where it dies; none
	effect  int32
	answer  int32
}

// Result is what an exploration has found.
type Result struct {
	Scenario    string
	Processes   int           // at once at most
	States      int           // of the world
	Transitions int           // from one to another
	Finals      int           // states in which nothing more can happen
	Outcomes    int           // of these: contents of the tables and the Marketplace's ledger that differ
	Fates       []string      // what became of all units in these, as "billed 5, late 3": each once, in order
	Settled     int           // worlds at rest from which one more visit of every stage was played
	Steps       int           // of the state that is farthest from the start
	Lives       int           // points of the real code that were reached
	Contents    int           // of the tables
	Elapsed     time.Duration // of real time
	Breach      *Violation    // nil: the law holds on every course
}

// String is the result in a line.
func (r Result) String() string {
	return fmt.Sprintf("%s: %d processes, %d states, %d transitions, %d final in %d outcomes, %d settled, %d steps deep, %d points of the code, %d contents of the tables, %v (%.0f states/s)",
		r.Scenario, r.Processes, r.States, r.Transitions, r.Finals, r.Outcomes, r.Settled, r.Steps, r.Lives, r.Contents,
		r.Elapsed.Round(time.Millisecond), float64(r.States)/r.Elapsed.Seconds())
}

// Options bound an exploration.
type Options struct {
	// MaxStates is how many states are visited at most; 0 means no limit. More are an error.
	MaxStates int
}

// Explore visits every state that the scenario can come to, the nearest first, and stops at the first that breaks the law. It fails where
// it is not done within its bounds, or with the context's error.
func Explore(ctx context.Context, s Scenario, o Options) (Result, error) {
	m, first, err := newModel(s)
	if err != nil {
		return Result{Scenario: s.Name}, err
	}
	defer m.close()
	x := &exploration{model: m, seen: newSeen(), outcomes: make(map[[2]int32]bool)}
	x.result = Result{Scenario: s.Name, Processes: len(m.slots)}
	started := time.Now()
	err = x.run(ctx, first, o)
	r := x.result
	r.States, r.Outcomes, r.Settled, r.Lives, r.Contents = x.seen.n, len(x.outcomes), len(m.visited), len(m.nodes)-1, len(m.tables.list)
	r.Fates = m.fates(x.outcomes)
	r.Elapsed = time.Since(started)
	return r, err
}

// fates are what the ledger says of the outcomes.
func (m *model) fates(outcomes map[[2]int32]bool) []string {
	all := make(map[string]bool)
	for o := range outcomes {
		t := m.tables.list[o[0]]
		store, total := t.store(), ledger.Balance{}
		for _, g := range m.Groups {
			b, err := ledger.Read(background, store, g)
			must(err)
			total.Merge(b)
		}
		all[places(total)] = true
	}
	return slices.Sorted(maps.Keys(all))
}

type exploration struct {
	*model
	seen     *seen
	result   Result
	outcomes map[[2]int32]bool
}

// run is a search in the order of distance.
func (x *exploration) run(ctx context.Context, first state, o Options) error {
	x.seen.add(first, 0)
	for _, at := range first.slots {
		if b := x.nodes[at].breach; b != nil {
			x.result.Breach = x.story(0, nil, b, nil)
			return nil
		}
	}
	if b := x.agree(first.tables, first.service); b != nil {
		x.result.Breach = x.story(0, nil, b, nil)
		return nil
	}
	level := 1 // where the next level begins
	for at := 0; at < x.seen.n; at++ {
		if at == level {
			x.result.Steps++
			level = x.seen.n
		}
		if at%4096 == 0 && ctx.Err() != nil {
			return fmt.Errorf("explore %s: %w after %d states", x.Name, ctx.Err(), at)
		}
		if o.MaxStates > 0 && x.seen.n > o.MaxStates {
			return fmt.Errorf("explore %s: it has more than %d states", x.Name, o.MaxStates)
		}
		if x.expand(uint32(at)); x.result.Breach != nil {
			return nil
		}
	}
	return nil
}

// expand visits what follows a state.
func (x *exploration) expand(at uint32) {
	s, final := x.seen.at(at).state, true
	x.successors(s, func(st step, next state, b *Breach) bool {
		final = false
		x.result.Transitions++
		if b != nil {
			x.result.Breach = x.story(at, &st, b, nil)
			return false
		}
		x.seen.add(next, at)
		return true
	})
	if x.result.Breach != nil {
		return
	}
	if final {
		x.result.Finals++
		x.outcomes[[2]int32{s.tables, s.service}] = true
	}
	if x.atRest(s) {
		if v := x.settle(s); v.breach != nil {
			x.result.Breach = x.story(at, nil, v.breach, v.lines)
		}
	}
}
