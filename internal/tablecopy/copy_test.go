package tablecopy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/internal/tablecopy"
)

// The ledger of a copy is the ledger of the tables, in every scope.
func TestBooks(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		url   string
		page  int32
		hours int
	}{
		"dynalite": {standin.Dynalite(t), 9, 2},
		"moto":     {standin.Moto(t), 30, 1}, // which reads its whole table for each page
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := tables(t, test.url, test.page)
			fill(t, source, 2, test.hours)
			c := copied(t, t.TempDir(), source, tablecopy.Options{})
			defer c.Close()
			first := metering.HourOf(now()) - metering.Hour(1+test.hours)
			scopes := map[string]ledger.Scope{"whole": {}, "a license": {License: licenseOf(1)}}
			if name == "dynalite" { // whose tables they were does not matter to hours of the copy
				scopes["an hour"], scopes["until an hour"] = ledger.Scope{From: &first, To: &first}, ledger.Scope{To: &first}
			}
			for name, scope := range scopes {
				sheet := books(t, c, source, scope)
				same(t, computed(t, source, scope), sheet.Report)
				if !sheet.Report.Balanced() || sheet.Report.Total.Written.Units == 0 {
					t.Errorf("%s: %+v", name, sheet.Report.Imbalances)
				}
				if n := sheet.Copy; n.Rows != int64(2*test.hours*34+2*3) || n.Records != int64(2*test.hours*10+2) || n.ReadAgain == 0 || n.ReadAgain >= sheet.Report.Groups {
					t.Errorf("%s: copied %+v of %d groups", name, n, sheet.Report.Groups)
				}
			}
			one := tablecopy.OfLicense(source, licenseOf(1))
			own := copied(t, t.TempDir(), one, tablecopy.Options{Segments: 2})
			defer own.Close()
			sheet := books(t, own, one, ledger.Scope{License: licenseOf(1)})
			same(t, computed(t, source, ledger.Scope{License: licenseOf(1)}), sheet.Report)
			if sheet.Copy.Rows != int64(test.hours*34+3) || sheet.Copy.Records != int64(test.hours*10+1) {
				t.Errorf("of one license %+v were copied", sheet.Copy)
			}
			if p := c.Progress(); name == "dynalite" && p.Units <= 0 {
				t.Errorf("progress %+v", p)
			}
		})
	}
}

// hooked is a source that asks before every page whether it may be read, and counts the pages.
type hooked struct {
	*dynamodb.Ledger
	pages  atomic.Int64
	before func(ctx context.Context, page int64) error
}

func (h *hooked) page(ctx context.Context) error {
	n := h.pages.Add(1)
	if h.before == nil {
		return nil
	}
	return h.before(ctx, n)
}

func (h *hooked) ScanRows(ctx context.Context, segment, segments int, after string) (dynamodb.Part[metering.Row], error) {
	if err := h.page(ctx); err != nil {
		return dynamodb.Part[metering.Row]{}, err
	}
	return h.Ledger.ScanRows(ctx, segment, segments, after)
}

func (h *hooked) ScanRecords(ctx context.Context, segment, segments int, after string) (dynamodb.Part[metering.Record], error) {
	if err := h.page(ctx); err != nil {
		return dynamodb.Part[metering.Record]{}, err
	}
	return h.Ledger.ScanRecords(ctx, segment, segments, after)
}

