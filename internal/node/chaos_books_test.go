package node_test

import (
	"context"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/queue/memory"
	"github.com/awsmp/metering/simulator"
)

// The sellers' side: writes that no fault touches, and the memory of what was written.

func (c *chaos) put(r metering.Row) {
	check(c.t, c.store.Store.PutRow(c.t.Context(), r))
	c.wrote(r, r.Quantity)
}

func (c *chaos) grow(r metering.Row, by int64) {
	_, err := c.store.UpdateRow(c.t.Context(), r.License, r.SortKey, func(old *metering.Row) (metering.Row, bool) {
		if old == nil {
			old = &metering.Row{License: r.License, SortKey: r.SortKey, Account: r.Account, Dimension: r.Dimension, Timestamp: r.Timestamp, CustomerIdentifier: r.CustomerIdentifier}
		}
		next := *old
		next.Quantity, next.Pending = metering.Units(next.Quantity.N+by), r.Pending
		c.wrote(r, next.Quantity)
		return next, true
	})
	check(c.t, err)
}

func (c *chaos) delete(r metering.Row) {
	check(c.t, c.store.DeleteRow(c.t.Context(), r.License, r.SortKey))
	c.wrote(r, metering.Quantity{})
}

func (c *chaos) wrote(r metering.Row, q metering.Quantity) {
	c.written[r.License+"\x00"+r.SortKey] = q
	c.store.touchRow(r.License, r.SortKey)
	c.idle = false
}

func (c *chaos) putRecord(r metering.Record) {
	check(c.t, c.store.Store.PutRecord(c.t.Context(), r))
	c.store.touchRecord(r.License, r.SortKey)
	c.idle = false
}

func (c *chaos) deprovision(license, account string, at time.Time) {
	check(c.t, c.sim.PutLicense(simulator.License{ARN: license, AccountID: account, DeprovisionedAt: at}))
	_, _, err := c.store.Store.ChangeSubscriber(c.t.Context(), metering.LicenseEvent{License: license, Account: account, At: at}.DeprovisionedAt(at))
	check(c.t, err)
}

// consumers is how many processes may hold messages of one queue at once.
const consumers = 2

// consume starts processes for messages that can be received.
func (c *chaos) consume(time.Time) bool {
	started := false
	for _, q := range []struct {
		name   string
		queue  *memory.Queue
		handle func(context.Context, []pipeline.Message) []string
	}{
		{"aggregate", c.node.Work, c.node.Aggregate.Handle},
		{"aggregate-closing", c.node.Deprovision, c.node.Aggregate.Handle},
		{"cleanup", c.node.Cleanup, c.node.Clean.Handle},
	} {
		if visible, _ := q.queue.Len(); visible == 0 || c.running(q.name) >= consumers {
			continue
		}
		started = true
		size := 1 + c.random.IntN(10)
		c.start(q.name, 60*time.Second, func(ctx context.Context) {
			if c.gate.read(ctx, "receive") != nil {
				return
			}
			batch, err := q.queue.Receive(ctx, size)
			if err != nil {
				return
			}
			messages, receipts := make([]pipeline.Message, len(batch)), make(map[string]string)
			for i, d := range batch {
				messages[i], receipts[d.ID] = pipeline.Message{ID: d.ID, Body: d.Body}, d.Receipt
			}
			for _, id := range q.handle(ctx, messages) {
				delete(receipts, id)
			}
			for _, m := range messages {
				if receipt, done := receipts[m.ID]; done && c.gate.read(ctx, "delete "+m.ID) == nil {
					_ = q.queue.Delete(context.WithoutCancel(ctx), receipt)
				}
			}
		})
	}
	return started
}

func (c *chaos) running(name string) int {
	n := 0
	for _, p := range c.runs {
		if p.name == name && !p.dead {
			n++
		}
	}
	return n
}

// wait lets time pass until something can happen.
func (c *chaos) wait(now time.Time) {
	next := now.Add(24 * time.Hour)
	sooner := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if len(c.day.moves) > 0 {
		sooner(c.day.moves[0].at)
	}
	if t, ok := c.gate.nextReady(); ok {
		sooner(t)
	}
	if !c.idle {
		sooner(c.node.Next(now))
	}
	timer := time.NewTimer(next.Sub(now))
	defer timer.Stop()
	select {
	case <-c.gate.arrived:
	case <-timer.C:
	}
}

// verify holds the groups that were touched against the law, and now and then all books.
func (c *chaos) verify() {
	for g := range c.dirty {
		c.verifyGroup(g)
	}
	clear(c.dirty)
	if now := time.Now(); now.Sub(c.audited) >= 15*time.Minute {
		c.audited = now
		c.audit()
	}
}

// verifyGroup checks one group at this very moment.
func (c *chaos) verifyGroup(g metering.Group) {
	ctx := c.t.Context()
	b, err := ledger.Read(ctx, c.store.Store, g)
	check(c.t, err)
	if !b.Balanced() {
		c.broken("group %v: written %d, named %d: %v %v", g, b.Written.Units, b.Named(), b.Places, b.Findings)
	}
	for r, err := range c.store.Store.GroupRows(ctx, g) {
		check(c.t, err)
		if want := c.written[r.License+"\x00"+r.SortKey]; r.Quantity != want {
			c.broken("row %s holds %v, its seller wrote %v", r.SortKey, r.Quantity, want)
		}
	}
	rec, err := c.store.Store.Record(ctx, g)
	check(c.t, err)
	if rec != nil {
		c.verifyBilled(g, *rec, b)
	}
}

