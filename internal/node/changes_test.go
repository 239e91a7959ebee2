package node_test

import (
	"context"
	"iter"
	"testing"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// unreadable fails the reads that its functions choose; nil chooses none.
type unreadable struct {
	pipeline.Records
	index  func(h metering.Hour, license string) bool
	record func(g metering.Group) bool
}

func (u unreadable) PendingRecords(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.Record, error] {
	if u.index != nil && u.index(h, license) {
		return func(yield func(metering.Record, error) bool) { yield(metering.Record{}, errStruck) }
	}
	return u.Records.PendingRecords(ctx, h, license)
}

func (u unreadable) Record(ctx context.Context, g metering.Group) (*metering.Record, error) {
	if u.record != nil && u.record(g) {
		return nil, errStruck
	}
	return u.Records.Record(ctx, g)
}

// TestUnreadableLastHourStarvesNoOther: the index of one license in its last hour could not be read, and the licenses behind it missed
// theirs. They are sent, and the run fails.
func TestUnreadableLastHourStarvesNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.deprovision(licenseOne, buyerOne, at("2026-03-10T15:10:00"))
	w.deprovision(licenseTwo, buyerTwo, at("2026-03-10T15:10:00"))
	r := direct(licenseTwo, buyerTwo, apiCalls, "2026-03-10T14", 5)
	w.putRecords(r)
	w.Submit.Records = unreadable{Records: w.Submit.Records, index: func(_ metering.Hour, license string) bool { return license == licenseOne }}
	w.submitFails()
	w.wantRecord(r, metering.Success, "")
	w.wantPlace(ledger.Billed, 5)
}

// TestUnreadableHourStarvesNoOther: one hour of the index could not be read, and every hour behind it waited. They are sent, and the run
// fails.
func TestUnreadableHourStarvesNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	r := sale("2026-03-10T14", 5)
	w.putRecords(r)
	early := metering.HourOf(at("2026-03-10T02:00:00"))
	w.Submit.Records = unreadable{Records: w.Submit.Records, index: func(h metering.Hour, _ string) bool { return h == early }}
	w.submitFails()
	w.wantRecord(r, metering.Success, "")
	w.wantPlace(ledger.Billed, 5)
}

// TestUnreadableRecordStarvesNoOtherGroup: the record of one group could not be read, and the groups behind it did not age out. They do, and
// the run fails.
func TestUnreadableRecordStarvesNoOtherGroup(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-03-11T15:20:00"))
	behind := row(licenseTwo, buyerTwo, apiCalls, "2026-03-10T14:00:00", 5)
	w.put(usage("2026-03-10T14:00:00", 5), behind)
	w.Discover.Records = unreadable{Records: w.Discover.Records, record: func(g metering.Group) bool { return g.Account == buyerOne }}
	failed := 0
	for shard := range metering.AgeoutShards {
		if _, err := w.Discover.Run(w.ctx, pipeline.AgeoutSlice(shard)); err != nil {
			failed++
		}
	}
	w.Drain(w.ctx)
	if failed != 1 {
		t.Errorf("%d shards failed, want the one with the unreadable record", failed)
	}
	w.wantRow(behind, metering.AggregationExpired, metering.ExpiredReason)
	w.wantWaiting(usage("2026-03-10T14:00:00", 5))
	w.wantPlace(ledger.Expired, 5)
}

// TestManifestOfAnotherType: a manifest that is no text was taken for none, and billed rows were called late, to be billed again. No row is
// labelled, the metric tells, and the ledger finds it.
func TestManifestOfAnotherType(t *testing.T) {
	t.Parallel()
	for name, manifest := range map[string]any{
		"list": []any{number("0"), number("10")}, "map": map[string]any{"v": "2"}, "empty": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon)
			r := usage("2026-03-10T14:00:00", 10)
			w.put(r)
			cleanup := w.Aggregate.Cleanup
			w.Aggregate.Cleanup = collector(func([]string) {}) // the labels are lost
			w.visit(r)
			w.Aggregate.Cleanup = cleanup
			w.submit()
			w.putRecords(changed(w.record(r), metering.Item{metering.AttrManifest: manifest}))
			w.meter()
			w.wantWaiting(r)
			w.wantRow(r, "", "")
			w.wantMetric(metering.MetricManifestUnreadable, 1, 0)
			report := ledgerOf(w)
			if report.Balanced() || len(report.Imbalances) != 1 || report.Total.Place(ledger.Billed).Units != 10 {
				t.Errorf("imbalances %+v, billed %d; want one finding, and 10", report.Imbalances, report.Total.Place(ledger.Billed).Units)
			}
		})
	}
}

