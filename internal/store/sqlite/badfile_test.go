package sqlite_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
)

const (
	damaged     = "the file is damaged"
	damagedHint = "stop all programs that use it, keep a copy, and bring back a backup, or save what can be read: sqlite3 %s .recover"
)

const filledRows = 400

// filled is the path of a closed store with rows of five dimensions, some pages each.
func filled(t *testing.T) string {
	t.Helper()
	path := file(t)
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{}.Unsynced())
	check(t, "Open", err)
	for i := range 5 {
		put(t, s, rows(group(licenseA, fmt.Sprint("dimension-", i)), filledRows)...)
	}
	shut(t, s)
	return path
}

// foreign is the path of another program's SQLite file.
func foreign(t *testing.T, statements string) string {
	t.Helper()
	path := file(t)
	c := other(t, path)
	run(t, c, statements)
	check(t, "close", c.Close())
	return path
}

func TestFilesThatAreNoStore(t *testing.T) {
	t.Parallel()
	text := func(content string) func(t *testing.T) string {
		return func(t *testing.T) string {
			path := file(t)
			write(t, path, []byte(content))
			return path
		}
	}
	const (
		isText, isTextHint = "it is no SQLite file, or its beginning is damaged", "name another file, or bring back a copy"
		isOther, otherHint = "it is a SQLite file, but no store of awsmp", "name another file, or move this one away"
	)
	for _, tt := range []struct {
		name      string
		path      func(t *testing.T) string
		why, hint string
	}{
		{"a few words", text("license,quantity\n"), isText, isTextHint},
		{"a text", text(strings.Repeat("license,quantity\n", 1000)), isText, isTextHint},
		{"another program's file", func(t *testing.T) string { return foreign(t, "CREATE TABLE song (title TEXT)") }, isOther, otherHint},
		{"another program's file with a mark", func(t *testing.T) string { return foreign(t, "PRAGMA application_id = 7") }, isOther, otherHint},
		{"another program's file without tables", func(t *testing.T) string { return foreign(t, "PRAGMA user_version = 1") }, isOther, otherHint},
		{"a newer store", func(t *testing.T) string {
			path := filled(t)
			c := other(t, path)
			run(t, c, "PRAGMA user_version = 1000")
			check(t, "close", c.Close())
			return path
		}, fmt.Sprintf("a newer release wrote it: it has version 1000, this program knows %d", sqlite.Version()), "use that release, or a newer one; nothing was changed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := tt.path(t)
			before := bytesOf(t, path)
			_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			problem(t, err, path, tt.why, tt.hint)
			unchanged(t, path, before)
		})
	}
}

// unchanged checks that the file is as it was, and that nothing lies beside it.
func unchanged(t *testing.T, path string, before []byte) {
	t.Helper()
	if !bytes.Equal(before, bytesOf(t, path)) {
		t.Error("the file was changed")
	}
	found, err := filepath.Glob(path + "-*")
	check(t, "look beside the file", err)
	same(t, "files beside it", []string(nil), found)
}

func TestEmptyFileIsANewStore(t *testing.T) {
	t.Parallel()
	path := file(t)
	write(t, path, nil)
	s := open(t, path, sqlite.Options{})
	put(t, s, rows(group(licenseA, "api"), 3)...)
	same(t, "rows", 3, len(collect(t, s.LicenseRows(t.Context(), licenseA))))
}

func TestNewFileIsForItsOwnerOnly(t *testing.T) {
	t.Parallel()
	path := file(t)
	s := open(t, path, sqlite.Options{})
	put(t, s, rows(group(licenseA, "api"), 3)...)
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		check(t, "Stat", err)
		same(t, name, fs.FileMode(0o600), info.Mode())
	}
}

func TestPathsWithAnyCharacter(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"a file.db", "50%41.db", "what?mode=ro", "number#1.db", "übung.db", "file:x.db"} {
		path := filepath.Join(folder, name)
		s := open(t, path, sqlite.Options{}.Unsynced())
		put(t, s, rows(group(licenseA, "api"), 1)...)
		if len(bytesOf(t, path)) == 0 {
			t.Errorf("%s is empty", name)
		}
		shut(t, s)
	}
	found, err := os.ReadDir(folder)
	check(t, "ReadDir", err)
	same(t, "files", 6, len(found))
}

