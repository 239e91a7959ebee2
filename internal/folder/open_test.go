package folder_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/store/sqlite"
	"github.com/awsmp/metering/internal/store/sqlite/sqlitetest"
)

// A store of an older release stays as it is while a node runs on its folder: that may be one of the older release, which would not find
// its tables any more. When the node is stopped, the store is migrated, and a node finds the folder free.
func TestStoreOfAnOlderRelease(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := sqlitetest.FirstVersion(t.Context(), folder.Store(dir)); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(folder.Store(dir))
	if err != nil {
		t.Fatal(err)
	}
	node, err := folder.Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = folder.OpenStore(t.Context(), dir)
	var problem *sqlite.Problem
	if !errors.As(err, &problem) || problem.Why != "a node of an older release runs on this folder" || !strings.HasPrefix(problem.Hint, "stop it first") {
		t.Errorf("while the node runs: %v", err)
	}
	if after, err := os.ReadFile(folder.Store(dir)); err != nil || string(before) != string(after) {
		t.Errorf("the store was changed: %v", err)
	}

	if err := folder.Release(node); err != nil {
		t.Fatal(err)
	}
	store, err := folder.OpenStore(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Deprovisioning(t.Context()); err != nil { // asks a table of the newest version
		t.Error(err)
	}
	if node, err = folder.Take(dir); err != nil { // while the store is open
		t.Fatal(err)
	}
	if err := folder.Release(node); err != nil {
		t.Error(err)
	}
}

// A node that runs is nothing to a store of this version, or to one that is made.
func TestStoreBesideANode(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	node, err := folder.Take(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = folder.Release(node) }()
	if _, err := folder.Take(dir); !errors.Is(err, folder.ErrTaken) {
		t.Errorf("taken twice: %v", err)
	}
	for range 2 {
		store, err := folder.OpenStore(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}
}