// TestFlushWaitsForTheHourOfAMisfiledRow: the flush of a last hour followed a misfiled row into the hour that had just ended, and committed it
// at 15:01, without what came in its settle time. It is committed whole at 15:06.
func TestFlushWaitsForTheHourOfAMisfiledRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-03-10T15:01:00"))
	w.deprovision(licenseOne, buyerOne, at("2026-03-10T14:55:00"))
	flush := func() {
		t.Helper()
		if _, err := w.Discover.Run(w.ctx, pipeline.FlushSlice()); err != nil {
			t.Fatal(err)
		}
		w.Drain(w.ctx)
	}
	misfiled := altered(usage("2026-03-10T14:10:00", 5), metering.Item{metering.AttrPending: "2026-03-10T12"})
	filed, last := usage("2026-03-10T14:11:00", 6), usage("2026-03-10T14:54:59", 100)
	w.put(misfiled, filed)
	flush()
	if w.record(misfiled).Quantity.Whole {
		t.Error("committed before five past")
	}
	w.put(last)
	w.clock.MoveTo(at("2026-03-10T15:06:00"))
	flush()
	flush() // a misfiled row may have been filed under its own hour by the first
	for _, r := range []metering.Row{misfiled, filed, last} {
		w.wantRow(r, metering.Aggregated, aggregated(111, 3))
	}
	w.submit()
	w.wantBilled(filed, 111)
	w.wantPlace(ledger.Billed, 111)
}

// TestCoveredRowGoneBeforeItsLabel: a row was deleted between the commit and its label, and nothing told that billed units had lost their row.
// The metric tells, and the ledger lists them as withdrawn.
func TestCoveredRowGoneBeforeItsLabel(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	r := usage("2026-03-10T14:00:00", 10)
	w.put(r)
	w.visit(r)
	check(t, w.store.DeleteRow(w.ctx, r.License, r.SortKey))
	w.Drain(w.ctx)
	w.wantMetric(metering.MetricCoveredRowChanged, 1, 10)
	w.submit()
	if got := w.books().Total.Withdraw; got != (ledger.Amount{Items: 1, Units: 10}) {
		t.Errorf("withdrawn %+v, want the row with 10 units", got)
	}
	w.wantPlace(ledger.Billed, 10)
}

// TestShrunkRowWithAnotherLabelIsStale: a covered row that had grown, was late and then shrank below what was committed stood in no list. The
// ledger counts its label as stale.
func TestShrunkRowWithAnotherLabelIsStale(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	r := usage("2026-03-10T14:00:00", 5)
	w.put(r)
	w.visit(r)
	w.Drain(w.ctx)
	w.grow(r, 3)
	w.meter()
	shrunk := w.row(r)
	if shrunk.Status != metering.LateUsage {
		t.Fatalf("the grown row is %s", shrunk.Status)
	}
	shrunk.Quantity = metering.Units(4)
	w.put(shrunk)
	w.submit()
	total := w.books().Total
	if total.Stale != 1 || total.Withdraw != (ledger.Amount{Items: 1, Units: 1}) || total.Place(ledger.Late).Units != 0 {
		t.Errorf("%d stale, withdrawn %+v, %d late; want 1, one unit and 0", total.Stale, total.Withdraw, total.Place(ledger.Late).Units)
	}
}

// TestDroppedRowStaysRejected: a row that an operator had dropped waited again in a committed hour and became late, offered for billing. It is
// rejected as before.
func TestDroppedRowStaysRejected(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	dropped := altered(usage("2026-03-10T14:00:00", 5), metering.Item{
		"dropped": true, metering.AttrStatus: string(metering.RejectedClientSide), metering.AttrStatusReason: "InvalidQuantity",
	})
	billed := usage("2026-03-10T14:00:01", 6)
	w.put(dropped, billed)
	w.meter()
	w.meter()
	w.wantRow(dropped, metering.RejectedClientSide, "InvalidQuantity")
	w.wantRow(billed, metering.Aggregated, aggregated(6, 1))
	w.submit()
	w.wantBilled(billed, 6)
	w.wantPlace(ledger.Rejected, 5)
}
