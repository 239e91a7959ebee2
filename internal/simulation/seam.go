package simulation

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"
)

// FaultKind is a kind of thing that goes wrong.
type FaultKind string

// What goes wrong between our own parts. What the Marketplace does wrong is counted by its simulator.
const (
	CallFailed    FaultKind = "call failed, nothing done"
	ReplyLost     FaultKind = "done, and the reply lost"
	KilledBefore  FaultKind = "killed before an effect"
	KilledAfter   FaultKind = "killed after an effect"
	TimedOut      FaultKind = "killed at its time limit"
	Stalled       FaultKind = "stalled for seconds"
	Throttled     FaultKind = "partition throttled"
	StaleIndex    FaultKind = "index showed the past"
	SendRefused   FaultKind = "message refused by its queue"
	MessageLost   FaultKind = "message lost"
	MessageTwice  FaultKind = "message doubled"
	MessageLate   FaultKind = "message delayed"
	FiredTwice    FaultKind = "schedule fired twice"
	FiredLate     FaultKind = "schedule fired late"
	FiredNever    FaultKind = "schedule did not fire"
	ClockSkewed   FaultKind = "clock ahead or behind"
	DeadLettered  FaultKind = "message left for dead"
	CallThrottled FaultKind = "Marketplace: call throttled"
	CallError     FaultKind = "Marketplace: internal error"
	CallDisabled  FaultKind = "Marketplace: API disabled"
	CallUnseen    FaultKind = "Marketplace: call never arrived"
	AnswerLost    FaultKind = "Marketplace: answer lost after billing"
	Unprocessed   FaultKind = "Marketplace: record unprocessed"
	AnswerSlow    FaultKind = "Marketplace: answer slow"
)

// FaultKinds are all kinds, in the order in which they are shown.
func FaultKinds() []FaultKind {
	return []FaultKind{
		CallFailed, ReplyLost, KilledBefore, KilledAfter, TimedOut, Stalled, Throttled, StaleIndex, SendRefused, MessageLost, MessageTwice,
		MessageLate, DeadLettered, FiredTwice, FiredLate, FiredNever, ClockSkewed, CallThrottled, CallError, CallDisabled, CallUnseen, AnswerLost,
		Unprocessed, AnswerSlow,
	}
}

// errInjected is what a failed effect fails with.
var errInjected = errors.New("injected fault")

// throttledError is what a throttled partition answers.
type throttledError struct{}

func (throttledError) Error() string { return "throttled: the partition takes no more" }

// Retry says that the same call may succeed later.
func (throttledError) Retry() bool { return true }

// seam is where every effect of every process passes, and where its fate is decided: by the seed and by what the effect is, and by
// nothing else. So an effect meets the same fate whatever else is left out of the day, and a day can be made shorter.
type seam struct {
	*loop
	seed    uint64
	weather weather
	calm    func(now time.Time) bool // from then on nothing goes wrong
	faults  map[FaultKind]int
	struck  []string        // the faults that happened, by name, in order
	only    map[string]bool // nil: all; else the only faults that may happen
	say     func(who, format string, args ...any)
}

// weather is how much goes wrong, as probabilities of each effect.
type weather struct {
	fail, lose, killBefore, killAfter, stall float64
	stale                                    float64 // of each index query
	refuse, drop, double, delay              float64 // of each message
	twice, late, never                       float64 // of each firing of a schedule
	skew                                     time.Duration
	throttled                                []spell
}

// spell is a time in which a partition takes no writes.
type spell struct {
	from, until time.Time
	partition   string // a license
}

// forecast draws a day's weather, from calm to a storm.
func forecast(r *rand.Rand) weather {
	f := []float64{0, 0.3, 1, 2.5}[r.IntN(4)]
	return weather{
		fail: 0.01 * f, lose: 0.01 * f, killBefore: 0.003 * f, killAfter: 0.003 * f, stall: 0.004 * f, stale: 0.05 * f,
		refuse: 0.01 * f, drop: 0.01 * f, double: 0.03 * f, delay: 0.02 * f, twice: 0.005 * f, late: 0.02 * f, never: 0.003 * f,
		skew: time.Duration(2*f) * time.Second,
	}
}

// luck is what is left to chance in what the key names.
func (s *seam) luck(key string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	return rand.New(rand.NewPCG(s.seed, h.Sum64()))
}

// strikes decides whether a fault happens to what the key names, and remembers it.
func (s *seam) strikes(kind FaultKind, key string, probability float64, luck *rand.Rand) bool {
	hit := luck.Float64() < probability // drawn in any case, so that what follows does not depend on what is left out
	if !hit || s.calm(s.now) {
		return false
	}
	return s.happens(kind, key)
}

