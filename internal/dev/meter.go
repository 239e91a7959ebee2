package dev

import (
	"maps"
	"slices"
	"sync"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/telemetry"
)

// meter counts what the stages observe, and knows which metrics there were.
type meter struct {
	telemetry.Counters
	mu    sync.Mutex
	names map[metering.Metric]bool
}

func (m *meter) Emit(v metering.Measure) {
	m.mu.Lock()
	if m.names == nil {
		m.names = make(map[metering.Metric]bool)
	}
	m.names[v.Metric] = true
	m.mu.Unlock()
	m.Counters.Emit(v)
}

func (m *meter) seen() []metering.Metric {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.names))
}
