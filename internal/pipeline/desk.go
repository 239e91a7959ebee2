package pipeline

import (
	"context"
	"fmt"

	"github.com/awsmp/metering/internal/concurrency"
	"github.com/awsmp/metering/internal/metering"
)

// desk is the submitter's side of the calls: it marks records before they are sent and writes verdicts back as they come.
type desk struct{ *intake }

// each runs do for every element at once: one call's records, at most 25. Of the errors it returns that of the element that stands first,
// whichever came first.
func each[T any](run concurrency.Runner, list []T, do func(i int, v T) error) error {
	group, errs := concurrency.Or(run).Group(0), make([]error, len(list))
	for i, v := range list {
		group.Go(func() { errs[i] = do(i, v) })
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Prepare marks records as sent before their first call, so that an answer that never comes leaves them in doubt and not
// expired. Records that changed or ended since the index was read are left to the next run. Where a mark fails, the others are
// returned beside the error: they are marked, and must be sent.
//
// A record that the index shows as sent is marked again, just as it is: the index may lag, and the record have been refused and reopened
// since. Sent without a mark of its own, an answer that never came would leave it, billed, as one that was never sent.
func (d *desk) Prepare(ctx context.Context, records []metering.Record) ([]metering.Marked, error) {
	ready := make([]*metering.Marked, len(records))
	err := each(d.Concurrency, d.Sendable(records), func(i int, r metering.Record) error {
		marked, ok, err := d.mark(ctx, r, r.Usage().Second)
		if ok {
			marked.InDoubt = marked.InDoubt || r.SentQuantity.Whole
			ready[i] = &marked
		}
		return err
	})
	out := make([]metering.Marked, 0, len(records))
	for _, r := range ready {
		if r != nil {
			out = append(out, *r)
		}
	}
	return out, err // those that are marked are sent, whatever became of the others
}

// mark marks a record as sent at second. A first mark that stands already, on a record that is otherwise as it was read, is another run's,
// or our own whose answer was lost and which the store's client then met as it tried again: either way a call may be under way, so the
// record is in doubt, and sent as such. A call that is the same as another's bills nothing.
func (d *desk) mark(ctx context.Context, r metering.Record, second metering.Second) (metering.Marked, bool, error) {
	send := metering.Send{
		License: r.License, SortKey: r.SortKey, Fingerprint: r.Fingerprint(),
		Quantity: r.Usage().Quantity, Second: second, At: d.Now(),
	}
	out, err := d.Records.MarkSent(ctx, send)
	if err != nil {
		return metering.Marked{}, false, fmt.Errorf("mark record as sent: %w", err)
	}
	marked := send.Apply(r)
	again := out.Old != nil && send.Shows(*out.Old) && out.Old.Fingerprint() == marked.Fingerprint()
	return metering.Marked{Record: marked, InDoubt: again}, out.Done || again, nil
}

// Sendable are the records whose hour may still be billed.
func (d *desk) Sendable(records []metering.Record) []metering.Record {
	now, out := d.Now(), make([]metering.Record, 0, len(records))
	for _, r := range records {
		if g, reason := r.Group(); reason == "" && d.Rules.Billable(g.Hour, now) {
			out = append(out, r)
		}
	}
	return out
}

// Later moves a record to the second of its first row: a buyer's first hour begins after the hour does, and its start lies
// before the license was active (F35).
func (d *desk) Later(ctx context.Context, r metering.Record) (metering.Record, bool, error) {
	g, reason := r.Group()
	if reason != "" {
		return r, false, nil
	}
	stored, err := d.Records.Record(ctx, g)
	if err != nil || stored == nil {
		return r, false, err
	}
	manifest, err := stored.Covers()
	if err != nil {
		return r, false, nil
	}
	first, ok := manifest.First(g.Hour)
	if !ok || first <= r.Usage().Second {
		return r, false, nil
	}
	m, ok, err := d.mark(ctx, r, first)
	return m.Record, ok, err
}

// Settle writes verdicts back, in parallel. What they come to is counted before the first write, in one measure a metric and
// cause: as many lines of metrics as records would cost more than the calls.
func (d *desk) Settle(ctx context.Context, verdicts []metering.Verdict) error {
	var sum measures
	for _, v := range verdicts {
		sum.add(measureOf(v))
		if v.Status == metering.Success {
			sum.add(refusedMeasure(rest(v.Record.Quantity, v.Sent.Quantity)))
		}
	}
	sum.emit(d.Metrics)
	return each(d.Concurrency, verdicts, func(_ int, v metering.Verdict) error {
		out, err := d.Records.FinishRecord(ctx, metering.FinishWith(v, d.Retention, d.Now()))
		if err != nil {
			return fmt.Errorf("write verdict back: %w", err)
		}
		if out.Done || v.Status != metering.Success {
			return nil
		}
		return d.settleChanged(ctx, v, out.Old)
	})
}

// settleAttempts is how often a Success is written to a record that goes on changing.
const settleAttempts = 5

// settleChanged writes a Success to a record that is no longer as it was sent. It is billed, so the verdict follows every change.
func (d *desk) settleChanged(ctx context.Context, v metering.Verdict, current *metering.Record) error {
	measured := max(0, rest(v.Record.Quantity, v.Sent.Quantity)) // when the verdict came
	for range settleAttempts {
		if current == nil { // deleted while its call was under way
			d.Metrics.Emit(metering.Measure{Metric: metering.MetricResultUnmatched, Items: 1, Units: v.Sent.Quantity})
			return nil
		}
		f, ok := metering.FinishChanged(v, *current, d.Retention, d.Now())
		if !ok {
			return nil
		}
		refused := rest(current.Quantity, v.Sent.Quantity)
		d.measureRefused(refused - measured)
		measured = max(measured, refused)
		out, err := d.Records.FinishRecord(ctx, f)
		if err != nil {
			return fmt.Errorf("write verdict back: %w", err)
		}
		if out.Done {
			return nil
		}
		current = out.Old
	}
	return fmt.Errorf("write verdict back: record %s changed %d times meanwhile; it is sent again", v.Record.SortKey, settleAttempts)
}

// measureOf is what a verdict counts as.
func measureOf(v metering.Verdict) metering.Measure {
	held, _ := v.Record.Quantity.Count()
	m := metering.Measure{Items: 1, Units: held}
	switch v.Status {
	case metering.Success:
		m.Metric, m.Units = metering.MetricBilled, v.Sent.Quantity
	case metering.DuplicateRecord:
		m.Metric = metering.MetricDuplicate
	case metering.CustomerNotSubscribed:
		m.Metric = metering.MetricNotSubscribed
	default:
		m.Metric, m.Cause = metering.MetricException, v.Reason
	}
	return m
}

// rest is what a record holds beyond what was billed.
func rest(held metering.Quantity, billed int64) int64 {
	q, _ := held.Count()
	return q - billed
}
