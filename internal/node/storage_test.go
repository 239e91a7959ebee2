package node_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/store/sqlite"
)

// TestCase48WritersBesideACleanup: all rows of an hour share one place in the index, and a cleanup beside busy writers was throttled until it
// gave up. Over the durable store a group of 3,600 rows is labelled while two programs write 1,500 rows of the same hour: every
// row is cleared, every write lands, and all of it is billed or has a name.
func TestCase48WritersBesideACleanup(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "usage.db")
	open := func() *sqlite.Store {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	store, other := open(), open()
	w := newWorld(t, afternoon, withConfig(func(c *node.Config) { c.Store = store }))
	if err := store.PutRows(t.Context(), secondsOf("2026-03-10T14", 3600, 1)); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for i, s := range []*sqlite.Store{store, other} {
		writers.Go(func() {
			for n := range 750 {
				g := metering.Group{License: licenseTwo, Account: buyerTwo, Dimension: fmt.Sprintf("dim_%d", n%5)}
				second, err := metering.ParseSecond(fmt.Sprintf("2026-03-10T14:%02d:%02d", n/60, n%60))
				if err != nil {
					t.Error(err)
					return
				}
				f := metering.NewFlush(g, second, 1, fmt.Sprint(i, n))
				if out := s.FlushRows(t.Context(), []metering.Flush{f}); !out[0].Done {
					t.Errorf("%+v", out[0])
				}
			}
		})
	}
	w.meter() // finds the group, sums and labels it, while they write
	for r, err := range store.LicenseRows(t.Context(), licenseOne) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Pending != "" || r.Status != metering.Aggregated {
			t.Fatalf("row %s still waits", r.SortKey)
		}
	}
	writers.Wait()
	w.until(at("2026-03-10T16:10:00"))
	report, err := ledger.Compute(t.Context(), store, ledger.Scope{})
	if err != nil {
		t.Fatal(err)
	}
	billed, late := report.Total.Place(ledger.Billed).Units, report.Total.Place(ledger.Late).Units
	if !report.Balanced() || report.Total.Written.Units != 3600+1500 || billed+late != 3600+1500 || billed < 3600 {
		t.Errorf("balanced %v: %d written, %d billed, %d late", report.Balanced(), report.Total.Written.Units, billed, late)
	}
	if d := report.Against(sold(w.sim)).Differences; len(d) > 0 {
		t.Errorf("the books differ from the Marketplace's: %+v", d)
	}
}
