package usagefile

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/awsmp/metering/internal/metering"
)

// Format is how a file is written.
type Format string

// The formats. Sniff tells them apart by the name of the file, and where that says nothing by its first character.
const (
	Sniff  Format = ""
	CSV    Format = "csv"
	NDJSON Format = "ndjson"
)

// attributes are the columns of a CSV file and the fields of an NDJSON object, by the exact names of the usage table; the
// first four are required.
var attributes = []string{
	metering.AttrLicense, metering.AttrAccount, metering.AttrDimension, metering.AttrTimestamp,
	metering.AttrQuantity, metering.AttrAllocations, metering.AttrCustomerIdentifier, metering.AttrPending, metering.AttrRowKey,
}

const requiredAttributes = 4

// Options say what a file may hold.
type Options struct {
	Name   string // of the file: for the format and for messages
	Format Format
	// Extra are further columns that are allowed; what they hold is text.
	Extra []string
}

// Line is one line that was read.
type Line struct {
	Number int   // of the line in the file, from 1
	Offset int64 // where it begins, in bytes from the beginning of the file
	Size   int64 // its length in bytes, with its end
	// Item holds the attributes that the line gives, with the types that it gives them.
	Item metering.Item
	// Extra holds the further columns that are not empty.
	Extra map[string]string
}

// Code is the kind of a refusal: what refusals are counted by.
type Code string

// What is wrong with lines that can be no row. Times that cannot be read have the code of the rule that they break.
const (
	NotUTF8           Code = "NotUTF8"
	LineTooLong       Code = "LineTooLong"
	BrokenQuotes      Code = "BrokenQuotes"
	WrongCellCount    Code = "WrongCellCount"
	BrokenJSON        Code = "BrokenJSON"
	BrokenAllocations Code = "BrokenAllocations"
	UnknownField      Code = "UnknownField"
	RepeatedField     Code = "RepeatedField"
	NotText           Code = "NotText"
	MissingField      Code = "MissingField"
)

// Refusal is a line that is not taken. It says why and, in Hint, what to do about it.
type Refusal struct {
	Code   Code   `json:"-"`
	Line   int    `json:"line"`
	Reason string `json:"reason"`
	Hint   string `json:"hint"`
}

func (r *Refusal) Error() string { return fmt.Sprintf("line %d: %s: %s", r.Line, r.Reason, r.Hint) }

// FileError is a file that cannot be read as usage at all.
type FileError struct {
	Name string
	Why  string
	Hint string // what to do about it
	Err  error  // behind it, if any
}

func (e *FileError) Error() string {
	if e.Name == "" {
		return e.Why
	}
	return e.Name + ": " + e.Why
}

func (e *FileError) Unwrap() error { return e.Err }

// Read yields the lines of a file in their order. With each comes either no error, or a *Refusal of this line, after which
// reading goes on, or as the last of all a *FileError. The reader is read only as far as the caller goes.
func Read(r io.Reader, o Options) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		f, err := Open(r, o)
		if err != nil {
			yield(Line{}, err)
			return
		}
		f.Lines()(yield)
	}
}

// File is a file whose beginning has been read.
type File struct {
	Options        // with the format that was found, where none was given
	Header  string // of a CSV file, as it stands, without its end
	lines   *lines
	parse   parser
}

