package simulation

import (
	"context"
	"iter"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/simulator"
)

// What an operator puts right by hand: rejected rows are let wait again or dropped, late usage is carried, records of a dry run are promoted.
// Each write passes the seam as those of the stages do, and the operator may be killed between any two.

// redriveLuck keeps what an operator puts right apart from all else that is drawn of a day. With this one the days that the README tells
// of stay what they were.
const redriveLuck = 54

// drawReDriving adds what an operator puts right, on one day in four.
func (p *plan) drawReDriving(seed uint64) {
	r := rand.New(rand.NewPCG(seed, redriveLuck))
	if r.IntN(4) > 0 {
		return
	}
	for _, b := range p.buyers {
		p.drawReDrivingOf(r, b)
	}
}

func (p *plan) drawReDrivingOf(r *rand.Rand, b buyer) {
	for _, what := range []struct {
		says string
		do   func(*world, context.Context, buyer)
		most int
	}{
		{"drops what is wrong of ", (*world).drop, 2},
		{"recalls what was rejected of ", (*world).recall, 4},
		{"carries what came late of ", (*world).carry, 5},
		{"promotes what a dry run ended of ", (*world).promote, 2},
	} {
		for range r.IntN(what.most) {
			at := within(r, p.start.Add(2*time.Hour), 40*time.Hour)
			if r.IntN(2) == 0 {
				at = within(r, metering.MeterSchedule.Next(at), 1500*time.Millisecond) // just when the stages look
			}
			for range 1 + r.IntN(4)/3 { // now and then two at once
				p.add(at, "operator", what.says+b.account, func(w *world) { w.operate(what.says, b, what.do) })
			}
		}
	}
}

// operate runs one command of an operator.
func (w *world) operate(what string, b buyer, do func(*world, context.Context, buyer)) {
	name := "operator who " + what + b.account + " at " + w.now.Format("02 15:04:05.000")
	if w.running[name] > 0 {
		name += " b"
	}
	w.start(name, name, processLimit, func(ctx context.Context) { do(w, ctx, b) }, nil)
}

func (w *world) recall(ctx context.Context, b buyer) {
	for r, err := range w.tables.EndedRows(ctx, b.license, metering.RejectedClientSide) {
		if err != nil {
			return
		}
		if x, o := metering.RecallOf(r, w.plan.rules, w.Now()); o == "" {
			_, _ = w.tables.RecallRow(ctx, x)
		}
	}
}

// drop takes out the rows that are wrong by themselves.
func (w *world) drop(ctx context.Context, b buyer) {
	for r, err := range w.tables.EndedRows(ctx, b.license, metering.RejectedClientSide) {
		if err != nil {
			return
		}
		if r.Validate(w.Now()) == "" {
			continue
		}
		var record *metering.Record
		if key, reason := metering.ParseRowKey(r.SortKey); reason == "" {
			if record, err = w.tables.Record(ctx, key.Group(r.License)); err != nil {
				continue
			}
		}
		if x, o := metering.DropOf(r, record, w.Now()); o == "" {
			_, _ = w.tables.DropRow(ctx, x)
		}
	}
}

// carry books late usage in the current hour: from its first second on, at the first that is free.
func (w *world) carry(ctx context.Context, b buyer) {
	for r, err := range w.tables.EndedRows(ctx, b.license, metering.LateUsage) {
		if err != nil {
			return
		}
		key, reason := metering.ParseRowKey(r.SortKey)
		if reason != "" {
			continue
		}
		record, err := w.tables.Record(ctx, key.Group(b.license))
		if err != nil {
			continue
		}
		current := key.Group(b.license)
		current.Hour = metering.HourOf(w.Now())
		open, err := w.tables.Record(ctx, current)
		if err != nil {
			continue
		}
		subscriber, err := w.tables.Store.Subscriber(ctx, b.license, b.account)
		if err != nil || metering.TargetObstacle(open, subscriber, w.plan.rules, w.Now()) != "" {
			continue
		}
		for offset := range 60 {
			x, o := metering.CarryOf(r, record, w.plan.rules, current.Hour.Second(offset), w.Now())
			if o != "" {
				break
			}
			w.carries++
			x.Token = strconv.Itoa(w.carries)
			out, err := w.tables.CarryRow(ctx, x)
			if taken := err == nil && !out.Done && out.Old != nil && x.Holds(*out.Old); !taken {
				break
			}
		}
	}
}

