package simulator

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// A journal is a text file of JSON lines. The first names the format and its version, every other line is one change with a
// checksum in its last member. The checksum goes over the line and all lines before it, so that a line that was altered,
// dropped, doubled or moved is found.
const (
	journalFormat  = "awsmp simulator journal"
	journalVersion = 1

	checksumForm   = `,"crc32":"%08x"}`
	checksumLength = len(`,"crc32":"00000000"}`)
)

func journalHeader() []byte {
	return fmt.Appendf(nil, "{\"format\":%q,\"version\":%d}\n", journalFormat, journalVersion)
}

// journal appends changes to a file that this process alone has open. Its methods are called with the simulator's mu held.
type journal struct {
	path string
	file *os.File
	out  io.WriterAt // the file, but in tests of a disk that is full
	size int64       // bytes of whole lines
	sum  uint32      // over them
	dead error       // why nothing more can be written
}

// unwritten is a change that was refused because the journal could not take it.
type unwritten struct {
	path string
	err  error
}

func (u *unwritten) Error() string {
	return fmt.Sprintf("nothing was changed: write the journal %s: %v", u.path, u.err)
}

func (u *unwritten) Unwrap() error { return u.err }

// openJournal opens or begins the journal at path and hands every change in it to apply, oldest first.
func openJournal(path string, apply func(change) error) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600) // registration tokens are in it
	if errors.Is(err, fs.ErrNotExist) {
		return nil, journalFault(fmt.Errorf("open the journal: %w", err), "mkdir -p %q", filepath.Dir(path))
	}
	if err != nil {
		return nil, journalFault(fmt.Errorf("open the journal: %w", err), "name a file that you may read and write")
	}
	j := &journal{path: path, file: file, out: file}
	if err := j.read(apply); err != nil {
		_ = release(file)
		return nil, err
	}
	return j, nil
}

func journalFault(err error, try string, args ...any) error {
	return fmt.Errorf("%w\nTry: %s", err, fmt.Sprintf(try, args...))
}

// anew is what to try where a file cannot be read as a journal.
func (j *journal) anew(format string, args ...any) error {
	return journalFault(fmt.Errorf("the file %s %w", j.path, fmt.Errorf(format, args...)),
		"mv %q %q, and a new journal with an empty ledger is begun", j.path, j.path+".old")
}

func (j *journal) read(apply func(change) error) error {
	info, err := j.file.Stat()
	if err != nil {
		return fmt.Errorf("read the journal: %w", err)
	}
	if !info.Mode().IsRegular() {
		return journalFault(fmt.Errorf("the journal %s is no regular file", j.path), "name a file that does not exist yet")
	}
	switch err := lock(j.file); {
	case errors.Is(err, errInUse):
		return journalFault(fmt.Errorf("the journal %s is in use by another simulator", j.path), "stop that one, or name another file")
	case err != nil:
		return journalFault(fmt.Errorf("lock the journal %s: %w", j.path, err), "name a file on a local disk")
	}
	lines := bufio.NewReaderSize(j.file, 1<<16)
	begun, err := j.readHeader(lines)
	if err != nil {
		return err
	}
	for n := 2; begun; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) { // a line without its end was being written when the process died
			break
		}
		if err != nil {
			return fmt.Errorf("read the journal: %w", err)
		}
		if err := j.readLine(line, apply); err != nil {
			return j.damaged(n, err)
		}
	}
	if err := j.file.Truncate(j.size); err != nil {
		return fmt.Errorf("cut off what a killed process left behind the last line of the journal: %w", err)
	}
	if !begun {
		return j.begin()
	}
	return nil
}

// readHeader says whether the journal has been begun. The beginning of a header alone was left by a process that was killed.
// Any other file is not touched.
func (j *journal) readHeader(lines *bufio.Reader) (begun bool, err error) {
	want := journalHeader()
	line, err := lines.ReadSlice('\n')
	switch {
	case bytes.Equal(line, want):
		j.took(line, line)
		return true, nil
	case errors.Is(err, io.EOF) && bytes.HasPrefix(want, line):
		return false, nil
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull):
		return false, fmt.Errorf("read the journal: %w", err)
	}
	var header struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
	}
	if json.Unmarshal(line, &header) == nil && header.Format == journalFormat && header.Version != journalVersion {
		return false, j.anew("is a journal of version %d, and this program knows version %d", header.Version, journalVersion)
	}
	return false, j.anew("is no simulator journal: its first line is not %s", strings.TrimSpace(string(want)))
}

func (j *journal) begin() error {
	header := journalHeader()
	if _, err := j.out.WriteAt(header, 0); err != nil {
		return journalFault(fmt.Errorf("begin the journal: %w", err), "name a file on a disk with room")
	}
	j.took(header, header)
	return nil
}

// readLine checks and applies one line, whose last byte is the line's end.
func (j *journal) readLine(line []byte, apply func(change) error) error {
	body := len(line) - 1 - checksumLength // without its closing brace, which stands behind the checksum
	if body < 0 {
		return errors.New("it is too short")
	}
	checksum := string(line[body : len(line)-1])
	text := append(line[:body], '}')
	if checksum != fmt.Sprintf(checksumForm, crc32.Update(j.sum, crc32.IEEETable, text)) {
		return errors.New("its checksum does not match: it, or a line before it, was altered, lost or moved")
	}
	var c change
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&c); err != nil {
		return err
	}
	j.took(line, text)
	return apply(c)
}

func (j *journal) damaged(line int, err error) error {
	return journalFault(fmt.Errorf("line %d of the journal %s is damaged: %w", line, j.path, err),
		"head -n %d %[2]q > %[3]q && mv %[3]q %[2]q", line-1, j.path, j.path+".sound")
}

// took counts a line that is in the file; text is what its checksum goes over.
func (j *journal) took(line, text []byte) {
	j.size += int64(len(line))
	j.sum = crc32.Update(j.sum, crc32.IEEETable, text)
}

// append writes one change in one write call. It is with the operating system then, which keeps it if this process is killed;
// it is not synced to the disk. After an error the journal is as it was.
func (j *journal) append(c change) error {
	if j.dead != nil {
		return &unwritten{j.path, j.dead}
	}
	text, err := json.Marshal(c)
	if err != nil {
		return &unwritten{j.path, err} // a year over 9999
	}
	sum := crc32.Update(j.sum, crc32.IEEETable, text)
	line := append(fmt.Appendf(text[:len(text)-1], checksumForm, sum), '\n')
	if _, err := j.out.WriteAt(line, j.size); err != nil {
		if cut := j.file.Truncate(j.size); cut != nil {
			j.dead = fmt.Errorf("an earlier write left a torn line that cannot be cut off (%w): restart the simulator", cut)
		}
		return &unwritten{j.path, err}
	}
	j.size, j.sum = j.size+int64(len(line)), sum
	return nil
}

func (j *journal) close() error {
	if errors.Is(j.dead, errClosed) {
		return nil
	}
	j.dead = errClosed
	if err := release(j.file); err != nil {
		return fmt.Errorf("close the journal: %w", err)
	}
	return nil
}

var (
	errClosed = errors.New("the simulator is closed")
	errInUse  = errors.New("another process has it open")
)
