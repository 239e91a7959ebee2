package memory_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/registration"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/internal/store/storetest"
)

var (
	_ pipeline.Rows        = (*memory.Store)(nil)
	_ pipeline.Records     = (*memory.Store)(nil)
	_ pipeline.Subscribers = (*memory.Store)(nil)

	_ lifecycle.Subscribers    = (*memory.Store)(nil)
	_ registration.Subscribers = (*memory.Store)(nil)
	_ registration.Profiles    = (*memory.Store)(nil)
)

func TestContract(t *testing.T) {
	t.Parallel()
	for name, variant := range map[string]struct {
		contract  func(t *testing.T, open func(t *testing.T) storetest.Store)
		pageBytes int
	}{
		"pages of 1 MiB": {storetest.Run, 0}, "pages of one item": {storetest.Run, 1}, "pages of some items": {storetest.Pages, 2000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			variant.contract(t, func(*testing.T) storetest.Store { return memory.New(memory.Options{PageBytes: variant.pageBytes}) })
		})
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	storetest.Waiting(t, memory.New(memory.Options{}))
}

const license = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func hour() metering.Hour {
	return metering.HourOf(time.Date(2026, 3, 10, 14, 0, 0, 0, time.UTC))
}

func group(dimension string) metering.Group {
	return metering.Group{License: license, Account: "444455556666", Dimension: dimension, Hour: hour()}
}

func row(g metering.Group, offset int, quantity int64) metering.Row {
	return metering.NewRow(g, g.Hour.Second(offset), quantity)
}

func put(t testing.TB, s *memory.Store, rows ...metering.Row) {
	t.Helper()
	for _, r := range rows {
		if err := s.PutRow(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
}

// Case 41: where a page is full with the last item, one more page has to be asked for.
func TestExactPages(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 10} {
		s := memory.New(memory.Options{PageBytes: 1})
		for i := range n {
			put(t, s, row(group("api"), i, 1))
		}
		got := 0
		for _, err := range s.GroupRows(t.Context(), group("api")) {
			if err != nil {
				t.Fatal(err)
			}
			got++
		}
		if stats := s.Stats(); got != n || stats.Queries != int64(n)+1 || stats.ItemsRead != int64(n) {
			t.Errorf("%d items in %+v, want %d in %d queries", got, stats, n, n+1)
		}
	}
}

// What has ended costs a pass nothing, however much of it there is.
func TestPassDoesNotPayForHistory(t *testing.T) {
	t.Parallel()
	var costs []memory.Stats
	for _, history := range []int{0, 5000} {
		s := memory.New(memory.Options{})
		for i := range history {
			done := row(group(fmt.Sprint("old", i)), 0, 1)
			done.Pending, done.Status = "", metering.Aggregated
			put(t, s, done)
			if err := s.PutRecord(t.Context(), metering.Record{License: license, SortKey: group(fmt.Sprint("old", i)).RecordKey(), Status: metering.Success}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range 10 {
			put(t, s, row(group("api"), i, 1))
		}
		before := s.Stats()
		for _, err := range s.PendingRows(t.Context(), hour(), "") {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range s.GroupRows(t.Context(), group("api")) {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, err := range s.PendingRecords(t.Context(), hour(), "") {
			if err != nil {
				t.Fatal(err)
			}
		}
		after := s.Stats()
		costs = append(costs, memory.Stats{ItemsRead: after.ItemsRead - before.ItemsRead, Queries: after.Queries - before.Queries, Writes: after.Writes - before.Writes})
	}
	want := memory.Stats{ItemsRead: 20, Queries: 3}
	if costs[0] != want || costs[1] != want {
		t.Errorf("a pass costs %+v, and with history %+v; want %+v for both", costs[0], costs[1], want)
	}
}

func TestStatsCountWritesThatWereRefused(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	r := row(group("api"), 0, 1)
	put(t, s, r)
	for range 3 {
		if _, err := s.LabelRow(t.Context(), metering.Label{License: r.License, SortKey: r.SortKey, Marker: true, Quantity: r.Quantity}); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Stats().Writes; got != 4 {
		t.Errorf("%d writes, want 4", got)
	}
}

func TestIndexIsInTheOrderOfItsKeys(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{PageBytes: 300})
	var want []string
	for _, l := range []string{license + "-b", license, license + "-a"} {
		for _, dimension := range []string{"storage", "api"} {
			g := group(dimension)
			g.License = l
			r := row(g, 0, 1)
			put(t, s, r)
			want = append(want, l+" "+r.SortKey)
		}
	}
	slices.Sort(want)
	var got []string
	for p, err := range s.PendingRows(t.Context(), hour(), "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p.License+" "+p.SortKey)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// An attribute that a caller set both ways is stored once, as a table would hold it.
func TestReadsGoOnWhereTheyWere(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{PageBytes: 1})
	of := func(l string, offset int) metering.Row {
		g := group("api")
		g.License = license + l
		return row(g, offset, 1)
	}
	put(t, s, of("b", 1), of("b", 2), of("d", 1))
	var got []string
	for p, err := range s.PendingRows(t.Context(), hour(), "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, strings.TrimPrefix(p.License, license)+p.SortKey[len(p.SortKey)-1:])
		if len(got) == 1 { // on b1: put around the cursor, and take its own partition away
			put(t, s, of("a", 9), of("b", 0), of("b", 3), of("c", 1))
			for _, offset := range []int{0, 1, 2, 3} {
				if err := s.DeleteRow(t.Context(), license+"b", of("b", offset).SortKey); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if diff := cmp.Diff([]string{"b1", "c1", "d1"}, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestLicensesInPages(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	var want []string
	for i := range 2000 {
		l := fmt.Sprintf("%s-%04d", license, i)
		want = append(want, l)
		g := group("api")
		g.License = l
		if i%3 != 1 {
			put(t, s, row(g, 0, 1))
		}
		if i%3 != 2 {
			if err := s.PutRecord(t.Context(), metering.Record{License: l, SortKey: g.RecordKey()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []string
	for l, err := range s.Licenses(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, l)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("licenses (-want +got):\n%s", diff)
	}
}

func TestLifecycleContract(t *testing.T) {
	t.Parallel()
	storetest.RunLifecycle(t, func(*testing.T) storetest.Lifecycle { return memory.New(memory.Options{}) })
}

// Readers and writers at once: for the race detector, and no read may fail or show a row twice.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{PageBytes: 2000})
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 300 {
				r := row(group("api"), i*4+w, 1)
				if err := s.PutRow(t.Context(), r); err != nil {
					t.Error(err)
				}
				l := metering.Label{License: r.License, SortKey: r.SortKey, Marker: true, Quantity: r.Quantity, Status: metering.Aggregated}
				if out, err := s.LabelRow(t.Context(), l); err != nil || !out.Done {
					t.Errorf("LabelRow: %+v, %v", out, err)
				}
			}
		})
		wg.Go(func() {
			for range 20 {
				last := ""
				for r, err := range s.GroupRows(t.Context(), group("api")) {
					if err != nil || r.SortKey <= last {
						t.Errorf("row %s after %s, %v", r.SortKey, last, err)
					}
					last = r.SortKey
				}
				for _, err := range s.PendingRows(t.Context(), hour(), "") {
					if err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	n := 0
	for _, err := range s.LicenseRows(t.Context(), license) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1200 {
		t.Errorf("%d rows, want 1200", n)
	}
}
