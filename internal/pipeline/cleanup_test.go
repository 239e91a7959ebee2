package pipeline_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/telemetry"
)

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// throttledRows refuses writes as told, given the instant of each.
type throttledRows struct {
	pipeline.Rows
	mu     sync.Mutex
	refuse func(key string, at time.Time) bool
	done   []time.Time
	tried  map[string]int
}

func (r *throttledRows) LabelRows(ctx context.Context, labels []metering.Label) (out []metering.Labelled) {
	for _, l := range labels {
		if r.refuses(l) {
			out = append(out, metering.Labelled{Err: errRefused})
			continue
		}
		out = append(out, r.Rows.LabelRows(ctx, []metering.Label{l})...)
	}
	return out
}

func (r *throttledRows) refuses(l metering.Label) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.tried == nil {
		r.tried = make(map[string]int)
	}
	r.tried[l.SortKey]++
	if r.refuse != nil && r.refuse(l.SortKey, now) {
		return true
	}
	r.done = append(r.done, now)
	return false
}

// committed puts n rows of a group and returns the messages that label them as covered.
func (b *bench) committed(g metering.Group, n int) (batch []pipeline.Message) {
	var rows []metering.CleanupRow
	for s := range n {
		r := rowAt(g, s, 1)
		b.put(r)
		q := int64(1)
		rows = append(rows, metering.CleanupRow{Key: r.SortKey, Quantity: &q})
	}
	m := metering.CleanupMessage{License: g.License, Covered: true, Status: metering.Aggregated, Reason: metering.AggregatedReason(int64(n), n)}
	for part := range m.Split(rows) {
		batch = append(batch, pipeline.Message{ID: fmt.Sprintf("m%d", len(batch)), Body: metering.Encode(part)})
	}
	return batch
}

func (b *bench) waiting(g metering.Group) (n int) {
	b.t.Helper()
	for r, err := range b.store.GroupRows(b.ctx, g) {
		if err != nil {
			b.t.Fatal(err)
		}
		if r.Pending != "" {
			n++
		}
	}
	return n
}

// TestCleanupKeepsItsPace: all rows of a license share a partition of 1,000 writes a second. 600 labels by eight workers at 100 a second
// and a burst of 10 take 5.9 s, and no second holds more than 110.
func TestCleanupKeepsItsPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		g := groupOf(licenseOne, apiCalls, hour)
		batch := b.committed(g, 600)
		rows := &throttledRows{Rows: b.store}
		c := &pipeline.Cleaner{Rows: rows, Metrics: b.metrics, Limiter: rate.NewLimiter(100, 10), Now: time.Now, Sleep: sleep}
		start := time.Now()
		if failed := c.Handle(b.ctx, batch); len(failed) > 0 {
			t.Fatal(failed)
		}
		if took := time.Since(start); took < 5900*time.Millisecond || took > 6*time.Second {
			t.Errorf("took %v", took)
		}
		for i := range rows.done {
			if i >= 110 && rows.done[i].Sub(rows.done[i-110]) < time.Second-time.Millisecond {
				t.Fatalf("111 writes within %v", rows.done[i].Sub(rows.done[i-110]))
			}
		}
		if b.waiting(g) != 0 {
			t.Error("rows still wait")
		}
	})
}

