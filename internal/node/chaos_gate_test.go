package node_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// The gate makes a whole day of concurrent stages repeat exactly. Every effect of every run (a read, a write, a message, a
// call) stops here; the scheduler waits until nothing moves any more, picks one of the effects that wait, and decides its fate.
// With one effect at a time, chosen by a seeded generator, the same seed is the same day.
type gate struct {
	mu      sync.Mutex
	waiting []*effect
	arrived chan struct{} // capacity 1: something waits
}

// fate is what becomes of an effect.
type fate int

const (
	proceeds   fate = iota
	failsFirst      // nothing is done, and the caller is told so
	failsAfter      // it is done, and the caller is told that it failed: a lost reply
	dies            // the process is gone: nothing is done, now or later
)

// ticket is what lets an effect through. Its luck decides what else is left to chance in the effect: only the scheduler draws
// from the day's generator.
type ticket struct {
	fate fate
	luck *rand.Rand
}

// effect is one that waits at the gate.
type effect struct {
	run    *process
	name   string
	serial int // of the same name in the same run
	grant  chan ticket
	until  time.Time // stalled: not to be granted before
}

// process is one run of a stage, or one consumer with a batch of messages.
type process struct {
	id      int
	name    string
	dead    bool
	started time.Time
	limit   time.Duration // after which it is killed, as a Lambda function is
	serials map[string]int
	cancel  context.CancelFunc
	done    bool
}

type processKey struct{}

var (
	errInjected = errors.New("injected fault")
	errKilled   = errors.New("the process was killed")
)

func newGate() *gate { return &gate{arrived: make(chan struct{}, 1)} }

// pass waits for the effect's turn and learns its fate. Effects outside any process pass at once.
func (g *gate) pass(ctx context.Context, name string) ticket {
	p, ok := ctx.Value(processKey{}).(*process)
	if !ok {
		return ticket{fate: proceeds}
	}
	g.mu.Lock()
	if p.dead {
		g.mu.Unlock()
		return ticket{fate: dies}
	}
	p.serials[name]++
	e := &effect{run: p, name: name, serial: p.serials[name], grant: make(chan ticket, 1)}
	g.waiting = append(g.waiting, e)
	g.mu.Unlock()
	select {
	case g.arrived <- struct{}{}:
	default:
	}
	return <-e.grant
}

// read passes the gate for an effect that changes nothing.
func (g *gate) read(ctx context.Context, name string) error {
	_, err := g.look(ctx, name)
	return err
}

// look is read with the effect's luck.
func (g *gate) look(ctx context.Context, name string) (*rand.Rand, error) {
	switch t := g.pass(ctx, name); t.fate {
	case proceeds:
		return t.luck, nil
	case dies:
		return nil, errKilled
	}
	return nil, errInjected
}

// write passes the gate for an effect and does it, unless its fate says otherwise.
func write[T any](ctx context.Context, g *gate, name string, do func(ctx context.Context, luck *rand.Rand) (T, error)) (T, error) {
	var none T
	t := g.pass(ctx, name)
	switch t.fate {
	case failsFirst:
		return none, errInjected
	case dies:
		return none, errKilled
	case failsAfter:
		if _, err := do(context.WithoutCancel(ctx), t.luck); err != nil {
			return none, err
		}
		return none, errInjected
	}
	return do(context.WithoutCancel(ctx), t.luck)
}

// settle waits until every process has come to the gate, to a sleep or to its end.
func (g *gate) settle() { synctest.Wait() }

// ready are the effects that may be granted now, in an order that does not depend on the machine.
func (g *gate) ready(now time.Time) []*effect {
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortFunc(g.waiting, func(a, b *effect) int {
		return cmp.Or(cmp.Compare(a.run.id, b.run.id), cmp.Compare(a.name, b.name), cmp.Compare(a.serial, b.serial))
	})
	var list []*effect
	for _, e := range g.waiting {
		if !now.Before(e.until) {
			list = append(list, e)
		}
	}
	return list
}

// nextReady is when the first stalled effect may go on.
func (g *gate) nextReady() (t time.Time, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.waiting {
		if !ok || e.until.Before(t) {
			t, ok = e.until, true
		}
	}
	return t, ok
}

func (g *gate) grant(e *effect, t ticket) {
	g.mu.Lock()
	i := slices.Index(g.waiting, e)
	g.waiting = slices.Delete(g.waiting, i, i+1)
	g.mu.Unlock()
	e.grant <- t
}

// kill ends a process between two of its effects.
func (g *gate) kill(p *process) {
	g.mu.Lock()
	p.dead = true
	var mine []*effect
	for _, e := range g.waiting {
		if e.run == p {
			mine = append(mine, e)
		}
	}
	g.mu.Unlock()
	for _, e := range mine {
		g.grant(e, ticket{fate: dies})
	}
	p.cancel()
}

// weather is how much goes wrong on a day.
type weather struct {
	fail, lose, kill, stall, stale, drop, double float64
}

// forecast draws a day's weather: from calm to a storm.
func forecast(r *rand.Rand) weather {
	f := []float64{0, 0.3, 1, 2.5}[r.IntN(4)]
	return weather{fail: 0.01 * f, lose: 0.01 * f, kill: 0.006 * f, stall: 0.004 * f, stale: 0.05 * f, drop: 0.01 * f, double: 0.03 * f}
}

// fate draws what becomes of an effect.
func (w weather) fate(r *rand.Rand) fate {
	switch x := r.Float64(); {
	case x < w.fail:
		return failsFirst
	case x < w.fail+w.lose:
		return failsAfter
	case x < w.fail+w.lose+w.kill:
		return dies
	}
	return proceeds
}

func (e *effect) String() string {
	return fmt.Sprintf("%d/%s %s #%d", e.run.id, e.run.name, e.name, e.serial)
}
