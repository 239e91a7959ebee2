package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
)

// textWidth is where the runbook's sentences are broken at most.
const textWidth = 110

// widthOf is how wide text is for who reads it: as COLUMNS says or the terminal, and no wider than is read well.
func widthOf(out io.Writer) int {
	width, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err != nil || width <= 0 {
		if file, ok := out.(*os.File); ok {
			width, _, err = term.GetSize(int(file.Fd()))
		}
	}
	if err != nil || width <= 0 {
		return textWidth
	}
	return max(40, min(width, textWidth))
}

// writeAlarms writes the alarms one below the other, each as it is written alone.
func writeAlarms(out io.Writer, alarms []explainedAlarm, where string) error {
	var b strings.Builder
	for i, e := range alarms {
		if i > 0 {
			b.WriteString("\n\n")
		}
		writeAlarm(&b, e, where, widthOf(out))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func writeAlarm(b *strings.Builder, e explainedAlarm, where string, width int) {
	fmt.Fprintf(b, "%s\n  Until money is lost: %s\n\n", e.Alarm, e.Until)
	if e.Machine {
		b.WriteString(wrapped("The commands of aws below, and lines, total, ended and the like, are for a stack. Here "+e.Here+" shows what there is of it.", "", width))
	}
	for _, part := range []struct{ head, text string }{
		{"What it means in money", e.Money}, {"How to look", e.Look}, {"What to do", e.Do}, {"How to know that it is over", e.Over},
	} {
		fmt.Fprintf(b, "%s\n%s", part.head, wrapped(placed(part.text, where), "  ", width))
	}
	if !e.Machine && usesTools(e.Look+e.Do+e.Over) {
		fmt.Fprintf(b, "lines, total, ended and the like are shell functions, which awsmp explain --tools%s prints.\n\n", where)
	}
	switch {
	case e.Unlooked != "":
		fmt.Fprintf(b, "No place was looked at: %s\n", e.Unlooked)
	case len(e.Findings) == 0:
		fmt.Fprintf(b, "Now, at the %s: nothing of it is seen.\n", e.Place)
	default:
		fmt.Fprintf(b, "Now, at the %s:\n", e.Place)
		for _, f := range e.Findings {
			fmt.Fprintf(b, "  %s\n", findingText(f))
			if f.Fix != "" && f.Fix != "awsmp explain "+e.Alarm+where {
				fmt.Fprintf(b, "    %s\n", f.Fix)
			}
		}
	}
	writeGaps(b, e.Gaps)
}

// placed adds the flags of the place to the commands of awsmp that stand on lines of their own.
func placed(text, where string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, "    awsmp ") {
			lines[i] = line + where
		}
	}
	return strings.Join(lines, "\n")
}

// usesTools reports whether a text has commands of the runbook's own.
func usesTools(text string) bool {
	for _, tool := range []string{"lines ", "total ", "reasons ", "waiting usage", "waiting aggregated", "ended ", "look ", "redrive awsmp-", "redrive $M", "mappings ", "setting ", "ringing", "$(url ", "$EVENTS", "$M"} {
		if strings.Contains(text, tool) {
			return true
		}
	}
	return false
}

// wrapped breaks the lines of a text at a width, but for those of commands and tables, and puts indent before each.
func wrapped(text, indent string, width int) string {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		whole := strings.HasPrefix(paragraph, "    ") || strings.HasPrefix(paragraph, "|") || strings.HasPrefix(paragraph, "```")
		if whole {
			for line := range strings.SplitSeq(paragraph, "\n") {
				b.WriteString(indent + line + "\n")
			}
			b.WriteByte('\n')
			continue
		}
		line := indent
		for word := range strings.FieldsSeq(paragraph) {
			if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width && strings.TrimSpace(line) != "" {
				b.WriteString(line + "\n")
				line = indent
			}
			if line != indent {
				line += " "
			}
			line += word
		}
		b.WriteString(line + "\n\n")
	}
	return b.String()
}

