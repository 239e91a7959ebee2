package usage_test

import (
	"context"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/usage"
)

// wire is one process's way to the store, with the faults of its plan, one a call. What reaches the store is entered in the
// world's books.
type wire struct {
	usage.Table
	world   *world
	process *process
	faults  *[]fault
}

func (l *wire) next() fault {
	l.world.mu.Lock()
	defer l.world.mu.Unlock()
	if len(*l.faults) == 0 {
		return fine
	}
	f := (*l.faults)[0]
	*l.faults = (*l.faults)[1:]
	return f
}

// pass is a read's way there and back.
func (l *wire) pass() error {
	f := l.next()
	if f == slow || f == slowBack {
		time.Sleep(3 * time.Second)
	}
	if f == lost || f == lostBack || l.process.isDead() {
		return errLine
	}
	return nil
}

func (l *wire) Record(ctx context.Context, g metering.Group) (*metering.Record, error) {
	if err := l.pass(); err != nil {
		return nil, err
	}
	return l.Table.Record(ctx, g)
}

func (l *wire) Row(ctx context.Context, license, sortKey string) (*metering.Row, error) {
	if err := l.pass(); err != nil {
		return nil, err
	}
	return l.Table.Row(ctx, license, sortKey)
}

func (l *wire) FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed {
	f := l.next()
	if f == slow {
		time.Sleep(3 * time.Second)
	}
	out := make([]metering.Flushed, len(flushes))
	if f == lost || l.process.isDead() {
		for i := range out {
			out[i].Err = errLine
		}
		return out
	}
	if f == overtaken {
		l.world.meter(flushes[0].Group, 0)
	}
	for i, flush := range flushes {
		out[i] = l.world.apply(ctx, l, flush)
		if f == lostBack && i%2 == 0 || f == dies { // half of the answers, or none
			out[i] = metering.Flushed{Err: errLine}
		}
	}
	switch f {
	case slowBack:
		time.Sleep(3 * time.Second)
	case followed:
		l.world.meter(flushes[0].Group, 0)
	case dies:
		l.process.die()
	}
	if l.process.isDead() {
		for i := range out {
			out[i] = metering.Flushed{Err: errLine}
		}
	}
	return out
}

// apply flushes into the store and enters what is new.
func (w *world) apply(ctx context.Context, by *wire, f metering.Flush) metering.Flushed {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, err := w.store.Row(ctx, f.Group.License, f.SortKey())
	if err != nil {
		return metering.Flushed{Err: err}
	}
	out := w.store.FlushRows(ctx, []metering.Flush{f})[0]
	if out.Done && (before == nil || !f.Shows(*before)) {
		w.clock++
		w.applied[f.SortKey()] = append(w.applied[f.SortKey()], application{f.Token, f.Quantity, w.clock, by})
	}
	return out
}

// commits is the aggregator's store: it enters the commit, and lets time pass between read and commit.
type commits struct {
	*memory.Store
	world     *world
	group     metering.Group
	inBetween time.Duration
}

func (c commits) CreateRecord(ctx context.Context, r metering.Record) (metering.Outcome[metering.Record], error) {
	time.Sleep(c.inBetween)
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	out, err := c.Store.CreateRecord(ctx, r)
	if err == nil && out.Done {
		c.world.clock++
		c.world.commits[c.group] = c.world.clock
	}
	return out, err
}
