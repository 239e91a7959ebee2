package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
)

// pageSizes are the usual one, and one item a page.
var pageSizes = map[string]sqlite.Options{"1 MiB": sqlite.Options{}.Unsynced(), "one item": sqlite.Options{PageBytes: 1}.Unsynced()}

// Case 41: where a page is full with the last item, one more has to be asked for, and no more.
func TestExactPages(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 2, 10} {
		s := open(t, file(t), pageSizes["one item"])
		put(t, s, rows(group(licenseA, "api"), n)...)
		same(t, "rows of a group", n, len(collect(t, s.GroupRows(t.Context(), group(licenseA, "api")))))
		same(t, "rows of a license", n, len(collect(t, s.LicenseRows(t.Context(), licenseA))))
		same(t, "entries of all licenses", n, len(collect(t, s.PendingRows(t.Context(), hour(), ""))))
		same(t, "entries of a license", n, len(collect(t, s.PendingRows(t.Context(), hour(), licenseA))))
	}

	// Two full pages of the usual size, exactly: a page is bound by its number of items here.
	s := quick(t)
	const total = 2 * sqlite.MaxPage
	for left := total; left > 0; left -= 2500 {
		put(t, s, rows(group(licenseA, fmt.Sprint("dimension-", left)), 2500)...)
	}
	for license, want := range map[string]int{"": total, licenseA: total} {
		seen := make(map[string]bool)
		for p, err := range s.PendingRows(t.Context(), hour(), license) {
			if check(t, "PendingRows", err); seen[p.SortKey] {
				t.Fatalf("%s came twice", p.SortKey)
			}
			seen[p.SortKey] = true
		}
		same(t, "entries", want, len(seen))
	}
	same(t, "rows", total, len(collect(t, s.LicenseRows(t.Context(), licenseA))))
}

// A read sees each row once that was there before it began and stays, whatever others write meanwhile.
func TestReadsAmongWrites(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]sqlite.Options{"some items": sqlite.Options{PageBytes: 2000}.Unsynced(), "one item": pageSizes["one item"]} {
		s := open(t, file(t), o)
		g := group(licenseA, "api")
		var still []metering.Row
		for i := range 60 {
			still = append(still, row(g, i*10, 1))
		}
		put(t, s, still...)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for w := range 3 {
			all.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					r := row(g, i%60*10+1+w, 1)
					if err := errors.Join(s.PutRow(t.Context(), r), s.DeleteRow(t.Context(), r.License, r.SortKey)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 10 {
			for what, read := range map[string]func() []string{
				"GroupRows":   func() []string { return rowKeys(collect(t, s.GroupRows(t.Context(), g))) },
				"LicenseRows": func() []string { return rowKeys(collect(t, s.LicenseRows(t.Context(), licenseA))) },
				"PendingRows": func() (keys []string) {
					for _, p := range collect(t, s.PendingRows(t.Context(), hour(), "")) {
						keys = append(keys, p.SortKey)
					}
					return keys
				},
			} {
				seen := make(map[string]int)
				last := ""
				for _, key := range read() {
					if key <= last {
						t.Errorf("%s, %s: %s after %s", name, what, key, last)
					}
					last = key
					seen[key]++
				}
				for _, r := range still {
					if seen[r.SortKey] != 1 {
						t.Errorf("%s, %s: %s came %d times", name, what, r.SortKey, seen[r.SortKey])
					}
				}
			}
		}
		cancel()
		all.Wait()
	}
}

func rowKeys(rows []metering.Row) (keys []string) {
	for _, r := range rows {
		keys = append(keys, r.SortKey)
	}
	return keys
}

// Between two pages, and while its items are handed out, a read holds no connection: so it may be left, and others may go on in it.
func TestReadsHoldNoConnection(t *testing.T) {
	t.Parallel()
	for name, o := range pageSizes {
		s := open(t, file(t), o)
		g := group(licenseA, "api")
		put(t, s, rows(g, 5)...)
		check(t, "PutRecord", s.PutRecord(t.Context(), metering.NewRecord(g, 5)))
		for range 3 * sqlite.Readers {
			for _, err := range s.GroupRows(t.Context(), g) {
				check(t, "GroupRows", err)
				break
			}
		}
		same(t, name+": connections after reads that were left", sqlite.Readers, s.FreeReaders())

		// With one connection left, reads within reads within reads.
		release := s.HoldReaders(sqlite.Readers - 1)
		n := 0
		for p, err := range s.PendingRows(t.Context(), hour(), "") {
			check(t, "PendingRows", err)
			same(t, name+": connections in a read", 1, s.FreeReaders())
			for r, err := range s.GroupRows(t.Context(), g) {
				check(t, "GroupRows", err)
				for l, err := range s.Licenses(t.Context()) {
					check(t, "Licenses", err)
					if got := getRow(t, s, l, p.SortKey); got == nil {
						t.Errorf("%s is not there", p.SortKey)
					}
				}
				rec, err := s.Record(t.Context(), g)
				check(t, "Record", err)
				put(t, s, r) // and writes
				n += int(rec.Quantity.N)
			}
		}
		same(t, name+": units met", 5*5*5, n)
		release()
	}
}

func TestMoreReadersThanConnections(t *testing.T) {
	t.Parallel()
	s := open(t, file(t), pageSizes["one item"])
	g := group(licenseA, "api")
	put(t, s, rows(g, 4)...)
	var all sync.WaitGroup
	for range 8 * sqlite.Readers {
		all.Go(func() {
			n := 0
			for p, err := range s.PendingRows(t.Context(), hour(), "") {
				if err != nil {
					t.Error(err)
					return
				}
				for _, err := range s.GroupRows(t.Context(), g) {
					if err != nil {
						t.Error(err)
						return
					}
					if r, err := s.Row(t.Context(), p.License, p.SortKey); err != nil || r == nil {
						t.Errorf("Row: %+v, %v", r, err)
					}
					n++
				}
			}
			if n != 16 {
				t.Errorf("%d rows, want 16", n)
			}
		})
	}
	all.Wait()
	same(t, "connections in the end", sqlite.Readers, s.FreeReaders())
}

func TestContextsEndReads(t *testing.T) {
	t.Parallel()
	s := open(t, file(t), pageSizes["one item"])
	g := group(licenseA, "api")
	put(t, s, rows(g, 5)...)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	var ended error
	for _, err := range s.GroupRows(ctx, g) {
		if ended = err; err != nil {
			break
		}
		if n++; n == 2 {
			cancel()
		}
	}
	if n != 2 || !errors.Is(ended, context.Canceled) {
		t.Errorf("%d rows and then %v, want 2 and %v", n, ended, context.Canceled)
	}

	// One that waits for a connection.
	release := s.HoldReaders(sqlite.Readers)
	ctx, cancel = context.WithCancel(t.Context())
	answer := make(chan error)
	go func() {
		_, err := s.Row(ctx, licenseA, "x")
		answer <- err
	}()
	cancel()
	if err := <-answer; !errors.Is(err, context.Canceled) {
		t.Errorf("Row: %v, want %v", err, context.Canceled)
	}
	put(t, s, row(g, 9, 1)) // writes need none of them
	release()
	same(t, "rows", 6, len(collect(t, s.GroupRows(t.Context(), g))))
}
