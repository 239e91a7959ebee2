package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
)

// writeStatus writes a status for a person, and names commands that go to the same place, which where is the flags for.
func writeStatus(out *bytes.Buffer, s desk.Status, where string, style desk.Style) {
	var b strings.Builder
	writePlace(&b, s)
	writeGaps(&b, s.Gaps) // before what they may be missing from
	writeFindings(&b, s)
	s.WritePicture(&b, style)
	writeFates(&b, s)
	writeWaiting(&b, s)
	writeWindows(&b, s)
	if s.Store != "" || s.Refused.Records > 0 { // on AWS it would take a whole table to know
		writeRefused(&b, s.Refused, where)
	}
	writeQueues(&b, s)
	writeStages(&b, s)
	writeMetrics(&b, s)
	out.WriteString(b.String())
}

// writeGaps names what was not looked at. Where that are findings, none being listed does not mean that all is well.
func writeGaps(b *strings.Builder, gaps []string) {
	if len(gaps) == 0 {
		return
	}
	b.WriteString("Not looked at:\n")
	for _, gap := range gaps {
		fmt.Fprintf(b, "  %s\n", strings.ReplaceAll(gap, "\n", "; "))
	}
	b.WriteByte('\n')
}

// writePlace says where this is, and how it is set.
func writePlace(b *strings.Builder, s desk.Status) {
	if s.Store == "" { // a deployed stack
		fmt.Fprintf(b, "%s%s, product %s\nNow: %s UTC\n", strings.ToUpper(s.Place[:1]), s.Place[1:], ledger.Shown(s.ProductCode), s.Now.Format("2006-01-02 15:04:05"))
		var modes []string
		for _, m := range []struct {
			is   bool
			said string
		}{{s.DryRun, "DRY RUN: nothing is billed"}, {s.Paused, "PAUSED: nothing is sent"}, {s.Direct, "direct-submit"}} {
			if m.is {
				modes = append(modes, m.said)
			}
		}
		if len(modes) > 0 {
			fmt.Fprintf(b, "Mode: %s\n", strings.Join(modes, ", "))
		}
		b.WriteByte('\n')
		return
	}
	offset, _ := time.ParseDuration(s.Offset)
	fmt.Fprintf(b, "Clock: %s\nStore: %s\n", clockText(s.Now, offset), s.Store)
	if s.Marketplace != "" {
		fmt.Fprintf(b, "Marketplace: %s", s.Marketplace)
		if s.Simulator != nil {
			fmt.Fprintf(b, ", which has billed %s in %s", ledger.Counted(s.Simulator.Units, "unit"), ledger.Counted(int64(s.Simulator.Hours), "record"))
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}

// maxFindings bounds the findings of one alarm that are shown one by one.
const maxFindings = 8

// writeFindings lists what somebody has to do something about, and behind it what is only to be known.
func writeFindings(b *strings.Builder, s desk.Status) {
	known := func(f desk.Finding) bool { return f.Kind == desk.KindKnown }
	writeFindingList(b, "Wants you, the most urgent first:", slices.DeleteFunc(slices.Clone(s.Findings), known))
	writeFindingList(b, "To know; nothing brings it back:", slices.DeleteFunc(slices.Clone(s.Findings), func(f desk.Finding) bool { return !known(f) }))
}

func writeFindingList(b *strings.Builder, head string, findings []desk.Finding) {
	if len(findings) == 0 {
		return
	}
	b.WriteString(head + "\n")
	shown, last := 0, ""
	for _, f := range findings {
		name := cmp.Or(f.Alarm, "ledger")
		if f.Kind == desk.KindAlarms {
			name = "alarms"
		}
		if name != last {
			shown, last = 0, name
		}
		if shown++; shown > maxFindings {
			if shown == maxFindings+1 {
				fmt.Fprintf(b, "  %s: and more: --json lists all of them\n", name)
			}
			continue
		}
		fmt.Fprintf(b, "  %s: %s\n", name, findingText(f))
		if f.Fix != "" {
			fmt.Fprintf(b, "    %s\n", f.Fix)
		}
	}
	b.WriteByte('\n')
}

// findingText is what was found, since when its alarm rings, and how much time is left.
func findingText(f desk.Finding) string {
	text := strings.ReplaceAll(f.What, "\n", "; ")
	if !f.Since.IsZero() {
		since := "since " + f.Since.UTC().Format("01-02 15:04")
		if strings.HasPrefix(text, "the alarm rings") {
			text = strings.Replace(text, "the alarm rings", "the alarm rings "+since, 1)
		} else {
			text += "; its alarm rings " + since
		}
	}
	if left, err := time.ParseDuration(f.Left); err == nil {
		text += "; " + desk.Brief(left) + " left"
	}
	return text
}

// writeFates says where the units of the day and the month are.
func writeFates(b *strings.Builder, s desk.Status) {
	if s.Month.By == "" {
		return
	}
	const line = "  %-9s  %15s  %15s\n"
	some := false
	for _, p := range ledger.Places() {
		today, month := s.Today.Places[p], s.Month.Places[p]
		if today == (ledger.Amount{}) && month == (ledger.Amount{}) {
			continue
		}
		if !some {
			fmt.Fprintf(b, line, "UNITS", "TODAY", "THIS MONTH")
		}
		some = true
		fmt.Fprintf(b, line, p.Words(), ledger.Thousands(today.Units), ledger.Thousands(month.Units))
	}
	if !some {
		return
	}
	if s.Month.By == desk.ByCount {
		b.WriteString("  as the metrics counted them; in flight without rows, whose units nobody has added up\n")
	}
	b.WriteByte('\n')
}

// maxWaiting bounds the hours, and the licenses, that are listed one by one.
const maxWaiting = 40

func writeWaiting(b *strings.Builder, s desk.Status) {
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
		left, units, over := w.LostIn, ledger.Thousands(w.Units), ""
		switch {
		case w.Misfiled:
			left = "never found: no hour"
		case strings.HasPrefix(left, "-"):
			left = "too late"
		case w.Ended > 0 && w.Ended >= w.Rows+w.Records:
			left = "refused: its license has ended"
		default:
			if w.LastHour {
				left += ", a last hour"
			}
			if w.Ended > 0 {
				left += fmt.Sprintf("; %s of ended licenses are refused", ledger.Thousands(int64(w.Ended)))
			}
		}
		if w.NoUnits {
			units += " and the rows'"
		}
		if w.Over {
			over = "over "
		}
		fmt.Fprintf(table, "  %s\t%s%d\t%d\t%s\t%s\n", ledger.Shown(w.Bucket), over, w.Rows, w.Records, units, left)
	}
	_ = table.Flush()
	if more := len(s.Waiting) - maxWaiting; more > 0 {
		fmt.Fprintf(b, "  and %s more: --json lists all of them\n", ledger.Counted(int64(more), "hour"))
	}
	b.WriteByte('\n')
}

// writeWindows lists the licenses in their last hour, if there are any.
func writeWindows(b *strings.Builder, s desk.Status) {
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
func writeRefused(b *strings.Builder, r desk.RefusedSum, where string) {
	switch {
	case r.Uncounted && r.Records == 0:
		fmt.Fprintf(b, "Refused: not counted, there is much to look at: awsmp refused list%s\n\n", where)
	case r.Records > 0:
		which := "the first"
		if r.Records == 1 {
			which = "it"
		}
		left, _ := time.ParseDuration(r.Left)
		fmt.Fprintf(b, "Refused: %s, %s; %s can be sent once more for %s: awsmp refused list%s\n\n",
			ledger.Counted(int64(r.Records), "record"), ledger.Counted(r.Units, "unit"), which, desk.Brief(left), where)
	}
}

// writeQueues lists queues that hold something.
func writeQueues(b *strings.Builder, s desk.Status) {
	var lines []string
	for _, q := range s.Queues {
		if q.Visible+q.InFlight == 0 {
			continue
		}
		oldest := "-"
		if d, err := time.ParseDuration(q.Oldest); err == nil {
			oldest = desk.Brief(d)
		}
		lines = append(lines, fmt.Sprintf("%s\t%s\t%s\t%s", q.Name, ledger.Thousands(int64(q.Visible)), ledger.Thousands(int64(q.InFlight)), oldest))
	}
	if len(lines) == 0 {
		return
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "QUEUE\tWAIT\tIN WORK\tOLDEST")
	for _, line := range lines {
		fmt.Fprintln(table, line)
	}
	_ = table.Flush()
	b.WriteByte('\n')
}

func writeStages(b *strings.Builder, s desk.Status) {
	if len(s.Stages) == 0 {
		if s.Store != "" && s.Node == "" {
			b.WriteString("No node runs here.\n")
		}
		return
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "STAGE\tLAST RUN\tNEXT RUN\tDID")
	at := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.UTC().Format("01-02 15:04:05")
	}
	for _, v := range s.Stages {
		did := v.Last
		switch line := desk.Cause(v.Error); {
		case line == "":
		case s.Store == "" && did != "": // of the last hour, and not of the last run as a rule
			did += fmt.Sprintf("; %d of %s failed: %s", v.Failures, ledger.Counted(int64(v.Runs), "run"), line)
		default:
			did = "failed: " + line
		}
		if did == "" {
			did = "-"
		}
		next := at(v.Next)
		switch {
		case v.Off:
			next = "none: it is off"
		case v.Next.IsZero():
			next = "when asked"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", shortStage(v.Name), at(v.LastAt), next, did)
	}
	_ = table.Flush()
}

// writeMetrics lists what a node has counted since its start.
func writeMetrics(b *strings.Builder, s desk.Status) {
	if len(s.Metrics) == 0 {
		return
	}
	b.WriteString("\nSince the start:\n")
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, m := range s.Metrics {
		fmt.Fprintf(table, "  %s\t%s", m.Name, ledger.Thousands(m.Items))
		if m.Units != 0 { // registrations have none
			fmt.Fprintf(table, "\t%s", ledger.Counted(m.Units, "unit"))
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush()
}
