package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
)

const listLong = `Show the refused usage that can still be sent once more: of all licenses, the newest hour first, with what it was refused for
and how long its hour can still be billed. What cannot be sent once more is counted, with the reason.

Nothing is changed. awsmp refused retry sends it. On AWS, without --license, a whole table is read: the price is said first.`

const listExample = `  awsmp refused list

  # Of one license, for a program.
  awsmp refused list --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef --json`

func newRefusedListCommand() *cobra.Command {
	var (
		at      place
		license string
		agreed  consent
		asJSON  bool
	)
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "Show what was refused and can be sent once more",
		Long:    listLong,
		Example: listExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			agreed.prices(cmd, &at, 2)
			p, where, closePlace, err := openRefused(cmd, &at, &license)
			if err != nil {
				return err
			}
			defer func() { _ = closePlace() }()
			list, err := p.Refused(cmd.Context(), license)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			return writeRefusals(cmd.OutOrStdout(), list, where)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&license, "license", "", "of this licenseArn only")
	flags.BoolVar(&asJSON, "json", false, "write one JSON document, with the newest 1,000 records")
	agreed.yesFlag(flags)
	at.flags(flags)
	at.nodeFlag(flags)
	return cmd
}

// writeRefusals lists what can be sent once more by a command that goes to the same node, which where is the flag for.
func writeRefusals(out io.Writer, l desk.Refused, where string) error {
	var b strings.Builder
	if l.Records == 0 {
		b.WriteString("Nothing was refused that can be sent once more.\n")
	} else {
		fmt.Fprintf(&b, "%s, %s, can be sent once more.\n", ledger.Counted(int64(l.Records), "refused record"), ledger.Counted(l.Units, "unit"))
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, refusalHeader+"\tLEFT\tLICENSE")
		shown := l.List[:min(len(l.List), maxShown)]
		for _, f := range shown {
			fmt.Fprintf(table, "%s\t%s\t%s\n", refusalCells(f.Refusal), f.Left, entire(f.License))
		}
		_ = table.Flush() // a strings.Builder never fails
		if more := l.Records - len(shown); more > 0 {
			fmt.Fprintf(&b, "  and %s more: --license narrows the list, --json shows up to 1,000\n", ledger.Counted(int64(more), "record"))
		}
		if license := shown[0].License; license == entire(license) {
			fmt.Fprintf(&b, "When the cause is put right, a license's usage is sent once more by\n  awsmp refused retry --license %s%s\n", desk.Word(license), where)
		}
	}
	writeSkipped(&b, l.Skipped, l.Older)
	_, err := io.WriteString(out, b.String())
	return err
}

// entire is a text that is to be copied from a terminal, which it must not steer.
func entire(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}
