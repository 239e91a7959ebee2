// Package storetest is the contract of the usage and aggregated-usage tables, and that of the subscribers and customer-profile tables.
// Every adapter passes the same suites.
package storetest

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/awsmp/metering/internal/metering"
)

// Store is what the suite asks of an adapter: what the stages and the ledger use, and the raw writes of sellers.
type Store interface {
	PutRow(ctx context.Context, r metering.Row) error
	PutRows(ctx context.Context, rows []metering.Row) error
	FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed
	Row(ctx context.Context, license, sortKey string) (*metering.Row, error)
	DeleteRow(ctx context.Context, license, sortKey string) error
	PendingRows(ctx context.Context, hour metering.Hour, license string) iter.Seq2[metering.PendingRow, error]
	GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error]
	LabelRow(ctx context.Context, l metering.Label) (metering.Outcome[metering.Row], error)
	LabelRows(ctx context.Context, labels []metering.Label) []metering.Labelled
	RebucketRow(ctx context.Context, b metering.Rebucket) (metering.Outcome[metering.Row], error)
	RecallRow(ctx context.Context, x metering.Recall) (metering.Outcome[metering.Row], error)
	DropRow(ctx context.Context, x metering.Drop) (metering.Outcome[metering.Row], error)
	CarryRow(ctx context.Context, x metering.Carry) (metering.Outcome[metering.Row], error)

	PutRecord(ctx context.Context, r metering.Record) error
	Record(ctx context.Context, g metering.Group) (*metering.Record, error)
	DeleteRecord(ctx context.Context, license, sortKey string) error
	CreateRecord(ctx context.Context, r metering.Record) (metering.Outcome[metering.Record], error)
	PendingRecords(ctx context.Context, hour metering.Hour, license string) iter.Seq2[metering.Record, error]
	MarkSent(ctx context.Context, s metering.Send) (metering.Outcome[metering.Record], error)
	FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error)
	ReopenRecord(ctx context.Context, x metering.Reopen) (metering.Outcome[metering.Record], error)

	Licenses(ctx context.Context) iter.Seq2[string, error]
	LicenseRows(ctx context.Context, license string) iter.Seq2[metering.Row, error]
	LicenseRecords(ctx context.Context, license string) iter.Seq2[metering.Record, error]
	Accounts(ctx context.Context, license string) ([]string, error)
	EndedRows(ctx context.Context, license string, status metering.Status) iter.Seq2[metering.Row, error]
	EndedRecords(ctx context.Context, license string, status metering.Status) iter.Seq2[metering.Record, error]
}

// Run holds a store against the contract. Each test opens one of its own, empty, and runs beside the others.
func Run(t *testing.T, open func(t *testing.T) Store) {
	RunWithout(t, open, "random operations") // those with lists and maps are all of them
}

// RunWithout leaves out by name what a stand-in of a service is known to get wrong; the service itself keeps it.
func RunWithout(t *testing.T, open func(t *testing.T) Store, without ...string) {
	parts := []part{
		{"rows", rowContract()}, {"pages", pageContract()}, {"flushes", flushContract()}, {"labels", labelContract()},
		{"sets of labels", labelSetContract()}, {"records", recordContract()}, {"reopened records", reopenContract()}, {"re-driven rows", redriveContract()},
		{"carried rows", carryContract()}, {"model", modelContract()},
	}
	left := len(without)
	for i, p := range parts {
		parts[i].tests = slices.DeleteFunc(p.tests, func(c contract) bool { return slices.Contains(without, c.name) })
		left -= len(p.tests) - len(parts[i].tests)
	}
	if left != 0 {
		t.Errorf("the contract has no %d of the parts to be left out: %q", left, without)
	}
	for _, p := range parts {
		run(t, open, p.name, p.tests)
	}
}

type part struct {
	name  string
	tests []contract
}

// Pages is the part of the contract that a store may break for one size of its pages and keep for another.
func Pages(t *testing.T, open func(t *testing.T) Store) {
	run(t, open, "rows", rowContract())
	run(t, open, "pages", pageContract())
}

func run(t *testing.T, open func(t *testing.T) Store, name string, tests []contract) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		for _, c := range tests {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.test(t, open(t))
			})
		}
	})
}

type contract struct {
	name string
	test func(t *testing.T, s Store)
}

