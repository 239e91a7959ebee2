// Package node is the pipeline on one machine: the same stages as on AWS, with queues in memory, the same timetable and a clock.
package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/queue"
	"github.com/awsmp/metering/internal/queue/memory"
)

// Store is what a node keeps its usage in.
type Store interface {
	pipeline.Rows
	pipeline.Records
	pipeline.Subscribers
	// RemoveDeprovisioning ends a license's last hour.
	RemoveDeprovisioning(ctx context.Context, license, account string) error
}

// Config is a node's parts and settings.
type Config struct {
	Store       Store
	Marketplace pipeline.Marketplace
	Metrics     pipeline.Metrics
	Rules       metering.Rules
	MaxRecords  int
	Retention   time.Duration
	DryRun      bool
	Paused      bool
	Clock       Clock
	Log         *slog.Logger
	// Observe, where set, is told what each stage did.
	Observe func(Event)
}

// Event is a run of a stage.
type Event struct {
	At     time.Time
	Stage  string // a schedule's name, or "aggregate" or "cleanup"
	Report any    // the stage's own: pipeline.Discovery, pipeline.Submission, pipeline.Expiry, or an int of messages handled
	Err    error
}

// Queue settings, as on AWS.
const (
	visibility     = 360 * time.Second
	workReceives   = 5
	cleanupRetries = 8
	workBatch      = 10
	cleanupBatch   = 5
)

// Node holds the assembled stages. Its parts are exported so that a test can run a single one.
type Node struct {
	Discover  *pipeline.Discoverer
	Aggregate *pipeline.Aggregator
	Clean     *pipeline.Cleaner
	Submit    *pipeline.Submitter
	Expire    *pipeline.Expirer

	Work, Deprovision, Cleanup *memory.Queue
	DeadLetters                *memory.Queue

	config Config
}

// New assembles a node.
func New(c Config) (*Node, error) {
	if err := c.Rules.Check(); err != nil {
		return nil, err
	}
	dead := memory.New(memory.Options{Now: c.Clock.Now})
	open := func(receives int) *memory.Queue {
		return memory.New(memory.Options{Visibility: visibility, MaxReceive: receives, DeadLetters: dead, Now: c.Clock.Now})
	}
	n := &Node{Work: open(workReceives), Deprovision: open(workReceives), Cleanup: open(cleanupRetries), DeadLetters: dead, config: c}
	n.Discover = &pipeline.Discoverer{
		Rows: c.Store, Records: c.Store, Subscribers: c.Store, Work: n.Work, Deprovision: n.Deprovision, Cleanup: n.Cleanup,
		Metrics: c.Metrics, Rules: c.Rules, Now: c.Clock.Now, Log: c.Log,
	}
	n.Aggregate = &pipeline.Aggregator{
		Rows: c.Store, Records: c.Store, Cleanup: n.Cleanup, Metrics: c.Metrics, Rules: c.Rules, Now: c.Clock.Now, Log: c.Log,
	}
	n.Clean = &pipeline.Cleaner{Rows: c.Store, Metrics: c.Metrics, Now: c.Clock.Now, Sleep: c.Clock.Sleep, Log: c.Log}
	n.Submit = &pipeline.Submitter{
		Records: c.Store, Subscribers: c.Store, Marketplace: c.Marketplace, Metrics: c.Metrics, Rules: c.Rules,
		MaxRecords: c.MaxRecords, Retention: c.Retention, DryRun: c.DryRun, Paused: c.Paused, Now: c.Clock.Now, Log: c.Log,
	}
	n.Expire = &pipeline.Expirer{Records: c.Store, Metrics: c.Metrics, Rules: c.Rules, Now: c.Clock.Now, Log: c.Log}
	return n, nil
}

// job is a stage and its timetable.
type job struct {
	schedule metering.Schedule
	run      func(ctx context.Context) (any, error)
}

