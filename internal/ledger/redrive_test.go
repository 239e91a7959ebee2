package ledger_test

import (
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// books are a few hours of one license, account and dimension.
type books struct {
	records map[metering.Hour]*metering.Record
	rows    map[string]metering.Row
}

func newBooks(records []metering.Record, rows ...metering.Row) books {
	b := books{make(map[metering.Hour]*metering.Record), make(map[string]metering.Row)}
	for _, r := range records {
		g, _ := r.Group()
		b.records[g.Hour] = &r
	}
	for _, r := range rows {
		b.rows[r.SortKey] = r
	}
	return b
}

// check balances all hours: so many units are written, and they are in these places.
func (b books) check(t *testing.T, step string, written int64, want places) {
	t.Helper()
	hours := make(map[metering.Hour][]metering.Row)
	for _, r := range b.rows {
		key, _ := metering.ParseRowKey(r.SortKey)
		hours[key.Second.Hour()] = append(hours[key.Second.Hour()], r)
	}
	var total ledger.Balance
	for h, rows := range hours {
		g := group
		g.Hour = h
		one := ledger.Of(g, b.records[h], rows)
		if !one.Balanced() || one.Stale != 0 || one.Withdraw != (ledger.Amount{}) {
			t.Errorf("%s: the hour %s does not balance: %+v", step, h, one)
		}
		total.Merge(one)
	}
	got := places{}
	for _, p := range ledger.Places() {
		if units := total.Place(p).Units; units != 0 {
			got[p] = units
		}
	}
	if total.Written.Units != written || len(got) != len(want) {
		t.Errorf("%s: %d written, %v, want %d, %v", step, total.Written.Units, got, written, want)
	}
	for p, units := range want {
		if got[p] != units {
			t.Errorf("%s: %d %s, want %d", step, got[p], p, units)
		}
	}
}

// visit applies the rule of coverage to a row of a committed hour, as the next visit would.
func (b books) visit(t *testing.T, key string, now time.Time) {
	t.Helper()
	r := b.rows[key]
	k, _ := metering.ParseRowKey(key)
	manifest, err := b.records[k.Second.Hour()].Covers()
	if err != nil {
		t.Fatal(err)
	}
	l := metering.Label{At: now}
	if committed, covered := manifest.Quantity(k.Second); covered {
		l, _ = metering.Covered(r, committed, "total")
	} else {
		status, reason := metering.Uncovered(r, now)
		l.Status, l.Reason = status, string(reason)
	}
	b.rows[key] = l.Apply(r)
}

// TestReDrivingMovesUnitsAndMakesNone: at every step of carrying, recalling and dropping the books of all hours together hold what was written.
func TestReDrivingMovesUnitsAndMakesNone(t *testing.T) {
	t.Parallel()
	now := group.Hour.End().Add(2*time.Hour + 20*time.Minute)
	current := metering.HourOf(now)
	committed := at(0, 7, metering.Aggregated)
	grown := withRow(at(1, 5, metering.LateUsage), func(r *metering.Row) { r.LateQuantity = metering.Units(2) })
	late := at(2, 11, metering.LateUsage)
	record := summed(metering.Success, committed, at(1, 3, metering.Aggregated))
	// An hour of its own with nothing but rejected rows.
	rejected := func(minute int, quantity int64) metering.Row {
		g := group
		g.Hour++
		r := metering.NewRow(g, g.Hour.Second(60*minute), quantity)
		r.Pending, r.Status, r.StatusReason = "", metering.RejectedClientSide, "NegativeQuantity"
		return r
	}
	mended, wrong, mixed := rejected(0, 13), rejected(1, 17), rejected(2, 19)
	mixed.SortKey, mixed.Timestamp = group.RowKey(group.Hour.Second(180)), group.Hour.Second(180).String() // in the committed hour
	b := newBooks([]metering.Record{record}, committed, grown, late, mended, wrong, mixed)
	const written = 7 + 5 + 11 + 13 + 17 + 19
	b.check(t, "before", written, places{ledger.Billed: 10, ledger.Late: 13, ledger.Rejected: 49})

	carry := func(key string, offset int) {
		t.Helper()
		x, o := metering.CarryOf(b.rows[key], b.records[group.Hour], metering.Rules{}, current.Second(offset), now)
		if o != "" {
			t.Fatalf("carry %s: %s", key, o)
		}
		x.Token = "token of " + key
		b.rows[key], b.rows[x.TargetKey()] = x.Apply(b.rows[key]), x.Row()
		noted := x.Note(*b.records[group.Hour])
		b.records[group.Hour] = &noted
	}
	carry(grown.SortKey, 1)
	b.check(t, "what grew is carried", written, places{ledger.Billed: 10, ledger.Late: 11, ledger.Rejected: 49, ledger.InFlight: 2})
	carry(late.SortKey, 2)
	b.check(t, "what came late is carried", written, places{ledger.Billed: 10, ledger.Rejected: 49, ledger.InFlight: 13})

	recall := func(key string) {
		t.Helper()
		x, o := metering.RecallOf(b.rows[key], metering.Rules{}, now)
		if o != "" {
			t.Fatalf("recall %s: %s", key, o)
		}
		b.rows[key] = x.Apply(b.rows[key])
	}
	recall(mended.SortKey)
	b.check(t, "a mended row is recalled", written, places{ledger.Billed: 10, ledger.Rejected: 36, ledger.InFlight: 26})
	recall(mixed.SortKey)
	b.check(t, "a row of a committed hour is recalled", written, places{ledger.Billed: 10, ledger.Rejected: 17, ledger.InFlight: 45})
	b.visit(t, mixed.SortKey, now)
	b.check(t, "and is late", written, places{ledger.Billed: 10, ledger.Rejected: 17, ledger.Late: 19, ledger.InFlight: 26})
	carry(mixed.SortKey, 3)
	b.check(t, "and is carried", written, places{ledger.Billed: 10, ledger.Rejected: 17, ledger.InFlight: 45})

	x, o := metering.DropOf(b.rows[wrong.SortKey], nil, now)
	if o != "" {
		t.Fatal(o)
	}
	b.rows[wrong.SortKey] = x.Apply(b.rows[wrong.SortKey])
	b.check(t, "a row is dropped", written, places{ledger.Billed: 10, ledger.Rejected: 17, ledger.InFlight: 45})

	// The hours that things were carried and recalled into are committed without what was dropped.
	for _, h := range []metering.Hour{group.Hour + 1, current} {
		g := group
		g.Hour = h
		fold := metering.NewFold(g, now)
		for second := range 3600 { // in the order of their keys
			if r, ok := b.rows[g.RowKey(h.Second(second))]; ok {
				fold.Add(r)
			}
		}
		rec, reason := fold.Record()
		if reason != "" {
			t.Fatalf("%s: %s", h, reason)
		}
		rec.Pending, rec.Status = "", metering.Success
		b.records[h] = &rec
		for second := range fold.Manifest().All(h) {
			b.visit(t, g.RowKey(second), now)
		}
	}
	b.check(t, "all is billed", written, places{ledger.Billed: 55, ledger.Rejected: 17})

	// More comes into a row that was carried from: it is late, again and only it.
	for _, key := range []string{grown.SortKey, late.SortKey} {
		r := b.rows[key]
		k, _ := metering.ParseRowKey(key)
		b.rows[key] = metering.NewFlush(group, k.Second, 1, "more").Apply(&r)
		b.check(t, "more comes", written+1, places{ledger.Billed: 55, ledger.Rejected: 17, ledger.InFlight: 1})
		b.visit(t, key, now)
		b.check(t, "and is late", written+1, places{ledger.Billed: 55, ledger.Rejected: 17, ledger.Late: 1})
		b.rows[key] = r
	}
}
