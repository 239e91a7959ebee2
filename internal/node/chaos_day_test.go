package node_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// What a day is made of.
const (
	legacyLicense    = "legacy-product"
	legacyIdentifier = "cust-1a2b3c"
	undefined        = "Api_Calls" // not a dimension of the product
)

// move is something that a seller, a buyer or AWS does at a moment of the day.
type move struct {
	at   time.Time
	what string
	do   func(*chaos)
}

// day is a seed's day: when it begins, the rules it is played under, and everything that happens from outside.
type day struct {
	start   time.Time
	rules   metering.Rules
	batch   int // labels in one write
	weather weather
	moves   []move
}

// draw makes the day of a seed.
func draw(r *rand.Rand) day {
	starts := []time.Time{
		time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC),
		time.Date(2026, 3, 31, 3, 0, 0, 0, time.UTC),  // its late rows meet the grace tail
		time.Date(2026, 3, 31, 17, 0, 0, 0, time.UTC), // its last hours meet 06:00 on the 1st
		time.Date(2028, 2, 29, 19, 0, 0, 0, time.UTC),
	}
	d := day{start: starts[r.IntN(len(starts))], weather: forecast(r), rules: metering.Rules{LockHours: []int{1, 1, 2, 6, 20}[r.IntN(5)]}, batch: []int{1, 1, 3, 100}[r.IntN(4)]}
	groups := 3 + r.IntN(5)
	for range groups {
		d.drawGroup(r)
	}
	d.drawOddities(r)
	d.drawTrouble(r)
	slices.SortStableFunc(d.moves, func(a, b move) int { return a.at.Compare(b.at) })
	return d
}

// rush draws whether a moment is put off to the instant at which the stages begin to look, so that it falls between their effects.
func rush(r *rand.Rand, at time.Time) time.Time {
	if r.IntN(3) > 0 {
		return at
	}
	return metering.MeterSchedule.Next(at)
}

// mended draws when a wrong row is put right: some time later, or just when its group is visited first and its rejection is
// under way.
func (d *day) mended(r *rand.Rand, v metering.Row, at time.Time) time.Time {
	key, _ := metering.ParseRowKey(v.SortKey)
	visit := (key.Second.Hour() + metering.Hour(d.rules.LockHours)).Start().Add(metering.MeterSchedule.Phase)
	if later := at.Add(time.Duration(r.IntN(5*3600)) * time.Second); r.IntN(2) == 0 || visit.Before(at) {
		return later
	}
	return visit
}

func (d *day) add(at time.Time, what string, do func(*chaos)) {
	d.moves = append(d.moves, move{at, what, do})
}

// delay draws how long after its second a row reaches the table: mostly soon, sometimes hours, rarely too late.
func delay(r *rand.Rand) time.Duration {
	switch x := r.Float64(); {
	case x < 0.7:
		return time.Duration(r.IntN(90)) * time.Second
	case x < 0.9:
		return time.Duration(r.IntN(3*3600)) * time.Second
	case x < 0.98:
		return time.Duration(r.IntN(20*3600)) * time.Second
	}
	return time.Duration(24+r.IntN(60)) * time.Hour
}

// drawGroup draws the rows of one license, account, dimension and hour, and what becomes of them: some grow, some shrink, some
// are deleted, some are wrong and mended later.
func (d *day) drawGroup(r *rand.Rand) {
	who := []metering.Row{
		{License: licenseOne, Account: buyerOne},
		{License: licenseTwo, Account: buyerTwo},
		{License: legacyLicense, Account: "777788889999", CustomerIdentifier: legacyIdentifier},
	}[r.IntN(3)]
	dimension := []string{apiCalls, apiCalls, "storage#gb", "api_calls#2026-03-10T14", undefined}[r.IntN(5)]
	hour := metering.HourOf(d.start) + metering.Hour(r.IntN(8))
	tagged, zero := r.IntN(4) == 0, r.IntN(8) == 0
	for _, second := range r.Perm(3600)[:1+r.IntN(9)] {
		s := hour.Second(second)
		v := row(who.License, who.Account, dimension, s.String(), int64(r.IntN(20)))
		v.CustomerIdentifier = who.CustomerIdentifier
		if zero {
			v.Quantity = metering.Units(0)
		}
		if tagged {
			v.Allocations = tag(v.Quantity.N, r.IntN(3))
		}
		at := s.Time().Add(delay(r))
		d.drawRow(r, v, at, tagged)
	}
}

func tag(quantity int64, team int) []metering.Allocation {
	half := quantity / 2
	return []metering.Allocation{
		{Quantity: half, Tags: []metering.Tag{{Key: "team", Value: fmt.Sprint("t", team)}}},
		{Quantity: quantity - half},
	}
}

