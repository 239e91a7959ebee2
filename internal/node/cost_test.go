package node_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/store/memory"
)

// history puts finished groups into the tables: a row and its record each, of the last hundred days.
func (w *world) history(groups int) {
	w.t.Helper()
	for i := range groups {
		h := metering.HourOf(afternoon) - metering.Hour(1+i%2400)
		r := row(licenseOne, buyerOne, fmt.Sprintf("dim_%04d", i/2400), h.String()+":10:00", 2)
		fold := metering.NewFold(group(r), h.End())
		fold.Add(r)
		record, reason := fold.Record()
		if reason != "" {
			w.t.Fatal(reason)
		}
		r.Pending, r.Status, r.StatusReason = "", metering.Aggregated, aggregated(2, 1)
		record.Pending, record.Status, record.SentQuantity = "", metering.Success, record.Quantity
		w.put(r)
		w.putRecords(record)
	}
}

// pass runs every stage once over a little work of its own and counts what it asked of the store.
func (w *world) pass() memory.Stats {
	w.t.Helper()
	before := w.stats()
	w.meter()
	w.ageout()
	w.submit()
	w.expire()
	after := w.stats()
	return memory.Stats{ItemsRead: after.ItemsRead - before.ItemsRead, Queries: after.Queries - before.Queries, Writes: after.Writes - before.Writes}
}

// TestF41APassCostsWhatIsPending: every pass read all there ever was. With 100 and 10,000 times the finished groups, a pass over the same
// twelve pending rows reads and writes exactly as much.
func TestF41APassCostsWhatIsPending(t *testing.T) {
	t.Parallel()
	cost := make(map[int]memory.Stats)
	for _, groups := range []int{1, 100, 10_000} {
		w := newWorld(t, afternoon)
		w.history(groups)
		for i := range 12 {
			w.put(row(licenseTwo, buyerTwo, fmt.Sprintf("dim_%d", i%4), fmt.Sprintf("2026-03-10T14:%02d:00", i), 1))
		}
		cost[groups] = w.pass()
		if n := w.sim.Stats().Records; n != 4 {
			t.Errorf("%d records sent, want 4", n)
		}
	}
	if cost[1] != cost[100] || cost[1] != cost[10_000] {
		t.Errorf("one pass: %+v", cost)
	}
	if read := cost[1].ItemsRead; read > 100 {
		t.Errorf("%d items read for 12 rows in 4 groups", read)
	}
}

// TestF41AQuietPassReadsNothing: an idle pipeline asks for its hours and finds nothing: no item is read, none written.
func TestF41AQuietPassReadsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.history(500)
	if got := w.pass(); got.ItemsRead != 0 || got.Writes != 0 || got.Queries > 400 {
		t.Errorf("a quiet pass: %+v", got)
	}
	w.clock.MoveTo(afternoon.Add(time.Hour))
	if got := w.pass(); got.ItemsRead != 0 || got.Writes != 0 {
		t.Errorf("an hour later: %+v", got)
	}
}

// TestF41VisitsReadGroupsOnce: each pending row made a visit of its group. 3,600 rows of one group make one message, and reading it costs
// its rows once from the index and once from the table.
func TestF41VisitsReadGroupsOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.Clean.Batch = 1 // as where each label is a write of its own
	w.put(secondsOf("2026-03-10T14", 3600, 1)...)
	before := w.stats()
	found, err := w.Discover.Run(w.ctx, pipeline.MeterSlice(1))
	if err != nil || found.Entries != 3600 || found.Enqueued != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	w.Drain(w.ctx)
	after := w.stats()
	if read := after.ItemsRead - before.ItemsRead; read > 2*3600+1 {
		t.Errorf("%d items read", read)
	}
	if writes := after.Writes - before.Writes; writes != 3601 {
		t.Errorf("%d writes, want one a row and one for the record", writes)
	}
	w.wantPlace(ledger.InFlight, 3600)
}

