package desk

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// timetable is a plant whose schedules can be stopped one by one.
type timetable interface {
	// Stopped are the schedules that do not run, by their names; the meter schedule by MeterAt, as its offsets can be stopped one by one.
	Stopped(ctx context.Context) (map[string]Stop, error)
}

// Stop is why a schedule does not run.
type Stop struct {
	Why string // in words: rule awsmp-… is off
	Fix string // the command that lets it run again
}

// MeterAt is the name of the part of the meter schedule that visits hours so many hours before the current one.
func MeterAt(offset int) string { return metering.MeterSchedule.Name + "-" + strconv.Itoa(offset) }

// stops are the schedules that do not run; nil where all do.
func (d *Desk) stops(ctx context.Context) map[string]Stop {
	switch tables, machine := d.Tables.(machineTables); {
	case machine && d.Plant == nil:
		stop := Stop{"no node runs here", tables.StartCommand()}
		if d.Silent != "" {
			stop.Why = "the node at " + d.Silent + " does not answer"
		}
		all := map[string]Stop{metering.FlushSchedule.Name: stop, metering.SubmitSchedule.Name: stop}
		for offset := metering.MinOffset; offset <= metering.MaxOffset; offset++ {
			all[MeterAt(offset)] = stop
		}
		return all
	default:
		if plant, can := d.Plant.(timetable); can {
			if found, err := plant.Stopped(ctx); err == nil { // it says less where it may not ask
				return found
			}
		}
	}
	return nil
}

// waits reports whether a row, or the record, waits.
func (g group) waits() bool {
	return g.record != nil && g.record.Pending != "" || slices.ContainsFunc(g.rows, func(r metering.Row) bool { return r.Pending != "" })
}

// deadline is from when on usage of the group is accepted no longer.
func (d *Desk) deadline(of group, now time.Time) time.Time {
	if e := endOf(of.subscriber, now); !e.over {
		return e.cut(d.Rules.Deadline(of.Hour))
	}
	return d.Rules.Deadline(of.Hour)
}

// accepted reports whether the service still takes usage of the group.
func (d *Desk) accepted(of group, now time.Time) bool {
	return d.Rules.Billable(of.Hour, now) && now.Before(d.deadline(of, now)) && !endOf(of.subscriber, now).over
}

// until is the time left for the group; empty where it is over.
func (d *Desk) until(of group, now time.Time) string {
	if !d.Rules.Billable(of.Hour, now) {
		return ""
	}
	return d.deadline(of, now).Sub(now).Round(time.Second).String()
}

// visit is when a group's waiting rows are summed next.
type visit struct {
	at   time.Time
	stop Stop // of what would do it; empty where it runs
}

// visit finds the next run that sums the group's waiting rows: a visit of its hour, or the flush of a license in its last hour, whatever the lock. A sum of
// zero is committed at the last moment alone.
func (d *Desk) visit(of group, now time.Time) (visit, bool) {
	h, zero := of.Hour, of.zero(now)
	var next visit
	found := false
	take := func(at time.Time, name string) {
		if !found || at.Before(next.at) {
			found, next = true, visit{at.UTC(), of.stops[name]}
		}
	}
	if at, ok := d.metered(h, now, zero); ok {
		take(at, MeterAt(min(h.Offset(at), metering.MaxOffset)))
	}
	if e := endOf(of.subscriber, now); !e.at.IsZero() {
		for at := metering.FlushSchedule.Next(now); at.Before(e.at); at = metering.FlushSchedule.Next(at) {
			if slices.Contains(d.Rules.FlushHours(e.at, at), h) && (!zero || metering.FlushClosing(e.at, at) || d.Rules.ZeroEdge(h, at)) {
				take(at, metering.FlushSchedule.Name)
				break
			}
		}
	}
	return next, found && next.at.Before(d.deadline(of, now))
}

// metered is the first run after now in which the meter mode visits an hour; where the group holds nothing, that in which it is summed at last.
func (d *Desk) metered(h metering.Hour, now time.Time, zero bool) (time.Time, bool) {
	if h.Start().After(now) {
		now = h.Start() // an hour that has not begun may be years away
	}
	for at := metering.MeterSchedule.Next(now); d.Rules.Billable(h, at); at = metering.MeterSchedule.Next(at) {
		if d.Rules.Visitable(h, at) && (!zero || d.Rules.ZeroEdge(h, at)) {
			return at, true
		}
	}
	return time.Time{}, false
}

// zero reports whether the group would be summed to zero.
func (g group) zero(now time.Time) bool {
	fold := metering.NewFold(g.Group, now)
	for _, r := range g.rows {
		fold.Add(r)
	}
	sum, reason := fold.Record()
	return reason == "" && sum.Quantity.N == 0
}
