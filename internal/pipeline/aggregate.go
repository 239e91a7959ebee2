package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// Aggregator turns a group's rows into its record: one message, one group. Creating the record is the commit; it happens
// once, and everything after it is decided by the record's manifest.
type Aggregator struct {
	Rows    Rows
	Records Records
	Cleanup Queue
	Metrics Metrics
	Rules   metering.Rules
	Now     func() time.Time
	Log     *slog.Logger
}

// Handle visits the group of each message and names the messages that failed; the others are done.
func (a *Aggregator) Handle(ctx context.Context, batch []Message) (failed []string) {
	for _, m := range batch {
		if err := a.handle(ctx, m.Body); err != nil {
			logger(a.Log).Error("visit of a group failed; its message will be delivered again", "message", m.ID, "error", err)
			failed = append(failed, m.ID)
		}
	}
	return failed
}

func (a *Aggregator) handle(ctx context.Context, body string) error {
	m, err := metering.Decode[metering.WorkMessage](body)
	if err != nil {
		return err
	}
	g, err := m.Group()
	if err != nil {
		return err
	}
	out := &outbox{queue: a.Cleanup}
	return errors.Join(a.visit(ctx, g, m.Closing, out), out.close(ctx))
}

func (a *Aggregator) visit(ctx context.Context, g metering.Group, closing bool, out *outbox) error {
	record, err := a.Records.Record(ctx, g)
	if err != nil {
		return fmt.Errorf("read record: %w", err)
	}
	if record != nil {
		return a.cover(ctx, g, *record, out)
	}
	now := a.Now()
	if !a.Rules.Billable(g.Hour, now) {
		return nil // age-out owns it: age alone never rejects
	}
	fold := metering.NewFold(g, now)
	for row, err := range a.Rows.GroupRows(ctx, g) {
		if err != nil {
			return fmt.Errorf("read rows: %w", err)
		}
		fold.Add(row)
	}
	if fold.Pending() == 0 {
		return nil
	}
	sum, reason := fold.Record()
	if reason != "" {
		return a.reject(ctx, g, fold, reason, out)
	}
	if sum.Quantity.N == 0 && !closing && !a.Rules.ZeroEdge(g.Hour, now) {
		return nil // a 0 sent now would own the hour (case 29)
	}
	return a.commit(ctx, g, fold, sum, out)
}

func (a *Aggregator) cover(ctx context.Context, g metering.Group, record metering.Record, out *outbox) error {
	v := visit{rows: a.Rows, metrics: a.Metrics, log: logger(a.Log), now: a.Now(), out: out}
	return v.cover(ctx, g, record)
}

// reject refuses the whole group with the first reason: a sum without the bad row would take the hour, and the mended row
// could never be billed (F8).
func (a *Aggregator) reject(ctx context.Context, g metering.Group, fold *metering.Fold, reason metering.Reason, out *outbox) error {
	return out.label(ctx, metering.CleanupMessage{
		License: g.License, Status: metering.RejectedClientSide, Reason: string(reason),
	}, fold.Rejections())
}

// commit creates the record and asks for the labels of the rows that it covers.
func (a *Aggregator) commit(ctx context.Context, g metering.Group, fold *metering.Fold, sum metering.Record, out *outbox) error {
	now := a.Now()
	if !a.Rules.Billable(g.Hour, now) {
		return nil
	}
	created, err := a.Records.CreateRecord(ctx, sum.Stamped(now))
	if errors.Is(err, metering.ErrTooLarge) {
		return a.reject(ctx, g, fold, metering.RecordTooLarge, out)
	}
	if err != nil {
		return fmt.Errorf("create record: %w", err)
	}
	if !created.Done {
		if created.Old == nil {
			return errors.New("create record: refused, yet there is none")
		}
		return a.cover(ctx, g, *created.Old, out) // another visit's, or our own whose answer was lost
	}
	manifest := fold.Manifest()
	rows := make([]metering.CleanupRow, 0, manifest.Count())
	for second, quantity := range manifest.All(g.Hour) {
		rows = append(rows, metering.CoveredRow(g, second, quantity))
	}
	return out.label(ctx, metering.CleanupMessage{
		License: g.License, Covered: true, Status: metering.Aggregated,
		Reason: metering.AggregatedReason(sum.Quantity.N, manifest.Count()),
	}, rows)
}
