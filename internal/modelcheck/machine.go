package modelcheck

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/awsmp/metering/internal/concurrency"
	"github.com/awsmp/metering/internal/metering"
)

// machine runs one process of the real code, one of its tasks at a time, up to the points at which each asks for an effect. The effects are
// not done here: whoever has the machine answers them.
//
// A stage's tasks are those that it starts through concurrency.Runner. A library that starts goroutines of its own may do so as long as
// one of them at a time asks for effects and its caller waits: it then speaks for the task that waits.
type machine struct {
	ctx     context.Context
	cancel  context.CancelFunc
	tasks   []*task // that have not ended, in the order of their start
	started int
	current *task
	back    chan struct{}            // the turn, given back
	moment  int                      // of the clock as this stretch of code sees it; unread where a look at it is a step
	looked  bool                     // this stretch of code has looked at the clock
	gone    bool                     // given up: every effect fails at once
	spoken  map[metering.Metric]bool // metrics that were emitted
	crash   string
	outcome *outcome // of the role, where it has come to one
}

// unread is the moment of a stretch of code whose look at the clock is a step.
const unread = -1

// task is a function of the process.
type task struct {
	id     int
	resume chan struct{}
	fresh  bool
	want   *effect // that it asks for
	got    answer  // to it, once answered
	has    bool
	until  func() bool // what it waits for among the process's own tasks
}

var errGone = errors.New("the process was given up")

// start runs main as a process, as far as its first effects.
func start(moment int, main func(ctx context.Context, m *machine)) *machine {
	m := &machine{back: make(chan struct{}), moment: moment, spoken: make(map[metering.Metric]bool)}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.spawn(func() { main(m.ctx, m) })
	m.settle()
	return m
}

// resume answers what a task asked for, and runs the process as far as its next effects.
func (m *machine) resume(id int, a answer, moment int) {
	t := m.task(id)
	if t == nil || t.want == nil {
		m.crash = "the same answers led elsewhere before: it does not depend on them alone"
		return
	}
	m.moment, m.looked = moment, false
	t.got, t.has, t.want = a, true, nil
	m.settle()
}

func (m *machine) task(id int) *task {
	for _, t := range m.tasks {
		if t.id == id {
			return t
		}
	}
	return nil
}

// abandon brings the process to its end, without effect.
func (m *machine) abandon() {
	m.gone = true
	m.cancel()
	for _, t := range m.tasks {
		if t.want != nil {
			t.got, t.has, t.want = answer{err: errGone}, true, nil
		}
	}
	m.settle()
}

// settle runs the tasks until each waits for an effect or for another task.
func (m *machine) settle() {
	for {
		t := m.runnable()
		if t == nil {
			return
		}
		m.current, t.fresh, t.has, t.until = t, false, false, nil
		t.resume <- struct{}{}
		<-m.back
	}
}

func (m *machine) runnable() *task {
	for _, t := range m.tasks {
		if t.fresh || t.has || t.until != nil && t.until() {
			return t
		}
	}
	return nil
}

func (m *machine) spawn(f func()) {
	t := &task{id: m.started, resume: make(chan struct{}), fresh: true}
	m.started++
	m.tasks = append(m.tasks, t)
	go func() {
		<-t.resume
		defer func() {
			if r := recover(); r != nil {
				m.crash = fmt.Sprintf("panic: %v\n%s", r, debug.Stack())
			}
			for i, other := range m.tasks {
				if other == t {
					m.tasks = append(m.tasks[:i:i], m.tasks[i+1:]...)
				}
			}
			m.back <- struct{}{}
		}()
		f()
	}()
}

// ask hands an effect over and waits for its answer.
func (m *machine) ask(e *effect) answer {
	if m.gone {
		return answer{err: errGone}
	}
	t := m.current
	t.want = e
	m.back <- struct{}{}
	<-t.resume
	return t.got
}

// hold waits for other tasks of the process.
func (m *machine) hold(until func() bool) {
	for !until() {
		t := m.current
		t.until = until
		m.back <- struct{}{}
		<-t.resume
	}
}

// Group is part of concurrency.Runner.
func (m *machine) Group(limit int) concurrency.Group { return &group{machine: m, limit: limit} }

// Semaphore is part of concurrency.Runner.
func (m *machine) Semaphore(n int) concurrency.Semaphore { return &semaphore{machine: m, free: n} }

type group struct {
	*machine
	limit, running int
}

func (g *group) Go(f func()) {
	if g.limit > 0 {
		g.hold(func() bool { return g.running < g.limit })
	}
	g.running++
	g.spawn(func() {
		defer func() { g.running-- }()
		f()
	})
}

func (g *group) Wait() { g.hold(func() bool { return g.running == 0 }) }

type semaphore struct {
	*machine
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