// TestCase48AThrottledPartition: a partition took no more than it could while a group of 3,600 rows was cleaned. It refuses what exceeds
// 1,000 writes a second; others take most of that. Only refused keys are tried again, and all rows are cleared.
func TestCase48AThrottledPartition(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		g := groupOf(licenseOne, apiCalls, hour)
		batch := b.committed(g, 3600)
		inSecond, second, refused := 0, int64(0), 0
		rows := &throttledRows{Rows: b.store, refuse: func(_ string, at time.Time) bool {
			if at.Unix() != second {
				second, inSecond = at.Unix(), 700 // what other writers have taken of this second
			}
			inSecond++
			if inSecond > 1000 {
				refused++
				return true
			}
			return false
		}}
		c := &pipeline.Cleaner{Rows: rows, Metrics: b.metrics, Limiter: rate.NewLimiter(400, 100), Now: time.Now, Sleep: sleep}
		for round := 1; len(batch) > 0; round++ {
			failed := map[string]bool{}
			for _, id := range c.Handle(b.ctx, batch) {
				failed[id] = true
			}
			var rest []pipeline.Message
			for _, m := range batch {
				if failed[m.ID] {
					rest = append(rest, m)
				}
			}
			if batch = rest; round == 8 && len(batch) > 0 {
				t.Fatalf("%d messages would be dead", len(batch))
			}
			time.Sleep(6 * time.Minute)
		}
		if b.waiting(g) != 0 || refused == 0 {
			t.Errorf("%d rows wait after %d refusals", b.waiting(g), refused)
		}
	})
}

// TestRetriesBackOffWithFullJitter: refused writes were repeated at once, all together. The pauses are drawn from 50 ms, 100 ms … 2 s; six
// attempts, then the message alone fails.
func TestRetriesBackOffWithFullJitter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		good, bad := groupOf(licenseOne, "good", hour), groupOf(licenseOne, "bad", hour)
		batch := append(b.committed(good, 3), b.committed(bad, 1)...)
		batch[0].ID, batch[1].ID = "good", "bad"
		rows := &throttledRows{Rows: b.store, refuse: func(key string, _ time.Time) bool { return key == rowAt(bad, 0, 1).SortKey }}
		var drawn []time.Duration
		c := &pipeline.Cleaner{Rows: rows, Metrics: b.metrics, Now: time.Now, Sleep: sleep, Jitter: func(d time.Duration) time.Duration {
			drawn = append(drawn, d)
			return d
		}}
		if diff := cmp.Diff([]string{"bad"}, c.Handle(b.ctx, batch)); diff != "" {
			t.Error(diff)
		}
		want := []time.Duration{50 * time.Millisecond, 100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond}
		if diff := cmp.Diff(want, drawn); diff != "" {
			t.Error(diff)
		}
		for _, r := range []metering.Group{good} {
			if b.waiting(r) != 0 || rows.tried[rowAt(r, 0, 1).SortKey] != 1 {
				t.Error("the good message was not done at once")
			}
		}
	})
}

// TestDrawnPausesDiffer: without a Jitter of its own, a cleaner draws between nothing and the whole pause.
func TestDrawnPausesDiffer(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	batch := b.committed(groupOf(licenseOne, apiCalls, hour), 40)
	rows := &throttledRows{Rows: b.store, refuse: func(string, time.Time) bool { return true }}
	var mu sync.Mutex
	pauses := map[time.Duration]bool{}
	c := &pipeline.Cleaner{Rows: rows, Metrics: b.metrics, Now: b.clock, Sleep: func(_ context.Context, d time.Duration) error {
		mu.Lock()
		defer mu.Unlock()
		pauses[d] = true
		if d < 0 || d > 2*time.Second {
			t.Errorf("pause %v", d)
		}
		return nil
	}}
	if failed := c.Handle(b.ctx, batch); len(failed) != 1 {
		t.Error(failed)
	}
	if len(pauses) < 100 {
		t.Errorf("%d different pauses of 200", len(pauses))
	}
}

// TestCleanupOfABodyThatSaysNothing: a message that cannot be read, or names nothing, fails and comes to the dead letters; none is taken
// for done.
func TestCleanupOfABodyThatSaysNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var batch []pipeline.Message
	for i, body := range []string{
		"", "x", "{}", `{"licenseArn":"l","meteringStatus":"Aggregated","rows":[]}`, `{"licenseArn":"l","rows":[{"k":"a"}]}`,
		`{"licenseArn":"l","meteringStatus":"Aggregated","covered":true,"rows":[{"k":"a"}]}`,
	} {
		batch = append(batch, pipeline.Message{ID: fmt.Sprintf("m%d", i), Body: body})
	}
	c := &pipeline.Cleaner{Rows: b.store, Metrics: b.metrics, Now: b.clock, Sleep: func(context.Context, time.Duration) error { return nil }}
	if failed := c.Handle(b.ctx, batch); len(failed) != len(batch) {
		t.Errorf("failed: %v", failed)
	}
}

