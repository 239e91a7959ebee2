package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// Refused are the records that a retry would send once more.
type Refused struct {
	Reopenable
	List    []RefusedRecord    `json:"refused"`        // newest hour first: the first 1,000 of them
	More    int                `json:"more,omitempty"` // how many are not listed
	Skipped []pipeline.Skipped `json:"skipped"`        // what cannot be sent once more, and why
	// Older are records of hours that can no longer be billed, however they ended.
	Older int `json:"older"`
}

// Reopenable is a number of records that can be let wait again.
type Reopenable struct {
	Records int   `json:"records"`
	Units   int64 `json:"units"`
	// FirstLostAt is when the first of them can no longer be billed; missing where there is none.
	FirstLostAt time.Time `json:"firstLostAt,omitzero"`
}

// RefusedRecord is one of them.
type RefusedRecord struct {
	License string `json:"licenseArn"`
	pipeline.Refusal
	Left string `json:"left"` // until LostAt, as "22h40m0s"
}

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

// ErrUnknownLicense says that nothing was ever written of a license: a misspelt one has nothing refused either.
var ErrUnknownLicense = errors.New("no usage of this license is known here")

// Known fails with ErrUnknownLicense where there is no usage of a license.
func (d *Desk) Known(ctx context.Context, license string) error {
	accounts, err := d.Tables.Accounts(ctx, license)
	switch {
	case err != nil:
		return fmt.Errorf("look for usage of the license: %w", err)
	case len(accounts) == 0:
		return ErrUnknownLicense
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
	list, skipped := Refused{List: []RefusedRecord{}, Skipped: []pipeline.Skipped{}}, make(map[metering.Obstacle]pipeline.Skipped)
	now := d.Now()
	for license, err := range d.licensesWith(ctx, license, statuses...) {
		if err != nil {
			return list, err
		}
		dry, err := d.retrier(rule).Run(ctx, pipeline.Retry{License: license, DryRun: true})
		if err != nil {
			return list, fmt.Errorf("look at the records: %w", err)
		}
		list.Records, list.Units, list.Older = list.Records+len(dry.Reopened), list.Units+dry.Units, list.Older+dry.Older
		for _, f := range dry.Reopened {
			if list.FirstLostAt.IsZero() || f.LostAt.Before(list.FirstLostAt) {
				list.FirstLostAt = f.LostAt
			}
			list.List = append(list.List, RefusedRecord{license, f, f.LostAt.Sub(now).Round(time.Second).String()})
		}
		if len(list.List) > 2*maxListed { // often enough to bound the list, and not for every license
			list.newest()
		}
		for _, s := range dry.Skipped {
			s.Records, s.Units = s.Records+skipped[s.Cause].Records, s.Units+skipped[s.Cause].Units
			skipped[s.Cause] = s
		}
	}
	list.newest()
	list.More = list.Records - len(list.List)
	for _, o := range metering.Obstacles() {
		if s, found := skipped[o]; found && !unasked(o) {
			list.Skipped = append(list.Skipped, s)
		}
	}
	return list, nil
}

// unasked are the obstacles of records that nobody asks about here, of which a table is full.
func unasked(o metering.Obstacle) bool {
	return o == metering.ObstacleBilled || o == metering.ObstacleWaiting || o == metering.ObstacleDryRun || o == metering.ObstacleRefused
}

// newest keeps the first of the list in its order.
func (l *Refused) newest() {
	slices.SortFunc(l.List, func(a, b RefusedRecord) int {
		return cmp.Or(cmp.Compare(b.Hour, a.Hour), cmp.Compare(a.License, b.License), cmp.Compare(a.Account, b.Account), cmp.Compare(a.Dimension, b.Dimension))
	})
	l.List = l.List[:min(len(l.List), maxListed)]
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
