// Package tablecopy reads both usage tables of a stack once, into a store on this machine, and computes the ledger from it: tables of any
// size with memory that does not grow, and at half the price of consistent reads. The tables are read by parallel scans at a pace, each
// page is kept in one transaction with the place where it ends, so that a copy that was interrupted goes on where it stood.
//
// A copy is of no single moment. What is settled in it is what it was when it was read; what waited, was written meanwhile or does not
// balance is read again from the tables, group by group, as a ledger beside live stages is.
package tablecopy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/internal/store/sqlite"
)

// Source is the tables that are copied. dynamodb.Ledger is one.
type Source interface {
	ledger.Store
	// Row reads a row as it stands; nil where there is none.
	Row(ctx context.Context, license, sortKey string) (*metering.Row, error)
	// Surveys are what is known of the tables before they are read.
	Surveys(ctx context.Context) ([]dynamodb.Survey, error)
	// ScanRows and ScanRecords read one page of a segment, after the place where an earlier page ended.
	ScanRows(ctx context.Context, segment, segments int, after string) (dynamodb.Part[metering.Row], error)
	ScanRecords(ctx context.Context, segment, segments int, after string) (dynamodb.Part[metering.Record], error)
	// QueryRows and QueryRecords read one page of a license, likewise.
	QueryRows(ctx context.Context, license, after string) (dynamodb.Part[metering.Row], error)
	QueryRecords(ctx context.Context, license, after string) (dynamodb.Part[metering.Record], error)
}

// OfLicense is a source with nothing but one license's usage, which is read by queries: consistently, and at the price of that license
// alone. Of a copy of it, one segment is all.
func OfLicense(s Source, license string) Source { return ofLicense{s, license} }

type ofLicense struct {
	Source
	license string
}

func (o ofLicense) ScanRows(ctx context.Context, segment, _ int, after string) (dynamodb.Part[metering.Row], error) {
	if segment > 0 {
		return dynamodb.Part[metering.Row]{}, nil
	}
	return o.QueryRows(ctx, o.license, after)
}

func (o ofLicense) ScanRecords(ctx context.Context, segment, _ int, after string) (dynamodb.Part[metering.Record], error) {
	if segment > 0 {
		return dynamodb.Part[metering.Record]{}, nil
	}
	return o.QueryRecords(ctx, o.license, after)
}

const (
	// DefaultSegments is in how many parts each table is read at once.
	DefaultSegments = 4
	// MaxSegments bounds them: more are no faster at any pace that leaves the stages alone.
	MaxSegments = 64
	// MaxAge is how old a copy may be that is gone on with or used again.
	MaxAge = 24 * time.Hour

	format = 1
)

// ErrTaken is the error of a state folder that another command works in.
var ErrTaken = errors.New("another awsmp ledger works on this copy")

// Options are the settings of a copy.
type Options struct {
	Segments int  // of a copy that is begun; 0 means DefaultSegments
	Fresh    bool // begin anew, whatever is there
	Now      func() time.Time
}

// Copy is a copy of the tables in a folder of this machine, taken by this process alone.
type Copy struct {
	// Dropped is why an earlier copy in the folder was not gone on with; empty where there was none, or it was.
	Dropped string

	dir   string
	lock  *os.File
	store *sqlite.Store
	now   func() time.Time
	plan  plan
	parts []*part
}

// plan is what a copy was begun as. It is kept in its store.
type plan struct {
	Format     int       `json:"format"`
	Tables     []string  `json:"tables"` // their identities
	Segments   int       `json:"segments"`
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	Continued  bool      `json:"continued,omitempty"` // by another command than the one that began it
}

const planSetting = "copy"

// Open takes a folder, which it makes where there is none, and opens the copy in it or begins one. A copy of other tables, or one that
// is older than MaxAge, is replaced. The error is ErrTaken or a *sqlite.Problem where one of them is the cause. The caller closes the copy.
func Open(ctx context.Context, dir string, tables []dynamodb.Survey, o Options) (*Copy, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	lock, err := folder.Take(dir)
	if errors.Is(err, folder.ErrTaken) {
		return nil, fmt.Errorf("%w, in %s", ErrTaken, dir)
	}
	if err != nil {
		return nil, err
	}
	c := &Copy{dir: dir, lock: lock, now: o.Now}
	if err := c.open(ctx, tables, o); err != nil {
		if c.store != nil {
			err = errors.Join(err, c.store.Close())
		}
		return nil, errors.Join(err, folder.Release(lock))
	}
	return c, nil
}

