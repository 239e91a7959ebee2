package deploy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/simulator"
)

// TestDrill plays what docs/drill.md says: every alarm of the runbook is caused with the shipped functions, rings as its template has it, is seen in awsmp status,
// understood with awsmp explain and put right with the command that they name; the alarm goes off, and the books balance.
func TestDrill(t *testing.T) {
	t.Parallel()
	d := newDrill(t, simulator.Options{})
	for _, scene := range scenes() {
		began := time.Now()
		scene.play(d)
		t.Logf("%s: %v", scene.name, time.Since(began).Round(100*time.Millisecond))
	}
	d.balanced()
	for _, of := range drills() {
		for _, step := range []string{stepRang, stepSeen, stepUnderstood, stepQuiet} {
			if !strings.Contains(strings.Join(d.proven[of.alarm], "\n"), step) {
				t.Errorf("nothing shows that %s %s", of.alarm, step)
			}
		}
	}
}

// scene is a part of the drill, with alarms that share a mechanism.
type scene struct {
	name string
	play func(*drill)
}

func scenes() []scene {
	return []scene{
		{"a quiet day", quietDay},
		{"somebody sets dry-run", dryRun},
		{"somebody pauses submission", paused},
		{"schedules and mappings are switched off", standingStill},
		{"Lambda has no room", noRoom},
		{"what should arrive does not", undelivered},
		{"roles lose their tables", forbidding},
		{"processes die, and the Marketplace is away", deaths},
		{"usage meets each of its fates", usageFates},
	}
}

// quietDay: nothing is wrong, and nothing rings.
func quietDay(d *drill) {
	d.row(d.buys(0).group("seats", 0), 0, "3")
	d.pass(45, often("submitter"))
	d.rings()
}

// balanced asks for the ledger of every license as an operator does, and holds all of them against what the Marketplace has sold: once, and nothing else but what
// another program sold.
func (d *drill) balanced() {
	d.t.Helper()
	var billed, sold int64
	for license := range d.metered {
		d.do("awsmp ledger --license " + license + d.place())
		report, err := ledger.Compute(d.t.Context(), d.store, ledger.Scope{License: license})
		d.must(err)
		var list []ledger.Sold
		for _, b := range d.sim.Ledger() {
			if b.LicenseARN == license {
				list, sold = append(list, node.Sold(b)), sold+b.Quantity
			}
		}
		if check := report.Against(list); !report.Balanced() || !check.Equal() {
			d.t.Errorf("the books of %s: %+v, %+v", license, report.Imbalances, check)
		}
		billed += report.Total.Places[ledger.Cause{Place: ledger.Billed}].Units
	}
	if billed == 0 || sold != billed+d.elsewhere {
		d.t.Errorf("%d units are billed in the books, and %d sold, of which another program sold %d", billed, sold, d.elsewhere)
	}
}
