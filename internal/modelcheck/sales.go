package modelcheck

import (
	"slices"

	"github.com/awsmp/metering/internal/metering"
)

// What sellers have written is counted apart from the tables: a stage that changed it could not hide.

// change is what sellers have written after one row of theirs has changed.
func (t *tables) sell(license, sortKey string, change func(s *sold)) []sold {
	list := slices.Clone(t.Sold)
	i := slices.IndexFunc(list, func(s sold) bool { return s.License == license && s.SortKey == sortKey })
	if i < 0 {
		i, list = len(list), append(list, sold{License: license, SortKey: sortKey, Gone: true})
	}
	s := &list[i]
	s.Held, s.Flushes = slices.Clip(s.Held), slices.Clip(s.Flushes)
	change(s)
	if n, known := s.Quantity.Count(); known && !s.Gone && !slices.Contains(s.Held, n) {
		s.Held = append(s.Held, n)
	}
	slices.SortFunc(list, func(a, b sold) int { return compare(a.License+a.SortKey, b.License+b.SortKey) })
	return list
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// flushed adds a flush, where nothing stands against it and it was not taken before.
func (t *tables) flushed(f metering.Flush) []sold {
	return t.sell(f.Group.License, f.SortKey(), func(s *sold) {
		if slices.ContainsFunc(s.Flushes, func(taken taken) bool { return taken.Token == f.Token }) || f.Refused(t.row(f.Group.License, f.SortKey())) != nil {
			return
		}
		var held int64
		if !s.Gone {
			held = s.Quantity.N
		}
		s.Gone, s.Quantity = false, metering.Units(held+f.Quantity)
		s.Flushes = append(s.Flushes, taken{f.Token, f.Quantity})
	})
}

func (t *tables) put(r metering.Row) []sold {
	return t.sell(r.License, r.SortKey, func(s *sold) { s.Gone, s.Quantity, s.Flushes = false, r.Quantity, nil })
}

func (t *tables) deleted(license, sortKey string) []sold {
	return t.sell(license, sortKey, func(s *sold) { s.Gone, s.Quantity, s.Flushes = true, metering.Quantity{}, nil })
}

func (t *tables) sale(license, sortKey string) *sold {
	for i := range t.Sold {
		if s := &t.Sold[i]; s.License == license && s.SortKey == sortKey {
			return s
		}
	}
	return nil
}

func (t *tables) row(license, sortKey string) *metering.Row {
	for i := range t.Rows {
		if r := &t.Rows[i]; r.License == license && r.SortKey == sortKey {
			return r
		}
	}
	return nil
}

func (t *tables) record(g metering.Group) *metering.Record {
	for i := range t.Records {
		if r := &t.Records[i]; r.License == g.License && r.SortKey == g.RecordKey() {
			return r
		}
	}
	return nil
}
