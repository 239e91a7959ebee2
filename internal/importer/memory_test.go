package importer

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// bigFile is a file of n lines over spreadOver seconds, in the order of their times or, spread, all over the minutes; every 50th is refused.
func bigFile(t testing.TB, n int, spread bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), fmt.Sprintf("%d.csv", n))
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(file)
	_, _ = w.WriteString(header)
	first := metering.HourOf(noon()) - 3
	for i := range n {
		second := i * spreadOver / n
		if spread {
			second = i * 7919 % spreadOver
		}
		quantity := "1"
		if i%50 == 49 {
			quantity = "2.5"
		}
		fmt.Fprintf(w, "%s,111122223333,dimension_%d,%s,%s,\n", license, i%5, first.Second(0)+metering.Second(second), quantity)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// Ten times the lines take the memory of one chunk all the same. It is no parallel test, so that nobody else's heap is measured.
func TestMemoryIsFlatInTheNumberOfLines(t *testing.T) {
	peak := func(lines int) uint64 {
		w := newWorld()
		most, calls := uint64(0), 0
		out, err := importFile(t, w, bigFile(t, lines, true), func(im *Import) {
			im.Limits.Lines = smallChunk
			chunk := im.Limits.orDefault().Lines
			im.Progress = func(int64, int) {
				if calls++; calls%max(1, chunk/progressLines/4) != 0 { // four times a chunk
					return
				}
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapAlloc)
			}
		})
		if err != nil || out.Lines != lines || out.Refused.Count != lines/50 {
			t.Fatalf("%+v, %v", out, err)
		}
		return most
	}
	small, big := peak(manyLines/10), peak(manyLines)
	t.Logf("live heap at its peak: %.1f MB for %d lines, %.1f MB for %d", float64(small)/1e6, manyLines/10, float64(big)/1e6, manyLines)
	if big > small+small/4 {
		t.Errorf("%d bytes for %d lines, %d for %d", small, manyLines/10, big, manyLines)
	}
}

// BenchmarkImport is the whole way of a line: both passes, the rules, the fold, the writer, and the store in memory.
func BenchmarkImport(b *testing.B) {
	for _, spread := range []bool{false, true} {
		b.Run(map[bool]string{false: "sorted", true: "spread"}[spread], func(b *testing.B) {
			const n = 200_000
			path := bigFile(b, n, spread)
			b.ReportAllocs()
			for b.Loop() {
				source, err := OpenFile(context.Background(), path, nil)
				if err != nil {
					b.Fatal(err)
				}
				w := &world{Store: memory.New(memory.Options{}), settings: map[string]string{}}
				out, err := Import{Source: source, Store: w, Now: noon}.Run(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				_, _ = out.Close(), source.Close()
			}
			b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
