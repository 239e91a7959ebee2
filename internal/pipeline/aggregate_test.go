package pipeline_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

func workMessage(id string, g metering.Group) pipeline.Message {
	return pipeline.Message{ID: id, Body: metering.Encode(metering.NewWorkMessage(g, false))}
}

// failingRecords fails reads and commits of one dimension, or finds every record too large.
type failingRecords struct {
	pipeline.Records
	dimension string
	tooLarge  bool
}

func (f failingRecords) Record(ctx context.Context, g metering.Group) (*metering.Record, error) {
	if g.Dimension == f.dimension {
		return nil, errRefused
	}
	return f.Records.Record(ctx, g)
}

func (f failingRecords) CreateRecord(ctx context.Context, r metering.Record) (metering.Outcome[metering.Record], error) {
	if f.tooLarge {
		return metering.Outcome[metering.Record]{}, fmt.Errorf("put item: %w", metering.ErrTooLarge)
	}
	return f.Records.CreateRecord(ctx, r)
}

// TestCase45OnlyTheFailedMessageComesBack: one bad message of ten made the nine good ones run again. Exactly the failed ones are named:
// one whose group cannot be read, and bodies that say nothing.
func TestCase45OnlyTheFailedMessageComesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.aggregator()
	a.Records = failingRecords{Records: b.store, dimension: "dim_4"}
	var batch []pipeline.Message
	for i := 1; i <= 7; i++ {
		g := groupOf(licenseOne, fmt.Sprintf("dim_%d", i), hour)
		b.put(rowAt(g, 0, 1))
		batch = append(batch, workMessage(fmt.Sprintf("m%d", i), g))
	}
	batch = append(batch,
		pipeline.Message{ID: "m8", Body: "not json"},
		pipeline.Message{ID: "m9", Body: `{"licenseArn":"x","hourBucket":"2026-03-10"}`},
		pipeline.Message{ID: "m10", Body: `{"hourBucket":"2026-03-10T14"}`})
	if diff := cmp.Diff([]string{"m4", "m8", "m9", "m10"}, a.Handle(b.ctx, batch)); diff != "" {
		t.Error(diff)
	}
	if n := len(b.labels()); n != 6 {
		t.Errorf("%d groups committed, want 6", n)
	}
}

// TestVisitOfEveryKindOfRow: which rows take part in a group's first sum, and what each visit asks for.
func TestVisitOfEveryKindOfRow(t *testing.T) {
	t.Parallel()
	g := groupOf(licenseOne, apiCalls, hour)
	plain := func(second int, q int64, change func(*metering.Row)) metering.Row {
		r := rowAt(g, second, q)
		if change != nil {
			change(&r)
		}
		return r
	}
	ended := func(s metering.Status) func(*metering.Row) {
		return func(r *metering.Row) { r.Pending, r.Status = "", s }
	}
	for name, c := range map[string]struct {
		rows  []metering.Row
		sum   int64 // -1: no commit
		count int
	}{
		"nothing waits":           {[]metering.Row{plain(0, 5, ended(metering.RejectedClientSide))}, -1, 0},
		"rejected rows come back": {[]metering.Row{plain(0, 5, ended(metering.RejectedClientSide)), plain(1, 2, nil)}, 7, 2},
		"dropped rows do not": {[]metering.Row{plain(0, 5, func(r *metering.Row) {
			r.Pending, r.Status, r.Dropped = "", metering.RejectedClientSide, true
		}), plain(1, 2, nil)}, 2, 1},
		"expired rows do not": {[]metering.Row{plain(0, 5, ended(metering.AggregationExpired)), plain(1, 2, nil)}, 2, 1},
		"late rows do not":    {[]metering.Row{plain(0, 5, ended(metering.LateUsage)), plain(1, 2, nil)}, 2, 1},
		"zeros stand beside":  {[]metering.Row{plain(0, 0, nil), plain(1, 2, nil)}, 2, 2},
		"zeros alone wait":    {[]metering.Row{plain(0, 0, nil), plain(1, 0, nil)}, -1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.put(c.rows...)
			if failed := b.aggregator().Handle(b.ctx, []pipeline.Message{workMessage("m", g)}); len(failed) > 0 {
				t.Fatal(failed)
			}
			got := b.record(metering.NewRecord(g, 0))
			if c.sum < 0 {
				if got.SortKey != "" || len(b.labels()) > 0 {
					t.Errorf("committed %+v", got)
				}
				return
			}
			m, err := metering.ParseManifest(got.Manifest)
			if err != nil || got.Quantity != metering.Units(c.sum) || m.Count() != c.count || m.Sum() != c.sum {
				t.Errorf("record %+v, %v", got, err)
			}
		})
	}
}

