package pipeline

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// heldBytes bounds the legacy records of one hour that are held back until the hour has been read; what exceeds it waits for
// the next run.
const heldBytes = 16 << 20

// intake reads the waiting records of a run, lane by lane, and lets only those through that may be sent. It ends the others
// itself, so that none can spoil a call for its neighbours (F18).
type intake struct {
	*Submitter
	last     []string // licenses in their last hour, in the order in which they are sent
	taken    int      // of the ordinary backlog
	rejected int
	unended  int   // records that could not be ended; the next run tries again
	trouble  error // of the first of them

	read map[lookup]bool            // last hours that were read to the end
	part map[lookup]map[string]bool // of those that could not be: the records that were read, by sort key

	arn  map[sale]bool              // what goes by license ARN in this run
	arns map[metering.Hour]bool     // the hours of these
	sent map[metering.Identity]bool // legacy identities let through
}

// sale is what must not be billed under both identity schemes (F32).
type sale struct {
	account, dimension string
	hour               metering.Hour
}

func newIntake(s *Submitter, closing []metering.Deprovisioning) *intake {
	in := &intake{
		Submitter: s, read: make(map[lookup]bool), part: make(map[lookup]map[string]bool),
		arn: make(map[sale]bool), arns: make(map[metering.Hour]bool), sent: make(map[metering.Identity]bool),
	}
	for _, l := range closing {
		if metering.LegacyLicense(l.License) {
			continue // no event names one; should a table do so, it goes with the backlog, where its twin would be seen
		}
		in.last = append(in.last, l.License)
	}
	return in
}

func (in *intake) lanes(ctx context.Context, now time.Time) []iter.Seq2[metering.Record, error] {
	lanes := make([]iter.Seq2[metering.Record, error], 0, 3)
	if len(in.last) > 0 {
		lanes = append(lanes, in.lastHours(ctx, now))
	}
	return append(lanes, in.hours(ctx, in.Rules.SubmitHours(now), true), in.hours(ctx, in.Rules.GraceTail(now), false))
}

// lastHours are the records of licenses in their last hour, the hour in progress included, by one targeted query an hour. What could not be
// read goes with the backlog, and after some failures so does all that the lane has not come to: a preference never keeps the others from
// their turn. Only the hour in progress, which the backlog does not hold, waits for the next run.
func (in *intake) lastHours(ctx context.Context, now time.Time) iter.Seq2[metering.Record, error] {
	hours := append(in.Rules.GraceTail(now), in.Rules.SubmitHours(now)...)
	hours = append(hours, metering.HourOf(now))
	return func(yield func(metering.Record, error) bool) {
		failed := 0
		for q, answer := range lookUp(ctx, in.Concurrency, in.Records, in.last, hours) {
			whole, seen := true, make(map[string]bool)
			for r, err := range answer {
				switch {
				case err != nil:
					whole, err = false, fmt.Errorf("read pending records of %v: %w", q.hour, err)
				default:
					if seen[r.SortKey] = true; !in.admit(ctx, r, q.hour) {
						continue
					}
				}
				if !yield(r, err) {
					return
				}
			}
			if whole {
				in.read[q] = true
				continue
			}
			in.part[q] = seen
			if failed++; failed > maxErrors {
				return
			}
		}
	}
}

// preferred reports whether a record had its turn in the lane of the last hours, or came too late for it and waits for that of the next run.
func (in *intake) preferred(r metering.Record, h metering.Hour) bool {
	q := lookup{r.License, h}
	return in.read[q] || in.part[q][r.SortKey]
}

// hours are all other records, oldest hour first. With capped they count towards the run's maximum.
func (in *intake) hours(ctx context.Context, hours []metering.Hour, capped bool) iter.Seq2[metering.Record, error] {
	return func(yield func(metering.Record, error) bool) {
		full := func() bool { return capped && in.taken >= in.maxRecords() }
		for _, h := range hours {
			if !in.hour(ctx, h, full, yield) {
				return
			}
		}
	}
}

// hour yields one hour's records, and reports whether the lane goes on. Legacy records come last: only then is it known whether
// the same sale also goes by license ARN. An hour of which something is sent is read to its end, full or not: a later run would
// no longer see the twin of what was sent in this one.
func (in *intake) hour(ctx context.Context, h metering.Hour, full func() bool, yield func(metering.Record, error) bool) bool {
	done := func() bool { return full() && !in.arns[h] }
	if done() {
		return true
	}
	var held []metering.Record
	var beyond []twinOnly
	size := 0
	for r, err := range in.Records.PendingRecords(ctx, h, "") {
		if err != nil { // the next hour may well be readable
			return yield(r, fmt.Errorf("read pending records of %v: %w", h, err))
		}
		if done() {
			break
		}
		if metering.LegacyLicense(r.License) {
			if size += r.WireSize(); size <= heldBytes {
				held = append(held, r)
			} else {
				beyond = append(beyond, newTwinOnly(r, h, in.Now()))
			}
			continue
		}
		if in.preferred(r, h) {
			in.claim(r, h, in.fault(r, h)) // it may have come to the index since, and its twin must not go before it
			continue
		}
		if !full() && !in.take(ctx, r, h, yield) {
			return false
		}
	}
	slices.SortStableFunc(held, doubtFirst)
	for _, r := range held {
		twin := in.twinOf(sale{r.Account, r.Dimension, h}, r.Usage().Identity()) != ""
		if (twin || !full()) && !in.take(ctx, r, h, yield) {
			return false
		}
	}
	for _, t := range beyond {
		in.endTwin(ctx, t)
	}
	return true
}

