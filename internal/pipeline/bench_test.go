package pipeline_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/simulator"
)

var (
	benchHistory = flag.Int("history", 500, "finished groups of the 1x run of the history benchmarks; the largest run has a hundred times as many")
	benchTagSets = flag.Int("tagsets", 50, "distinct tag sets of the allocation benchmarks")
)

// taggedRow is a row of the group with two allocations of the run's tag sets.
func taggedRow(g metering.Group, second int) metering.Row {
	r := rowAt(g, second, 5)
	tags := func(n int) []metering.Tag {
		return []metering.Tag{{Key: "team", Value: fmt.Sprintf("team-%04d", n)}, {Key: "stage", Value: "production"}}
	}
	n := second % *benchTagSets
	r.Allocations = []metering.Allocation{{Quantity: 2, Tags: tags(n)}, {Quantity: 3, Tags: tags((n + 1) % *benchTagSets)}}
	return r
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func above(now, base uint64) float64 { return float64(max(now, base) - base) }

// BenchmarkFold3600Allocations folds the largest group, 3,600 rows with two allocations each. held-B is the live heap that the fold
// keeps at its end, rows excluded, and record-B the size of what it makes; the visit reads the same rows from a store, page by
// page, and peak-B is its live heap at the worst of every hundredth row.
func BenchmarkFold3600Allocations(b *testing.B) {
	g := groupOf(licenseOne, apiCalls, hour)
	rows := make([]metering.Row, 3600)
	for s := range rows {
		rows[s] = taggedRow(g, s)
	}
	b.Run("fold", func(b *testing.B) {
		base := liveHeap()
		fold := metering.NewFold(g, noon)
		for _, r := range rows {
			fold.Add(r)
		}
		held := above(liveHeap(), base)
		record, reason := fold.Record()
		if reason != "" {
			b.Fatal(reason)
		}
		b.ReportAllocs()
		for b.Loop() {
			fold := metering.NewFold(g, noon)
			for _, r := range rows {
				fold.Add(r)
			}
			if _, reason := fold.Record(); reason != "" {
				b.Fatal(reason)
			}
		}
		b.ReportMetric(held, "held-B")
		b.ReportMetric(float64(len(record.Manifest)), "manifest-B")
		runtime.KeepAlive(rows)
	})
	b.Run("visit", func(b *testing.B) {
		w := newBench(b)
		w.put(rows...)
		base := liveHeap()
		var peak uint64
		a := w.aggregator()
		message := []pipeline.Message{workMessage("m", g)}
		visit := func() {
			if failed := a.Handle(w.ctx, message); len(failed) > 0 {
				b.Fatal(failed)
			}
			b.StopTimer()
			if err := w.store.DeleteRecord(w.ctx, g.License, g.RecordKey()); err != nil {
				b.Fatal(err)
			}
			w.taken(w.cleanup)
			b.StartTimer()
		}
		a.Rows = sampledRows{w.store, func() { peak = max(peak, liveHeap()) }}
		visit()
		a.Rows = w.store
		b.ReportAllocs()
		b.ResetTimer()
		for b.Loop() {
			visit()
		}
		b.ReportMetric(above(peak, base), "peak-B")
	})
}

// sampledRows takes a sample at every hundredth row.
type sampledRows struct {
	pipeline.Rows
	sample func()
}

func (s sampledRows) GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error] {
	return func(yield func(metering.Row, error) bool) {
		n := 0
		for r, err := range s.Rows.GroupRows(ctx, g) {
			if n++; n%100 == 0 {
				s.sample()
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// pass is every stage once, over a pipeline with finished groups and a little new work.
type pass struct {
	*bench
	discover *pipeline.Discoverer
	handle   *pipeline.Aggregator
	clean    *pipeline.Cleaner
	submit   *pipeline.Submitter
	expire   *pipeline.Expirer
	fresh    []metering.Group
}

func newPass(b *testing.B, finished int) *pass {
	b.Helper()
	p := &pass{bench: newBench(b)}
	sleep := func(_ context.Context, d time.Duration) error { return nil }
	sim, err := simulator.New(simulator.Options{Now: p.clock, OpenDoors: true})
	if err != nil {
		b.Fatal(err)
	}
	client := marketplace.New(marketplace.Options{Region: "us-east-1", Endpoint: simulator.Endpoint, HTTPClient: sim.Client()})
	p.discover, p.handle = p.discoverer(), p.aggregator()
	p.clean = &pipeline.Cleaner{Rows: p.store, Metrics: p.metrics, Now: p.clock, Sleep: sleep}
	p.submit = p.submitter(marketplace.NewSender(client, marketplace.Settings{CallsPerSecond: 1e4, Now: p.clock, Sleep: sleep}))
	p.expire = &pipeline.Expirer{Records: p.store, Metrics: p.metrics, Now: p.clock}
	for i := range finished {
		p.finished(groupOf(licenseOne, fmt.Sprintf("dim_%05d", i/2000), hour-metering.Hour(i%2000)))
	}
	for i := range 20 {
		p.fresh = append(p.fresh, groupOf(licenseTwo, fmt.Sprintf("dim_%02d", i), hour))
	}
	return p
}

// finished puts a billed group of three rows.
func (p *pass) finished(g metering.Group) {
	fold := metering.NewFold(g, p.now)
	for s := range 3 {
		r := rowAt(g, s, 1)
		fold.Add(r)
		r.Pending, r.Status, r.StatusReason = "", metering.Aggregated, metering.AggregatedReason(3, 3)
		p.put(r)
	}
	record, reason := fold.Record()
	if reason != "" {
		p.t.Fatal(reason)
	}
	record.Pending, record.Status, record.SentQuantity = "", metering.Success, record.Quantity
	p.putRecords(record)
}

// renew puts 20 waiting groups of 10 rows in the place of what the last pass has made of them.
func (p *pass) renew() {
	for _, g := range p.fresh {
		if err := p.store.DeleteRecord(p.ctx, g.License, g.RecordKey()); err != nil {
			p.t.Fatal(err)
		}
		for s := range 10 {
			p.put(rowAt(g, s, 1))
		}
	}
}

func (p *pass) run() {
	slices := []pipeline.Slice{pipeline.FlushSlice()}
	for o := metering.MinOffset; o <= metering.MaxOffset; o++ {
		slices = append(slices, pipeline.MeterSlice(o))
	}
	for s := range metering.AgeoutShards {
		slices = append(slices, pipeline.AgeoutSlice(s))
	}
	for _, s := range slices {
		if _, err := p.discover.Run(p.ctx, s); err != nil {
			p.t.Fatal(err)
		}
	}
	handle := func(bodies []string, stage func(context.Context, []pipeline.Message) []string) {
		for _, body := range bodies {
			if failed := stage(p.ctx, []pipeline.Message{{ID: "m", Body: body}}); len(failed) > 0 {
				p.t.Fatal(failed)
			}
		}
	}
	handle(p.taken(p.work), p.handle.Handle)
	handle(p.taken(p.cleanup), p.clean.Handle)
	sent, err := p.submit.Run(p.ctx)
	if err != nil || sent.Settled != len(p.fresh) {
		p.t.Fatalf("%+v, %v", sent, err)
	}
	if _, err := p.expire.Run(p.ctx); err != nil {
		p.t.Fatal(err)
	}
}

// BenchmarkPassOverHistory runs every stage once over 20 waiting groups of 10 rows, beside 1, 10 and 100 times as many finished groups.
// Items read must not grow at all; reads-ratio and time-ratio compare with the 1x run of the same execution.
func BenchmarkPassOverHistory(b *testing.B) {
	var baseReads, baseTime float64
	for _, times := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("%dx", times), func(b *testing.B) {
			p := newPass(b, times**benchHistory)
			p.renew()
			p.run()
			p.renew()
			runtime.GC()
			before := p.store.Stats()
			var setUp int64 // queries of the preparation, which are none of the pass's
			n := 0
			b.ResetTimer()
			for b.Loop() {
				p.run()
				b.StopTimer()
				stats := p.store.Stats()
				p.renew()
				setUp += p.store.Stats().Queries - stats.Queries
				b.StartTimer()
				n++
			}
			b.StopTimer()
			after := p.store.Stats()
			reads := float64(after.ItemsRead-before.ItemsRead) / float64(n)
			perPass := float64(b.Elapsed().Nanoseconds()) / float64(n)
			if times == 1 {
				baseReads, baseTime = reads, perPass
			}
			b.ReportMetric(reads, "reads/op")
			b.ReportMetric(float64(after.Queries-before.Queries-setUp)/float64(n), "queries/op")
			if baseReads > 0 {
				b.ReportMetric(reads/baseReads, "reads-ratio")
				b.ReportMetric(perPass/baseTime, "time-ratio")
			}
		})
	}
}

// BenchmarkRunMemory is the live heap that a pass adds to what its store holds, at its worst, beside growing numbers of finished groups. It
// must not grow with them.
func BenchmarkRunMemory(b *testing.B) {
	for _, times := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("%dx", times), func(b *testing.B) {
			p := newPass(b, times**benchHistory)
			p.renew()
			p.run() // connections, pools and codecs that stay
			p.renew()
			store := liveHeap()
			defer debug.SetGCPercent(debug.SetGCPercent(-1))
			var peak uint64
			sample := func() { peak = max(peak, liveHeap()) }
			p.handle.Rows = sampledRows{p.store, sample}
			p.submit.Records = sampledRecords{p.store, sample}
			p.expire.Records = p.submit.Records
			n := 0
			for b.Loop() {
				p.run()
				sample()
				p.renew()
				n++
			}
			b.ReportMetric(float64(store), "store-B")
			b.ReportMetric(above(peak, store), "peak-B")
			b.ReportMetric(0, "ns/op") // collecting at every sample makes it meaningless
		})
	}
}

// sampledRecords takes a sample at every verdict.
type sampledRecords struct {
	pipeline.Records
	sample func()
}

func (s sampledRecords) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	s.sample()
	return s.Records.FinishRecord(ctx, f)
}
