package pipeline

import "github.com/awsmp/metering/internal/metering"

// measures adds up what several writes speak of, so that it is counted in one measure a metric and cause before the first of
// them: a measure for each would cost more to log than the writes cost (F44).
type measures []metering.Measure

func (s *measures) add(m metering.Measure) {
	if m.Items == 0 {
		return
	}
	for i := range *s {
		if sum := &(*s)[i]; sum.Metric == m.Metric && sum.Cause == m.Cause {
			sum.Items += m.Items
			sum.Units += m.Units
			return
		}
	}
	*s = append(*s, m)
}

func (s measures) emit(to Metrics) {
	for _, m := range s {
		to.Emit(m)
	}
}

// refusedMeasure is what a record holds beyond what was billed: its hour can take no more (F20).
func refusedMeasure(units int64) metering.Measure {
	return metering.Measure{Metric: metering.MetricDuplicate, Items: min(1, max(0, units)), Units: units}
}