// writeGroupStory tells of one group.
func writeGroupStory(b *strings.Builder, s desk.Story, most int) {
	fmt.Fprintf(b, "%s of %s, hour %s\n  license %s\n  account %s\n", ledger.Shown(s.Dimension), ledger.Short(s.License), s.Hour, entire(s.License), ledger.Shown(s.Account))
	left, err := time.ParseDuration(s.Left)
	switch {
	case err == nil && s.LastHour:
		fmt.Fprintf(b, "  it can be billed for %s more, until %s, when the license's last hour ends\n", desk.Brief(left), s.LostAt.UTC().Format("2006-01-02 15:04:05 UTC"))
	case err == nil:
		fmt.Fprintf(b, "  it can be billed for %s more, until %s\n", desk.Brief(left), s.LostAt.UTC().Format("2006-01-02 15:04 UTC"))
	case s.Ended && s.Now.Before(s.LostAt):
		fmt.Fprintf(b, "  its license has ended: what is sent is refused, unless the buyer is active again before %s\n", s.LostAt.UTC().Format("2006-01-02 15:04 UTC"))
	default:
		fmt.Fprintf(b, "  it could be billed until %s, and can no longer\n", s.LostAt.UTC().Format("2006-01-02 15:04 UTC"))
	}
	b.WriteString("\nWhat happened\n")
	for _, line := range s.Told {
		fmt.Fprintf(b, "  %s\n", line)
	}
	writeStoryRows(b, s, most)
	b.WriteByte('\n')
	for _, c := range s.Causes {
		fmt.Fprintf(b, "%s, %s: %s\n", ledger.Counted(c.Units, "unit"), c.Place.Words(), c.Code)
		fmt.Fprintf(b, "  Why: %s.\n", c.What)
		fmt.Fprintf(b, "  Can it still be billed? %s.\n", sentence(c.Why))
		if (!c.Help || c.Fix == "") && c.Place != ledger.InFlight && c.Code != ledger.CodeDropped {
			fmt.Fprintf(b, "  In general: %s\n", c.Do)
		}
		if c.First != "" {
			fmt.Fprintf(b, "  First: %s\n", c.First)
		}
		if c.Fix != "" {
			fmt.Fprintf(b, "  Fix: %s\n", c.Fix)
		}
		if c.GiveUp != "" {
			fmt.Fprintf(b, "  Or give it up: %s\n", c.GiveUp)
		}
		if left, err := time.ParseDuration(c.Left); err == nil {
			fmt.Fprintf(b, "  Time left: %s.\n", desk.Brief(left))
		}
		b.WriteByte('\n')
	}
	writeStoryBalance(b, s.Balance)
}

// sentence begins a text with a capital letter.
func sentence(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// shownStoryRows bounds the rows that are listed on a terminal.
const shownStoryRows = 20

// writeStoryRows lists the rows, of which most are shown.
func writeStoryRows(b *strings.Builder, s desk.Story, most int) {
	if len(s.Rows) == 0 {
		return
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\n  ROW OF\tUNITS\tIN THE RECORD\tSTATUS")
	shown := 0
	for _, r := range s.Rows {
		if shown++; shown > most {
			break
		}
		units, committed, status := ledger.Thousands(r.Units), "-", r.Status
		if r.Unknown {
			units = "?"
		}
		if r.Committed != nil {
			committed = ledger.Thousands(*r.Committed)
		}
		if r.Waiting != "" {
			status = "waits under " + ledger.Shown(r.Waiting)
		}
		if status == "" {
			status = "neither waits nor has a status"
		}
		if r.Reason != "" && r.Status != "Aggregated" {
			status += ": " + ledger.Shown(r.Reason)
		}
		if r.Dropped {
			status += ", dropped"
		}
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", r.Second, units, committed, status)
	}
	_ = table.Flush() // a strings.Builder never fails
	if more := max(0, len(s.Rows)-most) + s.MoreRows; more > 0 {
		fmt.Fprintf(b, "  and %s more: --json, or a pipe, shows the first 1,000\n", ledger.Counted(int64(more), "row"))
	}
}

func writeStoryBalance(b *strings.Builder, s desk.StoryBalance) {
	var terms []string
	for _, p := range ledger.Places() {
		if a := s.Places[p]; a.Units > 0 || p == ledger.Billed {
			terms = append(terms, p.Words()+" "+ledger.Thousands(a.Units))
		}
	}
	sign := "="
	if !s.Balanced {
		sign = "≠"
	}
	fmt.Fprintf(b, "written %s %s %s\n", ledger.Thousands(s.Written.Units), sign, strings.Join(terms, " + "))
	if s.Balanced {
		b.WriteString("Balanced: every unit is accounted for.\n")
	} else {
		b.WriteString("NOT BALANCED:\n")
	}
	for _, f := range s.Findings {
		fmt.Fprintf(b, "  %s\n", entire(f))
	}
	if s.Withdrawn.Items > 0 {
		fmt.Fprintf(b, "  %s, %s: changed or deleted after the commit; what was committed stands\n", ledger.Counted(int64(s.Withdrawn.Items), "row"), ledger.Counted(s.Withdrawn.Units, "unit"))
	}
	if s.Stale > 0 {
		fmt.Fprintf(b, "  %s committed, and still labelled otherwise: the next visit heals that\n", ledger.Counted(int64(s.Stale), "row is"))
	}
}
