package dev

import (
	"fmt"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/telemetry"
)

// observe puts a run of a stage into words, and passes it on.
func (m *Machine) observe(e node.Event) {
	did := told(e)
	m.mu.Lock()
	if _, ok := e.Report.(pipeline.Submission); ok {
		did += m.verdicts()
	}
	m.did[e.Stage] = did
	m.mu.Unlock()
	if m.options.Observe != nil {
		m.options.Observe(e, did)
	}
}

// verdictSums are what the Marketplace has said of records since the start.
type verdictSums struct{ billed, refused, rejected telemetry.Count }

// verdicts are the Marketplace's words since they were last asked for, in those of awsmp demo. The caller holds mu.
func (m *Machine) verdicts() (text string) {
	sum := func(metrics ...metering.Metric) (c telemetry.Count) {
		for _, name := range metrics {
			n := m.metrics.Of(name)
			c.Items, c.Units = c.Items+n.Items, c.Units+n.Units
		}
		return c
	}
	before := m.said
	m.said = verdictSums{sum(metering.MetricBilled), sum(metering.MetricNotSubscribed, metering.MetricDuplicate), sum(metering.MetricException)}
	if units := m.said.billed.Units - before.billed.Units; units > 0 {
		text += fmt.Sprintf(", %s billed", ledger.Counted(units, "unit"))
	}
	for _, v := range []struct {
		now, before telemetry.Count
		done        string
	}{{m.said.refused, before.refused, "refused"}, {m.said.rejected, before.rejected, "rejected"}} {
		if items := v.now.Items - v.before.Items; items > 0 {
			text += fmt.Sprintf(", %s %s (%s)", ledger.Thousands(items), v.done, ledger.Counted(v.now.Units-v.before.Units, "unit"))
		}
	}
	return text
}

// told is what a run of a stage did, in words; empty where it found nothing to do.
func told(e node.Event) string {
	switch r := e.Report.(type) {
	case pipeline.Discovery:
		return counts([]count{
			{r.Enqueued, "group", "found"}, {r.Repaired, "misfiled row", "put right"}, {r.Labels, "label message", "asked for"},
		})
	case pipeline.Submission:
		if r.Paused {
			return "paused"
		}
		return counts([]count{
			{r.Calls, "call", ""}, {r.Settled, "record", "answered"}, {r.Rejected, "record", "rejected before any call"},
			{r.Throttled, "call", "throttled"}, {r.Unprocessed, "record", "left unprocessed"}, {r.InDoubt, "record", "in doubt"},
			{r.Left, "record", "left for the next run"}, {r.Unmatched, "result", "unmatched"},
		})
	case pipeline.Expiry:
		return counts([]count{{r.Expired - r.InDoubt, "record", "expired"}, {r.InDoubt, "record", "expired in doubt"}, {r.Rejected, "record", "rejected"}})
	case lifecycle.Finalized:
		return counts([]count{{r.Ended, "license", "closed for good"}})
	case int:
		if e.Stage == node.AggregateStage {
			return counts([]count{{r, "group", "visited"}})
		}
		return counts([]count{{r, "label message", "written"}})
	}
	return ""
}

type count struct {
	n          int
	noun, done string
}

func counts(list []count) (text string) {
	for _, c := range list {
		if c.n == 0 {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += ledger.Counted(int64(c.n), c.noun)
		if c.done != "" {
			text += " " + c.done
		}
	}
	return text
}
