package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
)

const rejectedRetryLong = `Let rejected groups of a license wait again, so that they are summed and billed.

Mend first what they were rejected for. Before anything is changed each group is summed as the aggregator would sum it. One that would be
rejected again stays as it is, and the rows at fault are named. One whose hour has its record already comes back as late usage,
which awsmp late carry books in the current hour.

There is a day for it: an hour can be billed for 24 hours from its start, and hours of the month before only until 06:00 UTC
on the 1st.

Nothing is billed twice: a group is summed once, however often it is brought back. It says what it would do and asks before it changes
anything; --yes does not ask. Interrupted, it can be run again and does the rest.`

func newRejectedRetryCommand() *cobra.Command {
	var (
		at     place
		chosen selection
		agreed consent
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "retry --license ARN",
		Short: "Bring rejected usage back when its fault is mended",
		Long:  rejectedRetryLong,
		Example: `  # Look first.
  awsmp rejected retry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef --dry-run

  # One hour.
  awsmp rejected retry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef --hour 2026-03-10T14`,
		Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			which, err := chosen.which(cmd, "rejected usage, which awsmp rejected list shows")
			if err != nil {
				return err
			}
			d, closeDesk, err := openFor(cmd, &at, &which.License, "awsmp rejected list")
			if err != nil {
				return err
			}
			defer func() { _ = closeDesk() }()
			done, err := change(cmd, agreed, asJSON,
				func(ctx context.Context, dryRun bool) (desk.Recalled, error) {
					return d.RetryRejected(ctx, which, dryRun)
				},
				func(out io.Writer, r desk.Recalled) error { return writeRecalled(out, r, d.Flags) },
				func(r desk.Recalled) string {
					return askAbout(len(r.Groups), "Let it wait again", "Let them wait again")
				})
			if err == nil && len(done.Refused) > 0 {
				err = &failure{code: exitRefused}
			}
			return err
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&chosen.license, "license", "", "licenseArn of the rejected usage")
	chosen.narrower(flags)
	agreed.flags(flags)
	flags.BoolVar(&asJSON, "json", false, "write one JSON document")
	at.flags(flags)
	return cmd
}

func writeRecalled(out io.Writer, r desk.Recalled, where string) error {
	var b strings.Builder
	groups := counted(len(r.Groups), "group", "groups")
	switch {
	case len(r.Groups) == 0:
		b.WriteString("Nothing can be brought back.\n")
	case r.DryRun:
		fmt.Fprintf(&b, "Dry run: %s, %s, would wait again. Nothing is changed.\n", groups, sumText(r.Sum))
	case len(r.Groups) == 1:
		fmt.Fprintf(&b, "%s, %s: it waits again.\n", groups, sumText(r.Sum))
	default:
		fmt.Fprintf(&b, "%s, %s: they wait again.\n", groups, sumText(r.Sum))
	}
	if len(r.Groups) > 0 {
		writeTable(&b, "  HOUR\tACCOUNT\tDIMENSION\tROWS\tUNITS\tIS SUMMED\tCAN BE BILLED UNTIL", first(r.Groups), func(g desk.RecalledGroup) string {
			visit := "when a node runs"
			if !g.VisitAt.IsZero() {
				visit = "at " + g.VisitAt.Format("01-02 15:04:05")
			}
			if g.Late {
				visit = "never: ends as late"
			}
			return fmt.Sprintf("  %s\t%s\t%s\t%d\t%s\t%s\t%s", g.Hour, ledger.Shown(g.Account), ledger.Shown(g.Dimension), g.Rows, ledger.Thousands(g.Units),
				visit, g.LostAt.Format(time.RFC3339))
		})
		writeMore(&b, len(r.Groups)-maxShown, "group", "groups", seenInJSON)
	}
	writeLateOnes(&b, r.Groups, where)
	writeNotRecalled(&b, r, where)
	_, err := io.WriteString(out, b.String())
	return err
}

// writeLateOnes says what becomes of groups whose hour has its record.
func writeLateOnes(b *strings.Builder, groups []desk.RecalledGroup, where string) {
	late, last := 0, desk.Usage{}
	for _, g := range groups {
		if g.Late {
			late, last = late+1, g.Usage
		}
	}
	if late == 0 {
		return
	}
	if late > 1 {
		last = desk.Usage{License: last.License}
	}
	fmt.Fprintf(b, "Of %s the hour has its record already: at their next visit these rows end as late. Then they can be booked in the current hour by\n  awsmp late carry%s%s\n",
		counted(late, "group", "groups"), groupFlags(last), where)
}

// writeNotRecalled says what stays rejected, why, and what helps.
func writeNotRecalled(b *strings.Builder, r desk.Recalled, where string) {
	if len(r.Refused) > 0 {
		b.WriteString("Stay rejected:\n")
	}
	for _, n := range first(r.Refused) {
		name := n.Hour + ", " + ledger.Shown(n.Account) + ", " + ledger.Shown(n.Dimension)
		if n.Key != "" {
			name = "the row " + entire(n.Key)
		}
		fmt.Fprintf(b, "  %s: %s, %s", name, sumText(n.Sum), n.Why)
		if n.Reason != "" {
			fmt.Fprintf(b, " (%s: %s)", n.Reason, n.What)
		}
		b.WriteByte('\n')
		writeFaulty(b, n, where)
	}
	writeMore(b, len(r.Refused)-maxShown, "entry", "entries", seenInJSON)
	for _, s := range []struct {
		sum desk.Sum
		why string
	}{
		{r.Waiting, "waiting already"}, {r.Stale, "in their hour's record: labelled so at the next visit"},
		{r.Dropped, "dropped by an operator"}, {r.Older, "of hours that can no longer be billed"},
	} {
		if s.sum.Rows > 0 {
			fmt.Fprintf(b, "Left as they are: %s, %s\n", sumText(s.sum), s.why)
		}
	}
}

// writeFaulty names the rows at fault, and the command that does without them.
func writeFaulty(b *strings.Builder, n desk.NotRecalled, where string) {
	const most = 10
	lines := make([]string, 0, len(n.Faulty)+len(n.Unfit))
	for _, f := range n.Faulty {
		lines = append(lines, entire(f.Key)+": "+f.What)
	}
	for _, u := range n.Unfit {
		line := entire(u.Key) + ": " + ledger.Counted(u.Units, "unit")
		if u.Tagged {
			line += ", tagged"
		}
		lines = append(lines, line)
	}
	for i, line := range lines {
		if i == most {
			fmt.Fprintf(b, "    and %s more: --json lists all of them\n", counted(len(lines)-i, "row", "rows"))
			break
		}
		fmt.Fprintf(b, "    %s\n", line)
	}
	flags, copied := groupFlags(n.Usage), entire(n.License) == n.License
	switch {
	case n.Key != "" && entire(n.Key) == n.Key && copied:
		fmt.Fprintf(b, "    do without it: awsmp rejected drop --license %s --key %s%s\n", desk.Word(n.License), desk.Word(n.Key), where)
	case len(n.Faulty) > 0 && flags != "":
		fmt.Fprintf(b, "    do without them: awsmp rejected drop%s --at-fault%s\n", flags, where)
	case len(n.Unfit) > 0 && copied:
		fmt.Fprintf(b, "    do without one of them: awsmp rejected drop --license %s --key KEY%s\n", desk.Word(n.License), where)
	}
}
