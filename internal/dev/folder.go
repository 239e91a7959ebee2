package dev

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/store/sqlite"
)

// Folder is a data folder that this process alone runs a node on. Imports may write to its store all the same.
type Folder struct {
	Store *sqlite.Store
	path  string
	lock  *os.File
}

// InUseError is the error of a folder that another node runs on.
type InUseError struct {
	Path string
	Owner
}

func (e *InUseError) Error() string {
	text := fmt.Sprintf("another awsmp dev runs on the folder %s", e.Path)
	if e.Process != 0 {
		text += fmt.Sprintf(", process %d", e.Process)
	}
	if e.Node != "" {
		text += ", at " + e.Node
	}
	return text
}

// Owner is the node that runs on a folder, as its lock file names it.
type Owner struct {
	Process int    `json:"process"`
	Node    string `json:"node"` // its address, as http://127.0.0.1:8787
}

// OpenFolder takes a folder that exists and opens the store in it. The error is an *InUseError or a *sqlite.Problem where one of them
// is the cause.
func OpenFolder(ctx context.Context, path string) (*Folder, error) {
	file, err := folder.Take(path)
	if errors.Is(err, folder.ErrTaken) {
		owner, _ := OwnerOf(path) // it may not have written itself in yet
		return nil, &InUseError{path, owner}
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, &sqlite.Problem{Path: path, Why: "this user may not write to it", Hint: "give this user write access, or use a folder of your own: awsmp dev --data ~/awsmp-data", Err: err}
	}
	if err != nil {
		return nil, err
	}
	f := &Folder{path: path, lock: file}
	if f.Store, err = sqlite.Open(ctx, folder.Store(path), sqlite.Options{}); err != nil {
		_ = folder.Release(file)
		return nil, err
	}
	return f, nil
}

// Dir is the path of the folder.
func (f *Folder) Dir() string { return f.path }

// StorePath is the path of the store.
func (f *Folder) StorePath() string { return folder.Store(f.path) }

// Journal is the path of what the simulator holds.
func (f *Folder) Journal() string { return folder.Journal(f.path) }

// Announce writes into the lock file where the node is to be found.
func (f *Folder) Announce(node string) error {
	text, err := json.Marshal(Owner{Process: os.Getpid(), Node: node})
	if err == nil {
		err = f.lock.Truncate(0)
	}
	if err == nil {
		_, err = f.lock.WriteAt(append(text, '\n'), 0)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", f.lock.Name(), err)
	}
	return nil
}

// Close closes the store and gives the folder free.
func (f *Folder) Close() error {
	return errors.Join(f.Store.Close(), f.lock.Truncate(0), folder.Release(f.lock))
}

// OwnerOf is the node that a folder names, which may have died since; the zero Owner where it names none.
func OwnerOf(path string) (Owner, error) {
	text, err := os.ReadFile(folder.Lock(path))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(text) == 0 {
		return Owner{}, nil
	}
	var o Owner
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		return Owner{}, fmt.Errorf("read the lock file: %w", err)
	}
	return o, nil
}
