package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// move is something that a seller, a buyer, an operator or AWS does at a moment of the day.
type move struct {
	at   time.Time
	who  string
	what string
	do   func(*world)
}

// plan is a seed's day: when it begins, the rules under which it is played, and all that happens from outside.
type plan struct {
	start   time.Time
	rules   metering.Rules
	batch   int       // labels in one write
	records int       // most records of a run's backlog
	page    int       // bytes of a page of the tables
	dryRun  time.Time // until then nothing is really sent; zero: all is
	weather weather
	trouble []spell // times in which the submission is hampered
	buyers  []buyer
	moves   []move
}

// buyer is a license and who holds it.
type buyer struct {
	license, account, identifier, agreement string
	activated                               time.Time // zero: long ago
}

// name is what the buyer is called in a story.
func (b buyer) name() string { return "seller of " + b.account }

// dimensions are those of the product; the last is one that it has not.
var dimensions = []string{"api_calls", "storage#gb", "api_calls#2026-03-10T14", "Api_Calls"}

// starts are the days on which a day may begin: an ordinary one, and the ends of months.
var starts = []time.Time{
	time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC),
	time.Date(2026, 6, 17, 22, 0, 0, 0, time.UTC),
	time.Date(2026, 3, 31, 0, 0, 0, 0, time.UTC),  // its last rows meet the grace tail
	time.Date(2026, 4, 30, 17, 0, 0, 0, time.UTC), // its last hours meet 06:00 on the 1st
	time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC),
	time.Date(2027, 2, 28, 15, 0, 0, 0, time.UTC),
	time.Date(2028, 2, 28, 19, 0, 0, 0, time.UTC),
	time.Date(2028, 2, 29, 19, 0, 0, 0, time.UTC),
}

// draw makes the day of a seed.
func draw(seed uint64) plan {
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	p := plan{
		start:   starts[r.IntN(len(starts))].Add(time.Duration(r.IntN(7200)) * time.Second),
		rules:   metering.Rules{LockHours: []int{1, 1, 1, 2, 6, 20}[r.IntN(6)]},
		batch:   []int{1, 1, 3, 100}[r.IntN(4)],
		records: []int{0, 0, 0, 3}[r.IntN(4)],
		page:    []int{0, 0, 700}[r.IntN(3)],
		weather: forecast(r),
	}
	if r.IntN(12) == 0 {
		p.dryRun = p.start.Add(time.Duration(1+r.IntN(24)) * time.Hour)
		p.add(p.dryRun, "operator", "goes live", func(w *world) { w.node.Submit.DryRun = false })
	}
	for i := range 2 + r.IntN(3) {
		b := buyer{
			license: fmt.Sprintf("arn:aws:license-manager::111122223333:license:l-%032x", i+0xa1), account: fmt.Sprint(444455556660 + i),
			agreement: fmt.Sprintf("agmt-example%d", i),
		}
		if i == 1 && r.IntN(2) == 0 {
			b = buyer{license: "legacy-product", account: b.account, identifier: fmt.Sprintf("cust-%d", i)}
		}
		if b.identifier == "" && r.IntN(4) == 0 {
			b.activated = within(r, p.start, 3*time.Hour)
		}
		p.buyers = append(p.buyers, b)
	}
	for range 6 + r.IntN(15) {
		p.drawGroup(r)
	}
	p.drawOddities(r)
	p.drawTrouble(r)
	p.drawLicenses(r)
	p.drawOperator(r)
	p.drawReDriving(seed)
	slices.SortStableFunc(p.moves, func(a, b move) int { return a.at.Compare(b.at) })
	return p
}

func (p *plan) add(at time.Time, who, what string, do func(*world)) {
	p.moves = append(p.moves, move{at, who, what, do})
}

// within draws a moment of the time that begins at t and lasts d.
func within(r *rand.Rand, t time.Time, d time.Duration) time.Time {
	return t.Add(time.Duration(r.Int64N(int64(d))))
}

