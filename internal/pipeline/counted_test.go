package pipeline_test

import (
	"context"
	"iter"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// counting is a store that looks, at every write that ends or moves something, whether it has been counted by then.
type counting struct {
	pipeline.Rows
	pipeline.Records
	counted func() int64

	mu                sync.Mutex
	writes, uncounted int
}

func (c *counting) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	if c.counted() == 0 {
		c.uncounted++
	}
}

func (c *counting) RebucketRow(ctx context.Context, b metering.Rebucket) (metering.Outcome[metering.Row], error) {
	c.look()
	return c.Rows.RebucketRow(ctx, b)
}

func (c *counting) LabelRows(ctx context.Context, labels []metering.Label) []metering.Labelled {
	c.look()
	return c.Rows.LabelRows(ctx, labels)
}

func (c *counting) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	c.look()
	return c.Records.FinishRecord(ctx, f)
}

// TestCountedBeforeItIsWritten: each stage counts what it is about to write before the write. A crash between the two then counts twice; the other
// way round a loss would be in no metric, and no alarm would ring.
func TestCountedBeforeItIsWritten(t *testing.T) {
	t.Parallel()
	g := groupOf(licenseOne, apiCalls, hour)
	waiting := metering.NewRecord(g, 4)
	submit := func(b *bench, c *counting, change func(*pipeline.Submitter)) error {
		s := b.submitter(&listing{do: func(desk pipeline.Desk) {
			verdict := metering.Verdict{Record: b.record(waiting), Sent: waiting.Usage(), Status: metering.Success, RecordID: "id"}
			if err := desk.Settle(b.ctx, []metering.Verdict{verdict}); err != nil {
				t.Error(err)
			}
		}})
		s.Records = c
		change(s)
		_, err := s.Run(b.ctx)
		return err
	}
	label := func(status metering.Status) func(*bench, *counting) error {
		return func(b *bench, c *counting) error {
			row := rowAt(g, 0, 3)
			b.put(row)
			cleaner := b.cleaner()
			cleaner.Rows = c
			cleaner.Handle(b.ctx, []pipeline.Message{{ID: "m", Body: metering.Encode(metering.CleanupMessage{
				License: g.License, Status: status, Reason: "for the test", First: true, Rows: []metering.CleanupRow{metering.NewCleanupRow(row)},
			})}})
			return nil
		}
	}
	for name, tt := range map[string]struct {
		metric metering.Metric
		run    func(b *bench, c *counting) error
	}{
		"a misfiled row": {metering.MetricPendingRepaired, func(b *bench, c *counting) error {
			row := rowAt(groupOf(licenseOne, apiCalls, hour+9), 0, 3)
			row.Pending = hour.String()
			b.put(row)
			d := b.discoverer()
			d.Rows = c
			_, err := d.Run(b.ctx, pipeline.MeterSlice(1))
			return err
		}},
		"a late row":     {metering.MetricRowLate, label(metering.LateUsage)},
		"an expired row": {metering.MetricRowExpired, label(metering.AggregationExpired)},
		"a rejected row": {metering.MetricRowRejected, label(metering.RejectedClientSide)},
		"a verdict": {metering.MetricBilled, func(b *bench, c *counting) error {
			b.putRecords(waiting)
			return submit(b, c, func(*pipeline.Submitter) {})
		}},
		"a malformed record": {metering.MetricRowRejected, func(b *bench, c *counting) error {
			b.putRecords(altered(waiting, metering.Item{metering.AttrAccount: "1"}))
			return submit(b, c, func(s *pipeline.Submitter) { s.Marketplace = &listing{} })
		}},
		"a dry run": {metering.MetricDryRun, func(b *bench, c *counting) error {
			b.putRecords(waiting)
			return submit(b, c, func(s *pipeline.Submitter) { s.DryRun = true })
		}},
		"a record that expires": {metering.MetricSubmissionExpired, func(b *bench, c *counting) error {
			b.putRecords(waiting)
			b.now = metering.Rules{}.Deadline(hour).Add(time.Hour)
			e := &pipeline.Expirer{Records: c, Metrics: b.metrics, Now: b.clock}
			_, err := e.Run(b.ctx)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			c := &counting{Rows: b.store, Records: b.store, counted: func() int64 { return b.metrics.Of(tt.metric).Items }}
			if err := tt.run(b, c); err != nil {
				t.Fatal(err)
			}
			if c.writes == 0 || c.uncounted > 0 {
				t.Errorf("%d of %d writes came before %s was counted", c.uncounted, c.writes, tt.metric)
			}
		})
	}
}

