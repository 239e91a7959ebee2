package usage_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/usage"
)

// events are a batch as products send them: buyers in turn, moment by moment.
func events(n, buyers int, every time.Duration, tags bool) []usage.Event {
	list := make([]usage.Event, n)
	for i := range list {
		list[i] = usage.Event{
			License: fmt.Sprintf("arn:aws:license-manager::111122223333:license:l-%032d", i%buyers), Account: account, Dimension: "api_calls",
			Time: noon.Add(-time.Hour + time.Duration(i/buyers)*every%time.Hour), Quantity: 3,
		}
		if tags {
			list[i].Allocations = []usage.Allocation{{Quantity: 3, Tags: []usage.Tag{{Key: "team", Value: strconv.Itoa(i % 10)}}}}
		}
	}
	return list
}

func BenchmarkAdd(b *testing.B) {
	for _, tt := range []struct {
		name string
		tags bool
	}{{"plain", false}, {"tagged", true}} {
		b.Run(tt.name, func(b *testing.B) {
			w, err := usage.NewWriter(memory.New(memory.Options{}), usage.Options{Now: clock})
			if err != nil {
				b.Fatal(err)
			}
			list := events(10_000, 100, time.Second, tt.tags)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := w.Add(b.Context(), list[i%len(list)]); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			if err := w.Close(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// Everything that an event costs in a batch of 10,000, with the table's own work and, in "table", that work alone.
func BenchmarkWriteBatch(b *testing.B) {
	for _, tt := range []struct {
		name   string
		buyers int
		every  time.Duration
		tags   bool
	}{
		{"60 events a row", 10, time.Second, false},
		{"an event a row", 200, time.Minute, false},
		{"an event a row, tagged", 200, time.Minute, true},
	} {
		list := events(10_000, tt.buyers, tt.every, tt.tags)
		for _, inner := range []bool{false, true} {
			name := tt.name
			if inner {
				name += ", table left out"
			}
			b.Run(name, func(b *testing.B) {
				var table usage.Table = memory.New(memory.Options{})
				if inner {
					table = swift{}
				}
				w, err := usage.NewWriter(table, usage.Options{Now: clock})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if !inner { // an empty table: rows that have taken many flushes cost more
						b.StopTimer()
						_ = w.Close(b.Context())
						if w, err = usage.NewWriter(memory.New(memory.Options{}), usage.Options{Now: clock}); err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
					errs, err := w.WriteBatch(b.Context(), strconv.Itoa(i), list)
					if err != nil || errs[0] != nil {
						b.Fatal(err, errs[0])
					}
				}
				b.StopTimer()
				_ = w.Close(b.Context())
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(list)), "ns/event")
			})
		}
	}
}
