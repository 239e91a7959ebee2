package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
)

const rejectedDropLong = `Do without rejected rows: they stay rejected, and take part in no sum any more, so that the rest of their hour can come back
by awsmp rejected retry.

Name exactly one row with --key, or with --at-fault all rows of one group that are wrong by themselves. Their units are not billed, now or
later: mend a row instead where you can. A drop is not taken back by any command.

It says what it would do and asks before it changes anything; --yes does not ask.`

func newRejectedDropCommand() *cobra.Command {
	var (
		at      place
		chosen  selection
		key     string
		atFault bool
		agreed  consent
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:   "drop --license ARN",
		Short: "Do without rejected rows",
		Long:  rejectedDropLong,
		Example: `  # One row, by its sort key.
  awsmp rejected drop --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef \
    --key '111122223333#api_calls#2026-03-10T14:05:59'

  # All rows at fault of one hour.
  awsmp rejected drop --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef \
    --account 111122223333 --dimension api_calls --hour 2026-03-10T14 --at-fault`,
		Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			which, err := chosen.which(cmd, "rejected usage, which awsmp rejected list shows")
			if err != nil {
				return err
			}
			group, one := which.One()
			switch {
			case key != "" && (atFault || chosen.account+chosen.dimension+chosen.hour != ""):
				return misused(cmd, errors.New("--key names one row: it takes no flag beside --license that names more"))
			case key == "" && !atFault:
				return misused(cmd, errors.New("one row is named with --key, or those at fault of one hour with --at-fault"))
			case atFault && !one:
				return misused(cmd, errors.New("--at-fault is of one group: name it with --account, --dimension and --hour"))
			}
			at.tablesOnly = true
			d, closeDesk, err := openFor(cmd, &at, &which.License, "awsmp rejected list")
			if err != nil {
				return err
			}
			defer func() { _ = closeDesk() }()
			done, err := change(cmd, agreed, asJSON,
				func(ctx context.Context, dryRun bool) (desk.Dropped, error) {
					if atFault {
						return d.DropAtFault(ctx, group, dryRun)
					}
					return d.DropRow(ctx, which.License, key, dryRun)
				},
				func(out io.Writer, r desk.Dropped) error { return writeDropped(out, r, d.Flags) },
				func(r desk.Dropped) string {
					return askAbout(r.Rows, "Do without it, for good", "Do without them, for good")
				})
			return undropped(err, done, which, d.Flags)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&chosen.license, "license", "", "licenseArn of the rejected usage")
	flags.StringVar(&key, "key", "", "sort key of the one row")
	flags.BoolVar(&atFault, "at-fault", false, "all rows of one group that are wrong by themselves")
	flags.StringVar(&chosen.account, "account", "", "customerAWSAccountId of the group")
	flags.StringVar(&chosen.dimension, "dimension", "", "dimension of the group")
	flags.StringVar(&chosen.hour, "hour", "", "hour of the group, as in 2026-03-31T14")
	agreed.flags(flags)
	flags.BoolVar(&asJSON, "json", false, "write one JSON document")
	at.flags(flags)
	return cmd
}

// undropped is how a drop ends: what there is none of, and what stands against it, is told.
func undropped(err error, done desk.Dropped, which desk.Which, where string) error {
	list := "awsmp rejected list --license " + desk.Word(which.License) + where
	switch {
	case errors.Is(err, desk.ErrNoRow):
		return &failure{exitError, err, list}
	case errors.Is(err, desk.ErrNoneAtFault):
		retry := groupFlags(desk.Usage{License: which.License, Account: which.Account, Dimension: which.Dimension, Hour: which.Hour.String()})
		return &failure{exitRefused, err, "awsmp rejected retry" + retry + where + " --dry-run"}
	case err != nil:
		return err
	}
	for _, l := range done.Left {
		if l.Cause != "Dropped" {
			return &failure{code: exitRefused}
		}
	}
	return nil
}

func writeDropped(out io.Writer, r desk.Dropped, where string) error {
	var b strings.Builder
	switch {
	case r.Rows == 0:
		b.WriteString("Nothing was dropped.\n")
	case r.DryRun:
		fmt.Fprintf(&b, "Dry run: %s, would be dropped, and never be billed. Nothing is changed.\n", sumText(r.Sum))
	default:
		fmt.Fprintf(&b, "Dropped, and never to be billed: %s.\n", sumText(r.Sum))
	}
	for _, row := range first(r.List) {
		fmt.Fprintf(&b, "  %s: %s, %s\n", entire(row.Key), ledger.Counted(row.Units, "unit"), row.What)
	}
	writeMore(&b, len(r.List)-maxShown, "row", "rows", seenInJSON)
	writeLeftRows(&b, r.Left)
	if r.Rest != nil {
		fmt.Fprintf(&b, "Still rejected in this hour, with nothing wrong by itself: %s.", sumText(r.Rest.Sum))
		if flags := groupFlags(r.Rest.Usage); flags != "" {
			fmt.Fprintf(&b, " The rest comes back by\n  awsmp rejected retry%s%s", flags, where)
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeLeftRows says what stays as it is.
func writeLeftRows(b *strings.Builder, left []desk.LeftRows) {
	if len(left) > 0 {
		b.WriteString("Left as they are:\n")
	}
	for _, l := range left {
		fmt.Fprintf(b, "  %s, %s\n", sumText(l.Sum), l.Why)
	}
}
