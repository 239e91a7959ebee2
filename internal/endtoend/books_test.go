package endtoend_test

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/pipeline"
)

// books recomputes the ledger from the tables: it must balance, agree with the Marketplace's own, and hold what is wanted.
func (w *world) books(want map[ledger.Cause]ledger.Amount) {
	w.t.Helper()
	var total ledger.Balance
	for _, license := range w.licenses {
		report, err := ledger.Compute(w.t.Context(), w.store, ledger.Scope{License: license})
		fatal(w.t, err)
		if !report.Balanced() {
			w.t.Errorf("the books do not balance: %+v", report.Imbalances)
		}
		if check := report.Against(w.sold(license)); !check.Equal() || len(check.Explained) > 0 {
			w.t.Errorf("the Marketplace says otherwise: %+v", check)
		}
		total.Merge(report.Total)
	}
	if diff := cmp.Diff(want, total.Places); diff != "" {
		w.t.Errorf("where the units are (-want +got):\n%s", diff)
	}
}

// billed is the wish for books that hold nothing but billed usage.
func billed(items int, units int64) map[ledger.Cause]ledger.Amount {
	return map[ledger.Cause]ledger.Amount{{Place: ledger.Billed}: {Items: items, Units: units}}
}

func waiting(items int, units int64) map[ledger.Cause]ledger.Amount {
	return map[ledger.Cause]ledger.Amount{{Place: ledger.InFlight}: {Items: items, Units: units}}
}

// sold is what the Marketplace has billed of a license.
func (w *world) sold(license string) []ledger.Sold {
	var list []ledger.Sold
	for _, b := range w.sim.Ledger() {
		if b.LicenseARN == license {
			list = append(list, node.Sold(b))
		}
	}
	return list
}

// meter runs the discoverer over the world's hour.
func (w *world) meter() pipeline.Discovery {
	w.t.Helper()
	found, err := w.tryMeter()
	fatal(w.t, err)
	return found
}

// tryMeter runs the discoverer once; where the hour has turned under a run that found nothing, under the hour's next offset.
func (w *world) tryMeter() (found pipeline.Discovery, err error) {
	w.t.Helper()
	for {
		offset := w.hour.Offset(time.Now())
		err = w.run(functions.Discoverer, fmt.Sprintf(`{"mode":"meter","hourOffset":%d}`, offset), &found)
		if err != nil || found.Entries > 0 || w.hour.Offset(time.Now()) == offset {
			return found, err
		}
	}
}

func (w *world) discover(input string) (found pipeline.Discovery) {
	w.t.Helper()
	fatal(w.t, w.run(functions.Discoverer, input, &found))
	return found
}

func (w *world) submit() (done pipeline.Submission) {
	w.t.Helper()
	fatal(w.t, w.run(functions.Submitter, `{}`, &done))
	return done
}

// committed brings one group of n rows to its record, with all rows labelled.
func (w *world) committed(dimension string, n int) metering.Group {
	w.t.Helper()
	g := w.group(w.license(), dimension)
	w.put(rows(g, n)...)
	w.meter()
	w.connectAll()
	w.drained()
	return g
}

// labelled fails unless all rows of a group carry the status and wait no longer.
func (w *world) labelled(g metering.Group, n int, status metering.Status) {
	w.t.Helper()
	found := 0
	for row, err := range w.store.GroupRows(w.t.Context(), g) {
		fatal(w.t, err)
		found++
		if row.Status != status || row.Pending != "" {
			w.t.Errorf("row %s is %q and waits under %q, want %s", row.SortKey, row.Status, row.Pending, status)
		}
	}
	if found != n {
		w.t.Errorf("the group has %d rows, want %d", found, n)
	}
}
