package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/awsmp/metering/internal/metering"
)

// labelAttempts is how often one write is tried before its message fails and comes again.
const (
	labelAttempts  = 6
	labelBackoff   = 50 * time.Millisecond
	labelBackoffTo = 2 * time.Second
)

// Cleaner writes every label that rows get, so that one pacer guards the partitions: all rows of a license share one, and all
// rows of an hour share one in the index.
type Cleaner struct {
	Rows    Rows
	Metrics Metrics
	// Limiter is the pace of writes; nil means no limit. Its rate times the number of cleaners that run at once stays
	// under the 1,000 writes a second of a partition.
	Limiter *rate.Limiter
	// Workers is how many writes are in flight at once; 0 means 8.
	Workers int
	// Jitter draws a pause of up to d; nil draws at random.
	Jitter func(d time.Duration) time.Duration
	Now    func() time.Time
	Sleep  func(context.Context, time.Duration) error
	Log    *slog.Logger
}

// Handle writes the labels of each message and names the messages that failed; the others are done.
func (c *Cleaner) Handle(ctx context.Context, batch []Message) (failed []string) {
	for _, m := range batch {
		if err := c.handle(ctx, m.Body); err != nil {
			logger(c.Log).Error("cleanup failed; its message will be delivered again", "message", m.ID, "error", err)
			failed = append(failed, m.ID)
		}
	}
	return failed
}

func (c *Cleaner) handle(ctx context.Context, body string) error {
	m, err := metering.Decode[metering.CleanupMessage](body)
	if err != nil {
		return err
	}
	if m.License == "" || m.Status == "" || len(m.Rows) == 0 {
		return errors.New("read cleanup message: it names no license, status or rows")
	}
	if !m.Covered {
		c.measure(m)
	}
	var group errgroup.Group
	group.SetLimit(max(1, c.workers()))
	for _, row := range m.Rows {
		group.Go(func() error { return c.persist(ctx, m, row) })
	}
	return group.Wait()
}

func (c *Cleaner) workers() int {
	if c.Workers == 0 {
		return 8
	}
	return c.Workers
}

// measure counts what the message is about to label: rows and units, a rejected group as one.
func (c *Cleaner) measure(m metering.CleanupMessage) {
	measure := metering.Measure{Items: int64(len(m.Rows))}
	for _, r := range m.Rows {
		measure.Units += r.Units()
	}
	switch m.Status {
	case metering.LateUsage:
		measure.Metric = metering.MetricRowLate
		for _, r := range m.Rows { // what a row was late with before it grew is counted already
			measure.Units -= min(r.Late, r.Units())
		}
	case metering.AggregationExpired:
		measure.Metric = metering.MetricRowExpired
	case metering.RejectedClientSide:
		measure.Metric, measure.Cause, measure.Items = metering.MetricRowRejected, m.Reason, 0
		if m.First {
			measure.Items = 1
		}
	default:
		return
	}
	c.Metrics.Emit(measure)
}

// persist labels one row, again after a pause where the store does not answer; the pauses are drawn at random so that
// writers who were throttled together do not come back together.
func (c *Cleaner) persist(ctx context.Context, m metering.CleanupMessage, row metering.CleanupRow) error {
	for attempt := 0; ; attempt++ {
		err := c.label(ctx, m, row)
		if err == nil {
			return nil
		}
		if attempt+1 == labelAttempts || ctx.Err() != nil {
			return fmt.Errorf("label row: %w", err)
		}
		if err := c.Sleep(ctx, c.jitter(min(labelBackoff<<attempt, labelBackoffTo))); err != nil {
			return err
		}
	}
}

func (c *Cleaner) jitter(d time.Duration) time.Duration {
	if c.Jitter != nil {
		return c.Jitter(d)
	}
	return time.Duration(rand.Int64N(int64(d)))
}

func (c *Cleaner) label(ctx context.Context, m metering.CleanupMessage, row metering.CleanupRow) error {
	l := metering.Label{License: m.License, SortKey: row.Key, Status: m.Status, Reason: m.Reason, At: c.Now()}
	if !m.Covered {
		l.Marker, l.Fingerprint = true, row.Fingerprint
		if m.Status == metering.LateUsage {
			l.LateQuantity = metering.Units(row.Units())
		}
		_, err := c.write(ctx, l) // refused: it already shows the label, or it changed and waits for the next visit
		return err
	}
	if row.Quantity == nil {
		return fmt.Errorf("read cleanup message: row %s is covered without a quantity", row.Key)
	}
	l.Quantity = metering.Units(*row.Quantity)
	out, err := c.write(ctx, l)
	if err != nil || out.Done {
		return err
	}
	if out.Old == nil { // gone: nothing to label, and no ghost (F27)
		c.Metrics.Emit(metering.Measure{Metric: metering.MetricCoveredRowChanged, Items: 1, Units: *row.Quantity})
		return nil
	}
	changed, ok := metering.Covered(*out.Old, *row.Quantity, m.Reason)
	if !ok {
		return nil
	}
	c.measureChange(changed, *out.Old, *row.Quantity)
	changed.At = c.Now()
	_, err = c.write(ctx, changed)
	return err
}

// measureChange counts a covered row that is no longer what was committed.
func (c *Cleaner) measureChange(l metering.Label, row metering.Row, committed int64) {
	if l.Status == metering.LateUsage {
		c.Metrics.Emit(metering.Measure{Metric: metering.MetricRowLate, Items: 1, Units: max(0, l.LateQuantity.N-row.LateQuantity.N)})
		return
	}
	if held, _ := row.Quantity.Count(); held < committed {
		c.Metrics.Emit(metering.Measure{Metric: metering.MetricCoveredRowChanged, Items: 1, Units: committed - held})
	}
}

func (c *Cleaner) write(ctx context.Context, l metering.Label) (metering.Outcome[metering.Row], error) {
	if c.Limiter != nil {
		now := c.Now()
		if err := c.Sleep(ctx, c.Limiter.ReserveN(now, 1).DelayFrom(now)); err != nil {
			return metering.Outcome[metering.Row]{}, err
		}
	}
	return c.Rows.LabelRow(ctx, l)
}
