package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// score counts the verdicts.
type score struct {
	mutants, killed, timeouts, survived, equivalent, faults int
}

func (s *score) add(r result) {
	s.mutants++
	switch r.verdict {
	case killed:
		s.killed++
		if r.timeout {
			s.timeouts++
		}
	case survived:
		s.survived++
	case equivalent:
		s.equivalent++
	default:
		s.faults++
	}
}

// percent is how many of those that a test can tell from the original were noticed.
func (s score) percent() float64 {
	if s.killed+s.survived == 0 {
		return 0
	}
	return 100 * float64(s.killed) / float64(s.killed+s.survived)
}

// report prints what became of the mutations, one line for each.
type report interface {
	begin(number, of int, m mutation)
	end(result)
	close(score, time.Duration)
}

// lines is the report for people.
type lines struct{ out io.Writer }

func (l lines) begin(number, of int, m mutation) {
	fmt.Fprintf(l.out, "%*d/%d  %s  ", len(fmt.Sprint(of)), number, of, m.where())
}

func (l lines) end(r result) {
	took := r.took.Round(100 * time.Millisecond)
	switch r.verdict {
	case killed:
		how := "killed by"
		if r.timeout {
			how = "killed by timeout of"
		}
		fmt.Fprintf(l.out, "%s %s (%v)\n", how, r.by, took)
	case survived:
		fmt.Fprintf(l.out, "SURVIVED (%v)\n    No test notices, though: %s\n    Tried: %s\n", took, r.breaks, names(r.tests))
	case equivalent:
		fmt.Fprintf(l.out, "equivalent (%v): %s\n", took, r.equivalent)
	default:
		fmt.Fprintf(l.out, "FAULT (%v): %s\n", took, strings.ReplaceAll(strings.TrimSpace(r.why), "\n", "\n    "))
	}
}

func (l lines) close(s score, took time.Duration) {
	fmt.Fprintf(l.out, "\n%d mutants: %d killed (%d by timeout), %d survived, %d equivalent, %d faults; score %.1f%% in %v\n",
		s.mutants, s.killed, s.timeouts, s.survived, s.equivalent, s.faults, s.percent(), took.Round(time.Second))
}

func names(suites []suite) string {
	var list []string
	for _, s := range suites {
		list = append(list, s.String())
	}
	return strings.Join(list, ", ")
}

// documents is the report for programs: a JSON document a line, and one at the end that counts them.
type documents struct{ out *json.Encoder }

func (d documents) begin(int, int, mutation) {}

func (d documents) end(r result) {
	_ = d.out.Encode(struct {
		Name       string   `json:"name"`
		File       string   `json:"file"`
		Breaks     string   `json:"breaks"`
		Tests      []string `json:"tests"`
		Verdict    verdict  `json:"verdict"`
		By         string   `json:"by,omitempty"`
		Timeout    bool     `json:"timeout,omitempty"`
		Equivalent string   `json:"equivalent,omitempty"`
		Fault      string   `json:"fault,omitempty"`
		Seconds    float64  `json:"seconds"`
	}{r.name, r.file, r.breaks, strings.Split(names(r.tests), ", "), r.verdict, r.by, r.timeout, r.mutation.equivalent, r.why, r.took.Seconds()})
}

func (d documents) close(s score, took time.Duration) {
	_ = d.out.Encode(struct {
		Mutants    int     `json:"mutants"`
		Killed     int     `json:"killed"`
		Timeouts   int     `json:"timeouts"`
		Survived   int     `json:"survived"`
		Equivalent int     `json:"equivalent"`
		Faults     int     `json:"faults"`
		Percent    float64 `json:"percent"`
		Seconds    float64 `json:"seconds"`
	}{s.mutants, s.killed, s.timeouts, s.survived, s.equivalent, s.faults, s.percent(), took.Seconds()})
}
