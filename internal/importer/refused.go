package importer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/awsmp/metering/internal/usagefile"
)

// maxNumbered bounds the names that are tried where a file of refused lines stands already.
const maxNumbered = 1000

// RefusedName is where the refused lines of a source are written if no other name is given: beside the file, or in the
// working folder where it came through a pipe.
func (s *Source) RefusedName() string {
	name := s.Name
	if s.Stream {
		name = "stdin"
	}
	return strings.TrimSuffix(name, filepath.Ext(name)) + ".refused." + string(s.Format)
}

// Mendable is the number of refused lines that WriteRefused writes: all but those that only wait for their time.
func (o *Outcome) Mendable() int { return o.Refused.Count - o.Codes[codeFuture] }

// WriteRefused writes the refused lines, but for those that only wait, to a file that can be mended and imported: verbatim, for CSV under the header of their file and
// each after a comment with its reason. The file appears whole or not at all and never takes another's place: with numbered set a
// number makes the name free, unless the same lines stand there already. It returns the name of the file that holds them.
func (o *Outcome) WriteRefused(name string, numbered bool) (string, error) {
	dir, base := filepath.Split(name)
	part, err := os.CreateTemp(dir, "."+base+".*")
	if err != nil {
		return "", fmt.Errorf("write the refused lines: %w", err)
	}
	defer os.Remove(part.Name())
	w := bufio.NewWriter(part)
	err = errors.Join(o.writeRefused(w), w.Flush(), part.Chmod(0o644), part.Sync(), part.Close())
	if err != nil {
		return "", fmt.Errorf("write the refused lines: %w", err)
	}
	stem, ext := strings.TrimSuffix(name, filepath.Ext(name)), filepath.Ext(name)
	for i := 1; i <= maxNumbered; i++ {
		if i > 1 {
			name = fmt.Sprintf("%s-%d%s", stem, i, ext)
		}
		err := publish(part.Name(), name)
		switch {
		case err == nil:
			return name, nil
		case !errors.Is(err, fs.ErrExist):
			return "", fmt.Errorf("write the refused lines: %w", err)
		case !numbered:
			return "", fmt.Errorf("write the refused lines: %s exists and is left as it is: %w", name, fs.ErrExist)
		case sameContent(part.Name(), name):
			return name, nil
		}
	}
	return "", fmt.Errorf("write the refused lines: %s and %d numbered files beside it exist", name, maxNumbered-1)
}

// publish gives a whole file its name, unless the name is taken.
func publish(part, name string) error {
	err := os.Link(part, name)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, err := os.Lstat(name); err == nil { // a file system without links
		return fs.ErrExist
	}
	return os.Rename(part, name)
}

func (o *Outcome) writeRefused(w io.Writer) error {
	csv := o.source.Format == usagefile.CSV
	if csv {
		// The hash of their file keeps the refused lines of two files apart even where they are mended to be the same: a file with the
		// same bytes would be the same import. Its name would make two of what is the same, u.csv and ./u.csv.
		if _, err := fmt.Fprintf(w, "# refused lines of the file with SHA-256 %s\n%s\n", o.source.ID, o.header); err != nil {
			return err
		}
	}
	return o.Refused.Each(func(l Named) error {
		if l.Waits() {
			return nil
		}
		if csv {
			if _, err := fmt.Fprintf(w, "# line %d: %s. Try: %s\n", l.Line, oneLine(l.Reason), oneLine(l.Hint)); err != nil {
				return err
			}
		}
		return copyLine(w, io.NewSectionReader(o.source.file, l.offset, l.size), l.size)
	})
}

// copyLine copies a line as it stands, and ends it where it is the last of a file without an end.
func copyLine(w io.Writer, r *io.SectionReader, size int64) error {
	if n, err := io.Copy(w, r); err != nil || n != size {
		return errors.Join(err, fmt.Errorf("copied %d of %d bytes of a line", n, size))
	}
	var last [1]byte
	if _, err := r.ReadAt(last[:], size-1); err != nil {
		return err
	}
	if last[0] != '\n' {
		_, err := w.Write([]byte{'\n'})
		return err
	}
	return nil
}

// Shown is how a file without a name is called.
func Shown(name string) string {
	if name == "" {
		return "standard input"
	}
	return name
}

func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\r' {
			return ' '
		}
		return r
	}, s)
}

func sameContent(a, b string) bool {
	x, err := os.Open(a)
	if err != nil {
		return false
	}
	defer x.Close()
	y, err := os.Open(b)
	if err != nil {
		return false
	}
	defer y.Close()
	p, q := make([]byte, 64<<10), make([]byte, 64<<10)
	for {
		n, errX := io.ReadFull(x, p)
		m, errY := io.ReadFull(y, q)
		if !bytes.Equal(p[:n], q[:m]) {
			return false
		}
		if errX != nil || errY != nil {
			return ended(errX) && ended(errY)
		}
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
