package marketplace

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/concurrency"
	"github.com/awsmp/metering/internal/faults"
	"github.com/awsmp/metering/internal/metering"
)

const (
	defaultCallsPerSecond   = 10 // AWS Marketplace seller guide, metering service quotas: per account and Region
	defaultInFlight         = 32
	defaultLimit            = 270 * time.Second
	defaultThrottlePatience = 30 * time.Second
	defaultUnprocessedPause = 2 * time.Second

	// maxAhead bounds the calls that are prepared and wait for their start: what is marked as sent and then not reached
	// in time looks like a call whose answer was lost.
	maxAhead = 4

	// writeBack is what is left for the verdicts of the last call: 25 conditional writes at once, each repeated where the
	// store throttles.
	writeBack = 10 * time.Second
	// reserve is what the last call may take until its verdicts are stored.
	reserve = callTimeout + writeBack
)

// Settings are the limits of a Sender; a zero is the default named here.
type Settings struct {
	CallsPerSecond float64 // 10: the service's limit for an account in a Region
	InFlight       int     // 32: calls at once, from the marking of their records to the writing of their verdicts
	// Limit is how long after its start a run begins calls: 270 s. Those under way may take another 15 s and their
	// verdicts' writes. Where the context ends sooner than that, calls stop 25 s before it does.
	Limit            time.Duration
	ThrottlePatience time.Duration // 30 s: how long a run goes on while every call is throttled
	UnprocessedPause time.Duration // 2 s: before records that the service left unprocessed are sent again

	// Concurrency runs the calls; nil means goroutines.
	Concurrency concurrency.Runner
	Now         func() time.Time
	Sleep       func(context.Context, time.Duration) error // returns early with the context's error
}

func (s Settings) withDefaults() Settings {
	setDefault(&s.CallsPerSecond, defaultCallsPerSecond)
	setDefault(&s.InFlight, defaultInFlight)
	setDefault(&s.Limit, defaultLimit)
	setDefault(&s.ThrottlePatience, defaultThrottlePatience)
	setDefault(&s.UnprocessedPause, defaultUnprocessedPause)
	if s.Now == nil {
		s.Now = time.Now
	}
	if s.Sleep == nil {
		s.Sleep = awsapi.Sleep
	}
	return s
}

func setDefault[T float64 | int | time.Duration](field *T, value T) {
	if *field <= 0 {
		*field = value
	}
}

// Desk is the submitter's side of a run. Its methods are called from several goroutines.
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

// Sender sends records to the service. Its pace holds over all its runs, also those at the same time.
type Sender struct {
	api      API
	settings Settings
	pacer    *pacer
}

// NewSender returns a Sender that calls api within the settings.
func NewSender(api API, s Settings) *Sender {
	s = s.withDefaults()
	return &Sender{api: api, settings: s, pacer: newPacer(s.CallsPerSecond)}
}

// Send sends the records of the lanes, lane after lane, and hands every verdict to the desk as soon as it is known. Records of
// two lanes, or of two identity schemes, never share a call.
//
// It returns an error when the service failed for no record's fault, when it throttled every call for too long, when a lane or
// the desk failed, or when ctx ended. In the first two cases and the last no further call starts; those under way are waited
// for and settled. Running out of time, by Settings.Limit or by the deadline of ctx, is no error, unless ctx leaves no time for
// even one call. Whatever has no verdict is left as it is.
func (s *Sender) Send(ctx context.Context, lanes []iter.Seq2[metering.Record, error], desk Desk) (metering.SendReport, error) {
	limit := s.limit(ctx)
	if limit <= 0 {
		return metering.SendReport{}, fmt.Errorf(
			"start calls: there is less time than the %v that a call and the writing of its verdicts may take (give the run more: 300s is usual)", reserve)
	}
	r := newRun(ctx, s, limit, desk)
	defer r.stop()
	for _, lane := range lanes {
		if r.over() {
			break
		}
		r.drain(lane)
	}
	r.calls.Wait() // they may still find suspects
	r.sendSuspects()
	r.calls.Wait()
	return r.result(ctx)
}

