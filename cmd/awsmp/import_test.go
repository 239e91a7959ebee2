package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/importer"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
	"github.com/awsmp/metering/internal/store/sqlite/sqlitetest"
)

const importLicense = "arn:aws:license-manager::111122223333:license:l-1a2b3c4d5e6f708192a3b4c5d6e7f801"

// importNow is when the store's clock of the scripts stands at first; it goes on from there.
func importNow() time.Time { return time.Date(2026, 3, 10, 12, 10, 0, 0, time.UTC) }

// TestImportScripts runs the specification of awsmp import. The store's clock is set to 2026-03-10T12:10:00 with setclock; commit makes
// the record of an hour, as the pipeline does; older makes a store of the first version, and version asks for it; hold runs a command
// while a node has the folder; units says what the rows of the store add up to.
func TestImportScripts(t *testing.T) {
	t.Parallel()
	command := func(do func(ts *testscript.TestScript, store *sqlite.Store, args []string)) func(*testscript.TestScript, bool, []string) {
		return func(ts *testscript.TestScript, neg bool, args []string) {
			if neg || len(args) == 0 {
				ts.Fatalf("usage: a data folder first")
			}
			ts.Check(os.MkdirAll(ts.MkAbs(args[0]), 0o755))
			store, err := sqlite.Open(context.Background(), filepath.Join(ts.MkAbs(args[0]), "usage.db"), sqlite.Options{})
			ts.Check(err)
			do(ts, store, args[1:])
			ts.Check(store.Close())
		}
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/import", RequireExplicitExec: true, RequireUniqueNames: true, UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": func(ts *testscript.TestScript, _ bool, args []string) {
				got := "0"
				if err := ts.Exec(args[1], args[2:]...); err != nil {
					got = exitCodeOf(err)
				}
				if got != args[0] {
					ts.Fatalf("exit code %s, want %s", got, args[0])
				}
			},
			"older": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Check(os.Mkdir(ts.MkAbs(args[0]), 0o755))
				ts.Check(sqlitetest.FirstVersion(context.Background(), folder.Store(ts.MkAbs(args[0]))))
			},
			"version": func(ts *testscript.TestScript, _ bool, args []string) {
				n, err := sqlitetest.Version(context.Background(), folder.Store(ts.MkAbs(args[0])))
				ts.Check(err)
				if fmt.Sprint(n) != args[1] {
					ts.Fatalf("version %d, want %s", n, args[1])
				}
			},
			"hold": func(ts *testscript.TestScript, neg bool, args []string) {
				node, err := folder.Take(ts.MkAbs(args[0]))
				ts.Check(err)
				defer func() { ts.Check(folder.Release(node)) }()
				if err := ts.Exec(args[1], args[2:]...); neg != (err != nil) {
					ts.Fatalf("%v", err)
				}
			},
			"setclock": command(func(ts *testscript.TestScript, store *sqlite.Store, _ []string) {
				ts.Check(folder.SetOffset(context.Background(), store, time.Until(importNow())))
			}),
			"commit": command(func(ts *testscript.TestScript, store *sqlite.Store, args []string) {
				hour, err := metering.ParseHour(args[1])
				ts.Check(err)
				g := metering.Group{License: importLicense, Account: "111122223333", Dimension: args[0], Hour: hour}
				fold := metering.NewFold(g, hour.End())
				for row, err := range store.GroupRows(context.Background(), g) {
					ts.Check(err)
					fold.Add(row)
				}
				record, reason := fold.Record()
				if reason != "" {
					ts.Fatalf("commit: %s", reason)
				}
				_, err = store.CreateRecord(context.Background(), record)
				ts.Check(err)
			}),
			"units": command(func(ts *testscript.TestScript, store *sqlite.Store, args []string) {
				if _, sum := storedRows(ts.Check, store); fmt.Sprint(sum) != args[0] {
					ts.Fatalf("the rows hold %d units, want %s", sum, args[0])
				}
			}),
		},
	})
}

// storedRows are the quantities of all rows by key, and their sum.
func storedRows(check func(error), store *sqlite.Store) (rows map[string]int64, sum int64) {
	rows = map[string]int64{}
	for license, err := range store.Licenses(context.Background()) {
		check(err)
		for row, err := range store.LicenseRows(context.Background(), license) {
			check(err)
			rows[license+" "+row.SortKey] = row.Quantity.N
			sum += row.Quantity.N
		}
	}
	return rows, sum
}

