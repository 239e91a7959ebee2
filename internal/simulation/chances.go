package simulation

import (
	"context"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// A row or a record that ends unbilled although so many visits or runs lay between its coming and its deadline was not unlucky. Several
// may fail in a storm; so many in a row do not.
const (
	enoughVisits = 8
	enoughRuns   = 24
)

// chances holds what has expired against the chances that it had.
func (w *world) chances() {
	ctx, c := context.Background(), w.check
	for license, err := range c.store.Licenses(ctx) {
		if err != nil {
			c.fail(RuleChance, metering.Group{}, "%v", err)
			return
		}
		for r := range c.store.LicenseRows(ctx, license) {
			if key, reason := metering.ParseRowKey(r.SortKey); reason == "" && r.Status == metering.AggregationExpired && !r.Dropped && r.Quantity.N > 0 {
				w.visited(key.Group(license))
			}
		}
		for r := range c.store.LicenseRecords(ctx, license) {
			if g, reason := r.Group(); reason == "" && r.Status == metering.SubmissionExpired && !r.SentQuantity.Whole {
				w.submitted(g)
			}
		}
	}
}

// visited: a group of valid rows that came early enough is committed.
func (w *world) visited(g metering.Group) {
	c, ready := w.check, time.Time{}
	for r, err := range c.store.GroupRows(context.Background(), g) {
		if _, ours := g.Contains(r.SortKey); err != nil || ours && r.Validate(c.now()) != "" {
			return
		}
	}
	for id, row := range c.rows {
		if license, sortKey := splitRowID(id); license == g.License {
			if _, ours := g.Contains(sortKey); ours {
				ready = latest(ready, row.at)
			}
		}
	}
	visits := w.count(metering.MeterSchedule, ready, g, w.weather.throttled, func(at time.Time) bool { return c.rules.Visitable(g.Hour, at) })
	if visits >= enoughVisits {
		c.fail(RuleChance, g, "rows expired that could be committed at %d visits", visits)
	}
}

// submitted: a record that waited long enough is sent.
func (w *world) submitted(g metering.Group) {
	c := w.check
	if w.plan.records > 0 {
		return // what cannot be ended may take the places of a run
	}
	runs := w.count(metering.SubmitSchedule, latest(latest(c.commits[g], c.records[rowID(g.License, g.RecordKey())]), w.plan.dryRun), g, slices.Concat(w.plan.trouble, w.weather.throttled),
		func(at time.Time) bool { return c.rules.Billable(g.Hour, at) })
	if runs >= enoughRuns {
		c.fail(RuleChance, g, "a record expired that could be sent in %d runs", runs)
	}
}

// count counts the firings of a schedule after a moment at which something could be done for a group.
func (w *world) count(s metering.Schedule, after time.Time, g metering.Group, hampered []spell, could func(time.Time) bool) (n int) {
	for at := s.Next(latest(after, g.Hour.Start())); at.Before(w.check.rules.Deadline(g.Hour)); at = s.Next(at) {
		free := could(at)
		for _, spell := range hampered {
			if (spell.partition == "" || spell.partition == g.License) && !at.Before(spell.from) && at.Before(spell.until) {
				free = false
			}
		}
		if free {
			n++
		}
	}
	return n
}

// ended holds the name under which a row is lost against what the checker saw: late is what came after its hour was committed, and what came
// so is called nothing else.
func (c *checker) ended(g metering.Group, r metering.Row) {
	committed, known := c.commits[g]
	switch r.Status {
	case metering.AggregationExpired:
		if known {
			c.fail(RuleLate, g, "row %s is called %s beside a record of its group", r.SortKey, r.Status)
		}
	case metering.LateUsage:
		if w := c.rows[rowID(r.License, r.SortKey)]; known && w != nil && committed.Sub(w.at) > visitLimit {
			c.fail(RuleLate, g, "row %s is called %s, and was there %v before the commit", r.SortKey, r.Status, committed.Sub(w.at))
		}
	}
}

// visitLimit is how long before its commit a group may have been read.
const visitLimit = consumerLimit + stall

// soldOnce holds a billed record against those that are billed under other licenses: the same usage under two is billed twice, and the
// Marketplace does not see it (F32).
func (c *checker) soldOnce(g metering.Group) {
	sale := g
	sale.License = ""
	if other := c.sold[sale]; other != "" && other != g.License {
		c.fail(RuleDuplicate, g, "%s is billed under %s and under %s", g.RecordKey(), other, g.License)
	}
	c.sold[sale] = g.License
}

// changed holds a change of a subscriber against the time that the license has left.
func (c *checker) changed(before *metering.Subscriber, after metering.Subscriber) {
	if before != nil && after.Status == metering.LifecycleInactive && before.Expiry.After(c.now().Add(maxSkew)) {
		c.fail(RuleEvents, metering.Group{}, "the license of %s was ended, and had until %v", after.Account, before.Expiry.Format(time.RFC3339))
	}
}
