// Package node is the pipeline on one machine: the same stages as on AWS, with queues in memory, the same timetable and a clock.
//
// A node is driven in one of two ways. On a VirtualClock its caller moves the time and runs what is due, instant by instant. On a
// LiveClock it runs by itself, and Advance plays a stretch of time at once.
package node

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/awsmp/metering/internal/concurrency"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/queue/memory"
)

// Store is what a node keeps its usage in.
type Store interface {
	pipeline.Rows
	pipeline.Records
	lifecycle.Subscribers
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
	// Grace is how long Run lets running stages go on after its context has ended; 0 means 30 s.
	Grace time.Duration
	// Concurrency is what each stage runs its concurrency through; nil means goroutines. The Marketplace brings its own.
	Concurrency concurrency.Runner
	Log         *slog.Logger
	// Observe, where set, is told what each stage did. It is called from the stages' own goroutines.
	Observe func(Event)
}

// Event is a run of a stage.
type Event struct {
	At     time.Time
	Stage  string // a schedule's name, or AggregateStage or CleanupStage
	Report any    // the stage's own: pipeline.Discovery, pipeline.Submission, pipeline.Expiry, lifecycle.Finalized, or an int of messages handled
	Err    error
}

// The stages that have no timetable: they handle messages as they come.
const (
	AggregateStage = "aggregate"
	CleanupStage   = "cleanup"
)

// Queue settings, as on AWS.
const (
	visibility     = 360 * time.Second
	workReceives   = 5
	cleanupRetries = 8
	workBatch      = 10
	cleanupBatch   = 10 // the local store takes many labels at once as cheaply as one
)

// Node holds the assembled stages. Its parts are exported so that a test can run a single one.
type Node struct {
	Discover  *pipeline.Discoverer
	Aggregate *pipeline.Aggregator
	Clean     *pipeline.Cleaner
	Submit    *pipeline.Submitter
	Expire    *pipeline.Expirer
	Finalize  *lifecycle.Finalizer
	// Lifecycle takes the Marketplace's events. It has no queue here: whoever has an event applies it.
	Lifecycle *lifecycle.Handler

	Work, Deprovision, Cleanup *memory.Queue
	DeadLetters                *memory.Queue

	config Config
	jobs   []job
	// The queues as the stages and the consumers see them.
	work, deprovision, cleanup *inbox
	gate                       *semaphore.Weighted // held in part by every running stage, as a whole by an advance
	state                      state
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
	n := &Node{
		Work: open(workReceives), Deprovision: open(workReceives), Cleanup: open(cleanupRetries), DeadLetters: dead,
		config: c, gate: semaphore.NewWeighted(wholeGate),
	}
	n.work, n.deprovision, n.cleanup = newInbox(n.Work, c.Clock.Now), newInbox(n.Deprovision, c.Clock.Now), newInbox(n.Cleanup, c.Clock.Now)
	n.Discover = &pipeline.Discoverer{
		Rows: c.Store, Records: c.Store, Subscribers: c.Store, Work: n.work, Deprovision: n.deprovision, Cleanup: n.cleanup,
		Metrics: c.Metrics, Rules: c.Rules, Concurrency: c.Concurrency, Now: c.Clock.Now, Log: c.Log,
	}
	n.Aggregate = &pipeline.Aggregator{
		Rows: c.Store, Records: c.Store, Cleanup: n.cleanup, Metrics: c.Metrics, Rules: c.Rules, Now: c.Clock.Now, Log: c.Log,
	}
	n.Clean = &pipeline.Cleaner{
		Rows: c.Store, Metrics: c.Metrics, Batch: metering.MaxCleanupRows, Concurrency: c.Concurrency,
		Now: c.Clock.Now, Sleep: c.Clock.Sleep, Log: c.Log,
	}
	n.Submit = &pipeline.Submitter{
		Records: c.Store, Subscribers: c.Store, Marketplace: c.Marketplace, Metrics: c.Metrics, Rules: c.Rules,
		MaxRecords: c.MaxRecords, Retention: c.Retention, DryRun: c.DryRun, Paused: c.Paused,
		Concurrency: c.Concurrency, Now: c.Clock.Now, Log: c.Log,
	}
	n.Expire = &pipeline.Expirer{Records: c.Store, Metrics: c.Metrics, Rules: c.Rules, Concurrency: c.Concurrency, Now: c.Clock.Now, Log: c.Log}
	n.Finalize = &lifecycle.Finalizer{Subscribers: c.Store, Now: c.Clock.Now, Log: c.Log}
	n.Lifecycle = &lifecycle.Handler{Subscribers: c.Store, Metrics: c.Metrics, Now: c.Clock.Now, Log: c.Log}
	n.jobs = n.timetable()
	return n, nil
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

func (n *Node) observe(stage string, report any, err error) {
	e := Event{At: n.config.Clock.Now(), Stage: stage, Report: report, Err: err}
	n.state.note(e)
	if n.config.Observe != nil {
		n.config.Observe(e)
	}
}
