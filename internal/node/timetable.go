package node

import (
	"context"
	"errors"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// job is a stage and its timetable.
type job struct {
	schedule metering.Schedule
	run      func(ctx context.Context) (any, error)
	// stops is set where the stage, when its context ends, begins nothing more and brings what it has begun to its end. The
	// others are small enough to be let finish.
	stops bool
}

// timetable is the stages in the order in which they run when several are due at the same instant.
func (n *Node) timetable() []job {
	return []job{
		{schedule: metering.MeterSchedule, run: func(ctx context.Context) (any, error) {
			return n.discover(ctx, pipeline.MeterSlice, metering.MinOffset, metering.MaxOffset)
		}},
		{schedule: metering.AgeoutSchedule, run: func(ctx context.Context) (any, error) {
			return n.discover(ctx, pipeline.AgeoutSlice, 0, metering.AgeoutShards-1)
		}},
		{schedule: metering.FlushSchedule, run: func(ctx context.Context) (any, error) { return n.Discover.Run(ctx, pipeline.FlushSlice()) }},
		{schedule: metering.SubmitSchedule, run: func(ctx context.Context) (any, error) { return n.Submit.Run(ctx) }, stops: true},
		{schedule: metering.ExpireSchedule, run: func(ctx context.Context) (any, error) { return n.Expire.Run(ctx) }},
		{schedule: metering.FinalizeSchedule, run: func(ctx context.Context) (any, error) { return n.Finalize.Run(ctx) }},
	}
}

// Next is the instant after t at which the next stage is due.
func (n *Node) Next(t time.Time) time.Time {
	var next time.Time
	for _, j := range n.jobs {
		if due := j.schedule.Next(t); next.IsZero() || due.Before(next) {
			next = due
		}
	}
	return next
}

// RunDue runs every stage that is due at exactly t and then handles the messages that came of it. A stage that fails does not
// keep the others from running; its work is found again at the next visit.
func (n *Node) RunDue(ctx context.Context, t time.Time) error { return n.runDue(ctx, ctx, t) }

// runDue runs what is due at t. No stage starts once open has ended; those that it stops go by it, the others by work.
func (n *Node) runDue(open, work context.Context, t time.Time) error {
	var errs []error
	for _, j := range n.jobs {
		if !j.schedule.Next(t.Add(-time.Nanosecond)).Equal(t) {
			continue
		}
		ctx := work
		if j.stops {
			ctx = open
		}
		report, err := j.run(ctx)
		n.observe(j.schedule.Name, report, err)
		errs = append(errs, err)
		n.Drain(work)
		if err := errors.Join(open.Err(), work.Err()); err != nil {
			return err
		}
	}
	return errors.Join(errs...)
}
