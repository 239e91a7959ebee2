package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/pipeline"
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
		shown := first(l.List)
		writeTable(&b, refusalHeader+"\tLEFT\tLICENSE", shown, func(f pipeline.LicenseRefusal) string {
			return refusalCells(f.Refusal) + "\t" + f.Left + "\t" + entire(f.License)
		})
		writeMore(&b, l.Records-len(shown), "record", "records", seenNarrower)
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