// verifyBilled compares a record with what the simulator billed for it.
func (c *chaos) verifyBilled(g metering.Group, r metering.Record, b ledger.Balance) {
	id := r.Usage().Identity()
	sold, exists := c.sim.Billed(id.Customer, g.Account, g.Dimension, g.Hour.Start())
	switch {
	case r.Status == metering.Success && r.Pending == "":
		if units := b.Place(ledger.Billed).Units; !exists || sold.Quantity != units {
			c.broken("group %v: our books say %d billed, the Marketplace's %d (%v)", g, units, sold.Quantity, exists)
		}
	case r.Status == metering.DuplicateRecord:
		c.broken("group %v: a second quantity was sent for the same hour", g)
	case exists && !(r.SentQuantity.Whole && (r.Pending != "" || r.Status == metering.SubmissionExpired)):
		c.broken("group %v: billed %d by the Marketplace, and our record says %q %q", g, sold.Quantity, r.Status, r.StatusReason)
	}
}

// audit reads all books.
func (c *chaos) audit() ledger.Report {
	report, err := ledger.Compute(c.t.Context(), c.store.Store, ledger.Scope{})
	check(c.t, err)
	if !report.Balanced() {
		c.broken("the books do not balance: %+v", report.Imbalances)
	}
	if cross := report.Against(sold(c.sim)); !cross.Equal() {
		c.broken("the books differ from the Marketplace's: %+v", cross.Differences)
	}
	c.idle = report.Total.Place(ledger.InFlight).Items == 0 && c.queued() == 0
	return report
}

func (c *chaos) queued() int {
	n := 0
	for _, q := range []*memory.Queue{c.node.Work, c.node.Deprovision, c.node.Cleanup} {
		visible, inFlight := q.Len()
		n += visible + inFlight
	}
	return n
}

// After its last move a day's faults go on for the storm, and the day for the patience, at most.
const (
	storm    = 36 * time.Hour
	patience = 4 * 24 * time.Hour
)

func (c *chaos) over(now time.Time) bool {
	if len(c.day.moves) > 0 {
		c.day.start = now // the last move so far
		return false
	}
	if now.Sub(c.day.start) > patience {
		c.broken("usage is still in flight %v after the last move", patience)
	}
	return c.idle && len(c.runs) == 0
}

// finish checks what must be true of a day that is over.
func (c *chaos) finish() {
	total := c.audit().Total
	if n := total.Place(ledger.InFlight); n.Items != 0 {
		c.broken("in flight at the end: %+v", n)
	}
	if total.Stale != 0 {
		c.broken("%d covered rows carry a wrong label at the end", total.Stale)
	}
	c.verifyRejected()
	for place, metrics := range map[ledger.Place][]metering.Metric{
		ledger.Billed:   {metering.MetricBilled},
		ledger.Late:     {metering.MetricRowLate},
		ledger.Refused:  {metering.MetricNotSubscribed, metering.MetricDuplicate},
		ledger.Rejected: {metering.MetricRowRejected, metering.MetricException},
		ledger.Expired:  {metering.MetricRowExpired, metering.MetricSubmissionExpired},
		ledger.InDoubt:  {metering.MetricSubmissionExpired},
	} {
		var emitted int64
		for _, m := range metrics {
			emitted += c.metrics.Of(m).Units
		}
		if units := total.Place(place).Units; emitted < units {
			c.broken("%d units are %s, the metrics spoke of %d", units, place, emitted)
		}
	}
	c.tally(total)
	if c.verbose {
		c.t.Logf("the day ends with %d written: %v", total.Written.Units, total.Places)
	}
}

// broken ends the day with the command that plays it again.
func (c *chaos) broken(format string, args ...any) {
	c.t.Helper()
	c.say(format, args...)
	c.t.Errorf(format, args...)
	for _, p := range c.runs {
		c.gate.kill(p)
	}
	c.gate.settle()
	c.t.Fatalf("play it again: go test ./internal/node -run '^TestSeeds$' -v -args -seed=%d", c.seed)
}

// verifyRejected: a group that was rejected comes back whole. No valid row stays rejected beside a record that was summed
// without it; nor do all rows of a group that would be taken now: then the fault of the past was stamped on a mended row.
func (c *chaos) verifyRejected() {
	ctx := c.t.Context()
	for license, err := range c.store.Licenses(ctx) {
		check(c.t, err)
		rejected := make(map[metering.Group]string)
		for r, err := range c.store.LicenseRows(ctx, license) {
			check(c.t, err)
			if key, reason := metering.ParseRowKey(r.SortKey); reason == "" && r.Status == metering.RejectedClientSide {
				if r.Validate(time.Now()) == "" && r.Quantity.N > 0 {
					rejected[key.Group(license)] = r.SortKey
				}
			}
		}
		for g, row := range rejected {
			rec, err := c.store.Store.Record(ctx, g)
			check(c.t, err)
			if rec != nil || c.acceptable(g) {
				c.broken("row %s is valid and rejected; beside a record: %v", row, rec != nil)
			}
		}
	}
}

// acceptable reports whether all rows of a group are rejected although their fold finds no fault.
func (c *chaos) acceptable(g metering.Group) bool {
	fold := metering.NewFold(g, time.Now())
	for r, err := range c.store.Store.GroupRows(c.t.Context(), g) {
		check(c.t, err)
		if _, ours := g.Contains(r.SortKey); ours && r.Status != metering.RejectedClientSide {
			return false
		}
		fold.Add(r)
	}
	_, reason := fold.Record()
	return reason == ""
}
