package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/awsmp/metering/internal/concurrency"
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
	// Batch is how many labels one write carries, for stores that take several as cheaply as one; 0 means 1.
	Batch int
	// Jitter draws a pause of up to d; nil draws at random.
	Jitter func(d time.Duration) time.Duration
	// Concurrency runs the writes; nil means goroutines.
	Concurrency concurrency.Runner
	Now         func() time.Time
	Sleep       func(context.Context, time.Duration) error
	Log         *slog.Logger
}

// job is one message under way.
type job struct {
	metering.CleanupMessage
	id string
	// measured is written by whoever holds measuring: the others write no label before the message is counted.
	measuring concurrency.Semaphore
	measured  bool
}

// task is a part of a job that is written at once.
type task struct {
	job  *job
	rows []metering.CleanupRow
}

// Handle writes the labels of the messages and names the messages that failed; the others are done.
func (c *Cleaner) Handle(ctx context.Context, batch []Message) (failed []string) {
	errs := make(map[string]error)
	var tasks []task
	run := concurrency.Or(c.Concurrency)
	for _, m := range batch {
		j := &job{id: m.ID, measuring: run.Semaphore(1)}
		var err error
		if j.CleanupMessage, err = readLabels(m.Body); err != nil {
			errs[m.ID] = err
			continue
		}
		for rows := range slices.Chunk(j.Rows, max(1, c.Batch)) {
			tasks = append(tasks, task{j, rows})
		}
	}
	for i, err := range c.work(ctx, run.Group(0), tasks) {
		if err != nil {
			errs[tasks[i].job.id] = errors.Join(errs[tasks[i].job.id], err)
		}
	}
	for _, m := range batch {
		if err := errs[m.ID]; err != nil {
			logger(c.Log).Error("cleanup failed; its message will be delivered again", "message", m.ID, "error", err)
			failed = append(failed, m.ID)
		}
	}
	return failed
}

func readLabels(body string) (metering.CleanupMessage, error) {
	m, err := metering.Decode[metering.CleanupMessage](body)
	if err != nil {
		return m, err
	}
	if m.License == "" || m.Status == "" || len(m.Rows) == 0 {
		return m, errors.New("read cleanup message: it names no license, status or rows")
	}
	for _, row := range m.Rows {
		if m.Covered && row.Quantity == nil {
			return m, fmt.Errorf("read cleanup message: row %s is covered without a quantity", row.Key)
		}
	}
	return m, nil
}

// work does the tasks, some at once, and returns the error of each.
func (c *Cleaner) work(ctx context.Context, group concurrency.Group, tasks []task) []error {
	var next atomic.Int64
	errs, whole := make([]error, len(tasks)), context.WithoutCancel(ctx)
	for range min(c.workers(), len(tasks)) { // not a function for each task: there are as many as rows
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(tasks)); i = next.Add(1) - 1 {
				t := tasks[i]
				t.job.measure(whole, c)
				errs[i] = c.persist(ctx, t.job.CleanupMessage, t.rows)
			}
		})
	}
	group.Wait()
	return errs
}

// measure counts what the job is about to label, once for all its tasks. It does not give up, so ctx must not end.
func (j *job) measure(ctx context.Context, c *Cleaner) {
	if j.Covered {
		return
	}
	j.measuring.Acquire(ctx)
	defer j.measuring.Release()
	if !j.measured {
		j.measured = true
		c.measure(j.CleanupMessage)
	}
}

func (c *Cleaner) workers() int {
	if c.Workers <= 0 {
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

// persist labels rows, those again after a pause for which the store does not answer; the pauses are drawn at random so that
// writers who were throttled together do not come back together. What would fail again as it is, as a missing permission, is left to
// the message's next delivery at once.
func (c *Cleaner) persist(ctx context.Context, m metering.CleanupMessage, rows []metering.CleanupRow) error {
	for attempt := 0; ; attempt++ {
		var err error
		if rows, err = c.label(ctx, m, rows); err == nil {
			return nil
		}
		if attempt+1 == labelAttempts || lasting(err) || ctx.Err() != nil {
			return fmt.Errorf("label rows: %w", err)
		}
		if err := c.Sleep(ctx, c.jitter(min(labelBackoff<<attempt, labelBackoffTo))); err != nil {
			return err
		}
	}
}

// lasting reports whether an error says of itself that the same call is no use again.
func lasting(err error) bool {
	var known interface{ Retry() bool }
	return errors.As(err, &known) && !known.Retry()
}

func (c *Cleaner) jitter(d time.Duration) time.Duration {
	if c.Jitter != nil {
		return c.Jitter(d)
	}
	return time.Duration(rand.Int64N(int64(d)))
}

// label writes the label of each row. Those whose write failed are returned, with one of the errors.
func (c *Cleaner) label(ctx context.Context, m metering.CleanupMessage, rows []metering.CleanupRow) (left []metering.CleanupRow, err error) {
	labels := make([]metering.Label, len(rows))
	for i, row := range rows {
		labels[i] = c.labelOf(m, row)
	}
	results, err := c.write(ctx, labels)
	if err != nil {
		return rows, err
	}
	var changed []metering.Label
	var of []metering.CleanupRow
	for i, r := range results {
		switch row := rows[i]; {
		case r.Err != nil:
			left, err = append(left, row), r.Err
		case r.Done || !m.Covered: // refused: it already shows the label, or it changed and waits for the next visit
		case r.Old == nil: // gone: nothing to label, and no ghost (F27)
			c.Metrics.Emit(metering.Measure{Metric: metering.MetricCoveredRowChanged, Items: 1, Units: *row.Quantity})
		default:
			if l, ok := metering.Covered(*r.Old, *row.Quantity, m.Reason); ok {
				c.measureChange(l, *r.Old, *row.Quantity)
				l.At = c.Now()
				changed, of = append(changed, l), append(of, row)
			}
		}
	}
	if len(changed) == 0 {
		return left, err
	}
	results, failed := c.write(ctx, changed)
	if failed != nil {
		return append(left, of...), failed
	}
	for i, r := range results {
		if r.Err != nil {
			left, err = append(left, of[i]), r.Err
		}
	}
	return left, err
}

func (c *Cleaner) labelOf(m metering.CleanupMessage, row metering.CleanupRow) metering.Label {
	l := metering.Label{License: m.License, SortKey: row.Key, Status: m.Status, Reason: m.Reason, At: c.Now()}
	if m.Covered {
		l.Quantity = metering.Units(*row.Quantity)
		return l
	}
	l.Marker, l.Fingerprint = true, row.Fingerprint
	if m.Status == metering.LateUsage {
		l.LateQuantity = metering.Units(row.Units())
	}
	return l
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

func (c *Cleaner) write(ctx context.Context, labels []metering.Label) ([]metering.Labelled, error) {
	if c.Limiter != nil {
		now := c.Now()
		var wait time.Duration
		for range labels {
			wait = max(wait, c.Limiter.ReserveN(now, 1).DelayFrom(now))
		}
		if err := c.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
	return c.Rows.LabelRows(ctx, labels), nil
}
