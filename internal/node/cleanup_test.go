package node_test

import (
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// secondsOf are n rows of one hour, one a second, of a quantity each.
func secondsOf(hour string, n int, quantity int64) []metering.Row {
	rows, start := make([]metering.Row, n), at(hour+":00:00")
	for i := range rows {
		rows[i] = usage(start.Add(time.Duration(i)*time.Second).Format("2006-01-02T15:04:05"), quantity)
	}
	return rows
}

// TestF02LostCleanupHealsOnTheNextVisit: labels lost between commit and cleanup were never asked for again, and billed rows were
// stamped AggregationExpired a day later. Whatever loses them, the next visit asks again, by the manifest; all end Aggregated,
// once billed.
func TestF02LostCleanupHealsOnTheNextVisit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rows   int
		strike func(n int) outcome
	}{
		"the aggregator dies before it asks":   {3, func(n int) outcome { return [...]outcome{refuse, pass}[min(n-1, 1)] }},
		"the third of four batches is refused": {3600, func(n int) outcome { return [...]outcome{pass, pass, refuse, pass}[min(n-1, 3)] }},
		"every message of the visit is lost":   {150, func(n int) outcome { return [...]outcome{drop, pass}[min(n-1, 1)] }},
		"the answer of the queue is lost":      {3, func(n int) outcome { return [...]outcome{loseReply, pass}[min(n-1, 1)] }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon)
			w.Aggregate.Cleanup = &brittleQueue{Queue: w.Cleanup, strike: c.strike}
			rows := secondsOf("2026-03-10T14", c.rows, 2)
			w.put(rows...)
			w.until(at("2026-03-10T15:51:00"))
			for _, r := range rows {
				w.wantRow(r, metering.Aggregated, aggregated(int64(2*c.rows), c.rows))
			}
			w.until(at("2026-03-11T16:00:00"))
			w.wantMetric(metering.MetricRowExpired, 0, 0)
			w.wantMetric(metering.MetricRowLate, 0, 0)
			w.wantBilled(rows[0], int64(2*c.rows))
			w.wantPlace(ledger.Billed, int64(2*c.rows))
			w.wantNoDeadLetters()
		})
	}
}

// TestF02BilledRowsAreNeverCalledExpired: no cleanup and no visit came through in all of the 24 hours. Age-out finds the rows
// waiting, and their record: it labels them Aggregated, not AggregationExpired.
func TestF02BilledRowsAreNeverCalledExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.Aggregate.Cleanup = &brittleQueue{Queue: w.Cleanup, strike: func(int) outcome { return drop }}
	r := usage("2026-03-10T14:00:05", 4)
	w.put(r)
	w.until(at("2026-03-11T14:09:00"))
	w.wantWaiting(r)
	w.wantBilled(r, 4)
	w.until(at("2026-03-11T14:30:00"))
	w.wantRow(r, metering.Aggregated, aggregated(4, 1))
	w.wantMetric(metering.MetricRowExpired, 0, 0)
	w.wantPlace(ledger.Billed, 4)
}

// TestF07GrowthBetweenFoldAndCleanupIsLate: a writer's ADD after the sum was taken was wiped with the marker. The row grows from 10
// to 15 before its label is written: 10 are billed, and the 5 are late, by name and by metric.
func TestF07GrowthBetweenFoldAndCleanupIsLate(t *testing.T) {
	t.Parallel()
	for name, rewrite := range map[string]func(w *world, r metering.Row){
		"added":     func(w *world, r metering.Row) { w.grow(r, 5) },
		"put again": func(w *world, r metering.Row) { r.Quantity = metering.Units(15); w.put(r) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon)
			r := usage("2026-03-10T14:00:05", 10)
			w.put(r)
			if !w.visit(r) {
				t.Fatal("the visit failed")
			}
			rewrite(w, r)
			w.until(afternoon.Add(40 * time.Minute))
			w.wantRow(r, metering.LateUsage, "Grew from 10 to 15 after its hour was committed")
			if got := w.row(r).LateQuantity; got != metering.Units(5) {
				t.Errorf("lateQuantity %+v", got)
			}
			w.wantBilled(r, 10)
			w.wantMetric(metering.MetricRowLate, 1, 5)
			w.wantPlace(ledger.Late, 5)
		})
	}
}

