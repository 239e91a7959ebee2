package importer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/usagefile"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Refused lines stand in their file as they stood in the other, and are taken from there once they are mended.
func TestRefusedLinesAreWrittenVerbatim(t *testing.T) {
	t.Parallel()
	tooLong := license + "," + strings.Repeat("x", usagefile.MaxLine) + "\n"
	text := "\ufeff" + strings.TrimSuffix(header, "\n") + "\r\n" + csvLine("a", "12:00:00", "1") +
		"not \xff UTF-8\r\n" + csvLine("a", "12:00:00", "2.5") + "# a remark\n" + tooLong + csvLine("a", "12:00:00", "2") +
		strings.TrimSuffix(csvLine("a", "12:01:00", "x"), "\n")
	path := write(t, "usage.csv", text)
	w := newWorld()
	out, err := importFile(t, w, path, nil)
	if err != nil || out.Taken != (Amount{2, 3}) || out.Refused.Count != 4 {
		t.Fatalf("%+v, %v", out, err)
	}
	name, err := out.WriteRefused(out.source.RefusedName(), true)
	if err != nil || name != strings.TrimSuffix(path, ".csv")+".refused.csv" {
		t.Fatal(name, err)
	}
	want := "# refused lines of the file with SHA-256 " + out.source.ID + "\n" + header +
		"# line 3: it is not valid UTF-8. Try: save the file as UTF-8\nnot \xff UTF-8\r\n" +
		"# line 4: a quantity is not a whole number. Try: meter in a smaller unit, so that every quantity is a whole number\n" + csvLine("a", "12:00:00", "2.5") +
		"# line 6: it is longer than 1 MiB. Try: a row holds at most 400 KB: split its allocations over several rows\n" + tooLong +
		"# line 8: a quantity is no number. Try: write a whole number without quotes, blanks or thousands separators\n" + csvLine("a", "12:01:00", "x")
	if diff := cmp.Diff(want, read(t, name)); diff != "" {
		t.Fatal(diff)
	}
	mended := strings.NewReplacer("not \xff UTF-8\r\n", "", tooLong, "", "2.5", "3", ",x,", ",4,").Replace(want)
	if err := os.WriteFile(name, []byte(mended), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if out, err := importFile(t, w, name, nil); err != nil || out.Taken != (Amount{2, 7}) || out.Refused.Count != 0 {
			t.Fatalf("mended: %+v, %v", out, err)
		}
	}
	if _, sum := w.held(t); sum != 10 {
		t.Errorf("sum %d, want 10", sum)
	}
}

// A line whose time has not come is taken from the same file later. It stands in no file of refused lines, or who mends that and also
// imports the file again would have it twice.
func TestWaitingLinesAreNotMended(t *testing.T) {
	t.Parallel()
	path := write(t, "usage.csv", header+csvLine("a", "12:00:00", "1")+csvLine("a", "12:01:00", "x")+csvLine("a", "14:00:00", "100"))
	w := newWorld()
	out, err := importFile(t, w, path, nil)
	if err != nil || out.Refused.Count != 2 || out.Codes["TimestampInFuture"] != 1 || out.Mendable() != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	name, err := out.WriteRefused(out.source.RefusedName(), true)
	if err != nil {
		t.Fatal(err)
	}
	refused := read(t, name)
	if strings.Contains(refused, "14:00:00") {
		t.Errorf("the file of refused lines has the line that waits:\n%s", refused)
	}
	if err := os.WriteFile(name, []byte(strings.ReplaceAll(refused, ",x,", ",5,")), 0o600); err != nil {
		t.Fatal(err)
	}
	later := func(im *Import) { im.Now = func() time.Time { return noon().Add(3 * time.Hour) } }
	for _, file := range []string{path, name, path, name} {
		if _, err := importFile(t, w, file, later); err != nil {
			t.Fatal(err)
		}
	}
	if _, sum := w.held(t); sum != 106 {
		t.Errorf("the rows hold %d, want 106", sum)
	}
}

func TestRefusedObjects(t *testing.T) {
	t.Parallel()
	out, err := importFile(t, newWorld(), write(t, "usage.jsonl", "{}\n{\"licenseArn\": 7}\nnonsense"), nil)
	if err != nil || out.Refused.Count != 3 {
		t.Fatalf("%+v, %v", out, err)
	}
	name, err := out.WriteRefused(out.source.RefusedName(), true)
	if err != nil || filepath.Base(name) != "usage.refused.ndjson" {
		t.Fatal(name, err)
	}
	if got := read(t, name); got != "{}\n{\"licenseArn\": 7}\nnonsense\n" {
		t.Errorf("%q", got)
	}
}

// Nobody's file is written over, and nothing is left behind.
func TestRefusedFileTakesNoOthersPlace(t *testing.T) {
	t.Parallel()
	path := write(t, "usage.csv", header+csvLine("a", "12:00:00", "x"))
	out, err := importFile(t, newWorld(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Dir(path)
	mine := filepath.Join(folder, "usage.refused.csv")
	if err := os.WriteFile(mine, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := out.WriteRefused(mine, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("taken name: %v", err)
	}
	for range 2 { // the same lines need no second file
		if name, err := out.WriteRefused(mine, true); err != nil || filepath.Base(name) != "usage.refused-2.csv" {
			t.Errorf("numbered: %s, %v", name, err)
		}
	}
	if got := read(t, mine); got != "mine" {
		t.Errorf("written over: %q", got)
	}
	if _, err := out.WriteRefused(filepath.Join(folder, "none", "x.csv"), false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 3 {
		t.Errorf("%d files, want 3: %v", len(entries), entries)
	}
}
