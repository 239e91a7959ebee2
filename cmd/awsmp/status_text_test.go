package main

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
)

// What wants somebody stands before what is only to be known, what was not looked at before both, and no error is shown whole.
func TestStatusText(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)
	s := desk.Status{
		Place: "stack x", Now: now, ProductCode: "example", Gaps: []string{"queues: denied"},
		Findings: []desk.Finding{
			{Alarm: "usage-late", What: "the alarm rings", Since: now.Add(-time.Hour), Fix: "awsmp late list"},
			{Alarm: "work-age", What: "1 row", Since: now.Add(-time.Hour), Left: "20h40m0s"},
			{Alarm: "deprovision-work-age", Kind: desk.KindAlarms, What: "32 alarms (a, b, c and 29 more) are without an action"},
			{Alarm: "usage-submission-expired", Kind: desk.KindKnown, What: "1 record", Fix: "awsmp ledger"},
		},
		Waiting: []desk.Waiting{
			{Bucket: "2026-03-10T12", Rows: 1, LostIn: "20h40m0s", Ended: 1}, {Bucket: "2026-03-10T13", Rows: 2, LostIn: "40m0s", LastHour: true, Ended: 1},
		},
		Stages: []desk.Stage{
			{Name: "submitter", Off: true, Last: "failed", Runs: 2, Failures: 1, Error: `send: operation error Marketplace Metering: BatchMeterUsage, https response error StatusCode: 400, RequestID: 7c4a, api error AccessDeniedException: not allowed` + "\nTry: x"},
			{Name: "cleanup"},
		},
	}
	var b bytes.Buffer
	writeStatus(&b, s, "", desk.Style{})
	want := `Stack x, product example
Now: 2026-03-10 15:20:00 UTC

Not looked at:
  queues: denied

Wants you, the most urgent first:
  usage-late: the alarm rings since 03-10 14:20
    awsmp late list
  work-age: 1 row; its alarm rings since 03-10 14:20; 20h40m left
  alarms: 32 alarms (a, b, c and 29 more) are without an action

To know; nothing brings it back:
  usage-submission-expired: 1 record
    awsmp ledger

Waiting:
  HOUR           ROWS  RECORDS  UNITS  CAN BE BILLED FOR
  2026-03-10T12  1     0        0      refused: its license has ended
  2026-03-10T13  2     0        0      40m0s, a last hour; 1 of ended licenses are refused

STAGE      LAST RUN  NEXT RUN         DID
submitter  -         none: it is off  failed; 1 of 2 runs failed: send: Marketplace Metering: BatchMeterUsage: AccessDeniedException: not allowed
cleanup    -         when asked       -
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

// Text is as wide as the reader's window says, and no wider than is read well.
func TestTextWidth(t *testing.T) {
	for columns, want := range map[string]int{"": textWidth, "60": 60, "10": 40, "300": textWidth, "x": textWidth} {
		t.Setenv("COLUMNS", columns)
		got := widthOf(io.Discard)
		if got != want {
			t.Errorf("COLUMNS=%q: %d, want %d", columns, got, want)
		}
		for line := range strings.Lines(wrapped(strings.Repeat("word ", 80), "  ", got)) {
			if len(line) > got+1 {
				t.Errorf("COLUMNS=%q: a line of %d", columns, len(line))
			}
		}
	}
	if got := widthOf(os.Stderr); got < 40 {
		t.Errorf("width %d", got)
	}
}

// A terminal keeps what has scrolled away, and gets no sequences where it is dumb or NO_COLOR is set.
func TestNextScreen(t *testing.T) {
	for _, tt := range []struct{ term, noColor, want string }{{"xterm", "", "\x1b[H\x1b[2J"}, {"dumb", "", "\n"}, {"xterm", "1", "\n"}} {
		t.Setenv("TERM", tt.term)
		t.Setenv("NO_COLOR", tt.noColor)
		if got := nextScreen(styleOf(true)); got != tt.want {
			t.Errorf("TERM=%s NO_COLOR=%s: %q, want %q", tt.term, tt.noColor, got, tt.want)
		}
	}
}

// A terminal gets the first rows, a pipe all that are known. What is to be done comes in its order, and what was given up has no advice.
func TestGroupStory(t *testing.T) {
	t.Parallel()
	s := desk.Story{License: "l", Account: "111122223333", Dimension: "api_calls", Hour: "2026-03-10T14", LastHour: true, Left: "40m0s", LostAt: time.Date(2026, 3, 10, 16, 0, 30, 0, time.UTC), Causes: []desk.StoryCause{
		{Place: ledger.Rejected, Code: "NegativeQuantity", What: "a quantity is negative", Do: "Mend the row", Remedy: desk.Remedy{Help: true, Why: "yes", First: "mend it", Fix: "awsmp rejected retry", GiveUp: "awsmp rejected drop"}},
		{Place: ledger.Rejected, Code: ledger.CodeDropped, What: "given up", Do: "Nothing", Remedy: desk.Remedy{Why: "no: it was dropped"}},
	}}
	for range 25 {
		s.Rows = append(s.Rows, desk.StoryRow{Second: "2026-03-10T14:00:00"})
	}
	for most, more := range map[int]string{20: "\n  and 5 rows more: ", 25: ""} {
		var b strings.Builder
		writeGroupStory(&b, s, most)
		text := b.String()
		if strings.Count(text, "2026-03-10T14:00:00") != most || strings.Contains(text, "rows more: ") != (more != "") || !strings.Contains(text, more) {
			t.Errorf("with %d rows:\n%s", most, text)
		}
		if !strings.Contains(text, "\n  First: mend it\n  Fix: awsmp rejected retry\n  Or give it up: awsmp rejected drop\n") || strings.Contains(text, "In general") {
			t.Errorf("causes:\n%s", text)
		}
		if !strings.Contains(text, "  it can be billed for 40m more, until 2026-03-10 16:00:30 UTC, when the license's last hour ends\n") {
			t.Errorf("time left:\n%s", text)
		}
	}
}
