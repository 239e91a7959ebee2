package ledger

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

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
	// Alone says that nothing will be compared with the report: it keeps no list of what the Marketplace should know of.
	Alone bool
	// Now is the time of the ledger: units of hours that can no longer be billed then are told apart. Zero: none are.
	Now   time.Time
	Rules metering.Rules
}

func (s Scope) covers(h metering.Hour) bool {
	return (s.From == nil || h >= *s.From) && (s.To == nil || h <= *s.To)
}

// Covers reports whether a group, or a row or record that belongs to none, is in the scope. What belongs to no hour is only in one that
// names no hours, but for a row that waits: it is found under the hour of its marker.
func (s Scope) Covers(h Held) bool {
	switch {
	case s.License != "" && s.License != h.Group.License:
		return false
	case !h.Stray:
		return s.covers(h.Group.Hour)
	case s.From == nil && s.To == nil:
		return true
	case h.Record != nil:
		return false
	}
	marker, err := metering.ParseHour(h.Rows[0].Pending)
	return err == nil && s.covers(marker)
}

// What a report keeps one by one; of what is beyond it keeps the number. The sums are always of everything.
const (
	MaxOpen     = 10_000  // groups that are not billed in full, and likewise groups that do not balance
	maxLicenses = 100_000 // licenses
	maxCauses   = 1_000   // different reasons in the sum
)

// Report is a ledger.
type Report struct {
	Licenses     []string // covered, in order
	LicensesMore int      // covered, and not kept in Licenses
	FoundBy      string   // how they were found
	Groups       int
	Total        Balance
	// Open are the groups with anything other than billed, in the order of their keys; the first that were read where there are too many to
	// be kept.
	Open     []Balance
	OpenMore int // and not kept in Open
	// Imbalances are the groups whose books do not balance.
	Imbalances     []Balance
	ImbalancesMore int

	sold map[metering.Identity]entry // what the Marketplace should know of; nil where nothing is compared

	scope Scope
	found map[string]bool // licenses with a group; nil where all that are covered are listed
}

// NewReport is an empty ledger of a scope, whose licenses are found as foundBy says.
func NewReport(scope Scope, foundBy string) Report {
	r := Report{FoundBy: foundBy, scope: scope}
	if scope.License == "" && (scope.From != nil || scope.To != nil) {
		r.found = make(map[string]bool)
	}
	if !scope.Alone {
		r.sold = make(map[metering.Identity]entry)
	}
	return r
}

// Balanced reports whether every written unit has its place.
func (r Report) Balanced() bool {
	return len(r.Imbalances) == 0 && r.Total.Written.Units == r.Total.Named()
}

// Compute recomputes the ledger from the tables. It reads each group's record, its rows and its record again, so that it can
// run beside live stages without counting anything twice.
func Compute(ctx context.Context, store Store, scope Scope) (Report, error) {
	r := NewReport(scope, "named by the caller")
	licenses := func(yield func(string, error) bool) { yield(scope.License, nil) }
	var all iter.Seq2[string, error] = licenses
	if scope.License == "" {
		r.FoundBy, all = "all partitions of the usage and aggregated-usage tables", store.Licenses(ctx)
	}
	for license, err := range all {
		if err != nil {
			return r, fmt.Errorf("list licenses: %w", err)
		}
		r.AddLicense(license)
		if err := r.license(ctx, store, license, scope); err != nil {
			return r, fmt.Errorf("read license %s: %w", license, err)
		}
	}
	r.Sort()
	return r, nil
}

func (r *Report) license(ctx context.Context, store Store, license string, scope Scope) error {
	groups := make(map[metering.Group]bool)
	note := func(h Held) {
		switch {
		case !scope.Covers(h):
		case !h.Stray:
			groups[h.Group] = true
		default:
			r.Add(h.Balance())
		}
	}
	for row, err := range store.LicenseRows(ctx, license) {
		if err != nil {
			return err
		}
		note(heldRow(license, row))
	}
	for record, err := range store.LicenseRecords(ctx, license) {
		if err != nil {
			return err
		}
		note(heldRecord(license, record))
	}
	// The newest hours first: units that an operator books from an hour into a later one meanwhile are not met twice.
	for _, g := range slices.SortedFunc(maps.Keys(groups), func(a, b metering.Group) int {
		return cmp.Or(cmp.Compare(b.Hour, a.Hour), cmp.Compare(a.RecordKey(), b.RecordKey()))
	}) {
		b, err := Read(ctx, store, g)
		if err != nil {
			return err
		}
		r.Add(b)
	}
	return nil
}

