package node_test

import (
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// TestUsageBecomesRevenue is the plain way: rows in, a record, a call, Success, and books that balance.
func TestUsageBecomesRevenue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	r := usage("2026-03-10T14:00:05", 4)
	w.put(r, usage("2026-03-10T14:59:59", 3))

	w.until(afternoon.Add(20 * time.Minute))

	if got := w.record(r); got.Status != metering.Success || got.Quantity != metering.Units(7) || got.MeteringRecordID == "" {
		t.Errorf("record %+v, want Success with 7 units and an id", got)
	}
	if got := w.row(r); got.Status != metering.Aggregated || got.StatusReason != "Aggregated total quantity 7 from 2 raw usage records" || got.Pending != "" {
		t.Errorf("row %+v", got)
	}
	if got := w.books().Total.Place(ledger.Billed); got != (ledger.Amount{Items: 2, Units: 7}) {
		t.Errorf("billed %+v", got)
	}
}
