package simulation

import (
	"context"
	"fmt"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// tick starts the stages whose time has come, and comes again at the next instant of the timetable.
func (w *world) tick() {
	now := w.now
	if w.finished(now) {
		w.over = true
		return
	}
	for _, s := range w.timetable() {
		if s.schedule.Next(now.Add(-time.Nanosecond)).Equal(now) {
			for _, r := range s.runs {
				w.fire(now, r)
			}
		}
	}
	w.at(w.node.Next(now), w.tick)
}

// fire has a schedule start its target: a moment later, and now and then twice, much later, or not at all.
func (w *world) fire(now time.Time, r stageRun) {
	name := r.name + " of " + now.Format("02 15:04")
	luck := w.luck(name)
	jitter := time.Duration(luck.Int64N(int64(time.Second)))
	if w.strikes(FiredNever, name, w.weather.never, luck) {
		w.say(name, "is never started")
		return
	}
	if by := luck.Int64N(int64(time.Minute)); w.strikes(FiredLate, name, w.weather.late, luck) {
		jitter = time.Duration(by)
	}
	w.at(now.Add(jitter), func() { w.run(r, name) })
	if by := luck.Int64N(int64(time.Minute)); w.strikes(FiredTwice, name, w.weather.twice, luck) {
		w.at(now.Add(time.Duration(by)), func() { w.run(r, name+" again") })
	}
}

// run starts a stage. Of submissions one runs at a time, and one more waits for its end, as a function with a concurrency of 1 does.
func (w *world) run(r stageRun, name string) {
	if !r.sees(w.now) && w.luck(name).IntN(emptyRuns) > 0 {
		return
	}
	if !r.serial {
		w.start(r.name, name, processLimit, r.do, nil)
		return
	}
	if w.running[r.name] > 0 {
		w.next[r.name] = true
		return
	}
	w.start(r.name, name, processLimit, r.do, func() {
		if w.next[r.name] {
			w.next[r.name] = false
			w.at(w.now, func() { w.run(r, name+" after it") })
		}
	})
}

// emptyRuns is of how many runs that would find nothing one is played all the same: the others would be most of a day's cost.
const emptyRuns = 64

type stageRun struct {
	name   string
	serial bool
	do     func(ctx context.Context)
	sees   func(now time.Time) bool // whether anything is there for it to find
}

type timetabled struct {
	schedule metering.Schedule
	runs     []stageRun
}

// timetable are the stages as their schedules start them: every slice a process of its own.
func (w *world) timetable() []timetabled {
	if w.scheduled != nil {
		return w.scheduled
	}
	slice := func(name string, s pipeline.Slice, sees func(time.Time) bool) stageRun {
		return stageRun{name: name, sees: sees, do: func(ctx context.Context) { _ = w.stages.discover(ctx, s) }}
	}
	var meter, ageout []stageRun
	for offset := metering.MinOffset; offset <= metering.MaxOffset; offset++ {
		meter = append(meter, slice(fmt.Sprint("meter ", offset), pipeline.MeterSlice(offset), func(now time.Time) bool {
			return w.tables.waits(func(h metering.Hour) bool {
				return h.Offset(now) == offset || offset == metering.MaxOffset && h.Offset(now) > offset
			})
		}))
	}
	lapsed := func(now time.Time) bool {
		return w.tables.waits(func(h metering.Hour) bool {
			return w.plan.rules.Expirable(h, now) || h.Offset(now) > metering.MaxOffset
		})
	}
	for shard := range metering.AgeoutShards {
		ageout = append(ageout, slice(fmt.Sprint("ageout ", shard), pipeline.AgeoutSlice(shard), lapsed))
	}
	ending := func(time.Time) bool {
		list, err := w.tables.Store.Deprovisioning(context.Background())
		return err != nil || len(list) > 0
	}
	some := func(time.Time) bool { return w.tables.waits(func(metering.Hour) bool { return true }) }
	w.scheduled = []timetabled{
		{metering.MeterSchedule, meter},
		{metering.AgeoutSchedule, ageout},
		{metering.FlushSchedule, []stageRun{slice("flush", pipeline.FlushSlice(), ending)}},
		{metering.SubmitSchedule, []stageRun{{name: "submit", serial: true, sees: some, do: func(ctx context.Context) { _ = w.stages.submit(ctx) }}}},
		{metering.ExpireSchedule, []stageRun{{name: "expire", serial: true, sees: lapsed, do: func(ctx context.Context) { _ = w.stages.expire(ctx) }}}},
		{metering.FinalizeSchedule, []stageRun{{name: "finalize", sees: ending, do: func(ctx context.Context) { _ = w.stages.finalize(ctx) }}}},
	}
	return w.scheduled
}
