package node_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// TestF03Case38LateRowIsNamedAtTheNextVisit, and case 38: a row that came after its hour's commit waited a day and then read like a lost
// one. It is LateUsage with its units at the next visit, the rows that were summed keep their label, and nothing more is billed.
func TestF03Case38LateRowIsNamedAtTheNextVisit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	first, second, late := usage("2026-03-10T14:00:00", 3), usage("2026-03-10T14:10:00", 4), usage("2026-03-10T14:20:00", 3)
	w.put(first, second)
	w.visit(first)
	w.put(late) // between the commit and its cleanup
	w.Drain(w.ctx)
	w.wantWaiting(late)
	w.wantRow(first, metering.Aggregated, aggregated(7, 2))
	w.until(at("2026-03-10T15:36:00"))
	w.wantRow(late, metering.LateUsage, metering.LateReason)
	w.wantRow(second, metering.Aggregated, aggregated(7, 2))
	w.wantMetric(metering.MetricRowLate, 1, 3)
	w.until(at("2026-03-10T15:40:00"))
	w.wantBilled(late, 7)
	w.wantPlace(ledger.Late, 3)
}

// TestF04AnHourHasFiveMinutesToSettle: a row of 11:59:59 in a writer's buffer was late before it was flushed. Written at 15:04:59,
// the last second of 14 is still billed.
func TestF04AnHourHasFiveMinutesToSettle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-03-10T14:40:00"))
	early, buffered := usage("2026-03-10T14:30:00", 1), usage("2026-03-10T14:59:59", 2)
	w.put(early)
	w.until(at("2026-03-10T15:04:59"))
	w.wantWaiting(early)
	w.put(buffered)
	w.until(at("2026-03-10T15:10:00"))
	w.wantBilled(early, 3)
	w.wantPlace(ledger.Billed, 3)
}

// TestF05TheLockCountsFromTheHoursStart: with lock 6 the hour of 06:00 is open while its offset is below 6: not committed at 11:59,
// committed by the first run after 12:00.
func TestF05TheLockCountsFromTheHoursStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-03-10T07:00:00"), withRules(metering.Rules{LockHours: 6}))
	first, last := usage("2026-03-10T06:15:00", 1), usage("2026-03-10T06:59:59", 2)
	w.put(first)
	w.until(at("2026-03-10T11:59:00"))
	w.wantWaiting(first)
	w.put(last)
	w.until(at("2026-03-10T12:10:00"))
	w.wantBilled(first, 3)
	w.wantPlace(ledger.Billed, 3)
}

// TestF06RowWrittenDuringTheVisit: a row that lands between the read of the rows and the commit has missed the sum. It is not labelled as
// summed: the next visit calls it late.
func TestF06RowWrittenDuringTheVisit(t *testing.T) {
	t.Parallel()
	var w *world
	missed := usage("2026-03-10T14:00:06", 3)
	w = newWorld(t, afternoon, brittle(nil, func(o op, n int, _ string) outcome {
		if o == opCreate && n == 1 {
			w.put(missed)
		}
		return pass
	}))
	r := usage("2026-03-10T14:00:05", 4)
	w.put(r)
	w.until(at("2026-03-10T15:40:00"))
	w.wantRow(r, metering.Aggregated, aggregated(4, 1))
	w.wantWaiting(missed)
	w.until(at("2026-03-10T15:51:00"))
	w.wantRow(missed, metering.LateUsage, metering.LateReason)
	w.wantBilled(r, 4)
	w.wantPlace(ledger.Late, 3)
}

// TestCommitWhoseReplyIsLost: the record was created and the store's answer lost. The message comes again, meets our own record and
// asks for the labels by its manifest: nothing is late.
func TestCommitWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, brittle(nil, func(o op, n int, _ string) outcome {
		if o == opCreate && n == 1 {
			return loseReply
		}
		return pass
	}))
	r := usage("2026-03-10T14:00:05", 4)
	w.put(r)
	w.until(at("2026-03-10T15:51:00"))
	w.wantRow(r, metering.Aggregated, aggregated(4, 1))
	w.wantMetric(metering.MetricRowLate, 0, 0)
	w.wantPlace(ledger.Billed, 4)
}

