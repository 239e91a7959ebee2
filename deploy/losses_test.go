package deploy_test

import (
	"slices"
	"testing"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/simulation"
	"github.com/awsmp/metering/internal/telemetry"
)

// TestLossesOfTheProofRing: after each of its days awsmp prove holds the units in every place against metrics that must have spoken of
// them. Each of these metrics has an alarm here that shows the place, and no place of a loss is without.
func TestLossesOfTheProofRing(t *testing.T) {
	t.Parallel()
	losses := simulation.LossMetrics()
	for _, place := range ledger.Places() {
		if lost := place != ledger.Billed && place != ledger.DryRun && place != ledger.InFlight; lost && len(losses[place]) == 0 {
			t.Errorf("awsmp prove expects no metric of units that are %s", place.Words())
		}
		for _, metric := range losses[place] {
			rings := slices.ContainsFunc(failures(), func(f failure) bool {
				return f.namespace == telemetry.Namespace && f.metric == string(metric) && len(f.alarms) > 0 && slices.Contains(f.shows, subject{placeKind, string(place)})
			})
			if !rings {
				t.Errorf("units that are %s are told by %s, and no alarm on it shows that place", place.Words(), metric)
			}
		}
	}
}
