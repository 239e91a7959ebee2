package ledger

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/awsmp/metering/internal/metering"
)

// Sheet is a ledger to be shown, as a table or as a Document.
type Sheet struct {
	Report Report
	Check  *CrossCheck // nil: there is no other ledger to compare with
	Sold   int         // records in the Marketplace's own ledger
	Copy   *CopyNote   // nil: computed from the tables themselves
}

// Sound reports whether the books balance and the Marketplace's own ledger agrees.
func (s Sheet) Sound() bool { return s.Report.Balanced() && (s.Check == nil || s.Check.Equal()) }

// maxListed bounds what a table lists one by one; the Document has all of it.
const maxListed = 40

// WriteTable writes the ledger for a terminal.
func (s Sheet) WriteTable(w io.Writer) error {
	var b strings.Builder
	r := s.Report
	fmt.Fprintf(&b, "Ledger of %s in %s, recomputed from the tables\n\n", Counted(int64(r.Groups), "group"), Counted(int64(len(r.Licenses)+r.LicensesMore), "license"))
	fmt.Fprintf(&b, "  %s\n\n", equation(r.Total))
	writePlaces(&b, r.Total)
	writeOpen(&b, r.Open, r.OpenMore)
	writeRemarks(&b, r.Total)
	if s.Copy != nil {
		b.WriteString(s.Copy.text() + "\n\n")
	}
	writeLicenses(&b, r)
	writeBalance(&b, r)
	if s.Check != nil {
		writeCheck(&b, *s.Check, s.Sold)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeLicenses(b *strings.Builder, r Report) {
	switch {
	case r.found == nil:
		fmt.Fprintf(b, "Licenses (found by: %s)\n", r.FoundBy)
	case len(r.Licenses) == 0:
		fmt.Fprintf(b, "No license has usage in these hours (looked at: %s)\n", r.FoundBy)
	default:
		fmt.Fprintf(b, "Licenses with usage in these hours (found by: %s)\n", r.FoundBy)
	}
	for i, license := range r.Licenses {
		if i == maxListed {
			fmt.Fprintf(b, "  and %s more\n", Counted(int64(len(r.Licenses)-i+r.LicensesMore), "license"))
			break
		}
		fmt.Fprintf(b, "  %s\n", printable(license))
	}
	b.WriteByte('\n')
}

// equation is the law in figures, without the places that are empty.
func equation(total Balance) string {
	var terms []string
	for _, p := range Places() {
		if a := total.Place(p); a.Units > 0 || p == Billed {
			terms = append(terms, p.Words()+" "+Thousands(a.Units))
		}
	}
	sign := "="
	if total.Written.Units != total.Named() {
		sign = "≠"
	}
	return fmt.Sprintf("written %s %s %s", Thousands(total.Written.Units), sign, strings.Join(terms, " + "))
}

func writePlaces(b *strings.Builder, total Balance) {
	rows, units := len("rows")+8, len("units")+11
	for _, a := range append([]Amount{total.Written}, slices.Collect(maps.Values(total.Places))...) {
		rows, units = max(rows, len(Thousands(int64(a.Items)))), max(units, len(Thousands(a.Units)))
	}
	line := fmt.Sprintf("  %%-10s %%%ds %%%ds\n", rows, units)
	fmt.Fprintf(b, line, "", "rows", "units")
	fmt.Fprintf(b, line, "written", Thousands(int64(total.Written.Items)), Thousands(total.Written.Units))
	for _, p := range Places() {
		a := total.Place(p)
		if a == (Amount{}) && p != Billed {
			continue
		}
		fmt.Fprintf(b, line, p.Words(), Thousands(int64(a.Items)), Thousands(a.Units))
		for _, c := range causesOf(total, p) {
			fmt.Fprintf(b, "    %s: %s\n", c.Code, c.What)
			fmt.Fprintf(b, "      %s. %s\n", amountText(c.Amount), c.Do)
		}
	}
	b.WriteByte('\n')
}

// amountText leaves out rows where there are none: growth is counted with the row that grew.
func amountText(a Amount) string {
	if a.Items == 0 {
		return Counted(a.Units, "unit")
	}
	return Counted(int64(a.Items), "row") + ", " + Counted(a.Units, "unit")
}

// cause is an explained part of a place.
type cause struct {
	Explanation
	Amount
	over bool
}

// causesOf are the causes of one place, those that share an explanation added up, the largest first.
func causesOf(b Balance, p Place) []cause {
	type part struct {
		Explanation
		over bool
	}
	sums := make(map[part]Amount)
	for c, a := range b.Places {
		if e := c.Explain(); c.Place == p && e != (Explanation{}) {
			sum := sums[part{e, c.Over}]
			sum.add(a)
			sums[part{e, c.Over}] = sum
		}
	}
	out := make([]cause, 0, len(sums))
	for of, a := range sums {
		out = append(out, cause{of.Explanation, a, of.over})
	}
	slices.SortFunc(out, func(x, y cause) int {
		return cmp.Or(cmp.Compare(y.Units, x.Units), cmp.Compare(y.Items, x.Items), cmp.Compare(x.Code, y.Code), boolOrder(x.over, y.over))
	})
	return out
}

// moreGroups says that a list of groups goes on, and where it can be had: beyond is the number of those that not even a document lists.
func moreGroups(b *strings.Builder, left, beyond int) {
	if left+beyond <= 0 {
		return
	}
	how := "lists all of them"
	if beyond > 0 {
		how = fmt.Sprintf("lists %s of them, --license and --hour narrow the list", Thousands(MaxOpen))
	}
	fmt.Fprintf(b, "  and %s more: --json %s\n", Counted(int64(left+beyond), "group"), how)
}

func writeOpen(b *strings.Builder, open []Balance, beyond int) {
	if len(open) == 0 {
		return
	}
	b.WriteString("Hours that are not billed in full\n")
	width := len("UNITS") + 4
	var lines []openLine
	for _, g := range open[:min(len(open), maxListed)] {
		lines = append(lines, openLines(g)...)
	}
	for _, l := range lines {
		width = max(width, len(l.units))
	}
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "  LICENSE\tACCOUNT\tDIMENSION\tHOUR\t%*s\tWHERE AND WHY\n", width, "UNITS")
	for _, l := range lines {
		fmt.Fprintf(table, "  %s\t%s\t%s\t%s\t%*s\t%s\n", Short(l.License), Shown(l.Account), Shown(l.Dimension), hourText(l.Hour), width, l.units, l.where)
	}
	_ = table.Flush() // a strings.Builder never fails
	moreGroups(b, max(0, len(open)-maxListed), beyond)
	b.WriteByte('\n')
}

// openLine is a part of a group that is not billed.
type openLine struct {
	metering.Group
	units, where string
}

// openLines are the units of a group that are not billed and why.
func openLines(g Balance) (lines []openLine) {
	add := func(units int64, where string) { lines = append(lines, openLine{g.Group, Thousands(units), where}) }
	for _, p := range Places() {
		for _, c := range causesOf(g, p) {
			where := p.Words() + ": " + c.Code
			if c.over {
				where += ", for good"
			}
			add(c.Units, where)
		}
	}
	if g.Withdraw.Items > 0 {
		add(g.Withdraw.Units, "withdrawn: committed, and no longer in the rows")
	}
	if g.Stale > 0 {
		add(0, "stale label: the next visit heals it")
	}
	if len(g.Findings) > 0 {
		add(g.Written.Units-g.Named(), "in no place: see below")
	}
	return lines
}

func writeRemarks(b *strings.Builder, total Balance) {
	var lines []string
	if total.Unknown > 0 {
		lines = append(lines, fmt.Sprintf("%s: the quantity is no number that can be counted, so the units are unknown", Counted(int64(total.Unknown), "row")))
	}
	if total.Withdraw.Items > 0 {
		lines = append(lines, fmt.Sprintf("%s, %s: changed or deleted after the commit; what was committed stands",
			Counted(int64(total.Withdraw.Items), "row"), Counted(total.Withdraw.Units, "unit")))
	}
	if total.Stale > 0 {
		lines = append(lines, fmt.Sprintf("%s: committed, and still labelled otherwise; the next visit heals it", Counted(int64(total.Stale), "row")))
	}
	if len(lines) > 0 {
		fmt.Fprintf(b, "To know\n  %s\n\n", strings.Join(lines, "\n  "))
	}
}

func writeBalance(b *strings.Builder, r Report) {
	if r.Balanced() {
		b.WriteString("Balanced: every unit is accounted for.\n")
		return
	}
	fmt.Fprintf(b, "NOT BALANCED: %s written, %s in a place.\n", Counted(r.Total.Written.Units, "unit"), Counted(r.Total.Named(), "unit"))
	for i, g := range r.Imbalances {
		if i == maxListed {
			break
		}
		fmt.Fprintf(b, "  %s %s %s %s: written %s, in a place %s\n", Short(g.Group.License), Shown(g.Group.Account), Shown(g.Group.Dimension),
			hourText(g.Group.Hour), Thousands(g.Written.Units), Thousands(g.Named()))
		for _, f := range g.Findings {
			fmt.Fprintf(b, "    %s\n", printable(f))
		}
	}
	moreGroups(b, max(0, len(r.Imbalances)-maxListed), r.ImbalancesMore)
}

func writeCheck(b *strings.Builder, c CrossCheck, records int) {
	fmt.Fprintf(b, "Marketplace's own ledger: %s in %s", Counted(c.Theirs, "unit"), Counted(int64(records), "record"))
	switch {
	case c.Equal() && len(c.Explained) == 0:
		b.WriteString(" — equal to ours.\n")
	case c.Equal():
		fmt.Fprintf(b, " — ours has %s, and each difference has its name:\n", Counted(c.Ours, "unit"))
	default:
		fmt.Fprintf(b, " — DIFFERS from ours, %s:\n", Counted(c.Ours, "unit"))
	}
	for i, d := range slices.Concat(c.Differences, c.Explained) {
		if i == maxListed {
			b.WriteString("  and more: --json lists all of them\n")
			break
		}
		fmt.Fprintf(b, "  %s %s %s %s: ours %s, theirs %s: %s\n", Short(d.Customer), Shown(d.Account), Shown(d.Dimension), hourText(d.Hour),
			Thousands(d.Ours), Thousands(d.Theirs), d.Note)
	}
}

// Short is a license as a person tells it from others: of an ARN the beginning and the end of its last part.
func Short(license string) string {
	if strings.HasPrefix(license, "arn:") {
		license = license[strings.LastIndexByte(license, ':')+1:]
	}
	runes := []rune(license)
	if len(runes) > 20 {
		license = string(runes[:6]) + "…" + string(runes[len(runes)-4:])
	}
	return Shown(license)
}

// Shown is a text as a table can show it: short, and without control characters.
func Shown(s string) string {
	if s == "" {
		return "-"
	}
	s = printable(s)
	if runes := []rune(s); len(runes) > 40 {
		s = string(runes[:39]) + "…"
	}
	return s
}

// printable quotes a text that holds control characters: what stands in a table must not steer a terminal.
func printable(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// hourText is a group's hour; rows whose key names none have the zero hour.
func hourText(h metering.Hour) string {
	if h == 0 {
		return "-"
	}
	return h.String()
}

// Thousands writes a number with commas.
func Thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	start := len(s) % 3
	if n < 0 {
		start = 1 + (len(s)-1)%3
	}
	var b strings.Builder
	b.WriteString(s[:start])
	for i := start; i < len(s); i += 3 {
		if b.Len() > 0 && b.String() != "-" {
			b.WriteByte(',')
		}
		b.WriteString(s[i : i+3])
	}
	return b.String()
}

// Counted writes a number with its noun.
func Counted(n int64, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Thousands(n) + " " + noun + "s"
}