// TestF28Case32RecordTooLargeIsRefusedBeforeTheWrite, and case 32: a group whose record exceeds what an item can hold failed at its put 92
// times. It is refused by name before the put; no dead letters, and mending it brings it back.
func TestF28Case32RecordTooLargeIsRefusedBeforeTheWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	var rows []metering.Row
	for i := range 6 { // 600 sets of five tags of 100+250 characters
		r := usage(fmt.Sprintf("2026-03-10T14:00:%02d", i), 100)
		for j := range 100 {
			a := metering.Allocation{Quantity: 1}
			for k := range 5 {
				a.Tags = append(a.Tags, metering.Tag{Key: fmt.Sprintf("k%d", k) + strings.Repeat("x", 98), Value: fmt.Sprintf("%03d-%03d", i, j) + strings.Repeat("v", 243)})
			}
			r.Allocations = append(r.Allocations, a)
		}
		rows = append(rows, r)
	}
	w.put(rows...)
	w.until(at("2026-03-10T16:10:00"))
	for _, r := range rows {
		w.wantRow(r, metering.RejectedClientSide, string(metering.RecordTooLarge))
	}
	w.wantMetric(metering.MetricRowRejected, 1, 600)
	w.wantNoDeadLetters()
	w.wantPlace(ledger.Rejected, 600)

	r := rows[0]
	r.Allocations = []metering.Allocation{{Quantity: 100}}
	for i := range rows { // the seller puts its rows again with tags that fit
		r.SortKey, r.Timestamp = rows[i].SortKey, rows[i].Timestamp
		w.put(r)
	}
	w.until(at("2026-03-10T16:40:00"))
	w.wantBilled(r, 600)
	w.wantPlace(ledger.Billed, 600)
}

// TestF37AllocationsAreCheckedRowByRow: 5 with 7 allocated and 7 with 5 passed together. Each wrong row is refused by its own name;
// an untagged part is legal.
func TestF37AllocationsAreCheckedRowByRow(t *testing.T) {
	t.Parallel()
	part := func(n int64, tags ...metering.Tag) metering.Allocation {
		return metering.Allocation{Quantity: n, Tags: tags}
	}
	team := func(v string) metering.Tag { return metering.Tag{Key: "team", Value: v} }
	sized := func(ts string, q int64, list ...metering.Allocation) metering.Row {
		r := usage(ts, q)
		r.Allocations = list
		return r
	}
	const one, two = "2026-03-10T14:00:01", "2026-03-10T14:00:02"
	six := []metering.Tag{{Key: "a", Value: "1"}, {Key: "b", Value: "1"}, {Key: "c", Value: "1"}, {Key: "d", Value: "1"}, {Key: "e", Value: "1"}, {Key: "f", Value: "1"}}
	for name, c := range map[string]struct {
		rows   []metering.Row
		reason metering.Reason // empty: billed
		billed int64
	}{
		"sums that cancel out":  {[]metering.Row{sized(one, 5, part(7, team("a"))), sized(two, 7, part(5, team("b")))}, metering.AllocationSumMismatch, 0},
		"an untagged part":      {[]metering.Row{sized(one, 5, part(2, team("a")), part(3)), sized(two, 4, part(4))}, "", 9},
		"tags in another order": {[]metering.Row{sized(one, 2, part(2, six[0], six[1])), sized(two, 3, part(3, six[1], six[0]))}, "", 5},
		"zero beside tagged":    {[]metering.Row{sized(one, 5, part(5, team("a"))), usage(two, 0)}, "", 5},
		"tagged and untagged":   {[]metering.Row{sized(one, 5, part(5, team("a"))), usage(two, 1)}, metering.MixedAllocatedAndUnallocated, 0},
		"six tags":              {[]metering.Row{sized(one, 5, part(5, six...))}, metering.TooManyTags, 0},
		"empty tag value":       {[]metering.Row{sized(one, 5, part(5, team("")))}, metering.MissingTagKeyOrValue, 0},
		"value of 257":          {[]metering.Row{sized(one, 5, part(5, team(strings.Repeat("v", 257))))}, metering.InvalidTag, 0},
		"a tag with a quote":    {[]metering.Row{sized(one, 5, part(5, team(`a"b`)))}, metering.InvalidTag, 0},
		"negative part":         {[]metering.Row{sized(one, 5, part(6, team("a")), part(-1))}, metering.NegativeOrNonIntegerAllocation, 0},
		"sum above int32":       {[]metering.Row{usage(one, 2147483647), usage(two, 1)}, metering.QuantityOutOfRange, 0},
		"sum at int32":          {[]metering.Row{usage(one, 2147483646), usage(two, 1)}, "", 2147483647},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon)
			w.put(c.rows...)
			w.until(afternoon.Add(20 * time.Minute))
			w.wantBilled(c.rows[0], c.billed)
			for _, r := range c.rows {
				if c.reason != "" {
					w.wantRow(r, metering.RejectedClientSide, string(c.reason))
				} else {
					w.wantRow(r, metering.Aggregated, aggregated(c.billed, len(c.rows)))
				}
			}
			w.books()
		})
	}
}

