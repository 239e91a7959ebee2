package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

const refusedLong = `Deal with usage that the Marketplace refused.

awsmp refused list shows what was refused, what for, and for how long its hour can still be billed. When the cause has been put
right, awsmp refused retry sends it once more.`

const refusedExample = `  # A buyer was suspended for two hours, and is active again.
  awsmp refused list
  awsmp refused retry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef --dry-run
  awsmp refused retry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef

  # The same on AWS.
  awsmp refused list --stack awsmp-exampleproduct-metering`

func newRefusedCommand() *cobra.Command {
	return group("refused", "Show refused usage, and send it once more", refusedLong, refusedExample,
		newRefusedListCommand(), newRefusedRetryCommand())
}

const retryLong = `Let the refused usage of a license wait again, so that the next submission sends it once more.

Put right first what it was refused for: the buyer is subscribed again (CustomerNotSubscribed), the dimension is defined
(InvalidUsageDimensionException), the license is active (InvalidLicenseException, TimestampOutOfBoundsException), the customer
is known (InvalidCustomerIdentifierException). What is still refused is refused again, and may be retried again.

There is a day for it: an hour can be billed for 24 hours from its start, and hours of the month before only until 06:00 UTC
on the 1st.

Nothing is billed twice. What is billed, may be billed, or was rejected for what it holds is left as it is, and the command
says so. So is all usage that is metered by customer identifier: its sale may have been billed by license since. One thing it
cannot know: do not retry what you have metered in another way since, as a later hour's usage or under another license.

It says what it would do and asks before it changes anything; --yes does not ask. Interrupted, it can be run again and does the rest.`

const retryExample = `  # Look first.
  awsmp refused retry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef --dry-run

  # A dimension was missing, and is defined now.
  awsmp refused retry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef --dimension storage_gb

  # One hour.
  awsmp refused retry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef --hour 2026-03-10T14`

func newRefusedRetryCommand() *cobra.Command {
	var (
		at     place
		chosen selection
		agreed consent
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:     "retry --license ARN",
		Short:   "Send a license's refused usage once more",
		Long:    retryLong,
		Example: retryExample,
		Args:    noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			which, err := chosen.which(cmd, "refused usage, which awsmp refused list shows")
			if err != nil {
				return err
			}
			p, _, closePlace, err := openRefused(cmd, &at, &which.License)
			if err != nil {
				return err
			}
			defer func() { _ = closePlace() }()
			done, err := change(cmd, agreed, asJSON,
				func(ctx context.Context, dryRun bool) (desk.Retried, error) {
					return p.RetryRefused(ctx, which, dryRun)
				},
				writeRetried,
				func(r desk.Retried) string {
					return askAbout(len(r.Reopened), "Send it once more", "Send them once more")
				})
			return cmp.Or(err, leftBehind(done.Skipped, metering.ObstacleDryRun))
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&chosen.license, "license", "", "licenseArn of the refused usage")
	chosen.narrower(flags)
	agreed.flags(flags)
	flags.BoolVar(&asJSON, "json", false, "write one JSON document")
	at.flags(flags)
	at.nodeFlag(flags)
	return cmd
}

// leftBehind is how a command ends that leaves records which it was asked for. What is billed or waits already has nothing left to be done, and
// others are of causes that the command is not about.
func leftBehind(skipped []pipeline.Skipped, others ...metering.Obstacle) error {
	for _, s := range skipped {
		if s.Cause != metering.ObstacleBilled && s.Cause != metering.ObstacleWaiting && !slices.Contains(others, s.Cause) {
			return &failure{code: exitRefused}
		}
	}
	return nil
}

// askAbout is the question about n things, empty where there is none.
func askAbout(n int, one, several string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return one
	}
	return several
}

func writeRetried(out io.Writer, r desk.Retried) error {
	var b strings.Builder
	records, units := ledger.Counted(int64(len(r.Reopened)), "record"), ledger.Counted(r.Units, "unit")
	switch {
	case len(r.Reopened) == 0:
		b.WriteString("Nothing can be sent once more.\n")
	case r.DryRun:
		fmt.Fprintf(&b, "Dry run: %s, %s, would be sent once more. Nothing is changed.\n", records, units)
	case r.NextSubmission.IsZero():
		fmt.Fprintf(&b, "%s, %s: sent once more with the next submission.\n", records, units)
	default:
		fmt.Fprintf(&b, "%s, %s: sent once more with the submission at %s.\n", records, units, r.NextSubmission.Format("01-02 15:04:05"))
	}
	if len(r.Reopened) > 0 {
		writeTable(&b, refusalHeader, first(r.Reopened), refusalCells)
		writeMore(&b, len(r.Reopened)-maxShown, "record", "records", seenInJSON)
	}
	writeSkipped(&b, r.Skipped, r.Older)
	_, err := io.WriteString(out, b.String())
	return err
}

const refusalHeader = "  HOUR\tACCOUNT\tDIMENSION\tUNITS\tREFUSED FOR\tCAN BE BILLED UNTIL"

// refusalCells is a refused record as a line of a table under refusalHeader.
func refusalCells(f pipeline.Refusal) string {
	why := cmp.Or(f.Reason, string(f.Status))
	return fmt.Sprintf("  %s\t%s\t%s\t%s\t%s\t%s", f.Hour, ledger.Shown(f.Account), ledger.Shown(f.Dimension), ledger.Thousands(f.Units), ledger.Shown(why), f.LostAt.Format(time.RFC3339))
}

// writeSkipped says what stays as it is: records with an obstacle, and those of older hours.
func writeSkipped(b *strings.Builder, skipped []pipeline.Skipped, older int) {
	if len(skipped) > 0 || older > 0 {
		b.WriteString("Left as they are:\n")
	}
	for _, s := range skipped {
		fmt.Fprintf(b, "  %s, %s, %s\n", ledger.Counted(int64(s.Records), "record"), ledger.Counted(s.Units, "unit"), s.Why)
	}
	if older > 0 {
		fmt.Fprintf(b, "  %s of hours that can no longer be billed, however they ended\n", ledger.Counted(int64(older), "record"))
	}
}