// TestF07EachGrowthIsCountedOnce: a row that is late already and grows again. 10 billed, 5 late, then 3 more: lateQuantity is 8, and
// the metric has counted 8 units, not 13.
func TestF07EachGrowthIsCountedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	grown, late := usage("2026-03-10T14:00:05", 10), usage("2026-03-10T14:00:06", 4)
	w.put(grown)
	w.until(at("2026-03-10T15:36:00"))
	w.grow(grown, 5)
	w.put(late)
	w.until(at("2026-03-10T15:51:00"))
	w.wantMetric(metering.MetricRowLate, 2, 9)
	w.grow(grown, 3)
	w.grow(late, 2)
	w.until(at("2026-03-10T16:06:00"))
	if got := w.row(grown).LateQuantity; got != metering.Units(8) {
		t.Errorf("lateQuantity %+v", got)
	}
	if got := w.metrics.Of(metering.MetricRowLate).Units; got != 14 {
		t.Errorf("%d late units counted, want 14", got)
	}
	w.wantBilled(grown, 10)
	w.wantPlace(ledger.Late, 14)
}

// TestF07CoveredRowThatShrank: a row is put again with less, or with no number, before its label. The committed quantity stays billed;
// the reason names both, and a metric counts it.
func TestF07CoveredRowThatShrank(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	less, none := usage("2026-03-10T14:00:05", 10), usage("2026-03-10T14:00:06", 6)
	w.put(less, none)
	w.visit(less)
	smaller := less
	smaller.Quantity = metering.Units(4)
	w.put(smaller, altered(none, metering.Item{metering.AttrQuantity: "six"}))
	w.until(afternoon.Add(40 * time.Minute))
	w.wantRow(less, metering.Aggregated, "Aggregated with quantity 10, the row now holds 4")
	w.wantRow(none, metering.Aggregated, "Aggregated with quantity 6, the row now holds six")
	w.wantMetric(metering.MetricCoveredRowChanged, 2, 12)
	w.wantBilled(less, 16)
	if got := w.books().Total.Withdraw.Units; got != 12 {
		t.Errorf("withdrawn %d, want 12", got)
	}
}

// TestF25BilledRowsKeepTheirLabel: with their cleanup lost, billed rows were refused along with a bad row that came late. The bad row
// alone is refused; the billed ones read Aggregated. The same when the message is handled after the hour has lapsed.
func TestF25BilledRowsKeepTheirLabel(t *testing.T) {
	t.Parallel()
	for name, when := range map[string]time.Time{
		"the next visit":            at("2026-03-10T15:51:00"),
		"a message that came late":  at("2026-03-11T18:00:00"),
		"a message after the month": at("2026-04-11T18:00:00"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon)
			lost := &brittleQueue{Queue: w.Cleanup, strike: func(int) outcome { return drop }}
			w.Aggregate.Cleanup = lost
			good := secondsOf("2026-03-10T14", 5, 2)
			w.put(good...)
			w.visit(good[0])
			w.submit()
			bad := altered(usage("2026-03-10T14:30:00", 0), metering.Item{metering.AttrQuantity: number("2.5")})
			w.put(bad)

			w.clock.MoveTo(when)
			w.Aggregate.Cleanup = w.Cleanup
			w.visit(good[0])
			w.Drain(w.ctx)
			for _, r := range good {
				w.wantRow(r, metering.Aggregated, aggregated(10, 5))
			}
			w.wantRow(bad, metering.RejectedClientSide, string(metering.NonIntegerQuantity))
			w.wantPlace(ledger.Billed, 10)
		})
	}
}

