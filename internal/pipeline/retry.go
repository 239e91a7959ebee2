package pipeline

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/awsmp/metering/internal/concurrency"
	"github.com/awsmp/metering/internal/faults"
	"github.com/awsmp/metering/internal/metering"
)

// RefusedRecords is what a retry asks of the aggregated-usage table.
type RefusedRecords interface {
	// Record reads a group's record consistently; nil where there is none.
	Record(ctx context.Context, g metering.Group) (*metering.Record, error)
	// LicenseRecords reads all records of a license, consistently and with every attribute.
	LicenseRecords(ctx context.Context, license string) iter.Seq2[metering.Record, error]
	// ReopenRecord lets a refused record wait again where the condition holds; else the outcome carries the record that stood
	// against it.
	ReopenRecord(ctx context.Context, x metering.Reopen) (metering.Outcome[metering.Record], error)
}

// Retrier lets refused records wait again, when somebody has put right what they were refused for and asks for it by name: a buyer is
// active (F21), a dimension is defined (F34); or those of a dry run, when the stage has gone live (F38). What it reopens the next submission
// sends. It may be run again at any time: what waits already is left alone.
type Retrier struct {
	Records RefusedRecords
	// ProductCode is what stands in the place of the license in records that meter by customer identifier. It is needed, so that no sale is
	// sent that is billed there (F32); one that only looks (Retry.DryRun) may do without, and shows such sales as well.
	ProductCode string
	Rules       metering.Rules
	// Rule says which records may be sent, and what lets them wait: metering.ReopenOf where it is nil, for refused ones, or metering.PromoteOf
	// for those that a dry run ended.
	Rule func(r metering.Record, rules metering.Rules, now time.Time) (metering.Reopen, metering.Obstacle)
	// Concurrency runs the writes of a batch; nil means goroutines.
	Concurrency concurrency.Runner
	Now         func() time.Time
	Log         *slog.Logger
}

// Retry says which records of a license are to be sent once more. What is empty leaves the choice open. Where nothing is, one record is read,
// and otherwise all that the license has.
type Retry struct {
	License   string // needed
	Account   string
	Dimension string
	Hour      *metering.Hour
	DryRun    bool // looks, and changes nothing
}

func (w Retry) which() Which {
	return Which{License: w.License, Account: w.Account, Dimension: w.Dimension, Hour: w.Hour}
}

// Retried is what a retry did, or with DryRun would have done.
type Retried struct {
	DryRun   bool      `json:"dryRun"`
	Reopened []Refusal `json:"reopened"` // in the order of their keys
	Units    int64     `json:"units"`    // of these
	Skipped  []Skipped `json:"skipped"`
	// Older are records of hours that can no longer be billed, which were passed over however they ended. One of an hour that was asked for
	// is among the skipped.
	Older int `json:"older"`
}

// Refusal is a record that was refused, or that a dry run ended.
type Refusal struct {
	Account   string          `json:"customerAWSAccountId"`
	Dimension string          `json:"dimension"`
	Hour      string          `json:"hour"`
	Units     int64           `json:"units"`
	Status    metering.Status `json:"status"`
	Reason    string          `json:"reason,omitempty"`
	LostAt    time.Time       `json:"lostAt"` // from when on it can no longer be billed
}

// Skipped are records that are not sent once more, for one cause.
type Skipped struct {
	Cause   metering.Obstacle `json:"cause"`
	Why     string            `json:"why"` // in words
	Records int               `json:"records"`
	Units   int64             `json:"units"`
}

