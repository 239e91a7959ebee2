package simulator_test

import (
	"testing"
	"time"

	"github.com/awsmp/metering/simulator"
)

// The window, the month end and clocks that are ahead (case 25), at each boundary from both sides.
func TestWindow(t *testing.T) {
	t.Parallel()
	const ok, out = "Success", "TimestampOutOfBoundsException"
	granular := simulator.Options{HourGranularWindow: true}
	extends := simulator.Options{GraceExtendsWindow: true}
	sixHours := simulator.Options{Window: 6 * time.Hour}
	tests := []struct {
		name    string
		options simulator.Options
		now, ts string
		want    string
	}{
		{"23:59:59 old", simulator.Options{}, "2026-03-10T15:20:00", "2026-03-09T15:20:01", ok},
		{"24:00:00 old", simulator.Options{}, "2026-03-10T15:20:00", "2026-03-09T15:20:00", out},
		{"24:00:01 old", simulator.Options{}, "2026-03-10T15:20:00", "2026-03-09T15:19:59", out},
		{"6 h window, 5:59:59 old", sixHours, "2026-03-10T15:20:00", "2026-03-10T09:20:01", ok},
		{"6 h window, 6:00:00 old", sixHours, "2026-03-10T15:20:00", "2026-03-10T09:20:00", out},
		{"hour-granular, first second", granular, "2026-03-10T15:20:00", "2026-03-09T15:00:00", ok},
		{"hour-granular, one before", granular, "2026-03-10T15:20:00", "2026-03-09T14:59:59", out},
		{"hour-granular, last second of the hour", granular, "2026-03-10T15:59:59", "2026-03-09T15:00:00", ok},

		{"current hour", simulator.Options{}, "2026-03-10T15:20:00", "2026-03-10T15:00:00", ok},
		{"case 25: 1:30 ahead", simulator.Options{}, "2026-03-10T15:20:00", "2026-03-10T15:21:30", ok},
		{"5:00 ahead", simulator.Options{}, "2026-03-10T15:20:00", "2026-03-10T15:25:00", ok},
		{"5:01 ahead", simulator.Options{}, "2026-03-10T15:20:00", "2026-03-10T15:25:01", out},
		{"case 25: 17:00 at 15:20", simulator.Options{}, "2026-03-10T15:20:00", "2026-03-10T17:00:00", out},
		{"another tolerance", simulator.Options{FutureTolerance: 2 * time.Hour}, "2026-03-10T15:20:00", "2026-03-10T17:00:00", ok},

		{"last month at 05:00 on the 1st", simulator.Options{}, "2026-04-01T05:00:00", "2026-03-31T23:00:00", ok},
		{"last month at 05:59:59", simulator.Options{}, "2026-04-01T05:59:59", "2026-03-31T23:00:00", ok},
		{"last month at 06:00:00, 7 h old", simulator.Options{}, "2026-04-01T06:00:00", "2026-03-31T23:00:00", out},
		{"last second of last month at 06:00:00", simulator.Options{}, "2026-04-01T06:00:00", "2026-03-31T23:59:59", out},
		{"first second of this month at 06:00:00", simulator.Options{}, "2026-04-01T06:00:00", "2026-04-01T00:00:00", ok},
		{"last month, 25 h old", simulator.Options{}, "2026-04-01T05:00:00", "2026-03-31T04:00:00", out},
		{"extends: last month, 25 h old", extends, "2026-04-01T05:00:00", "2026-03-31T04:00:00", ok},
		{"extends: first second of the last day", extends, "2026-04-01T05:59:59", "2026-03-31T00:00:00", ok},
		{"extends: second before the last day", extends, "2026-04-01T05:59:59", "2026-03-30T23:59:59", out},
		{"extends: at 06:00:00", extends, "2026-04-01T06:00:00", "2026-03-31T23:00:00", out},
		{"extends: no grace inside a month", extends, "2026-03-10T02:00:00", "2026-03-09T01:00:00", out},
		{"over the new year", simulator.Options{}, "2027-01-01T05:59:59", "2026-12-31T23:00:00", ok},
		{"over the new year at 06:00:00", simulator.Options{}, "2027-01-01T06:00:00", "2026-12-31T23:00:00", out},
		{"short February", simulator.Options{}, "2026-03-01T05:00:00", "2026-02-28T06:00:00", ok},
		{"leap day", simulator.Options{}, "2028-03-01T05:00:00", "2028-02-29T06:00:00", ok},
		{"a window longer than a month opens no closed month", simulator.Options{Window: 2000 * time.Hour}, "2026-03-01T01:00:00", "2026-01-31T23:00:00", out},
		{"a window longer than a month, last month", simulator.Options{Window: 2000 * time.Hour}, "2026-03-01T01:00:00", "2026-02-01T00:00:00", ok},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sim, clock := service(t, tt.options)
			clock.now = at(t, tt.now)
			record := usage(stampedAt(t, tt.ts))
			wantOutcome(t, meter(t, sim, batch(record)), tt.want)
			// One record out of bounds refuses all of its call.
			fresh := usage(stampedAt(t, tt.now), fields{"Dimension": "fresh"})
			if tt.want == out {
				wantOutcome(t, meter(t, sim, batch(fresh, record)), out)
				if n := len(sim.Ledger()); n != 0 {
					t.Errorf("%d entries stored, want none", n)
				}
			}
		})
	}
}
