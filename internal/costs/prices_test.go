package costs

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/functions"
)

// A hundred rows of one group, and what the prices make of them.
func TestPerMillionRows(t *testing.T) {
	t.Parallel()
	s := Section{
		{Class{seller, "BatchWriteItem", "table usage"}, Tally{Requests: 4, Units: 100, IndexUnits: 100}},
		{Class{seller, "GetItem", "table aggregated-usage"}, Tally{Requests: 1, Units: 1000}}, // the writer's: not the pipeline's
		{Class{functions.Cleanup, "UpdateItem", "table usage"}, Tally{Requests: 100, Units: 100, IndexUnits: 100}},
		{Class{functions.Aggregator, "PutItem", "table aggregated-usage"}, Tally{Requests: 1, Units: 1, IndexUnits: 1}},
		{Class{functions.Aggregator, "Query", "table usage"}, Tally{Requests: 1, Items: 100, Units: 8}},
		{Class{functions.Aggregator, "SendMessageBatch", "queue cleanup"}, Tally{Requests: 1, Units: 2}},
		{Class{functions.Aggregator, "Invoke", "function"}, Tally{Requests: 1}},
		{Class{functions.Aggregator, "PutLogEvents", "log"}, Tally{Bytes: 600}},
		{Class{functions.Submitter, metricsMade, "UsageBilled by ProductCode"}, Tally{Requests: 7}},
		{Class{functions.Submitter, "BatchMeterUsage", "service"}, Tally{Requests: 1, Entries: 25}}, // free
		{Class{seller, kept, "table usage"}, Tally{Items: 100, Bytes: 50_000}},
	}
	// cleanup: a million at 150 a second in a quarter of a GB. aggregator: its processor time by its share of a processor, and 30,000
	// requests of 5 ms, in half a GB; the discoverer's processor time likewise. submitter: 10,000 calls of 5 ms.
	share := 512.0 / 1769
	gbSeconds := million/150*0.25 + (processor(functions.Aggregator)/share+150)*0.5 + processor(functions.Discoverer)/share*0.5 + 50*0.5
	want := []float64{2 * .625, 2 * .625, .02 * .625, .08 * .125, .02 * .4, .01 * .2, gbSeconds * 0.0000133334, (6 + 4) * .5 / 1000}
	var got []float64
	for _, l := range PerMillionRows(s, 100) {
		got = append(got, l.Dollars)
	}
	near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-9 })
	if diff := cmp.Diff(want, got, near); diff != "" {
		t.Error(diff)
	}
	if got := Kept(s, 100).Total(); math.Abs(got-(.5*.25+.5*.2+.3)) > 1e-9 {
		t.Errorf("kept: $%v a month, want the half GB twice and one metric", got)
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	b := Bill{line("writes", 4_000_000, "units", .625), line("little", 12.345, "units", 13.3334), line("metrics", 2, "metrics", .3*million)}
	want := []string{
		"| writes | 4,000,000 units | $0.625 a million | $2.50 |",
		"| little | 12.3 units | $13.3 a million | $0.0002 |",
		"| metrics | 2 metrics | $0.3 each | $0.60 |",
		"| **all** | | | **$3.10** |",
	}
	if diff := cmp.Diff(want, b.Table()); diff != "" {
		t.Error(diff)
	}
}
