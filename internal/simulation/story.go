package simulation

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Story is a day made short: of the seed's moves and faults only those that it names happen. It is played again exactly, by the same
// version of the program.
type Story struct {
	Seed      uint64    `json:"seed"`
	Moves     []int     `json:"moves"`  // by their number in the seed's plan
	Faults    []string  `json:"faults"` // by name
	Violation Violation `json:"violation"`
}

// Line is one line of a story as it is told.
type Line struct {
	At   time.Time `json:"at"`
	Who  string    `json:"who"`
	Text string    `json:"text"`
}

func (s *Story) faults() map[string]bool {
	set := make(map[string]bool, len(s.Faults))
	for _, f := range s.Faults {
		set[f] = true
	}
	return set
}

// includes reports whether a move happens; without a story all do.
func (s *Story) includes(move int) bool { return s == nil || slices.Contains(s.Moves, move) }

// ReadStory reads a story that was written with Write.
func ReadStory(r io.Reader) (*Story, error) {
	var s Story
	d := json.NewDecoder(r)
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("read story: %w", err)
	}
	if s.Violation.Rule == "" {
		return nil, errors.New("read story: it names no rule that is broken")
	}
	plan := draw(s.Seed)
	for _, m := range s.Moves {
		if m < 0 || m >= len(plan.moves) {
			return nil, fmt.Errorf("read story: the day of seed %d has %d moves, none is number %d; was it written by another version?", s.Seed, len(plan.moves), m)
		}
	}
	return &s, nil
}

// Write writes the story as JSON.
func (s *Story) Write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(s)
}

// Tell plays a story and returns what is to be told of it: everything that happened to the group whose law is broken, and what came
// from outside. It fails if the day now takes another course.
func Tell(s *Story) ([]Line, Day, error) {
	var all []Line
	d, err := Play(s.Seed, s, func(l Line) { all = append(all, l) })
	if err != nil {
		return nil, d, err
	}
	if d.Violation == nil {
		return all, d, errors.New("tell story: the law holds now")
	}
	if d.Violation.Rule != s.Violation.Rule {
		return all, d, fmt.Errorf("tell story: another rule is broken now: %s", d.Violation.Rule)
	}
	return relevant(all, d.Violation.Group), d, nil
}

// relevant are the lines that speak of a group, and those that come from outside the pipeline.
func relevant(all []Line, group string) []Line {
	if group == "" {
		return all
	}
	return slices.DeleteFunc(all, func(l Line) bool {
		return inside(l.Who) && !strings.Contains(l.Text, group) && !isFault(l.Text)
	})
}

// inside reports whether who acts is a process of the pipeline.
func inside(who string) bool {
	return strings.Contains(who, " of ") && !strings.HasPrefix(who, "seller")
}

// isFault reports whether a line tells of something that went wrong: in a story made short each of them matters.
func isFault(text string) bool {
	for _, word := range []string{"stalls", "is throttled", "fails, and", "never hears", "is killed", "sees what the index", "is never started"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// WriteLines writes lines in columns, for people.
func WriteLines(w io.Writer, lines []Line) error {
	out := bufio.NewWriter(w)
	width := 0
	for _, l := range lines {
		width = max(width, len(l.Who))
	}
	for _, l := range lines {
		fmt.Fprintf(out, "%s  %-*s  %s\n", l.At.UTC().Format("01-02 15:04:05.000"), width, l.Who, l.Text)
	}
	return out.Flush()
}