func rowsIn(t *testing.T, data string) (map[string]int64, int64) {
	t.Helper()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	store, err := sqlite.Open(context.Background(), filepath.Join(data, "usage.db"), sqlite.Options{})
	check(err)
	defer store.Close()
	return storedRows(check, store)
}

// freshFile is a file of n lines of the hours before now, one unit each, and what of their rows must be in the store.
func freshFile(t *testing.T, n int) (path string, want map[string]int64) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "usage.csv")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, want := bufio.NewWriter(file), map[string]int64{}
	fmt.Fprintln(w, "licenseArn,customerAWSAccountId,dimension,timestamp,quantity")
	first := metering.HourOf(time.Now()).Second(0)
	for i := range n {
		second := first - metering.Second(1+i*7919%7200)
		g := metering.Group{Account: "111122223333", Dimension: fmt.Sprintf("dimension_%d", i%40)}
		fmt.Fprintf(w, "%s,%s,%s,%s,1\n", importLicense, g.Account, g.Dimension, second)
		want[importLicense+" "+g.RowKey(second-second%60+59)]++
	}
	if err := errors.Join(w.Flush(), file.Close()); err != nil {
		t.Fatal(err)
	}
	return path, want
}

func sameRows(t *testing.T, want, got map[string]int64) {
	t.Helper()
	if len(want) != len(got) {
		t.Errorf("%d rows, want %d", len(got), len(want))
	}
	for key, n := range want {
		if got[key] != n {
			t.Fatalf("row %s holds %d, want %d", key, got[key], n)
		}
	}
}

// The command is killed again and again, later each time, until it comes to its end: nothing is missing and nothing is twice.
func TestImportKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	path, want := freshFile(t, 150_000)
	data := filepath.Join(t.TempDir(), "data")
	killed, midway := 0, 0
	for patience := 60 * time.Millisecond; ; patience += patience / 3 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		out, err := exec.CommandContext(ctx, "awsmp", "import", path, "--data", data).CombinedOutput() // SIGKILL when the time is up
		over := ctx.Err() != nil
		cancel()
		if err == nil {
			break
		}
		if !over {
			t.Fatalf("%v: %s", err, out)
		}
		killed++
		if _, err := os.Stat(filepath.Join(data, "usage.db")); err == nil {
			if _, sum := rowsIn(t, data); sum > 0 && sum < 150_000 {
				midway++
			}
		}
	}
	t.Logf("killed %d times, %d of them half way", killed, midway)
	if midway == 0 {
		t.Error("never killed half way: this shows nothing")
	}
	got, _ := rowsIn(t, data)
	sameRows(t, want, got)
}

