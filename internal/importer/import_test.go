package importer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/usagefile"
)

// Case 37: importing a file again adds nothing, whatever its name and way in.
func TestSameContentCountsOnce(t *testing.T) {
	t.Parallel()
	text := header + csvLine("a", "12:00:00", "3") + csvLine("a", "12:00:59", "4") + csvLine("a", "12:01:00", "5") + csvLine("b", "11:59:59", "1")
	w := newWorld()
	first, err := importFile(t, w, write(t, "usage.csv", text), nil)
	if err != nil || first.Taken != (Amount{4, 13}) || first.Made != 3 || first.Before.Lines != 0 || !first.Complete {
		t.Fatalf("first: %+v, %v", first, err)
	}
	rows, sum := w.held(t)
	if len(rows) != 3 || sum != 13 || rows[license+" 111122223333#a#2026-03-10T12:00:59"] != 7 {
		t.Fatalf("rows %v", rows)
	}
	again, err := importFile(t, w, write(t, "other.csv", text), nil)
	if err != nil || again.Taken != (Amount{4, 13}) || again.Made+again.Grew != 0 || again.Before != again.Taken {
		t.Fatalf("again: %+v, %v", again, err)
	}
	stream, err := OpenStream(t.Context(), "", strings.NewReader(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	piped, err := importSource(t.Context(), t, w, stream, nil)
	if err != nil || piped.Before != (Amount{4, 13}) {
		t.Fatalf("piped: %+v, %v", piped, err)
	}
	if after, _ := w.held(t); !cmp.Equal(rows, after) {
		t.Error(cmp.Diff(rows, after))
	}
	// Another file is another import, also of the same usage.
	if _, err := importFile(t, w, write(t, "more.csv", text+"# again\n"), nil); err != nil {
		t.Fatal(err)
	}
	if _, sum := w.held(t); sum != 26 {
		t.Errorf("sum %d, want 26", sum)
	}
}

// A run that comes back when the hour is committed, or over, finds what it has added, and names nothing of it as refused.
func TestSameContentCountsOnceWhateverTheHourHasBecome(t *testing.T) {
	t.Parallel()
	path := write(t, "usage.csv", header+csvLine("a", "11:00:00", "3")+csvLine("a", "11:30:00", "4"))
	w := newWorld()
	if _, err := importFile(t, w, path, nil); err != nil {
		t.Fatal(err)
	}
	w.commit(t, "a", metering.HourOf(noon())-1)
	for _, later := range []time.Duration{0, 48 * time.Hour} {
		out, err := importFile(t, w, path, func(im *Import) { im.Now = func() time.Time { return noon().Add(later) } })
		if err != nil || out.Taken != (Amount{2, 7}) || out.Before != out.Taken || out.Refused.Count != 0 {
			t.Errorf("%v later: %+v, %v", later, out, err)
		}
	}
}

// Whatever stops a run, and wherever: runs that follow complete it, and the rows are those of a run that nothing disturbed.
func TestInterruptedAnywhereAndRunAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	stopped, failed := 0, 0
	for seed := range uint64(disturbed) {
		random := rand.New(rand.NewPCG(seed, 1))
		path := filepath.Join(folder, fmt.Sprintf("%d.csv", seed))
		if err := os.WriteFile(path, []byte(randomFile(random, 1+random.IntN(60))), 0o600); err != nil {
			t.Fatal(err)
		}
		limits := Limits{Lines: 1 + random.IntN(20)}
		commits := seed%3 == 0
		synctest.Test(t, func(t *testing.T) {
			calm := newWorld()
			if _, err := importFile(t, calm, path, func(im *Import) { im.Limits = limits }); err != nil {
				t.Fatal(err)
			}
			w := newWorld()
			w.fail = func() (before, after bool) { return random.IntN(3) > 0, random.IntN(3) > 0 }
			var out *Outcome
			for run := 0; ; run++ {
				if run == 8 {
					w.fail = nil
				}
				ctx, cancel := context.WithCancel(t.Context())
				stopAt := random.IntN(60)
				var err error
				out, err = importFileFrom(ctx, t, w, path, func(im *Import) {
					im.Limits = limits
					im.Progress = func(_ int64, lines int) {
						if run < 8 && lines >= stopAt {
							cancel()
						}
					}
				})
				cancel()
				if err == nil {
					break
				}
				var stop *Stopped
				switch {
				case !errors.As(err, &stop):
					t.Fatalf("seed %d: %v", seed, err)
				case errors.Is(err, context.Canceled):
					stopped++
				default:
					failed++
				}
				if commits && run%2 == 0 {
					w.commit(t, string(rune('a'+random.IntN(3))), metering.HourOf(noon())-metering.Hour(random.IntN(5)))
				}
			}
			rows, sum := w.held(t)
			if sum != out.Taken.Units+out.Late.Units {
				t.Errorf("seed %d: the rows hold %d units, taken are %d and late %d", seed, sum, out.Taken.Units, out.Late.Units)
			}
			if want, _ := calm.held(t); !commits && !cmp.Equal(want, rows) {
				t.Errorf("seed %d: %s", seed, cmp.Diff(want, rows))
			}
		})
	}
	if stopped < disturbed/3 || failed < disturbed/3 {
		t.Errorf("%d runs were stopped and %d failed: too few to show anything", stopped, failed)
	}
}

func importFileFrom(ctx context.Context, t *testing.T, w *world, path string, change func(*Import)) (*Outcome, error) {
	t.Helper()
	source, err := OpenFile(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	return importSource(ctx, t, w, source, change)
}

func TestFates(t *testing.T) {
	t.Parallel()
	allocated := func(quantity, list string) string {
		return strings.TrimSuffix(csvLine("tagged", "12:00:00", quantity), "\n") + `"` + strings.ReplaceAll(list, `"`, `""`) + "\"\n"
	}
	for name, tt := range map[string]struct {
		line string
		want usagefile.Code // none where the line is taken
	}{
		"whole":                     {csvLine("d", "12:00:00", "7"), ""},
		"zero":                      {csvLine("d", "12:00:00", "0"), ""},
		"3.0 is 3":                  {csvLine("d", "12:00:00", "3.0"), ""},
		"this minute, not yet over": {csvLine("d", "12:30:10", "7"), ""},
		"allocated":                 {allocated("3", `[{"AllocatedUsageQuantity": 3, "Tags": [{"Key": "team", "Value": "blue"}]}]`), ""},
		"allocated 3.0":             {allocated("3", `[{"AllocatedUsageQuantity": 3.0, "Note": "x", "Tags": [{"Key": "team", "Value": "blue"}]}]`), ""},
		"half":                      {csvLine("d", "12:00:00", "2.5"), "NonIntegerQuantity"},
		"words":                     {csvLine("d", "12:00:00", "many"), "NonNumericQuantity"},
		"nothing":                   {csvLine("d", "12:00:00", ""), "MissingQuantity"},
		"negative":                  {csvLine("d", "12:00:00", "-1"), "NegativeQuantity"},
		"huge":                      {csvLine("d", "12:00:00", "1e30"), "QuantityOutOfRange"},
		"no dimension":              {csvLine("", "12:00:00", "1"), "MissingField"},
		"zone":                      {csvLine("d", "12:00:00Z", "1"), "MalformedTimestamp"},
		"wrong sum":                 {allocated("4", `[{"AllocatedUsageQuantity": 3}]`), "AllocationSumMismatch"},
		"bad tag":                   {allocated("3", `[{"AllocatedUsageQuantity": 3, "Tags": [{"Key": "k", "Value": "*"}]}]`), "InvalidTag"},
		"broken list":               {allocated("3", `[{`), "BrokenAllocations"},
		"account":                   {strings.Replace(csvLine("d", "12:00:00", "1"), ",1111", ",111", 1), "InvalidCustomerAWSAccountId"},
		"license":                   {strings.Replace(csvLine("d", "12:00:00", "1"), "arn:aws:", "arn:", 1), "InvalidLicenseArn"},
		"no identifier":             {strings.Replace(csvLine("d", "12:00:00", "1"), license, "legacy", 1), "MissingLegacyIdentifier"},
		"cells":                     {"a,b\n", "WrongCellCount"},
		"six minutes ahead":         {csvLine("d", "12:36:00", "1"), "TimestampInFuture"},
		"its minute ends too far":   {csvLine("d", "12:35:00", "1"), "TimestampInFuture"},
		"hour closed":               {strings.Replace(csvLine("d", "12:00:00", "1"), "03-10", "03-09", 1), "HourClosed"},
		"hour committed":            {csvLine("done", "11:00:00", "1"), "HourCommitted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.commit(t, "done", metering.HourOf(noon())-1)
			out, err := importFile(t, w, write(t, "usage.csv", header+tt.line), nil)
			if err != nil || out.Lines != 1 {
				t.Fatalf("%+v, %v", out, err)
			}
			if tt.want == "" {
				if _, sum := w.held(t); out.Taken.Lines != 1 || sum != out.Taken.Units {
					t.Errorf("%+v: %v", out, names(t, &out.Refused))
				}
				return
			}
			if got := names(t, &out.Refused); len(got) != 1 || got[0].Code != tt.want || got[0].Line != 2 || got[0].Reason == "" || got[0].Hint == "" {
				t.Errorf("refused %+v, want %s", got, tt.want)
			}
			if rows, _ := w.held(t); len(rows) != 0 {
				t.Errorf("rows %v", rows)
			}
		})
	}
}

// A key or a bucket that a line gives is taken if it is right; the writer derives both.
func TestGivenKeys(t *testing.T) {
	t.Parallel()
	text := `{"licenseArn": "` + license + `", "customerAWSAccountId": "111122223333", "dimension": "d", "timestamp": "2026-03-10T12:00:09", "quantity": 1, %s}` + "\n"
	var file strings.Builder
	for _, more := range []string{
		`"meteringPending": "2026-03-10T12", "customerAWSAccountId_dimension_timestamp": "111122223333#d#2026-03-10T12:00:09"`,
		`"meteringPending": null`,
		`"meteringPending": "2026-03-10T14"`,
		`"customerAWSAccountId_dimension_timestamp": "111122223333#d#2026-03-10T12:00:10"`,
	} {
		fmt.Fprintf(&file, text, more)
	}
	out, err := importFile(t, newWorld(), write(t, "usage.ndjson", file.String()), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []Named{
		{Line: 3, Code: "SortKeyMismatch", Reason: `its meteringPending "2026-03-10T14" is not the hour of its timestamp`, Hint: "leave it empty, or write 2026-03-10T12"},
		{Line: 4, Code: "SortKeyMismatch", Reason: "the sort key says something else than the attributes", Hint: "leave customerAWSAccountId_dimension_timestamp empty: it is derived from account, dimension and timestamp"},
	}
	got := names(t, &out.Refused)
	for i := range got {
		got[i].offset, got[i].size = 0, 0
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Named{})); diff != "" {
		t.Error(diff)
	}
}

// A line of a minute that is not over yet is never taken without its neighbours: they would be another batch in the next run.
func TestMinuteIsTakenWhole(t *testing.T) {
	t.Parallel()
	path := write(t, "usage.csv", header+csvLine("d", "12:34:30", "1")+csvLine("d", "12:35:05", "2")+csvLine("d", "12:35:59", "4"))
	w := newWorld()
	now := noon().Add(20 * time.Second) // 12:35:05 may be written, 12:35:59 not yet
	at := func(im *Import) { im.Now = func() time.Time { return now } }
	out, err := importFile(t, w, path, at)
	if err != nil || out.Taken != (Amount{1, 1}) || out.Codes["TimestampInFuture"] != 2 {
		t.Fatalf("%+v, %v", out, err)
	}
	now = now.Add(time.Minute)
	if out, err = importFile(t, w, path, at); err != nil || out.Taken != (Amount{3, 7}) || out.Before != (Amount{1, 1}) {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, sum := w.held(t); sum != 7 {
		t.Errorf("sum %d, want 7", sum)
	}
}

// A line whose hour is committed while the file is imported is late, and named so.
func TestLateLines(t *testing.T) {
	t.Parallel()
	w := newWorld()
	before := metering.HourOf(noon()) - 1
	w.fail = func() (bool, bool) { w.commit(t, "a", before); return false, false } // after the look before
	out, err := importFile(t, w, write(t, "usage.csv", header+csvLine("a", "11:00:00", "3")+csvLine("b", "11:00:00", "4")), nil)
	if err != nil || out.Late != (Amount{1, 3}) || out.Taken != (Amount{1, 4}) || out.Refused.Count != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	if got := names(t, &out.Tardy); len(got) != 1 || got[0].Line != 2 || got[0].Code != codeLate {
		t.Errorf("late %+v", got)
	}
}

// A file whose lines lie in any order meets the cap of a row only in more chunks than a row takes flushes. Then they are named.
func TestFullRowsAreNamed(t *testing.T) {
	t.Parallel()
	path := write(t, "usage.csv", header+strings.Repeat(csvLine("d", "12:00:00", "1"), metering.MaxFlushes+5))
	w := newWorld()
	out, err := importFile(t, w, path, func(im *Import) { im.Limits.Lines = 1 })
	if err != nil || out.Taken.Lines != metering.MaxFlushes || out.Codes["RowFull"] != 5 {
		t.Fatalf("%+v, %v", out, err)
	}
	if out, err := importFile(t, newWorld(), path, nil); err != nil || out.Taken.Lines != metering.MaxFlushes+5 {
		t.Fatalf("in one chunk: %+v, %v", out, err)
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.commit(t, "done", metering.HourOf(noon())-1)
	path := write(t, "usage.csv", header+csvLine("a", "12:00:00", "3")+csvLine("done", "11:00:00", "1")+csvLine("a", "12:00:00", "x"))
	dry := func(im *Import) { im.DryRun = true }
	out, err := importFile(t, w, path, dry)
	if err != nil || out.Taken != (Amount{1, 3}) || out.Codes["HourCommitted"] != 1 || out.Refused.Count != 2 || out.Made != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	if rows, _ := w.held(t); len(rows) != 0 || len(w.settings) != 0 {
		t.Errorf("rows %v, settings %v", rows, w.settings)
	}
	if _, err := importFile(t, w, path, nil); err != nil {
		t.Fatal(err)
	}
	if out, err := importFile(t, w, path, dry); err != nil || out.Before != (Amount{1, 3}) || out.Made != 0 {
		t.Errorf("after the import: %+v, %v", out, err)
	}
}

func TestFileThatChanges(t *testing.T) {
	t.Parallel()
	text := header + strings.Repeat(csvLine("a", "12:00:00", "3"), 3)
	path := write(t, "usage.csv", text)
	open := func() *Source {
		source, err := OpenFile(t.Context(), path, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = source.Close() })
		return source
	}
	// What is appended after the first pass is not read: it is none of the file whose hash was taken.
	source := open()
	if err := os.WriteFile(path, []byte(text+csvLine("a", "12:00:00", "9")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := importSource(t.Context(), t, newWorld(), source, nil)
	if err != nil || out.Taken != (Amount{3, 9}) {
		t.Errorf("appended: %+v, %v", out, err)
	}
	source = open()
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, ",3,", ",4,")+csvLine("a", "12:00:00", "9")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = importSource(t.Context(), t, newWorld(), source, nil)
	if !errors.Is(err, ErrChanged) || out.Complete {
		t.Errorf("changed: %+v, %v", out, err)
	}
}

func TestSourcesThatAreNone(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, want := range map[string]string{
		filepath.Join(folder, "missing.csv"): "there is no such file",
		folder:                               "it is a directory",
		write(t, "empty.csv", ""):            "it is empty",
		write(t, "a.gz", "\x1f\x8b\x08\x00"): "it is compressed with gzip",
		write(t, "a.csv", "a;b\n"):           `its columns are separated by ";"`,
	} {
		source, err := OpenFile(t.Context(), name, nil)
		var fault *usagefile.FileError
		if !errors.As(err, &fault) || fault.Why != want || fault.Hint == "" {
			t.Errorf("%s: %v, %v; want %s", name, source, err, want)
		}
	}
	// What ends in the middle of a line may have been cut off: 12 of 120.
	_, err := OpenStream(t.Context(), "", strings.NewReader(header+strings.TrimSuffix(csvLine("a", "12:00:00", "12"), ",\n")), nil)
	var fault *usagefile.FileError
	if !errors.As(err, &fault) || !strings.Contains(fault.Why, "in the middle of a line") {
		t.Errorf("cut off: %v", err)
	}
}

// A log that is appended to while it is imported may end in the middle of a number: 12 is about to be 120.
func TestFileCutInTheMiddleOfALine(t *testing.T) {
	t.Parallel()
	whole := header + csvLine("a", "12:00:00", "1")
	cut := whole + strings.TrimSuffix(csvLine("a", "12:01:00", "12"), ",\n")
	path := write(t, "usage.csv", cut)
	source, err := OpenFile(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	if err := os.WriteFile(path, []byte(cut+"0,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld()
	_, err = importSource(t.Context(), t, w, source, nil)
	var fault *usagefile.FileError
	if !errors.As(err, &fault) || !strings.Contains(fault.Why, "in the middle of a line") {
		t.Errorf("%v, want the error of a file that is appended to", err)
	}
	if _, sum := w.held(t); sum != 0 {
		t.Errorf("the rows hold %d of a chunk that was cut", sum)
	}
	for range 2 { // once it is finished it is taken, also without an end of its last line
		if _, err := importFile(t, w, write(t, "whole.csv", strings.TrimSuffix(whole, "\n")), nil); err != nil {
			t.Error(err)
		}
	}
	if _, sum := w.held(t); sum != 1 {
		t.Errorf("the rows hold %d, want 1", sum)
	}
}
