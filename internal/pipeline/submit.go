package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/awsmp/metering/internal/concurrency"
	"github.com/awsmp/metering/internal/faults"
	"github.com/awsmp/metering/internal/metering"
)

// DefaultMaxRecords is how many records of the ordinary backlog one run takes on.
const DefaultMaxRecords = 50_000

// Submitter sends waiting records to the Marketplace and writes its verdicts back. One run at a time keeps the pace;
// correctness never depends on it.
type Submitter struct {
	Records     Records
	Subscribers Subscribers
	Marketplace Marketplace
	Metrics     Metrics
	Rules       metering.Rules
	// MaxRecords bounds the ordinary backlog of one run; 0 means DefaultMaxRecords. Licenses in their last hour and the
	// grace tail are not counted in it.
	MaxRecords int
	// Retention is how long a billed record is kept; 0 means for ever.
	Retention time.Duration
	// DryRun does everything but the call.
	DryRun bool
	// Paused sends nothing, and every run says so: whoever forgets it loses what waits.
	Paused bool
	// Concurrency runs the look-ups of last hours and the writes of a call's records; nil means goroutines.
	Concurrency concurrency.Runner
	Now         func() time.Time
	Log         *slog.Logger
}

// Submission is what a run did.
type Submission struct {
	metering.SendReport
	Paused   bool `json:"paused,omitempty"`
	Rejected int  `json:"rejected"` // records refused before any call
	DryRun   int  `json:"dryRun,omitempty"`
}

// Run sends what waits: licenses in their last hour first, the one that ends first first, then the backlog, oldest first, and last
// what only the month end still keeps billable. Records that the service left unprocessed are reported and are no error (F39).
func (s *Submitter) Run(ctx context.Context) (Submission, error) {
	if s.Paused {
		s.Metrics.Emit(metering.Measure{Metric: metering.MetricSubmissionPaused, Items: 1})
		logger(s.Log).Info("submission is paused: nothing is sent, records wait and will expire")
		return Submission{Paused: true}, nil
	}
	now := s.Now()
	closing, err := lastHours(ctx, s.Subscribers, now)
	if err != nil { // a preference that cannot be looked up never blocks the rest
		s.Metrics.Emit(metering.Measure{Metric: metering.MetricDeprovisioningLookup, Items: 1})
		logger(s.Log).Warn("licenses in their last hour could not all be looked up; the others go with the backlog", "error", err)
	}
	d := &desk{newIntake(s, closing)}
	lanes := d.lanes(ctx, now)
	if s.DryRun {
		n, err := d.dryRun(ctx, lanes)
		return Submission{DryRun: n, Rejected: d.rejected}, errors.Join(err, d.err())
	}
	report, err := s.Marketplace.Send(ctx, lanes, d)
	if report.Unprocessed > 0 {
		s.Metrics.Emit(metering.Measure{Metric: metering.MetricUnprocessed, Items: int64(report.Unprocessed), Units: report.UnprocessedUnits})
	}
	if report.Unmatched > 0 {
		s.Metrics.Emit(metering.Measure{Metric: metering.MetricResultUnmatched, Items: int64(report.Unmatched)})
	}
	if report.InDoubt > 0 {
		s.Metrics.Emit(metering.Measure{Metric: metering.MetricInDoubt, Items: int64(report.InDoubt), Units: report.InDoubtUnits})
	}
	return Submission{SendReport: report, Rejected: d.rejected}, errors.Join(err, d.err())
}

// dryRun ends every record as it would have been sent, some at once. What time does not suffice for waits for the next run.
func (d *desk) dryRun(ctx context.Context, lanes []iter.Seq2[metering.Record, error]) (int, error) {
	var (
		n     int
		errs  faults.List
		batch []metering.Record
	)
	flush := func() {
		done, err := d.finishDry(ctx, batch)
		n, batch = n+done, batch[:0]
		if ctx.Err() == nil { // else it is time that they lacked
			errs.Add(err)
		}
	}
	for _, lane := range lanes {
		for r, err := range lane {
			if ctx.Err() != nil {
				break
			}
			if err != nil {
				errs.Add(err)
				continue
			}
			if r.SentQuantity.Whole {
				continue // a live run has sent it and may yet learn what became of it
			}
			if batch = append(batch, r); len(batch) == finishBatch {
				flush()
			}
		}
	}
	flush()
	if ctx.Err() != nil {
		logger(d.Log).Warn("dry run: out of time; the next run goes on", "done", n)
	}
	return n, errs.Err()
}

// finishDry ends a batch of records, and returns how many it has ended and the first error of the others.
func (d *desk) finishDry(ctx context.Context, batch []metering.Record) (int, error) {
	var (
		sum  measures
		done atomic.Int64
	)
	for _, r := range batch {
		logger(d.Log).Info("dry run: would submit", "license", metering.Masked(r.License), "account", metering.Masked(r.Account),
			"dimension", r.Dimension, "hour", r.HourBucket, "quantity", r.Quantity.N)
		sum.add(metering.Measure{Metric: metering.MetricDryRun, Items: 1, Units: r.Quantity.N})
	}
	sum.emit(d.Metrics)
	err := each(d.Concurrency, batch, func(_ int, r metering.Record) error {
		if _, err := d.Records.FinishRecord(ctx, metering.FinishDryRun(r, d.Now())); err != nil {
			return fmt.Errorf("finish record: %w", err)
		}
		done.Add(1)
		return nil
	})
	return int(done.Load()), err
}
