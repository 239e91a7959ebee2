// Package local is the desk of one machine: the store of a data folder, beside the node that may run on it.
package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
	"github.com/awsmp/metering/simulator"
)

// ErrNoStore is the error of a folder in which no store is.
var ErrNoStore = errors.New("there is no store")

// Open opens the desk of a data folder. It makes nothing: where there is no store, that is ErrNoStore. The desk's clock is the store's,
// which a node may move meanwhile. Its plant asks the node that runs on the folder, and is nil where none answers. The caller calls what is
// returned beside the desk when it is done.
func Open(ctx context.Context, dir string) (*desk.Desk, func() error, error) {
	return openWith(ctx, dir, true)
}

// OpenTables opens the desk of a data folder as Open does, for who needs no plant: no node is asked.
func OpenTables(ctx context.Context, dir string) (*desk.Desk, func() error, error) {
	return openWith(ctx, dir, false)
}

func openWith(ctx context.Context, dir string, withPlant bool) (*desk.Desk, func() error, error) {
	if _, err := os.Stat(folder.Store(dir)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%w in the folder %s", ErrNoStore, dir)
	} else if err != nil {
		return nil, nil, fmt.Errorf("look for the store: %w", err)
	}
	store, err := folder.OpenStore(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	opened, err := open(ctx, dir, store, withPlant)
	if err != nil {
		return nil, nil, errors.Join(err, store.Close())
	}
	return opened, store.Close, nil
}

// tables are the store with what a status says of it.
type tables struct {
	*sqlite.Store
	dir   string
	start []string // flags of the folder's last node
}

// StorePath is the path of the store.
func (t tables) StorePath() string { return folder.Store(t.dir) }

// StartCommand starts a node on the store: the one that ran on it last, where one did.
func (t tables) StartCommand() string {
	command := "awsmp dev"
	if t.dir != folder.Default {
		command += " --data " + desk.Word(t.dir)
	}
	for _, flag := range t.start {
		command += " " + desk.Word(flag)
	}
	return command
}

// Offset is how far the store's clock runs ahead of real time.
func (t tables) Offset(ctx context.Context) (time.Duration, error) {
	offset, _, err := folder.Offset(ctx, t.Store)
	return offset, err
}

func open(ctx context.Context, dir string, store *sqlite.Store, withPlant bool) (*desk.Desk, error) {
	clock, err := folder.NewClock(ctx, store)
	if err != nil {
		return nil, err
	}
	node, err := folder.NodeOf(ctx, store)
	if err != nil {
		return nil, err
	}
	start, err := folder.StartOf(ctx, store)
	if err != nil {
		return nil, err
	}
	d := &desk.Desk{
		Name: "folder " + dir, Tables: tables{store, dir, start}, ProductCode: cmp.Or(node.ProductCode, simulator.DefaultProductCode),
		Rules: metering.Rules{LockHours: node.LockHours}, Now: clock.Now,
	}
	if !withPlant {
		return d, nil
	}
	var plant *plant
	if plant, d.Silent, err = findPlant(ctx, dir); err != nil {
		return nil, err
	}
	if plant != nil {
		d.Plant = plant
	}
	return d, nil
}