// delay draws how long after its second a row reaches the table: mostly soon, sometimes hours, rarely too late.
func delay(r *rand.Rand) time.Duration {
	switch x := r.Float64(); {
	case x < 0.7:
		return time.Duration(r.IntN(90_000)) * time.Millisecond
	case x < 0.9:
		return time.Duration(r.IntN(3*3600)) * time.Second
	case x < 0.98:
		return time.Duration(r.IntN(20*3600)) * time.Second
	}
	return time.Duration(24+r.IntN(60)) * time.Hour
}

// rush puts a moment off, now and then, to the instants at which the stages look, so that it falls between their effects.
func rush(r *rand.Rand, at time.Time) time.Time {
	if r.IntN(3) > 0 {
		return at
	}
	return within(r, metering.MeterSchedule.Next(at), 1500*time.Millisecond)
}

// drawGroup draws the rows of one license, account, dimension and hour, and what becomes of them: some grow, some shrink, some
// are deleted, some are wrong and mended later.
func (p *plan) drawGroup(r *rand.Rand) {
	who, dimension := p.buyers[r.IntN(len(p.buyers))], dimensions[[]int{0, 0, 0, 0, 1, 1, 2, 3}[r.IntN(8)]]
	g := metering.Group{License: who.license, Account: who.account, Dimension: dimension, Hour: metering.HourOf(p.start) + metering.Hour(r.IntN(20))}
	tagged, zero, flushed := r.IntN(4) == 0, r.IntN(8) == 0, r.IntN(4) == 0
	last := p.lastMinute(r, g.Hour)
	for _, second := range r.Perm(3600)[:1+r.IntN(9)] {
		s := g.Hour.Second(second)
		if flushed {
			p.drawFlushes(r, who, g, s)
			continue
		}
		v := metering.NewRow(g, s, int64(r.IntN(20)))
		v.CustomerIdentifier = who.identifier
		if zero {
			v.Quantity = metering.Units(0)
		}
		if tagged {
			v.Allocations = tag(v.Quantity.N, r.IntN(3))
		}
		at := s.Time().Add(delay(r))
		if !last.IsZero() {
			at = within(r, last, time.Minute)
		}
		p.drawRow(r, who, v, at, tagged)
	}
}

func tag(quantity int64, team int) []metering.Allocation {
	half := quantity / 2
	return []metering.Allocation{
		{Quantity: half, Tags: []metering.Tag{{Key: "team", Value: fmt.Sprint("t", team)}}},
		{Quantity: quantity - half},
	}
}

// drawFlushes draws what the writer library does: each flush adds to its row under a token, and is sent again until it is answered.
func (p *plan) drawFlushes(r *rand.Rand, who buyer, g metering.Group, s metering.Second) {
	at := s.Time()
	for range 1 + r.IntN(3) {
		f := metering.Flush{Group: g, Second: s, CustomerIdentifier: who.identifier, Quantity: int64(1 + r.IntN(9)), Token: fmt.Sprintf("t%d", len(p.moves))}
		at = rush(r, at.Add(delay(r)))
		p.add(at, who.name(), fmt.Sprintf("flushes %d more into %s", f.Quantity, g.RowKey(s)), func(w *world) { w.flush(f) })
	}
}

// drawRow draws the life of one row.
func (p *plan) drawRow(r *rand.Rand, who buyer, v metering.Row, at time.Time, tagged bool) {
	seller := who.name()
	switch x := r.Float64(); {
	case x < 0.03: // wrong, and mended some time later: or never
		wrong := altered(v, metering.AttrQuantity, []any{"abc", json.Number("2.5"), json.Number("-3"), nil, true}[r.IntN(5)])
		p.add(at, seller, "writes a row that is wrong, "+v.SortKey, func(w *world) { w.put(wrong) })
		if r.IntN(3) > 0 {
			p.add(p.meanwhile(r, v, at, 5*time.Hour), seller, "mends "+v.SortKey+" to "+count(v.Quantity), func(w *world) { w.put(v) })
		}
		return
	case x < 0.07: // its bucket is not its hour
		v.Pending = (metering.HourOf(at) + metering.Hour(r.IntN(5)) - 2).String()
	}
	p.add(at, seller, "writes "+count(v.Quantity)+" into "+v.SortKey, func(w *world) { w.put(v) })
	if tagged {
		return
	}
	later := p.meanwhile(r, v, at, 6*time.Hour)
	switch x := r.Float64(); {
	case x < 0.15:
		by := int64(1 + r.IntN(9))
		p.add(later, seller, fmt.Sprintf("adds %d to %s", by, v.SortKey), func(w *world) { w.grow(v, by) })
	case x < 0.2:
		less := v
		less.Quantity = metering.Units(v.Quantity.N / 2)
		p.add(later, seller, "overwrites "+v.SortKey+" with "+count(less.Quantity), func(w *world) { w.put(less) })
	case x < 0.23:
		p.add(later, seller, "deletes "+v.SortKey, func(w *world) { w.remove(v) })
	}
}

