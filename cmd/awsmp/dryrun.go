package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

const dryrunLong = `Deal with usage that a dry run has ended: it went through everything but the call to AWS Marketplace, and is not billed.

awsmp dryrun list shows what can still be billed. When the stack has gone live, awsmp dryrun promote sends it.`

const dryrunExample = `  awsmp dryrun list --stack awsmp-exampleproduct-metering
  awsmp dryrun promote --stack awsmp-exampleproduct-metering --dry-run
  awsmp dryrun promote --stack awsmp-exampleproduct-metering`

func newDryrunCommand() *cobra.Command {
	return group("dryrun", "Show usage that a dry run has ended, and send it after going live", dryrunLong, dryrunExample,
		newDryrunListCommand(), newDryrunPromoteCommand())
}

const dryrunListLong = `Show the usage that a dry run has ended and that can still be billed: the newest hour first, with how long its hour is open. What cannot
be billed is counted, with the reason.

Nothing is changed. On AWS, without --license, a whole table is read: the price is said first.`

func newDryrunListCommand() *cobra.Command {
	var (
		at      place
		license string
		agreed  consent
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show what a dry run has ended and can be billed",
		Long:  dryrunListLong,
		Example: `  awsmp dryrun list --stack awsmp-exampleproduct-metering

  # Of one license, for a program.
  awsmp dryrun list --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef --json`,
		Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			agreed.prices(cmd, &at, 1)
			d, closeDesk, err := openFor(cmd, &at, &license, "awsmp dryrun list")
			if err != nil {
				return err
			}
			defer func() { _ = closeDesk() }()
			list, err := d.DryRuns(cmd.Context(), license)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			return writeDryRuns(cmd.OutOrStdout(), list, d.DryRun, d.Flags)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&license, "license", "", "of this licenseArn only")
	flags.BoolVar(&asJSON, "json", false, "write one JSON document, with the newest 1,000 records")
	agreed.yesFlag(flags)
	at.flags(flags)
	return cmd
}

const dryHeader = "  HOUR\tACCOUNT\tDIMENSION\tUNITS\tCAN BE BILLED UNTIL"

func dryCells(f pipeline.Refusal) string {
	return fmt.Sprintf("  %s\t%s\t%s\t%s\t%s", f.Hour, ledger.Shown(f.Account), ledger.Shown(f.Dimension), ledger.Thousands(f.Units), f.LostAt.Format(time.RFC3339))
}

func writeDryRuns(out io.Writer, l desk.DryRuns, goesOn bool, where string) error {
	var b strings.Builder
	if l.Records == 0 {
		b.WriteString("No dry run has ended anything that can be billed.\n")
	} else {
		fmt.Fprintf(&b, "%s, %s, ended by a dry run, can be billed.\n", ledger.Counted(int64(l.Records), "record"), ledger.Counted(l.Units, "unit"))
		shown := first(l.List)
		writeTable(&b, dryHeader+"\tLEFT\tLICENSE", shown, func(f pipeline.LicenseRefusal) string {
			return dryCells(f.Refusal) + "\t" + f.Left + "\t" + entire(f.License)
		})
		writeMore(&b, l.Records-len(shown), "record", "records", seenNarrower)
		if goesOn {
			fmt.Fprint(&b, "Dry runs go on here: go live first.\n")
		} else {
			fmt.Fprintf(&b, "If it is to be billed, it is sent by\n  awsmp dryrun promote%s\n", where)
		}
	}
	writeSkipped(&b, l.Skipped, l.Older)
	_, err := io.WriteString(out, b.String())
	return err
}

const dryrunPromoteLong = `Send the usage that a dry run has ended, for the first time, when the stack has gone live: it waits again, and the next submission takes it.
Without --license that of all licenses; on AWS a whole table is read then, and the price is said first.

There is a day for it: an hour can be billed for 24 hours from its start, and hours of the month before only until 06:00 UTC
on the 1st.

Nothing is billed twice: a record that a dry run ended was never sent. What is left as it is, is named: also usage whose sale
goes by customer identifier. One thing it cannot know: do not promote what you have metered in another way meanwhile.

It says what it would do and asks before it changes anything; --yes does not ask. Interrupted, it can be run again and does the rest.`

func newDryrunPromoteCommand() *cobra.Command {
	var (
		at     place
		chosen selection
		agreed consent
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "promote",
		Short: "Send what a dry run has ended, after going live",
		Long:  dryrunPromoteLong,
		Example: `  # Look first.
  awsmp dryrun promote --stack awsmp-exampleproduct-metering --dry-run

  # One license alone.
  awsmp dryrun promote --stack awsmp-exampleproduct-metering --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef`,
		Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			which, err := chosen.which(cmd, "")
			if err != nil {
				return err
			}
			agreed.prices(cmd, &at, 1)
			d, closeDesk, err := openFor(cmd, &at, &which.License, "awsmp dryrun list")
			if err != nil {
				return err
			}
			defer func() { _ = closeDesk() }()
			if d.DryRun {
				return &failure{exitRefused, desk.ErrDryRun, "awsmp explain dry-run-submitted" + d.Flags}
			}
			licenses, err := d.DryRunLicenses(cmd.Context(), which.License)
			if err != nil {
				return err
			}
			done, err := change(cmd, agreed, asJSON,
				func(ctx context.Context, dryRun bool) (desk.Promoted, error) {
					return d.PromoteLicenses(ctx, licenses, which, dryRun)
				},
				writePromoted,
				func(r desk.Promoted) string { return askAbout(r.Records, "Have it billed", "Have them billed") })
			left, _ := skippedOf(done)
			return cmp.Or(err, leftBehind(left, metering.ObstacleRefused, metering.ObstacleTaken, metering.ObstacleFault, metering.ObstacleDoubt))
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	chosen.flags(flags)
	agreed.flags(flags)
	flags.BoolVar(&asJSON, "json", false, "write one JSON document")
	at.flags(flags)
	return cmd
}

func writePromoted(out io.Writer, r desk.Promoted) error {
	var b strings.Builder
	records, units := ledger.Counted(int64(r.Records), "record"), ledger.Counted(r.Units, "unit")
	switch {
	case r.Records == 0:
		b.WriteString("Nothing can be promoted.\n")
	case r.DryRun:
		fmt.Fprintf(&b, "Dry run: %s, %s, would be sent. Nothing is changed.\n", records, units)
	case r.NextSubmission.IsZero():
		fmt.Fprintf(&b, "%s, %s: sent with the next submission.\n", records, units)
	default:
		fmt.Fprintf(&b, "%s, %s: sent with the submission at %s.\n", records, units, r.NextSubmission.Format("01-02 15:04:05"))
	}
	if r.Records > 0 {
		var lines []string
		for _, l := range r.Licenses {
			for _, f := range l.Reopened[:min(len(l.Reopened), maxShown-len(lines))] {
				lines = append(lines, dryCells(f)+"\t"+entire(l.License))
			}
		}
		writeTable(&b, dryHeader+"\tLICENSE", lines, func(line string) string { return line })
		writeMore(&b, r.Records-len(lines), "record", "records", seenInJSON)
	}
	skipped, older := skippedOf(r)
	writeSkipped(&b, skipped, older)
	_, err := io.WriteString(out, b.String())
	return err
}

// skippedOf adds up what stays in each license.
func skippedOf(r desk.Promoted) (list []pipeline.Skipped, older int) {
	skips := make(pipeline.Skips)
	for _, l := range r.Licenses {
		older += l.Older
		skips.Add(l.Skipped...)
	}
	return skips.List(), older
}