// readAttempts is how often a group is read again because its record changed meanwhile.
const readAttempts = 5

// Read balances one group as the store holds it now, and looks whether what was carried from it is where it went.
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
			b := Of(g, record, rows)
			return b, b.follow(ctx, store)
		}
	}
	return Balance{}, fmt.Errorf("read group %s: its record changed %d times in a row; run the ledger again", g.RecordKey(), readAttempts)
}

func same(a, b *metering.Record) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Fingerprint() == b.Fingerprint() && a.Status == b.Status && a.Manifest == b.Manifest && a.BilledQuantity == b.BilledQuantity &&
		metering.SameValue(a.Other[metering.AttrCarried], b.Other[metering.AttrCarried])
}

// AddLicense counts a license as covered. Where the scope names hours, only those are listed that have a group in them.
func (r *Report) AddLicense(license string) {
	if r.found == nil {
		r.list(license)
	}
}

func (r *Report) list(license string) {
	if len(r.Licenses) < maxLicenses {
		r.Licenses = append(r.Licenses, license)
	} else {
		r.LicensesMore++
	}
}

// Add counts a group, or a row or record that belongs to none. Each may be added once.
func (r *Report) Add(b Balance) {
	r.Groups++
	if license := b.Group.License; r.found != nil && !r.found[license] {
		r.found[license] = true
		r.list(license)
	}
	b = b.aged(r.scope)
	r.Total.Merge(b.gathered(r.Total))
	if r.sold != nil {
		r.note(b)
	}
	b.record = nil // a kept balance must not keep a manifest alive
	if !b.Balanced() {
		r.ImbalancesMore += keep(&r.Imbalances, b)
	}
	if b.Place(Billed).Units != b.Written.Units || b.Unknown > 0 || b.Withdraw.Items > 0 || b.Stale > 0 {
		r.OpenMore += keep(&r.Open, b)
	}
}

// aged marks what could have been billed, where the group's hour can no longer be.
func (b Balance) aged(s Scope) Balance {
	if s.Now.IsZero() || b.Group.Hour == 0 || s.Rules.Billable(b.Group.Hour, s.Now) {
		return b
	}
	places := Balance{}
	for c, a := range b.Places {
		c.Over = c.Reason != Dropped && (c.Place == Refused && c.Reason != string(metering.DuplicateRecord) || c.Place == Rejected || c.Place == DryRun)
		places.put(c, a)
	}
	b.Places = places.Places
	return b
}

// keep puts a balance into a list that is not full, and returns how many it did not take.
func keep(list *[]Balance, b Balance) int {
	if len(*list) >= MaxOpen {
		return 1
	}
	*list = append(*list, b)
	return 0
}

// grew begins the reason of a row that grew after its hour was committed; figures follow.
const grew = "Grew "

// gathered is the balance as it goes into a sum: with one reason for all growth, whose reasons hold figures, and none that would be one too
// many. Nearly always that is the balance as it is.
func (b Balance) gathered(total Balance) Balance {
	full := len(total.Places) >= maxCauses
	shared := func(c Cause) Cause {
		if c.Place == Late && strings.HasPrefix(c.Reason, grew) {
			c.Reason = grew + "after its hour was committed"
		}
		if _, known := total.Places[c]; full && !known {
			c.Reason = "ManyOthers"
		}
		return c
	}
	for c := range b.Places {
		if shared(c) != c {
			places := Balance{}
			for c, a := range b.Places {
				places.put(shared(c), a)
			}
			b.Places = places.Places
			break
		}
	}
	return b
}

// Sort puts the kept groups into their order.
func (r *Report) Sort() {
	if r.found != nil {
		slices.Sort(r.Licenses)
	}
	for _, list := range [][]Balance{r.Open, r.Imbalances} {
		slices.SortStableFunc(list, func(a, b Balance) int {
			return cmp.Or(cmp.Compare(a.Group.License, b.Group.License), boolOrder(a.Group.Hour != 0, b.Group.Hour != 0),
				cmp.Compare(a.Group.RecordKey(), b.Group.RecordKey()))
		})
	}
}

func boolOrder(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
