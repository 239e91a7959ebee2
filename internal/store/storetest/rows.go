package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/metering"
)

func rowContract() []contract {
	return []contract{
		{"a row reads back as it was put", rowRoundTrip},
		{"a put replaces the whole row", putReplaces},
		{"many rows are put at once, or none", manyAtOnce},
		{"every read sees the write before it", readsAreConsistent},
		{"the pending index is sparse", pendingIndexIsSparse},
		{"the pending index is in order and by license", pendingIndexOrder},
		{"case 35: groups do not bleed into each other", groupsDoNotBleed},
		{"rows come in the order of their keys", rowsComeInOrder},
		{"licenses are listed once", licensesAreListedOnce},
	}
}

// strange is an item with every attribute that the pipeline knows in another type than it should be, and some that it
// does not know.
func strange(g metering.Group, offset int) metering.Item {
	r := row(g, offset, 0)
	return metering.Item{
		metering.AttrLicense: r.License, metering.AttrRowKey: r.SortKey, metering.AttrPending: r.Pending,
		metering.AttrAccount: json.Number("444455556666"), metering.AttrDimension: true, metering.AttrTimestamp: nil,
		metering.AttrQuantity: "7", metering.AttrAllocations: "none",
		metering.AttrLateQuantity: []any{}, metering.AttrDropped: "yes",
		metering.AttrFlushes: []any{"one", json.Number("2")}, "ttl": json.Number("1773155999"), "price": json.Number("0.125"),
		"nested": map[string]any{"list": []any{nil, false, map[string]any{"deep": "text"}}},
	}
}

func rowRoundTrip(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	full := row(g, 1, 12)
	full.Allocations = []metering.Allocation{{Quantity: 5}, {Quantity: 7, Tags: []metering.Tag{{Key: "team", Value: "blue"}}}}
	full.CustomerIdentifier, full.Status, full.StatusReason = "c-1", metering.LateUsage, "because"
	full.LateQuantity, full.Dropped = metering.Units(3), true
	full.Flushes = []string{"one", "two"}
	full.CreatedAt, full.UpdatedAt = "2026-03-10T15:00:00Z", "2026-03-10T15:10:00Z"
	decimals := metering.RowFromItem(metering.Item{
		metering.AttrLicense: licenseA, metering.AttrRowKey: g.RowKey(second(3)), metering.AttrQuantity: json.Number("3.0"),
		metering.AttrAllocations: []any{map[string]any{"AllocatedUsageQuantity": json.Number("3.0")}},
		"precise":                json.Number("12345678901234567890.123"),
	})
	for _, want := range []metering.Row{row(g, 0, 0), full, metering.RowFromItem(strange(g, 2)), decimals} {
		put(t, s, want)
		got := getRow(t, s, want.License, want.SortKey)
		same(t, "row", &want, got)
		if got != nil && got.Fingerprint() != want.Fingerprint() && want.Other == nil {
			t.Errorf("row %s: it is judged otherwise once it was stored", want.SortKey)
		}
	}
	if got := getRow(t, s, licenseA, decimals.SortKey); got == nil || got.Quantity != metering.Units(3) {
		t.Errorf("3.0 reads as %v, want 3", got)
	}
	if got := getRow(t, s, licenseB, full.SortKey); got != nil {
		t.Errorf("a row of another license: %v", got)
	}
}

func putReplaces(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	put(t, s, metering.RowFromItem(strange(g, 0)))
	want := row(g, 0, 4)
	put(t, s, want)
	same(t, "row", &want, getRow(t, s, licenseA, want.SortKey))
}

