package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"

	"github.com/awsmp/metering/internal/usagefile"
)

// Source is a file of usage that has been read once.
type Source struct {
	Name   string // as messages call it; empty for standard input
	ID     string // SHA-256 of its content, in hexadecimal
	Size   int64  // in bytes
	Format usagefile.Format
	// Stream is set where the content came through a pipe and was spooled: there is no place beside it.
	Stream bool

	file *os.File
}

// OpenFile opens the file of that name and reads it through. read, where set, is told how many bytes have been read of how
// many, 0 where that is not known. The error is a *usagefile.FileError, or the context's.
func OpenFile(ctx context.Context, name string, read func(done, size int64)) (*Source, error) {
	file, err := os.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, &usagefile.FileError{Name: name, Why: "there is no such file", Hint: "check the path, or start from the example: awsmp demo --write-example usage.csv", Err: err}
	case errors.Is(err, fs.ErrPermission):
		return nil, &usagefile.FileError{Name: name, Why: "reading it is not permitted", Hint: "ls -l " + name, Err: err}
	case err != nil:
		return nil, &usagefile.FileError{Name: name, Why: "it cannot be opened: " + err.Error(), Hint: "check the path", Err: err}
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() { // a named pipe, or <(gunzip -c usage.csv.gz)
		defer file.Close()
		return OpenStream(ctx, name, file, read)
	}
	s := &Source{Name: name, file: file}
	err = s.survey(ctx, file, info.Size(), read)
	if err == nil {
		err = s.cut()
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return s, nil
}

// OpenStream spools a stream to a temporary file, which is gone with Close. A stream that ends in the middle of a line is refused:
// the program that writes to a pipe may have failed half way, and a quantity cut short looks like another quantity.
func OpenStream(ctx context.Context, name string, in io.Reader, read func(done, size int64)) (*Source, error) {
	spool, err := temporary("awsmp-import-*")
	if err != nil {
		return nil, fmt.Errorf("spool the usage: %w", err)
	}
	s := &Source{Name: name, Stream: true, file: spool}
	if err := s.spool(ctx, in, read); err != nil {
		_ = discard(spool)
		return nil, err
	}
	return s, nil
}

func (s *Source) spool(ctx context.Context, in io.Reader, read func(done, size int64)) error {
	counted := &counter{ctx: ctx, r: in, read: read}
	size, err := io.Copy(s.file, counted)
	if err != nil {
		return fmt.Errorf("spool the usage: %w", err)
	}
	var last [1]byte
	if size > 0 {
		if _, err := s.file.ReadAt(last[:], size-1); err != nil {
			return fmt.Errorf("read the spooled usage: %w", err)
		}
		if last[0] != '\n' {
			return &usagefile.FileError{Name: s.Name, Why: "it ends in the middle of a line, so the program that writes to the pipe may have failed",
				Hint: "run that program again; if the input is whole, end its last line"}
		}
	}
	return s.survey(ctx, s.file, size, nil)
}

// survey is the first pass: the form is checked before much is read, then everything is hashed.
func (s *Source) survey(ctx context.Context, file *os.File, size int64, read func(done, size int64)) error {
	opened, err := usagefile.Open(io.NewSectionReader(file, 0, max(size, 1)), usagefile.Options{Name: s.Name})
	if err != nil {
		return err
	}
	s.Format = opened.Format
	sum := sha256.New()
	if s.Size, err = io.Copy(sum, &counter{ctx: ctx, r: io.NewSectionReader(file, 0, size), size: size, read: read}); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return &usagefile.FileError{Name: s.Name, Why: "it cannot be read: " + err.Error(), Hint: "check the disk", Err: err}
	}
	s.ID = digest(sum)
	return nil
}

// cut is the error of a file that ends in the middle of a line and has grown since: what is read as 12 may become 120. A file
// whose last line merely has no end is whole.
func (s *Source) cut() error {
	var last [1]byte
	if s.Size == 0 {
		return nil
	}
	if _, err := s.file.ReadAt(last[:], s.Size-1); err != nil {
		return fmt.Errorf("read the end of the file: %w", err)
	}
	if last[0] == '\n' {
		return nil
	}
	info, err := s.file.Stat()
	if err != nil {
		return fmt.Errorf("look at the file: %w", err)
	}
	if info.Size() > s.Size {
		return &usagefile.FileError{Name: s.Name, Why: "a program appends to it, and it was read in the middle of a line",
			Hint: "import a file that is finished; where nothing else was said, nothing of it was written"}
	}
	return nil
}

// lines is the second pass over the bytes that the first one saw: what a program appends meanwhile is not read.
func (s *Source) lines() (*usagefile.File, hash.Hash, error) {
	sum := sha256.New()
	f, err := usagefile.Open(io.TeeReader(io.NewSectionReader(s.file, 0, s.Size), sum), usagefile.Options{Name: s.Name, Format: s.Format})
	return f, sum, err
}

// Close lets go of the file, and of the spool of a stream.
func (s *Source) Close() error {
	if s.Stream {
		return discard(s.file)
	}
	return s.file.Close()
}

func digest(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// counter tells how far a reader has been read, and stops when the context is done.
type counter struct {
	ctx        context.Context
	r          io.Reader
	done, size int64
	read       func(done, size int64)
}

func (c *counter) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.r.Read(p)
	c.done += int64(n)
	if c.read != nil {
		c.read(c.done, c.size)
	}
	return n, err
}

// temporary is a file that has no name any more where the system allows that, so that not even SIGKILL leaves it behind.
func temporary(pattern string) (*os.File, error) {
	f, err := os.CreateTemp("", pattern)
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name())
	return f, nil
}

// discard closes a temporary file, and removes it where its name could not be taken from it while it was open.
func discard(f *os.File) error {
	err := f.Close()
	_ = os.Remove(f.Name())
	return err
}
