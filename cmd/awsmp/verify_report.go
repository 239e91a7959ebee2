package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/verify"
)

// verifyDocument is a run as JSON. Field names are stable.
type verifyDocument struct {
	Stack  string       `json:"stack"`
	Run    string       `json:"run"`    // its id, which its items bear as awsmpVerify or in their dimension
	DryRun bool         `json:"dryRun"` // the stack is a dry run
	Direct bool         `json:"directSubmit"`
	Begun  time.Time    `json:"begunAt"`
	Ended  time.Time    `json:"endedAt"`
	Passed bool         `json:"passed"` // all cases that were tried are ok, the books balance, and nothing is left
	Cases  []verifyCase `json:"cases"`
	Books  verifyBooks  `json:"books"`
	Taken  int          `json:"deleted"` // items that were taken away
	Left   int          `json:"left"`    // items that could not be
}

// verifyCase is a case as JSON.
type verifyCase struct {
	Name     string `json:"name"`
	What     string `json:"what"`
	Result   string `json:"result"` // ok, failed, skipped, or not tried
	Expected string `json:"expected,omitempty"`
	Found    string `json:"found,omitempty"`
	Why      string `json:"why,omitempty"` // it is skipped
	Rows     int    `json:"rows"`          // that it writes
	Records  int    `json:"records"`
	Kept     string `json:"kept,omitempty"` // LICENSE DIMENSION HOUR of a buyer's own usage that stays
}

// verifyBooks are the ledger of what a run has written.
type verifyBooks struct {
	Balanced   bool                           `json:"balanced"`
	Written    ledger.Amount                  `json:"written"`
	Places     map[ledger.Place]ledger.Amount `json:"places"`  // those that hold something
	Unknown    int                            `json:"unknown"` // items whose quantity is no number
	Imbalances []string                       `json:"imbalances"`
}

// cleanDocument is what runs have left, as JSON.
type cleanDocument struct {
	Stack   string     `json:"stack"`
	DryRun  bool       `json:"dryRun"`
	Runs    []cleanRun `json:"runs"`
	Items   int        `json:"items"`   // of these runs
	Deleted int        `json:"deleted"` // what stages that were under way have made meanwhile included
	Left    int        `json:"left"`
}

// cleanRun is a run that has left something.
type cleanRun struct {
	Run   string `json:"run"`
	Items int    `json:"items"`
}

func (d cleanDocument) words() string {
	switch {
	case d.Items == 0:
		return "Nothing is left of any run."
	case d.DryRun:
		return fmt.Sprintf("%s would be deleted.", ledger.Counted(int64(d.Items), "item"))
	}
	return fmt.Sprintf("%s deleted, %s left.", ledger.Counted(int64(d.Deleted), "item"), ledger.Thousands(int64(d.Left)))
}

func casesOf(list []verify.Case) []verifyCase {
	cases := make([]verifyCase, len(list))
	for i, c := range list {
		cases[i] = verifyCase{c.Name, c.What, resultOf(c), c.Expected, c.Found, c.Why, c.Rows, c.Records, ""}
		if c.Kept != nil {
			cases[i].Kept = fmt.Sprintf("%s %s %v", c.Kept.License, c.Kept.Dimension, c.Kept.Hour)
		}
	}
	return cases
}

func resultOf(c verify.Case) string {
	if c.Result == "" {
		return "not tried"
	}
	return string(c.Result)
}

func writeReportJSON(out io.Writer, r verify.Report, _ string) error {
	b := r.Books
	if b.Imbalances == nil {
		b.Imbalances = []string{}
	}
	return writeJSON(out, verifyDocument{
		Stack: r.Stack, Run: r.ID, DryRun: r.DryRun, Direct: r.Direct, Begun: r.Begun.UTC(), Ended: r.Ended.UTC(), Passed: r.Passed(), Cases: casesOf(r.Cases),
		Books: verifyBooks{b.Balanced, b.Written, b.Places, b.Unknown, b.Imbalances}, Taken: r.Deleted, Left: r.Left,
	})
}

// writeCases lists cases that are not tried yet.
func (f *verifyFlags) writeCases(out io.Writer, list []verify.Case) error {
	if f.asJSON {
		return writeJSON(out, casesOf(list))
	}
	var none []string
	for reason, why := range verify.Never() {
		none = append(none, fmt.Sprintf("No case has %s: %s.\n", reason, why))
	}
	slices.Sort(none)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, c := range list {
		text := c.What
		if c.Result == verify.Skipped {
			text = "(skipped) " + c.Why
		}
		fmt.Fprintf(table, "%s\t%s\n", c.Name, text)
	}
	if err := table.Flush(); err != nil || len(f.only) > 0 {
		return err
	}
	_, err := io.WriteString(out, strings.Join(none, ""))
	return err
}

// writeReport writes a run's table and books.
func writeReport(out io.Writer, r verify.Report, where string) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CASE\tOK\tEXPECTED\tFOUND")
	for _, c := range r.Cases {
		ok, expected, found := "NO", c.Expected, c.Found
		switch c.Result {
		case verify.Passed:
			if ok = "yes"; found == expected {
				found = "as expected" // else it says which of the ways that are expected it was
			}
		case verify.Skipped:
			ok, expected, found = "-", "-", c.Why
		case "":
			ok, found = "-", "not tried to the end"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", c.Name, ok, expected, found)
	}
	_ = table.Flush() // a strings.Builder never fails
	fmt.Fprintf(&b, "\n%s as expected, %d not, %d skipped", ledger.Counted(int64(r.Count(verify.Passed)), "case"), r.Count(verify.Failed), r.Count(verify.Skipped))
	if n := r.Count(""); n > 0 {
		fmt.Fprintf(&b, ", %d not tried to the end", n)
	}
	b.WriteString(".\n")
	writeVerifyBooks(&b, r.Books)
	fmt.Fprintf(&b, "Taken away: %s. ", ledger.Counted(int64(r.Deleted), "item"))
	if r.Left == 0 {
		b.WriteString("Nothing is left.\n")
	} else {
		fmt.Fprintf(&b, "Left: %s.\n", ledger.Counted(int64(r.Left), "item"))
	}
	for _, c := range r.Cases {
		if c.Kept != nil {
			fmt.Fprintf(&b, "What was written of account %s stays in the books: awsmp explain %s %s %v%s\n", c.Kept.Account, c.Kept.License, desk.Word(c.Kept.Dimension), c.Kept.Hour, where)
		}
	}
	_, err := io.WriteString(out, b.String())
	return err
}

func writeVerifyBooks(b *strings.Builder, books verify.Books) {
	fmt.Fprintf(b, "Books of what was written, %s units:", ledger.Thousands(books.Written.Units))
	first := true
	for _, p := range ledger.Places() {
		if a := books.Places[p]; a != (ledger.Amount{}) {
			if !first {
				b.WriteByte(',')
			}
			first = false
			fmt.Fprintf(b, " %s %s", p.Words(), ledger.Thousands(a.Units))
		}
	}
	if first {
		b.WriteString(" none")
	}
	if books.Balanced {
		b.WriteString(". They balance.\n")
		return
	}
	b.WriteString(". They do NOT balance:\n")
	for _, line := range books.Imbalances {
		fmt.Fprintf(b, "  %s\n", line)
	}
}
