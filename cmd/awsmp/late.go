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

const lateLong = `Deal with usage that came after its hour was summed. That hour is closed for good, so what is late can only be billed as usage of
another one.

awsmp late list shows it. awsmp late carry books it in the current hour, each row once and in one step with its source.`

const lateExample = `  awsmp late list
  awsmp late carry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef --dry-run
  awsmp late carry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef`

func newLateCommand() *cobra.Command {
	return group("late", "Show late usage, and book it in the current hour", lateLong, lateExample,
		newLateListCommand(), newLateCarryCommand())
}

const lateListLong = `Show the late rows by their groups, the newest hour first: how much came late, and whether it can be booked in the current hour.

Nothing is changed. On AWS, without --license, a whole table is read: the price is said first.`

func newLateListCommand() *cobra.Command {
	return listing("late", "Show what came late", lateListLong, (*desk.Desk).Late, writeLate)
}

func writeLate(out io.Writer, l desk.Late, where string) error {
	var b strings.Builder
	if len(l.List) == 0 {
		b.WriteString("Nothing is late.\n")
	} else {
		fmt.Fprintf(&b, "Late: %s. In the current hour can be booked: %s.\n", sumText(l.Sum), sumText(l.Ready))
		shown := first(l.List)
		var why []desk.LateUsage
		writeTable(&b, "  HOUR\tACCOUNT\tDIMENSION\tROWS\tUNITS\tCAN BE CARRIED\tLICENSE", shown, func(r desk.LateUsage) string {
			can := "yes"
			if r.Cause != "" {
				can = "no: " + string(r.Cause)
				if !says(why, r) {
					why = append(why, r)
				}
			}
			hour := r.Hour
			if hour == "" {
				hour = "none"
			}
			return fmt.Sprintf("  %s\t%s\t%s\t%d\t%s\t%s\t%s", hour, ledger.Shown(r.Account), ledger.Shown(r.Dimension), r.Rows, ledger.Thousands(r.Units), can, entire(r.License))
		})
		writeMore(&b, len(l.List)+l.More-len(shown), "entry", "entries", seenNarrower)
		for _, r := range why {
			fmt.Fprintf(&b, "%s: %s.\n", r.Cause, r.Why)
		}
		for _, r := range l.List {
			if r.Cause == "" && entire(r.License) == r.License {
				fmt.Fprintf(&b, "A license's late usage is booked in the current hour by\n  awsmp late carry --license %s%s\n", desk.Word(r.License), where)
				b.WriteString("Do not book what your application has booked elsewhere since.\n")
				break
			}
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func says(list []desk.LateUsage, r desk.LateUsage) bool {
	for _, other := range list {
		if other.Cause == r.Cause {
			return true
		}
	}
	return false
}

const lateCarryLong = `Book late usage of a license in the current hour: each late row becomes a new row there, at a free second, and its source keeps only
what its own hour's record holds. Both happen in one step, so no unit is ever in two places; the source says where its units went.

Do not carry what your application has booked elsewhere since: a writer that was told that the hour is committed may have done so.

What cannot be carried stays late, and the command says why: above all usage of a license that has ended, and usage metered by customer
identifier. Nothing is booked twice: what is carried is late no more. It says what it would do and asks before it changes anything; --yes
does not ask. Interrupted, it can be run again and does the rest.`

func newLateCarryCommand() *cobra.Command {
	var (
		at     place
		chosen selection
		limit  int
		agreed consent
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "carry --license ARN",
		Short: "Book late usage in the current hour",
		Long:  lateCarryLong,
		Example: `  # Look first.
  awsmp late carry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef --dry-run

  # The first row of one hour.
  awsmp late carry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef --hour 2026-03-10T14 --limit 1`,
		Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			which, err := chosen.which(cmd, "late usage, which awsmp late list shows")
			if err != nil {
				return err
			}
			if limit < 0 || cmd.Flags().Changed("limit") && limit == 0 {
				return misused(cmd, errors.New("--limit is a number of rows, 1 or more"))
			}
			at.tablesOnly = true
			d, closeDesk, err := openFor(cmd, &at, &which.License, "awsmp late list")
			if err != nil {
				return err
			}
			defer func() { _ = closeDesk() }()
			done, err := change(cmd, agreed, asJSON,
				func(ctx context.Context, dryRun bool) (desk.Carried, error) {
					return d.CarryLate(ctx, which, limit, dryRun)
				},
				writeCarried,
				func(r desk.Carried) string {
					return askAbout(r.Rows, "Book it in the current hour", "Book them in the current hour")
				})
			if err == nil && len(done.Left) > 0 {
				err = &failure{code: exitRefused}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&chosen.license, "license", "", "licenseArn of the late usage")
	chosen.narrower(flags)
	flags.IntVar(&limit, "limit", 0, "end after so many rows (default: all)")
	agreed.flags(flags)
	flags.BoolVar(&asJSON, "json", false, "write one JSON document")
	at.flags(flags)
	return cmd
}

func writeCarried(out io.Writer, r desk.Carried) error {
	var b strings.Builder
	switch {
	case r.Rows == 0:
		b.WriteString("Nothing can be carried.\n")
	case r.DryRun:
		fmt.Fprintf(&b, "Dry run: %s, would be booked in the current hour. Nothing is changed.\n", sumText(r.Sum))
	default:
		fmt.Fprintf(&b, "Booked in the current hour: %s.\n", sumText(r.Sum))
	}
	if r.Rows > 0 {
		writeTable(&b, "  FROM\tTO\tUNITS", first(r.List), func(c desk.CarriedRow) string {
			return fmt.Sprintf("  %s\t%s\t%s", entire(c.From), entire(c.To), ledger.Thousands(c.Units))
		})
		writeMore(&b, len(r.List)-maxShown, "row", "rows", seenInJSON)
	}
	if r.Limited {
		b.WriteString("There may be more: it ended at --limit.\n")
	}
	writeLeftRows(&b, r.Left)
	_, err := io.WriteString(out, b.String())
	return err
}
