package memory_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// rowNumber spreads rows as a product does: 60 rows an hour for each of 1,000 buyers.
func rowNumber(i int) metering.Row {
	g := group("api_calls")
	g.License = fmt.Sprintf("arn:aws:license-manager::111122223333:license:l-%032d", i/60%1000)
	g.Hour += metering.Hour(i / 60_000)
	return row(g, i%60*60, 1)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkPutRow(b *testing.B) {
	s := memory.New(memory.Options{})
	before := heap()
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		if err := s.PutRow(b.Context(), rowNumber(i)); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(heap()-before)/float64(b.N), "heap-B/row")
	runtime.KeepAlive(s)
}

// One pass over an hour in which 60,000 rows wait, behind a day of rows that have ended.
func BenchmarkPendingRows(b *testing.B) {
	s := memory.New(memory.Options{})
	for i := range 24 * 60_000 {
		r := rowNumber(i)
		if i >= 60_000 {
			r.Pending = ""
		}
		put(b, s, r)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		n := 0
		for _, err := range s.PendingRows(b.Context(), hour(), "") {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 60_000 {
			b.Fatalf("%d entries", n)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/60_000, "ns/entry")
}

func BenchmarkLabelRow(b *testing.B) {
	s := memory.New(memory.Options{})
	for i := range b.N {
		put(b, s, rowNumber(i))
	}
	reason := metering.AggregatedReason(60, 60)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		r := rowNumber(i)
		l := metering.Label{License: r.License, SortKey: r.SortKey, Quantity: r.Quantity, Status: metering.Aggregated, Reason: reason, At: hour().End()}
		if out, err := s.LabelRow(b.Context(), l); err != nil || !out.Done {
			b.Fatalf("%+v, %v", out, err)
		}
	}
}
