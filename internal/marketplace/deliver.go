package marketplace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// errThrottled is the end of a run's patience.
var errThrottled = errors.New("every call was throttled")

// batch is what was packed for one call, and what becomes of it until each record has its verdict or is left.
type batch struct {
	records []metering.Record
	state   map[recordKey]state
	// suspected batches are the last of a run: their records share something that was refused before.
	suspected bool
	started   func() // called when the first call starts
	underway  bool   // it has
}

type recordKey struct{ license, sortKey string }

func keyOf(r metering.Record) recordKey { return recordKey{r.License, r.SortKey} }

// state is what a run knows of a record beyond its attributes.
type state struct {
	doubt    bool // it came marked as sent: an earlier run's call may have been billed without an answer
	prepared bool // the desk has marked it in this run
}

// parcel is a record with its state.
type parcel struct {
	metering.Record
	state
}

func newBatch(records []metering.Record) *batch {
	b := &batch{records: records, state: make(map[recordKey]state, len(records))}
	for _, r := range records {
		b.state[keyOf(r)] = state{doubt: r.SentQuantity.Whole}
	}
	return b
}

// attempt says what has been tried before with the records of a call: each is tried once.
type attempt uint8

const (
	again attempt = 1 << iota // they were left unprocessed
	later                     // the one record was refused for its time, and now has a later second
)

// prepare has the desk mark the records that it has not seen yet, and returns what is to be sent.
func (r *run) prepare(b *batch) []metering.Record {
	if r.over() {
		r.leave(len(b.records))
		return nil
	}
	var ready, fresh []metering.Record
	for _, record := range b.records {
		switch {
		case b.state[keyOf(record)].prepared:
			ready = append(ready, record)
		case !b.suspected && r.divert(parcel{record, b.state[keyOf(record)]}): // suspected since it was packed
		default:
			fresh = append(fresh, record)
		}
	}
	if len(fresh) == 0 {
		return ready
	}
	marked, err := r.desk.Prepare(r.ctx, fresh)
	if err != nil {
		r.problem(fmt.Errorf("mark records as sent: %w", err))
		r.leave(len(fresh) - len(marked))
	}
	for _, m := range marked {
		s := b.state[keyOf(m.Record)]
		s.prepared, s.doubt = true, s.doubt || m.InDoubt
		b.state[keyOf(m.Record)] = s
		ready = append(ready, m.Record)
	}
	return ready
}

// deliver sends records in one call and sees to what becomes of them: verdicts are settled, the unprocessed sent once more, a
// refused call taken apart.
func (r *run) deliver(b *batch, records []metering.Record, tried attempt) {
	records, answer, err := r.call(b, records)
	if len(records) == 0 {
		return
	}
	switch kind, exception := Classify(err); kind {
	case Answered:
		r.read(b, records, answer, tried)
	case RecordFault:
		r.isolate(b, records, exception, tried)
	case Throttled:
		r.fail(fmt.Errorf("%w for %v: %w (the limit of 10 calls a second is the account's in this Region: lower MeteringCallsPerSecond where several products share it)",
			errThrottled, r.settings.ThrottlePatience, err))
	default:
		r.fail(err)
	}
}

// call sends the records that are still to be billed, over and over while the service throttles. It returns those that it sent;
// none when the run is over or nothing is left to send.
func (r *run) call(b *batch, records []metering.Record) ([]metering.Record, metering.Answer, error) {
	for len(records) > 0 {
		if !r.pace(b) {
			r.leave(len(records))
			return nil, metering.Answer{}, nil
		}
		b.underway = true
		b.started()
		if records = r.desk.Sendable(records); len(records) == 0 {
			break
		}
		started := r.settings.Now()
		// A call under way is never cut short: it may be billed already, and its timeout is short.
		answer, err := r.api.Call(context.WithoutCancel(r.ctx), callOf(records))
		if kind, _ := Classify(err); !r.heed(kind, started, err) {
			return records, answer, err
		}
	}
	return nil, metering.Answer{}, nil
}

func callOf(records []metering.Record) metering.Call {
	c := metering.Call{Legacy: metering.LegacyLicense(records[0].License), Records: make([]metering.UsageRecord, len(records))}
	for i, record := range records {
		c.Records[i] = record.Usage()
	}
	return c
}

// pace waits until a call may start. It reports false if the run is over by then.
//
// Of the first calls of all batches, one at a time queues with the repeats and the parts of refused calls, so that these get
// every second turn at least: the sooner a suspect is known, the fewer calls it spoils.
func (r *run) pace(b *batch) bool {
	if !b.underway {
		if !r.gate.Acquire(r.open) {
			return false
		}
		defer r.gate.Release()
	}
	if !r.turn.Acquire(r.open) {
		return false
	}
	defer r.turn.Release()
	wait := r.pacer.reserve(r.settings.Now())
	for !r.over() {
		if wait > 0 && !r.pause(wait) {
			r.stop() // the pace leaves no room for this call before the time is up, nor for any other
			return false
		}
		if wait = r.pacer.start(r.settings.Now()); wait == 0 {
			return true
		}
	}
	return false
}

