package desk

import (
	"fmt"
	"slices"
	"strings"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// Style is how a picture is drawn.
type Style struct {
	Colour bool // with the escape sequences of a terminal
	ASCII  bool // with no other characters
}

// levels are the heights of a column, the lowest first. Whatever holds anything has one.
func (s Style) levels() []string {
	if s.ASCII {
		return strings.Split(".:-=+*%#", "")
	}
	return strings.Split("▁▂▃▄▅▆▇█", "")
}

// nothing and unknown are the columns of an hour that holds nothing, and of one in which rows wait whose units nobody has added up.
func (s Style) nothing() string {
	if s.ASCII {
		return " "
	}
	return "·"
}

const unknown = "?"

// colours are the SGR codes of ECMA-48 by place: what needs nobody is calm, what was lost is red.
func colour(p ledger.Place) string {
	switch p {
	case ledger.Billed:
		return "32"
	case ledger.InFlight:
		return "36"
	case ledger.Late:
		return "33"
	case ledger.DryRun:
		return "34"
	case ledger.InDoubt:
		return "35"
	}
	return "31"
}

func (s Style) paint(p ledger.Place, text string) string {
	if !s.Colour || strings.Trim(text, " ·") == "" {
		return text
	}
	return "\x1b[" + colour(p) + "m" + text + "\x1b[0m"
}

// WritePicture draws hours and places: a column an hour, a line a place that holds something, each as high as its units are against the most
// of any. The sum of a line stands at its end. It draws nothing where there is nothing.
func (s Status) WritePicture(b *strings.Builder, style Style) {
	var top int64
	sums := make(map[ledger.Place]int64)
	unknowns := false
	for _, h := range s.Hours {
		for p, units := range h.Units {
			top, sums[p] = max(top, units), sums[p]+units
		}
		unknowns = unknowns || h.Unknown
	}
	if top == 0 && !unknowns {
		return
	}
	what := "by the hour of usage"
	if s.Today.By == ByCount {
		what = "by the hour in which they were counted, and what waits by its own"
	}
	fmt.Fprintf(b, "Units of the last %d hours, %s:\n", picturedHours, what)
	width := 0
	for _, p := range ledger.Places() {
		width = max(width, len(p.Words()))
	}
	for _, p := range ledger.Places() {
		waits := p == ledger.InFlight && unknowns
		if sums[p] == 0 && !waits && p != ledger.Billed {
			continue
		}
		var line strings.Builder
		for _, h := range s.Hours {
			line.WriteString(style.column(h, p, top))
		}
		total := ledger.Thousands(sums[p])
		if waits {
			total += " and rows whose units are not known (" + unknown + ")"
		}
		fmt.Fprintf(b, "  %-*s  %s  %s\n", width, p.Words(), style.paint(p, line.String()), total)
	}
	fmt.Fprintf(b, "  %-*s  %s\n\n", width, "", s.axis())
}

// column is one hour of one place.
func (s Style) column(h HourFates, p ledger.Place, top int64) string {
	units := h.Units[p]
	switch {
	case units > 0:
		levels := s.levels()
		return levels[min(int(units*int64(len(levels))/(top+1)), len(levels)-1)]
	case p == ledger.InFlight && h.Unknown:
		return unknown
	}
	return s.nothing()
}

// axis names every sixth hour of the day under its column, and the last one.
func (s Status) axis() string {
	line := slices.Repeat([]byte{' '}, len(s.Hours)+5)
	for i, h := range s.Hours {
		hour, err := metering.ParseHour(h.Hour)
		if err != nil || hour.Start().Hour()%6 != 0 || i+2 > len(s.Hours) {
			continue
		}
		copy(line[i:], fmt.Sprintf("%02d", hour.Start().Hour()))
	}
	return strings.TrimRight(string(line), " ")
}
