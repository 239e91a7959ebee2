package marketplace_test

import (
	"context"
	"flag"
	"fmt"
	"net/http/httptest"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

var drainRecords = flag.Int("drain.records", 2500, "records of one BenchmarkDrain run; 50000 is what one submitter run may read, 200 s")

// BenchmarkDrain sends pending records over the AWS SDK and loopback HTTP to the simulator, which takes ten calls a second and
// answers late, and writes every verdict back. It runs in real time: 25 records a call, so 2,500 records take 10 s at the limit.
func BenchmarkDrain(b *testing.B) {
	for _, latency := range []time.Duration{50 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond} {
		b.Run(fmt.Sprint("latency=", latency), func(b *testing.B) {
			for b.Loop() {
				drain(b, latency)
			}
		})
	}
}

func drain(b *testing.B, latency time.Duration) {
	sim, err := simulator.New(simulator.Options{OpenDoors: true, CallsPerSecond: simulator.DefaultCallsPerSecond})
	if err != nil {
		b.Fatal(err)
	}
	sim.Inject(simulator.Fault{Kind: simulator.Latency, Latency: latency})
	server := httptest.NewServer(sim)
	defer server.Close()
	hour := metering.HourOf(time.Now()) - 1
	pending := make([]metering.Record, *drainRecords)
	for i := range pending {
		g := metering.Group{License: licenseA, Account: fmt.Sprintf("%012d", i), Dimension: "api_calls", Hour: hour}
		pending[i] = metering.NewRecord(g, int64(i))
	}
	books := deskOf(pending...)
	calls := &timed{API: marketplace.New(marketplace.Options{
		Region: "us-east-1", Endpoint: server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	})}
	sender := marketplace.NewSender(calls, marketplace.Settings{})

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	started := time.Now()
	report, err := sender.Send(context.Background(), []lane{laneOf(pending...)}, books)
	took := time.Since(started)
	runtime.ReadMemStats(&after)

	stats := sim.Stats()
	if err != nil || report.Settled != len(pending) || len(books.pending()) != 0 {
		b.Fatalf("report %+v, error %v, %d pending", report, err, len(books.pending()))
	}
	// Over the starts: a run's last answer comes its latency later, whatever the pace.
	rate := float64(stats.Calls-1) / stats.LastCall.Sub(stats.FirstCall).Seconds()
	b.ReportMetric(100*rate/simulator.DefaultCallsPerSecond, "%limit")
	b.ReportMetric(float64(busiest(calls.started)), "starts-in-busiest-s")
	b.ReportMetric(float64(stats.BusiestSecond), "arrivals-in-busiest-s")
	b.ReportMetric(float64(stats.Throttled), "throttled")
	b.ReportMetric(took.Seconds(), "s/run")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/float64(len(pending)), "allocs/record")
}

// timed notes when calls start.
type timed struct {
	marketplace.API
	mu      sync.Mutex
	started []time.Time
}

func (c *timed) Call(ctx context.Context, call metering.Call) (metering.Answer, error) {
	c.mu.Lock()
	c.started = append(c.started, time.Now())
	c.mu.Unlock()
	return c.API.Call(ctx, call)
}
