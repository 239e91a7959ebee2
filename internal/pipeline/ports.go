// Package pipeline holds the five stages through which usage walks: discover, aggregate, clean up, submit and expire. Each is
// a value of its dependencies with one method; the same value serves Lambda, one machine and the tests, and any stage may run
// twice at once. What is decided is decided in package metering; here it is read, asked and written.
package pipeline

import (
	"context"
	"iter"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// Rows is the usage table.
type Rows interface {
	// PendingRows reads the pending index under one bucket, all pages: of every license, or of the one named. The
	// index may lag behind the table.
	PendingRows(ctx context.Context, hour metering.Hour, license string) iter.Seq2[metering.PendingRow, error]
	// GroupRows reads the rows whose key begins with the group's prefix, consistently, in the order of their keys.
	GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error]
	// Row reads one row consistently; nil where there is none.
	Row(ctx context.Context, license, sortKey string) (*metering.Row, error)
	// LabelRows writes labels, each under its own condition. The results are in the order of the labels. A row that has no room for a
	// label's reason gets it without.
	LabelRows(ctx context.Context, labels []metering.Label) []metering.Labelled
	RebucketRow(ctx context.Context, b metering.Rebucket) (metering.Outcome[metering.Row], error)
}

// Records is the aggregated-usage table.
type Records interface {
	// Record reads a group's record consistently; nil where there is none.
	Record(ctx context.Context, g metering.Group) (*metering.Record, error)
	// CreateRecord writes the record where there is none yet: the commit. It fails with metering.ErrTooLarge where the
	// store cannot hold it.
	CreateRecord(ctx context.Context, r metering.Record) (metering.Outcome[metering.Record], error)
	// PendingRecords reads the pending index under one bucket, all pages: of every license, or of the one named. The
	// index may lag behind the table, and carries no manifest.
	PendingRecords(ctx context.Context, hour metering.Hour, license string) iter.Seq2[metering.Record, error]
	MarkSent(ctx context.Context, s metering.Send) (metering.Outcome[metering.Record], error)
	FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error)
}

// Subscribers is what the pipeline asks of the subscribers table.
type Subscribers interface {
	// Deprovisioning lists the licenses in their last hour, the one that ends first at the head. Beside an error stands what could be read: one entry that cannot be
	// costs no other license its last hour.
	Deprovisioning(ctx context.Context) ([]metering.Deprovisioning, error)
}

// Queue takes messages in, at most metering.MaxBatch and metering.MaxBatchBytes at once. The indexes of entries that it refused while taking the others are
// returned; an error means that none is known to be taken.
type Queue interface {
	Send(ctx context.Context, bodies []string) (refused []int, err error)
}

// Metrics takes observations in, from several goroutines.
type Metrics interface {
	Emit(m metering.Measure)
}

// Message is one delivery of a queue.
type Message struct {
	ID     string
	Body   string
	SentAt time.Time // when it was first sent
	// Receives is the number of its deliveries up to now, 1 at the first; 0 where that is not known.
	Receives int
}

// Marketplace sends records, lane after lane, at the pace that the service allows, and hands every verdict to the desk as soon
// as it is known. Records are packed into calls of one lane and one identity scheme. It fails when the run cannot go on: the
// records without a verdict are left as they are.
type Marketplace interface {
	Send(ctx context.Context, lanes []iter.Seq2[metering.Record, error], desk Desk) (metering.SendReport, error)
}

// Desk is the submitter's side of a run of calls. Its methods are called from several goroutines.
type Desk = interface {
	// Prepare is asked before the first call of each record: it returns those that are to be sent, marked in the store as
	// sent. Records that come with an error beside them are sent all the same.
	Prepare(ctx context.Context, records []metering.Record) ([]metering.Marked, error)
	// Sendable is asked right before every call: it returns the records whose hour may still be billed.
	Sendable(records []metering.Record) []metering.Record
	// Later is asked when a record alone was refused for its time: it returns the record marked with the second of its first
	// row, where that is later than what was sent.
	Later(ctx context.Context, r metering.Record) (metering.Record, bool, error)
	// Settle writes verdicts back.
	Settle(ctx context.Context, verdicts []metering.Verdict) error
}
