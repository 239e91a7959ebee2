package pipeline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/telemetry"
)

// forbidden is a Marketplace that must not be called.
type forbidden struct{ t *testing.T }

func (f forbidden) Send(context.Context, []iter.Seq2[metering.Record, error], pipeline.Desk) (metering.SendReport, error) {
	f.t.Error("the Marketplace was called")
	return metering.SendReport{}, nil
}

// TestDryRunNeverCalls: everything but the call. A malformed record is refused, a record that a live run has sent is left to learn its
// fate, and no identifier stands in the log.
func TestDryRunNeverCalls(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	plain, sent := metering.NewRecord(groupOf(licenseOne, "plain", hour), 4), metering.NewRecord(groupOf(licenseOne, "sent", hour), 5)
	sent.SentQuantity, sent.SentSecond = metering.Units(5), "2026-03-10T14:00:00"
	bad := altered(metering.NewRecord(groupOf(licenseOne, "bad", hour), 6), metering.Item{metering.AttrHour: nil})
	b.putRecords(plain, sent, bad)
	var log bytes.Buffer
	s := b.submitter(forbidden{t})
	s.DryRun, s.Log = true, slog.New(slog.NewTextHandler(&log, nil))
	got, err := s.Run(b.ctx)
	if err != nil || got.DryRun != 1 || got.Rejected != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	for r, want := range map[*metering.Record]metering.Status{&plain: metering.DryRunSubmitted, &sent: "", &bad: metering.RejectedClientSide} {
		if stored := b.record(*r); stored.Status != want || stored.TTL.Whole {
			t.Errorf("%s: %+v", r.Dimension, stored)
		}
	}
	if n := b.metrics.Of(metering.MetricDryRun); n.Items != 1 || n.Units != 4 {
		t.Errorf("metric %+v", n)
	}
	if text := log.String(); !strings.Contains(text, "dry run") || strings.Contains(text, licenseOne) || strings.Contains(text, buyer) {
		t.Errorf("log: %s", text)
	}
}

// TestPausedTouchesNothing: nothing is read, refused or sent, and each run says so by one metric. A run that is not paused says no such thing.
func TestPausedTouchesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.putRecords(altered(metering.NewRecord(groupOf(licenseOne, apiCalls, hour), 6), metering.Item{metering.AttrHour: nil}))
	before := b.store.Stats()
	s := b.submitter(forbidden{t})
	s.Paused = true
	for run := int64(1); run <= 2; run++ {
		if got, err := s.Run(b.ctx); err != nil || got != (pipeline.Submission{Paused: true}) {
			t.Errorf("%+v, %v", got, err)
		}
		if n := b.metrics.Of(metering.MetricSubmissionPaused); n != (telemetry.Count{Items: run}) {
			t.Errorf("after run %d: %+v", run, n)
		}
	}
	if after := b.store.Stats(); after != before {
		t.Errorf("asked of the store: %+v", after)
	}
	if diff := cmp.Diff([]metering.Metric{metering.MetricSubmissionPaused}, b.metrics.Metrics()); diff != "" {
		t.Error(diff)
	}
	s.Paused, s.DryRun = false, true
	if got, err := s.Run(b.ctx); err != nil || got.Paused || got.Rejected != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if n := b.metrics.Of(metering.MetricSubmissionPaused).Items; n != 2 {
		t.Errorf("a run that is not paused: %d after 2", n)
	}
}

// TestVerdictsOfExpiry: how each kind of waiting record ends when its bucket can no longer be billed, and what counts it.
func TestVerdictsOfExpiry(t *testing.T) {
	t.Parallel()
	dead := metering.HourOf(noon) - 26
	plain := metering.NewRecord(groupOf(licenseOne, apiCalls, dead), 7)
	with := func(change func(*metering.Record)) metering.Record {
		r := plain
		change(&r)
		return r
	}
	sent := func(r *metering.Record) { r.SentQuantity, r.SentSecond = metering.Units(7), dead.String()+":00:00" }
	for name, c := range map[string]struct {
		record metering.Record
		status metering.Status
		reason string
		metric metering.Metric
		units  int64
		want   pipeline.Expiry
	}{
		"never sent": {plain, metering.SubmissionExpired, "", metering.MetricSubmissionExpired, 7, pipeline.Expiry{Expired: 1}},
		"sent, no answer": {with(sent), metering.SubmissionExpired, metering.VerdictUnknown, metering.MetricSubmissionExpired, 7,
			pipeline.Expiry{Expired: 1, InDoubt: 1}},
		"no quantity": {with(func(r *metering.Record) { r.Quantity = metering.Quantity{} }), metering.SubmissionExpired, "", metering.MetricSubmissionExpired, 0,
			pipeline.Expiry{Expired: 1}},
		"key without an hour": {with(func(r *metering.Record) { r.SortKey = "x" }), metering.RejectedClientSide, string(metering.MalformedSortKey), metering.MetricRowRejected, 7,
			pipeline.Expiry{Rejected: 1}},
		"marker of a dead hour, key alive": {with(func(r *metering.Record) { r.SortKey = groupOf(licenseOne, apiCalls, hour).RecordKey() }),
			metering.RejectedClientSide, string(metering.SortKeyMismatch), metering.MetricRowRejected, 7, pipeline.Expiry{Rejected: 1}},
		"billed, then changed": {with(func(r *metering.Record) { sent(r); r.Status, r.Quantity = metering.Success, metering.Units(10) }),
			metering.Success, "", metering.MetricDuplicate, 3, pipeline.Expiry{}},
		"key without an hour, sent": {with(func(r *metering.Record) { sent(r); r.SortKey = "x" }), metering.SubmissionExpired, metering.VerdictUnknown,
			metering.MetricSubmissionExpired, 7, pipeline.Expiry{Expired: 1, InDoubt: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.putRecords(c.record)
			e := &pipeline.Expirer{Records: b.store, Metrics: b.metrics, Now: b.clock}
			got, err := e.Run(b.ctx)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if stored := b.record(c.record); stored.Status != c.status || stored.StatusReason != c.reason || stored.Pending != "" || stored.TTL.Whole {
				t.Errorf("record %+v", stored)
			}
			if n := b.metrics.Of(c.metric); n.Items != 1 || n.Units != c.units {
				t.Errorf("metric %s: %+v", c.metric, n)
			}
			if again, err := e.Run(b.ctx); err != nil || again != (pipeline.Expiry{}) {
				t.Errorf("a second run: %+v, %v", again, err)
			}
		})
	}
}

