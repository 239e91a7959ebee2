package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/dev"
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
  awsmp refused retry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef`

func newRefusedCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "refused",
		Short:   "Show refused usage, and send it once more",
		Long:    refusedLong,
		Example: refusedExample,
		Args:    knownCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.SuggestionsMinimumDistance = 2
	cmd.AddCommand(newRefusedListCommand(), newRefusedRetryCommand())
	return cmd
}

const retryLong = `Let the refused usage of a license wait again, so that the next submission sends it once more.

Put right first what it was refused for: the buyer is subscribed again (CustomerNotSubscribed), the dimension is defined
(InvalidUsageDimensionException), the license is active (InvalidLicenseException, TimestampOutOfBoundsException), the customer
is known (InvalidCustomerIdentifierException). What is still refused is refused again, and may be retried again.

There is a day for it: an hour can be billed for 24 hours from its start, and hours of the month before only until 06:00 UTC
on the 1st.

Nothing is billed twice. What is billed, may be billed, or was rejected for what it holds is left as it is, and the command
says so. So is all usage that is metered by customer identifier: its sale may have been billed by license since. One thing it
cannot know: do not retry what you have metered in another way since, as a later hour's usage or under another license.`

const retryExample = `  # Look first.
  awsmp refused retry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef --dry-run

  # A dimension was missing, and is defined now.
  awsmp refused retry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef --dimension storage_gb

  # One hour.
  awsmp refused retry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef --hour 2026-03-10T14`

func newRefusedRetryCommand() *cobra.Command {
	var (
		node   remote
		retry  dev.Retry
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:     "retry --license ARN",
		Short:   "Send a license's refused usage once more",
		Long:    retryLong,
		Example: retryExample,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("retry takes no argument like %q: a license is named with --license", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if retry.License == "" {
				return misused(cmd, errors.New("--license is needed: the licenseArn of the refused usage, which awsmp refused list shows"))
			}
			if retry.Account != "" && !metering.ValidAccount(retry.Account) {
				return misused(cmd, fmt.Errorf("--account is %q, and must be 12 digits", retry.Account))
			}
			if retry.Hour != "" {
				if _, err := metering.ParseHour(retry.Hour); err != nil {
					return misused(cmd, fmt.Errorf("--hour: %w", err))
				}
			}
			text, err := node.call(cmd.Context(), http.MethodPost, "/v1/refused/retry", retry)
			out := cmd.OutOrStdout()
			return show(out, asJSON, text, err, func(r dev.Retried) error { return writeRetried(out, r) })
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&retry.License, "license", "", "licenseArn of the refused usage")
	flags.StringVar(&retry.Account, "account", "", "of this customerAWSAccountId only")
	flags.StringVar(&retry.Dimension, "dimension", "", "of this dimension only")
	flags.StringVar(&retry.Hour, "hour", "", "of this hour only, as in 2026-03-31T14")
	flags.BoolVar(&retry.DryRun, "dry-run", false, "say what would be sent once more, and change nothing")
	flags.BoolVar(&asJSON, "json", false, "write one JSON document")
	node.flags(flags)
	return cmd
}

// maxRetriedShown bounds the records that are listed one by one.
const maxRetriedShown = 40

func writeRetried(out io.Writer, r dev.Retried) error {
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
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, refusalHeader)
		for _, f := range r.Reopened[:min(len(r.Reopened), maxRetriedShown)] {
			fmt.Fprintln(table, refusalCells(f))
		}
		_ = table.Flush() // a strings.Builder never fails
		if more := len(r.Reopened) - maxRetriedShown; more > 0 {
			fmt.Fprintf(&b, "  and %s more: --json lists all of them\n", ledger.Counted(int64(more), "record"))
		}
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