// doubtFirst puts the records that were sent before in front: they may be billed, so their identity is theirs.
func doubtFirst(a, b metering.Record) int {
	switch {
	case a.SentQuantity.Whole == b.SentQuantity.Whole:
		return 0
	case a.SentQuantity.Whole:
		return -1
	}
	return 1
}

// twinOnly is what is kept of a legacy record that waits for the next run because the hour holds too many: enough to see
// whether its sale has gone out in this one, which the next run could no longer see.
type twinOnly struct {
	sale     sale
	identity metering.Identity
	units    int64
	doubt    bool
	finish   metering.Finish
}

func newTwinOnly(r metering.Record, h metering.Hour, now time.Time) twinOnly {
	units, _ := r.Quantity.Count()
	return twinOnly{
		sale: sale{r.Account, r.Dimension, h}, identity: r.Usage().Identity(), units: units, doubt: r.SentQuantity.Whole,
		finish: metering.FinishRejected(r, "", now),
	}
}

func (in *intake) endTwin(ctx context.Context, t twinOnly) {
	if reason := in.twinOf(t.sale, t.identity); reason != "" && !t.doubt {
		t.finish.Reason = string(reason)
		in.reject(ctx, t.finish, t.units)
	}
}

// reject ends a record that may not be sent.
func (in *intake) reject(ctx context.Context, f metering.Finish, units int64) {
	in.Metrics.Emit(metering.Measure{Metric: metering.MetricRowRejected, Items: 1, Units: units, Cause: f.Reason})
	in.rejected++
	in.finish(ctx, f)
}

// take yields a record that may be sent, and reports whether the lane goes on.
func (in *intake) take(ctx context.Context, r metering.Record, h metering.Hour, yield func(metering.Record, error) bool) bool {
	if !in.admit(ctx, r, h) {
		return true
	}
	in.taken++
	return yield(r, nil)
}

func (in *intake) maxRecords() int {
	if in.MaxRecords == 0 {
		return DefaultMaxRecords
	}
	return in.MaxRecords
}

// admit reports whether a record may be sent, and ends it where it may not.
func (in *intake) admit(ctx context.Context, r metering.Record, bucket metering.Hour) bool {
	now := in.Now()
	reason := in.fault(r, bucket)
	if !metering.LegacyLicense(r.License) {
		in.claim(r, bucket, reason)
	}
	if f, refused, billed := metering.FinishBilled(r, now); billed {
		in.measureRefused(refused)
		in.finish(ctx, f)
		return false
	}
	if reason == "" && metering.LegacyLicense(r.License) {
		reason = in.twin(r, bucket)
	}
	if reason != "" && r.SentQuantity.Whole {
		return false // it may be billed: not rejected, and in doubt when its hour ends
	}
	if reason != "" {
		units, _ := r.Quantity.Count()
		in.reject(ctx, metering.FinishRejected(r, string(reason), now), units)
		return false
	}
	return in.Rules.Billable(bucket, now)
}

// fault is what is wrong with a record by itself.
func (in *intake) fault(r metering.Record, bucket metering.Hour) metering.Reason {
	reason := r.Validate()
	if reason == "" && r.Pending != bucket.String() {
		reason = metering.SortKeyMismatch
	}
	return reason
}

// twin refuses a legacy record whose sale another record of this run already asks for.
func (in *intake) twin(r metering.Record, hour metering.Hour) metering.Reason {
	id := r.Usage().Identity()
	reason := in.twinOf(sale{r.Account, r.Dimension, hour}, id)
	in.sent[id] = in.sent[id] || reason == ""
	return reason
}

// claim takes a sale for its license ARN: the record goes out, or is billed or perhaps billed already, whatever becomes of it here.
func (in *intake) claim(r metering.Record, hour metering.Hour, fault metering.Reason) {
	if fault == "" || r.SentQuantity.Whole || r.Status == metering.Success {
		in.arn[sale{r.Account, r.Dimension, hour}], in.arns[hour] = true, true
	}
}

// twinOf is the reason for which a legacy record may not go out beside what this run has let through.
func (in *intake) twinOf(s sale, id metering.Identity) metering.Reason {
	switch {
	case in.arn[s]:
		return metering.MixedIdentitySchemes
	case in.sent[id]:
		return metering.DuplicateIdentity
	}
	return ""
}

// measureRefused counts what a record holds beyond what was billed.
func (in *intake) measureRefused(units int64) {
	var sum measures
	sum.add(refusedMeasure(units))
	sum.emit(in.Metrics)
}

// finish ends a record. One that cannot be ended fails the run when all others have had their turn.
func (in *intake) finish(ctx context.Context, f metering.Finish) {
	if _, err := in.Records.FinishRecord(ctx, f); err != nil {
		if in.unended++; in.trouble == nil {
			in.trouble = err
		}
	}
}

func (in *intake) err() error {
	if in.trouble == nil {
		return nil
	}
	return fmt.Errorf("finish records: %d still wait, the first: %w", in.unended, in.trouble)
}
