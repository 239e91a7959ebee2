package ledger

import (
	"fmt"

	"github.com/awsmp/metering/internal/metering"
)

// Cause is a place and the reason for being there; billed and in flight have none.
type Cause struct {
	Place  Place
	Reason string
	// Over says that the hour can no longer be billed. It is set in a report whose scope has a time, for what could be billed before.
	Over bool
}

// Balance is the account of one group, or of a row that belongs to none.
type Balance struct {
	Group    metering.Group
	Written  Amount
	Places   map[Cause]Amount
	Unknown  int    // items whose quantity is no number: counted, units unknown
	Withdraw Amount // committed quantity that its row no longer holds
	Stale    int    // covered rows with another label: the next visit heals them
	Findings []string
	record   *metering.Record
}

// Named is the sum over all places.
func (b Balance) Named() (units int64) {
	for _, a := range b.Places {
		units += a.Units
	}
	return units
}

// Place sums one place over its reasons.
func (b Balance) Place(p Place) (a Amount) {
	for c, amount := range b.Places {
		if c.Place == p {
			a.add(amount)
		}
	}
	return a
}

// Balanced reports whether every written unit is in exactly one place.
func (b Balance) Balanced() bool { return b.Written.Units == b.Named() && len(b.Findings) == 0 }

// Merge adds another balance's amounts.
func (b *Balance) Merge(o Balance) {
	b.Written.add(o.Written)
	b.Unknown += o.Unknown
	b.Withdraw.add(o.Withdraw)
	b.Stale += o.Stale
	for c, a := range o.Places {
		b.put(c, a)
	}
}

func (b *Balance) put(c Cause, a Amount) {
	if b.Places == nil {
		b.Places = make(map[Cause]Amount)
	}
	sum := b.Places[c]
	sum.add(a)
	b.Places[c] = sum
}

func (b *Balance) find(format string, args ...any) {
	b.Findings = append(b.Findings, fmt.Sprintf(format, args...))
}

// Of balances a group, given its record (nil where there is none) and its rows.
func Of(g metering.Group, record *metering.Record, rows []metering.Row) Balance {
	b := Balance{Group: g, record: record}
	manifest, readable := b.manifestOf(record)
	if record != nil {
		b.addRecord(*record, manifest)
	}
	if !readable {
		return b
	}
	present := make(map[metering.Second]bool, len(rows))
	for _, row := range rows {
		second, ours := g.Contains(row.SortKey)
		if !ours {
			continue
		}
		present[second] = true
		committed, covered := manifest.Quantity(second)
		b.addRow(row, committed, covered)
	}
	for second, committed := range manifest.All(g.Hour) {
		if !present[second] {
			b.Withdraw.add(Amount{Items: 1, Units: committed})
		}
	}
	return b
}

func (b *Balance) manifestOf(record *metering.Record) (metering.Manifest, bool) {
	if record == nil {
		return metering.Manifest{}, true
	}
	m, err := record.Covers()
	if err != nil {
		b.find("the record's manifest cannot be read (%v): restore it from a backup, no row of the group is labelled until then", err)
		return metering.Manifest{}, false
	}
	if m.Count() > 0 && record.Quantity != metering.Units(m.Sum()) && record.BilledQuantity != metering.Units(m.Sum()) {
		b.find("the record's quantity is no longer what its manifest adds up to, %d", m.Sum())
	}
	return m, true
}

// addRecord puts the record's quantity where the record is. A billed quantity that differs from the one held is billed, and
// what is held beyond it refused: the hour is taken.
func (b *Balance) addRecord(r metering.Record, m metering.Manifest) {
	amount := Amount{Items: m.Count(), Units: m.Sum()}
	if r.Manifest == "" {
		units, known := r.Quantity.Count()
		amount = Amount{Items: 1, Units: units}
		if !known {
			b.Unknown++
		}
	}
	if billed, ok := billedOf(r); ok && billed < 0 {
		b.Written.add(amount)
		b.find("by the record %d units are billed of it, which is no quantity: the Marketplace's reports tell what is", billed)
		return
	} else if ok {
		b.Written.add(Amount{Items: amount.Items, Units: max(amount.Units, billed)})
		b.put(Cause{Place: Billed}, Amount{Items: amount.Items, Units: billed})
		if rest := amount.Units - billed; rest > 0 {
			b.put(Cause{Place: Refused, Reason: string(metering.DuplicateRecord)}, Amount{Items: 1, Units: rest})
		}
		return
	}
	b.Written.add(amount)
	place, reason, ok := recordPlace(r)
	switch {
	case ok:
		b.put(Cause{Place: place, Reason: reason}, amount)
	case r.Pending != "":
		b.find("the record waits under %q, which is no hour: it is never found; set %s to its own hour", r.Pending, metering.AttrPending)
	default:
		b.find("the record neither waits nor has a status: it was written without %s", metering.AttrPending)
	}
}

// billedOf is the quantity that a record is billed with.
func billedOf(r metering.Record) (int64, bool) {
	switch {
	case r.Status != metering.Success:
		return 0, false
	case r.BilledQuantity.Whole:
		return r.BilledQuantity.N, true
	case r.Pending != "": // changed by its seller after it was billed
		return r.SentQuantity.N, r.SentQuantity.Whole
	}
	return r.Quantity.N, r.Quantity.Whole
}

// addRow puts what a row holds beyond the committed quantity where the row is.
func (b *Balance) addRow(r metering.Row, committed int64, covered bool) {
	q, known := r.Quantity.Count()
	if covered && q <= committed {
		if r.Pending == "" && r.Status != metering.Aggregated {
			b.Stale++
		}
		if !known || q < committed {
			b.Withdraw.add(Amount{Items: 1, Units: committed - q})
		}
		return
	}
	excess := Amount{Items: 1, Units: q - committed}
	if covered {
		excess.Items = 0 // the row is already counted with the record
	}
	if !known {
		b.Unknown++
	}
	b.Written.add(excess)
	place, reason, ok := rowPlace(r)
	switch {
	case ok:
		b.put(Cause{Place: place, Reason: reason}, excess)
	case known && q == 0:
		b.put(Cause{Place: Billed}, excess) // a zero that is done: nothing to bill
	case r.Pending != "":
		b.find("row %s waits under %q, which is no hour: it is never found; set %s to its own hour", r.SortKey, r.Pending, metering.AttrPending)
	case r.Status == metering.Aggregated:
		b.find("row %s holds %d units that were never committed, and is labelled %s: it grew without its marker", r.SortKey, excess.Units, r.Status)
	default:
		b.find("row %s neither waits nor has a status: it was written without %s", r.SortKey, metering.AttrPending)
	}
}

// OfRow balances a row whose key names no group.
func OfRow(r metering.Row) Balance {
	b := Balance{Group: metering.Group{License: r.License, Account: r.Account, Dimension: r.Dimension}}
	b.addRow(r, 0, false)
	return b
}
