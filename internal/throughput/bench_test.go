package throughput

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/store"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/internal/store/sqlite"
	"github.com/awsmp/metering/internal/telemetry"
	"github.com/awsmp/metering/simulator"
	"github.com/awsmp/metering/usage"
)

var rows = flag.Int("rows", 1_000_000, "rows of usage in 2,000 groups of one hour: at most 7,200,000")

const (
	licenses   = 100
	dimensions = 20
	perBatch   = 10_000
	quantity   = 5
)

// hour is the one that all usage is of.
var hour = metering.HourOf(time.Date(2026, 3, 10, 14, 0, 0, 0, time.UTC))

func groups() (all []metering.Group) {
	for l := range licenses {
		for d := range dimensions {
			all = append(all, metering.Group{
				License: fmt.Sprintf("arn:aws:license-manager::111122223333:license:l-%032d", l), Account: "444455556666",
				Dimension: fmt.Sprintf("dimension_%02d", d), Hour: hour,
			})
		}
	}
	return all
}

// batches hands out rows in the order in which they would arrive: second after second, a row of every group in each.
func batches(n int, write func(rows []metering.Row)) {
	all := groups()
	batch := make([]metering.Row, 0, perBatch)
	for i := range n {
		g := all[i%len(all)]
		if batch = append(batch, metering.NewRow(g, hour.Second(i/len(all)%3600), quantity)); len(batch) == perBatch || i == n-1 {
			write(batch)
			batch = batch[:0]
		}
	}
}

type tables interface {
	node.Store
	usage.Table
	Waiting(ctx context.Context) ([]store.Waiting, error)
	PutRows(ctx context.Context, rows []metering.Row) error
}

type kind struct {
	name string
	open func(b *testing.B) tables
}