// TestCase26OneBadRowPinsNothing: an event that could not be processed had every run read 71 days anew. A row of "abc" is terminal at its
// first visit, and over 48 hours the runs read no more than on the first.
func TestCase26OneBadRowPinsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	bad := altered(usage("2026-03-10T14:00:00", 0), metering.Item{metering.AttrQuantity: "abc"})
	w.put(bad)
	w.until(at("2026-03-10T15:40:00"))
	w.wantRow(bad, metering.RejectedClientSide, string(metering.NonNumericQuantity))
	var most int64
	for day := range 2 {
		before := w.stats()
		w.until(afternoon.Add(time.Duration(day+1) * 24 * time.Hour))
		read := w.stats().ItemsRead - before.ItemsRead
		if most = max(most, read); day > 0 && read > 0 {
			t.Errorf("day %d read %d items", day, read)
		}
	}
	w.books()
}

// TestF44SweepsFinishABacklog: age-out and expiry went one by one, and a large backlog outlasted its run. 8,000 rows and 2,000 records past
// billing end in one sweep, with one metric a message, not a row.
func TestF44SweepsFinishABacklog(t *testing.T) {
	t.Parallel()
	var measures atomic.Int64
	w := newWorld(t, afternoon)
	w.Clean.Metrics = counting{w.metrics, &measures}
	for i := range 8_000 {
		w.put(row(licenseOne, buyerOne, fmt.Sprintf("dim_%d", i/3600), at("2026-03-09T09:00:00").Add(time.Duration(i%3600)*time.Second).Format("2006-01-02T15:04:05"), 1))
	}
	w.putRecords(many("2026-03-09T08", 2000, 1)...)
	w.ageout()
	if e := w.expire(); e.Expired != 2000 {
		t.Errorf("%+v", e)
	}
	w.wantMetric(metering.MetricRowExpired, 8_000, 8_000)
	if n := measures.Load(); n > 90 {
		t.Errorf("%d observations for 8,000 rows", n)
	}
	w.wantPlace(ledger.Expired, 10_000)
}

// TestF45ZeroGroupsAreVisitedCheaply: a group of zeros is visited until offset 23. Each visit reads its rows and writes nothing.
func TestF45ZeroGroupsAreVisitedCheaply(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.put(secondsOf("2026-03-10T14", 60, 0)...)
	before := w.stats()
	w.until(at("2026-03-11T12:59:00"))
	after := w.stats()
	visits := int64(22 * 4)
	if writes, read := after.Writes-before.Writes, after.ItemsRead-before.ItemsRead; writes != 0 || read > visits*(60+60) {
		t.Errorf("%d writes and %d items read in %d visits", writes, read, visits)
	}
	w.wantPlace(ledger.InFlight, 0)
}

// TestF50UnitsAreCountedNotDeliveries: the metric of rejections counted deliveries and no units. However often its messages are
// delivered, a rejected group of 40 rows with 390 units is one item with its units, once its rows are labelled.
func TestF50UnitsAreCountedNotDeliveries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	rows := append(secondsOf("2026-03-10T14", 39, 10), altered(usage("2026-03-10T14:30:00", 0), metering.Item{metering.AttrQuantity: "x"}))
	w.put(rows...)
	w.until(at("2026-03-10T18:00:00"))
	w.wantMetric(metering.MetricRowRejected, 1, 390)
	if got := w.metrics.By(metering.MetricRowRejected, string(metering.NonNumericQuantity)); got.Items != 1 || got.Units != 390 {
		t.Errorf("by reason: %+v", got)
	}
	w.wantPlace(ledger.Rejected, 390)
}

// counting counts observations on their way.
type counting struct {
	pipeline.Metrics
	n *atomic.Int64
}

func (c counting) Emit(m metering.Measure) {
	c.n.Add(1)
	c.Metrics.Emit(m)
}
