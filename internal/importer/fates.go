package importer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/awsmp/metering/internal/usagefile"
)

// Named is a line that is named one by one: a refused or a late one.
type Named struct {
	Line   int            `json:"line"`
	Code   usagefile.Code `json:"code"`
	Reason string         `json:"reason"`
	Hint   string         `json:"hint"`

	offset, size int64 // where the line stands in its file
}

// Waits reports whether nothing is wrong with the line but that its time has not come. It is taken from the same file later; in a
// file of refused lines it would be taken twice.
func (l Named) Waits() bool { return l.Code == codeFuture }

// Names are lines in the order of the file. They are kept on disk, so that a file of which every line is refused takes no more memory
// than another.
type Names struct {
	Count int
	file  *os.File
	out   *bufio.Writer
}

// stored is a Named on disk.
type stored struct {
	Named
	Offset int64 `json:"offset"`
	Size   int64 `json:"size"`
}

func (n *Names) add(l Named) error {
	if n.file == nil {
		file, err := temporary("awsmp-lines-*")
		if err != nil {
			return fmt.Errorf("note a line: %w", err)
		}
		n.file, n.out = file, bufio.NewWriter(file)
	}
	n.Count++
	if err := json.NewEncoder(n.out).Encode(stored{l, l.offset, l.size}); err != nil {
		return fmt.Errorf("note a line: %w", err)
	}
	return nil
}

// Each calls f with each line, in the order of the file, until it returns an error.
func (n *Names) Each(f func(Named) error) error {
	if n.file == nil {
		return nil
	}
	if err := n.out.Flush(); err != nil {
		return fmt.Errorf("note the lines: %w", err)
	}
	d := json.NewDecoder(bufio.NewReader(io.NewSectionReader(n.file, 0, 1<<62)))
	for {
		var s stored
		err := d.Decode(&s)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the noted lines: %w", err)
		}
		s.offset, s.size = s.Offset, s.Size
		if err := f(s.Named); err != nil {
			return err
		}
	}
}

func (n *Names) close() error {
	if n.file == nil {
		return nil
	}
	return discard(n.file)
}
