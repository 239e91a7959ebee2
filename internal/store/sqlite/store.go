package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/awsmp/metering/internal/store"
)

// Options are the settings of a Store; a zero is the default named here.
type Options struct {
	// Patience is how long a change waits while another process writes: 10 s.
	Patience time.Duration
	// PageBytes is the size of a page that a read hands out at once: 1 MiB. A page holds one item at least.
	PageBytes int
	// KeepVersion makes Open fail with ErrOlderVersion where the file is of an older version, and leave it as it is: for a program
	// beside a node, which may be of the release that wrote the file.
	KeepVersion bool

	unsynced bool // no change waits for the disk: for tests that lose no power
}

const (
	defaultPatience  = 10 * time.Second
	defaultPageBytes = 1 << 20
	readers          = 4
	// maxPage bounds the items of a page, so that no read keeps a connection, and with it an old state of the file, for long.
	maxPage = 5000
)

// Store is an open store file. It is safe for concurrent use, also beside other processes.
type Store struct {
	path      string
	pageBytes int
	writer    *conn      // of serve alone
	readers   chan *conn // those not in use
	names     names

	changes   chan change
	batch     []change // of serve
	closing   chan struct{}
	served    chan struct{}
	closeOnce sync.Once
	closeErr  error
}

// Open opens the store at path and makes it where there is none; the folder must exist. What keeps it from that is a *Problem.
// The caller closes the store.
func Open(ctx context.Context, path string, o Options) (*Store, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // SQLite does not say why it cannot open a file
	if err != nil {
		return nil, permission(path, err)
	}
	if err := file.Close(); err != nil {
		return nil, permission(path, err)
	}
	s := &Store{
		path: path, pageBytes: cmp.Or(max(o.PageBytes, 0), defaultPageBytes), readers: make(chan *conn, readers),
		changes: make(chan change, 1024), closing: make(chan struct{}), served: make(chan struct{}),
	}
	patience := cmp.Or(max(o.Patience, 0), defaultPatience)
	if err := s.open(patience, o); err != nil {
		s.hangUp()
		return nil, err
	}
	go s.serve()
	return s, nil
}

func (s *Store) open(patience time.Duration, o Options) (err error) {
	// Nothing is changed, the journal's mode included, before it is known that the file is ours.
	if s.writer, err = dial(s.path, patience); err != nil {
		return err
	}
	oldest := 1
	if o.KeepVersion {
		oldest = len(migrations)
	}
	if _, err := version(s.writer, oldest, len(migrations)); err != nil {
		return err
	}
	synchronous := "PRAGMA synchronous = FULL"
	if o.unsynced {
		synchronous = "PRAGMA synchronous = OFF"
	}
	for _, pragma := range []string{
		synchronous, "PRAGMA cache_size = -65536", "PRAGMA wal_autocheckpoint = 8000",
	} {
		if err := s.writer.script(pragma); err != nil {
			return err
		}
	}
	if err := s.writer.logAhead(); err != nil {
		return err
	}
	if err := migrate(s.writer, oldest, migrations); err != nil {
		return err
	}
	for range readers {
		c, err := dial(s.path, patience, "PRAGMA query_only = ON", "PRAGMA cache_size = -8192")
		if err != nil {
			return err
		}
		s.readers <- c
	}
	return nil
}

// Close answers the changes under way, brings all of them into the file itself, and closes it.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		<-s.served
		err := s.writer.script("PRAGMA wal_checkpoint(TRUNCATE)") // another process may keep it from that: nothing is lost
		if !isLock(err) {
			s.closeErr = err
		}
		for range readers {
			s.closeErr = errors.Join(s.closeErr, (<-s.readers).close())
		}
		s.closeErr = errors.Join(s.closeErr, s.writer.close())
	})
	return s.closeErr
}

// hangUp closes what open has opened.
func (s *Store) hangUp() {
	if s.writer != nil {
		_ = s.writer.close()
	}
	for len(s.readers) > 0 {
		_ = (<-s.readers).close()
	}
}

// read runs do on a connection for reading.
func (s *Store) read(ctx context.Context, do func(*decoder) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.closing:
		return errClosed
	default:
	}
	select {
	case c := <-s.readers:
		defer func() { s.readers <- c }()
		return do(&decoder{conn: c, names: &s.names})
	case <-s.closing:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Setting is the value that was set under a name, empty where there is none.
func (s *Store) Setting(ctx context.Context, name string) (value string, err error) {
	err = s.read(ctx, func(d *decoder) error {
		return d.query("SELECT value FROM setting WHERE name = ?", []any{name}, func(v []driver.Value) (bool, error) {
			value = text(v[0])
			return false, nil
		})
	})
	return value, err
}

// SetSetting keeps a value under a name, in the place of an earlier one.
func (s *Store) SetSetting(ctx context.Context, name, value string) error {
	return s.write(ctx, 1, func(tx *session) error {
		_, err := tx.exec("INSERT OR REPLACE INTO setting (name, value) VALUES (?, ?)", name, value)
		return err
	})
}

// Waiting is what waits, by bucket.
func (s *Store) Waiting(ctx context.Context) ([]store.Waiting, error) {
	var list store.Backlog
	err := s.read(ctx, func(d *decoder) error {
		list = store.Backlog{}
		for _, part := range []struct {
			table string
			add   func(w *store.Waiting, n int, units int64)
		}{
			{"usage_row", func(w *store.Waiting, n int, units int64) { w.Rows, w.Units = n, w.Units+units }},
			{"usage_record", func(w *store.Waiting, n int, units int64) { w.Records, w.Units = n, w.Units+units }},
		} {
			err := d.query("SELECT pending, count(*), total(max(quantity, 0)) FROM "+part.table+" WHERE pending IS NOT NULL GROUP BY pending", nil,
				func(v []driver.Value) (bool, error) {
					n, _ := v[1].(int64)
					units, _ := v[2].(float64) // exact up to 2^53
					part.add(list.Of(hourText(v[0])), int(n), int64(units))
					return true, nil
				})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return list.List(), err
}
