// Package telemetry takes in what the pipeline observes, in memory or as CloudWatch metrics, and masks what it logs.
package telemetry

import (
	"maps"
	"slices"
	"sync"

	"github.com/awsmp/metering/internal/metering"
)

// Counters adds up observations in memory, by metric and by cause. The zero value is ready; it is safe for concurrent use.
type Counters struct {
	mu    sync.Mutex
	total map[metering.Metric]Count
	cause map[causeKey]Count
}

// Count is how many items a metric was emitted for, and the units they hold.
type Count struct{ Items, Units int64 }

type causeKey struct {
	metric metering.Metric
	cause  string
}

// Emit adds an observation.
func (c *Counters) Emit(m metering.Measure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.total == nil {
		c.total, c.cause = make(map[metering.Metric]Count), make(map[causeKey]Count)
	}
	add := func(n Count) Count { return Count{n.Items + m.Items, n.Units + m.Units} }
	c.total[m.Metric] = add(c.total[m.Metric])
	if m.Cause != "" {
		key := causeKey{m.Metric, m.Cause}
		c.cause[key] = add(c.cause[key])
	}
}

// Metrics are those that were emitted so far, by name.
func (c *Counters) Metrics() []metering.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.total))
}

// Of is the sum of a metric over all causes.
func (c *Counters) Of(m metering.Metric) Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total[m]
}

// By is the sum of a metric for one cause.
func (c *Counters) By(m metering.Metric, cause string) Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause[causeKey{m, cause}]
}
