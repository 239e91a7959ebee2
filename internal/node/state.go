package node

import (
	"context"
	"maps"
	"sync"
	"time"
)

// state is what a node knows of its own running.
type state struct {
	mu   sync.Mutex
	last map[string]StageState
	due  []time.Time // of each job, the instant that it runs at next; nil while the node does not run
	// open ends when no stage may start any more, work when none may go on; nil while the node does not run.
	open, work context.Context
}

// StageState is what is remembered of a stage.
type StageState struct {
	Event        // the last one
	Runs     int // since the start
	Failures int // of these
}

// State is a look at a node.
type State struct {
	Stages map[string]StageState // by name; those that have not run yet are missing
	Next   map[string]time.Time  // by schedule: when it is due
	Queues []QueueState
	// DeadLetters are messages that failed too often. Their groups are found again at the next visit.
	DeadLetters int
}

// QueueState is a look at a queue.
type QueueState struct {
	Name      string
	Visible   int       // wait to be handled
	InFlight  int       // are being handled, or failed and come back
	BusySince time.Time // no message is older; zero while it is empty
	Dead      int       // among the dead letters are its own
}

// State looks at the node.
func (n *Node) State() State {
	s := State{Next: make(map[string]time.Time, len(n.jobs))}
	n.state.mu.Lock()
	s.Stages = maps.Clone(n.state.last)
	due := n.state.due
	for i, j := range n.jobs {
		if due != nil {
			s.Next[j.schedule.Name] = due[i]
		}
	}
	n.state.mu.Unlock()
	for _, q := range n.inboxes() {
		visible, hidden := q.Len()
		_, dead := q.queue.Letters(0)
		s.Queues = append(s.Queues, QueueState{Name: q.name, Visible: visible, InFlight: hidden, BusySince: q.busySince(), Dead: dead})
	}
	visible, hidden := n.DeadLetters.Len()
	s.DeadLetters = visible + hidden
	return s
}

func (s *state) note(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		s.last = make(map[string]StageState)
	}
	r := s.last[e.Stage]
	r.Event, r.Runs = e, r.Runs+1
	if e.Err != nil {
		r.Failures++
	}
	s.last[e.Stage] = r
}

func (s *state) begin(jobs []job, now time.Time, open, work context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open, s.work = open, work
	s.due = make([]time.Time, len(jobs))
	for i, j := range jobs {
		s.due[i] = j.schedule.Next(now)
	}
}

func (s *state) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due = nil
}

func (s *state) dueAt(i int) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due[i]
}

func (s *state) ran(i int, next time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.due[i] = next
}

// playedUntil is the time up to which every instant has been run: now, or just before an instant that a stage was late for.
func (s *state) playedUntil(now time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, due := range s.due {
		if !due.After(now) {
			now = due.Add(-time.Nanosecond)
		}
	}
	return now
}

// played notes that every instant up to t has been run.
func (s *state) played(jobs []job, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.due {
		s.due[i] = jobs[i].schedule.Next(t)
	}
}

// contexts are the running node's; of one that does not run, the advance's own, which cancels no stage.
func (s *state) contexts(ctx context.Context) (open, work context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		return context.WithoutCancel(ctx), context.WithoutCancel(ctx)
	}
	return s.open, s.work
}
