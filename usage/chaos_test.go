package usage_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	queuememory "github.com/awsmp/metering/internal/queue/memory"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/internal/telemetry"
	"github.com/awsmp/metering/usage"
)

// TestChaos plays random days of several processes on the same few rows: events and batches, writes that are lost on the way there or
// back, slow tables, processes that are killed, and the real aggregator committing hours in between, in virtual time. At the end
// the rows must hold what was acknowledged, and every answer must have been true (chaos_books_test.go). A failing run prints the
// seed that plays it again.
func TestChaos(t *testing.T) {
	t.Parallel()
	for part := range parts {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				p := drawPlan(rt)
				var wrong []string
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.play(p)
					w.settle()
					wrong = w.audit()
				})
				if len(wrong) > 0 {
					rt.Fatal(strings.Join(wrong, "\n"))
				}
			})
		})
	}
}

const processes = 3

type plan struct {
	steps  []step
	faults [processes * 2][]fault // of each process's line for events, and for batches
}

type kind int

const (
	addOne kind = iota
	flushAll
	writeBatch
	sendAgain
	visitHour
	wait
	kill
)

// often is how often each kind of step comes.
var often = []kind{addOne, addOne, addOne, addOne, addOne, flushAll, flushAll, writeBatch, writeBatch, sendAgain, visitHour, wait, wait, kill}

type step struct {
	kind      kind
	process   int
	place     int // which of the rows
	more      int // other rows of a batch, which batch is sent again
	quantity  int64
	pause     time.Duration
	inBetween time.Duration // between the aggregator's read and its commit
}

type fault int

const (
	fine fault = iota
	alsoFine
	slow      // before it arrives
	slowBack  // after it has been applied
	lost      // on the way there
	lostBack  // on the way back
	overtaken // by the commit of its hour
	followed  // by the commit of its hour, before the answer is there
	dies      // the process, with the write applied
	faults
)

func drawPlan(t *rapid.T) (p plan) {
	pauses := rapid.SampledFrom([]time.Duration{0, time.Second, 30 * time.Second, 2 * time.Minute})
	p.steps = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			kind:      rapid.SampledFrom(often).Draw(t, "kind"),
			process:   rapid.IntRange(0, processes-1).Draw(t, "process"),
			place:     rapid.IntRange(0, places-1).Draw(t, "place"),
			more:      rapid.IntRange(0, 100).Draw(t, "more"),
			quantity:  rapid.Int64Range(0, 9).Draw(t, "quantity"),
			pause:     pauses.Draw(t, "pause"),
			inBetween: pauses.Draw(t, "between"),
		}
	}), 10, 60).Draw(t, "steps")
	for i := range p.faults {
		p.faults[i] = rapid.SliceOfN(rapid.Map(rapid.IntRange(0, int(faults)-1), func(n int) fault { return fault(n) }), 0, 40).Draw(t, fmt.Sprint("faults ", i))
	}
	return p
}

// world is a store, the processes that write to it, and a true book of what reached it.
type world struct {
	t         *testing.T
	store     *memory.Store
	queue     *queuememory.Queue
	processes []*process // all that ever lived
	running   [processes]*process
	faults    [processes * 2][]fault
	batches   []*batchRun
	all       sync.WaitGroup

	mu      sync.Mutex
	clock   int                      // of effects
	applied map[string][]application // by row, in order
	commits map[metering.Group]int   // when
	wrong   []string
}

type application struct {
	token    string
	quantity int64
	at       int
	by       *wire
}

// process is one process's two writers. What it was told counts until it is killed.
type process struct {
	number         int
	events, lists  *usage.Writer
	eventLine      *wire
	listLine       *wire
	accepted       map[string]int64 // by row: what Add took
	afterCommit    map[string]int64 // likewise, once the hour had its record
	outcomes       []usage.Outcome
	mu             sync.Mutex
	dead, finished bool
}

// batchRun is a batch and what its caller heard.
type batchRun struct {
	id      string
	events  []usage.Event
	running atomic.Bool
	heard   []error // final
	tooLate map[metering.Group]bool
}

const places = 12

// place is one of twelve rows: two hours, an account with tags and one without, three minutes.
func place(n int, quantity int64) usage.Event {
	e := used(quantity)
	if n%2 == 1 {
		e = tagged(quantity, fmt.Sprint("team ", quantity%3))
		e.Account = "444455556666"
	}
	return at(e, noon.Add(-time.Duration(n/2%2)*time.Hour-time.Duration(n/4)*5*time.Minute-30*time.Second))
}

func keyOf(e usage.Event) string {
	g := groupOf(e)
	return g.RowKey(metering.Second(e.Time.Truncate(time.Minute).Unix() + 59))
}

func newWorld(t *testing.T) *world {
	return &world{
		t: t, store: memory.New(memory.Options{}), queue: queuememory.New(queuememory.Options{Now: clock}),
		applied: make(map[string][]application), commits: make(map[metering.Group]int),
	}
}