// TestVisitAfterTheHourLapsed: age alone never rejects and never commits; the group is left to age-out.
func TestVisitAfterTheHourLapsed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := groupOf(licenseOne, apiCalls, hour)
	b.put(rowAt(g, 0, 5))
	b.now = g.Hour.Start().Add(24*time.Hour - 10*time.Second)
	if failed := b.aggregator().Handle(b.ctx, []pipeline.Message{workMessage("m", g)}); len(failed) > 0 {
		t.Fatal(failed)
	}
	if got := b.record(metering.NewRecord(g, 0)); got.SortKey != "" || len(b.labels()) > 0 {
		t.Errorf("record %+v", got)
	}
}

// TestAgeNeverRejects: an invalid row whose hour lapsed before its visit is left to age-out, not refused.
func TestAgeNeverRejects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := groupOf(licenseOne, apiCalls, hour)
	b.put(rowAt(g, 0, -5))
	b.now = g.Hour.Start().Add(24 * time.Hour)
	if failed := b.aggregator().Handle(b.ctx, []pipeline.Message{workMessage("m", g)}); len(failed) > 0 || len(b.labels()) > 0 {
		t.Error("the visit asked for labels")
	}
}

// slowRows takes until an instant to be read.
type slowRows struct {
	pipeline.Rows
	read func()
}

func (s slowRows) GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error] {
	s.read()
	return s.Rows.GroupRows(ctx, g)
}

// TestAnHourThatLapsesWhileItIsRead: an hour can no longer be billed when its rows have been read. It gets no record, which could only expire:
// age-out names its usage.
func TestAnHourThatLapsesWhileItIsRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := groupOf(licenseOne, apiCalls, hour)
	b.put(rowAt(g, 0, 5))
	lapses := g.Hour.Start().Add(24 * time.Hour)
	b.now = lapses.Add(-time.Minute)
	a := b.aggregator()
	a.Rows = slowRows{b.store, func() { b.now = lapses }}
	if failed := a.Handle(b.ctx, []pipeline.Message{workMessage("m", g)}); len(failed) > 0 || len(b.labels()) > 0 {
		t.Error("the visit asked for labels")
	}
	if r, err := b.store.Record(b.ctx, g); err != nil || r != nil {
		t.Errorf("record %+v, %v", r, err)
	}
}

// blindRecords does not see a record until it is in the way of a commit.
type blindRecords struct{ pipeline.Records }

func (blindRecords) Record(context.Context, metering.Group) (*metering.Record, error) {
	return nil, nil
}

// TestCommitMeetsAnotherVisits: two visits of a group read that there is no record, and one commits. The other goes by its manifest in the
// same visit: what it had summed itself is late where the record does not hold it.
func TestCommitMeetsAnotherVisits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := groupOf(licenseOne, apiCalls, hour)
	b.put(rowAt(g, 0, 5))
	a := b.aggregator()
	a.Records = blindRecords{b.store}
	for _, want := range []map[metering.Status]int{{metering.Aggregated: 1}, {metering.Aggregated: 1, metering.LateUsage: 1}} {
		if failed := a.Handle(b.ctx, []pipeline.Message{workMessage("m", g)}); len(failed) > 0 {
			t.Fatal(failed)
		}
		got := map[metering.Status]int{}
		for _, m := range b.labels() {
			got[m.Status] += len(m.Rows)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		b.put(rowAt(g, 1, 3))
	}
	if got := b.record(metering.NewRecord(g, 0)).Quantity; got != metering.Units(5) {
		t.Errorf("record of %+v", got)
	}
}

// TestF28TheStoresWordIsEnough: the estimate let a record through that the store finds too large. The group is rejected, not retried.
func TestF28TheStoresWordIsEnough(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	a := b.aggregator()
	a.Records = failingRecords{Records: b.store, tooLarge: true}
	g := groupOf(licenseOne, apiCalls, hour)
	b.put(rowAt(g, 0, 5), rowAt(g, 1, 6))
	if failed := a.Handle(b.ctx, []pipeline.Message{workMessage("m", g)}); len(failed) > 0 {
		t.Fatal(failed)
	}
	list := b.labels()
	if len(list) != 1 || list[0].Status != metering.RejectedClientSide || list[0].Reason != string(metering.RecordTooLarge) || len(list[0].Rows) != 2 {
		t.Errorf("labels %+v", list)
	}
}

