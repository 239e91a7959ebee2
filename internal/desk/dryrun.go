package desk

import (
	"context"
	"errors"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// DryRuns are the records that a dry run ended and that can still be sent.
type DryRuns struct {
	pipeline.Reopenable
	List    []pipeline.LicenseRefusal `json:"dryRun"`         // newest hour first: the first 1,000 of them
	More    int                       `json:"more,omitempty"` // how many are not listed
	Skipped []pipeline.Skipped        `json:"skipped"`        // what cannot be sent, and why
	Older   int                       `json:"older"`          // records of hours that can no longer be billed, however they ended
}

// Promoted is what a promotion did, or with DryRun would have done, license by license.
type Promoted struct {
	DryRun         bool              `json:"dryRun"`
	Records        int               `json:"records"`
	Units          int64             `json:"units"`
	Licenses       []PromotedLicense `json:"licenses"`
	NextSubmission time.Time         `json:"nextSubmission,omitzero"` // which sends what was promoted; missing where nothing runs
}

// PromotedLicense is the part of one license.
type PromotedLicense struct {
	License string `json:"licenseArn"`
	pipeline.Retried
}

// ErrDryRun says that a place calls no Marketplace: what is promoted there would end as a dry run again.
var ErrDryRun = errors.New("dry runs go on here: what is promoted would end as one again")

// DryRuns lists the records that a dry run ended: of one license, or of all, for which on AWS a whole table is read.
func (d *Desk) DryRuns(ctx context.Context, license string) (DryRuns, error) {
	r, err := d.reopenable(ctx, license, metering.PromoteOf, metering.DryRunSubmitted)
	return DryRuns(r), err
}

// DryRunLicenses is the one license, or all that have records which a dry run ended, for which on AWS a whole table is read.
func (d *Desk) DryRunLicenses(ctx context.Context, one string) ([]string, error) {
	var list []string
	for license, err := range d.licensesWith(ctx, one, metering.DryRunSubmitted) {
		if err != nil {
			return nil, err
		}
		list = append(list, license)
	}
	return list, nil
}

// Promote is PromoteLicenses of the license that is asked for, or of all.
func (d *Desk) Promote(ctx context.Context, what Which, dryRun bool) (Promoted, error) {
	licenses, err := d.DryRunLicenses(ctx, what.License)
	if err != nil {
		return Promoted{DryRun: dryRun, Licenses: []PromotedLicense{}}, err
	}
	return d.PromoteLicenses(ctx, licenses, what, dryRun)
}

// PromoteLicenses lets records of licenses that a dry run ended wait, so that the next submission sends them for the first time. What narrows
// them down beside the license. It fails with ErrDryRun where the place is not live. What it did is told beside an error, and it may be run
// again: what waits already is left alone.
func (d *Desk) PromoteLicenses(ctx context.Context, licenses []string, what Which, dryRun bool) (Promoted, error) {
	done := Promoted{DryRun: dryRun, Licenses: []PromotedLicense{}, NextSubmission: d.nextSubmission()}
	if d.DryRun {
		return done, ErrDryRun
	}
	for _, license := range licenses {
		what.License = license
		r, err := d.retrier(metering.PromoteOf).Run(ctx, retryOf(what, dryRun))
		done.Records, done.Units = done.Records+len(r.Reopened), done.Units+r.Units
		done.Licenses = append(done.Licenses, PromotedLicense{license, r})
		if err != nil {
			return done, err
		}
	}
	return done, nil
}