// TestCase29ZeroWaitsForTheLastOffset: a 0 sent early owns the hour, and later usage is refused. An hour of zero rows waits; 4 units
// that arrive five hours later are billed, and a quiet hour is sent as 0 once, at offset 23.
func TestCase29ZeroWaitsForTheLastOffset(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	zero, quiet := usage("2026-03-10T14:00:00", 0), row(licenseTwo, buyerTwo, apiCalls, "2026-03-10T14:30:00", 0)
	w.put(zero, quiet)
	w.until(at("2026-03-10T19:00:00"))
	w.wantWaiting(zero, quiet)
	w.put(usage("2026-03-10T14:40:00", 4))
	w.until(at("2026-03-10T19:10:00"))
	w.wantBilled(zero, 4)
	w.wantRow(zero, metering.Aggregated, aggregated(4, 2))
	w.until(at("2026-03-11T12:59:00"))
	w.wantWaiting(quiet)
	w.until(at("2026-03-11T13:10:00"))
	w.wantRow(quiet, metering.Aggregated, aggregated(0, 1))
	if n := len(w.sim.Ledger()); n != 2 {
		t.Errorf("%d records billed, want one of 4 and one of 0", n)
	}
	w.wantPlace(ledger.Billed, 4)
}

// TestCase37OneMessageDeliveredFourTimes: each delivery of a message counted anew. Four visits at the same time make one record with the
// rows' sum, billed once.
func TestCase37OneMessageDeliveredFourTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	rows := secondsOf("2026-03-10T14", 40, 1)
	w.put(rows...)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if !w.visit(rows[0]) {
				t.Error("a visit failed")
			}
		})
	}
	all.Wait()
	w.until(at("2026-03-10T15:40:00"))
	for _, r := range rows {
		w.wantRow(r, metering.Aggregated, aggregated(40, 40))
	}
	w.wantBilled(rows[0], 40)
	w.wantMetric(metering.MetricRowLate, 0, 0)
	if n := w.sim.Stats().Records; n != 1 {
		t.Errorf("%d records sent, want 1", n)
	}
	w.wantPlace(ledger.Billed, 40)
}

// TestCase39Case41AllPagesOfTheIndex and case 41: only the first page of an index query was read. 6,000 groups of one bucket make 6,000
// distinct messages, whatever the size of a page.
func TestCase39Case41AllPagesOfTheIndex(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	seen := make(map[string]int)
	w.Discover.Work = collector(func(bodies []string) {
		for _, b := range bodies {
			seen[b]++
		}
	})
	for i := range 6000 {
		w.put(row(licenseOne, buyerOne, fmt.Sprintf("dim_%05d_%s", i, strings.Repeat("x", 200)), "2026-03-10T14:00:00", 1))
	}
	found, err := w.Discover.Run(w.ctx, pipeline.MeterSlice(1))
	if err != nil || found.Enqueued != 6000 || len(seen) != 6000 {
		t.Errorf("%+v, %d distinct messages, %v", found, len(seen), err)
	}
	w.wantPlace(ledger.InFlight, 6000)
}
