package local_test

import (
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
	"github.com/awsmp/metering/internal/store/sqlite/sqlitetest"
	"github.com/awsmp/metering/usage"
	"github.com/awsmp/metering/usage/local"
)

const license = "arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef"

func open(t *testing.T, dir string) *local.Table {
	t.Helper()
	table, err := local.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	})
	return table
}

// Several programs write the same minute of the same folder: the row holds what all of them have added.
func TestSeveralPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tables := []*local.Table{open(t, dir), open(t, dir), open(t, dir)}
	at := tables[0].Now().Truncate(time.Minute)
	var all sync.WaitGroup
	for _, table := range tables {
		all.Go(func() {
			w, err := usage.NewWriter(table, usage.Options{Now: table.Now})
			if err != nil {
				t.Error(err)
				return
			}
			for range 100 {
				event := usage.Event{License: license, Account: "444455556666", Dimension: "api_calls", Time: at, Quantity: 2}
				if err := w.Add(t.Context(), event); err != nil {
					t.Error(err)
				}
			}
			if err := w.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	row, err := tables[0].Row(t.Context(), license, "444455556666#api_calls#"+at.Add(59*time.Second).Format("2006-01-02T15:04:05"))
	if err != nil || row == nil || row.Quantity != metering.Units(600) || len(row.Flushes) != 3 {
		t.Errorf("%+v, %v; want 600 units from 3 flushes", row, err)
	}
}

// A table goes by the folder's clock, also when that is moved while the table is open.
func TestClock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := sqlite.Open(t.Context(), folder.Store(dir), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	ahead := func(table *local.Table) time.Duration { return time.Until(table.Now()).Round(time.Minute) }
	if table := open(t, dir); ahead(table) != 0 {
		t.Errorf("a new folder is %v ahead", ahead(table))
	}
	if err := folder.SetOffset(t.Context(), store, 36*time.Hour); err != nil {
		t.Fatal(err)
	}
	table := open(t, dir)
	if ahead(table) != 36*time.Hour {
		t.Errorf("%v ahead, want 36 hours", ahead(table))
	}
	if err := folder.SetOffset(t.Context(), store, 40*time.Hour); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for ahead(table) != 40*time.Hour && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond) // it looks again ten times a second
	}
	if ahead(table) != 40*time.Hour {
		t.Errorf("%v ahead, want 40 hours", ahead(table))
	}
}

func TestOpenSaysWhatToDo(t *testing.T) {
	t.Parallel()
	_, err := local.Open(t.Context(), filepath.Join(t.TempDir(), "missing"))
	var problem *sqlite.Problem
	if !errors.As(err, &problem) || !strings.Contains(err.Error(), "its folder does not exist\nTry: make the folder first") {
		t.Errorf("%v, want a problem with a hint", err)
	}
}

// A node of an older release that runs on the folder keeps its store as it is.
func TestOpenBesideANodeOfAnOlderRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := sqlitetest.FirstVersion(t.Context(), folder.Store(dir)); err != nil {
		t.Fatal(err)
	}
	node, err := folder.Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = local.Open(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "a node of an older release runs on this folder\nTry: stop it first") {
		t.Errorf("%v, want a problem with a hint", err)
	}
	if err := folder.Release(node); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}
