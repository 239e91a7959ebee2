package ledger

import (
	"cmp"
	"iter"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// Held is what a store holds of one group, or one row or record whose key names none.
type Held struct {
	Group  metering.Group
	Stray  bool // belongs to no group: of Group the hour is not meant, and account and dimension are as its attributes say
	Record *metering.Record
	Rows   []metering.Row // in no order
}

func heldRow(license string, row metering.Row) Held {
	key, reason := metering.ParseRowKey(row.SortKey)
	if reason == "" {
		return Held{Group: key.Group(license), Rows: []metering.Row{row}}
	}
	return Held{Group: metering.Group{License: license, Account: row.Account, Dimension: row.Dimension}, Stray: true, Rows: []metering.Row{row}}
}

func heldRecord(license string, record metering.Record) Held {
	g, reason := record.Group()
	if reason != "" {
		g = metering.Group{License: license, Account: record.Account, Dimension: record.Dimension}
	}
	return Held{Group: g, Stray: reason != "", Record: &record}
}

// Balance is the account of what is held.
func (h Held) Balance() Balance {
	if h.Stray && h.Record == nil {
		return OfRow(h.Rows[0])
	}
	return Of(h.Group, h.Record, h.Rows)
}

// Settled reports whether nothing of it waits, and nothing was written since: what was read of it one after the other belongs together.
func (h Held) Settled(since time.Time) bool {
	at := since.UTC().Format(time.RFC3339)
	still := func(pending, created, updated string) bool { return pending == "" && created < at && updated < at }
	if r := h.Record; r != nil && !still(r.Pending, r.CreatedAt, r.UpdatedAt) {
		return false
	}
	for _, r := range h.Rows {
		if !still(r.Pending, r.CreatedAt, r.UpdatedAt) {
			return false
		}
	}
	return true
}

// Late reports whether it holds a row that is late: an operator may book its units into another hour.
func (h Held) Late() bool {
	for _, r := range h.Rows {
		if r.Status == metering.LateUsage {
			return true
		}
	}
	return false
}

// Carried reports whether units were carried from it, which its balance alone does not follow: Read does.
func (h Held) Carried() bool {
	if h.Record == nil {
		return false
	}
	_, there := h.Record.Other[metering.AttrCarried]
	return there
}

// Gather puts a license's rows and records together by their groups, holding one group at a time. Both come as package sqlite has them:
// series after series in the order of their prefixes, what a sort key begins with up to its last '#', and in each in the order of time.
func Gather(license string, rows iter.Seq2[metering.Row, error], records iter.Seq2[metering.Record, error]) iter.Seq2[Held, error] {
	return func(yield func(Held, error) bool) {
		nextRow, stopRows := iter.Pull2(rows)
		defer stopRows()
		nextRecord, stopRecords := iter.Pull2(records)
		defer stopRecords()
		row, err := pull(license, nextRow, heldRow)
		var record *Held
		if err == nil {
			record, err = pull(license, nextRecord, heldRecord)
		}
		for err == nil && (row != nil || record != nil) {
			var held Held
			switch order := compare(row, record); {
			case order < 0:
				held = *row
				row, err = pull(license, nextRow, heldRow)
			case order > 0:
				held = *record
				record, err = pull(license, nextRecord, heldRecord)
			default:
				held = *record
				held.Rows = row.Rows
				if record, err = pull(license, nextRecord, heldRecord); err == nil {
					row, err = pull(license, nextRow, heldRow)
				}
			}
			for err == nil && !held.Stray && row != nil && !row.Stray && row.Group == held.Group {
				held.Rows = append(held.Rows, row.Rows...)
				row, err = pull(license, nextRow, heldRow)
			}
			if err == nil && !yield(held, nil) {
				return
			}
		}
		if err != nil {
			yield(Held{}, err)
		}
	}
}

// pull is the next item as a group of its own; nil at the end.
func pull[T any](license string, next func() (T, error, bool), held func(string, T) Held) (*Held, error) {
	item, err, ok := next()
	if !ok || err != nil {
		return nil, err
	}
	h := held(license, item)
	return &h, nil
}

// compare orders by series and hour. What belongs to no group, and what there is nothing of beside, comes at once.
func compare(row, record *Held) int {
	switch {
	case record == nil || row != nil && row.Stray:
		return -1
	case row == nil || record.Stray:
		return 1
	}
	return cmp.Or(strings.Compare(prefix(row.Group), prefix(record.Group)), cmp.Compare(row.Group.Hour, record.Group.Hour))
}

func prefix(g metering.Group) string { return g.Account + "#" + g.Dimension + "#" }
