package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	queuememory "github.com/awsmp/metering/internal/queue/memory"
)

// TestSliceOutOfRangeIsAnError: a schedule with a wrong constant did nothing, and nobody noticed. It fails, and reads nothing.
func TestSliceOutOfRangeIsAnError(t *testing.T) {
	t.Parallel()
	n := func(i int) *int { return &i }
	for name, slice := range map[string]pipeline.Slice{
		"empty":           {},
		"unknown mode":    {Mode: "metering", HourOffset: n(1)},
		"no offset":       {Mode: pipeline.ModeMeter},
		"offset 0":        pipeline.MeterSlice(0),
		"offset 24":       pipeline.MeterSlice(24),
		"offset -1":       pipeline.MeterSlice(-1),
		"shard for meter": {Mode: pipeline.ModeMeter, Shard: n(1)},
		"no shard":        {Mode: pipeline.ModeAgeout},
		"shard 7":         pipeline.AgeoutSlice(7),
		"shard -1":        pipeline.AgeoutSlice(-1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.put(rowAt(groupOf(licenseOne, apiCalls, hour), 0, 1))
			_, err := b.discoverer().Run(b.ctx, slice)
			if err == nil || !strings.Contains(err.Error(), "hourOffset 1..23") {
				t.Errorf("error %v, want one that names what is allowed", err)
			}
			if s := b.store.Stats(); s.Queries != 0 {
				t.Errorf("read %+v", s)
			}
		})
	}
	for _, slice := range []pipeline.Slice{pipeline.MeterSlice(1), pipeline.MeterSlice(23), pipeline.AgeoutSlice(0), pipeline.AgeoutSlice(6), pipeline.FlushSlice()} {
		if _, err := newBench(t).discoverer().Run(t.Context(), slice); err != nil {
			t.Errorf("%+v: %v", slice, err)
		}
	}
}

// TestCase44RefusedEntriesFailTheRun: the answer 200 with a refused entry counted as sent. Entry 7 of 10 is refused: the run fails and
// reports 9, the group still waits, and the next run sends it again.
func TestCase44RefusedEntriesFailTheRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	refusing := true
	b.work = queuememory.New(queuememory.Options{Now: b.clock, Refuse: func(body string) bool {
		return refusing && strings.Contains(body, `"dim_7"`)
	}})
	for i := range 10 {
		b.put(rowAt(groupOf(licenseOne, fmt.Sprintf("dim_%d", i), hour), 0, 1))
	}
	found, err := b.discoverer().Run(b.ctx, pipeline.MeterSlice(1))
	if err == nil || found.Enqueued != 9 {
		t.Errorf("%+v, %v", found, err)
	}
	if sent := b.taken(b.work); len(sent) != 9 {
		t.Errorf("%d messages", len(sent))
	}
	refusing = false
	if found, err = b.discoverer().Run(b.ctx, pipeline.MeterSlice(1)); err != nil || found.Enqueued != 10 {
		t.Errorf("the next run: %+v, %v", found, err)
	}
}

// failingQueue takes nothing from its n-th Send on.
type failingQueue struct {
	pipeline.Queue
	good, calls int
}

func (q *failingQueue) Send(ctx context.Context, bodies []string) ([]int, error) {
	if q.calls++; q.calls > q.good {
		return nil, errRefused
	}
	return q.Queue.Send(ctx, bodies)
}

// TestCase44AFailedSendIsNotCounted: the second batch of 25 groups cannot be sent. The run fails and reports the ten that were.
func TestCase44AFailedSendIsNotCounted(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 25 {
		b.put(rowAt(groupOf(licenseOne, fmt.Sprintf("dim_%02d", i), hour), 0, 1))
	}
	d := b.discoverer()
	d.Work = &failingQueue{Queue: b.work, good: 1}
	found, err := d.Run(b.ctx, pipeline.MeterSlice(1))
	if err == nil || found.Enqueued != 10 {
		t.Errorf("%+v, %v", found, err)
	}
}

// TestMeterSendsEachGroupOnce: many rows of few groups, in both licenses, make one message a group; rows misfiled under this bucket are sent
// as their own group, once.
func TestMeterSendsEachGroupOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var want []string
	for _, license := range []string{licenseOne, licenseTwo} {
		for _, dimension := range []string{"api", "api#2026-03-10T14", "zz"} {
			g := groupOf(license, dimension, hour)
			for s := range 50 {
				b.put(rowAt(g, s, 1))
			}
			want = append(want, metering.Encode(metering.NewWorkMessage(g, false)))
		}
	}
	stray := groupOf(licenseOne, "stray", hour-3)
	for s := range 5 {
		r := rowAt(stray, s, 1)
		r.Pending = hour.String()
		b.put(r)
	}
	want = append(want, metering.Encode(metering.NewWorkMessage(stray, false)))
	found, err := b.discoverer().Run(b.ctx, pipeline.MeterSlice(1))
	if err != nil || found.Entries != 305 || found.Enqueued != len(want) || found.Repaired != 0 {
		t.Errorf("%+v, %v", found, err)
	}
	got := b.taken(b.work)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestMisfiledRows: what becomes of a row whose bucket is not its hour, as an age-out sweep or a meter run meets it.