func (w *world) start(number int) *process {
	p := &process{number: number, accepted: make(map[string]int64), afterCommit: make(map[string]int64)}
	p.eventLine = &wire{Table: w.store, world: w, process: p, faults: &w.faults[2*number]}
	p.listLine = &wire{Table: w.store, world: w, process: p, faults: &w.faults[2*number+1]}
	p.events = writer(w.t, p.eventLine, usage.Options{Parallel: 1, MaxRows: 6, Outcome: func(o usage.Outcome) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.dead {
			p.outcomes = append(p.outcomes, o)
		}
	}})
	p.lists = writer(w.t, p.listLine, usage.Options{Parallel: 1})
	w.running[number] = p
	w.processes = append(w.processes, p)
	return p
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

func (p *process) die() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dead = true
}

func (w *world) find(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

func (w *world) committed(g metering.Group) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.commits[g] > 0
}

func (w *world) play(p plan) {
	w.faults = p.faults
	for n := range processes {
		w.start(n)
	}
	for i, s := range p.steps {
		time.Sleep(time.Millisecond) // so that no two begin at one instant, and a run repeats
		proc := w.running[s.process]
		if proc.isDead() {
			proc = w.start(s.process)
		}
		switch s.kind {
		case addOne:
			w.add(proc, place(s.place, s.quantity))
		case flushAll:
			w.all.Go(func() {
				ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
				defer cancel()
				_ = proc.events.Flush(ctx) // Outcome hears the same
			})
		case writeBatch:
			b := &batchRun{id: fmt.Sprint("batch ", i), tooLate: make(map[metering.Group]bool)}
			for n := range s.more%4 + 1 {
				b.events = append(b.events, place((s.place+n*s.more)%places, s.quantity+int64(n)))
			}
			for _, e := range b.events {
				b.tooLate[groupOf(e)] = w.committed(groupOf(e))
			}
			w.batches = append(w.batches, b)
			w.send(proc, b)
		case sendAgain:
			if n := len(w.batches); n > 0 && !w.batches[s.more%n].running.Load() {
				w.send(proc, w.batches[s.more%n])
			}
		case visitHour:
			w.all.Go(func() { w.meter(groupOf(place(s.place, 1)), s.inBetween) })
		case wait:
			time.Sleep(s.pause)
		case kill:
			proc.die()
		}
	}
}

func (w *world) add(p *process, e usage.Event) {
	late := w.committed(groupOf(e))
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
	defer cancel()
	switch err := p.events.Add(ctx, e); {
	case err == nil:
		p.accepted[keyOf(e)] += e.Quantity
		if late {
			p.afterCommit[keyOf(e)] += e.Quantity
		}
	case !errors.Is(err, context.DeadlineExceeded): // a full writer whose line is down
		w.find("Add: %v", err)
	}
}

// send writes a batch; an answer that is not final, or that a dead process heard, does not count.
func (w *world) send(p *process, b *batchRun) {
	b.running.Store(true)
	w.all.Go(func() {
		ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
		defer cancel()
		errs, err := p.lists.WriteBatch(ctx, b.id, b.events)
		defer b.running.Store(false)
		if err != nil || p.isDead() {
			return
		}
		for i := range errs {
			if b.heard != nil && errors.Is(errs[i], usage.ErrHourCommitted) != errors.Is(b.heard[i], usage.ErrHourCommitted) {
				w.find("%s: event %d was answered %v, and then %v", b.id, i, b.heard[i], errs[i])
			}
		}
		if b.heard == nil {
			b.heard = errs
		}
	})
}

// settle lets every line heal, closes what lives, sends what has no answer again, and meters every hour to its end.
func (w *world) settle() {
	w.all.Wait()
	clear(w.faults[:])
	for _, p := range w.processes {
		if p.isDead() {
			continue
		}
		if err := p.events.Close(w.t.Context()); errors.Is(err, usage.ErrUnknown) {
			w.find("Close over a line that is fine again: %v", err)
		}
		p.finished = true
	}
	last := w.start(0)
	for _, b := range w.batches {
		w.send(last, b)
		w.all.Wait()
		if b.heard == nil {
			w.find("%s has no answer over a line that is fine", b.id)
		}
	}
	last.finished = true
	for range 2 {
		for n := range places {
			w.meter(groupOf(place(n, 1)), 0)
		}
		w.clean()
	}
}

// meter visits a group with the real aggregator.
func (w *world) meter(g metering.Group, inBetween time.Duration) {
	a := &pipeline.Aggregator{
		Rows: w.store, Records: commits{w.store, w, g, inBetween}, Cleanup: w.queue, Metrics: &telemetry.Counters{}, Now: clock,
	}
	if failed := a.Handle(w.t.Context(), []pipeline.Message{{ID: "visit", Body: metering.Encode(metering.NewWorkMessage(g, false))}}); failed != nil {
		w.find("the visit of %v failed", g)
	}
}

// clean writes the labels that visits asked for, with the real cleaner.
func (w *world) clean() {
	c := &pipeline.Cleaner{Rows: w.store, Metrics: &telemetry.Counters{}, Now: clock, Sleep: func(context.Context, time.Duration) error { return nil }}
	for {
		batch, err := w.queue.Receive(w.t.Context(), 10)
		if err != nil || len(batch) == 0 {
			return
		}
		for _, d := range batch {
			if failed := c.Handle(w.t.Context(), []pipeline.Message{{ID: d.ID, Body: d.Body}}); failed != nil {
				w.find("a cleanup failed")
			}
			_ = w.queue.Delete(w.t.Context(), d.Receipt)
		}
	}
}