// TestLabelThatNoLongerFits: a verdict is written only on what was judged. A row that its seller has mended since is left for the next
// visit; one that already shows the label, or has ended otherwise, is done.
func TestLabelThatNoLongerFits(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	g := groupOf(licenseOne, apiCalls, hour)
	mended, same, gone, ended := rowAt(g, 0, 5), rowAt(g, 1, 5), rowAt(g, 2, 5), rowAt(g, 3, 5)
	m := metering.CleanupMessage{License: g.License, Status: metering.RejectedClientSide, Reason: "NegativeQuantity", First: true}
	for _, r := range []metering.Row{mended, same, gone, ended} {
		m.Rows = append(m.Rows, metering.NewCleanupRow(r))
	}
	mended.Quantity = metering.Units(6)
	ended.Pending, ended.Status = "", metering.LateUsage
	b.put(mended, same, ended)
	c := &pipeline.Cleaner{Rows: b.store, Metrics: b.metrics, Now: b.clock, Sleep: func(context.Context, time.Duration) error { return nil }}
	for range 2 { // delivered twice
		if failed := c.Handle(b.ctx, []pipeline.Message{{ID: "m", Body: metering.Encode(m)}}); len(failed) > 0 {
			t.Fatal(failed)
		}
	}
	for r, want := range map[*metering.Row]metering.Status{&mended: "", &same: metering.RejectedClientSide, &ended: metering.LateUsage} {
		if got, _ := b.store.Row(b.ctx, r.License, r.SortKey); got.Status != want || (got.Pending != "") != (want == "") {
			t.Errorf("row %+v, want status %q", got, want)
		}
	}
	if got, _ := b.store.Row(b.ctx, gone.License, gone.SortKey); got != nil {
		t.Errorf("ghost %+v", got)
	}
}

// denied is an error that says of itself whether the call is any use again.
type denied struct{ again bool }

func (d denied) Error() string { return "denied by the test" }
func (d denied) Retry() bool   { return d.again }

type deniedRows struct {
	pipeline.Rows
	err   error
	calls atomic.Int64
}

func (r *deniedRows) LabelRows(_ context.Context, labels []metering.Label) []metering.Labelled {
	r.calls.Add(1)
	out := make([]metering.Labelled, len(labels))
	for i := range out {
		out[i].Err = fmt.Errorf("label row: %w", r.err)
	}
	return out
}

// What fails again as it is, as a label without permission, is left to the next delivery at once: a batch of 500 rows would else use up
// the function's time, at every delivery.
func TestALastingFailureIsNotRepeated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want int64
	}{
		"it lasts": {denied{}, 2}, "it may pass": {denied{again: true}, 12}, "nobody knows": {errRefused, 12},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rows, g := &deniedRows{err: c.err}, groupOf(licenseOne, apiCalls, hour)
				cleaner := &pipeline.Cleaner{Rows: rows, Metrics: &telemetry.Counters{}, Now: time.Now, Sleep: sleep}
				body := metering.Encode(metering.CleanupMessage{
					License: licenseOne, Covered: true, Status: metering.Aggregated, Reason: "because",
					Rows: []metering.CleanupRow{metering.CoveredRow(g, hour.Second(0), 1), metering.CoveredRow(g, hour.Second(1), 1)},
				})
				if failed := cleaner.Handle(t.Context(), []pipeline.Message{{ID: "one", Body: body}}); len(failed) != 1 || rows.calls.Load() != c.want {
					t.Errorf("failed %v after %d writes, want the message after %d", failed, rows.calls.Load(), c.want)
				}
			})
		})
	}
}
