package sqlite

import (
	"errors"
	"io/fs"
	"syscall"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"
)

// Problem is what keeps the store from its work, in words, with what to do about it. Nothing of the change that met it is kept.
type Problem struct {
	Path string
	Why  string
	Hint string
	Err  error // behind it, if any
}

// ErrOlderVersion is the cause of a Problem with a file of an older version that must not be migrated: see Options.
var ErrOlderVersion = errors.New("the store is of an older version")

func (p *Problem) Error() string { return p.Path + ": " + p.Why }

func (p *Problem) Unwrap() error { return p.Err }

// problem makes a *Problem of an error of SQLite; other errors stay as they are.
func problem(path string, err error) error {
	var known *Problem
	var e *sqlite.Error
	if err == nil || errors.As(err, &known) || !errors.As(err, &e) {
		return err
	}
	p := &Problem{Path: path, Err: err}
	switch code := e.Code() & 0xff; code {
	case lib.SQLITE_BUSY, lib.SQLITE_LOCKED:
		p.Why, p.Hint = "another program keeps it locked", "end the program that writes to it, perhaps an open sqlite3 session, and try again"
	case lib.SQLITE_FULL:
		p.Why, p.Hint = "the disk is full", "make room and try again; nothing of this change was kept"
	case lib.SQLITE_READONLY:
		p.Why, p.Hint = "it, or its folder, may not be written to", "give this user write access to the folder and the file"
	case lib.SQLITE_CANTOPEN:
		p.Why, p.Hint = "it cannot be opened or created", "check that its folder exists and may be written to"
	case lib.SQLITE_NOTADB:
		p.Why, p.Hint = "it is no SQLite file, or its beginning is damaged", "name another file, or bring back a copy"
	case lib.SQLITE_CORRUPT:
		p.Why, p.Hint = "the file is damaged", "stop all programs that use it, keep a copy, and bring back a backup, or save what can be read: sqlite3 "+path+" .recover"
	case lib.SQLITE_IOERR:
		p.Why, p.Hint = "the disk failed: "+e.Error(), "check the disk and its free space, and try again"
	case lib.SQLITE_TOOBIG, lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH, lib.SQLITE_ERROR:
		return err // ours
	default:
		p.Why, p.Hint = e.Error(), "check the file: sqlite3 "+path+" 'PRAGMA integrity_check'"
	}
	return p
}

func isLock(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && (e.Code()&0xff == lib.SQLITE_BUSY || e.Code()&0xff == lib.SQLITE_LOCKED)
}

// permission tells the file system's refusals apart, which SQLite calls one and the same.
func permission(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return &Problem{Path: path, Why: "this user may not open it", Hint: "give this user read and write access to the file and its folder", Err: err}
	case errors.Is(err, syscall.EISDIR):
		return &Problem{Path: path, Why: "it is a folder", Hint: "name a file in it", Err: err}
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return &Problem{Path: path, Why: "its folder does not exist", Hint: "make the folder first", Err: err}
	}
	return &Problem{Path: path, Why: "it cannot be opened: " + err.Error(), Hint: "name another file", Err: err}
}
