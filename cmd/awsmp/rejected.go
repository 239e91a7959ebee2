package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
)

const rejectedLong = `Deal with usage that was rejected before any call.

One bad row holds back its whole hour of a license, account and dimension: a sum without it would take the hour for good. awsmp rejected
list shows what is held back and what for. When the bad row is mended, awsmp rejected retry brings the hour back. When it cannot be
mended, awsmp rejected drop takes the row out, and its units with it.`

const rejectedExample = `  # A row had a quantity of 2.5, and is mended.
  awsmp rejected list
  awsmp rejected retry --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef

  # It cannot be mended: do without it.
  awsmp rejected drop --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef \
    --account 111122223333 --dimension api_calls --hour 2026-03-10T14 --at-fault`

func newRejectedCommand() *cobra.Command {
	return group("rejected", "Show rejected usage, bring it back, or do without it", rejectedLong, rejectedExample,
		newRejectedListCommand(), newRejectedRetryCommand(), newRejectedDropCommand())
}

const rejectedListLong = `Show the rejected rows by their groups, the newest hour first: what was rejected and why, what helps, and for how long the hour
can still be billed. Rows that an operator has dropped are counted apart.

Nothing is changed. On AWS, without --license, a whole table is read: the price is said first.`

func newRejectedListCommand() *cobra.Command {
	return listing("rejected", "Show what was rejected, and what for", rejectedListLong, (*desk.Desk).Rejected, writeRejected)
}

// openFor opens a place where a license is known, if one is named, and makes that whole where it is one's end; list is the command that shows
// which licenses there are.
func openFor(cmd *cobra.Command, at *place, license *string, list string) (*desk.Desk, func() error, error) {
	d, closeDesk, err := at.open(cmd)
	if err != nil || *license == "" {
		return d, closeDesk, err
	}
	if *license, err = wholeLicense(cmd.Context(), d, *license); err == nil {
		err = d.Known(cmd.Context(), *license)
	}
	if err != nil {
		_ = closeDesk()
		return nil, nil, at.unknownLicense(err, *license, list)
	}
	return d, closeDesk, nil
}

// sumText is a number of rows and their units in words.
func sumText(s desk.Sum) string {
	text := ledger.Counted(int64(s.Rows), "row") + ", " + ledger.Counted(s.Units, "unit")
	if s.Unknown > 0 {
		text += fmt.Sprintf(" (%s of no number)", ledger.Counted(int64(s.Unknown), "quantity"))
	}
	return text
}

func writeRejected(out io.Writer, l desk.Rejected, where string) error {
	var b strings.Builder
	if len(l.List) == 0 {
		b.WriteString("Nothing is rejected.\n")
	} else {
		verb := "are"
		if l.Rows == 1 {
			verb = "is"
		}
		fmt.Fprintf(&b, "%s, %s rejected.\n", sumText(l.Sum), verb)
		shown := first(l.List)
		writeTable(&b, "  HOUR\tACCOUNT\tDIMENSION\tROWS\tUNITS\tREJECTED FOR\tCAN BE BILLED FOR\tLICENSE", shown, func(r desk.RejectedUsage) string {
			hour, left := r.Hour, r.Left
			switch {
			case hour == "":
				hour, left = "none", "never: its key names no group"
			case left == "":
				left = "too late"
			case r.Committed:
				left = "late, by carrying"
			}
			return fmt.Sprintf("  %s\t%s\t%s\t%d\t%s\t%s\t%s\t%s", hour, ledger.Shown(r.Account), ledger.Shown(r.Dimension), r.Rows,
				ledger.Thousands(r.Units), ledger.Shown(r.Reason), left, entire(r.License))
		})
		writeMore(&b, len(l.List)+l.More-len(shown), "entry", "entries", seenNarrower)
		writeKeyless(&b, shown, where)
		writeReasons(&b, shown)
	}
	if l.Dropped.Rows > 0 {
		fmt.Fprintf(&b, "Dropped by an operator, beside these: %s.\n", sumText(l.Dropped))
	}
	for _, r := range l.List { // the newest hour that can be brought back
		if flags := groupFlags(r.Usage); r.Left != "" && flags != "" {
			fmt.Fprintf(&b, "When the row at fault is mended, its hour comes back by\n  awsmp rejected retry%s%s\n", flags, where)
			break
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeKeyless names the rows whose keys name no group, each of which is an entry.
func writeKeyless(b *strings.Builder, shown []desk.RejectedUsage, where string) {
	for _, r := range shown {
		if r.Key == "" {
			continue
		}
		fmt.Fprintf(b, "Under the key %s:", entire(r.Key))
		if entire(r.Key) == r.Key && entire(r.License) == r.License {
			fmt.Fprintf(b, " awsmp rejected drop --license %s --key %s%s", desk.Word(r.License), desk.Word(r.Key), where)
		}
		b.WriteByte('\n')
	}
}

// writeReasons explains each reason once, and once more where it is too late for what else helps.
func writeReasons(b *strings.Builder, shown []desk.RejectedUsage) {
	type advice struct{ reason, do string }
	said := make(map[advice]bool)
	for _, r := range shown {
		if a := (advice{r.Reason, r.Do}); !said[a] {
			said[a] = true
			late := ""
			if r.Hour != "" && r.Left == "" {
				late = ", too late"
			}
			fmt.Fprintf(b, "%s%s: %s. %s\n", ledger.Shown(r.Reason), late, r.What, r.Do)
		}
	}
}