func manyAtOnce(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	rows := []metering.Row{row(g, 0, 1), row(g, 2, 2), row(g, 1, 3), row(g, 0, 4)}
	must(t, 0, s.PutRows(t.Context(), nil))
	must(t, 0, s.PutRows(t.Context(), rows))
	want := []metering.Row{rows[3], rows[2], rows[1]}
	same(t, "rows", want, collect(t, s.GroupRows(t.Context(), g)))

	large := row(g, 4, 1)
	large.Other = metering.Item{"note": strings.Repeat("x", 400*1024)}
	if err := s.PutRows(t.Context(), []metering.Row{row(g, 3, 1), large}); !errors.Is(err, metering.ErrTooLarge) {
		t.Errorf("a row of 400 KB: %v, want %v", err, metering.ErrTooLarge)
	}
	same(t, "rows", want, collect(t, s.GroupRows(t.Context(), g)))
}

func readsAreConsistent(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	for i := range 20 {
		put(t, s, row(g, i, int64(i)))
		if n := len(collect(t, s.GroupRows(t.Context(), g))); n != i+1 {
			t.Fatalf("%d rows after %d puts", n, i+1)
		}
	}
	for i := range 20 {
		if err := s.DeleteRow(t.Context(), licenseA, g.RowKey(second(i))); err != nil {
			t.Fatal(err)
		}
		if n := len(collect(t, s.GroupRows(t.Context(), g))); n != 19-i {
			t.Fatalf("%d rows after %d of 20 were deleted", n, i+1)
		}
	}
	if err := s.DeleteRow(t.Context(), licenseA, g.RowKey(second(0))); err != nil {
		t.Errorf("deleting a row that is gone: %v", err)
	}
}

func pendingIndexIsSparse(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	r := row(g, 0, 5)
	here, there := g.Hour, g.Hour+1
	check := func(step string, wantHere, wantThere bool) {
		t.Helper()
		for h, want := range map[metering.Hour]bool{here: wantHere, there: wantThere} {
			if got := len(pendingKeys(t, s, h, "")) == 1; got != want {
				t.Errorf("%s: listed under %v is %v, want %v", step, h, got, want)
			}
		}
	}
	check("empty table", false, false)

	unmarked := r
	unmarked.Pending = ""
	put(t, s, unmarked)
	check("a row without marker", false, false)

	put(t, s, r)
	check("a marker appears", true, false)
	same(t, "entry", []metering.PendingRow{{License: licenseA, SortKey: r.SortKey, Bucket: here.String(), Account: buyer, Dimension: "api_calls"}},
		collect(t, s.PendingRows(t.Context(), here, "")))

	moved := r
	moved.Pending = there.String()
	put(t, s, moved)
	check("another bucket is put", false, true)

	b, err := s.RebucketRow(t.Context(), metering.Rebucket{License: licenseA, SortKey: r.SortKey, From: there.String(), To: here.String(), At: now()})
	if must(t, b, err); !b.Done {
		t.Error("RebucketRow was refused")
	}
	check("the bucket is mended", true, false)

	l, err := s.LabelRow(t.Context(), metering.Label{License: licenseA, SortKey: r.SortKey, Marker: true, Quantity: r.Quantity, Status: metering.Aggregated, At: now()})
	if must(t, l, err); !l.Done {
		t.Error("LabelRow was refused")
	}
	check("a label", false, false)

	put(t, s, r)
	check("the seller puts it again", true, false)
	if err := s.DeleteRow(t.Context(), licenseA, r.SortKey); err != nil {
		t.Fatal(err)
	}
	check("it is deleted", false, false)

	// A store may refuse a marker that is no text; one that takes it must not list it, nor trip over it.
	odd := metering.RowFromItem(metering.Item{metering.AttrLicense: licenseA, metering.AttrRowKey: r.SortKey, metering.AttrPending: json.Number("7")})
	if err := s.PutRow(t.Context(), odd); err == nil {
		check("a marker that is a number", false, false)
	}

	// What the index carries may be missing or of another type.
	put(t, s, metering.RowFromItem(strange(g, 0)))
	same(t, "entry", []metering.PendingRow{{License: licenseA, SortKey: r.SortKey, Bucket: here.String()}}, collect(t, s.PendingRows(t.Context(), here, "")))
}

