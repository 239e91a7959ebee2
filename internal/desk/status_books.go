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
	causes map[ledger.Cause]*caused
	broken int // groups that do not balance
}

// caused is what there is of a place for one cause.
type caused struct {
	ledger.Amount
	groups int
	first  metering.Hour // the oldest that can still be billed; zero where none can
}

// booksRecent is how old an hour may be whose loss is still news. What can be put right later is told for as long as it is there.
const booksRecent = 4 * 24

// books recomputes them for as long as somebody waits.
func (l *look) books(ctx context.Context) error {
	brief, stop := context.WithTimeout(ctx, cmp.Or(l.options.Patience, booksPatience))
	defer stop()
	b := &books{look: l, hours: l.pictured(), month: newFates(l.monthBegan()), today: newFates(l.dayBegan()), causes: make(map[ledger.Cause]*caused)}
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
		for row, err := range tables.LicenseRows(ctx, license) {
			if err != nil {
				return err
			}
			b.dropped(row)
			if key, reason := metering.ParseRowKey(row.SortKey); reason == "" {
				groups[key.Group(license)] = true
			} else {
				b.add(ledger.OfRow(row), metering.HourOf(b.look.now))
			}
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
		}
	}
	return nil
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
		if c.Place == ledger.Late || hour >= metering.HourOf(b.look.now)-booksRecent {
			b.cause(c, a, hour, 1)
		}
	}
}

func (b *books) cause(c ledger.Cause, a ledger.Amount, hour metering.Hour, groups int) {
	of := b.causes[c]
	if of == nil {
		of = &caused{}
		b.causes[c] = of
	}
	of.Items, of.Units, of.groups = of.Items+a.Items, of.Units+a.Units, of.groups+groups
	if b.look.desk.Rules.Billable(hour, b.look.now) && (of.first == 0 || hour < of.first) {
		of.first = hour
	}
}

// dropped takes rows out that an operator has dropped: they stay rejected, and want nobody any more.
func (b *books) dropped(row metering.Row) {
	if !row.Dropped || row.Pending != "" || row.Status != metering.RejectedClientSide {
		return
	}
	hour := metering.HourOf(b.look.now)
	if key, reason := metering.ParseRowKey(row.SortKey); reason == "" {
		hour = key.Second.Hour()
	}
	if hour >= metering.HourOf(b.look.now)-booksRecent {
		units, _ := row.Quantity.Count()
		b.cause(ledger.Cause{Place: ledger.Rejected, Reason: row.StatusReason}, ledger.Amount{Items: -1, Units: -units}, hour, 0)
	}
}

func (b *books) fill(s *Status) {
	s.Month, s.Today, s.Hours = b.month, b.today, flat(b.hours)
}
