package verify

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/awsmp/metering/internal/metering"
)

// place is where an item is.
type place struct {
	license, sort string
	record        bool // in the aggregated-usage table
}

// seen are a run's items as they were at one look. It is a ledger.Store of them and nothing else.
type seen struct {
	id      string
	rows    map[string][]metering.Row // by license
	records map[string][]metering.Record
}

func newSeen(id string) *seen {
	return &seen{id: id, rows: make(map[string][]metering.Row), records: make(map[string][]metering.Record)}
}

// read takes the run's items of a license.
func (s *seen) read(ctx context.Context, t Target, license string) error {
	if t.Rows != nil {
		for row, err := range t.Rows.LicenseRows(ctx, license) {
			if err != nil {
				return err
			}
			if runOf(row.Other, row.SortKey) == s.id {
				s.rows[license] = append(s.rows[license], row)
			}
		}
	}
	for record, err := range t.Records.LicenseRecords(ctx, license) {
		if err != nil {
			return err
		}
		if runOf(record.Other, record.SortKey) == s.id {
			s.records[license] = append(s.records[license], record)
		}
	}
	return nil
}

// readOne takes one item, if it is there.
func (s *seen) readOne(ctx context.Context, t Target, p place) error {
	if !p.record {
		row, err := t.Rows.Row(ctx, p.license, p.sort)
		if row != nil {
			s.rows[p.license] = append(s.rows[p.license], *row)
		}
		return err
	}
	g, reason := metering.ParseRecordKey(p.license, p.sort)
	if reason != "" {
		return nil
	}
	record, err := t.Records.Record(ctx, g)
	if record != nil {
		s.records[p.license] = append(s.records[p.license], *record)
	}
	return err
}

func (s *seen) row(p place) *metering.Row {
	i := slices.IndexFunc(s.rows[p.license], func(r metering.Row) bool { return r.SortKey == p.sort })
	if i < 0 {
		return nil
	}
	return &s.rows[p.license][i]
}

func (s *seen) record(p place) *metering.Record {
	i := slices.IndexFunc(s.records[p.license], func(r metering.Record) bool { return r.SortKey == p.sort })
	if i < 0 {
		return nil
	}
	return &s.records[p.license][i]
}

// compare holds items against what is wanted. Over says that all have ended, so that waiting changes nothing.
func (s *seen) compare(wants []want) (found string, right, over bool) {
	var t texts
	right, over = true, true
	for _, w := range wants {
		var text string
		var fits, ended bool
		if w.at.record {
			text, fits, ended = w.ofRecord(s.record(w.at))
		} else {
			text, fits, ended = w.ofRow(s.row(w.at))
		}
		t.add(text)
		right, over = right && fits, over && ended
	}
	return t.String(), right, over
}

func (w want) ofRow(r *metering.Row) (text string, fits, over bool) {
	if r == nil {
		return "no row", w.none, false
	}
	if r.Pending != "" {
		return "row waits under " + r.Pending, w.waits != 0 && r.Pending == w.waits.String(), false
	}
	text = "row " + ended(r.Status, r.StatusReason)
	fits = w.fits(r.Status, r.StatusReason)
	if w.units != 0 {
		text += fmt.Sprintf(" (%d)", r.LateQuantity.N)
		fits = fits && r.LateQuantity == metering.Units(w.units)
	}
	return text, fits, true
}

func (w want) ofRecord(r *metering.Record) (text string, fits, over bool) {
	switch {
	case r == nil:
		return "no record", w.none, w.none
	case r.Pending != "":
		return "record waits under " + r.Pending, w.waits != 0 && r.Pending == w.waits.String(), false
	}
	text, fits = "record "+ended(r.Status, r.StatusReason), w.fits(r.Status, r.StatusReason)
	if w.units != 0 || w.zero {
		text += fmt.Sprintf(" (%d)", r.Quantity.N)
		fits = fits && r.Quantity == metering.Units(w.units)
	}
	if w.sets != 0 {
		text += fmt.Sprintf(" in %d allocations", len(r.Allocations))
		fits = fits && len(r.Allocations) == w.sets
	}
	return text, fits, true
}

func (w want) fits(status metering.Status, reason string) bool {
	return slices.ContainsFunc(w.ends, func(e end) bool { return e.status == status && strings.HasPrefix(reason, e.reason) })
}

// Licenses are those of which something was seen.
func (s *seen) Licenses(context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, license := range s.licenses() {
			if !yield(license, nil) {
				return
			}
		}
	}
}

func (s *seen) licenses() (list []string) {
	for license := range s.rows {
		list = append(list, license)
	}
	for license := range s.records {
		list = append(list, license)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// LicenseRows are the rows of a license.
func (s *seen) LicenseRows(_ context.Context, license string) iter.Seq2[metering.Row, error] {
	return each(s.rows[license], func(metering.Row) bool { return true })
}

// LicenseRecords are the records of a license.
func (s *seen) LicenseRecords(_ context.Context, license string) iter.Seq2[metering.Record, error] {
	return each(s.records[license], func(metering.Record) bool { return true })
}

// Record is a group's record; nil where there is none.
func (s *seen) Record(_ context.Context, g metering.Group) (*metering.Record, error) {
	return s.record(place{g.License, g.RecordKey(), true}), nil
}

// GroupRows are the rows of a group.
func (s *seen) GroupRows(_ context.Context, g metering.Group) iter.Seq2[metering.Row, error] {
	return each(s.rows[g.License], func(r metering.Row) bool { return strings.HasPrefix(r.SortKey, g.RowPrefix()) })
}

func each[T any](list []T, which func(T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if which(v) && !yield(v, nil) {
				return
			}
		}
	}
}
