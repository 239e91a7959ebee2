package simulation

import (
	"context"
	"fmt"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/simulator"
)

// What the people of a world do. Sellers' plain writes and what happens at the Marketplace are not ours to break: they pass no seam.

func (w *world) put(r metering.Row) {
	w.must(w.tables.Store.PutRow(context.Background(), r))
	w.check.wrote(r.License, r.SortKey, r.Quantity)
}

// grow adds to a row as a careful seller does: the quantity, and the marker again.
func (w *world) grow(r metering.Row, by int64) {
	_, err := w.tables.UpdateRow(context.Background(), r.License, r.SortKey, func(old *metering.Row) (metering.Row, bool) {
		next := r
		next.Quantity = metering.Units(0)
		if old != nil {
			next = *old
		}
		next.Quantity, next.Pending = metering.Units(next.Quantity.N+by), r.Pending
		w.check.wrote(r.License, r.SortKey, next.Quantity)
		return next, true
	})
	w.must(err)
}

func (w *world) remove(r metering.Row) {
	w.must(w.tables.DeleteRow(context.Background(), r.License, r.SortKey))
	w.check.wrote(r.License, r.SortKey, metering.Quantity{})
	w.check.lacks[groupOf(r)] = true
}

// groupOf is the group of a row; the zero Group where its key names none.
func groupOf(r metering.Row) metering.Group {
	key, reason := metering.ParseRowKey(r.SortKey)
	if reason != "" {
		return metering.Group{}
	}
	return key.Group(r.License)
}

func (w *world) putRecord(r metering.Record) {
	w.must(w.tables.PutRecord(context.Background(), r))
	w.check.wroteRecord(r.License, r.SortKey)
}

// errCommitted is what a writer is told whose hour was committed before it sent anything.
var errCommitted = fmt.Errorf("the hour is committed")

// flush is the writer library's protocol: look whether the hour is open, write under a token, and write the same again until there is
// an answer.
func (w *world) flush(f metering.Flush) {
	p := w.start("writer", "writer "+f.Token, 24*time.Hour, func(ctx context.Context) {
		for {
			record, err := w.tables.Record(ctx, f.Group)
			if err == nil && record != nil {
				w.flushes[f.Token] = errCommitted
				return
			}
			if err == nil {
				break
			}
			_ = w.Sleep(ctx, time.Second)
		}
		f.At = w.Now()
		for ctx.Err() == nil {
			if done := w.tables.FlushRows(ctx, []metering.Flush{f})[0]; done.Done {
				w.flushes[f.Token] = nil
				return
			} else if done.Err == nil {
				w.flushes[f.Token] = f.Refused(done.Row)
				return
			}
			_ = w.Sleep(ctx, 2*time.Second)
		}
	}, nil)
	p.immortal = true
}

func (w *world) suspend(b buyer, suspended bool) { w.must(w.sim.SuspendAccount(b.account, suspended)) }

func (w *world) license(b buyer, ends time.Time) {
	if b.identifier == "" {
		w.must(w.sim.PutLicense(simulator.License{ARN: b.license, AccountID: b.account, ActivatedAt: b.activated, DeprovisionedAt: ends}))
	}
}

// event has EventBridge put an event into the queue: it loses none, and what the queue delivers twice or late is the queue's.
func (w *world) event(e lifecycle.TestEvent) {
	body, err := e.JSON()
	w.must(err)
	w.check.told(e)
	w.events.put(string(body))
}

func (w *world) retry(b buyer) {
	w.start("operator", "operator at "+w.now.Format("02 15:04:05"), processLimit, func(ctx context.Context) {
		r := pipeline.Retrier{Records: w.tables, ProductCode: simulator.DefaultProductCode, Rules: w.plan.rules, Concurrency: w, Now: w.Now}
		_, _ = r.Run(ctx, pipeline.Retry{License: b.license})
	}, nil)
}

func (w *world) redrive() {
	for _, q := range w.queues {
		if q.name == "events" {
			continue // those that could not be applied for an hour: their licenses are not known here
		}
		n, err := q.Redrive(context.Background())
		w.must(err)
		if n > 0 {
			w.say("operator", "brings %s back to the %s queue", ledger.Counted(int64(n), "dead letter"), q.name)
		}
	}
}