// TestF25WrongLabelOfACoveredRowIsHealed: a billed row carries another label, from an operator's hand or an older release. The next
// visit of its group restores what is true.
func TestF25WrongLabelOfACoveredRowIsHealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	r := usage("2026-03-10T14:00:05", 4)
	w.put(r)
	w.until(at("2026-03-10T15:40:00"))
	mislabelled := w.row(r)
	mislabelled.Status, mislabelled.StatusReason = metering.AggregationExpired, metering.ExpiredReason
	w.put(mislabelled)
	if got := w.books().Total.Stale; got != 1 {
		t.Errorf("%d stale labels in the books, want 1", got)
	}
	w.put(usage("2026-03-10T14:00:06", 1)) // something for the index to show
	w.until(at("2026-03-10T15:51:00"))
	w.wantRow(r, metering.Aggregated, aggregated(4, 1))
	w.wantPlace(ledger.Billed, 4)
}

// TestF26AgeoutOverAStaleIndexKeepsAggregated: age-out wrote over labels that were a second old. The index still shows a row that has
// just been labelled Aggregated: nothing is written.
func TestF26AgeoutOverAStaleIndexKeepsAggregated(t *testing.T) {
	t.Parallel()
	var store *brittleStore
	w := newWorld(t, afternoon, brittle(&store, nil))
	billed, alone := usage("2026-03-10T14:00:05", 4), row(licenseTwo, buyerTwo, apiCalls, "2026-03-10T14:00:05", 2)
	w.put(billed)
	w.visit(billed)
	w.submit()
	w.put(alone)
	store.freeze(w.ctx, group(billed).Hour)
	w.Drain(w.ctx)
	w.wantRow(billed, metering.Aggregated, aggregated(4, 1))
	rejected := alone
	rejected.Pending, rejected.Status, rejected.StatusReason = "", metering.RejectedClientSide, "MissingQuantity"
	w.put(rejected)

	w.clock.MoveTo(at("2026-03-11T14:20:00"))
	w.ageout()
	w.wantRow(billed, metering.Aggregated, aggregated(4, 1))
	w.wantRow(alone, metering.RejectedClientSide, "MissingQuantity")
	w.wantMetric(metering.MetricRowExpired, 0, 0)
	w.books()
}

// TestF27DeletedRowLeavesNoGhost: a label re-created the row that its seller, or its ttl, had deleted. It stays gone.
func TestF27DeletedRowLeavesNoGhost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	covered, late := usage("2026-03-10T14:00:05", 4), usage("2026-03-10T14:00:06", 1)
	w.put(covered)
	w.visit(covered)
	w.Drain(w.ctx)
	w.put(late)
	w.visit(late) // asks for LateUsage
	for _, r := range []metering.Row{covered, late} {
		if err := w.store.DeleteRow(w.ctx, r.License, r.SortKey); err != nil {
			t.Fatal(err)
		}
	}
	w.until(at("2026-03-10T15:40:00"))
	for _, r := range []metering.Row{covered, late} {
		if got := w.row(r); got.SortKey != "" {
			t.Errorf("ghost %+v", got)
		}
	}
	w.wantNoDeadLetters()
	if got := w.books().Total.Withdraw.Units; got != 4 {
		t.Errorf("withdrawn %d, want 4", got)
	}
}

// TestF42LabelsSurviveAThrottledStore: a store that refuses two writes of three, and loses the answer of every seventh. Only what failed
// is tried again, and all 250 rows end Aggregated without a dead letter.
func TestF42LabelsSurviveAThrottledStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, brittle(nil, func(o op, n int, _ string) outcome {
		switch {
		case o != opLabel:
			return pass
		case n%7 == 0:
			return loseReply
		case n%3 != 0:
			return refuse
		}
		return pass
	}))
	rows := secondsOf("2026-03-10T14", 250, 1)
	w.put(rows...)
	w.until(at("2026-03-10T16:30:00"))
	for _, r := range rows {
		w.wantRow(r, metering.Aggregated, aggregated(250, 250))
	}
	w.wantMetric(metering.MetricRowLate, 0, 0)
	w.wantNoDeadLetters()
	w.wantPlace(ledger.Billed, 250)
}
