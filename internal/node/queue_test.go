package node_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/queue"
)

// TestCase46AMalformedAnswerBringsTheBatchBack: an answer that named no message, or one of another batch, counted as success. The whole
// batch is delivered again after its timeout and lies among the dead letters in the end.
func TestCase46AMalformedAnswerBringsTheBatchBack(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string][]string{"empty id": {""}, "unknown id": {"m999"}, "wrong key": {"itemIdentifier"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon)
			r := usage("2026-03-10T14:00:00", 1)
			body := metering.Encode(metering.NewWorkMessage(group(r), false))
			if _, err := w.Work.Send(w.ctx, []string{body, body, body}); err != nil {
				t.Fatal(err)
			}
			deliveries := 0
			for range 6 {
				w.Work.Poll(w.ctx, 10, func(_ context.Context, batch []queue.Delivery) []string {
					deliveries += len(batch)
					return answer
				})
				w.clock.MoveTo(w.clock.Now().Add(6 * time.Minute))
			}
			if dead, _ := w.DeadLetters.Len(); deliveries != 15 || dead != 3 {
				t.Errorf("%d deliveries, %d dead letters; want three messages five times, then dead", deliveries, dead)
			}
			w.books()
		})
	}
}

// TestCase45DuplicatedDeliveriesAreHarmless: every message of every queue is delivered twice, and the group's visit and labels with it.
// Nothing is counted or billed twice.
func TestCase45DuplicatedDeliveriesAreHarmless(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	twice := func(int) outcome { return double }
	w.Discover.Work, w.Discover.Cleanup = &brittleQueue{Queue: w.Work, strike: twice}, &brittleQueue{Queue: w.Cleanup, strike: twice}
	w.Aggregate.Cleanup = &brittleQueue{Queue: w.Cleanup, strike: twice}
	rows := secondsOf("2026-03-10T14", 250, 2)
	w.put(rows...)
	w.until(at("2026-03-10T16:10:00"))
	for _, r := range rows {
		w.wantRow(r, metering.Aggregated, aggregated(500, 250))
	}
	w.wantMetric(metering.MetricRowLate, 0, 0)
	w.wantNoDeadLetters()
	w.wantPlace(ledger.Billed, 500)
}

// TestF02DeadLettersLoseNothing: the cleanup of a group fails until its messages are dead. The rows wait, billed all the same; once the store
// takes writes again the next visit heals them, and a redrive of the dead letters changes nothing.
func TestF02DeadLettersLoseNothing(t *testing.T) {
	t.Parallel()
	broken := true
	w := newWorld(t, afternoon, brittle(nil, func(o op, _ int, _ string) outcome {
		if o == opLabel && broken {
			return refuse
		}
		return pass
	}))
	r := usage("2026-03-10T14:00:05", 4)
	w.put(r)
	w.until(at("2026-03-10T17:00:00"))
	w.wantWaiting(r)
	w.wantBilled(r, 4)
	if dead, _ := w.DeadLetters.Len(); dead == 0 {
		t.Fatal("no dead letters after an hour and a half")
	}
	w.books()
	broken = false
	w.until(at("2026-03-10T17:06:00"))
	w.wantRow(r, metering.Aggregated, aggregated(4, 1))
	if moved, err := w.Cleanup.Redrive(w.ctx); err != nil || moved == 0 {
		t.Errorf("%d messages redriven, %v", moved, err)
	}
	w.until(at("2026-03-10T17:30:00"))
	w.wantRow(r, metering.Aggregated, aggregated(4, 1))
	w.wantMetric(metering.MetricRowLate, 0, 0)
	w.wantPlace(ledger.Billed, 4)
}

// TestMarkersThatAreNoHourAreNamed: a row or a record whose marker is no hour is found by no query. The ledger names each.
func TestMarkersThatAreNoHourAreNamed(t *testing.T) {
	t.Parallel()
	for _, marker := range []string{"soon", "2026-03-10", "2026-03-10T14:00", "2026-03-10T14Z"} {
		t.Run(fmt.Sprint(marker), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon)
			w.put(altered(usage("2026-03-10T14:00:00", 3), metering.Item{metering.AttrPending: marker}))
			w.putRecords(changed(sale("2026-03-10T13", 4), metering.Item{metering.AttrPending: marker}))
			w.until(afternoon.Add(20 * time.Minute))
			if report := ledgerOf(w); len(report.Imbalances) != 2 || report.Balanced() {
				t.Errorf("%d imbalances, want the row's and the record's", len(report.Imbalances))
			}
		})
	}
}
