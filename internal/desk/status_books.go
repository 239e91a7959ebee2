package desk

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

const (
	booksPatience = 3 * time.Second
	// booksReach is how old an hour may be whose units a person still hears of.
	booksReach = 31 * 24
)

// books are recomputed from the tables, group by group, for the hours of the last month.
type books struct {
	look   *look
	hours  map[metering.Hour]*HourFates
	month  Fates
	today  Fates
	open   map[ledger.Cause]*caused // of hours that can still be billed
	over   map[ledger.Cause]*caused // of others
	broken int                      // groups that do not balance
	ends   ends

	// late is how many rows of the license that is read are late, by group. The balance counts those alone that were not committed with less.
	late map[metering.Group]map[ledger.Cause]int
}

// caused is what there is of a place for one cause.
type caused struct {
	ledger.Amount           // of rows, or of the rows that a record was summed from
	groups        int       // and so records, of what records end with
	first         time.Time // from when on the first of it can no longer be billed; zero where it plays no part
}

func (c *caused) add(o caused) {
	c.Items, c.Units, c.groups = c.Items+o.Items, c.Units+o.Units, c.groups+o.groups
	c.first = sooner(c.first, o.first, !o.first.IsZero())
}

// booksRecent is how old an hour may be whose loss is still news. What can be put right later is told for as long as it is there.
const booksRecent = 4 * 24

// books recomputes them for as long as somebody waits.
func (l *look) books(ctx context.Context) error {
	brief, stop := context.WithTimeout(ctx, cmp.Or(l.options.Patience, booksPatience))
	defer stop()
	b := &books{look: l, hours: l.pictured(), month: newFates(l.monthBegan()), today: newFates(l.dayBegan()),
		open: make(map[ledger.Cause]*caused), over: make(map[ledger.Cause]*caused), ends: newEnds(l.desk)}
	b.month.By, b.today.By = ByHour, ByHour
	err := b.read(brief)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		l.gap("books: there is too much usage for a quick look: awsmp ledger%s recomputes them", l.desk.Flags)
		return nil
	}
	if err == nil {
		l.ledger = b
	}
	return err
}

func (b *books) read(ctx context.Context) error {
	tables := b.look.desk.Tables
	for license, err := range tables.Licenses(ctx) {
		if err != nil {
			return err
		}
		groups := make(map[metering.Group]bool)
		b.late = make(map[metering.Group]map[ledger.Cause]int)
		for row, err := range tables.LicenseRows(ctx, license) {
			if err != nil {
				return err
			}
			key, reason := metering.ParseRowKey(row.SortKey)
			if reason != "" {
				b.stray(row)
				continue
			}
			g := key.Group(license)
			groups[g] = true
			b.note(row, g)
		}
		for record, err := range tables.LicenseRecords(ctx, license) {
			if err != nil {
				return err
			}
			if g, reason := record.Group(); reason == "" {
				groups[g] = true
			}
		}
		for g := range groups {
			if g.Hour < metering.HourOf(b.look.now)-booksReach {
				continue
			}
			balance, err := ledger.Read(ctx, tables, g)
			if err != nil {
				return err
			}
			b.add(balance, g.Hour)
			for c, a := range balance.Places {
				b.cause(ctx, c, a, g)
			}
		}
	}
	return nil
}

// note remembers of a row what its group's balance does not tell.
func (b *books) note(row metering.Row, g metering.Group) {
	if row.Pending != "" || row.Status != metering.LateUsage {
		return
	}
	if b.late[g] == nil {
		b.late[g] = make(map[ledger.Cause]int)
	}
	b.late[g][ledger.Cause{Place: ledger.Late, Reason: row.StatusReason}]++
}

// stray takes a row in whose key names no group, and so no hour: it counts as of the hour in progress, and can be booked anew at any time.
func (b *books) stray(row metering.Row) {
	balance := ledger.OfRow(row)
	b.add(balance, metering.HourOf(b.look.now))
	for c, a := range balance.Places {
		put(b.open, c, caused{Amount: a, groups: 1})
	}
}

func (b *books) add(balance ledger.Balance, hour metering.Hour) {
	if !balance.Balanced() {
		b.broken++
	}
	for c, a := range balance.Places {
		if !hour.Start().Before(b.month.Since) {
			b.month.put(c.Place, a.Items, a.Units)
		}
		if !hour.Start().Before(b.today.Since) {
			b.today.put(c.Place, a.Items, a.Units)
		}
		if h := b.hours[hour]; h != nil && a.Units > 0 {
			h.Units[c.Place] += a.Units
		}
	}
}

// cause counts what a group holds of a cause.
func (b *books) cause(ctx context.Context, c ledger.Cause, a ledger.Amount, g metering.Group) {
	if c.Place == ledger.Late {
		put(b.open, c, caused{Amount: ledger.Amount{Items: b.late[g][c], Units: a.Units}, groups: 1}) // it can be carried for good
		return
	}
	of := caused{Amount: a, groups: 1}
	switch l := b.look; {
	case l.desk.Rules.Billable(g.Hour, l.now):
		of.first = l.desk.Rules.Deadline(g.Hour)
		if e := b.ends.of(ctx, g.License, g.Account); !e.over {
			of.first = e.cut(of.first)
		}
		put(b.open, c, of)
	case g.Hour >= metering.HourOf(l.now)-booksRecent:
		put(b.over, c, of)
	}
}

func put(into map[ledger.Cause]*caused, c ledger.Cause, of caused) {
	if into[c] == nil {
		into[c] = &caused{}
	}
	into[c].add(of)
}

func (b *books) fill(s *Status) {
	s.Month, s.Today, s.Hours = b.month, b.today, flat(b.hours)
}