// heed adapts the pace to how a call went, and reports whether it is to be repeated.
func (r *run) heed(kind Kind, started time.Time, err error) (repeat bool) {
	now := r.settings.Now()
	switch kind {
	case Throttled:
		r.pacer.throttled(started, now)
	case Answered, RecordFault:
		r.pacer.succeeded(now)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Calls++
	if kind != Throttled {
		r.throttledSince = time.Time{}
		return false
	}
	r.report.Throttled++
	if r.throttledSince.IsZero() {
		r.throttledSince = now
	}
	return now.Sub(r.throttledSince) < r.settings.ThrottlePatience
}

// read settles what an answer says. Records that it leaves unprocessed are sent once more; those that it does not mention stay
// as they are.
func (r *run) read(b *batch, records []metering.Record, a metering.Answer, tried attempt) {
	verdicts, left, unmatched := metering.Match(records, a)
	r.count(func(report *metering.SendReport) { report.Unmatched += unmatched })
	r.settle(r.certain(b, verdicts))
	switch {
	case len(left) == 0:
	case tried&again != 0:
		r.count(func(report *metering.SendReport) {
			report.Unprocessed += len(left)
			for _, record := range left {
				report.UnprocessedUnits += record.Usage().Quantity
			}
		})
	case !r.pause(r.settings.UnprocessedPause):
		r.leave(len(left))
	default:
		r.deliver(b, left, tried|again)
	}
}

// certain are the verdicts that end their records. A refusal that may be about the resend alone (a buyer who has left meanwhile)
// does not end a record that an earlier, unanswered call may have billed; Success does, and so does DuplicateRecord where the
// resend was identical: it would have been a Success. A record that has changed since is sent with its first quantity and
// without its allocations, which no longer add up to it.
func (r *run) certain(b *batch, verdicts []metering.Verdict) []metering.Verdict {
	return slices.DeleteFunc(verdicts, func(v metering.Verdict) bool {
		identical := v.Record.Quantity == metering.Units(v.Sent.Quantity) || len(v.Record.Allocations) == 0
		doubtful := b.state[keyOf(v.Record)].doubt &&
			(v.Status == metering.CustomerNotSubscribed || v.Status == metering.DuplicateRecord && !identical)
		if doubtful {
			r.doubt(v.Record)
		}
		return doubtful
	})
}

// doubt counts a record that is left as it is, because it may be billed.
func (r *run) doubt(record metering.Record) {
	r.count(func(report *metering.SendReport) {
		report.InDoubt++
		report.InDoubtUnits += record.Usage().Quantity
	})
}

// settle hands verdicts over. They are written whatever has become of the run meanwhile: a lost verdict is money without a name.
func (r *run) settle(verdicts []metering.Verdict) {
	if len(verdicts) == 0 {
		return
	}
	r.count(func(report *metering.SendReport) { report.Settled += len(verdicts) })
	if err := r.desk.Settle(context.WithoutCancel(r.ctx), verdicts); err != nil {
		r.problem(fmt.Errorf("write verdicts: %w", err))
	}
}

// isolate takes a refused call apart until the record at fault stands alone: by halves, or, where all are under suspicion, one
// by one.
func (r *run) isolate(b *batch, records []metering.Record, exception string, tried attempt) {
	if len(records) == 1 {
		r.refuse(b, records[0], exception, tried)
		return
	}
	size := (len(records) + 1) / 2
	if b.suspected {
		size = 1
	}
	for len(records) > 0 {
		part := records[:min(size, len(records))]
		records = records[len(part):]
		r.deliver(b, r.unsuspected(b, part), tried)
	}
}

// refuse ends a record that was refused alone.
func (r *run) refuse(b *batch, record metering.Record, exception string, tried attempt) {
	if tried&later == 0 && (exception == metering.ExceptionLicense || exception == metering.ExceptionTimestamp) {
		moved, ok, err := r.desk.Later(r.ctx, record)
		if err != nil {
			r.problem(fmt.Errorf("look for a later second of %s: %w", record.SortKey, err))
			r.leave(1)
			return
		}
		if ok {
			r.deliver(b, []metering.Record{moved}, tried|later)
			return
		}
	}
	r.suspect(record, exception)
	if b.state[keyOf(record)].doubt {
		r.doubt(record)
		return
	}
	r.settle([]metering.Verdict{{Record: record, Sent: record.Usage(), Status: metering.RejectedClientSide, Reason: exception}})
}
