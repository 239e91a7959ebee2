package marketplace

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// margin is kept to the service's limit: timers fire late by milliseconds, and calls do not arrive as evenly as they
	// start. With half of it an eleventh call was seen in some seconds.
	margin = 0.986
	// window is what counts as a second, with the same margin.
	window = 1014 * time.Millisecond
	// slowest is the floor of the pace, in calls per second.
	slowest = 1
	// climb is the part of the full pace that one success gives back: from the floor of 10/s, some ten seconds.
	climb = 0.02
)

// pacer says when the next call may start. Throttling halves its rate, successes raise it step by step.
type pacer struct {
	mu      sync.Mutex
	limiter *rate.Limiter
	full    rate.Limit
	halved  time.Time
	// starts are the last calls, as many as one second may hold: the limiter gives the even pace, this the bound, which
	// the calls behind a late timer would otherwise break.
	starts []time.Time
	next   int
}

func newPacer(callsPerSecond float64) *pacer {
	full := rate.Limit(callsPerSecond * margin)
	return &pacer{
		limiter: rate.NewLimiter(full, 1),
		full:    full,
		starts:  make([]time.Time, max(1, int(math.Ceil(callsPerSecond)))),
	}
}

// reserve takes the next place in the even pace, and tells how long to wait for it. Places follow one another from where the
// last one stood, so that a late timer costs nothing. Hold one at a time: it does not move when the pace changes.
func (p *pacer) reserve(now time.Time) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limiter.ReserveN(now, 1).DelayFrom(now)
}

// start begins a call at now, or tells how long the last second is still full.
func (p *pacer) start(now time.Time) (wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if wait = p.starts[p.next].Add(window).Sub(now); wait > 0 && wait <= window { // longer: the clock was set back
		return wait
	}
	p.starts[p.next] = now
	p.next = (p.next + 1) % len(p.starts)
	return 0
}

// throttled halves the pace, once for all the calls that were under way at the last halving.
func (p *pacer) throttled(started, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !started.After(p.halved) {
		return
	}
	p.halved = now
	p.limiter.SetLimitAt(now, max(p.limiter.Limit()/2, min(slowest, p.full)))
}

// succeeded raises the pace by one step.
func (p *pacer) succeeded(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if limit := p.limiter.Limit(); limit < p.full {
		p.limiter.SetLimitAt(now, min(p.full, limit+p.full*climb))
	}
}