// A copy that is interrupted again and again goes on where it stood, and counts no page twice.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	source := &hooked{Ledger: tables(t, standin.Dynalite(t), 5)}
	fill(t, source.Ledger, 2, 2)
	dir := t.TempDir()
	whole := copied(t, t.TempDir(), source, tablecopy.Options{Segments: 2})
	defer whole.Close()
	pages := source.pages.Swap(0)

	stop := errors.New("the network is gone")
	for runs := 1; ; runs++ {
		c := opened(t, dir, source, tablecopy.Options{Segments: 1 + runs})
		if c.Continued() != (runs > 1) || c.Dropped != "" {
			t.Fatalf("run %d: continued %v, dropped %q", runs, c.Continued(), c.Dropped)
		}
		read := source.pages.Load()
		source.before = func(_ context.Context, page int64) error {
			if page > read+8 {
				return stop
			}
			return nil
		}
		err := c.Run(t.Context(), source, nil, nil)
		if err == nil {
			same(t, computed(t, source, ledger.Scope{}), books(t, c, source, ledger.Scope{}).Report)
			if a, b := whole.Progress(), c.Progress(); a != b {
				t.Errorf("read %+v, and in one go %+v", b, a)
			}
			check(t, c.Close())
			break
		}
		if !errors.Is(err, stop) || runs > 100 {
			t.Fatalf("run %d: %v", runs, err)
		}
		if _, err := c.Books(t.Context(), source, ledger.Scope{}, nil, nil); err == nil {
			t.Fatal("a part of the tables must not pass for the whole")
		}
		check(t, c.Close())
	}
	if got := source.pages.Load(); got <= pages {
		t.Errorf("%d pages were read, and in one go %d: nothing was interrupted", got, pages)
	}
}

// What a folder holds of an earlier copy is gone on with only where it is one of the same tables and young enough.
func TestEarlierCopies(t *testing.T) {
	t.Parallel()
	source, other := tables(t, standin.Dynalite(t), 0), tables(t, standin.Dynalite(t), 0)
	fill(t, source, 1, 1)
	later := func(d time.Duration) tablecopy.Options {
		return tablecopy.Options{Now: func() time.Time { return now().Add(d) }}
	}
	for name, test := range map[string]struct {
		source    tablecopy.Source
		options   tablecopy.Options
		continued bool
		dropped   string
	}{
		"an hour later":   {source, later(time.Hour), true, ""},
		"two days later":  {source, later(48 * time.Hour), false, "it was begun 48h0m0s ago"},
		"of other tables": {other, later(time.Hour), false, "it is of other tables"},
		"to be made anew": {source, tablecopy.Options{Fresh: true}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "state")
			check(t, copied(t, dir, source, tablecopy.Options{}).Close())
			c := opened(t, dir, test.source, test.options)
			if c.Continued() != test.continued || c.Finished() != test.continued || c.Dropped != test.dropped {
				t.Errorf("continued %v, finished %v, dropped %q", c.Continued(), c.Finished(), c.Dropped)
			}
			if rows := c.Progress().Rows; (rows > 0) != test.continued {
				t.Errorf("%d rows", rows)
			}
			surveys, err := source.Surveys(t.Context())
			check(t, err)
			if _, err := tablecopy.Open(t.Context(), dir, surveys, tablecopy.Options{Now: now}); !errors.Is(err, tablecopy.ErrTaken) {
				t.Errorf("taken twice: %v", err)
			}
			check(t, c.Remove())
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("something is left: %v", err)
			}
		})
	}
}

// A folder with something else in it keeps that.
func TestRemoveLeavesTheRest(t *testing.T) {
	t.Parallel()
	source := tables(t, standin.Dynalite(t), 0)
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("mine"), 0o600))
	check(t, copied(t, dir, source, tablecopy.Options{}).Remove())
	entries, err := os.ReadDir(dir)
	check(t, err)
	if len(entries) != 1 || entries[0].Name() != "notes.txt" {
		t.Errorf("%v", entries)
	}
}

func TestForeignFile(t *testing.T) {
	t.Parallel()
	source := tables(t, standin.Dynalite(t), 0)
	surveys, err := source.Surveys(t.Context())
	check(t, err)
	dir := t.TempDir()
	check(t, os.WriteFile(tablecopy.Path(dir), []byte(strings.Repeat("no store", 500)), 0o600))
	if _, err := tablecopy.Open(t.Context(), dir, surveys, tablecopy.Options{Now: now}); err == nil {
		t.Error("a file of somebody else was taken for a copy")
	}
	c, err := tablecopy.Open(t.Context(), dir, surveys, tablecopy.Options{Now: now, Fresh: true})
	check(t, err)
	check(t, c.Remove())
}