func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	whole := bytesOf(t, filled(t))
	for _, tt := range []struct {
		name   string
		damage func(content []byte) []byte
	}{
		{"cut off in the middle of a page", func(c []byte) []byte { return c[:len(c)/2+100] }},
		{"cut off between two pages", func(c []byte) []byte { return c[:len(c)/2/4096*4096] }},
		{"cut off after its first page", func(c []byte) []byte { return c[:4096] }},
		{"its schema overwritten", func(c []byte) []byte { return overwrite(c, 100, 3900) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := file(t)
			content := tt.damage(bytes.Clone(whole))
			write(t, path, content)
			_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
			problem(t, err, path, damaged, fmt.Sprintf(damagedHint, path))
			unchanged(t, path, content)
		})
	}
	path := file(t)
	content := overwrite(bytes.Clone(whole), 0, 100)
	write(t, path, content)
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	problem(t, err, path, "it is no SQLite file, or its beginning is damaged", "name another file, or bring back a copy")
	unchanged(t, path, content)
}

func overwrite(content []byte, from, n int) []byte {
	copy(content[from:], bytes.Repeat([]byte{0xa5}, n))
	return content
}

// A damaged page makes the reads fail that touch it, and those alone.
func TestDamagedPage(t *testing.T) {
	t.Parallel()
	path := filled(t)
	c := other(t, path)
	// A leaf of the table in the middle of its rows.
	page := ask(t, c, "SELECT pageno FROM dbstat WHERE name = 'usage_row' AND pagetype = 'leaf' ORDER BY path LIMIT 1 OFFSET (SELECT count(*) / 2 FROM dbstat WHERE name = 'usage_row' AND pagetype = 'leaf')")
	check(t, "close", c.Close())
	var number int
	_, err := fmt.Sscan(page[0][0], &number)
	check(t, "read the page's number", err)
	content := overwrite(bytesOf(t, path), (number-1)*4096, 4096)
	write(t, path, content)

	s := open(t, path, sqlite.Options{}.Unsynced())
	read := func(dimension string) (n int, err error) {
		for _, err := range s.GroupRows(t.Context(), group(licenseA, dimension)) {
			if err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	for _, dimension := range []string{"dimension-0", "dimension-1", "dimension-3", "dimension-4"} {
		if n, err := read(dimension); n != filledRows || err != nil {
			t.Errorf("%d rows of %s, %v", n, dimension, err)
		}
	}
	_, err = read("dimension-2")
	problem(t, err, path, damaged, fmt.Sprintf(damagedHint, path))
	for _, err := range s.LicenseRows(t.Context(), licenseA) {
		if err != nil {
			problem(t, err, path, damaged, fmt.Sprintf(damagedHint, path))
		}
	}

	// The same for writes: those that touch it fail, with all that belongs to them, and others do not.
	put(t, s, row(group(licenseA, "dimension-4"), 0, 7))
	whole := make([]int, 0, 2)
	for _, dimension := range []string{"dimension-0", "dimension-2"} {
		changed := rows(group(licenseA, dimension), filledRows)
		for i := range changed {
			changed[i].Quantity.N = 9
		}
		if err := s.PutRows(t.Context(), append(rows(group(licenseB, dimension), 1), changed...)); dimension == "dimension-2" {
			problem(t, err, path, damaged, fmt.Sprintf(damagedHint, path))
		} else {
			check(t, "PutRows", err)
		}
		whole = append(whole, len(collect(t, s.GroupRows(t.Context(), group(licenseB, dimension)))))
	}
	same(t, "rows of the put that succeeded, and of the one that failed", []int{1, 0}, whole)
}

// A number that stands for nothing is damage too, be it a row's license or its label.
func TestNumbersWithoutName(t *testing.T) {
	t.Parallel()
	for table, why := range map[string]string{"series": "the file is damaged: an item names no license", "label": "the file is damaged: an item names no status"} {
		path := file(t)
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{}.Unsynced())
		check(t, "Open", err)
		r := row(group(licenseA, "api"), 0, 1)
		r.Status, r.StatusReason = "Success", "because"
		put(t, s, r)
		shut(t, s)
		c := other(t, path)
		run(t, c, "DELETE FROM "+table)
		check(t, "close", c.Close())
		s = open(t, path, sqlite.Options{}.Unsynced())
		err = nil
		if table == "series" {
			for _, e := range s.PendingRows(t.Context(), hour(), "") {
				err = e
			}
		} else {
			_, err = s.Row(t.Context(), licenseA, r.SortKey)
		}
		problem(t, err, path, why, "bring back a backup")
	}
}

func TestPlacesThatAreNoFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, err := sqlite.Open(t.Context(), folder, sqlite.Options{})
	problem(t, err, folder, "it is a folder", "name a file in it")
	missing := filepath.Join(folder, "missing", "usage.db")
	_, err = sqlite.Open(t.Context(), missing, sqlite.Options{})
	problem(t, err, missing, "its folder does not exist", "make the folder first")
	if found, err := os.ReadDir(folder); err != nil || len(found) != 0 {
		t.Errorf("the folder holds %v, %v", found, err)
	}
	through := filepath.Join(filled(t), "usage.db") // a file where a folder should be
	_, err = sqlite.Open(t.Context(), through, sqlite.Options{})
	problem(t, err, through, "its folder does not exist", "make the folder first")
}