// happens notes a fault, unless it is left out of this day.
func (s *seam) happens(kind FaultKind, key string) bool {
	name := string(kind) + " | " + key
	if s.only != nil && !s.only[name] {
		return false
	}
	s.faults[kind]++
	s.struck = append(s.struck, name)
	return true
}

// fate is what becomes of an effect.
type fate int

const (
	proceeds   fate = iota
	failsFirst      // nothing is done, and the caller is told so
	throttles       // likewise, because the partition is throttled
	failsAfter      // it is done, and the caller is told that it failed
	diesBefore      // the process is gone, nothing is done
	diesAfter       // it is done, and the process is gone
)

// latencies of an effect.
const (
	fastest = time.Millisecond
	slowest = 40 * time.Millisecond
	stall   = 90 * time.Second
)

// pass lets an effect of the running process wait for its turn, and returns its fate, its key and what else is left to chance in it.
// An effect of a process that is dead has no turn.
func (s *seam) pass(name, partition string) (fate, string, *rand.Rand) {
	p := s.current.process
	if p.dead {
		return diesBefore, "", nil
	}
	s.limit(p)
	if p.serials == nil {
		p.serials = make(map[string]int)
	}
	p.serials[name]++
	key := p.name + " " + name
	if n := p.serials[name]; n > 1 {
		key = fmt.Sprintf("%s #%d", key, n)
	}
	luck := s.luck(key)
	took := fastest + time.Duration(luck.Int64N(int64(slowest-fastest)))
	if s.strikes(Stalled, key, s.weather.stall, luck) {
		took = time.Duration(luck.Int64N(int64(stall)))
		s.say(p.name, "stalls for %v before: %s", took.Round(time.Second), name)
	}
	x := luck.Float64()
	s.wait(s.now.Add(took), nil)
	if p.dead {
		return diesBefore, "", nil
	}
	return s.decide(key, name, partition, x, luck), key, luck
}

// limit has the running process killed when its time is up. Most processes find nothing to do and have no need of it.
func (s *seam) limit(p *process) {
	if p.limited {
		return
	}
	p.limited = true
	s.at(p.started.Add(p.limit), func() {
		if !p.ended && !p.dead {
			s.faults[TimedOut]++
			s.say(p.name, "is killed: its time is up")
			s.kill(p)
		}
	})
}

// decide is the fate of an effect, given its number between 0 and 1.
func (s *seam) decide(key, name, partition string, x float64, luck *rand.Rand) fate {
	p, w := s.current.process, s.weather
	if s.calm(s.now) {
		return proceeds
	}
	throttled := luck.Float64() < 0.7
	for _, spell := range w.throttled {
		if throttled && partition == spell.partition && !s.now.Before(spell.from) && s.now.Before(spell.until) && s.happens(Throttled, key) {
			s.say(p.name, "is throttled: %s", name)
			return throttles
		}
	}
	for _, f := range []struct {
		fate        fate
		kind        FaultKind
		probability float64
		says        string
	}{
		{failsFirst, CallFailed, w.fail, "fails, and nothing is done: %s"},
		{failsAfter, ReplyLost, w.lose, "does it and never hears so: %s"},
		{diesBefore, KilledBefore, w.killBefore, "is killed before: %s"},
		{diesAfter, KilledAfter, w.killAfter, "is killed right after: %s"},
	} {
		if x -= f.probability; x >= 0 {
			continue
		}
		if p.immortal && (f.fate == diesBefore || f.fate == diesAfter) {
			return proceeds
		}
		if !s.happens(f.kind, key) {
			return proceeds
		}
		s.say(p.name, f.says, name)
		if f.fate == diesBefore {
			s.kill(p)
		}
		return f.fate
	}
	return proceeds
}

// look passes the seam for an effect that changes nothing.
func (s *seam) look(name, partition string) (string, *rand.Rand, error) {
	f, key, luck := s.pass(name, partition)
	switch f {
	case proceeds:
		return key, luck, nil
	case throttles:
		return key, nil, throttledError{}
	case diesBefore:
		return key, nil, errKilled
	case diesAfter:
		s.kill(s.current.process)
		return key, nil, errKilled
	}
	return key, nil, errInjected
}

// act passes the seam for an effect and does it, unless its fate says otherwise.
func act[T any](s *seam, name, partition string, do func(key string, luck *rand.Rand) (T, error)) (T, error) {
	var none T
	f, key, luck := s.pass(name, partition)
	switch f {
	case failsFirst:
		return none, errInjected
	case throttles:
		return none, throttledError{}
	case diesBefore:
		return none, errKilled
	}
	if f == proceeds {
		s.say(s.current.process.name, "%s", name)
	}
	v, err := do(key, luck)
	switch {
	case f == diesAfter:
		s.kill(s.current.process)
		return none, errKilled
	case err != nil:
		return none, err
	case f == failsAfter:
		return none, errInjected
	}
	return v, nil
}
