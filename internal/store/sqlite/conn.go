package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net/url"
	"time"

	"modernc.org/sqlite"
)

// conn is one connection and the statements prepared on it, for one goroutine at a time. It speaks to the driver itself:
// database/sql between them costs a quarter of an insert's time, and what it is for, pooling and retrying, is not wanted here.
type conn struct {
	path       string
	raw        driver.Conn
	statements map[string]driver.Stmt
	args       []driver.NamedValue
}

func dial(path string, patience time.Duration, pragmas ...string) (*conn, error) {
	uri := url.URL{Scheme: "file", Opaque: (&url.URL{Path: path}).EscapedPath()}
	raw, err := new(sqlite.Driver).Open(uri.String())
	if err != nil {
		return nil, problem(path, err)
	}
	c := &conn{path: path, raw: raw, statements: make(map[string]driver.Stmt)}
	pragmas = append([]string{fmt.Sprintf("PRAGMA busy_timeout = %d", patience.Milliseconds())}, pragmas...)
	for _, p := range pragmas {
		if err := c.script(p); err != nil {
			_ = c.close()
			return nil, err
		}
	}
	return c, nil
}

func (c *conn) close() error {
	for _, s := range c.statements {
		_ = s.Close()
	}
	return c.raw.Close()
}

// script runs statements without arguments.
func (c *conn) script(text string) error {
	_, err := c.raw.(driver.ExecerContext).ExecContext(context.Background(), text, nil)
	return problem(c.path, err)
}

func (c *conn) prepare(text string, args []any) (driver.Stmt, error) {
	s, ok := c.statements[text]
	if !ok {
		var err error
		if s, err = c.raw.Prepare(text); err != nil {
			return nil, problem(c.path, err)
		}
		c.statements[text] = s
	}
	c.args = c.args[:0]
	for i, a := range args {
		c.args = append(c.args, driver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return s, nil
}

// exec runs one statement and returns how many rows it changed.
func (c *conn) exec(text string, args ...any) (int64, error) {
	s, err := c.prepare(text, args)
	if err != nil {
		return 0, err
	}
	result, err := s.(driver.StmtExecContext).ExecContext(context.Background(), c.args)
	if err != nil {
		return 0, problem(c.path, err)
	}
	return result.RowsAffected()
}

// query hands each row to take, which may stop the read by returning false, and may ask other queries. The values hold until take
// returns.
func (c *conn) query(text string, args []any, take func(v []driver.Value) (bool, error)) (err error) {
	s, err := c.prepare(text, args)
	if err != nil {
		return err
	}
	rows, err := s.(driver.StmtQueryContext).QueryContext(context.Background(), c.args)
	if err != nil {
		return problem(c.path, err)
	}
	defer func() { err = errors.Join(err, problem(c.path, rows.Close())) }()
	values := make([]driver.Value, len(rows.Columns()))
	for {
		if err := rows.Next(values); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return problem(c.path, err)
		}
		if on, err := take(values); err != nil || !on {
			return err
		}
	}
}

// number is the one number that a query answers with, 0 for no row.
func (c *conn) number(text string, args ...any) (n int64, err error) {
	err = c.query(text, args, func(v []driver.Value) (bool, error) {
		n, _ = v[0].(int64)
		return false, nil
	})
	return n, err
}

// transact runs do in one transaction that may write.
func (c *conn) transact(do func() error) error {
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := do()
	if err == nil {
		_, err = c.exec("COMMIT")
	}
	if err != nil {
		_ = c.script("ROLLBACK") // fails where SQLite has rolled back already
	}
	return err
}

// logAhead sets the journal's mode. Unlike all else that SQLite does, changing it does not wait for others that do the same: they
// are waited for here.
func (c *conn) logAhead() error {
	for tries := 0; ; tries++ {
		err := c.script("PRAGMA journal_mode = WAL")
		if !isLock(err) || tries == 100 {
			return err
		}
		if err := c.script("BEGIN EXCLUSIVE; ROLLBACK"); err != nil {
			return err
		}
	}
}