// TestExpiryWaitsTenMinutes: an hour that can no longer be billed is left alone until every call that began in time has ended.
func TestExpiryWaitsTenMinutes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.putRecords(metering.NewRecord(groupOf(licenseOne, apiCalls, hour), 7))
	e := &pipeline.Expirer{Records: b.store, Metrics: b.metrics, Now: b.clock}
	b.now = hour.Start().Add(24*time.Hour + 10*time.Minute - time.Second)
	if got, err := e.Run(b.ctx); err != nil || got.Expired != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	b.now = b.now.Add(time.Second)
	if got, err := e.Run(b.ctx); err != nil || got.Expired != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestOneRecordNeverHoldsUpExpiry: a record that cannot be written fails the run at its end, not the others.
func TestOneRecordNeverHoldsUpExpiry(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dead := metering.HourOf(noon) - 26
	for _, d := range []string{"a", "b", "c"} {
		b.putRecords(metering.NewRecord(groupOf(licenseOne, d, dead), 1))
	}
	e := &pipeline.Expirer{Records: refusingFinish{b.store, "a"}, Metrics: b.metrics, Now: b.clock}
	if got, err := e.Run(b.ctx); err == nil || got.Expired != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}

// stuckRecords end nothing, and count the tries.
type stuckRecords struct {
	pipeline.Records
	tries atomic.Int64
	then  func(tries int64)
}

func (r *stuckRecords) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	n := r.tries.Add(1)
	if r.then == nil {
		return metering.Outcome[metering.Record]{}, fmt.Errorf("%w: %s", errRefused, f.SortKey)
	}
	if r.then(n); ctx.Err() != nil {
		return metering.Outcome[metering.Record]{}, ctx.Err()
	}
	return r.Records.FinishRecord(ctx, f)
}

// F44: a dry run whose writes are refused tries every record and tells of a few; one that runs out of time leaves the rest to the next
// run, and that is no error.
func TestADryRunThatCannotEndItsRecords(t *testing.T) {
	t.Parallel()
	const count = 600
	fill := func(t *testing.T) *bench {
		b := newBench(t)
		for i := range count {
			b.putRecords(metering.NewRecord(groupOf(licenseOne, fmt.Sprintf("d-%03d", i), hour), 1))
		}
		return b
	}
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		b := fill(t)
		stuck := &stuckRecords{Records: b.store}
		s := b.submitter(nil)
		s.DryRun, s.Records = true, stuck
		done, err := s.Run(b.ctx)
		if lines := strings.Count(fmt.Sprint(err), "\n") + 1; !errors.Is(err, errRefused) || lines > 10 || done.DryRun != 0 || stuck.tries.Load() != count {
			t.Errorf("%d done after %d tries, %d lines: %v", done.DryRun, stuck.tries.Load(), lines, err)
		}
	})
	t.Run("out of time", func(t *testing.T) {
		t.Parallel()
		b := fill(t)
		ctx, cancel := context.WithCancel(b.ctx)
		s := b.submitter(nil)
		s.DryRun, s.Records = true, &stuckRecords{Records: b.store, then: func(tries int64) {
			if tries == 300 {
				cancel()
			}
		}}
		done, err := s.Run(ctx)
		if err != nil || done.DryRun < 200 || done.DryRun >= count {
			t.Errorf("%d done: %v", done.DryRun, err)
		}
		s.Records = b.store
		rest, err := s.Run(b.ctx)
		if err != nil || done.DryRun+rest.DryRun != count {
			t.Errorf("%d and then %d, want %d together: %v", done.DryRun, rest.DryRun, count, err)
		}
	})
}