// TestARejectedGroupIsCountedOnce: the labels of a large group take several messages. The group is counted as one, its units are summed.
func TestARejectedGroupIsCountedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := groupOf(licenseOne, apiCalls, hour)
	for i := range 2*metering.MaxCleanupRows + 1 {
		b.put(rowAt(g, i, 2))
	}
	bad := rowAt(g, 3599, -1)
	b.put(bad)
	if failed := b.aggregator().Handle(b.ctx, []pipeline.Message{workMessage("m", g)}); len(failed) > 0 {
		t.Fatal(failed)
	}
	var batch []pipeline.Message
	for i, body := range b.taken(b.cleanup) {
		batch = append(batch, pipeline.Message{ID: strconv.Itoa(i), Body: body})
	}
	if failed := b.cleaner().Handle(b.ctx, batch); len(failed) > 0 || len(batch) != 3 {
		t.Fatalf("%d messages, failed: %v", len(batch), failed)
	}
	if got := b.metrics.Of(metering.MetricRowRejected); got.Items != 1 || got.Units != 2*(2*metering.MaxCleanupRows+1) {
		t.Errorf("counted %+v", got)
	}
}

// TestRestOfARecordInDoubtIsCounted: a record that grew after its first call is sent again as it was. What it grew by is refused when the call is
// answered, since its hour is taken, and that is counted beside what is billed.
func TestRestOfARecordInDoubtIsCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := metering.NewRecord(groupOf(licenseOne, apiCalls, hour), 9)
	r.SentQuantity, r.SentSecond = metering.Units(4), hour.Second(0).String()
	b.putRecords(r)
	b.atDesk(b.store, func(desk pipeline.Desk, all []metering.Record) {
		ready, err := desk.Prepare(b.ctx, all)
		if err != nil || len(ready) != 1 || ready[0].Record.Usage().Quantity != 4 {
			t.Fatalf("%+v, %v", ready, err)
		}
		sent := ready[0].Record
		if err := desk.Settle(b.ctx, []metering.Verdict{{Record: sent, Sent: sent.Usage(), Status: metering.Success, RecordID: "id"}}); err != nil {
			t.Fatal(err)
		}
	})
	if got := b.metrics.Of(metering.MetricBilled); got.Items != 1 || got.Units != 4 {
		t.Errorf("billed %+v", got)
	}
	if got := b.metrics.Of(metering.MetricDuplicate); got.Items != 1 || got.Units != 5 {
		t.Errorf("refused %+v", got)
	}
	if got := b.record(r); got.Status != metering.Success || got.BilledQuantity != metering.Units(4) {
		t.Errorf("record %+v", got)
	}
}

// lapsingIndex is an index of which only the first entry is read in time.
type lapsingIndex struct {
	pipeline.Rows
	read func()
}

func (s lapsingIndex) PendingRows(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.PendingRow, error] {
	return func(yield func(metering.PendingRow, error) bool) {
		for entry, err := range s.Rows.PendingRows(ctx, h, license) {
			if !yield(entry, err) {
				return
			}
			s.read()
		}
	}
}

// TestGroupThatLapsesDuringTheScan: a group that could be billed when the run began, and cannot any more when its turn comes, is left to age-out.
func TestGroupThatLapsesDuringTheScan(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	lapsing := metering.HourOf(noon) - 23
	b.put(rowAt(groupOf(licenseOne, "a", lapsing), 0, 1), rowAt(groupOf(licenseTwo, "b", lapsing), 0, 1))
	d := b.discoverer()
	d.Rows = lapsingIndex{b.store, func() { b.now = metering.Rules{}.Deadline(lapsing) }}
	found, err := d.Run(b.ctx, pipeline.MeterSlice(23))
	if sent := b.taken(b.work); err != nil || found.Entries != 2 || found.Enqueued != 1 || len(sent) != 1 {
		t.Errorf("%+v, %d messages, %v", found, len(sent), err)
	}
}
