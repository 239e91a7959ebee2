package storetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/metering"
)

func pageContract() []contract {
	return []contract{
		{"case 39: 6,000 pending groups", manyPendingGroups},
		{"a group of more than one page", manyLargeRows},
		{"pending records of more than one page", manyPendingRecords},
		{"a read survives the writes it causes", readSurvivesWrites},
		{"reads of nothing end", emptyReads},
		{"reads may end early and begin again", readsEndEarly},
		{"a context that is done ends everything", contextEndsEverything},
	}
}

func manyPendingGroups(t *testing.T, s Store) {
	const total = 6000
	want := make(map[metering.Group]bool, total)
	var rows []metering.Row
	for i := range total {
		license := licenseA
		if i%3 == 0 {
			license = licenseB
		}
		g := group(license, fmt.Sprintf("dimension-%04d", i))
		want[g] = true
		rows = append(rows, row(g, i%3600, 1))
	}
	must(t, 0, s.PutRows(t.Context(), rows))
	for _, p := range collect(t, s.PendingRows(t.Context(), hour(), "")) {
		key, reason := metering.ParseRowKey(p.SortKey)
		if g := key.Group(p.License); reason != "" || !want[g] {
			t.Fatalf("entry %s of %s came twice or is of no group", p.SortKey, p.License)
		} else {
			delete(want, g)
		}
	}
	if len(want) != 0 {
		t.Errorf("%d of %d groups are missing", len(want), total)
	}
	if n := len(pendingKeys(t, s, hour(), licenseB)); n != total/3 {
		t.Errorf("%d entries of one license, want %d", n, total/3)
	}
}

// Rows of 30 KB: 40 of them are more than one page of 1 MiB.
func manyLargeRows(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	var want []metering.Row
	for i := range 40 {
		r := row(g, i, int64(i))
		r.Other = metering.Item{"note": strings.Repeat("x", 30_000)}
		want = append(want, r)
		put(t, s, r)
	}
	put(t, s, row(group(licenseA, "api_call"), 0, 1), row(group(licenseA, "api_calls2"), 0, 1), row(group(licenseB, "api_calls"), 0, 1))
	same(t, "rows", want, collect(t, s.GroupRows(t.Context(), g)))
	if n := len(collect(t, s.LicenseRows(t.Context(), licenseA))); n != 42 {
		t.Errorf("%d rows of the license, want 42", n)
	}
}

// Records with a manifest of 30 KB: more than a page for the ledger, whether or not for the index.
func manyPendingRecords(t *testing.T, s Store) {
	var want []string
	for i := range 40 {
		r := record(group(licenseA, fmt.Sprintf("dimension-%02d", i)), int64(i))
		r.Manifest = strings.Repeat("x", 30_000)
		putRecords(t, s, r)
		want = append(want, licenseA+" "+r.SortKey)
	}
	same(t, "pending records", want, pendingRecordKeys(t, s, hour(), ""))
	var got []string
	for _, r := range collect(t, s.LicenseRecords(t.Context(), licenseA)) {
		if len(r.Manifest) != 30_000 {
			t.Errorf("record %s has a manifest of %d bytes", r.SortKey, len(r.Manifest))
		}
		got = append(got, r.License+" "+r.SortKey)
	}
	same(t, "records", want, got)
}

// Stages write while they read: what has left the index is behind the cursor, and nothing is skipped for it.
func readSurvivesWrites(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	note := metering.Item{"note": strings.Repeat("x", 10_000)}
	rows := make([]metering.Row, 120) // more than one page of 1 MiB
	for i := range rows {
		rows[i] = row(g, i, 5)
		rows[i].Other = note
	}
	must(t, 0, s.PutRows(t.Context(), rows))
	seen := make(map[string]bool)
	for p, err := range s.PendingRows(t.Context(), hour(), "") {
		if must(t, p, err); seen[p.SortKey] {
			t.Fatalf("%s came twice", p.SortKey)
		}
		seen[p.SortKey] = true
		l := label(metering.Row{License: p.License, SortKey: p.SortKey, Quantity: metering.Units(5)}, true)
		out, err := s.LabelRow(t.Context(), l)
		if must(t, out, err); !out.Done {
			t.Fatalf("the label of %s was refused", p.SortKey)
		}
	}
	if left := pendingKeys(t, s, hour(), ""); len(seen) != len(rows) || len(left) != 0 {
		t.Errorf("%d rows were seen and %d are left, want %d and 0", len(seen), len(left), len(rows))
	}
	n := 0
	for r, err := range s.GroupRows(t.Context(), g) {
		must(t, r, err)
		n++
		if err := s.DeleteRow(t.Context(), r.License, r.SortKey); err != nil {
			t.Fatal(err)
		}
	}
	if n != len(rows) {
		t.Errorf("%d rows were seen while they were deleted, want %d", n, len(rows))
	}
}

