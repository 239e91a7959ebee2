package simulation

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/concurrency"
)

// loop runs all tasks of a world, one at a time and in virtual time. Which task is next depends on nothing but the instants at which
// they wake, and at the same instant on who asked first: so a world that is set up alike takes the same course, step by step.
//
// A task gives the turn back where it waits: for time (Sleep), or for other tasks (as a concurrency.Runner). Everything else that it
// does takes no time.
type loop struct {
	now       time.Time
	agenda    agenda
	serial    int64
	current   *task
	waiting   []*task // until a condition of theirs holds
	workers   []*worker
	processes []*process    // that have not ended
	back      chan struct{} // the turn, given back to the loop
	failure   string        // what a task panicked with
}

// task is a function that runs in turns.
type task struct {
	process *process
	worker  *worker
	until   func() bool // while it waits for a condition
	turn    int64       // counts its waits: an entry of the agenda for an earlier one is void
}

// worker is a goroutine that runs one task after another.
type worker struct {
	work   chan func()
	resume chan struct{}
}

// process is what dies as a whole: one run of a stage, or one consumer with a batch of messages.
type process struct {
	name    string // unique in its world
	stage   string
	dead    bool
	ended   bool
	skew    time.Duration // of its machine's clock
	ctx     context.Context
	cancel  context.CancelFunc
	serials map[string]int // of its effects, by name
	tasks   []*task
	started time.Time
	limit   time.Duration // after which it is killed, as a Lambda function is
	limited bool
	// An immortal process is somebody else's, who goes on until he has an answer.
	immortal bool
}

var errKilled = errors.New("the process was killed")

func newLoop(start time.Time) *loop { return &loop{now: start, back: make(chan struct{})} }

// entry is something that happens at an instant.
type entry struct {
	at     time.Time
	serial int64
	task   *task // whose turn it is; nil: do
	turn   int64
	do     func()
}

type agenda []entry

func (a agenda) Len() int { return len(a) }
func (a agenda) Less(i, j int) bool {
	if c := a[i].at.Compare(a[j].at); c != 0 {
		return c < 0
	}
	return a[i].serial < a[j].serial
}
func (a agenda) Swap(i, j int) { a[i], a[j] = a[j], a[i] }
func (a *agenda) Push(v any)   { *a = append(*a, v.(entry)) }
func (a *agenda) Pop() any {
	last := len(*a) - 1
	v := (*a)[last]
	(*a)[last] = entry{}
	*a = (*a)[:last]
	return v
}

// at has do happen at t, or at once where t is over.
func (l *loop) at(t time.Time, do func()) { l.push(entry{at: t, do: do}) }

func (l *loop) push(e entry) {
	if e.at.Before(l.now) {
		e.at = l.now
	}
	l.serial++
	e.serial = l.serial
	heap.Push(&l.agenda, e)
}

// step lets the next thing happen. It reports false when nothing will any more.
func (l *loop) step() bool {
	for len(l.agenda) > 0 {
		e := heap.Pop(&l.agenda).(entry)
		if e.task != nil && e.task.turn != e.turn {
			continue
		}
		l.now = e.at
		if e.task == nil {
			e.do()
		} else {
			l.resume(e.task)
		}
		l.wake()
		return true
	}
	return false
}

// wake puts those whose condition holds on the agenda.
func (l *loop) wake() {
	l.waiting = slices.DeleteFunc(l.waiting, func(t *task) bool {
		if t.until == nil || !t.process.dead && !t.until() {
			return t.until == nil
		}
		t.until = nil
		t.turn++
		l.push(entry{at: l.now, task: t, turn: t.turn})
		return true
	})
}

// spawn starts a task of a process at the next turn.
func (l *loop) spawn(p *process, f func()) {
	w := l.worker()
	t := &task{process: p, worker: w}
	p.tasks = append(p.tasks, t)
	w.work <- func() {
		<-w.resume
		defer func() {
			if r := recover(); r != nil {
				l.failure = fmt.Sprintf("%s panicked: %v\n%s", p.name, r, debug.Stack())
			}
			p.tasks = slices.DeleteFunc(p.tasks, func(other *task) bool { return other == t })
			l.workers = append(l.workers, w)
			l.back <- struct{}{}
		}()
		f()
	}
	l.push(entry{at: l.now, task: t})
}

