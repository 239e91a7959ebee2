package usagefile

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
)

// MaxLine is the longest line that is read, in bytes without its end.
const MaxLine = 1 << 20

const (
	headBytes     = 4096
	byteOrderMark = "\ufeff"
)

// lines cuts a stream into lines, one at a time, and never holds more than one.
type lines struct {
	in     *bufio.Reader
	number int
	offset int64  // of the line that next returned last
	size   int64  // of that line, with its end
	long   []byte // a line that exceeds the reader's buffer, while it is put together
}

func newLines(r io.Reader) *lines { return &lines{in: bufio.NewReaderSize(r, 64<<10)} }

// peek is the beginning of the stream.
func (l *lines) peek() ([]byte, error) {
	head, err := l.in.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return head, nil
}

// next is the next line without its end, \n or \r\n, and its number. A line that is too long is passed over and refused.
func (l *lines) next() (string, int, error) {
	l.number++
	l.offset += l.size
	l.size = 0
	l.long = l.long[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		l.size += int64(len(part))
		full := errors.Is(err, bufio.ErrBufferFull)
		if !full && err != nil && (!errors.Is(err, io.EOF) || l.size == 0) {
			return "", l.number - 1, err
		}
		if l.size > MaxLine+int64(len("\r\n")) {
			l.long = l.long[:0]
			if full {
				continue
			}
			return "", l.number, l.tooLong()
		}
		if full || len(l.long) > 0 {
			l.long = append(l.long, part...)
			part = l.long
		}
		if full {
			continue
		}
		line := bytes.TrimSuffix(bytes.TrimSuffix(part, []byte("\n")), []byte("\r"))
		if len(line) > MaxLine {
			return "", l.number, l.tooLong()
		}
		text := string(line)
		if l.number == 1 {
			text = strings.TrimPrefix(text, byteOrderMark)
		}
		return text, l.number, nil
	}
}

func (l *lines) tooLong() *Refusal {
	return &Refusal{Code: LineTooLong, Line: l.number, Reason: "it is longer than 1 MiB", Hint: "a row holds at most 400 KB: split its allocations over several rows"}
}

// unreadable says in plain words why a stream cannot be read.
func unreadable(err error) string {
	switch {
	case errors.Is(err, syscall.EISDIR):
		return "it is a directory"
	case errors.Is(err, fs.ErrPermission):
		return "reading it is not permitted"
	}
	return "it cannot be read: " + err.Error()
}
