package importer

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/usagefile"
)

// FuzzImport: of whatever a file holds, each line is written once or named once with its number; what is written is the sum of the lines
// that were taken, and is of rows that the pipeline takes; the same file again writes nothing; and the refused lines stand in the file of
// refused lines as they stood.
func FuzzImport(f *testing.F) {
	row := strings.TrimSuffix(csvLine("api_calls", "11:05:07", "3"), "\n")
	f.Add(header+row+"\n"+row+"\r\n"+csvLine("api_calls", "11:05:59", "4")+csvLine("b", "12:29:59", "2.5")+csvLine("b", "13:29:59", "1")+csvLine("b", "11:00:00", "2147483647"), ".csv", true)
	f.Add("\ufeff# remark\n"+header+"\n"+row+`"[{""AllocatedUsageQuantity"": 3}]"`+"\n"+row+"\n"+csvLine("a#b\"", "10:00:00", "1")+"\"\n\xff\n"+row, ".csv", false)
	f.Add(header+csvLine("late", "08:00:00", "5")+csvLine("late", "08:00:01", "-5")+strings.ReplaceAll(row, "111122223333", "11112222333"), ".csv", true)
	f.Add(`{"licenseArn":"`+license+`","customerAWSAccountId":"111122223333","dimension":"api","timestamp":"2026-03-10T11:00:00","quantity":3}`+"\n"+
		`{"licenseArn":"prod","customerAWSAccountId":"111122223333","dimension":"api","timestamp":"2026-03-10T11:00:00","quantity":3.0,"customerIdentifier":"c"}`+"\n{\"dimension\":7}\n[1]\n", ".ndjson", true)
	f.Add(`{"licenseArn":"`+license+`","customerAWSAccountId":"111122223333","dimension":"a\ud800","timestamp":"2026-02-28T23:00:00","quantity":3,"usageAllocations":[{"AllocatedUsageQuantity":3,"Tags":[{"Key":"a","Value":"b"}]}]}`, ".ndjson", false)
	f.Fuzz(func(t *testing.T, text, ext string, committed bool) {
		if ext != ".csv" && ext != ".ndjson" {
			t.Skip()
		}
		w := newWorld()
		if committed {
			w.commit(t, "late", metering.HourOf(noon())-4)
		}
		source, err := OpenFile(t.Context(), write(t, "usage"+ext, text), nil)
		if err != nil {
			if _, ok := errors.AsType[*usagefile.FileError](err); !ok {
				t.Errorf("%#v", err)
			}
			return
		}
		defer source.Close()
		out, err := importSource(t.Context(), t, w, source, func(im *Import) { im.Limits = Limits{Lines: 2} })
		if _, fault := errors.AsType[*usagefile.FileError](err); err != nil && !fault {
			t.Fatal(err)
		}
		rows, sum := w.held(t)
		if sum != out.Taken.Units+out.Late.Units || out.Made != len(rows) || out.Late.Lines != out.Tardy.Count || (err == nil) != out.Complete {
			t.Errorf("%d rows hold %d units: %+v, %v", len(rows), sum, out, err)
		}
		w.valid(t)
		named := wantNames(t, text, out)

		again, err := importSource(t.Context(), t, w, source, func(im *Import) { im.Limits = Limits{Lines: 2} })
		if diff := cmp.Diff(rows, first(w.held(t))); diff != "" || (err == nil) != again.Complete {
			t.Errorf("the same file again, %v:\n%s", err, diff)
		}
		if again.Taken != out.Taken || again.Late != out.Late || again.Made != 0 || again.Grew != 0 || again.Before.Units != sum || again.Refused.Count != out.Refused.Count {
			t.Errorf("first %+v, then %+v", out, again)
		}
		var refused bytes.Buffer
		if err := out.writeRefused(&refused); err != nil {
			t.Fatal(err)
		}
		wantRefused(t, source, refused.String(), text, named)
	})
}

func first[A, B any](a A, _ B) A { return a }

// valid checks all rows by the pipeline's own rules.
func (w *world) valid(t *testing.T) {
	t.Helper()
	for l, err := range w.Licenses(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for row, err := range w.LicenseRows(t.Context(), l) {
			if reason := row.Validate(noon()); err != nil || reason != "" {
				t.Errorf("%s is written, and would be refused: %s, %v", row.SortKey, reason, err)
			}
		}
	}
}

// wantNames checks that the lines that are named stand in the file, each once and in order, and returns those that can be mended.
func wantNames(t *testing.T, text string, out *Outcome) (mendable []Named) {
	t.Helper()
	lines := strings.SplitAfter(text, "\n")
	for _, list := range []*Names{&out.Refused, &out.Tardy} {
		before := 0
		for _, l := range names(t, list) {
			if l.Line <= before || l.Line > len(lines) || text[l.offset:l.offset+l.size] != lines[l.Line-1] || l.Code == "" || l.Reason == "" || l.Hint == "" {
				t.Errorf("line %+v after line %d", l, before)
			}
			before = l.Line
			if list == &out.Refused && !l.Waits() {
				mendable = append(mendable, l)
			}
		}
	}
	if len(mendable) != out.Mendable() {
		t.Errorf("%d lines can be mended, of %d it is said", len(mendable), out.Mendable())
	}
	return mendable
}

// wantRefused checks the file of refused lines: read as usage it has those lines and no others. NDJSON whose first refused line looks like
// another kind of file is left to the person who mends it.
func wantRefused(t *testing.T, source *Source, refused, text string, named []Named) {
	t.Helper()
	file, err := usagefile.Open(strings.NewReader(refused), usagefile.Options{Format: source.Format})
	if err != nil {
		if source.Format == usagefile.CSV {
			t.Errorf("%v:\n%s", err, refused)
		}
		return
	}
	for line, err := range file.Lines() {
		if errors.As(err, new(*usagefile.FileError)) {
			break
		}
		if len(named) == 0 {
			t.Fatalf("a line more than was refused: %q", refused[line.Offset:line.Offset+line.Size])
		}
		was := text[named[0].offset : named[0].offset+named[0].size]
		if is := refused[line.Offset : line.Offset+line.Size]; is != was && is != was+"\n" {
			t.Errorf("refused as %q, was %q", is, was)
		}
		named = named[1:]
	}
	if len(named) > 0 {
		t.Errorf("lines are missing: %+v\n%s", named, refused)
	}
}