func (l *loop) worker() *worker {
	if n := len(l.workers); n > 0 {
		w := l.workers[n-1]
		l.workers = l.workers[:n-1]
		return w
	}
	w := &worker{work: make(chan func(), 1), resume: make(chan struct{})}
	go func() {
		for f := range w.work {
			f()
		}
	}()
	return w
}

// resume gives the turn to a task and takes it back.
func (l *loop) resume(t *task) {
	l.current = t
	t.worker.resume <- struct{}{}
	<-l.back
	l.current = nil
}

// wait gives the turn back until the instant has come or the condition holds; either may be missing.
func (l *loop) wait(at time.Time, until func() bool) {
	t := l.current
	t.turn++
	if !at.IsZero() {
		l.push(entry{at: at, task: t, turn: t.turn})
	}
	if until != nil {
		t.until = until
		l.waiting = append(l.waiting, t)
	}
	l.back <- struct{}{}
	<-t.worker.resume
	t.until = nil
}

// kill ends a process: nothing that it does takes effect any more, and whatever it waits for is over.
func (l *loop) kill(p *process) {
	if p.dead || p.ended {
		return
	}
	p.dead = true
	p.cancel()
	for _, t := range p.tasks {
		if t != l.current {
			t.turn++
			t.until = nil
			l.push(entry{at: l.now, task: t, turn: t.turn})
		}
	}
}

// unwind brings every process to its end, without effect.
func (l *loop) unwind() {
	l.agenda = nil
	for len(l.processes) > 0 {
		for _, p := range l.processes {
			p.dead = true
			p.cancel()
			for _, t := range p.tasks {
				t.turn++
				t.until = nil
				l.push(entry{at: l.now, task: t, turn: t.turn})
			}
		}
		for l.step() {
		}
	}
	for _, w := range l.workers {
		close(w.work)
	}
	l.workers = nil
}

func (l *loop) forget(p *process) {
	l.processes = slices.DeleteFunc(l.processes, func(other *process) bool { return other == p })
}

// Now is the time as the running process's machine tells it.
func (l *loop) Now() time.Time {
	if l.current == nil {
		return l.now
	}
	return l.now.Add(l.current.process.skew)
}

// Sleep returns after d, or early with the context's error or when the process is killed.
func (l *loop) Sleep(ctx context.Context, d time.Duration) error {
	p := l.current.process
	if d > 0 && !p.dead && ctx.Err() == nil {
		l.wait(l.now.Add(d), func() bool { return ctx.Err() != nil })
	}
	if p.dead {
		return errKilled
	}
	return ctx.Err()
}

// Group is part of concurrency.Runner.
func (l *loop) Group(limit int) concurrency.Group { return &group{loop: l, limit: limit} }

// Semaphore is part of concurrency.Runner.
func (l *loop) Semaphore(n int) concurrency.Semaphore { return &semaphore{loop: l, free: n} }

type group struct {
	*loop
	limit, running int
}

func (g *group) Go(f func()) {
	if g.limit > 0 && g.running >= g.limit {
		g.hold(func() bool { return g.running < g.limit })
	}
	g.running++
	g.spawn(g.current.process, func() {
		defer func() { g.running-- }()
		f()
	})
}

func (g *group) Wait() {
	if g.running > 0 {
		g.hold(func() bool { return g.running == 0 })
	}
}

// hold waits for a condition among the process's own tasks. Those of a dead process still come to their end, and it waits for them.
func (l *loop) hold(until func() bool) {
	for !until() {
		if l.current.process.dead {
			l.wait(l.now, nil)
			continue
		}
		l.wait(time.Time{}, until)
	}
}

type semaphore struct {
	*loop
	free int
}

func (s *semaphore) Acquire(ctx context.Context) bool {
	s.hold(func() bool { return s.free > 0 || ctx.Err() != nil })
	if ctx.Err() != nil {
		return false
	}
	s.free--
	return true
}

func (s *semaphore) Release() { s.free++ }
