package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// productCode is where this product's records under a customer identifier stand.
const productCode = "product-1"

func (b *bench) retrier() *pipeline.Retrier {
	return &pipeline.Retrier{Records: b.store, ProductCode: productCode, Now: b.clock}
}

func (b *bench) retry(what pipeline.Retry) pipeline.Retried {
	b.t.Helper()
	if what.License == "" {
		what.License = licenseOne
	}
	done, err := b.retrier().Run(b.ctx, what)
	if err != nil {
		b.t.Error(err)
	}
	return done
}

// endedAs is a record of the group that was sent and ended so.
func endedAs(g metering.Group, quantity int64, status metering.Status, reason string) metering.Record {
	r := metering.NewRecord(g, quantity)
	r.SentQuantity, r.SentSecond = metering.Units(quantity), g.Hour.Second(0).String()
	r.Pending, r.Status, r.StatusReason = "", status, reason
	return r
}

func notSubscribed(g metering.Group, quantity int64) metering.Record {
	return endedAs(g, quantity, metering.CustomerNotSubscribed, "")
}

func (b *bench) reopened(records ...metering.Record) (n int) {
	b.t.Helper()
	for _, r := range records {
		if b.record(r).Pending != "" {
			n++
		}
	}
	return n
}

// TestRetryReopensWhatIsAskedFor: a license has records of every end, in two dimensions and accounts and three hours.
func TestRetryReopensWhatIsAskedFor(t *testing.T) {
	t.Parallel()
	other := groupOf(licenseOne, "storage", hour)
	other.Account = "444455556666"
	refused, earlier, storage := notSubscribed(groupOf(licenseOne, apiCalls, hour), 1), notSubscribed(groupOf(licenseOne, apiCalls, hour-5), 2), notSubscribed(other, 4)
	undefined := endedAs(groupOf(licenseOne, "storage", hour), 8, metering.RejectedClientSide, "InvalidUsageDimensionException")
	reopened := []metering.Record{refused, earlier, storage, undefined}
	left := []metering.Record{
		notSubscribed(groupOf(licenseTwo, apiCalls, hour), 100),
		notSubscribed(groupOf(licenseOne, apiCalls, hour-24), 16),
		endedAs(groupOf(licenseOne, apiCalls, hour-1), 32, metering.Success, ""),
		endedAs(groupOf(licenseOne, apiCalls, hour-2), 64, metering.RejectedClientSide, string(metering.MixedIdentitySchemes)),
		endedAs(groupOf(licenseOne, apiCalls, hour-3), 128, metering.RejectedClientSide, string(metering.DuplicateIdentity)),
	}
	twin, billed := metering.ObstacleTwin, metering.ObstacleBilled
	all := []pipeline.Skipped{
		{Cause: twin, Why: twin.Why(), Records: 2, Units: 192}, {Cause: billed, Why: billed.Why(), Records: 1, Units: 32},
	}
	over := metering.ObstacleOver
	h, yesterday := hour, hour-24
	for _, tt := range []struct {
		name    string
		what    pipeline.Retry
		units   int64
		records int
		skipped []pipeline.Skipped
		older   int
	}{
		{"all", pipeline.Retry{}, 15, 4, all, 1},
		{"a dimension", pipeline.Retry{Dimension: "storage"}, 12, 2, nil, 0},
		{"an account", pipeline.Retry{Account: "444455556666"}, 4, 1, nil, 0},
		{"an hour", pipeline.Retry{Hour: &h}, 13, 3, nil, 0},
		{"an hour of a dimension of an account", pipeline.Retry{Hour: &h, Dimension: "storage", Account: buyer}, 8, 1, nil, 0},
		{"an hour that is over", pipeline.Retry{Hour: &yesterday}, 0, 0, []pipeline.Skipped{{Cause: over, Why: over.Why(), Records: 1, Units: 16}}, 0},
		{"nothing", pipeline.Retry{Dimension: "Storage"}, 0, 0, nil, 0},
		{"nothing of an hour", pipeline.Retry{Hour: &h, Dimension: "Storage", Account: buyer}, 0, 0, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.putRecords(reopened...)
			b.putRecords(left...)
			dry := tt.what
			dry.DryRun = true
			looked := b.retry(dry)
			if n := b.reopened(reopened...); n != 0 || !looked.DryRun {
				t.Errorf("a dry run reopened %d", n)
			}
			done := b.retry(tt.what)
			looked.DryRun = false
			if diff := cmp.Diff(looked, done); diff != "" {
				t.Errorf("the dry run said otherwise (-dry +done):\n%s", diff)
			}
			if done.Units != tt.units || len(done.Reopened) != tt.records || b.reopened(reopened...) != tt.records || b.reopened(left...) != 0 {
				t.Errorf("reopened %+v; %d and %d wait", done, b.reopened(reopened...), b.reopened(left...))
			}
			if diff := cmp.Diff(append([]pipeline.Skipped{}, tt.skipped...), done.Skipped); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
			if done.Older != tt.older {
				t.Errorf("%d older, want %d", done.Older, tt.older)
			}
			again := b.retry(tt.what)
			if len(again.Reopened) != 0 || again.Units != 0 {
				t.Errorf("reopened again: %+v", again)
			}
			waiting := 0
			for _, s := range again.Skipped {
				if s.Cause == metering.ObstacleWaiting {
					waiting = s.Records
				}
			}
			if waiting != tt.records {
				t.Errorf("%d wait already, want %d", waiting, tt.records)
			}
		})
	}
}

