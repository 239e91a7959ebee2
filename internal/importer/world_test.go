package importer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

const (
	license = "arn:aws:license-manager::111122223333:license:l-1a2b3c4d5e6f708192a3b4c5d6e7f801"
	header  = "licenseArn,customerAWSAccountId,dimension,timestamp,quantity,usageAllocations\n"
)

func noon() time.Time { return time.Date(2026, 3, 10, 12, 30, 0, 0, time.UTC) }

// csvLine is usage of 2026-03-10 at a time of the day.
func csvLine(dimension, at, quantity string) string {
	return fmt.Sprintf("%s,111122223333,%s,2026-03-10T%s,%s,\n", license, dimension, at, quantity)
}

// world is a store in memory whose settings survive, and which fails when it is told to.
type world struct {
	*memory.Store
	mu       sync.Mutex
	settings map[string]string
	fail     func() (before, after bool) // asked at each FlushRows
}

var errDown = errors.New("the store is down")

func newWorld() *world {
	return &world{Store: memory.New(memory.Options{}), settings: map[string]string{}}
}

func (w *world) Setting(_ context.Context, name string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.settings[name], nil
}

func (w *world) SetSetting(_ context.Context, name, value string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settings[name] = value
	return nil
}

func (w *world) FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed {
	var before, after bool
	if w.fail != nil {
		before, after = w.fail()
	}
	lost := make([]metering.Flushed, len(flushes))
	for i := range lost {
		lost[i].Err = errDown
	}
	if before {
		return lost
	}
	out := w.Store.FlushRows(ctx, flushes)
	if after {
		return lost
	}
	return out
}

// held are the quantities of all rows by their keys, and their sum.
func (w *world) held(t testing.TB) (map[string]int64, int64) {
	t.Helper()
	rows, sum := map[string]int64{}, int64(0)
	for l, err := range w.Licenses(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for row, err := range w.LicenseRows(t.Context(), l) {
			if err != nil {
				t.Fatal(err)
			}
			rows[l+" "+row.SortKey] = row.Quantity.N
			sum += row.Quantity.N
		}
	}
	return rows, sum
}

// commit makes the record of an hour of the dimension from the rows that it has.
func (w *world) commit(t testing.TB, dimension string, hour metering.Hour) {
	t.Helper()
	g := metering.Group{License: license, Account: "111122223333", Dimension: dimension, Hour: hour}
	fold := metering.NewFold(g, noon())
	for row, err := range w.GroupRows(t.Context(), g) {
		if err != nil {
			t.Fatal(err)
		}
		fold.Add(row)
	}
	record, reason := fold.Record()
	if reason != "" {
		t.Fatal(reason)
	}
	if _, err := w.CreateRecord(t.Context(), record); err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// importFile imports a file; the outcome is closed with the test.
func importFile(t testing.TB, w *world, path string, change func(*Import)) (*Outcome, error) {
	t.Helper()
	source, err := OpenFile(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = source.Close() })
	return importSource(t.Context(), t, w, source, change)
}

func importSource(ctx context.Context, t testing.TB, w *world, source *Source, change func(*Import)) (*Outcome, error) {
	t.Helper()
	im := Import{Source: source, Store: w, Now: noon}
	if change != nil {
		change(&im)
	}
	out, err := im.Run(ctx)
	t.Cleanup(func() { _ = out.Close() })
	if got := out.Taken.Lines + out.Late.Lines + out.Refused.Count; got != out.Lines {
		t.Errorf("%d lines have a fate, of %d", got, out.Lines)
	}
	return out, err
}

func names(t testing.TB, n *Names) (list []Named) {
	t.Helper()
	if err := n.Each(func(l Named) error { list = append(list, l); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

// randomFile is a file of usage in any order; some of its lines are refused.
func randomFile(r *rand.Rand, lines int) string {
	var b strings.Builder
	b.WriteString(header)
	for range lines {
		quantity := fmt.Sprint(r.IntN(5))
		if r.IntN(12) == 0 {
			quantity = "2.5"
		}
		b.WriteString(csvLine(string(rune('a'+r.IntN(3))), fmt.Sprintf("%02d:%02d:%02d", 8+r.IntN(5), r.IntN(3), r.IntN(60)), quantity))
	}
	return b.String()
}
