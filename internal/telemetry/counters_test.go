package telemetry_test

import (
	"sync"
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/telemetry"
)

func TestCountersAddUpByMetricAndByCause(t *testing.T) {
	t.Parallel()
	var c telemetry.Counters
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			c.Emit(metering.Measure{Metric: metering.MetricRowRejected, Items: 1, Units: 5, Cause: "NegativeQuantity"})
			c.Emit(metering.Measure{Metric: metering.MetricRowRejected, Items: 2, Units: 1, Cause: "InvalidTag"})
			c.Emit(metering.Measure{Metric: metering.MetricBilled, Items: 1, Units: 7})
		})
	}
	group.Wait()
	for name, test := range map[string]struct{ got, want telemetry.Count }{
		"all causes":   {c.Of(metering.MetricRowRejected), telemetry.Count{Items: 300, Units: 600}},
		"one cause":    {c.By(metering.MetricRowRejected, "InvalidTag"), telemetry.Count{Items: 200, Units: 100}},
		"no cause":     {c.Of(metering.MetricBilled), telemetry.Count{Items: 100, Units: 700}},
		"never seen":   {c.Of(metering.MetricRowLate), telemetry.Count{}},
		"cause unseen": {c.By(metering.MetricBilled, "InvalidTag"), telemetry.Count{}},
	} {
		if test.got != test.want {
			t.Errorf("%s: %+v, want %+v", name, test.got, test.want)
		}
	}
}
