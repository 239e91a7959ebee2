package desk

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// Refused are the records that a retry would send once more.
type Refused = pipeline.Refusals

// Retried is what a retry did, or with DryRun would have done.
type Retried struct {
	pipeline.Retried
	NextSubmission time.Time `json:"nextSubmission,omitzero"` // which sends what was reopened; missing where nothing runs
}

// Refused looks at what a retry would do: of one license, or of all that have refused records, for which on AWS a whole table is read.
func (d *Desk) Refused(ctx context.Context, license string) (Refused, error) {
	return d.reopenable(ctx, license, metering.ReopenOf, metering.CustomerNotSubscribed, metering.RejectedClientSide)
}

// RetryRefused lets refused records of a license wait again. It may be run again: what waits already is left alone.
func (d *Desk) RetryRefused(ctx context.Context, what Which, dryRun bool) (Retried, error) {
	done, err := d.retrier(metering.ReopenOf).Run(ctx, retryOf(what, dryRun))
	return Retried{done, d.nextSubmission()}, err
}

// Known fails with pipeline.ErrUnknownLicense where there is no usage of a license.
func (d *Desk) Known(ctx context.Context, license string) error {
	accounts, err := d.Tables.Accounts(ctx, license)
	switch {
	case err != nil:
		return fmt.Errorf("look for usage of the license: %w", err)
	case len(accounts) == 0:
		return pipeline.ErrUnknownLicense
	}
	return nil
}

// reopenRule is which records may wait again, and by what write.
type reopenRule = func(metering.Record, metering.Rules, time.Time) (metering.Reopen, metering.Obstacle)

func (d *Desk) retrier(rule reopenRule) *pipeline.Retrier {
	return &pipeline.Retrier{Records: d.Tables, ProductCode: d.ProductCode, Rules: d.Rules, Rule: rule, Now: d.Now, Log: d.Log}
}

func retryOf(w Which, dryRun bool) pipeline.Retry {
	return pipeline.Retry{License: w.License, Account: w.Account, Dimension: w.Dimension, Hour: w.Hour, DryRun: dryRun}
}

// nextSubmission is when waiting records are sent next; zero where nothing runs or sends.
func (d *Desk) nextSubmission() time.Time {
	if d.Plant == nil || d.Paused {
		return time.Time{}
	}
	return metering.SubmitSchedule.Next(d.Now())
}

// reopenable looks at what a rule would let wait again, license by license, of those that have records which ended so.
func (d *Desk) reopenable(ctx context.Context, license string, rule reopenRule, statuses ...metering.Status) (Refused, error) {
	return d.retrier(rule).Look(ctx, d.licensesWith(ctx, license, statuses...))
}

// licensesWith is the one license, or all that have records which ended so, in order.
func (d *Desk) licensesWith(ctx context.Context, one string, statuses ...metering.Status) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if one != "" {
			yield(one, nil)
			return
		}
		found := make(map[string]bool)
		for _, status := range statuses {
			for r, err := range d.Tables.EndedRecords(ctx, "", status) {
				if err != nil {
					yield("", fmt.Errorf("look for records that ended as %s: %w", status, err))
					return
				}
				found[r.License] = true
			}
		}
		for _, license := range slices.Sorted(maps.Keys(found)) {
			if !yield(license, nil) {
				return
			}
		}
	}
}