// No file may grow beyond a limit, as on a full disk; then there is room again.
func TestImportOntoAFullDisk(t *testing.T) {
	t.Parallel()
	path, want := freshFile(t, 200_000)
	data := filepath.Join(t.TempDir(), "data")
	out, err := exec.Command("sh", "-c", `ulimit -f 2000 && exec awsmp import "$0" --data "$1"`, path, data).CombinedOutput()
	if got := exitCodeOf(err); got != "1" || !bytes.Contains(out, []byte("usage.csv: stopped after line ")) ||
		!bytes.Contains(out, []byte("the same command again goes on from there; what was added is not added twice\n")) {
		t.Fatalf("exit code %s: %s", got, out)
	}
	if out, err := exec.Command("awsmp", "import", path, "--data", data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, _ := rowsIn(t, data)
	sameRows(t, want, got)
}

// SIGINT stops the import between two chunks; the same command goes on.
func TestImportInterrupted(t *testing.T) {
	t.Parallel()
	path, want := freshFile(t, 300_000)
	data := filepath.Join(t.TempDir(), "data")
	cmd := exec.Command("awsmp", "import", path, "--data", data)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for { // until the first chunk is written
		if _, err := os.Stat(filepath.Join(data, "usage.db")); err == nil {
			if _, sum := rowsIn(t, data); sum > 0 {
				break
			}
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if got := exitCodeOf(cmd.Wait()); got != "130" || !regexp.MustCompile(`^awsmp: .*usage.csv: stopped after line \d+: interrupted\nTry: the same command again goes on from there`).MatchString(errs.String()) {
		t.Fatalf("exit code %s: %s", got, errs.String())
	}
	if out, err := exec.Command("awsmp", "import", path, "--data", data).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, _ := rowsIn(t, data)
	sameRows(t, want, got)
}

// Two imports of one file at once add it once.
func TestImportTwiceAtOnce(t *testing.T) {
	t.Parallel()
	path, want := freshFile(t, 100_000)
	data := filepath.Join(t.TempDir(), "data")
	var both [2]*exec.Cmd
	var outs [2]bytes.Buffer
	for i := range both {
		both[i] = exec.Command("awsmp", "import", path, "--data", data)
		both[i].Stdout, both[i].Stderr = &outs[i], &outs[i]
		if err := both[i].Start(); err != nil {
			t.Fatal(err)
		}
	}
	for i, cmd := range both {
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, outs[i].String())
		}
	}
	got, _ := rowsIn(t, data)
	sameRows(t, want, got)
}

// Whoever reads the summary may be gone: the import is not touched by that.
func TestImportIntoABrokenPipe(t *testing.T) {
	t.Parallel()
	path, want := freshFile(t, 10)
	data := filepath.Join(t.TempDir(), "data")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = read.Close()
	cmd := exec.Command("awsmp", "import", path, "--data", data)
	cmd.Stdout = write
	if err := cmd.Run(); err == nil {
		t.Error("nobody could read the summary, and it ended well")
	}
	_ = write.Close()
	got, _ := rowsIn(t, data)
	sameRows(t, want, got)
}

// The document stays JSON when lists are empty, and lists every line when they are long.
func TestImportDocumentListsEveryLine(t *testing.T) {
	t.Parallel()
	for _, refused := range []int{0, 1, 20_000} {
		path := filepath.Join(t.TempDir(), "usage.ndjson")
		text := strings.Repeat("nonsense\n", refused)
		if refused == 0 {
			text, _ = func() (string, error) { p, _ := freshFile(t, 3); b, err := os.ReadFile(p); return string(b), err }()
			path = strings.TrimSuffix(path, ".ndjson") + ".csv"
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs bytes.Buffer
		code := run(context.Background(), []string{"import", path, "--json", "--data", t.TempDir()}, io.MultiReader(), &out, &errs)
		var doc struct {
			Refused struct{ Lines int }
			List    []importer.Named `json:"refusedLines"`
		}
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil || errs.Len() > 0 {
			t.Fatalf("%v, %s", err, errs.String())
		}
		if want := map[bool]int{false: exitRefused, true: exitOK}[refused == 0]; code != want || doc.Refused.Lines != refused || len(doc.List) != refused {
			t.Errorf("code %d, %d refused, %d listed; want %d, %d", code, doc.Refused.Lines, len(doc.List), want, refused)
		}
	}
}

// The bar says how fast it goes, and nothing of it is left on the screen; where there is no terminal there is none.
func TestImportBar(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	for _, bar := range []*importBar{newImportBar(&screen, false), newImportBar(os.Stderr, true)} {
		bar.read(1, 2)
		bar.importing(2)
		bar.imported(1, 1)
		bar.clear()
		if bar.out != nil || screen.Len() > 0 {
			t.Errorf("a bar without a terminal: %q", screen.String())
		}
	}
	bar := &importBar{out: &screen}
	bar.read(1<<20, 4<<20)
	bar.importing(4 << 20)
	bar.begun = time.Now().Add(-time.Hour)
	bar.imported(2<<20, 7_200_000)
	if got := screen.String(); !strings.Contains(got, "importing, 2,000 lines/s  50%") && !strings.Contains(got, "importing, 1,999 lines/s  50%") || !strings.Contains(got, "reading  25%") {
		t.Errorf("on the screen: %q", got)
	}
	bar.clear()
	if got := screen.String(); !strings.HasSuffix(got, "\r\x1b[2K\r") && !strings.HasSuffix(got, "\x1b[2K\r") {
		t.Errorf("left on the screen: %q", got[max(0, len(got)-40):])
	}
}