// meanwhile draws when something more happens to a row that was written at a moment: some time later, or just when its group is visited
// next and what was read of it is being written.
func (p *plan) meanwhile(r *rand.Rand, v metering.Row, at time.Time, most time.Duration) time.Time {
	key, _ := metering.ParseRowKey(v.SortKey)
	open := (key.Second.Hour() + metering.Hour(p.rules.LockHours)).Start()
	if later := within(r, at, most); r.IntN(2) == 0 {
		return later
	}
	return within(r, metering.MeterSchedule.Next(latest(open, at)), 1500*time.Millisecond)
}

// lastMinute draws, for some groups, a moment shortly before their hour can no longer be billed, or right after, at which all of their rows
// come; for half of those of a month's last day that have a grace tail. Zero for the others.
func (p *plan) lastMinute(r *rand.Rand, h metering.Hour) time.Time {
	before, after := []time.Duration{20 * time.Minute, 5 * time.Hour}[r.IntN(2)], 10*time.Minute
	at, of := within(r, p.rules.Deadline(h).Add(-before), before+after), 12
	if p.rules.Deadline(h).Sub(h.Start()) > metering.DefaultWindow {
		of = 2
	}
	if r.IntN(of) > 0 {
		return time.Time{}
	}
	return at
}

// altered is a row with one attribute as a seller's code might write it; nil removes it.
func altered(v metering.Row, attribute string, value any) metering.Row {
	item := maps.Clone(v.Item())
	if item[attribute] = value; value == nil {
		delete(item, attribute)
	}
	return metering.RowFromItem(item)
}

// drawOddities adds rows that name no group, rows from clocks that are ahead, and records that a seller wrote directly.
func (p *plan) drawOddities(r *rand.Rand) {
	who := p.buyers[0]
	at := within(r, p.start, 5*time.Hour)
	g := metering.Group{License: who.license, Account: who.account, Dimension: dimensions[0], Hour: metering.HourOf(at)}
	for _, key := range []string{who.account, who.account + "#api_calls#yesterday", "#"}[:r.IntN(4)] {
		v := metering.NewRow(g, metering.Second(at.Unix()), int64(r.IntN(9)))
		v.SortKey = key
		p.add(at, who.name(), "writes a row under the key "+key, func(w *world) { w.put(v) })
	}
	if r.IntN(4) == 0 {
		ahead := g
		ahead.Hour += metering.Hour(1 + r.IntN(3))
		v := metering.NewRow(ahead, ahead.Hour.Second(r.IntN(3600)), 7)
		p.add(at, who.name(), "writes "+v.SortKey+" hours ahead of time", func(w *world) { w.put(v) })
	}
	for i := range r.IntN(3) {
		direct := metering.Group{License: who.license, Account: who.account, Dimension: fmt.Sprint("direct-", i), Hour: metering.HourOf(p.start) + metering.Hour(r.IntN(4))}
		rec := metering.NewRecord(direct, int64(r.IntN(50)))
		if i == 1 {
			item := rec.Item()
			item[metering.AttrQuantity] = "7"
			rec = metering.RecordFromItem(item)
		}
		p.add(within(r, direct.Hour.End(), time.Hour), who.name(), "writes record "+rec.SortKey+" itself", func(w *world) { w.putRecord(rec) })
	}
}

// count is a quantity in words.
func count(q metering.Quantity) string {
	if n, known := q.Count(); known {
		return ledger.Counted(n, "unit")
	}
	return "no number"
}
