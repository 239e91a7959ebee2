package simulation

import (
	"encoding/json"
	"time"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// What some variants need to show, and what seeds draw seldom or never.

// overwritesRecords has a seller who submits directly add to a record about when it is sent.
func overwritesRecords(w *world) {
	luck, who := w.luck("direct records"), w.plan.buyers[0]
	for i := range 4 {
		g, _ := w.group(who, 4+i)
		r, at := metering.NewRecord(g, 10), within(luck, g.Hour.End(), time.Hour)
		w.at(at, func() { w.putRecord(r) })
		w.at(within(luck, metering.SubmitSchedule.Next(at), 1500*time.Millisecond), func() {
			now := w.committed(g)
			now.Quantity, now.Pending = metering.Units(15), now.HourBucket
			w.putRecord(*now)
		})
	}
}

// lastMinuteRecords has records written minutes before their hours can no longer be billed, and an index that lags behind.
func lastMinuteRecords(w *world) {
	luck, who := w.luck("last minute"), w.plan.buyers[0]
	w.weather.stale = 0.3
	for i := range 4 {
		g, _ := w.group(who, 4+i)
		at := within(luck, w.plan.rules.Deadline(g.Hour).Add(-12*time.Minute), 10*time.Minute)
		w.at(at, func() { w.putRecord(metering.NewRecord(g, 10)) })
		w.lastMove = latest(w.lastMove, at)
	}
}

// suspended has a buyer's account suspended for some hours, so that answers to one call differ.
func suspended(w *world) {
	b := w.plan.buyers[len(w.plan.buyers)-1]
	w.at(w.plan.start.Add(2*time.Hour), func() { w.suspend(b, true) })
	w.at(w.plan.start.Add(10*time.Hour), func() { w.suspend(b, false) })
}

// mendedAtOnce has wrong rows put right just when their groups are visited.
func mendedAtOnce(w *world) {
	luck, who := w.luck("mended"), w.plan.buyers[0]
	for i := range 8 {
		g, visit := w.group(who, 4+i)
		v := metering.NewRow(g, g.Hour.Second(luck.IntN(3600)), 7)
		w.at(g.Hour.End(), func() { w.put(altered(v, metering.AttrQuantity, json.Number("2.5"))) })
		w.at(within(luck, visit, 1500*time.Millisecond), func() { w.put(v) })
	}
}

// withoutQuantity has rows written that lack it.
func withoutQuantity(w *world) {
	for i := range 4 {
		g, _ := w.group(w.plan.buyers[0], 4+i)
		v := altered(metering.NewRow(g, g.Hour.Second(7), 7), metering.AttrQuantity, nil)
		w.at(g.Hour.End(), func() { w.put(v) })
	}
}

// deletedAtOnce has rows deleted just when their groups are visited.
func deletedAtOnce(w *world) {
	luck, who := w.luck("deleted"), w.plan.buyers[0]
	for i := range 8 {
		g, visit := w.group(who, 4+i)
		v := metering.NewRow(g, g.Hour.Second(luck.IntN(3600)), 7)
		w.at(g.Hour.End(), func() { w.put(v) })
		w.at(within(luck, visit, 1500*time.Millisecond), func() { w.remove(v) })
	}
}

// spoiledAfterwards has wrong rows come right after their groups were committed, and a queue that loses every third message.
func spoiledAfterwards(w *world) {
	luck, who := w.luck("spoiled"), w.plan.buyers[0]
	w.weather.drop = 0.3
	for i := range 8 {
		g, visit := w.group(who, 4+i)
		v := metering.NewRow(g, g.Hour.Second(luck.IntN(1800)), 7)
		w.at(g.Hour.End(), func() { w.put(v) })
		late := metering.NewRow(g, g.Hour.Second(1800+luck.IntN(1800)), 7)
		w.at(within(luck, visit.Add(10*time.Second), time.Minute), func() { w.put(altered(late, metering.AttrQuantity, json.Number("2.5"))) })
	}
}

// throttled has the Marketplace throttle most calls of an afternoon.
func throttled(w *world) {
	spell := spell{from: w.plan.start.Add(2 * time.Hour), until: w.plan.start.Add(8 * time.Hour)}
	w.plan.trouble = append(w.plan.trouble, spell)
	w.sim.Inject(simulator.Fault{Kind: simulator.Throttle, From: spell.from, Until: spell.until, Probability: 0.8})
}

// returnsAtOnce has a license end and return within minutes, and the end told last.
func returnsAtOnce(w *world) {
	luck, b := w.luck("returns"), w.plan.buyers[0]
	ends := w.plan.start.Add(5 * time.Hour).Truncate(time.Second)
	back := ends.Add(time.Minute)
	tell := func(at time.Time, kind lifecycle.Kind, of time.Time) {
		e := lifecycle.TestEvent{
			Kind: kind, License: b.license, Account: b.account, Agreement: b.agreement, ProductCode: simulator.DefaultProductCode, At: of,
			ID: "00000000-0000-4000-8000-00000000000" + string(kind[0]),
		}
		w.at(at, func() { w.event(e) })
	}
	w.at(ends, func() { w.license(b, ends) })
	w.at(back, func() { w.license(b, time.Time{}) })
	tell(back, lifecycle.LicenseUpdated, back)
	tell(within(luck, back.Add(time.Second), 20*time.Minute), lifecycle.LicenseDeprovisioned, ends)
}

// group is one of a dimension that seeds write no rows of, so many hours after the day's first, and when it is visited first.
func (w *world) group(who buyer, hour int) (g metering.Group, visit time.Time) {
	g = metering.Group{License: who.license, Account: who.account, Dimension: "direct-0", Hour: metering.HourOf(w.plan.start) + metering.Hour(hour)}
	return g, metering.MeterSchedule.Next((g.Hour + metering.Hour(w.plan.rules.LockHours)).Start())
}
