package ledger

import (
	"context"
	"fmt"
	"iter"
	"sort"

	"github.com/awsmp/metering/internal/metering"
)

// Store is what the ledger reads: both usage tables, and nothing else.
type Store interface {
	Licenses(ctx context.Context) iter.Seq2[string, error]
	LicenseRows(ctx context.Context, license string) iter.Seq2[metering.Row, error]
	LicenseRecords(ctx context.Context, license string) iter.Seq2[metering.Record, error]
	Record(ctx context.Context, g metering.Group) (*metering.Record, error)
	GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error]
}

// Scope is what a ledger covers. The zero value covers everything.
type Scope struct {
	License  string         // empty: every license found in the tables
	From, To *metering.Hour // nil: open; To is included
}

func (s Scope) covers(h metering.Hour) bool {
	return (s.From == nil || h >= *s.From) && (s.To == nil || h <= *s.To)
}

// Report is a ledger.
type Report struct {
	Licenses []string // covered, in order
	FoundBy  string   // how they were found
	Groups   int
	Total    Balance
	// Open are the groups with anything other than billed, in the order of their keys.
	Open []Balance
	// Imbalances are the groups whose books do not balance.
	Imbalances []Balance

	sold map[metering.Identity]entry // what the Marketplace should know of
}

// Balanced reports whether every written unit has its place.
func (r Report) Balanced() bool {
	return len(r.Imbalances) == 0 && r.Total.Written.Units == r.Total.Named()
}

// Compute recomputes the ledger from the tables. It reads each group's record, its rows and its record again, so that it can
// run beside live stages without counting anything twice.
func Compute(ctx context.Context, store Store, scope Scope) (Report, error) {
	r := Report{FoundBy: "named by the caller", sold: make(map[metering.Identity]entry)}
	licenses := func(yield func(string, error) bool) { yield(scope.License, nil) }
	var all iter.Seq2[string, error] = licenses
	if scope.License == "" {
		r.FoundBy, all = "all partitions of the usage and aggregated-usage tables", store.Licenses(ctx)
	}
	for license, err := range all {
		if err != nil {
			return r, fmt.Errorf("list licenses: %w", err)
		}
		r.Licenses = append(r.Licenses, license)
		if err := r.license(ctx, store, license, scope); err != nil {
			return r, fmt.Errorf("read license %s: %w", license, err)
		}
	}
	return r, nil
}

func (r *Report) license(ctx context.Context, store Store, license string, scope Scope) error {
	groups := make(map[metering.Group]bool)
	for row, err := range store.LicenseRows(ctx, license) {
		if err != nil {
			return err
		}
		key, reason := metering.ParseRowKey(row.SortKey)
		if reason == "" {
			groups[key.Group(license)] = true
		} else if h, err := metering.ParseHour(row.Pending); scope.From == nil && scope.To == nil || err == nil && scope.covers(h) {
			r.add(OfRow(row))
		}
	}
	for record, err := range store.LicenseRecords(ctx, license) {
		if err != nil {
			return err
		}
		if g, reason := record.Group(); reason == "" {
			groups[g] = true
		} else if scope.From == nil && scope.To == nil {
			r.add(Of(metering.Group{License: license, Account: record.Account, Dimension: record.Dimension}, &record, nil))
		}
	}
	ordered := make([]metering.Group, 0, len(groups))
	for g := range groups {
		if scope.covers(g.Hour) {
			ordered = append(ordered, g)
		}
	}
	sort.Slice(ordered, func(i, j int) bool { return ordered[i].RecordKey() < ordered[j].RecordKey() })
	for _, g := range ordered {
		b, err := Read(ctx, store, g)
		if err != nil {
			return err
		}
		r.add(b)
	}
	return nil
}

// readAttempts is how often a group is read again because its record changed meanwhile.
const readAttempts = 5

// Read balances one group as the store holds it now.
func Read(ctx context.Context, store Store, g metering.Group) (Balance, error) {
	record, err := store.Record(ctx, g)
	for range readAttempts {
		if err != nil {
			return Balance{}, fmt.Errorf("read record: %w", err)
		}
		var rows []metering.Row
		for row, err := range store.GroupRows(ctx, g) {
			if err != nil {
				return Balance{}, fmt.Errorf("read rows: %w", err)
			}
			rows = append(rows, row)
		}
		before := record
		if record, err = store.Record(ctx, g); err == nil && same(before, record) {
			return Of(g, record, rows), nil
		}
	}
	return Balance{}, fmt.Errorf("read group %s: its record changed %d times in a row; run the ledger again", g.RecordKey(), readAttempts)
}

func same(a, b *metering.Record) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Fingerprint() == b.Fingerprint() && a.Status == b.Status && a.Manifest == b.Manifest && a.BilledQuantity == b.BilledQuantity
}

func (r *Report) add(b Balance) {
	r.Groups++
	r.Total.Merge(b)
	if !b.Balanced() {
		r.Imbalances = append(r.Imbalances, b)
	}
	if b.Place(Billed).Units != b.Written.Units || b.Unknown > 0 || b.Withdraw.Items > 0 || b.Stale > 0 {
		r.Open = append(r.Open, b)
	}
	r.note(b)
}