const (
	licenseA = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	licenseB = "arn:aws:license-manager::111122223333:license:l-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	buyer    = "444455556666"
)

var missingRow, missingRecord = metering.Outcome[metering.Row]{}, metering.Outcome[metering.Record]{}

func now() time.Time { return time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC) }

// hour is 2026-03-10T14, the hour before now.
func hour() metering.Hour { return metering.HourOf(now()) - 1 }

func group(license, dimension string) metering.Group {
	return metering.Group{License: license, Account: buyer, Dimension: dimension, Hour: hour()}
}

func second(offset int) metering.Second {
	return hour().Second(offset)
}

// row is a waiting row of a group, offset seconds after its hour began.
func row(g metering.Group, offset int, quantity int64) metering.Row {
	return metering.NewRow(g, g.Hour.Second(offset), quantity)
}

// record is a waiting record of a group.
func record(g metering.Group, quantity int64) metering.Record {
	r := metering.NewRecord(g, quantity)
	r.Manifest = "v1 1 0 0:0"
	return r
}

func put(t *testing.T, s Store, rows ...metering.Row) {
	t.Helper()
	for _, r := range rows {
		if err := s.PutRow(t.Context(), r); err != nil {
			t.Fatalf("PutRow(%s): %v", r.SortKey, err)
		}
	}
}

func putRecords(t *testing.T, s Store, records ...metering.Record) {
	t.Helper()
	for _, r := range records {
		if err := s.PutRecord(t.Context(), r); err != nil {
			t.Fatalf("PutRecord(%s): %v", r.SortKey, err)
		}
	}
}

// must unwraps what a call without fault returns.
func must[T any](t fataler, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	return v
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

func collect[T any](t fataler, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var out []T
	for v, err := range seq {
		out = append(out, must(t, v, err))
	}
	return out
}

// same compares as a store does: numbers by value, so that one which writes 3.0 as 3 passes, and a row's tokens without their
// order, so that one may keep them as a set.
func same(t fataler, what string, want, got any) {
	t.Helper()
	numbers := cmp.Comparer(func(a, b json.Number) bool { return metering.SameValue(a, b) })
	tokens := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Flushes" },
		cmpopts.SortSlices(func(a, b string) bool { return a < b }))
	if diff := cmp.Diff(want, got, numbers, tokens, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func getRow(t *testing.T, s Store, license, sortKey string) *metering.Row {
	t.Helper()
	r, err := s.Row(t.Context(), license, sortKey)
	return must(t, r, err)
}

func getRecord(t *testing.T, s Store, g metering.Group) *metering.Record {
	t.Helper()
	r, err := s.Record(t.Context(), g)
	return must(t, r, err)
}

// pendingKeys are the license and sort key of every entry.
func pendingKeys(t *testing.T, s Store, h metering.Hour, license string) []string {
	t.Helper()
	var keys []string
	for _, p := range groupsTogether(t, collect(t, s.PendingRows(t.Context(), h, license))) {
		keys = append(keys, p.License+" "+p.SortKey)
	}
	return sorted(keys)
}

func pendingRecordKeys(t *testing.T, s Store, h metering.Hour, license string) []string {
	t.Helper()
	var keys []string
	for _, r := range collect(t, s.PendingRecords(t.Context(), h, license)) {
		keys = append(keys, r.License+" "+r.SortKey)
	}
	return sorted(keys)
}

// groupsTogether checks the one order that the index promises: the entries of a license come together, or at least those of a
// group do. So a reader that forgets a license's groups when the next license begins meets no group twice.
func groupsTogether(t *testing.T, entries []metering.PendingRow) []metering.PendingRow {
	t.Helper()
	met, seen := make(map[metering.Group]bool), make(map[metering.Group]bool)
	license := ""
	for _, p := range entries {
		if p.License != license {
			license = p.License
			clear(seen)
		}
		key, reason := metering.ParseRowKey(p.SortKey)
		g := key.Group(p.License)
		if reason != "" || seen[g] {
			continue
		}
		if met[g] {
			t.Errorf("entries of %s come again after those of other licenses", g.RecordKey())
		}
		met[g], seen[g] = true, true
	}
	return entries
}

func rowKeys(rows []metering.Row) []string {
	var keys []string
	for _, r := range rows {
		keys = append(keys, r.SortKey)
	}
	return keys
}