func (c *Copy) open(ctx context.Context, tables []dynamodb.Survey, o Options) (err error) {
	if o.Fresh {
		if err := c.discard(); err != nil {
			return err
		}
	}
	if c.store, err = sqlite.Open(ctx, c.path(), sqlite.Options{}); err != nil {
		return err
	}
	var ids []string
	for _, t := range tables {
		ids = append(ids, t.ID)
	}
	text, err := c.store.Setting(ctx, planSetting)
	if err != nil {
		return err
	}
	if text != "" {
		if err := json.Unmarshal([]byte(text), &c.plan); err != nil {
			return fmt.Errorf("read the copy's plan: %w", err)
		}
		if c.Dropped = c.plan.unfit(ids, c.now()); c.Dropped == "" {
			return c.resume(ctx)
		}
		if err := errors.Join(c.store.Close(), c.discard()); err != nil {
			return err
		}
		if c.store, err = sqlite.Open(ctx, c.path(), sqlite.Options{}); err != nil {
			return err
		}
	}
	segments := o.Segments
	if segments <= 0 {
		segments = DefaultSegments
	}
	c.plan = plan{Format: format, Tables: ids, Segments: min(segments, MaxSegments), StartedAt: c.now().UTC()}
	if err := c.keepPlan(ctx); err != nil {
		return err
	}
	return c.readParts(ctx)
}

// unfit is why a copy cannot be gone on with, in words.
func (p plan) unfit(tables []string, now time.Time) string {
	same := len(tables) == len(p.Tables)
	for i := 0; same && i < len(tables); i++ {
		same = tables[i] == p.Tables[i]
	}
	switch age := now.Sub(p.StartedAt); {
	case p.Format != format:
		return "it is of another release"
	case !same:
		return "it is of other tables"
	case age > MaxAge:
		return fmt.Sprintf("it was begun %s ago", age.Round(time.Minute))
	}
	return ""
}

func (c *Copy) resume(ctx context.Context) error {
	if !c.plan.Continued {
		c.plan.Continued = true
		if err := c.keepPlan(ctx); err != nil {
			return err
		}
	}
	return c.readParts(ctx)
}

func (c *Copy) keepPlan(ctx context.Context) error {
	text, err := json.Marshal(c.plan)
	if err == nil {
		err = c.store.SetSetting(ctx, planSetting, string(text))
	}
	if err != nil {
		return fmt.Errorf("keep the copy's plan: %w", err)
	}
	return nil
}

// Path is that of the copy's file in a folder: a store as a node of one machine has it.
func Path(dir string) string { return filepath.Join(dir, "copy.db") }

func (c *Copy) path() string { return Path(c.dir) }

// discard removes the files of a copy that is closed.
func (c *Copy) discard() error {
	var errs error
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(c.path() + suffix); !errors.Is(err, fs.ErrNotExist) {
			errs = errors.Join(errs, err)
		}
	}
	return errs
}

// Continued reports whether the copy was begun by an earlier command.
func (c *Copy) Continued() bool { return c.plan.Continued }

// StartedAt is when the copy was begun.
func (c *Copy) StartedAt() time.Time { return c.plan.StartedAt }

// Finished reports whether both tables were read to their ends.
func (c *Copy) Finished() bool { return !c.plan.FinishedAt.IsZero() }

// Close closes the copy and leaves it where it is, so that another command goes on with it or uses it again.
func (c *Copy) Close() error { return errors.Join(c.store.Close(), folder.Release(c.lock)) }

// Remove closes the copy and removes it, and its folder where nothing else is in it.
func (c *Copy) Remove() error {
	err := errors.Join(c.store.Close(), c.discard(), os.Remove(folder.Lock(c.dir)), folder.Release(c.lock))
	_ = os.Remove(c.dir) // fails where something else is in it
	return err
}
