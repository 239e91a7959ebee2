package simulation

import (
	"context"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
)

// LossMetrics are the metrics that speak of the units in a place. Each has its alarm; a test holds them to the template.
func LossMetrics() map[ledger.Place][]metering.Metric {
	return map[ledger.Place][]metering.Metric{
		ledger.Late:     {metering.MetricRowLate},
		ledger.Refused:  {metering.MetricNotSubscribed, metering.MetricDuplicate},
		ledger.Rejected: {metering.MetricRowRejected, metering.MetricException},
		ledger.Expired:  {metering.MetricRowExpired, metering.MetricSubmissionExpired},
		ledger.InDoubt:  {metering.MetricSubmissionExpired},
	}
}

// flushed notes a flush that stands in its row, once.
func (c *checker) flushed(f metering.Flush) {
	if c.tokens[f.Token] {
		return
	}
	c.tokens[f.Token] = true
	var before int64
	if w := c.rows[rowID(f.Group.License, f.SortKey())]; w != nil {
		before, _ = w.now.Count()
	}
	c.wrote(f.Group.License, f.SortKey(), metering.Units(before+f.Quantity))
}

// told notes an event.
func (c *checker) told(e lifecycle.TestEvent) {
	switch last, met := c.events[e.License]; {
	case e.Kind != lifecycle.LicenseUpdated && e.Kind != lifecycle.LicenseDeprovisioned:
	case !met || e.At.After(last.At):
		c.events[e.License] = e
	}
}

// finish checks what must be true of a day that is over.
func (w *world) finish() ledger.Balance {
	c := w.check
	total := c.audit().Total
	if n := total.Place(ledger.InFlight); n != (ledger.Amount{}) {
		c.fail(RuleProgress, metering.Group{}, "at the end %d units are in flight", n.Units)
	}
	if total.Stale != 0 {
		c.fail(RuleStale, metering.Group{}, "at the end %d covered rows carry another label", total.Stale)
	}
	c.rejected()
	w.chances()
	for place, metrics := range LossMetrics() {
		var spoken int64
		for _, m := range metrics {
			spoken += w.metrics.Of(m).Units
		}
		if units := total.Place(place).Units; spoken < units {
			c.fail(RuleMetric, metering.Group{}, "%d units are %s, the metrics spoke of %d", units, place, spoken)
		}
	}
	c.subscribers(w)
	for token, told := range w.flushes {
		if stands := c.tokens[token]; stands != (told == nil) {
			c.fail(RuleWriter, metering.Group{}, "the writer of %s was told %v, and its flush stands: %v", token, told, stands)
		}
	}
	return total
}

// rejected: a group that was rejected comes back whole. No valid row stays rejected beside a record that was summed without it; nor do
// all rows of a group that would be taken now: then the fault of the past was stamped on a mended row.
func (c *checker) rejected() {
	ctx := context.Background()
	for license, err := range c.store.Licenses(ctx) {
		if err != nil {
			c.fail(RuleRejected, metering.Group{}, "%v", err)
			return
		}
		groups := make(map[metering.Group]string)
		var order []metering.Group
		for r := range c.store.LicenseRows(ctx, license) {
			key, reason := metering.ParseRowKey(r.SortKey)
			if reason == "" && r.Status == metering.RejectedClientSide && !r.Dropped && r.Validate(c.now()) == "" && r.Quantity.N > 0 {
				if g := key.Group(license); groups[g] == "" {
					groups[g], order = r.SortKey, append(order, g)
				}
			}
		}
		for _, g := range order {
			record, err := c.store.Record(ctx, g)
			if err != nil || record != nil || !c.lacks[g] && c.acceptable(g) { // what a deleted row had spoiled nobody looks at until a row is written
				c.fail(RuleRejected, g, "row %s is valid and rejected; beside a record: %v", groups[g], record != nil)
			}
		}
	}
}

// acceptable reports whether all rows of a group are rejected although their fold finds no fault.
func (c *checker) acceptable(g metering.Group) bool {
	fold := metering.NewFold(g, c.now())
	for r, err := range c.store.GroupRows(context.Background(), g) {
		if _, ours := g.Contains(r.SortKey); err != nil || ours && r.Status != metering.RejectedClientSide {
			return false
		}
		fold.Add(r)
	}
	_, reason := fold.Record()
	return reason == ""
}

// subscribers holds the subscribers table against the latest event of each license, unless one of them was given up.
func (c *checker) subscribers(w *world) {
	if visible, hidden := w.events.dead.Len(); visible+hidden > 0 {
		return
	}
	for license, e := range c.events {
		s, err := c.store.Subscriber(context.Background(), license, e.Account)
		var status metering.LifecycleStatus
		if s != nil {
			status = s.Status
		}
		want := metering.LifecycleActive
		if e.Kind == lifecycle.LicenseDeprovisioned {
			want = metering.LifecycleInactive
		}
		if err != nil || status != want {
			c.fail(RuleEvents, metering.Group{}, "the license of %s is %q, and by the latest event it is %q", e.Account, status, want)
		}
	}
}
