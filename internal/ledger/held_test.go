package ledger_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
)

// Whatever the keys of a license are, Gather has each row and each record once, and those of a group together (case 35).
func TestGather(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		license := fmt.Sprint("license ", n)
		part := rapid.SampledFrom([]string{"a", "a#", "a!", "a#2026-03-10T14", "a#2026-03-10T14:00:00", "", "#", "ä"})
		account := rapid.SampledFrom([]string{"1", "11", "", "1#"})
		when := rapid.SampledFrom([]string{"2026-03-10T14", "2026-03-10T15", "2026-03-31T23"})
		want := map[string][]string{}
		note := func(key, group string) { want[group] = append(want[group], key) }
		for _, tail := range rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) string {
			end := rapid.SampledFrom([]string{":00:00", ":00:01", ":59:59", "", ":1"}).Draw(t, "end")
			return account.Draw(t, "account") + "#" + part.Draw(t, "dimension") + "#" + when.Draw(t, "hour") + end
		}), 0, 40, rapid.ID).Draw(t, "rows") {
			if err := store.PutRow(t.Context(), metering.Row{License: license, SortKey: tail, Quantity: metering.Units(1)}); err != nil {
				t.Fatal(err)
			}
			if key, reason := metering.ParseRowKey(tail); reason == "" {
				note("row "+tail, key.Group(license).RecordKey())
			} else {
				note("row "+tail, "row "+tail)
			}
		}
		for _, key := range rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) string {
			return account.Draw(t, "account") + "#" + part.Draw(t, "dimension") + "#" + when.Draw(t, "hour") + rapid.SampledFrom([]string{"", "", ":00"}).Draw(t, "end")
		}), 0, 20, rapid.ID).Draw(t, "records") {
			if err := store.PutRecord(t.Context(), metering.Record{License: license, SortKey: key, Quantity: metering.Units(1)}); err != nil {
				t.Fatal(err)
			}
			if g, reason := metering.ParseRecordKey(license, key); reason == "" {
				note("record "+key, g.RecordKey())
			} else {
				note("record "+key, "record "+key)
			}
		}
		got := map[string][]string{}
		for h, err := range ledger.Gather(license, store.LicenseRows(t.Context(), license), store.LicenseRecords(t.Context(), license)) {
			if err != nil {
				t.Fatal(err)
			}
			var keys []string
			if h.Record != nil {
				keys = append(keys, "record "+h.Record.SortKey)
			}
			for _, r := range h.Rows {
				keys = append(keys, "row "+r.SortKey)
			}
			group := h.Group.RecordKey()
			if h.Stray {
				group = keys[0]
			}
			if got[group] != nil {
				t.Errorf("%s comes twice", group)
			}
			got[group] = keys
		}
		for _, groups := range []map[string][]string{want, got} {
			for _, keys := range groups {
				slices.Sort(keys)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestSettled(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 3, 10, 16, 0, 0, 0, time.UTC)
	before, after := since.Add(-time.Second).Format(time.RFC3339), since.Format(time.RFC3339)
	done, record := at(0, 7, metering.Aggregated), summed(metering.Success, at(0, 7, ""))
	for name, test := range map[string]struct {
		change func(*metering.Row, *metering.Record)
		want   bool
	}{
		"nothing waits":           {func(*metering.Row, *metering.Record) {}, true},
		"written before":          {func(r *metering.Row, rec *metering.Record) { r.UpdatedAt, rec.CreatedAt = before, before }, true},
		"a row waits":             {func(r *metering.Row, _ *metering.Record) { r.Pending = "2026-03-10T14" }, false},
		"the record waits":        {func(_ *metering.Row, rec *metering.Record) { rec.Pending = "2026-03-10T14" }, false},
		"a row was changed since": {func(r *metering.Row, _ *metering.Record) { r.UpdatedAt = after }, false},
		"a record was made since": {func(_ *metering.Row, rec *metering.Record) { rec.CreatedAt = after }, false},
	} {
		row, rec := done, record
		test.change(&row, &rec)
		held := ledger.Held{Group: group, Record: &rec, Rows: []metering.Row{row}}
		if got := held.Settled(since); got != test.want {
			t.Errorf("%s: settled %v", name, got)
		}
		if (ledger.Held{Group: group, Rows: held.Rows}).Late() {
			t.Errorf("%s: late", name)
		}
	}
	if !(ledger.Held{Rows: []metering.Row{done, at(1, 1, metering.LateUsage)}}).Late() {
		t.Error("a late row is not seen")
	}
}

// A report keeps so many groups and reasons and no more, says how many there are beyond, and its sums are of all of them.
func TestReportIsBounded(t *testing.T) {
	t.Parallel()
	const more = 7
	r := ledger.NewReport(ledger.Scope{Alone: true}, "counting")
	for n := range ledger.MaxOpen + more {
		g := group
		g.Dimension = fmt.Sprint("d", n)
		committed := metering.NewRow(g, g.Hour.Second(0), 1)
		record := metering.NewRecord(g, 1)
		record.Manifest, record.Pending, record.Status = "v1 1 1 0:1", "", metering.Success
		committed.Quantity, committed.Pending, committed.Status = metering.Units(3), "", metering.LateUsage
		committed.StatusReason = fmt.Sprintf("Grew from %d to %d after its hour was committed", n, n+2)
		lost := metering.NewRow(g, g.Hour.Second(1), 5)
		lost.Pending = ""
		odd := metering.NewRow(g, g.Hour.Second(2), 1)
		odd.Pending, odd.Status, odd.StatusReason = "", metering.RejectedClientSide, fmt.Sprint("reason ", n)
		r.Add(ledger.Of(g, &record, []metering.Row{committed, lost, odd}))
	}
	for n := range 100_000 + more {
		r.AddLicense(fmt.Sprint("license ", n))
	}
	r.Sort()
	if len(r.Open) != ledger.MaxOpen || r.OpenMore != more || len(r.Imbalances) != ledger.MaxOpen || r.ImbalancesMore != more || r.LicensesMore != more || r.Balanced() {
		t.Errorf("open %d and %d, imbalances %d and %d, licenses %d more", len(r.Open), r.OpenMore, len(r.Imbalances), r.ImbalancesMore, r.LicensesMore)
	}
	if len(r.Total.Places) > 1_001 {
		t.Errorf("%d reasons are kept", len(r.Total.Places))
	}
	all := int64(ledger.MaxOpen + more)
	if got := r.Total; got.Written.Units != 9*all || got.Place(ledger.Late).Units != 2*all || got.Place(ledger.Rejected).Units != all || got.Place(ledger.Billed).Units != all {
		t.Errorf("%+v, late %+v, rejected %+v", got.Written, got.Place(ledger.Late), got.Place(ledger.Rejected))
	}
	note := ledger.CopyNote{StartedAt: time.Date(2026, 3, 10, 23, 59, 0, 0, time.UTC), FinishedAt: time.Date(2026, 3, 11, 0, 1, 0, 0, time.UTC), Rows: 1, Records: 2, ReadUnits: 3.5, ReadAgain: 1}
	sheet := ledger.Sheet{Report: r, Copy: &note}
	var table strings.Builder
	if err := sheet.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Ledger of 10,007 groups in 100,007 licenses,",
		"  and 9,967 groups more: --json lists 10,000 of them, --license and --hour narrow the list\n",
		"  and 99,967 licenses more\n",
		"Both tables were read from 2026-03-10 23:59:00 to 2026-03-11 00:01:00 UTC: 1 row, 2 records, 4 read units (about $0.0000 on demand in us-east-1)\n1 group waited,",
		"    GrewAfterCommit: ",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("%q is not in the table", want)
		}
	}
	if d := sheet.Document(); d.OpenMore != more || d.ImbalancesMore != more || d.LicensesMore != more || len(d.Open) != ledger.MaxOpen || d.Copy == nil {
		t.Errorf("the document says %d, %d, %d more", d.OpenMore, d.ImbalancesMore, d.LicensesMore)
	}
}
