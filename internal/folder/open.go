package folder

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/awsmp/metering/internal/store/sqlite"
)

// ErrTaken is the error of a folder that another process has taken: a node runs on it.
var ErrTaken = errors.New("locked by another process")

// Take takes a folder that exists for this process alone, as a node does, and returns its lock file. The caller gives it to Release.
func Take(dir string) (*os.File, error) {
	file, err := os.OpenFile(Lock(dir), os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil {
		if err = lock(file); err != nil {
			_ = file.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("take the data folder: %w", err)
	}
	return file, nil
}

// Release gives a folder free.
func Release(file *os.File) error { return errors.Join(unlock(file), file.Close()) }

// OpenStore opens the store in a folder that exists, and makes it where there is none, for a program that does not run a node. A node
// may run on the folder meanwhile, of another release too: so a store of an older version is migrated only while nobody has taken the
// folder. What keeps it from the store is a *sqlite.Problem. The caller closes the store.
func OpenStore(ctx context.Context, dir string) (*sqlite.Store, error) {
	store, err := sqlite.Open(ctx, Store(dir), sqlite.Options{KeepVersion: true})
	if !errors.Is(err, sqlite.ErrOlderVersion) {
		return store, err
	}
	file, taken := Take(dir)
	if errors.Is(taken, ErrTaken) {
		return nil, &sqlite.Problem{Path: Store(dir), Why: "a node of an older release runs on this folder", Hint: "stop it first; nothing was changed", Err: err}
	}
	if taken != nil {
		return nil, taken
	}
	defer func() { _ = Release(file) }()
	return sqlite.Open(ctx, Store(dir), sqlite.Options{})
}