func (w *world) promote(ctx context.Context, b buyer) {
	r := pipeline.Retrier{
		Records: w.tables, ProductCode: simulator.DefaultProductCode, Rules: w.plan.rules, Rule: metering.PromoteOf, Concurrency: w, Now: w.Now,
	}
	_, _ = r.Run(ctx, pipeline.Retry{License: b.license})
}

func (s *tables) EndedRows(ctx context.Context, license string, status metering.Status) iter.Seq2[metering.Row, error] {
	return func(yield func(metering.Row, error) bool) {
		if _, _, err := s.seam.look("reads the rows of a license that are "+string(status), license); err != nil {
			yield(metering.Row{}, err)
			return
		}
		var rows []metering.Row // as they were at that moment: whatever is written to meanwhile is judged as it was
		for r, err := range s.Store.EndedRows(ctx, license, status) {
			if err != nil {
				yield(r, err)
				return
			}
			rows = append(rows, r)
		}
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (s *tables) RecallRow(ctx context.Context, x metering.Recall) (metering.Outcome[metering.Row], error) {
	return act(s.seam, "recalls row "+x.SortKey, x.License, func(string, *rand.Rand) (metering.Outcome[metering.Row], error) {
		out, err := s.Store.RecallRow(context.WithoutCancel(ctx), x)
		if out.Done {
			s.check.refiled(x.License, x.SortKey) // it waits since now
			s.check.touchRow(x.License, x.SortKey)
		}
		return out, err
	})
}

func (s *tables) DropRow(ctx context.Context, x metering.Drop) (metering.Outcome[metering.Row], error) {
	return act(s.seam, "drops row "+x.SortKey, x.License, func(string, *rand.Rand) (metering.Outcome[metering.Row], error) {
		out, err := s.Store.DropRow(context.WithoutCancel(ctx), x)
		if out.Done {
			s.check.dropped(x)
		}
		return out, err
	})
}

func (s *tables) CarryRow(ctx context.Context, x metering.Carry) (metering.Outcome[metering.Row], error) {
	return act(s.seam, "carries "+count(metering.Units(x.Quantity))+" of row "+x.SortKey+" to "+x.TargetKey(), x.License, func(string, *rand.Rand) (metering.Outcome[metering.Row], error) {
		return s.check.carry(context.WithoutCancel(ctx), x, s.Store.CarryRow)
	})
}

// dropped notes that a row takes no part in its group any more: what it had spoiled nobody looks at until a row is written or recalled.
func (c *checker) dropped(x metering.Drop) {
	if key, reason := metering.ParseRowKey(x.SortKey); reason == "" {
		c.lacks[key.Group(x.License)] = true
	}
	c.touchRow(x.License, x.SortKey)
}

// carry watches a carry: what its source loses its target gains, and its target was not there before.
func (c *checker) carry(ctx context.Context, x metering.Carry, write func(context.Context, metering.Carry) (metering.Outcome[metering.Row], error)) (metering.Outcome[metering.Row], error) {
	key, _ := metering.ParseRowKey(x.SortKey)
	source, _ := c.store.Row(ctx, x.License, x.SortKey)
	target, _ := c.store.Row(ctx, x.License, x.TargetKey())
	record, _ := c.store.Record(ctx, key.Group(x.License))
	out, err := write(ctx, x)
	left, _ := c.store.Row(ctx, x.License, x.SortKey)
	gained, _ := c.store.Row(ctx, x.License, x.TargetKey())
	switch {
	case err != nil || !out.Done || record != nil && x.Shows(*record):
		return out, err
	case source == nil || target != nil || left == nil || gained == nil:
		c.fail(RuleGhost, key.Group(x.License), "row %s was carried to %s, and one of them should not be there", x.SortKey, x.TargetKey())
	case source.Status != metering.LateUsage || left.Quantity.N+gained.Quantity.N != source.Quantity.N:
		c.fail(RuleQuantity, key.Group(x.License), "row %s held %s, %s; %s are left and %s were carried", x.SortKey, count(source.Quantity), source.Status,
			count(left.Quantity), count(gained.Quantity))
	}
	if w := c.rows[rowID(x.License, x.SortKey)]; w != nil {
		w.now = metering.Units(x.Keeps)
	}
	c.touchRow(x.License, x.SortKey)
	c.wrote(x.License, x.TargetKey(), metering.Units(x.Quantity))
	return out, err
}
