package desk

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/awsmp/metering/internal/metering"
)

// Late is the late usage of a place.
type Late struct {
	Sum               // units: the late ones alone
	Ready Sum         `json:"ready"`          // of these, what can be carried now
	List  []LateUsage `json:"late"`           // newest hour first: the first 1,000 of them
	More  int         `json:"more,omitempty"` // how many are not listed
}

// LateUsage are late rows of a group that one thing, or nothing, stands against carrying.
type LateUsage struct {
	Usage
	Sum
	Cause metering.RowObstacle `json:"cause,omitempty"` // missing where it can be carried
	Why   string               `json:"why,omitempty"`   // in words
}

// Causes beside the obstacles of package metering.
const (
	RowNoSecond metering.RowObstacle = "NoFreeSecond"
	RowUnfit    metering.RowObstacle = "CurrentHourRejected"
)

// rowWhy is an obstacle in words.
func rowWhy(o metering.RowObstacle) string {
	switch o {
	case RowNoSecond:
		return "no second of the current hour so far is free: ask again in a minute"
	case RowTooLate:
		return "too late: it is in its hour's record, and billed with it; the next visit labels it so"
	case RowUnfit:
		return "with it the current hour would be rejected whole: look for what is wrong with that hour, or does not go with this row, first"
	}
	return o.Why()
}

// Late lists the late rows by their groups. Without a license it reads those of all, which on AWS is a whole table.
func (d *Desk) Late(ctx context.Context, what Which) (Late, error) {
	type part struct {
		usage Usage
		cause metering.RowObstacle
	}
	list, parts := Late{List: []LateUsage{}}, make(map[part]*LateUsage)
	judge := d.lateJudge()
	for r, err := range d.lateRows(ctx, what) {
		if err != nil {
			return list, fmt.Errorf("look for late rows: %w", err)
		}
		v, err := judge.look(ctx, r)
		if err != nil {
			return list, err
		}
		p := part{Usage{License: r.License, Account: r.Account, Dimension: r.Dimension, Key: r.SortKey}, v.obstacle}
		if g, named := groupOf(r); named {
			p.usage = usageOf(g)
		}
		entry := parts[p]
		if entry == nil {
			entry = &LateUsage{Usage: p.usage, Cause: v.obstacle}
			if v.obstacle != "" {
				entry.Why = rowWhy(v.obstacle)
			}
			parts[p] = entry
		}
		entry.late(v)
		list.late(v)
		if v.obstacle == "" {
			list.Ready.late(v)
		}
	}
	for _, entry := range parts {
		list.List = append(list.List, *entry)
	}
	slices.SortFunc(list.List, func(a, b LateUsage) int { return cmp.Or(newestFirst(a.Usage, b.Usage), cmp.Compare(a.Cause, b.Cause)) })
	list.More = max(0, len(list.List)-maxListed)
	list.List = list.List[:len(list.List)-list.More]
	return list, nil
}

func (s *Sum) late(v lateRow) {
	s.Rows, s.Units = s.Rows+1, s.Units+v.units
	if !v.row.Quantity.Whole {
		s.Unknown++
	}
}