// Open reads the beginning of a file. The error is a *FileError.
func Open(r io.Reader, o Options) (*File, error) {
	f := &File{Options: o, lines: newLines(r)}
	var err error
	if f.parse, err = f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

// Lines yields the lines of the file as Read does, once.
func (f *File) Lines() iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		seen := 0
		for {
			raw, number, err := f.lines.next()
			if errors.Is(err, io.EOF) {
				break
			}
			line := Line{Number: number, Offset: f.lines.offset, Size: f.lines.size}
			var refusal *Refusal
			switch {
			case errors.As(err, &refusal):
			case err != nil:
				yield(Line{}, f.fault(fmt.Sprintf("reading stopped after line %d: %v", number, err), "check the disk or the program that writes to the pipe", err))
				return
			case f.skips(raw):
				continue
			default:
				refusal = f.line(raw, &line)
			}
			seen++
			if refusal == nil {
				if !yield(line, nil) {
					return
				}
				continue
			}
			refusal.Line = number
			line.Item, line.Extra = nil, nil
			if !yield(line, refusal) {
				return
			}
		}
		if seen == 0 {
			yield(Line{}, f.fault("it holds no usage, only a header or comments", "add one line for each row of usage", nil))
		}
	}
}

// parser reads the fields of one line into it.
type parser func(raw string, into *Line) *Refusal

func (f *File) line(raw string, into *Line) *Refusal {
	if !utf8.ValidString(raw) {
		return &Refusal{Code: NotUTF8, Reason: "it is not valid UTF-8", Hint: "save the file as UTF-8"}
	}
	into.Item = make(metering.Item, len(attributes))
	return f.parse(raw, into)
}

// skips reports whether a line holds nothing to read.
func (f *File) skips(raw string) bool {
	return strings.TrimSpace(raw) == "" || f.Format == CSV && strings.HasPrefix(raw, "#")
}

// open looks at the head of the file and decides how its lines are read.
func (f *File) open() (parser, error) {
	head, err := f.lines.peek()
	if err != nil {
		return nil, f.fault(unreadable(err), "give a file of usage lines", err)
	}
	if why, hint := foreign(head); why != "" {
		return nil, f.fault(why, strings.ReplaceAll(hint, "FILE", shown(f.Name)), nil)
	}
	text := strings.TrimSpace(strings.TrimPrefix(string(head), byteOrderMark))
	if f.Format == Sniff {
		f.Format = formatOf(f.Name, text)
	}
	switch {
	case text == "" && len(head) < headBytes:
		return nil, f.fault("it is empty", f.beginning(), nil)
	case f.Format == NDJSON && strings.HasPrefix(text, "["):
		return nil, f.fault("it is one JSON list", "write one object a line: jq -c '.[]' "+shown(f.Name), nil)
	case f.Format == NDJSON:
		return f.parseObject, nil
	case f.Format == CSV:
		return f.openCSV()
	}
	return nil, f.fault(fmt.Sprintf("the format %q is not known", f.Format), "use csv or ndjson", nil)
}

func formatOf(name, text string) Format {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".csv":
		return CSV
	case ".ndjson", ".jsonl":
		return NDJSON
	}
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "[") {
		return NDJSON
	}
	return CSV
}

func (f *File) fault(why, hint string, err error) *FileError {
	return &FileError{Name: f.Name, Why: why, Hint: hint, Err: err}
}

func shown(name string) string {
	if name == "" {
		return "FILE"
	}
	return name
}

// foreign recognises what is no text, by its first bytes.
func foreign(head []byte) (why, hint string) {
	for magic, is := range map[string][2]string{
		"\x1f\x8b":     {"it is compressed with gzip", "unpack it first: gunzip FILE"},
		"PK\x03\x04":   {"it is a zip archive or a spreadsheet", "unpack it, or save the sheet as CSV in UTF-8"},
		"PAR1":         {"it is a Parquet file", "export it as CSV or as NDJSON"},
		"\xff\xfe":     {"it is written in UTF-16", "save it as UTF-8"},
		"\xfe\xff":     {"it is written in UTF-16", "save it as UTF-8"},
		"\x28\xb5\x2f": {"it is compressed with zstd", "unpack it first: unzstd FILE"},
	} {
		if strings.HasPrefix(string(head), magic) {
			return is[0], is[1]
		}
	}
	if strings.IndexByte(string(head), 0) >= 0 {
		return "it is binary, not text", "give usage as CSV or NDJSON in UTF-8"
	}
	return "", ""
}
