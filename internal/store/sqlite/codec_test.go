package sqlite_test

import (
	"slices"
	"testing"

	"github.com/awsmp/metering/internal/metering"
)

// Whatever a key, a token, a bucket or a time is written like, it reads back as it was written, and no two are taken for one.
func TestTextsReadBackAsWritten(t *testing.T) {
	t.Parallel()
	s := quick(t)
	odd := []string{
		"2026-03-10T14:00:00", "2026-03-10T14:00:00Z", "2026-03-10t14:00:00", "2026-02-30T14:00:00", "2026-03-10T24:00:00", "1773151200", "-1", "0", "0.0",
		"1e3", "0000-01-01T00:00:00", "9999-12-31T23:59:59", "10000-01-01T00:00:00", "2026-03-10T14", "9999-12-31T23", " ", "[", `["one"]`, "null", "a b",
		"2026-03-10T14:00:00+00:00", "2026-03-10T14:00:00.5Z", "zero\x00byte", "ümlaut", "\U0001F600",
	}
	var want []metering.Row
	for i, text := range odd {
		r := metering.Row{License: licenseA, SortKey: buyer + "#api#" + text, Pending: text, CreatedAt: text, UpdatedAt: odd[(i+1)%len(odd)]}
		r.Flushes, r.StatusReason, r.CustomerIdentifier = []string{text, odd[(i+2)%len(odd)]}, text, text
		want = append(want, r)
	}
	for _, key := range []string{"#", "##", "api", "api#", "#api", "#api#", "2026-03-10T14:00:00"} {
		want = append(want, metering.Row{License: licenseA, SortKey: key, Flushes: []string{"one"}})
	}
	want = append(want,
		metering.Row{License: licenseA, SortKey: "tokens", Flushes: []string{"[", "]"}},
		metering.Row{License: licenseA, SortKey: "no token", Flushes: []string{""}},
		metering.Row{License: licenseA, SortKey: "two", Flushes: []string{"", ""}},
		metering.Row{License: "1773151200", SortKey: "1773151200", Flushes: []string{"1", "2"}},
	)
	put(t, s, want...)
	for _, r := range want {
		same(t, r.SortKey, &r, getRow(t, s, r.License, r.SortKey))
	}
	got := slices.Concat(collect(t, s.LicenseRows(t.Context(), licenseA)), collect(t, s.LicenseRows(t.Context(), "1773151200")))
	same(t, "rows in all", len(want), len(got))
	for i, text := range odd {
		check(t, "DeleteRow", s.DeleteRow(t.Context(), licenseA, buyer+"#api#"+text))
		same(t, "rows after one was deleted", len(want)-1-i-1, len(collect(t, s.LicenseRows(t.Context(), licenseA))))
	}

	for _, text := range odd {
		r := metering.Record{License: licenseB, SortKey: buyer + "#api#" + text, Pending: text, SentSecond: text, MeteringRecordID: text, StatusReason: text, Manifest: text}
		check(t, "PutRecord", s.PutRecord(t.Context(), r))
		all := collect(t, s.LicenseRecords(t.Context(), licenseB))
		same(t, "record "+text, []metering.Record{r}, all)
		check(t, "DeleteRecord", s.DeleteRecord(t.Context(), licenseB, r.SortKey))
	}
}
