package simulation

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/awsmp/metering/internal/ledger"
)

// Sound reports whether the law held.
func (r Result) Sound() bool { return len(r.Violated) == 0 }

// FaultCount is how many faults there were of all kinds.
func (r Result) FaultCount() int {
	n := 0
	for _, of := range r.Faults {
		n += of
	}
	return n
}

// Summary says in one line how much was played.
func (r Result) Summary() string {
	return fmt.Sprintf("%s virtual days of %s, %s, %s, %s", days(r.Days), ledger.Counted(int64(r.Seeds), "seed"),
		ledger.Counted(int64(r.Events), "event"), ledger.Counted(int64(r.FaultCount()), "fault"), ledger.Counted(int64(len(r.Violated)), "violation"))
}

func days(n float64) string {
	if n >= 1000 {
		return ledger.Thousands(int64(n))
	}
	return fmt.Sprintf("%.1f", n)
}

// WriteTable writes what was played and found, for people.
func (r Result) WriteTable(w io.Writer) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(name string, value any) { fmt.Fprintf(t, "  %-44s\t%v\t\n", name, value) }
	line("virtual days", days(r.Days))
	line("seeds", ledger.Thousands(int64(r.Seeds)))
	line("events", ledger.Thousands(int64(r.Events)))
	line("faults", ledger.Thousands(int64(r.FaultCount())))
	for _, kind := range FaultKinds() {
		line("  "+string(kind), ledger.Thousands(int64(r.Faults[kind])))
	}
	line("units written", ledger.Thousands(r.Books.Written.Units))
	for _, p := range ledger.Places() {
		line("  "+p.Words(), ledger.Thousands(r.Books.Place(p).Units))
	}
	line("imbalances", ledger.Thousands(int64(len(r.Violated))))
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Document is a result for programs.
type Document struct {
	Seed       uint64                 `json:"seed"` // of the first day
	Days       float64                `json:"days"`
	Seeds      int                    `json:"seeds"`
	Events     int                    `json:"events"`
	Faults     map[FaultKind]int      `json:"faults"`
	Written    int64                  `json:"written"`
	Units      map[ledger.Place]int64 `json:"units"` // by place
	Imbalances int                    `json:"imbalances"`
	Violated   []Violated             `json:"violated"`
	Story      *Story                 `json:"story,omitempty"` // of the first of them
}

// Document is the result of a proof that began with a seed.
func (r Result) Document(seed uint64) Document {
	d := Document{
		Seed: seed, Days: r.Days, Seeds: r.Seeds, Events: r.Events, Faults: r.Faults, Written: r.Books.Written.Units,
		Units: make(map[ledger.Place]int64), Imbalances: len(r.Violated), Violated: append([]Violated{}, r.Violated...),
	}
	for _, p := range ledger.Places() {
		d.Units[p] = r.Books.Place(p).Units
	}
	return d
}