// limit is how long calls may start from now on.
func (s *Sender) limit(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return s.settings.Limit
	}
	// A context ends by the machine's clock, which need not be the one of the settings.
	return min(s.settings.Limit, time.Until(end)-reserve)
}

// run is one Send.
type run struct {
	*Sender
	ctx      context.Context // the caller's
	open     context.Context // ends as soon as no call may start any more
	stop     context.CancelFunc
	deadline time.Time
	desk     Desk

	calls    concurrency.Group
	inFlight concurrency.Semaphore // slots: from the preparation of a batch until all its verdicts are settled
	ahead    concurrency.Semaphore // slots: from the preparation of a batch until its first call starts
	gate     concurrency.Semaphore // held by the one first call of a batch that queues for its turn
	turn     concurrency.Semaphore // held by the one call that waits for the pace; the others queue for it in order

	mu             sync.Mutex
	report         metering.SendReport
	fatal          error
	problems       faults.List
	throttledSince time.Time // zero after any call that was not throttled
	suspects       suspects
}

func newRun(ctx context.Context, s *Sender, limit time.Duration, desk Desk) *run {
	open, stop := context.WithCancel(ctx)
	together := concurrency.Or(s.settings.Concurrency)
	return &run{
		Sender: s, ctx: ctx, open: open, stop: stop, desk: desk,
		deadline: s.settings.Now().Add(limit),
		calls:    together.Group(0),
		inFlight: together.Semaphore(s.settings.InFlight),
		ahead:    together.Semaphore(maxAhead),
		gate:     together.Semaphore(1),
		turn:     together.Semaphore(1),
		suspects: newSuspects(),
	}
}

// drain reads one lane as fast as its records can be sent.
func (r *run) drain(lane iter.Seq2[metering.Record, error]) {
	var packers [2]metering.Packer
	for record, err := range lane {
		if err != nil {
			r.problem(fmt.Errorf("read pending records: %w", err))
			if r.over() {
				break
			}
			continue // a part of the lane that cannot be read keeps the rest from nothing
		}
		if r.over() {
			r.leave(1)
			break
		}
		if r.divert(parcel{record, state{doubt: record.SentQuantity.Whole}}) {
			continue
		}
		r.dispatch(newBatch(packerFor(&packers, record).Add(record)))
	}
	for i := range packers {
		r.dispatch(newBatch(packers[i].Flush()))
	}
}

// packerFor is the packer of the record's identity scheme: no call holds records of both (case 59).
func packerFor(packers *[2]metering.Packer, record metering.Record) *metering.Packer {
	if metering.LegacyLicense(record.License) {
		return &packers[1]
	}
	return &packers[0]
}

// dispatch starts the sending of a batch as soon as there is room for it.
func (r *run) dispatch(b *batch) {
	if len(b.records) == 0 {
		return
	}
	until := context.WithoutCancel(r.ctx) // a batch is never given up here: what is left of it is counted
	r.inFlight.Acquire(until)
	r.ahead.Acquire(until)
	r.calls.Go(func() {
		started := sync.OnceFunc(r.ahead.Release)
		defer func() { started(); r.inFlight.Release() }()
		b.started = started
		r.deliver(b, r.prepare(b), 0)
	})
}

// over reports whether no call may start any more, and closes the run once its time is up.
func (r *run) over() bool {
	if !r.settings.Now().Before(r.deadline) {
		r.stop()
	}
	return r.open.Err() != nil
}

// pause waits for d, unless the run's time is up by then, and reports whether calls may start after it.
func (r *run) pause(d time.Duration) bool {
	return r.settings.Now().Add(d).Before(r.deadline) && r.settings.Sleep(r.open, d) == nil && !r.over()
}

// fail ends the run: err is the service's, or the network's, and lies with no record.
func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.fatal == nil {
		r.fatal = err
	}
	r.stop()
}

// problem notes an error that the other records do not suffer from.
func (r *run) problem(err error) { r.problems.Add(err) }

// count changes the report.
func (r *run) count(change func(*metering.SendReport)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.report)
}

func (r *run) leave(n int) {
	r.count(func(report *metering.SendReport) { report.Left += n })
}

func (r *run) result(ctx context.Context) (metering.SendReport, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.report, errors.Join(r.fatal, ctx.Err(), r.problems.Err())
}
