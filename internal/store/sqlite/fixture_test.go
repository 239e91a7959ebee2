package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
)

const (
	licenseA = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	licenseB = "arn:aws:license-manager::111122223333:license:l-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	buyer    = "444455556666"
)

// now is twenty minutes after the end of hour.
func now() time.Time { return time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC) }

func hour() metering.Hour { return metering.HourOf(now()) - 1 }

func group(license, dimension string) metering.Group {
	return metering.Group{License: license, Account: buyer, Dimension: dimension, Hour: hour()}
}

func row(g metering.Group, offset int, quantity int64) metering.Row {
	return metering.NewRow(g, g.Hour.Second(offset), quantity)
}

func rows(g metering.Group, n int) []metering.Row {
	all := make([]metering.Row, n)
	for i := range all {
		all[i] = row(g, i, 1)
	}
	return all
}

func flush(g metering.Group, offset int, quantity int64, token string) metering.Flush {
	f := metering.NewFlush(g, g.Hour.Second(offset), quantity, token)
	f.At = now()
	return f
}

func label(r metering.Row, reason string) metering.Label {
	return metering.Label{License: r.License, SortKey: r.SortKey, Marker: true, Quantity: r.Quantity, Status: metering.Aggregated, Reason: reason, At: now()}
}

// file is the path of a store that does not exist yet.
func file(t testing.TB) string { return filepath.Join(t.TempDir(), "usage.db") }

// open is the store at path, closed when the test ends.
func open(t testing.TB, path string, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// quick is a new store that does not wait for the disk.
func quick(t testing.TB) *sqlite.Store { return open(t, file(t), sqlite.Options{}.Unsynced()) }

func shut(t testing.TB, s *sqlite.Store) {
	t.Helper()
	check(t, "Close", s.Close())
}

func check(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func put(t testing.TB, s *sqlite.Store, rows ...metering.Row) {
	t.Helper()
	check(t, "PutRows", s.PutRows(t.Context(), rows))
}

func collect[T any](t testing.TB, seq iter.Seq2[T, error]) (all []T) {
	t.Helper()
	for v, err := range seq {
		check(t, "read", err)
		all = append(all, v)
	}
	return all
}

func getRow(t testing.TB, s *sqlite.Store, license, sortKey string) *metering.Row {
	t.Helper()
	r, err := s.Row(t.Context(), license, sortKey)
	check(t, "Row", err)
	return r
}

func same(t testing.TB, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// problem checks that err is a *Problem of the path in the words given.
func problem(t testing.TB, err error, path, why, hint string) {
	t.Helper()
	var p *sqlite.Problem
	if !errors.As(err, &p) {
		t.Errorf("error %v, want a *Problem: %s", err, why)
		return
	}
	same(t, "problem", []string{path, why, hint}, []string{p.Path, p.Why, p.Hint})
}

// other is a connection of another program to the file.
func other(t testing.TB, path string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	check(t, "open", err)
	db.SetMaxIdleConns(-1) // what is closed is closed
	conn, err := db.Conn(context.Background())
	check(t, "connect", err)
	t.Cleanup(func() {
		_ = conn.Close()
		check(t, "close", db.Close())
	})
	return conn
}

func run(t testing.TB, c *sql.Conn, statement string) {
	t.Helper()
	if _, err := c.ExecContext(context.Background(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// ask is what a query answers another program: the rows, their columns as text.
func ask(t testing.TB, c *sql.Conn, query string, args ...any) (all [][]string) {
	t.Helper()
	found, err := c.QueryContext(context.Background(), query, args...)
	check(t, query, err)
	defer found.Close()
	columns, err := found.Columns()
	check(t, query, err)
	for found.Next() {
		values := make([]any, len(columns))
		for i := range values {
			values[i] = new(any)
		}
		check(t, query, found.Scan(values...))
		line := make([]string, len(columns))
		for i, v := range values {
			if v := *v.(*any); v != nil {
				line[i] = fmt.Sprint(v)
			}
		}
		all = append(all, line)
	}
	check(t, query, found.Err())
	return all
}

// sound checks the file's integrity as SQLite sees it.
func sound(t testing.TB, path string) {
	t.Helper()
	same(t, "integrity", [][]string{{"ok"}}, ask(t, other(t, path), "PRAGMA integrity_check"))
}

func bytesOf(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	check(t, "read the file", err)
	return b
}

func write(t testing.TB, path string, content []byte) {
	t.Helper()
	check(t, "write the file", os.WriteFile(path, content, 0o644))
}