func TestRetryNamesWhatItReopens(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.putRecords(endedAs(groupOf(licenseOne, apiCalls, hour), 8, metering.RejectedClientSide, "InvalidUsageDimensionException"))
	want := []pipeline.Refusal{{
		Account: buyer, Dimension: apiCalls, Hour: "2026-03-10T14", Units: 8, Status: metering.RejectedClientSide, Reason: "InvalidUsageDimensionException",
		LostAt: time.Date(2026, 3, 11, 14, 0, 0, 0, time.UTC),
	}}
	if diff := cmp.Diff(want, b.retry(pipeline.Retry{}).Reopened); diff != "" {
		t.Errorf("reopened (-want +got):\n%s", diff)
	}
	if _, err := b.retrier().Run(b.ctx, pipeline.Retry{}); err == nil {
		t.Error("no license is needed")
	}
	if _, err := (&pipeline.Retrier{Records: b.store, Now: b.clock}).Run(b.ctx, pipeline.Retry{License: licenseOne}); err == nil {
		t.Error("no product is needed, and sales are billed twice")
	}
}

// shakyRecords breaks what a retry does: after is told of each reopening, before and after it was written, and its error is the answer.
type shakyRecords struct {
	pipeline.RefusedRecords
	before, after func(x metering.Reopen) error
	readError     error // at the end of the license's records
}

func (s shakyRecords) LicenseRecords(ctx context.Context, license string) iter.Seq2[metering.Record, error] {
	return func(yield func(metering.Record, error) bool) {
		for r, err := range s.RefusedRecords.LicenseRecords(ctx, license) {
			if !yield(r, err) {
				return
			}
		}
		if s.readError != nil {
			yield(metering.Record{}, s.readError)
		}
	}
}

func (s shakyRecords) ReopenRecord(ctx context.Context, x metering.Reopen) (out metering.Outcome[metering.Record], err error) {
	if s.before != nil {
		if err := s.before(x); err != nil {
			return out, err
		}
	}
	if out, err = s.RefusedRecords.ReopenRecord(ctx, x); err == nil && s.after != nil {
		err = s.after(x)
	}
	return out, err
}

// many are refused records of one hour.
func many(n int) (list []metering.Record) {
	for i := range n {
		list = append(list, notSubscribed(groupOf(licenseOne, fmt.Sprintf("dim_%03d", i), hour), 1))
	}
	return list
}

// TestRetryGoesOnPastWhatFails: some of a hundred writes fail, some answers are lost, the reading breaks off. The others are done and the
// run fails; once more, and each is reopened, none twice.
func TestRetryGoesOnPastWhatFails(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	records := many(100)
	b.putRecords(records...)
	last := func(x metering.Reopen) byte { return x.SortKey[len(buyer)+len("#dim_00")] }
	r := b.retrier()
	r.Records = shakyRecords{
		RefusedRecords: b.store, readError: errRefused,
		before: func(x metering.Reopen) error {
			if last(x) == '3' {
				return errRefused
			}
			return nil
		},
		after: func(x metering.Reopen) error {
			if last(x) == '7' {
				return errRefused
			}
			return nil
		},
	}
	done, err := r.Run(b.ctx, pipeline.Retry{License: licenseOne})
	if !errors.Is(err, errRefused) || len(done.Reopened) != 80 || done.Units != 80 || b.reopened(records...) != 90 {
		t.Errorf("%d reopened, %d wait: %v", len(done.Reopened), b.reopened(records...), err)
	}
	done = b.retry(pipeline.Retry{})
	if len(done.Reopened) != 10 || b.reopened(records...) != 100 {
		t.Errorf("%d reopened then, %d wait", len(done.Reopened), b.reopened(records...))
	}
	for _, rec := range records {
		if trace, _ := b.record(rec).Other[metering.AttrReopened].([]any); len(trace) != 1 {
			t.Fatalf("%s: reopened %d times", rec.SortKey, len(trace))
		}
	}
}

