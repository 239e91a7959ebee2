package costs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/functions"
)

const (
	bookFile = "testdata/requests.json"

	// dynalite makes 130 to 300 updates a second, so that 100,000 rows take six to fifteen minutes: they are played on request
	// (-args -full), and every test run plays 5,000. Requests, entries and items go with the groups (TestTheLargePlayIsOfTheSameCode).
	//
	// In volume dynalite's index shows a few entries less than there are, 33 of 100,000: it files an entry under 24 bits of a hash of the
	// item's key where all else is equal, and of two that agree there it keeps one.
	someGroups, allGroups = 50, 1000

	closing       = 50 // licenses in their last hour
	writerMinutes = 10

	quietQuarter = "a quiet quarter of an hour: all slices of the discoverer"
	quietFive    = "five quiet minutes: flush, submission, expiry"
	closingFive  = "five quiet minutes with 50 licenses in their last hour"
	writerMinute = "ten minutes of a meter through the writer, rows of a minute"
	writerSecond = "ten minutes of a meter through the writer, rows of a second"
)

func busy(groups int) string { return fmt.Sprintf("%d groups of %d rows", groups, perGroup) }

func read(t *testing.T) Book {
	t.Helper()
	book := Book{}
	text, err := os.ReadFile(bookFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err == nil {
		fatal(t, json.Unmarshal(text, &book))
	}
	return book
}

// The play of 1,000 groups is not part of every test run. What depends on the groups must be twenty times that of 50, or it is of
// other code.
func TestTheLargePlayIsOfTheSameCode(t *testing.T) {
	t.Parallel()
	book := read(t)
	const times = allGroups / someGroups
	var small, large Section
	for _, r := range book[busy(someGroups)] {
		if byGroup(r.Class) {
			t := r.Tally
			small = append(small, Row{r.Class, Tally{t.Requests * times, t.Entries * times, t.Items * times, t.Units * times, t.IndexUnits * times, t.Bytes * times}})
		}
	}
	for _, r := range book[busy(allGroups)] {
		if byGroup(r.Class) {
			large = append(large, r)
		}
	}
	if len(small) == 0 {
		t.Errorf("%s holds no play of %d groups", bookFile, someGroups)
	}
	for _, problem := range large.Against(small) {
		t.Errorf("%d groups against %d times %d: %s. Try: go test ./internal/costs -timeout 60m -args -update -full", allGroups, times, someGroups, problem)
	}
}

// byGroup reports whether a class has its due of every group. The discoverer and the submitter ask once a run what is there, and a
// log has lines of its own for each process.
func byGroup(c Class) bool {
	once := c.Stage == functions.Discoverer || c.Stage == functions.Submitter && c.Resource != "table aggregated-usage"
	return !once && c.Operation != "PutLogEvents"
}

// The tables of docs/cost.md are what the counts say.
func TestTheDocsAreTheCounts(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/cost.md")
	if err != nil {
		t.Fatal(err)
	}
	for head, bill := range bills(read(t)) {
		t.Logf("%s\n%s", head, strings.Join(bill.Table(), "\n"))
		if diff := cmp.Diff(bill.Table(), below(string(text), head)); diff != "" {
			t.Errorf("docs/cost.md, under %q; want\n%s\n%s", head, strings.Join(bill.Table(), "\n"), diff)
		}
	}
}

// The processor time that the bills rest on is the one that docs/performance.md says was measured.
func TestTheProcessorTimeIsTheMeasured(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, handler := range []string{functions.Discoverer, functions.Aggregator, functions.Cleanup} {
		if row := fmt.Sprintf("\n| `%s` | %v s |", handler, processor(handler)); !strings.Contains(string(text), row) {
			t.Errorf("docs/performance.md has no row %q", row)
		}
	}
}

// bills are the tables of docs/cost.md by their headings.
func bills(book Book) map[string]Bill {
	rows := PerMillionRows(book[busy(allGroups)], allGroups*perGroup)
	return map[string]Bill{
		"## A million rows":                       rows,
		"### What is kept, a month":               Kept(book[busy(allGroups)], allGroups*perGroup),
		"## A quiet month":                        QuietMonth(book[quietQuarter], book[quietFive]),
		"### 50 licenses in their last hour":      QuietMonth(book[quietQuarter], book[closingFive]),
		"### One meter a month, rows of a minute": MeterMonth(book[writerMinute], writerMinutes, writerMinutes, rows),
		"### One meter a month, rows of a second": MeterMonth(book[writerSecond], writerMinutes, writerMinutes*60, rows),
	}
}

// below are the rows of the table below a heading, without its head.
func below(text, heading string) (rows []string) {
	_, after, _ := strings.Cut(text, "\n"+heading+"\n")
	after, _, _ = strings.Cut(after, "\n#")
	for line := range strings.Lines(after) {
		if strings.HasPrefix(line, "|") {
			rows = append(rows, strings.TrimSpace(line))
		}
	}
	return slices.Clone(rows[min(2, len(rows)):])
}
