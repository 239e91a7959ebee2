package verify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// Report is what a run found.
type Report struct {
	ID      string
	Stack   string
	DryRun  bool
	Direct  bool
	Begun   time.Time
	Ended   time.Time
	Cases   []Case
	Books   Books
	Deleted int // items that were taken away
	Left    int // items that could not be, or came back
	Buyer   *Buyer
}

// Passed reports whether all cases that were tried came out as expected, the books balance, and nothing is left behind.
func (r Report) Passed() bool {
	return r.Count(Failed) == 0 && r.Count("") == 0 && r.Books.Balanced && r.Left == 0
}

// Count is how many cases came out so.
func (r Report) Count(result Result) (n int) {
	for _, c := range r.Cases {
		if c.Result == result {
			n++
		}
	}
	return n
}

// Books are the ledger of what a run wrote, before it was taken away.
type Books struct {
	Balanced   bool
	Written    ledger.Amount
	Places     map[ledger.Place]ledger.Amount
	Unknown    int // items whose quantity is no number
	Imbalances []string
}

func (r *run) report() Report {
	report := Report{ID: r.ID, Stack: r.Name, DryRun: r.DryRun, Direct: r.Direct(), Begun: r.begun, Buyer: r.Buyer}
	for _, c := range r.cases {
		report.Cases = append(report.Cases, *c)
	}
	return report
}

// books balances what the run has written.
func (r *run) books(ctx context.Context) (Books, error) {
	seen, err := r.look(ctx)
	if err != nil {
		return Books{}, fmt.Errorf("balance the books: %w", err)
	}
	books := Books{Balanced: true, Places: make(map[ledger.Place]ledger.Amount)}
	for _, license := range seen.licenses() {
		report, err := ledger.Compute(ctx, seen, ledger.Scope{License: license})
		if err != nil {
			return books, fmt.Errorf("balance the books: %w", err)
		}
		books.Balanced = books.Balanced && report.Balanced()
		books.Written.Items += report.Total.Written.Items
		books.Written.Units += report.Total.Written.Units
		books.Unknown += report.Total.Unknown
		for _, p := range ledger.Places() {
			if a := report.Total.Place(p); a != (ledger.Amount{}) {
				sum := books.Places[p]
				books.Places[p] = ledger.Amount{Items: sum.Items + a.Items, Units: sum.Units + a.Units}
			}
		}
		for _, b := range report.Imbalances {
			books.Imbalances = append(books.Imbalances, fmt.Sprintf("%s %v: %v", b.Group.Dimension, b.Group.Hour, b.Findings))
		}
	}
	return books, nil
}

const (
	// tidyTime is how long a run may take to balance its books and tidy up, also when it was interrupted.
	tidyTime = 3 * time.Minute
	// tidyRounds is how often a run looks again whether a stage that was under way has made an item anew.
	tidyRounds = 4
	tidyPause  = 5 * time.Second
)

// Tidied is what was taken away.
type Tidied struct {
	Deleted int // items
	Left    int // items, and entries of the indexes, that are still there
	Runs    []string
}

// clean takes away all that the run has written but what is billed.
func (r *run) clean(ctx context.Context) (Tidied, error) {
	if err := r.cleanBuyer(ctx); err != nil {
		return Tidied{Left: 1}, err
	}
	done, err := tidy(ctx, r.Target, Licenses(), r.buckets, r.Sleep, func(id string) bool { return id == r.ID })
	return done, errors.Join(err, r.cleanBuyer(ctx)) // a visit that was under way may have made a record meanwhile
}

// cleanBuyer deletes what stands under a real license and is not its own. It is found by its keys: all that the buyer has is not read.
func (r *run) cleanBuyer(ctx context.Context) error {
	for p := range r.written {
		if slices.Contains(Licenses(), p.license) || runOf(nil, p.sort) != r.ID {
			continue
		}
		if err := remove(ctx, r.Target, p); err != nil {
			return fmt.Errorf("delete %s of %s: %w", p.sort, p.license, err)
		}
	}
	return nil
}

