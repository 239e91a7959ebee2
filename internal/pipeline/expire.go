package pipeline

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/awsmp/metering/internal/concurrency"
	"github.com/awsmp/metering/internal/faults"
	"github.com/awsmp/metering/internal/metering"
)

// Expirer ends waiting records whose hour can no longer be billed, so that none waits for ever and every loss at this stage
// has a name. It reads and writes the aggregated-usage table only.
type Expirer struct {
	Records Records
	Metrics Metrics
	Rules   metering.Rules
	// Concurrency runs the writes of a batch; nil means goroutines.
	Concurrency concurrency.Runner
	Now         func() time.Time
	Log         *slog.Logger
}

// Expiry is what a run ended.
type Expiry struct {
	Expired  int `json:"expired"`  // SubmissionExpired, those in doubt included
	InDoubt  int `json:"inDoubt"`  // of these: sent, and never answered
	Rejected int `json:"rejected"` // records whose key names no hour, or another one than their marker
}

// finishBatch is how many records are ended at once.
const finishBatch = 25

// Run looks at the hours past billing: the last three days at every run, older ones once a day.
func (e *Expirer) Run(ctx context.Context) (Expiry, error) {
	var (
		done Expiry
		errs faults.List
	)
	now := e.Now()
	for h := range e.Rules.SweepHours(now) {
		var batch []metering.Record
		flush := func() {
			if len(batch) == 0 {
				return
			}
			if err := e.end(ctx, batch, now, &done); err != nil {
				errs.Add(err) // the next records may well succeed
			}
			batch = batch[:0]
		}
		for r, err := range e.Records.PendingRecords(ctx, h, "") {
			if err != nil {
				errs.Add(fmt.Errorf("read pending records of %v: %w", h, err))
				break
			}
			if batch = append(batch, r); len(batch) == finishBatch {
				flush()
			}
		}
		flush()
		if err := ctx.Err(); err != nil {
			return done, err
		}
	}
	return done, errs.Err()
}

// end ends a batch of records: what is lost is counted first, in one measure a cause, and then written in parallel (F44).
func (e *Expirer) end(ctx context.Context, batch []metering.Record, now time.Time, done *Expiry) error {
	finishes := make([]metering.Finish, len(batch))
	var sum measures
	for i, r := range batch {
		var m metering.Measure
		finishes[i], m = e.verdict(r, now)
		sum.add(m)
	}
	sum.emit(e.Metrics)
	var mu sync.Mutex
	return each(e.Concurrency, finishes, func(_ int, f metering.Finish) error {
		out, err := e.Records.FinishRecord(ctx, f)
		if err != nil {
			return fmt.Errorf("finish record: %w", err)
		}
		if out.Done { // otherwise it ended or changed since the index was read
			mu.Lock()
			defer mu.Unlock()
			done.count(f)
		}
		return nil
	})
}

func (x *Expiry) count(f metering.Finish) {
	switch f.Status {
	case metering.RejectedClientSide:
		x.Rejected++
	case metering.SubmissionExpired:
		x.Expired++
		if f.Reason == metering.VerdictUnknown {
			x.InDoubt++
		}
	}
}

// verdict is how a waiting record of a lapsed bucket ends. One that was billed and then changed keeps its Success.
func (e *Expirer) verdict(r metering.Record, now time.Time) (metering.Finish, metering.Measure) {
	units, _ := r.Quantity.Count()
	if f, refused, billed := metering.FinishBilled(r, now); billed {
		return f, refusedMeasure(refused)
	}
	g, reason := r.Group()
	if reason == "" && !e.Rules.Expirable(g.Hour, now) {
		reason = metering.SortKeyMismatch // its marker names a lapsed hour, its key does not
	}
	if reason != "" && !r.SentQuantity.Whole {
		return metering.FinishRejected(r, string(reason), now),
			metering.Measure{Metric: metering.MetricRowRejected, Items: 1, Units: units, Cause: string(reason)}
	}
	f := metering.FinishExpired(r, now)
	return f, metering.Measure{Metric: metering.MetricSubmissionExpired, Items: 1, Units: units, Cause: f.Reason}
}
