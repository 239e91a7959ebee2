package sqlite_test

import (
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
)

const (
	full     = "the disk is full"
	fullHint = "make room and try again; nothing of this change was kept"
)

// A file that may not grow: what SQLite says of it is what it says of a full disk.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	path := file(t)
	s := open(t, path, sqlite.Options{}.Unsynced())
	g := group(licenseA, "api")
	put(t, s, rows(g, 100)...)
	check(t, "bound the file", s.Script("PRAGMA max_page_count = 1")) // no page more than it has
	many := rows(group(licenseB, "api"), 600)
	problem(t, s.PutRows(t.Context(), many), path, full, fullHint)
	var flushes []metering.Flush
	for i := range many {
		flushes = append(flushes, flush(group(licenseB, "flushed"), i, 1, "one"))
	}
	for _, out := range s.FlushRows(t.Context(), flushes) {
		if out.Done || out.Row != nil {
			t.Fatalf("a flush of a batch that failed: %+v", out)
		}
		problem(t, out.Err, path, full, fullHint)
	}

	// Reads go on, and what needs no room is written.
	same(t, "licenses", []string{licenseA}, collect(t, s.Licenses(t.Context())))
	same(t, "rows", 100, len(collect(t, s.GroupRows(t.Context(), g))))
	if err := s.DeleteRow(t.Context(), licenseA, g.RowKey(hour().Second(0))); err != nil {
		t.Errorf("DeleteRow: %v", err)
	}
	check(t, "free the file", s.Script("PRAGMA max_page_count = 1000000"))
	put(t, s, many...)
	for _, out := range s.FlushRows(t.Context(), flushes) {
		if !out.Done || out.Row.Quantity != metering.Units(1) {
			t.Fatalf("a flush once there was room: %+v", out)
		}
	}
	same(t, "rows once there was room", []int{99, 1200}, []int{len(collect(t, s.LicenseRows(t.Context(), licenseA))), len(collect(t, s.LicenseRows(t.Context(), licenseB)))})
	shut(t, s)
	sound(t, path)
}