const (
	lockedOut     = "another program keeps it locked"
	lockedOutHint = "end the program that writes to it, perhaps an open sqlite3 session, and try again"
)

func TestLocked(t *testing.T) {
	t.Parallel()
	for _, begin := range []string{"BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"} {
		path := file(t)
		s := open(t, path, sqlite.Options{Patience: 20 * time.Millisecond}.Unsynced())
		r := row(group(licenseA, "api"), 0, 1)
		put(t, s, r)
		c := other(t, path)
		run(t, c, begin)
		run(t, c, "INSERT INTO setting (name, value) VALUES ('a', 'b')")
		problem(t, s.PutRow(t.Context(), row(group(licenseA, "api"), 1, 1)), path, lockedOut, lockedOutHint)
		for _, out := range s.LabelRows(t.Context(), []metering.Label{label(r, "because")}) {
			problem(t, out.Err, path, lockedOut, lockedOutHint)
		}
		same(t, "a read meanwhile", []metering.Row{r}, collect(t, s.LicenseRows(t.Context(), licenseA)))
		second := open(t, path, sqlite.Options{Patience: 20 * time.Millisecond}.Unsynced()) // opening it changes nothing
		same(t, "a read of one opened meanwhile", []metering.Row{r}, collect(t, second.LicenseRows(t.Context(), licenseA)))
		run(t, c, "ROLLBACK")
		put(t, s, row(group(licenseA, "api"), 1, 1))
		put(t, second, row(group(licenseA, "api"), 2, 1))
		same(t, "rows in the end", 3, len(collect(t, s.LicenseRows(t.Context(), licenseA))))
	}
}

// A program that wants the file for itself alone keeps even an opening waiting.
func TestLockedForOneAlone(t *testing.T) {
	t.Parallel()
	for name, path := range map[string]string{"a store": filled(t), "a new file": file(t)} {
		c := other(t, path)
		for _, statement := range []string{"PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE", "SELECT count(*) FROM sqlite_master"} {
			run(t, c, statement)
		}
		_, err := sqlite.Open(t.Context(), path, sqlite.Options{Patience: 20 * time.Millisecond})
		problem(t, err, path, lockedOut, lockedOutHint)
		run(t, c, "ROLLBACK")
		check(t, "close", c.Close())
		s := open(t, path, sqlite.Options{}.Unsynced())
		put(t, s, row(group(licenseB, "api"), 0, 1))
		if n := len(collect(t, s.LicenseRows(t.Context(), licenseB))); n != 1 {
			t.Errorf("%s: %d rows after the lock, want 1", name, n)
		}
	}
}