func pendingIndexOrder(t *testing.T, s Store) {
	longer := licenseA + "a" // begins with the name of another license
	var want []string
	for _, license := range []string{licenseA, longer, licenseB} {
		for _, dimension := range []string{"Zebra", "api", "api#x", "äpfel"} {
			g := group(license, dimension)
			want = append(want, license+" "+g.RowKey(second(0)), license+" "+g.RowKey(second(59)))
			put(t, s, row(g, 59, 1), row(g, 0, 1))
		}
	}
	same(t, "all licenses", want, pendingKeys(t, s, hour(), ""))
	same(t, "the first", want[:8], pendingKeys(t, s, hour(), licenseA))
	same(t, "the longer", want[8:16], pendingKeys(t, s, hour(), longer))
	same(t, "the last", want[16:], pendingKeys(t, s, hour(), licenseB))
	same(t, "one without rows", []string(nil), pendingKeys(t, s, hour(), licenseA[:len(licenseA)-1]))
}

func groupsDoNotBleed(t *testing.T, s Store) {
	plain, hash := group(licenseA, "api"), group(licenseA, "api#2026-03-10T14")
	next := plain
	next.Hour++
	other := group(licenseB, "api")
	for _, g := range []metering.Group{plain, hash, next, other, group(licenseA, "ap"), group(licenseA, "api2"), group(licenseA, "#api#")} {
		put(t, s, row(g, 0, 1), row(g, 1800, 1), row(g, 3599, 1))
	}
	for _, g := range []metering.Group{plain, hash, next, other} {
		start := g.Hour.Second(0)
		same(t, g.RowPrefix(), []string{g.RowKey(start), g.RowKey(start + 1800), g.RowKey(start + 3599)}, rowKeys(collect(t, s.GroupRows(t.Context(), g))))
	}

	// With this dimension the key does begin with the prefix of another group: a read may show it, and who folds leaves it out.
	twin := row(group(licenseA, "api#2026-03-10T14:00"), 0, 1)
	put(t, s, twin)
	ours := 0
	for _, r := range collect(t, s.GroupRows(t.Context(), plain)) {
		if _, ok := plain.Contains(r.SortKey); ok {
			ours++
		}
	}
	if ours != 3 {
		t.Errorf("%d rows are of the group, want 3", ours)
	}
}

func rowsComeInOrder(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	var want []string
	for i := range 120 {
		put(t, s, row(g, i*7919%3600, 1)) // a prime step: out of order
	}
	for sec := range 3600 {
		if getsOne := sec*2879%3600 < 120; getsOne { // 2879 undoes 7919 modulo 3600
			want = append(want, g.RowKey(second(sec)))
		}
	}
	same(t, "keys", want, rowKeys(collect(t, s.GroupRows(t.Context(), g))))
}

func licensesAreListedOnce(t *testing.T, s Store) {
	same(t, "licenses of an empty store", []string(nil), collect(t, s.Licenses(t.Context())))
	rowsOnly, recordsOnly := licenseA+"-r", licenseA+"-s"
	for i := range 3 {
		put(t, s, row(group(licenseB, fmt.Sprint("d", i)), i, 1), row(group(rowsOnly, "d"), i, 1))
		putRecords(t, s, record(group(licenseB, fmt.Sprint("d", i)), 1), record(group(recordsOnly, fmt.Sprint("d", i)), 1))
	}
	same(t, "licenses", []string{rowsOnly, recordsOnly, licenseB}, collect(t, s.Licenses(t.Context())))
	if n := len(collect(t, s.LicenseRows(t.Context(), licenseB))); n != 3 {
		t.Errorf("%d rows of the license, want 3", n)
	}
	if n := len(collect(t, s.LicenseRecords(t.Context(), licenseB))); n != 3 {
		t.Errorf("%d records of the license, want 3", n)
	}
	for i := range 3 {
		if err := s.DeleteRow(t.Context(), rowsOnly, group(rowsOnly, "d").RowKey(second(i))); err != nil {
			t.Fatal(err)
		}
	}
	same(t, "licenses after the last row of one is gone", []string{recordsOnly, licenseB}, collect(t, s.Licenses(t.Context())))
}