func emptyReads(t *testing.T, s Store) {
	check := func() {
		t.Helper()
		same(t, "pending rows", []string(nil), pendingKeys(t, s, hour(), ""))
		same(t, "pending rows of a license", []string(nil), pendingKeys(t, s, hour(), licenseA))
		same(t, "pending records", []string(nil), pendingRecordKeys(t, s, hour(), ""))
		same(t, "rows of a group", []metering.Row(nil), collect(t, s.GroupRows(t.Context(), group(licenseA, "api_calls"))))
		same(t, "rows of a license", []metering.Row(nil), collect(t, s.LicenseRows(t.Context(), licenseA)))
		same(t, "records of a license", []metering.Record(nil), collect(t, s.LicenseRecords(t.Context(), licenseA)))
	}
	check()
	other := group(licenseB, "api_calls")
	other.Hour -= 5
	put(t, s, row(other, 0, 1))
	putRecords(t, s, record(other, 1))
	check()
}

func readsEndEarly(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	for i := range 20 {
		put(t, s, row(g, i, 1))
	}
	seq := s.GroupRows(t.Context(), g)
	for range 2 {
		n := 0
		for range seq {
			if n++; n == 7 {
				break
			}
		}
		if n != 7 {
			t.Errorf("%d rows, want 7", n)
		}
	}
	if n := len(collect(t, seq)); n != 20 {
		t.Errorf("%d rows in a full read, want 20", n)
	}
}

func contextEndsEverything(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	r, rec := row(g, 0, 5), record(g, 5)
	put(t, s, r)
	putRecords(t, s, rec)
	other := group(licenseB, "api_calls")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"PutRow":    func() error { return s.PutRow(ctx, row(other, 0, 5)) },
		"Row":       func() error { _, err := s.Row(ctx, r.License, r.SortKey); return err },
		"DeleteRow": func() error { return s.DeleteRow(ctx, r.License, r.SortKey) },
		"LabelRow":  func() error { _, err := s.LabelRow(ctx, label(r, true)); return err },
		"RebucketRow": func() error {
			_, err := s.RebucketRow(ctx, metering.Rebucket{License: r.License, SortKey: r.SortKey, From: r.Pending, To: "x"})
			return err
		},
		"PutRecord":    func() error { return s.PutRecord(ctx, record(other, 5)) },
		"Record":       func() error { _, err := s.Record(ctx, g); return err },
		"DeleteRecord": func() error { return s.DeleteRecord(ctx, rec.License, rec.SortKey) },
		"CreateRecord": func() error { _, err := s.CreateRecord(ctx, record(other, 5)); return err },
		"MarkSent":     func() error { _, err := s.MarkSent(ctx, send(rec)); return err },
		"FinishRecord": func() error { _, err := s.FinishRecord(ctx, finish(rec, metering.Success)); return err },

		"PendingRows":    func() error { return ends(s.PendingRows(ctx, hour(), "")) },
		"GroupRows":      func() error { return ends(s.GroupRows(ctx, g)) },
		"PendingRecords": func() error { return ends(s.PendingRecords(ctx, hour(), "")) },
		"Licenses":       func() error { return ends(s.Licenses(ctx)) },
		"LicenseRows":    func() error { return ends(s.LicenseRows(ctx, licenseA)) },
		"LicenseRecords": func() error { return ends(s.LicenseRecords(ctx, licenseA)) },
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", name, err, context.Canceled)
		}
	}
	same(t, "licenses", []string{licenseA}, collect(t, s.Licenses(t.Context())))
	same(t, "row", &r, getRow(t, s, r.License, r.SortKey))
	same(t, "record", &rec, getRecord(t, s, g))
}

// ends is the error that a read ends with. Nothing may come after it.
func ends[T any](seq iter.Seq2[T, error]) error {
	var last error
	for _, err := range seq {
		if last != nil {
			return errors.New("the read went on after " + last.Error())
		}
		last = err
	}
	return last
}