// drawRow draws the life of one row.
func (d *day) drawRow(r *rand.Rand, v metering.Row, at time.Time, tagged bool) {
	switch x := r.Float64(); {
	case x < 0.06: // wrong, and mended some time later: or never
		wrong := altered(v, metering.Item{metering.AttrQuantity: []any{"abc", number("2.5"), number("-3"), nil, true}[r.IntN(5)]})
		d.add(at, "put wrong "+v.SortKey, func(c *chaos) { c.put(wrong) })
		if r.IntN(3) > 0 {
			d.add(d.mended(r, v, at), "mend "+v.SortKey, func(c *chaos) { c.put(v) })
		}
		return
	case x < 0.1: // its bucket is not its hour
		v.Pending = (metering.HourOf(at) + metering.Hour(r.IntN(5)) - 2).String()
	}
	d.add(at, "put "+v.SortKey, func(c *chaos) { c.put(v) })
	if tagged {
		return
	}
	later := rush(r, at.Add(time.Duration(r.IntN(6*3600))*time.Second))
	switch x := r.Float64(); {
	case x < 0.15:
		by := int64(1 + r.IntN(9))
		d.add(later, "grow "+v.SortKey, func(c *chaos) { c.grow(v, by) })
	case x < 0.2:
		less := v
		less.Quantity = metering.Units(v.Quantity.N / 2)
		d.add(later, "shrink "+v.SortKey, func(c *chaos) { c.put(less) })
	case x < 0.23:
		d.add(later, "delete "+v.SortKey, func(c *chaos) { c.delete(v) })
	}
}

// drawOddities adds rows that name no group and records that a seller wrote directly.
func (d *day) drawOddities(r *rand.Rand) {
	at := d.start.Add(time.Duration(r.IntN(5*3600)) * time.Second)
	for _, key := range []string{"111122223333", "111122223333#api_calls#yesterday", "#"}[:r.IntN(4)] {
		v := usage(metering.Second(at.Unix()).String(), int64(r.IntN(9)))
		v.SortKey = key
		d.add(at, "put unreadable "+key, func(c *chaos) { c.put(v) })
	}
	for i := range r.IntN(3) {
		g := metering.Group{License: licenseTwo, Account: buyerTwo, Dimension: fmt.Sprint("direct-", i), Hour: metering.HourOf(d.start) + metering.Hour(r.IntN(4))}
		rec := metering.NewRecord(g, int64(r.IntN(50)))
		if i == 1 {
			rec = metering.RecordFromItem(replaced(rec.Item(), metering.Item{metering.AttrQuantity: "7"}))
		}
		d.add(g.Hour.End().Add(time.Duration(r.IntN(3600))*time.Second), "put record "+rec.SortKey, func(c *chaos) { c.putRecord(rec) })
	}
}

// drawTrouble adds what the Marketplace does: spells of throttling, errors, unprocessed records, and a license that ends.
func (d *day) drawTrouble(r *rand.Rand) {
	for _, kind := range []simulator.FaultKind{simulator.Throttle, simulator.InternalError, simulator.Unprocessed, simulator.LoseReply} {
		if r.IntN(3) > 0 {
			continue
		}
		at := d.start.Add(time.Duration(r.IntN(12*3600)) * time.Second)
		f := simulator.Fault{Kind: kind, From: at, Until: at.Add(time.Duration(r.IntN(90)) * time.Minute), Probability: 0.1 + 0.9*r.Float64()}
		if f.Until.Equal(f.From) {
			continue
		}
		d.add(at, "fault "+string(kind), func(c *chaos) { c.sim.Inject(f) })
	}
	if r.IntN(3) == 0 { // answers get lost, and what was sent is refused from then on: it may be billed all the same
		at := d.start.Add(time.Duration(3600+r.IntN(6*3600)) * time.Second)
		lost := simulator.Fault{Kind: simulator.LoseReply, From: at, Until: at.Add(time.Hour)}
		d.add(at, "lose replies", func(c *chaos) { c.sim.Inject(lost) })
		d.add(lost.Until, "refuse", func(c *chaos) {
			c.sim.SuspendAccount(buyerTwo, true)
			c.sim.UndefineDimension(apiCalls)
		})
		d.add(lost.Until.Add(time.Duration(r.IntN(30))*time.Hour), "take again", func(c *chaos) {
			c.sim.SuspendAccount(buyerTwo, false)
			c.sim.DefineDimension(apiCalls)
		})
	}
	if r.IntN(3) == 0 {
		at := d.start.Add(time.Duration(3600+r.IntN(6*3600)) * time.Second)
		d.add(at, "deprovision", func(c *chaos) { c.deprovision(licenseOne, buyerOne, at) })
	}
	if r.IntN(4) == 0 {
		at := d.start.Add(time.Duration(r.IntN(6*3600)) * time.Second)
		d.add(at, "suspend", func(c *chaos) { c.sim.SuspendAccount(buyerTwo, true) })
		d.add(at.Add(time.Duration(r.IntN(3*3600))*time.Second), "resume", func(c *chaos) { c.sim.SuspendAccount(buyerTwo, false) })
	}
}
