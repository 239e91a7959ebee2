package simulator_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/simulator"
)

// newUsage is a call of 25 records that no call before it had.
func newUsage(n int) string {
	records := repeat(25, func(i int) string {
		return fmt.Sprintf(`{"CustomerAWSAccountId":"%s","Dimension":"dimension-%d","LicenseArn":"%s","Quantity":%d,"Timestamp":1773151200}`, buyer, 25*n+i, licenseA, i)
	})
	return `{"UsageRecords":[` + strings.Join(records, ",") + `]}`
}

func send(b *testing.B, sim *simulator.Simulator, body string) time.Duration {
	req, _ := http.NewRequest(http.MethodPost, simulator.Endpoint, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", "AWSMPMeteringService.BatchMeterUsage")
	start := time.Now()
	res, err := sim.Client().Do(req)
	took := time.Since(start)
	if err != nil || res.StatusCode != http.StatusOK {
		b.Fatal(res, err)
	}
	return took
}

func opened(b *testing.B, path string) *simulator.Simulator {
	now := time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)
	sim, err := simulator.New(simulator.Options{OpenDoors: true, Journal: path, Now: func() time.Time { return now }})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sim.Close() })
	return sim
}

// BenchmarkJournal sends the same calls to a simulator in memory and to one with a journal by turns, so that what else the
// machine does strikes both. "times" is what a call costs with the journal, in calls without.
func BenchmarkJournal(b *testing.B) {
	path := filepath.Join(b.TempDir(), "journal")
	memory, kept := opened(b, ""), opened(b, path)
	var without, with time.Duration
	n := 0
	for b.Loop() {
		body := newUsage(n)
		n++
		without += send(b, memory, body)
		with += send(b, kept, body)
	}
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(with)/float64(without), "times")
	b.ReportMetric(float64(with.Nanoseconds())/float64(n), "ns/call")
	b.ReportMetric(float64(info.Size())/float64(n), "B/line")
	b.ReportMetric(0, "ns/op") // two calls and the making of their body
}

// BenchmarkJournalReplay opens a journal of 1,000 calls with 25 records each.
func BenchmarkJournalReplay(b *testing.B) {
	path := filepath.Join(b.TempDir(), "journal")
	sim := opened(b, path)
	const calls = 1000
	for n := range calls {
		send(b, sim, newUsage(n))
	}
	for b.Loop() {
		if err := sim.Close(); err != nil {
			b.Fatal(err)
		}
		sim = opened(b, path)
	}
	b.ReportMetric(calls*25*float64(b.N)/b.Elapsed().Seconds(), "records/s")
	if len(sim.Ledger()) != calls*25 {
		b.Fatal("records were lost")
	}
}