func TestMisfiledRows(t *testing.T) {
	t.Parallel()
	old := metering.HourOf(noon) - 30
	for name, c := range map[string]struct {
		own, bucket       metering.Hour
		lock              int
		slice             pipeline.Slice
		enqueued, labels  int
		repaired, metrics int64
		left              string
	}{
		"own hour may be visited":        {hour - 2, hour, 1, pipeline.MeterSlice(1), 1, 0, 0, 0, hour.String()},
		"own hour is locked":             {hour - 2, hour - 6, 5, pipeline.MeterSlice(7), 0, 0, 1, 1, (hour - 2).String()},
		"own hour is in progress":        {hour + 1, hour, 1, pipeline.MeterSlice(1), 0, 0, 1, 1, (hour + 1).String()},
		"own hour is still to come":      {hour + 9, hour, 1, pipeline.MeterSlice(1), 0, 0, 1, 1, (hour + 9).String()},
		"own hour has lapsed":            {old, hour, 1, pipeline.MeterSlice(1), 0, 0, 1, 1, old.String()},
		"lapsed bucket, own hour lives":  {hour, old, 1, pipeline.AgeoutSlice(30 % 7), 1, 0, 0, 0, old.String()},
		"own hour is older than a sweep": {metering.HourOf(noon) - 401*24, hour, 1, pipeline.MeterSlice(1), 0, 1, 0, 0, hour.String()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := rowAt(groupOf(licenseOne, apiCalls, c.own), 5, 3)
			r.Pending = c.bucket.String()
			b.put(r)
			d := b.discoverer()
			d.Rules.LockHours = c.lock
			found, err := d.Run(b.ctx, c.slice)
			if err != nil || found.Enqueued != c.enqueued || found.Labels != c.labels || int64(found.Repaired) != c.repaired {
				t.Errorf("%+v, %v", found, err)
			}
			if got := b.metrics.Of(metering.MetricPendingRepaired).Items; got != c.metrics {
				t.Errorf("metric %d", got)
			}
			if got, _ := b.store.Row(b.ctx, r.License, r.SortKey); got == nil || got.Pending != c.left || got.Status != "" {
				t.Errorf("row %+v, want it under %s", got, c.left)
			}
		})
	}
}

// TestUnreadableKeyIsRejectedOnce: a key that names no group is finished through the cleanup queue, each row by itself.
func TestUnreadableKeyIsRejectedOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, key := range []string{"nothing", buyer + "#" + apiCalls, buyer + "#" + apiCalls + "#2026-03-10T14:00"} {
		r := rowAt(groupOf(licenseOne, apiCalls, hour), 0, 4)
		r.SortKey = key
		b.put(r)
	}
	if _, err := b.discoverer().Run(b.ctx, pipeline.MeterSlice(1)); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range b.labels() {
		if m.Status != metering.RejectedClientSide || len(m.Rows) != 1 || m.Covered || !m.First {
			t.Errorf("message %+v", m)
		}
		got[m.Rows[0].Key] = m.Reason
	}
	want := map[string]string{
		"nothing":              string(metering.MalformedSortKey),
		buyer + "#" + apiCalls: string(metering.MalformedSortKey),
		buyer + "#" + apiCalls + "#2026-03-10T14:00": string(metering.MalformedTimestamp),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestAgeoutOwnsItsShardOnly: each lapsed hour belongs to one of the seven shards, and to no other.
func TestAgeoutOwnsItsShardOnly(t *testing.T) {
	t.Parallel()
	for back := 25; back < 39; back++ {
		b := newBench(t)
		b.put(rowAt(groupOf(licenseOne, apiCalls, metering.HourOf(noon)-metering.Hour(back)), 0, 1))
		for shard := range metering.AgeoutShards {
			found, err := b.discoverer().Run(b.ctx, pipeline.AgeoutSlice(shard))
			if err != nil || (found.Labels == 1) != (back%metering.AgeoutShards == shard) {
				t.Errorf("%d hours back, shard %d: %+v, %v", back, shard, found, err)
			}
		}
	}
}

// TestFlushCostsOneQueryAnHour: a license in its last hour costs one targeted query for each billable hour, and others' rows are not read.
func TestFlushCostsOneQueryAnHour(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.deprovision(licenseOne, buyer, noon.Add(30*time.Minute))
	for i := range 500 {
		b.put(rowAt(groupOf(licenseTwo, fmt.Sprintf("dim_%d", i), hour), 0, 1))
	}
	b.put(rowAt(groupOf(licenseOne, apiCalls, hour), 0, 1))
	found, err := b.discoverer().Run(b.ctx, pipeline.FlushSlice())
	if err != nil || found.Entries != 1 || found.Enqueued != 1 || found.Licenses != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	if s := b.store.Stats(); s.Queries != 1+23 || s.ItemsRead != 2 {
		t.Errorf("%+v", s)
	}
}
