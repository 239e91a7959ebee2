// Package folder is the layout of a data folder: where a node of one machine keeps its store, what beside it, and how its clock
// stands. Whoever opens a folder asks here.
package folder

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"time"
)

// Default is the folder that commands use unless they are told another.
const Default = "awsmp-data"

// Store is the path of the store in a folder.
func Store(dir string) string { return filepath.Join(dir, "usage.db") }

// Journal is the path of what the simulator holds.
func Journal(dir string) string { return filepath.Join(dir, "marketplace.ndjson") }

// Lock is the path of the file that a running node holds, and in which it says where it is to be found.
func Lock(dir string) string { return filepath.Join(dir, "node.lock") }

// offsetSetting is the store's setting that shifts its clock: a Go duration that is added to real time.
const offsetSetting = "clock-offset"

// Settings are small values that last beside the usage in a store.
type Settings interface {
	// Setting is a value, empty where there is none.
	Setting(ctx context.Context, name string) (string, error)
	SetSetting(ctx context.Context, name, value string) error
}

// Offset is how far a store's clock runs ahead of real time, and whether it was ever set.
func Offset(ctx context.Context, s Settings) (d time.Duration, set bool, err error) {
	text, err := s.Setting(ctx, offsetSetting)
	if err == nil && text != "" {
		set = true
		d, err = time.ParseDuration(text)
	}
	if err != nil {
		return 0, set, fmt.Errorf("read the clock's offset: %w", err)
	}
	return d, set, nil
}

// SetOffset keeps how far a store's clock runs ahead of real time.
func SetOffset(ctx context.Context, s Settings, d time.Duration) error {
	if err := s.SetSetting(ctx, offsetSetting, d.String()); err != nil {
		return fmt.Errorf("save the clock's offset: %w", err)
	}
	return nil
}

// offsetAge is how old the offset may be that a Clock goes by.
const offsetAge = 100 * time.Millisecond

// Clock is a store's clock as a program beside the node sees it: the node may move it at any time. It is safe for concurrent use.
type Clock struct {
	settings Settings

	mu     sync.Mutex
	offset time.Duration
	read   time.Time
}

// NewClock is the clock of a store.
func NewClock(ctx context.Context, s Settings) (*Clock, error) {
	offset, _, err := Offset(ctx, s)
	if err != nil {
		return nil, err
	}
	return &Clock{settings: s, offset: offset, read: time.Now()}, nil
}

// Now is the store's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Sub(c.read) > offsetAge {
		if d, _, err := Offset(context.Background(), c.settings); err == nil { // else the one before
			c.offset = d
		}
		c.read = now
	}
	return now.Add(c.offset)
}