// Run reopens what may be sent once more, and says of the rest why not. Records that cannot be written fail the run when the others have
// had their turn.
func (r *Retrier) Run(ctx context.Context, what Retry) (Retried, error) {
	done := Retried{DryRun: what.DryRun, Reopened: []Refusal{}, Skipped: []Skipped{}}
	if what.License == "" {
		return done, errors.New("reopen records: of which license?")
	}
	if r.ProductCode == "" && !what.DryRun {
		return done, errors.New("reopen records: of which product?")
	}
	rule := r.Rule
	if rule == nil {
		rule = metering.ReopenOf
	}
	var (
		errs  faults.List
		batch []candidate
		which = what.which()
		skips = make(Skips)
	)
	flush := func() {
		errs.Add(r.reopen(ctx, batch, what.DryRun))
		for _, c := range batch {
			done.count(c, skips)
		}
		batch = batch[:0]
	}
	for record, err := range r.read(ctx, which) {
		if err != nil {
			errs.Add(fmt.Errorf("read the license's records: %w", err))
			break
		}
		if !which.Record(record) {
			continue
		}
		if g, reason := record.Group(); what.Hour == nil && reason == "" && !r.Rules.Billable(g.Hour, r.Now()) {
			done.Older++
			continue
		}
		c := candidate{record: record}
		c.write, c.obstacle = rule(record, r.Rules, r.Now())
		if c.obstacle == "" {
			c.until = r.Rules.Deadline(c.write.Hour)
		}
		if batch = append(batch, c); len(batch) == finishBatch {
			flush()
		}
	}
	flush()
	done.Skipped = append(done.Skipped, skips.List()...)
	logger(r.Log).Info("records were asked to wait again", "license", metering.Masked(what.License), "dryRun", what.DryRun,
		"reopened", len(done.Reopened), "units", done.Units, "older", done.Older)
	return done, errs.Err()
}

// read are the records to look at.
func (r *Retrier) read(ctx context.Context, which Which) iter.Seq2[metering.Record, error] {
	g, one := which.One()
	if !one {
		return r.Records.LicenseRecords(ctx, which.License)
	}
	return func(yield func(metering.Record, error) bool) {
		record, err := r.Records.Record(ctx, g)
		switch {
		case err != nil:
			yield(metering.Record{}, err)
		case record != nil:
			yield(*record, nil)
		}
	}
}

// candidate is a record that was asked for, and what becomes of it.
type candidate struct {
	record   metering.Record
	write    metering.Reopen
	until    time.Time
	obstacle metering.Obstacle
	failed   bool
}

// reopen writes those of a batch that nothing stands against, at once. It returns the first error.
func (r *Retrier) reopen(ctx context.Context, batch []candidate, dry bool) error {
	return each(r.Concurrency, batch, func(i int, c candidate) error {
		if c.obstacle != "" {
			return nil
		}
		taken, err := r.taken(ctx, c)
		switch {
		case err != nil:
			batch[i].failed = true
			return fmt.Errorf("look for another record of the sale of %s: %w", c.record.SortKey, err)
		case taken:
			batch[i].obstacle = metering.ObstacleTwin
			return nil
		case dry:
			return nil
		}
		c.write.Token = rand.Text()
		out, err := r.Records.ReopenRecord(ctx, c.write)
		switch {
		case err != nil:
			batch[i].failed = true
			return fmt.Errorf("reopen record %s: %w", c.record.SortKey, err)
		case !out.Done && (out.Old == nil || !c.write.Shows(*out.Old)):
			batch[i].obstacle = metering.ObstacleChanged
		}
		return nil
	})
}

// taken reports whether the record's sale goes by customer identifier as well. One that comes between this look and the write waits, as does
// the record: the submitter then sees both in one run, and lets the license's alone through. Only one that comes, is sent and is billed
// within that moment slips by.
func (r *Retrier) taken(ctx context.Context, c candidate) (bool, error) {
	if r.ProductCode == "" {
		return false, nil
	}
	twin, err := r.Records.Record(ctx, metering.Group{
		License: r.ProductCode, Account: c.record.Account, Dimension: c.record.Dimension, Hour: c.write.Hour,
	})
	return err == nil && twin != nil && metering.SaleTaken(*twin), err
}

func (d *Retried) count(c candidate, skips Skips) {
	units, _ := c.record.Quantity.Count()
	switch {
	case c.failed:
	case c.obstacle == "":
		d.Units += units
		d.Reopened = append(d.Reopened, Refusal{
			Account: c.record.Account, Dimension: c.record.Dimension, Hour: c.record.HourBucket, Units: units,
			Status: c.record.Status, Reason: c.record.StatusReason, LostAt: c.until,
		})
	default:
		skips.Add(Skipped{Cause: c.obstacle, Why: c.obstacle.Why(), Records: 1, Units: units})
	}
}