// TestManyRowsAreLabelledInHundreds: 250 rows make three messages of at most 100 keys, in the order of their keys, each with the folded
// quantities and the record's total and count.
func TestManyRowsAreLabelledInHundreds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := groupOf(licenseOne, apiCalls, hour)
	var keys []string
	for s := range 250 {
		r := rowAt(g, s, int64(s))
		b.put(r)
		keys = append(keys, r.SortKey)
	}
	b.aggregator().Handle(b.ctx, []pipeline.Message{workMessage("m", g)})
	var got []string
	for i, m := range b.labels() {
		if m.Reason != "Aggregated total quantity 31125 from 250 raw usage records" || !m.Covered || m.Status != metering.Aggregated || m.First != (i == 0) || len(m.Rows) > 100 {
			t.Errorf("message %d: %+v", i, m)
		}
		for j, r := range m.Rows {
			if r.Quantity == nil || *r.Quantity != int64(100*i+j) {
				t.Errorf("row %s: %v", r.Key, r.Quantity)
			}
			got = append(got, r.Key)
		}
	}
	if !slices.Equal(got, keys) {
		t.Errorf("%d keys labelled, want %d in order", len(got), len(keys))
	}
}

// TestCoverageSecondBySecond: what a visit of a committed group asks for, for every kind of row beside the manifest.
func TestCoverageSecondBySecond(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := groupOf(licenseOne, apiCalls, hour)
	for s := range 8 {
		b.put(rowAt(g, s, 10))
	}
	a := b.aggregator()
	a.Handle(b.ctx, []pipeline.Message{workMessage("m", g)})
	b.labels()

	set := func(second int, q int64, pending bool, s metering.Status, reason string) {
		r := rowAt(g, second, q)
		r.Status, r.StatusReason = s, reason
		if !pending {
			r.Pending = ""
		}
		b.put(r)
	}
	total := metering.AggregatedReason(80, 8)
	set(0, 10, true, "", "")                                   // equal, waits
	set(1, 10, false, metering.Aggregated, total)              // equal, labelled: nothing to do
	set(2, 10, false, metering.AggregationExpired, "anything") // equal, another label: healed
	set(3, 15, true, "", "")                                   // grew
	set(4, 4, true, "", "")                                    // shrank
	set(5, 15, false, metering.Aggregated, total)              // grew without its marker: not the pipeline's to relabel
	set(6, 10, false, metering.LateUsage, metering.LateReason) // equal again: healed
	if err := b.store.DeleteRow(b.ctx, g.License, rowAt(g, 7, 0).SortKey); err != nil {
		t.Fatal(err)
	}
	set(20, 7, true, "", "")                                      // not in the manifest: late
	set(21, 0, true, "", "")                                      // zero: nothing is lost
	set(22, -1, true, "", "")                                     // invalid
	set(23, 7, false, metering.RejectedClientSide, "NonsenseOne") // ended
	a.Handle(b.ctx, []pipeline.Message{workMessage("m", g)})

	got := map[string]string{}
	for _, m := range b.labels() {
		for _, r := range m.Rows {
			got[r.Key[len(r.Key)-2:]] = fmt.Sprintf("%v %s %s", m.Covered, m.Status, m.Reason)
		}
	}
	want := map[string]string{
		"00": "true Aggregated " + total, "02": "true Aggregated " + total, "03": "true Aggregated " + total, "04": "true Aggregated " + total,
		"06": "true Aggregated " + total,
		"20": "false LateUsage " + metering.LateReason, "21": "false Aggregated " + total, "22": "false RejectedClientSide NegativeQuantity",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestUnreadableManifestStopsEveryLabel: a manifest that cannot be read would call billed rows late. No label of the group is asked for,
// by the visit or by age-out, and a metric says so; a direct-submit record without one covers no row.
func TestUnreadableManifestStopsEveryLabel(t *testing.T) {
	t.Parallel()
	for name, manifest := range map[string]string{"cut off": "v1 2 30 0:1", "of a later release": "v9 1 10 0:10", "none": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			g := groupOf(licenseOne, apiCalls, hour)
			r := metering.NewRecord(g, 10)
			r.Manifest = manifest
			b.putRecords(r)
			b.put(rowAt(g, 0, 10), rowAt(g, 1, 5))
			if failed := b.aggregator().Handle(b.ctx, []pipeline.Message{workMessage("m", g)}); len(failed) > 0 {
				t.Error(failed)
			}
			b.now = g.Hour.Start().Add(24*time.Hour + 10*time.Minute)
			for shard := range metering.AgeoutShards {
				if _, err := b.discoverer().Run(b.ctx, pipeline.AgeoutSlice(shard)); err != nil {
					t.Error(err)
				}
			}
			list := b.labels()
			if manifest == "" {
				if len(list) != 2 || list[0].Status != metering.LateUsage || len(list[0].Rows) != 2 {
					t.Errorf("labels %+v, want both rows late, by the visit and by age-out", list)
				}
				return
			}
			if len(list) > 0 {
				t.Errorf("labels %+v", list)
			}
			if got := b.metrics.Of(metering.MetricManifestUnreadable).Items; got != 2 {
				t.Errorf("metric %d, want one a visit", got)
			}
		})
	}
}
