package dev

import (
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/telemetry"
)

// Sums by the hour are kept for a little more than a month: a node may run for years.
func TestOldHoursAreForgotten(t *testing.T) {
	t.Parallel()
	var all telemetry.Counters
	now := time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)
	c := &hourly{next: &all, now: func() time.Time { return now }}
	for range 2 * hoursKept {
		c.Emit(metering.Measure{Metric: metering.MetricBilled, Items: 1, Units: 2})
		c.Emit(metering.Measure{Metric: metering.MetricRowLate, Items: 1, Units: 3})
		now = now.Add(time.Hour)
	}
	list := c.list()
	if len(list) != 2*(hoursKept+1) || list[0] != (CountedHour{metering.HourOf(now.Add(-(hoursKept + 1) * time.Hour)).String(), "UsageBilled", 1, 2}) {
		t.Errorf("%d sums are kept, the first %+v", len(list), list[0])
	}
	if sum := all.Of(metering.MetricRowLate); sum.Items != 2*hoursKept {
		t.Errorf("%d items were passed on", sum.Items)
	}
}
