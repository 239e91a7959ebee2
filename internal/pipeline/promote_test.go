package pipeline_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

func (b *bench) promoter() *pipeline.Retrier {
	r := b.retrier()
	r.Rule = metering.PromoteOf
	return r
}

func dryRunOf(g metering.Group, quantity int64) metering.Record {
	r := metering.NewRecord(g, quantity)
	r.Pending, r.Status = "", metering.DryRunSubmitted
	return r
}

// TestF38PromoteSendsWhatADryRunEnded: of a license's records those that a dry run ended wait again, and are billed by the next submission.
func TestF38PromoteSendsWhatADryRunEnded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dry, earlier := dryRunOf(groupOf(licenseOne, apiCalls, hour), 1), dryRunOf(groupOf(licenseOne, apiCalls, hour-5), 2)
	twin := groupOf(licenseOne, "storage", hour)
	byIdentifier := metering.NewRecord(metering.Group{License: productCode, Account: buyer, Dimension: "storage", Hour: hour}, 16)
	byIdentifier.CustomerIdentifier, byIdentifier.Pending, byIdentifier.Status = "cust-1", "", metering.Success
	inDoubt := endedAs(groupOf(licenseOne, "sent", hour), 32, metering.DryRunSubmitted, "")
	left := []metering.Record{
		dryRunOf(twin, 4), byIdentifier, inDoubt,
		notSubscribed(groupOf(licenseOne, "refused", hour), 64),
		endedAs(groupOf(licenseOne, "billed", hour), 128, metering.Success, ""),
		dryRunOf(groupOf(licenseOne, apiCalls, hour-24), 256),
		dryRunOf(groupOf(licenseTwo, apiCalls, hour), 512),
	}
	b.putRecords(dry, earlier)
	b.putRecords(left...)
	skipped := func(o metering.Obstacle, units int64) pipeline.Skipped {
		return pipeline.Skipped{Cause: o, Why: o.Why(), Records: 1, Units: units}
	}
	lost := func(h metering.Hour) time.Time { return h.Start().Add(24 * time.Hour) }
	want := pipeline.Retried{
		DryRun: true,
		Reopened: []pipeline.Refusal{
			{Account: buyer, Dimension: apiCalls, Hour: (hour - 5).String(), Units: 2, Status: metering.DryRunSubmitted, LostAt: lost(hour - 5)},
			{Account: buyer, Dimension: apiCalls, Hour: hour.String(), Units: 1, Status: metering.DryRunSubmitted, LostAt: lost(hour)},
		},
		Units: 3, Older: 1,
		Skipped: []pipeline.Skipped{
			skipped(metering.ObstacleDoubt, 32), skipped(metering.ObstacleTwin, 4), skipped(metering.ObstacleRefused, 64), skipped(metering.ObstacleBilled, 128),
		},
	}
	looked, err := b.promoter().Run(b.ctx, pipeline.Retry{License: licenseOne, DryRun: true})
	if diff := cmp.Diff(want, looked); diff != "" || err != nil {
		t.Errorf("looked: %v (-want +got):\n%s", err, diff)
	}
	if n := b.reopened(dry, earlier); n != 0 {
		t.Errorf("a look promoted %d", n)
	}
	want.DryRun = false
	done, err := b.promoter().Run(b.ctx, pipeline.Retry{License: licenseOne})
	if diff := cmp.Diff(want, done); diff != "" || err != nil {
		t.Errorf("promoted: %v (-want +got):\n%s", err, diff)
	}
	if b.reopened(dry, earlier) != 2 || b.reopened(left...) != 0 {
		t.Errorf("%d wait, and %d of the others", b.reopened(dry, earlier), b.reopened(left...))
	}
	again, err := b.promoter().Run(b.ctx, pipeline.Retry{License: licenseOne})
	if err != nil || len(again.Reopened) != 0 || again.Skipped[len(again.Skipped)-2] != (pipeline.Skipped{
		Cause: metering.ObstacleWaiting, Why: metering.ObstacleWaiting.Why(), Records: 2, Units: 3,
	}) {
		t.Errorf("again: %+v, %v", again, err)
	}
}

// TestPromoteKnowsItsOwnWrite: as a retry does (F21), each once, whoever else promotes and whatever is lost on the way.
func TestPromoteKnowsItsOwnWrite(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var records []metering.Record
	for _, r := range many(40) {
		g, _ := r.Group()
		records = append(records, dryRunOf(g, 1))
	}
	b.putRecords(records...)
	r := b.promoter()
	r.Records = shakyRecords{RefusedRecords: b.store, before: func(x metering.Reopen) error {
		if x.SortKey[len(x.SortKey)-len("0#2026-03-10T14")] == '7' {
			return errRefused
		}
		_, err := b.store.ReopenRecord(b.ctx, x)
		return err
	}}
	done, err := r.Run(b.ctx, pipeline.Retry{License: licenseOne})
	if !errors.Is(err, errRefused) || len(done.Reopened) != 36 {
		t.Errorf("%d promoted: %v", len(done.Reopened), err)
	}
	finished := make(chan error)
	for range 4 {
		go func() {
			_, err := b.promoter().Run(b.ctx, pipeline.Retry{License: licenseOne})
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
			t.Fatalf("%s: pending %q, promoted %d times", rec.SortKey, got.Pending, len(trace))
		}
	}
}
