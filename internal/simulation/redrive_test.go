package simulation

import (
	"context"
	"testing"

	"github.com/awsmp/metering/internal/metering"
)

// redriven counts what operators put right on a day, by the traces that stand on the items at its end.
func redriven(w *world, counts map[string]int) {
	ctx := context.Background()
	for license := range w.tables.Licenses(ctx) {
		for r := range w.tables.Store.LicenseRows(ctx, license) {
			_, recalled := r.Other[metering.AttrRecalled]
			_, left := r.Other[metering.AttrCarriedTo]
			_, carried := r.Other[metering.AttrCarriedFrom]
			for what, is := range map[string]bool{
				"dropped": r.Dropped, "recalled": recalled, "recalled and aggregated": recalled && r.Status == metering.Aggregated,
				"carried from": left, "carried from a grown row": left && r.Quantity.N > 0, "carried to": carried, "carried and aggregated": carried && r.Status == metering.Aggregated,
			} {
				if is {
					counts[what]++
				}
			}
		}
		for r := range w.tables.Store.LicenseRecords(ctx, license) {
			trace, _ := r.Other[metering.AttrReopened].([]any)
			for _, entry := range trace {
				if e, _ := entry.(map[string]any); e[metering.AttrStatus] == string(metering.DryRunSubmitted) {
					counts["promoted"]++
					if r.Status == metering.Success {
						counts["promoted and billed"]++
					}
				}
			}
		}
	}
}

// TestOperatorsPutThingsRight plays days of operators who recall, drop, carry and promote, alone and two at once, killed and unanswered
// like everybody else. The law holds on each, and each kind of it comes to its end somewhere.
func TestOperatorsPutThingsRight(t *testing.T) {
	t.Parallel()
	counts := make(map[string]int)
	days, dryDays := redriveDays, redriveDryDays
	if underRace {
		days, dryDays = 2, 0
	}
	for seed, played, dry := uint64(1), 0, 0; played < days || dry < dryDays; seed++ {
		p := draw(seed)
		if isDry := !p.dryRun.IsZero(); !reDrives(p) || played >= days && !isDry {
			continue
		} else if isDry {
			dry++
		}
		played++
		w, err := newWorld(seed, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d := w.day(); d.Violation != nil {
			t.Errorf("seed %d: %v", seed, d.Violation)
		}
		redriven(w, counts)
	}
	t.Log(counts)
	if underRace {
		return // so few days need not hold everything
	}
	for _, what := range []string{
		"dropped", "recalled", "recalled and aggregated", "carried from", "carried from a grown row", "carried to", "carried and aggregated", "promoted", "promoted and billed",
	} {
		if counts[what] == 0 {
			t.Errorf("on %d days nothing was %s", redriveDays, what)
		}
	}
}

// redriveDays are enough to meet each kind, and redriveDryDays to go live, with the records of the dry run still inside their window.
const (
	redriveDays    = 24
	redriveDryDays = 12
)

// reDrives reports whether operators put things right on a day.
func reDrives(p plan) bool {
	for _, m := range p.moves {
		if len(m.what) > 7 && m.who == "operator" && (m.what[:7] == "carries" || m.what[:7] == "recalls") {
			return true
		}
	}
	return false
}