// TestRetryLeavesWhatChanges: between its reading and its writing a record is billed, mended, deleted, or reopened by another. The last
// was another's, and of the rest nothing is touched.
func TestRetryLeavesWhatChanges(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(b *bench, r metering.Record){
		"billed": func(b *bench, r metering.Record) {
			b.putRecords(altered(r, metering.Item{metering.AttrStatus: "Success"}))
		},
		"mended": func(b *bench, r metering.Record) {
			b.putRecords(metering.NewRecord(groupOf(licenseOne, apiCalls, hour), 6))
		},
		"deleted": func(b *bench, r metering.Record) { _ = b.store.DeleteRecord(b.ctx, r.License, r.SortKey) },
		"reopened": func(b *bench, r metering.Record) {
			b.now = b.now.Add(time.Second)
			if done := b.retry(pipeline.Retry{}); len(done.Reopened) != 1 {
				b.t.Errorf("the other: %+v", done)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			record := notSubscribed(groupOf(licenseOne, apiCalls, hour), 5)
			b.putRecords(record)
			var between metering.Record
			r := b.retrier()
			r.Records = shakyRecords{RefusedRecords: b.store, before: func(metering.Reopen) error {
				change(b, record)
				between = b.record(record)
				return nil
			}}
			done, err := r.Run(b.ctx, pipeline.Retry{License: licenseOne})
			o := metering.ObstacleChanged
			want := pipeline.Retried{Reopened: []pipeline.Refusal{}, Skipped: []pipeline.Skipped{{Cause: o, Why: o.Why(), Records: 1, Units: 5}}}
			if diff := cmp.Diff(want, done); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff(between, b.record(record)); diff != "" {
				t.Errorf("the record was touched:\n%s", diff)
			}
		})
	}
}

// TestRetryKnowsItsOwnWrite: a store's client tries again a write whose answer was lost, and is refused by its own effect.
func TestRetryKnowsItsOwnWrite(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.putRecords(many(3)...)
	r := b.retrier()
	r.Records = shakyRecords{RefusedRecords: b.store, before: func(x metering.Reopen) error {
		_, err := b.store.ReopenRecord(b.ctx, x)
		return err
	}}
	done, err := r.Run(b.ctx, pipeline.Retry{License: licenseOne})
	if err != nil || len(done.Reopened) != 3 || len(done.Skipped) != 0 {
		t.Errorf("%+v, %v", done, err)
	}
}

// TestRetriesAtOnce: several operators ask at the same time. Each record is reopened once.
func TestRetriesAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	records := many(60)
	b.putRecords(records...)
	finished := make(chan error)
	for range 4 {
		go func() {
			_, err := b.retrier().Run(b.ctx, pipeline.Retry{License: licenseOne})
			finished <- err
		}()
	}
	for range 4 {
		if err := <-finished; err != nil {
			t.Error(err)
		}
	}
	for _, rec := range records {
		got := b.record(rec)
		if trace, _ := got.Other[metering.AttrReopened].([]any); len(trace) != 1 || got.Pending == "" {
			t.Fatalf("%s: pending %q, reopened %d times", rec.SortKey, got.Pending, len(trace))
		}
	}
}

// TestRetryStopsWhenAsked: the caller is gone after the first batch. What was reopened by then waits, the rest is as it was.
func TestRetryStopsWhenAsked(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	records := many(100)
	b.putRecords(records...)
	ctx, cancel := context.WithCancel(b.ctx)
	r := b.retrier()
	r.Records = shakyRecords{RefusedRecords: b.store, after: func(metering.Reopen) error {
		cancel()
		return nil
	}}
	done, err := r.Run(ctx, pipeline.Retry{License: licenseOne})
	waiting := b.reopened(records...)
	if !errors.Is(err, context.Canceled) || len(done.Reopened) != waiting || waiting == 0 || waiting == 100 {
		t.Errorf("%d reopened, %d wait: %v", len(done.Reopened), waiting, err)
	}
}