// lateRows are the late rows that are asked for.
func (d *Desk) lateRows(ctx context.Context, what Which) iter.Seq2[metering.Row, error] {
	g, one := what.One()
	rows := d.Tables.EndedRows(ctx, what.License, metering.LateUsage)
	if one {
		rows = d.Tables.GroupRows(ctx, g)
	}
	return func(yield func(metering.Row, error) bool) {
		for r, err := range rows {
			if err == nil && (!what.Row(r) || one && (r.Pending != "" || r.Status != metering.LateUsage)) {
				continue
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// lateRow is a late row as it is judged.
type lateRow struct {
	row      metering.Row
	units    int64 // late
	record   *metering.Record
	obstacle metering.RowObstacle
}

// lateJudge says of late rows whether they can be carried. It keeps what it looked up last, since rows of a group come together.
type lateJudge struct {
	d       *Desk
	records committed
	sales   sales
	current current
	holder  holder
}

func (d *Desk) lateJudge() *lateJudge {
	return &lateJudge{d: d, records: committed{tables: d.Tables}, sales: sales{d: d}, current: current{tables: d.Tables}}
}

// sales says of a group's sale whether it goes by customer identifier. It keeps the last answer.
type sales struct {
	d      *Desk
	group  metering.Group
	looked bool
	is     bool
}

func (s *sales) taken(ctx context.Context, g metering.Group) (bool, error) {
	if s.looked && s.group == g {
		return s.is, nil
	}
	is, err := s.d.saleTaken(ctx, g)
	if err == nil {
		*s = sales{d: s.d, group: g, looked: true, is: is}
	}
	return is, err
}

// saleTaken reports whether the sale of a group under a license is, or may be, billed by the record of the same hour under the product code.
func (d *Desk) saleTaken(ctx context.Context, g metering.Group) (bool, error) {
	twin, err := d.Tables.Record(ctx, metering.Group{License: d.ProductCode, Account: g.Account, Dimension: g.Dimension, Hour: g.Hour})
	if err != nil {
		return false, fmt.Errorf("look for another record of the sale of %s: %w", g.RecordKey(), err)
	}
	return twin != nil && metering.SaleTaken(*twin), nil
}

// holder is what is known of the license of an account.
type holder struct {
	license, account string
	subscriber       *metering.Subscriber
	looked           bool
}

// look judges a row without choosing where it would go: at the present second.
func (j *lateJudge) look(ctx context.Context, r metering.Row) (lateRow, error) {
	v, now := lateRow{row: r}, j.d.Now()
	v.units, _ = r.Quantity.Count()
	g, named := groupOf(r)
	if named {
		record, _, err := j.records.covering(ctx, g, r)
		if err != nil {
			return v, err
		}
		v.record = record
		key, _ := metering.ParseRowKey(r.SortKey)
		committed, _ := j.records.manifest.Quantity(key.Second)
		v.units = max(0, v.units-committed)
	}
	var x metering.Carry
	if x, v.obstacle = metering.CarryOf(r, v.record, j.d.Rules, metering.Second(now.Unix()), now); v.obstacle != "" {
		return v, nil
	}
	v.units = x.Quantity
	if taken, err := j.sales.taken(ctx, g); err != nil {
		return v, err
	} else if taken {
		v.obstacle = metering.RowTwin
		return v, nil
	}
	if h := j.holder; !h.looked || h.license != r.License || h.account != r.Account {
		subscriber, err := j.d.Tables.Subscriber(ctx, r.License, r.Account)
		if err != nil {
			return v, fmt.Errorf("look for the subscriber: %w", err)
		}
		j.holder = holder{r.License, r.Account, subscriber, true}
	}
	g.Hour = metering.HourOf(now)
	if err := j.current.look(ctx, g); err != nil {
		return v, err
	}
	v.obstacle = metering.TargetObstacle(j.current.record, j.holder.subscriber, j.d.Rules, now)
	return v, nil
}

// current is the group of the current hour that late rows of a license, account and dimension go into.
type current struct {
	tables Tables
	group  metering.Group
	record *metering.Record
	looked bool

	// Of a carry; read when it is first asked.
	read  bool
	held  []metering.Row
	fold  *metering.Fold // of these
	taken map[metering.Second]bool
	next  metering.Second // all before it are taken
	unfit map[bool]bool   // by whether a row has allocations: its hour would be refused with it
}

func (c *current) look(ctx context.Context, g metering.Group) error {
	if c.looked && c.group == g {
		return nil
	}
	record, err := c.tables.Record(ctx, g)
	if err != nil {
		return fmt.Errorf("look for the record of the current hour: %w", err)
	}
	*c = current{tables: c.tables, group: g, record: record, looked: true}
	return nil
}