// Clean takes away what runs have left under the invented licenses, and under others that are named: of the runs that which says.
func Clean(ctx context.Context, t Target, more []string, sleep func(context.Context, time.Duration) error, which func(id string) bool) (Tidied, error) {
	return tidy(ctx, t, append(Licenses(), more...), make(map[metering.Hour]bool), sleep, which)
}

// Leftovers counts what runs have left, by run.
func Leftovers(ctx context.Context, t Target, more []string) (map[string]int, error) {
	found := make(map[string]int)
	err := items(ctx, t, append(Licenses(), more...), func(p place, id, _ string) error {
		found[id]++
		return nil
	})
	return found, err
}

// items yields each item of any run under the licenses.
func items(ctx context.Context, t Target, licenses []string, do func(p place, id, bucket string) error) error {
	for _, license := range licenses {
		if t.Rows != nil {
			for row, err := range t.Rows.LicenseRows(ctx, license) {
				if err != nil {
					return err
				}
				if id := runOf(row.Other, row.SortKey); id != "" {
					if err := do(rowPlace(row), id, row.Pending); err != nil {
						return err
					}
				}
			}
		}
		for record, err := range t.Records.LicenseRecords(ctx, license) {
			if err != nil {
				return err
			}
			if id := runOf(record.Other, record.SortKey); id != "" {
				if err := do(recordPlace(record), id, record.Pending); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// tidy deletes until a look finds nothing: a visit that was under way may have made a record of rows that are gone since. Then it looks
// into the indexes, which lag behind.
func tidy(ctx context.Context, t Target, licenses []string, buckets map[metering.Hour]bool, sleep func(context.Context, time.Duration) error, which func(id string) bool) (Tidied, error) {
	var done Tidied
	for round := 0; ; round++ {
		var list []place
		err := items(ctx, t, licenses, func(p place, id, bucket string) error {
			if which(id) {
				list = append(list, p)
				if h, err := metering.ParseHour(bucket); err == nil {
					buckets[h] = true
				}
				if !slices.Contains(done.Runs, id) {
					done.Runs = append(done.Runs, id)
				}
			}
			return nil
		})
		if err != nil {
			return done, fmt.Errorf("look for what is left: %w", err)
		}
		for _, p := range list {
			if err := remove(ctx, t, p); err != nil {
				done.Left = len(list)
				return done, fmt.Errorf("delete what was written: %w", err)
			}
			done.Deleted++
		}
		if len(list) == 0 && round > 0 {
			entries, err := indexed(ctx, t, licenses, buckets, which)
			if err != nil {
				return done, fmt.Errorf("look into the indexes: %w", err)
			}
			if done.Left = entries; entries == 0 {
				return done, nil
			}
		}
		if round >= tidyRounds {
			done.Left = max(done.Left, len(list))
			return done, nil
		}
		if err := sleep(ctx, tidyPause); err != nil {
			done.Left = max(done.Left, len(list))
			return done, err
		}
	}
}

func remove(ctx context.Context, t Target, p place) error {
	if p.record {
		return t.Records.DeleteRecord(ctx, p.license, p.sort)
	}
	return t.Rows.DeleteRow(ctx, p.license, p.sort)
}

// indexed counts the entries of the indexes that are of such runs.
func indexed(ctx context.Context, t Target, licenses []string, buckets map[metering.Hour]bool, which func(id string) bool) (n int, err error) {
	for h := range buckets {
		for _, license := range licenses {
			if t.Rows != nil {
				for entry, err := range t.Rows.PendingRows(ctx, h, license) {
					if err != nil {
						return n, err
					}
					if id := runOf(nil, entry.SortKey); id != "" && which(id) {
						n++
					}
				}
			}
			for entry, err := range t.Records.PendingRecords(ctx, h, license) {
				if err != nil {
					return n, err
				}
				if id := runOf(nil, entry.SortKey); id != "" && which(id) {
					n++
				}
			}
		}
	}
	return n, nil
}
