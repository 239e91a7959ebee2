package simulator

import (
	"fmt"
	"slices"
	"time"
)

// FaultKind names what goes wrong.
type FaultKind string

const (
	Throttle      FaultKind = "throttle"      // ThrottlingException, nothing stored
	InternalError FaultKind = "internalError" // InternalServiceErrorException with HTTP 500, nothing stored
	Disabled      FaultKind = "disabled"      // DisabledApiException, nothing stored
	Unprocessed   FaultKind = "unprocessed"   // matching records are answered in UnprocessedRecords and not stored
	LoseReply     FaultKind = "loseReply"     // the call is stored, then the connection breaks without an answer
	Latency       FaultKind = "latency"       // the call is handled at once, the answer comes Fault.Latency later
	Unreachable   FaultKind = "unreachable"   // the connection breaks before the service has seen the call
)

// FaultKinds lists every kind.
func FaultKinds() []FaultKind {
	return []FaultKind{Throttle, InternalError, Disabled, Unprocessed, LoseReply, Latency, Unreachable}
}

// Fault is something to go wrong. Several may be in force: the first that was injected and applies decides, latencies add up.
type Fault struct {
	Kind FaultKind
	// Operation limits the fault to "BatchMeterUsage" or "ResolveCustomer". Empty: both.
	Operation string
	// Probability is drawn once a call (Unprocessed: once a record) from Options.Rand. 0 means 1: always.
	Probability float64
	// Times is after how many calls the fault is used up. 0: never. LoseReply counts only calls that would have been answered
	// without an exception.
	Times int
	// From and Until bound the fault on the service's clock: From is in it, Until is not. Zero: open.
	From, Until time.Time
	// Latency is the delay of kind Latency.
	Latency time.Duration
	// Match limits the fault to BatchMeterUsage calls with a record for which it is true (Unprocessed: to those records). Nil: all.
	// It must not call the simulator.
	Match func(Record) bool
}

type injected struct {
	Fault
	id   int
	used int
}

// Inject puts a fault in force until it is used up, its time is over, or remove is called. It panics if the fault is
// malformed: an unknown kind, a probability outside [0,1], a Latency fault without a delay.
func (s *Simulator) Inject(f Fault) (remove func()) {
	id, err := s.inject(f)
	if err != nil {
		panic(err)
	}
	return func() { s.removeFaults(func(x *injected) bool { return x.id == id }) }
}

// ClearFaults removes every fault.
func (s *Simulator) ClearFaults() { s.removeFaults(func(*injected) bool { return true }) }

func (s *Simulator) inject(f Fault) (int, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faultID++
	s.faults = append(s.faults, &injected{Fault: f, id: s.faultID})
	return s.faultID, nil
}

func (s *Simulator) removeFaults(which func(*injected) bool) (removed int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.faults)
	s.faults = slices.DeleteFunc(s.faults, which)
	return before - len(s.faults)
}

func (f Fault) check() error {
	switch {
	case !slices.Contains(FaultKinds(), f.Kind):
		return fmt.Errorf("fault kind %q is unknown: use one of %q", f.Kind, FaultKinds())
	case f.Operation != "" && f.Operation != batchMeterUsage && f.Operation != resolveCustomer:
		return fmt.Errorf("fault operation %q is unknown: use %q, %q or leave it out", f.Operation, batchMeterUsage, resolveCustomer)
	case !(f.Probability >= 0 && f.Probability <= 1):
		return fmt.Errorf("fault probability %v: use 0 to 1 (0 or left out means always)", f.Probability)
	case f.Times < 0:
		return fmt.Errorf("fault times %d: use a count, or 0 for no limit", f.Times)
	case f.Kind == Latency && f.Latency <= 0:
		return fmt.Errorf("fault latency %v: give the delay of a latency fault", f.Latency)
	}
	return nil
}

// fires says whether a fault of this kind strikes this call, and counts it. Called with mu held.
func (s *Simulator) fires(kind FaultKind, call arrival) *injected {
	for _, f := range s.faults {
		if f.Kind == kind && f.applies(call) && s.drawn(f) {
			f.used++
			return f
		}
	}
	return nil
}

// delay is the sum of the latencies that strike this call. Called with mu held.
func (s *Simulator) delay(call arrival) (sum time.Duration) {
	for _, f := range s.faults {
		if f.Kind == Latency && f.applies(call) && s.drawn(f) {
			f.used++
			sum += f.Latency
		}
	}
	return sum
}

// unprocessed is the choice of the records of one call that stay unprocessed. Called with mu held, as is what it returns.
func (s *Simulator) unprocessed(call arrival) func(Record) bool {
	var active []*injected
	for _, f := range s.faults {
		if f.Kind == Unprocessed && f.applies(call) {
			active = append(active, f)
		}
	}
	struck := map[*injected]bool{} // a fault is used once a call, however many records it strikes
	return func(r Record) bool {
		for _, f := range active {
			if (f.Match == nil || f.Match(r)) && s.drawn(f) {
				if !struck[f] {
					struck[f] = true
					f.used++
				}
				return true
			}
		}
		return false
	}
}

func (f *injected) applies(call arrival) bool {
	switch {
	case f.Times > 0 && f.used >= f.Times,
		f.Operation != "" && f.Operation != call.operation,
		!f.From.IsZero() && call.at.Before(f.From),
		!f.Until.IsZero() && !call.at.Before(f.Until):
		return false
	case f.Match == nil:
		return true
	}
	return slices.ContainsFunc(call.records, func(r submitted) bool { return f.Match(r.Record) })
}

func (s *Simulator) drawn(f *injected) bool {
	return f.Probability == 0 || f.Probability == 1 || s.options.Rand() < f.Probability
}
