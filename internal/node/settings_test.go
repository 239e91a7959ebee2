package node_test

import (
	"testing"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/simulator"
)

// What a node is told not to send is not sent: its settings reach the stage that sends.
func TestSettingsReachTheSubmitter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		set   func(*node.Config)
		place ledger.Place
	}{
		"live":    {func(*node.Config) {}, ledger.Billed},
		"dry run": {func(c *node.Config) { c.DryRun = true }, ledger.DryRun},
		"paused":  {func(c *node.Config) { c.Paused = true }, ledger.InFlight},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon, withConfig(c.set))
			r := usage("2026-03-10T14:00:00", 5)
			w.put(r)
			w.until(at("2026-03-10T15:45:00"))
			w.wantPlace(c.place, 5)
			if calls := w.sim.Stats().Calls; (calls > 0) != (c.place == ledger.Billed) {
				t.Errorf("%d calls", calls)
			}
		})
	}
}

// The books know a sale by customer identifier without an account, whoever pays for it in the end.
func TestSoldByIdentifierOrByLicense(t *testing.T) {
	t.Parallel()
	hour := at("2026-03-10T14:00:00")
	for name, c := range map[string]struct {
		billed simulator.Billed
		want   metering.Identity
	}{
		"by license": {
			simulator.Billed{LicenseARN: licenseOne, AccountID: buyerOne, Dimension: apiCalls, Hour: hour},
			metering.Identity{Customer: licenseOne, Account: buyerOne, Dimension: apiCalls, Hour: metering.HourOf(hour)},
		},
		"by identifier": {
			simulator.Billed{CustomerIdentifier: "cust-1", AccountID: buyerOne, Dimension: apiCalls, Hour: hour},
			metering.Identity{Customer: "cust-1", Dimension: apiCalls, Hour: metering.HourOf(hour)},
		},
	} {
		if got := node.Sold(c.billed).Identity; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
