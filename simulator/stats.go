package simulator

import (
	"maps"
	"time"
)

// Call is one call of an operation that reached the service.
type Call struct {
	At        time.Time `json:"at"`
	Operation string    `json:"operation"`
	Records   int       `json:"records"`             // usage records in the request
	Bytes     int       `json:"bytes"`               // size of the request body
	Exception string    `json:"exception,omitempty"` // name of the exception that answered it
	ReplyLost bool      `json:"replyLost,omitempty"` // handled, and the answer dropped by a fault
}

// Stats are counts since New or Reset.
type Stats struct {
	Calls         int            `json:"calls"`       // that reached the service, refused ones included
	Records       int            `json:"records"`     // in BatchMeterUsage calls that were not refused as a whole
	Statuses      map[string]int `json:"statuses"`    // results by status
	Unprocessed   int            `json:"unprocessed"` // records answered in UnprocessedRecords
	Exceptions    map[string]int `json:"exceptions"`  // calls by exception
	Throttled     int            `json:"throttled"`   // calls answered with ThrottlingException
	RepliesLost   int            `json:"repliesLost"`
	Unreachable   int            `json:"unreachable"`   // calls that a fault kept from arriving; not in Calls
	BusiestSecond int            `json:"busiestSecond"` // most BatchMeterUsage calls in any [t, t+1s)
	FirstCall     time.Time      `json:"firstCall,omitzero"`
	LastCall      time.Time      `json:"lastCall,omitzero"`
}

// Stats returns the counts so far.
func (s *Simulator) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.log.stats
	stats.Statuses = maps.Clone(stats.Statuses)
	stats.Exceptions = maps.Clone(stats.Exceptions)
	return stats
}

// Calls returns the last calls, oldest first, at most Options.CallLog of them.
func (s *Simulator) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	ring := s.log.ring
	return append(append(make([]Call, 0, len(ring)), ring[s.log.next:]...), ring[:s.log.next]...)
}

type callLog struct {
	stats Stats
	ring  []Call
	next  int // where the oldest call stands once the ring is full, else 0
	size  int
	// recent holds the calls of the last second. Equal times share an entry, so a standing clock costs nothing.
	recent []instant
	inLast int
}

type instant struct {
	at    time.Time
	calls int
}

func newCallLog(size int) callLog {
	return callLog{size: size, stats: Stats{Statuses: map[string]int{}, Exceptions: map[string]int{}}}
}

func (l *callLog) add(c Call) {
	l.stats.Calls++
	if c.Exception != "" {
		l.stats.Exceptions[c.Exception]++
	}
	if c.Exception == throttlingException {
		l.stats.Throttled++
	}
	if c.ReplyLost {
		l.stats.RepliesLost++
	}
	if l.stats.FirstCall.IsZero() {
		l.stats.FirstCall = c.At
	}
	l.stats.LastCall = c.At
	if c.Operation == batchMeterUsage {
		l.countSecond(c.At)
	}
	if len(l.ring) < l.size {
		l.ring = append(l.ring, c)
		return
	}
	l.ring[l.next] = c
	l.next = (l.next + 1) % l.size
}

func (l *callLog) countSecond(at time.Time) {
	if n := len(l.recent); n > 0 && at.Before(l.recent[n-1].at) { // the clock was set back: seconds cannot be compared
		l.recent, l.inLast = l.recent[:0], 0
	}
	if n := len(l.recent); n > 0 && at.Equal(l.recent[n-1].at) {
		l.recent[n-1].calls++
	} else {
		l.recent = append(l.recent, instant{at, 1})
	}
	l.inLast++
	gone := 0
	for at.Sub(l.recent[gone].at) >= time.Second {
		l.inLast -= l.recent[gone].calls
		gone++
	}
	l.recent = l.recent[gone:]
	l.stats.BusiestSecond = max(l.stats.BusiestSecond, l.inLast)
}
