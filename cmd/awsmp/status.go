package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/ledger"
)

const statusLong = `Show what a node does: its clock, what waits and how long it can still be billed, the licenses in their last hour,
what was refused and can be sent once more, the stages' last runs, and what the simulated Marketplace has billed.

The node is the one that runs on the data folder, unless --node or AWSMP_NODE names another.`

const statusExample = `  awsmp status
  awsmp status --json

  # In a script: wait until the node is there.
  awsmp dev &
  awsmp status --wait 10s`

func newStatusCommand() *cobra.Command {
	var node remote
	var asJSON bool
	var wait time.Duration
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Show what a node does and what waits",
		Long:    statusLong,
		Example: statusExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := node.await(cmd.Context(), wait, "/v1/status")
			out := cmd.OutOrStdout()
			return show(out, asJSON, text, err, func(s dev.Status) error { return writeStatus(out, s, node.where()) })
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	node.flags(flags)
	flags.BoolVar(&asJSON, "json", false, "write one JSON document")
	flags.DurationVar(&wait, "wait", 0, "how long to wait for a node that is not there yet")
	return cmd
}

// writeStatus names commands that go to the same node, which where is the flag for.
func writeStatus(out io.Writer, s dev.Status, where string) error {
	var b strings.Builder
	offset, _ := time.ParseDuration(s.Offset)
	fmt.Fprintf(&b, "Clock: %s\nStore: %s\nMarketplace: %s", clockText(s.Now, offset), s.Store, s.Marketplace)
	if s.Simulator != nil {
		fmt.Fprintf(&b, ", which has billed %s in %s", ledger.Counted(s.Simulator.Units, "unit"), ledger.Counted(int64(s.Simulator.Hours), "hour"))
	}
	b.WriteString("\n\n")
	writeWaiting(&b, s)
	writeWindows(&b, s)
	writeRefused(&b, s.Refused, where)
	writeStages(&b, s)
	if s.DeadLetters > 0 {
		fmt.Fprintf(&b, "\n%s failed too often and were set aside; their groups are found again.\n", ledger.Counted(int64(s.DeadLetters), "message"))
	}
	if len(s.Metrics) > 0 {
		b.WriteString("\nSince the start:\n")
		table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, m := range s.Metrics {
			fmt.Fprintf(table, "  %s\t%s", m.Name, ledger.Thousands(m.Items))
			if m.Units != 0 { // registrations have none
				fmt.Fprintf(table, "\t%s", ledger.Counted(m.Units, "unit"))
			}
			fmt.Fprintln(table)
		}
		_ = table.Flush() // a strings.Builder never fails
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// maxWaiting bounds the hours, and the licenses, that are listed one by one.
const maxWaiting = 40

func writeWaiting(b *strings.Builder, s dev.Status) {
	if len(s.Waiting) == 0 {
		b.WriteString("Nothing waits.\n\n")
		return
	}
	b.WriteString("Waiting:\n")
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  HOUR\tROWS\tRECORDS\tUNITS\tCAN BE BILLED FOR")
	for i, w := range s.Waiting {
		if i == maxWaiting {
			break
		}
		left := w.LostIn
		if w.Misfiled {
			left = "never found: no hour"
		} else if strings.HasPrefix(left, "-") {
			left = "too late"
		}
		fmt.Fprintf(table, "  %s\t%d\t%d\t%s\t%s\n", ledger.Shown(w.Bucket), w.Rows, w.Records, ledger.Thousands(w.Units), left)
	}
	_ = table.Flush()
	if more := len(s.Waiting) - maxWaiting; more > 0 {
		fmt.Fprintf(b, "  and %s more: --json lists all of them\n", ledger.Counted(int64(more), "hour"))
	}
	b.WriteByte('\n')
}

// writeWindows lists the licenses in their last hour, if there are any.
func writeWindows(b *strings.Builder, s dev.Status) {
	if len(s.Windows) == 0 {
		return
	}
	b.WriteString("Last hours:\n")
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  LICENSE\tACCOUNT\tENDS\tLEFT")
	for i, w := range s.Windows {
		if i == maxWaiting {
			break
		}
		left := w.Left
		if strings.HasPrefix(left, "-") {
			left = "over"
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", ledger.Short(w.License), w.Account, w.Expiry.Format("01-02 15:04:05"), left)
	}
	_ = table.Flush()
	if more := len(s.Windows) - maxWaiting; more > 0 {
		fmt.Fprintf(b, "  and %s more: --json lists all of them\n", ledger.Counted(int64(more), "license"))
	}
	b.WriteByte('\n')
}

// writeRefused says what can still be sent once more, if there is anything.
func writeRefused(b *strings.Builder, r dev.RefusedSum, where string) {
	switch {
	case r.Uncounted:
		fmt.Fprintf(b, "Refused: not counted, there is much to look at: awsmp refused list%s\n\n", where)
	case r.Records > 0:
		which := "the first"
		if r.Records == 1 {
			which = "it"
		}
		left, _ := time.ParseDuration(r.Left)
		if left >= time.Minute {
			left = left.Truncate(time.Minute)
		}
		text := left.String()
		if left >= time.Minute {
			text = strings.TrimSuffix(text, "0s")
		}
		fmt.Fprintf(b, "Refused: %s, %s; %s can be sent once more for %s: awsmp refused list%s\n\n",
			ledger.Counted(int64(r.Records), "record"), ledger.Counted(r.Units, "unit"), which, text, where)
	}
}

func writeStages(b *strings.Builder, s dev.Status) {
	waiting := make(map[string]string)
	for _, q := range s.Queues {
		if q.Visible+q.InFlight == 0 {
			continue
		}
		name := q.Name
		if name != "cleanup" {
			name = "aggregate"
		}
		if waiting[name] != "" {
			waiting[name] += ", "
		}
		waiting[name] += ledger.Counted(int64(q.Visible+q.InFlight), q.Name+" message") + " for up to " + q.OldestAge
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "STAGE\tLAST RUN\tNEXT RUN\tDID")
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.Format("01-02 15:04:05")
	}
	for _, v := range s.Stages {
		did := v.Last
		if v.Error != "" {
			line, _, _ := strings.Cut(v.Error, "\n")
			did = "failed: " + line
		}
		if w := waiting[v.Name]; w != "" {
			did = strings.TrimPrefix(did+"; "+w+" wait", "; ")
		}
		if did == "" {
			did = "-"
		}
		next := at(v.Next)
		if v.Next.IsZero() {
			next = "when asked"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", shortStage(v.Name), at(v.LastAt), next, did)
	}
	_ = table.Flush()
}