func durable(b *testing.B) tables {
	s, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "usage.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// plain is the time that the store takes for a batched insert of the rows, and nothing else.
func plain(b *testing.B, s tables, n int) time.Duration {
	began := time.Now()
	batches(n, func(rows []metering.Row) {
		if err := s.PutRows(b.Context(), rows); err != nil {
			b.Fatal(err)
		}
	})
	return time.Since(began)
}

// write is the time of writing the rows through the writer, each second a row of its own.
func write(b *testing.B, s tables, n int) time.Duration {
	began := time.Now()
	w, err := usage.NewWriter(s, usage.Options{Fold: time.Second, FlushEvery: time.Second, Now: func() time.Time { return hour.End() }})
	if err != nil {
		b.Fatal(err)
	}
	events, number := make([]usage.Event, 0, perBatch), 0
	batches(n, func(rows []metering.Row) {
		events = events[:0]
		for _, r := range rows {
			key, _ := metering.ParseRowKey(r.SortKey)
			events = append(events, usage.Event{License: r.License, Account: r.Account, Dimension: r.Dimension, Time: key.Second.Time(), Quantity: quantity})
		}
		number++
		errs, err := w.WriteBatch(b.Context(), fmt.Sprint("batch ", number), events)
		for _, e := range errs {
			if err == nil {
				err = e
			}
		}
		if err != nil {
			b.Fatal(err)
		}
	})
	if err := w.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	return time.Since(began)
}

// bill is the time of everything else: finding, summing, labelling, sending to the simulator and writing its verdicts back. The
// pace of calls passes in virtual time.
func bill(b *testing.B, s tables, n int) time.Duration {
	clock := node.NewVirtualClock(hour.End())
	sim, err := simulator.New(simulator.Options{OpenDoors: true, Now: clock.Now, Sleep: clock.Sleep, CallsPerSecond: simulator.DefaultCallsPerSecond})
	if err != nil {
		b.Fatal(err)
	}
	p, err := node.New(node.Config{
		Store: s, Metrics: &telemetry.Counters{}, Clock: clock,
		Marketplace: marketplace.NewSender(marketplace.New(marketplace.Options{
			Region: "us-east-1", Endpoint: simulator.Endpoint, HTTPClient: sim.Client(), ProductCode: simulator.DefaultProductCode,
		}), marketplace.Settings{Now: clock.Now, Sleep: clock.Sleep}),
	})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	for t := p.Next(clock.Now()); t.Before(hour.End().Add(9 * time.Minute)); t = p.Next(t) {
		clock.MoveTo(t)
		if err := p.RunDue(b.Context(), t); err != nil {
			b.Fatal(err)
		}
	}
	took := time.Since(began)
	var units int64
	for _, sold := range sim.Ledger() {
		units += sold.Quantity
	}
	if want := int64(n) * quantity; units != want {
		b.Fatalf("%d units were billed, want %d", units, want)
	}
	if waiting, err := s.Waiting(b.Context()); err != nil || len(waiting) > 0 {
		b.Fatalf("something waits: %+v, %v", waiting, err)
	}
	return took
}

// BenchmarkWriteToBilled takes rows from the writer until the Marketplace has billed them, as a ratio to what the same store
// takes by plain batched inserts alone, in the same run.
func BenchmarkWriteToBilled(b *testing.B) {
	for _, k := range []kind{
		{"memory", func(*testing.B) tables { return memory.New(memory.Options{}) }},
		{"durable", durable},
	} {
		b.Run(k.name, func(b *testing.B) {
			for b.Loop() {
				insert := plain(b, k.open(b), *rows)
				runtime.GC()
				s := k.open(b)
				written := write(b, s, *rows)
				billed := bill(b, s, *rows)
				report(b, *rows, insert, written+billed)
				b.ReportMetric(written.Seconds()/insert.Seconds(), "write/insert")
				b.ReportMetric(billed.Seconds()/insert.Seconds(), "bill/insert")
			}
		})
	}
}

func report(b *testing.B, n int, insert, took time.Duration) {
	b.ReportMetric(float64(n)/insert.Seconds(), "inserts/s")
	b.ReportMetric(float64(n)/took.Seconds(), "rows/s")
	b.ReportMetric(insert.Seconds()/took.Seconds(), "of-insert-rate")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkIngest posts rows to a node's HTTP address, every second a row of its own, as a ratio to plain batched inserts.
func BenchmarkIngest(b *testing.B) {
	for _, format := range []string{"application/x-ndjson", "text/csv"} {
		b.Run(strings.TrimPrefix(format[strings.IndexByte(format, '/')+1:], "x-"), func(b *testing.B) {
			for b.Loop() {
				insert := plain(b, durable(b), *rows)
				runtime.GC()
				report(b, *rows, insert, ingest(b, durable(b), format, *rows))
			}
		})
	}
}

func ingest(b *testing.B, s tables, format string, n int) time.Duration {
	m, err := dev.New(b.Context(), dev.Options{Store: s.(dev.Store), At: hour.End().Add(-time.Second), Fold: time.Second})
	if err != nil {
		b.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: m.Handler()}
	go server.Serve(listener)
	defer server.Close()
	defer m.Close(context.WithoutCancel(b.Context()))

	body, in := io.Pipe()
	go func() {
		if format == "text/csv" {
			fmt.Fprint(in, "licenseArn,customerAWSAccountId,dimension,timestamp,quantity\n")
		}
		var text []byte
		batches(n, func(rows []metering.Row) {
			text = text[:0]
			for _, r := range rows {
				if format == "text/csv" {
					text = fmt.Appendf(text, "%s,%s,%s,%s,%d\n", r.License, r.Account, r.Dimension, r.Timestamp, quantity)
				} else {
					text = fmt.Appendf(text, "{\"licenseArn\":%q,\"customerAWSAccountId\":%q,\"dimension\":%q,\"timestamp\":%q,\"quantity\":%d}\n", r.License, r.Account, r.Dimension, r.Timestamp, quantity)
				}
			}
			_, _ = in.Write(text)
		})
		_ = in.Close()
	}()
	began := time.Now()
	request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://"+listener.Addr().String()+"/v1/usage", body)
	if err != nil {
		b.Fatal(err)
	}
	request.Header.Set("Content-Type", format)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK || !strings.Contains(string(text), fmt.Sprintf(`"written": %d,`, n)) {
		b.Fatalf("%s: %s", response.Status, text)
	}
	return time.Since(began)
}

// BenchmarkMemory is what a process holds at most while it takes rows from the writer to their billing over the durable store: the
// live heap, and the memory that the system has given it, SQLite's pages included. Neither grows with the number of rows.
func BenchmarkMemory(b *testing.B) {
	for _, share := range []int{10, 3, 1} {
		n := *rows / share
		b.Run(fmt.Sprint(n, "-rows"), func(b *testing.B) {
			for b.Loop() {
				s := durable(b)
				runtime.GC()
				_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600) // the peak begins anew
				live := liveHeap(func() {
					write(b, s, n)
					bill(b, s, n)
				})
				b.ReportMetric(live/1e6, "live-MB")
				b.ReportMetric(peakResident()/1e6, "resident-MB")
				b.ReportMetric(0, "ns/op")
			}
		})
	}
}

// liveHeap is the most that was reachable at any of the moments at which it was looked at.
func liveHeap(do func()) (peak float64) {
	stop, looked := make(chan struct{}), sync.WaitGroup{}
	looked.Go(func() {
		for {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			peak = max(peak, float64(m.HeapAlloc))
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
	})
	do()
	close(stop)
	looked.Wait()
	return peak
}

// peakResident is the process's peak resident set, 0 where the system does not say.
func peakResident() float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kilobytes float64
	_, _ = fmt.Sscan(rest, &kilobytes)
	return kilobytes * 1024
}
