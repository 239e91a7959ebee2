package sqlite_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
)

// All of these wait for the disk, as the store does in use. Times are per row, or per entry of an index.

const (
	shortName = 81 // of an ARN as AWS makes them
	longName  = 1000
	batchSize = 1000
)

// spread is row i as a product writes it: 60 an hour for each of 1,000 buyers.
func spread(i, length int) metering.Row {
	g := group(licenseOf(i/60%1000, length), "api_calls")
	g.Hour += metering.Hour(i / 60_000)
	return row(g, i%60*60, 1)
}

func spreadRows(from, n, length int) []metering.Row {
	all := make([]metering.Row, n)
	for i := range all {
		all[i] = spread(from+i, length)
	}
	return all
}

func perRow(b *testing.B, rows int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(rows), "ns/row")
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkPutRows(b *testing.B) {
	for name, length := range map[string]int{"short names": shortName, "long names": longName} {
		b.Run(name, func(b *testing.B) {
			s := open(b, file(b), sqlite.Options{})
			n := 0
			for b.Loop() {
				b.StopTimer()
				batch := spreadRows(n, batchSize, length)
				b.StartTimer()
				put(b, s, batch...)
				n += batchSize
			}
			perRow(b, n)
		})
	}
}

// The same rows under long names as under short ones, turn by turn: how many times as long they take.
func BenchmarkLongNames(b *testing.B) {
	stores := map[int]*sqlite.Store{shortName: open(b, file(b), sqlite.Options{}), longName: open(b, file(b), sqlite.Options{})}
	took := make(map[int]time.Duration)
	n := 0
	for b.Loop() {
		for length, s := range stores {
			batch := spreadRows(n, batchSize, length)
			began := time.Now()
			put(b, s, batch...)
			took[length] += time.Since(began)
		}
		n += batchSize
	}
	b.ReportMetric(float64(took[longName])/float64(took[shortName]), "x")
}

func BenchmarkFlushRows(b *testing.B) {
	for name, again := range map[string]int{"new rows": 1, "the same rows": 20} {
		b.Run(name, func(b *testing.B) {
			s := open(b, file(b), sqlite.Options{})
			n := 0
			for b.Loop() {
				b.StopTimer()
				batch := make([]metering.Flush, batchSize)
				for i := range batch {
					r := n/(batchSize*again)*batchSize + i
					g := group(licenseOf(r/60%1000, shortName), "api_calls")
					g.Hour += metering.Hour(r / 60_000)
					batch[i] = metering.NewFlush(g, g.Hour.Second(r%60*60), 1, fmt.Sprintf("%016x", n))
					batch[i].At = now()
				}
				b.StartTimer()
				for _, out := range s.FlushRows(b.Context(), batch) {
					if !out.Done {
						b.Fatalf("%+v", out)
					}
				}
				n += batchSize
			}
			perRow(b, n)
		})
	}
}

// One row a call: from one goroutine each waits for the disk alone, from many they share its commits.
func BenchmarkPutRow(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprint(writers, " goroutines"), func(b *testing.B) {
			s := open(b, file(b), sqlite.Options{})
			var next atomic.Int64
			b.ResetTimer()
			var all sync.WaitGroup
			for range writers {
				all.Go(func() {
					for {
						i := next.Add(1) - 1
						if i >= int64(b.N) {
							return
						}
						if err := s.PutRow(b.Context(), spread(int(i), shortName)); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
			perRow(b, b.N)
		})
	}
}

func BenchmarkLabelRows(b *testing.B) {
	const set = 300
	s := open(b, file(b), sqlite.Options{})
	n := 0
	for b.Loop() {
		b.StopTimer()
		batch := spreadRows(n, set, shortName)
		put(b, s, batch...)
		labels := make([]metering.Label, set)
		for i, r := range batch {
			labels[i] = label(r, metering.AggregatedReason(60, 60))
		}
		b.StartTimer()
		for _, out := range s.LabelRows(b.Context(), labels) {
			if !out.Done {
				b.Fatalf("%+v", out)
			}
		}
		n += set
	}
	perRow(b, n)
}

// history is a store with an hour in which 60,000 rows of 1,000 buyers wait, behind four hours of rows that have ended.
func history(b *testing.B) *sqlite.Store {
	b.Helper()
	s := open(b, file(b), sqlite.Options{})
	for from := 0; from < 300_000; from += 10_000 {
		batch := spreadRows(from, 10_000, shortName)
		for i := range batch {
			if from >= 60_000 {
				batch[i].Pending = ""
			}
		}
		put(b, s, batch...)
	}
	return s
}

func BenchmarkReads(b *testing.B) {
	s := history(b)
	b.Run("PendingRows", func(b *testing.B) {
		n := 0
		for b.Loop() {
			for _, err := range s.PendingRows(b.Context(), hour(), "") {
				check(b, "PendingRows", err)
				n++
			}
		}
		perRow(b, n)
	})
	b.Run("GroupRows", func(b *testing.B) {
		n := 0
		for i := 0; b.Loop(); i++ {
			for _, err := range s.GroupRows(b.Context(), group(licenseOf(i%1000, shortName), "api_calls")) {
				check(b, "GroupRows", err)
				n++
			}
		}
		perRow(b, n)
	})
	b.Run("Waiting", func(b *testing.B) {
		for b.Loop() {
			list, err := s.Waiting(b.Context())
			check(b, "Waiting", err)
			if len(list) != 1 || list[0].Rows != 60_000 || list[0].Units != 60_000 || !strings.HasPrefix(list[0].Bucket, "2026") {
				b.Fatalf("%+v", list)
			}
		}
	})
}
