// Package desk is the operator's desk: what a person sees of the pipeline, asks about a group's usage, and puts right. It works on two
// kinds of place, a deployed stack (package stack) and the store of one machine (Local), through the same ports.
//
// Whatever it changes it changes by one conditional write of package metering at a time, so that an interruption leaves each item either
// as it was or done, and the same command goes on where it ended.
package desk

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// Tables is what the desk reads and changes: both usage tables, and the subscribers.
type Tables interface {
	pipeline.Rows
	pipeline.Records
	pipeline.RefusedRecords
	ledger.Store
	pipeline.Subscribers
	// Subscriber is one that is known; nil where it is not.
	Subscriber(ctx context.Context, license, account string) (*metering.Subscriber, error)
	// Accounts are the accounts that either usage table holds items of under a license, in order.
	Accounts(ctx context.Context, license string) ([]string, error)
	// EndedRows are the rows that have ended with a status, in the order of their keys; with no license those of all licenses,
	// in no order. Where that reads a whole table, a price is announced first.
	EndedRows(ctx context.Context, license string, status metering.Status) iter.Seq2[metering.Row, error]
	// EndedRecords are the records that have ended with a status, likewise.
	EndedRecords(ctx context.Context, license string, status metering.Status) iter.Seq2[metering.Record, error]
	// RecallRow lets a rejected row wait again where the condition holds.
	RecallRow(ctx context.Context, x metering.Recall) (metering.Outcome[metering.Row], error)
	// DropRow takes a rejected row out of every later sum where the condition holds.
	DropRow(ctx context.Context, x metering.Drop) (metering.Outcome[metering.Row], error)
	// CarryRow books late units anew, in one transaction of both rows and of the record of the source's hour. The outcome carries the
	// source, none where that record is not as it was judged; Done is also true of a carry that was made by an earlier try whose
	// answer was lost.
	CarryRow(ctx context.Context, x metering.Carry) (metering.Outcome[metering.Row], error)
}

// Plant is what moves usage: queues, stages and what watches them.
type Plant interface {
	// Queues are all queues with their dead-letter queues, in the order of the pipeline.
	Queues(ctx context.Context) ([]Queue, error)
	// Stages are the stages with their last runs, in the order of the pipeline.
	Stages(ctx context.Context) ([]Stage, error)
	// Ringing are the alarms that ring, by the names that the runbook has them under.
	Ringing(ctx context.Context) ([]Alarm, error)
	// Counted are the metrics of the pipeline between two instants, by the hour in which they were counted.
	Counted(ctx context.Context, from, to time.Time) ([]Count, error)
	// Troubles are what stands still or is set so that it will: a rule that is off, a queue that nobody reads, a function without room.
	Troubles(ctx context.Context) ([]Finding, error)
	// Letters are up to limit messages of a dead-letter queue, which stay in it.
	Letters(ctx context.Context, queue string, limit int) ([]Letter, error)
	// Redrive moves the messages of a dead-letter queue, one by one, to where they came from, and tells moved after each how many were. A
	// message is put in before it is taken out: an interruption leaves it in both queues, where handling it twice changes nothing.
	Redrive(ctx context.Context, queue string, moved func(n int)) (int, error)
}

// Desk is a desk at one place.
type Desk struct {
	Name        string // of the place, in words: stack awsmp-… in us-east-1
	Flags       string // by which another command goes to the same place, with a space before: " --stack awsmp-… --region us-east-1"
	Tables      Tables
	Plant       Plant  // nil: nothing runs at the place
	Silent      string // address of what should run at the place and does not answer; there is then no plant
	ProductCode string
	Rules       metering.Rules
	DryRun      bool // the place calls no Marketplace
	Paused      bool // the place sends nothing
	Direct      bool // the place has no usage table: sellers write records themselves
	Now         func() time.Time
	Log         *slog.Logger // nil logs nothing
}

// Queue is a queue, or a dead-letter queue.
type Queue struct {
	Name     string `json:"name"`                // as awsmp dlq takes it: work, deprovision-work, cleanup, events, and with -dlq their dead letters
	Dead     bool   `json:"deadLetters"`         // holds what failed too often
	Visible  int    `json:"visible"`             // wait to be handled
	InFlight int    `json:"inFlight"`            // are being handled, or failed and come back
	Oldest   string `json:"oldestAge,omitempty"` // as "3h10m0s"; empty where it is empty or nobody knows
}

// Stage is a stage of the pipeline.
type Stage struct {
	Name     string    `json:"name"`
	LastAt   time.Time `json:"lastAt,omitzero"` // of the last run that is known
	Last     string    `json:"last,omitempty"`  // what it did, in words
	Next     time.Time `json:"next,omitzero"`   // missing where it runs when something comes, and where it is off
	Off      bool      `json:"off,omitempty"`   // it would run at times, and what starts it is off
	Runs     int       `json:"runs"`            // in the last hour, or since the node's start
	Failures int       `json:"failures"`        // of these
	Error    string    `json:"error,omitempty"` // of the last failure among them
}

// Alarm is one that rings.
type Alarm struct {
	Name  string    `json:"name"` // of its runbook entry: usage-late
	Since time.Time `json:"since,omitzero"`
}

// Count is what was counted of a metric in an hour. One with a cause is a part of what the metric counts without.
type Count struct {
	Hour   metering.Hour   `json:"hour"`
	Metric metering.Metric `json:"metric"`
	Cause  string          `json:"cause,omitempty"` // metering.VerdictUnknown alone: the units are in doubt
	Items  int64           `json:"items"`
	Units  int64           `json:"units"`
}

// Kind is what a finding asks for.
type Kind string

// The kinds beside the empty one, that of what somebody has to do something about.
const (
	KindAlarms Kind = "alarms" // alarms tell nobody: no usage stands still for it
	KindKnown  Kind = "known"  // is only to be known: nothing brings back what was lost
)

// Finding is something that wants a person.
type Finding struct {
	Alarm string `json:"alarm"`           // the runbook entry that it belongs to: awsmp explain ALARM says more; empty where no alarm tells of it
	What  string `json:"what"`            // in words, with the name of the thing
	Fix   string `json:"fix,omitempty"`   // the command that puts it right, ready to be copied; empty where there is none
	Left  string `json:"left,omitempty"`  // until something is lost, as "3h10m0s"
	Units int64  `json:"units,omitempty"` // concerned, where they are known
	Kind  Kind   `json:"kind,omitempty"`  // empty: somebody has to do something
	// Since is from when on its alarm rings; missing where it does not.
	Since time.Time `json:"ringsSince,omitzero"`
}

// Letter is a message of a dead-letter queue.
type Letter struct {
	ID       string    `json:"id"`
	Queue    string    `json:"queue"`
	SentAt   time.Time `json:"sentAt,omitzero"`
	Receives int       `json:"receives,omitempty"`
	Body     string    `json:"body"`
}