// jobs are the stages in the order in which they run when several are due at the same instant.
func (n *Node) jobs() []job {
	return []job{
		{metering.MeterSchedule, func(ctx context.Context) (any, error) {
			return n.discover(ctx, pipeline.MeterSlice, metering.MinOffset, metering.MaxOffset)
		}},
		{metering.AgeoutSchedule, func(ctx context.Context) (any, error) {
			return n.discover(ctx, pipeline.AgeoutSlice, 0, metering.AgeoutShards-1)
		}},
		{metering.FlushSchedule, func(ctx context.Context) (any, error) { return n.Discover.Run(ctx, pipeline.FlushSlice()) }},
		{metering.SubmitSchedule, func(ctx context.Context) (any, error) { return n.Submit.Run(ctx) }},
		{metering.ExpireSchedule, func(ctx context.Context) (any, error) { return n.Expire.Run(ctx) }},
		{metering.FinalizeSchedule, func(ctx context.Context) (any, error) { return n.Finalize(ctx) }},
	}
}

// Next is the instant after t at which the next stage is due.
func (n *Node) Next(t time.Time) time.Time {
	var next time.Time
	for _, j := range n.jobs() {
		if due := j.schedule.Next(t); next.IsZero() || due.Before(next) {
			next = due
		}
	}
	return next
}

// RunDue runs every stage that is due at exactly t and then handles the messages that came of it. A stage that fails does not
// keep the others from running; its work is found again at the next visit.
func (n *Node) RunDue(ctx context.Context, t time.Time) error {
	var errs []error
	for _, j := range n.jobs() {
		if !j.schedule.Next(t.Add(-time.Nanosecond)).Equal(t) {
			continue
		}
		report, err := j.run(ctx)
		n.observe(j.schedule.Name, report, err)
		errs = append(errs, err)
		n.Drain(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return errors.Join(errs...)
}

func (n *Node) discover(ctx context.Context, slice func(int) pipeline.Slice, first, last int) (pipeline.Discovery, error) {
	var total pipeline.Discovery
	var errs []error
	for i := first; i <= last; i++ {
		found, err := n.Discover.Run(ctx, slice(i))
		total.Add(found)
		errs = append(errs, err)
	}
	return total, errors.Join(errs...)
}

// Finalize ends the last hour of licenses whose window is over.
func (n *Node) Finalize(ctx context.Context) (int, error) {
	list, err := n.config.Store.Deprovisioning(ctx)
	if err != nil {
		return 0, err
	}
	ended := 0
	for _, l := range list {
		if l.Expiry.After(n.config.Clock.Now()) {
			continue
		}
		if err := n.config.Store.RemoveDeprovisioning(ctx, l.License, l.Account); err != nil {
			return ended, err
		}
		ended++
	}
	return ended, nil
}

// Drain handles messages until none is visible: aggregation first, then labels.
func (n *Node) Drain(ctx context.Context) {
	for ctx.Err() == nil {
		visits := n.Deprovision.Poll(ctx, workBatch, handler(n.Aggregate.Handle)) + n.Work.Poll(ctx, workBatch, handler(n.Aggregate.Handle))
		labels := n.Cleanup.Poll(ctx, cleanupBatch, handler(n.Clean.Handle))
		if visits > 0 {
			n.observe("aggregate", visits, nil)
		}
		if labels > 0 {
			n.observe("cleanup", labels, nil)
		}
		if visits+labels == 0 {
			return
		}
	}
}

// handler lets a stage handle a queue's deliveries.
func handler(stage func(context.Context, []pipeline.Message) []string) func(context.Context, []queue.Delivery) []string {
	return func(ctx context.Context, batch []queue.Delivery) []string {
		messages := make([]pipeline.Message, len(batch))
		for i, d := range batch {
			messages[i] = pipeline.Message{ID: d.ID, Body: d.Body}
		}
		return stage(ctx, messages)
	}
}

func (n *Node) observe(stage string, report any, err error) {
	if n.config.Observe != nil {
		n.config.Observe(Event{At: n.config.Clock.Now(), Stage: stage, Report: report, Err: err})
	}
}
