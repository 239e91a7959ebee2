package usagefile

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/awsmp/metering/internal/metering"
)

// openCSV reads the header, the first line that is neither empty nor a comment.
func (f *File) openCSV() (parser, error) {
	for {
		raw, number, err := f.lines.next()
		var refusal *Refusal
		switch {
		case errors.Is(err, io.EOF):
			return nil, f.fault("it holds comments only", f.beginning(), nil)
		case errors.As(err, &refusal):
			return nil, f.fault(fmt.Sprintf("its header, line %d, is longer than 1 MiB", number), "begin with a line of column names", nil)
		case err != nil:
			return nil, f.fault(unreadable(err), "check the disk or the program that writes to the pipe", err)
		case f.skips(raw):
			continue
		}
		if err := f.checkForm(raw); err != nil {
			return nil, err
		}
		header, err := cells(raw)
		if err != nil {
			return nil, f.fault(fmt.Sprintf("its header, line %d, has broken quotes", number), "begin with a line of column names: "+strings.Join(attributes[:requiredAttributes+1], ","), nil)
		}
		for i := range header {
			header[i] = strings.TrimSpace(header[i])
		}
		if err := f.checkHeader(header, raw); err != nil {
			return nil, err
		}
		f.Header = raw
		return func(raw string, into *Line) *Refusal { return f.parseCells(header, raw, into) }, nil
	}
}

// checkForm recognises files that are no CSV with a header, by the way their first line looks.
func (f *File) checkForm(raw string) error {
	names := strings.Join(attributes[:requiredAttributes+1], ",")
	switch first, _, _ := strings.Cut(raw, ","); {
	case strings.HasPrefix(raw, "{"):
		return f.fault("it is NDJSON, not CSV", "give it a name that ends in .ndjson", nil)
	case strings.Contains(raw, "\r"):
		return f.fault("its lines end in CR alone", "save it with the line ends of Unix or Windows", nil)
	case strings.HasPrefix(strings.Trim(first, `" `), "arn:"):
		return f.fault("its first line is usage, not a header", "begin with a line of column names: "+names, nil)
	case strings.HasSuffix(raw, ","):
		return f.fault("its header ends in a comma: its last column has no name", "take the comma from the end of each line", nil)
	}
	return nil
}

func (f *File) checkHeader(header []string, raw string) error {
	for _, other := range []string{";", "\t"} {
		if len(header) == 1 && strings.Contains(raw, other) {
			return f.fault(fmt.Sprintf("its columns are separated by %q", other), "save it with commas", nil)
		}
	}
	for i, name := range header {
		if !f.known(name) {
			return f.fault(f.unknown("column", name), f.listing("columns"), nil)
		}
		if slices.Contains(header[:i], name) {
			return f.fault(fmt.Sprintf("its header has the column %s twice", name), "keep one of the two", nil)
		}
	}
	for _, name := range attributes[:requiredAttributes] {
		if !slices.Contains(header, name) {
			return f.fault(fmt.Sprintf("its header has no column %s", name), f.listing("columns"), nil)
		}
	}
	return nil
}

// beginning is how a file begins. The demo's example has columns of its own, which nothing else reads.
func (f *File) beginning() string {
	if len(f.Extra) > 0 {
		return "start from the example: awsmp demo --write-example usage.csv"
	}
	if f.Format == NDJSON {
		return `write one object a line, like {"licenseArn": "…", "customerAWSAccountId": "…", "dimension": "…", "timestamp": "2026-03-10T14:00:00", "quantity": 3}`
	}
	return "begin with a line of column names: " + strings.Join(attributes[:requiredAttributes+1], ",")
}

func (f *File) known(name string) bool {
	return slices.Contains(attributes, name) || slices.Contains(f.Extra, name)
}

func (f *File) unknown(kind, name string) string {
	text := fmt.Sprintf("the %s %.60q is not known", kind, name)
	if near := closest(name, slices.Concat(attributes, f.Extra)); near != "" {
		text += fmt.Sprintf(" (did you mean %s?)", near)
	}
	return text
}

func (f *File) listing(kind string) string {
	return fmt.Sprintf("use these %s: %s (required), %s", kind, strings.Join(attributes[:requiredAttributes], ", "),
		strings.Join(slices.Concat(attributes[requiredAttributes:], f.Extra), ", "))
}

// cells cuts one line into its cells. A row stands on one line, so quotes that are open at its end are broken: one forgotten
// quote must not swallow the rest of the file.
func cells(raw string) ([]string, error) {
	if !strings.Contains(raw, `"`) {
		return strings.Split(raw, ","), nil
	}
	r := csv.NewReader(strings.NewReader(raw))
	r.FieldsPerRecord = -1
	return r.Read()
}

func (f *File) parseCells(header []string, raw string, into *Line) *Refusal {
	values, err := cells(raw)
	if err != nil {
		return &Refusal{Code: BrokenQuotes, Reason: "its quotes are broken", Hint: `put the cell in quotes and double each quote inside it: "[{""Key"": …}]"`}
	}
	if len(values) != len(header) {
		return &Refusal{Code: WrongCellCount, Reason: fmt.Sprintf("it has %s, the header has %d", plural(len(values), "cell"), len(header)),
			Hint: "leave cells empty, not out, and put cells that hold commas in quotes"}
	}
	for i, value := range values {
		switch name := header[i]; {
		case value == "": // absent
		case slices.Contains(f.Extra, name):
			into.setExtra(name, value)
		case name == metering.AttrQuantity:
			into.Item[name] = quantityCell(value)
		case name == metering.AttrAllocations:
			list, err := decode(value)
			if err != nil {
				return &Refusal{Code: BrokenAllocations, Reason: "its usageAllocations are broken JSON: " + err.Error(), Hint: allocationsHint}
			}
			into.Item[name] = list
		default:
			into.Item[name] = value
		}
	}
	return nil
}

const allocationsHint = `write a JSON list like [{"AllocatedUsageQuantity": 3, "Tags": [{"Key": "team", "Value": "blue"}]}]`

// quantityCell is a number where JSON would call it one, and otherwise the text as it stands: what is no number is rejected by
// name later on, never guessed at.
func quantityCell(value string) any {
	if c := value[0]; (c == '-' || '0' <= c && c <= '9') && json.Valid([]byte(value)) && strings.TrimSpace(value) == value {
		return json.Number(value)
	}
	return value
}

func (l *Line) setExtra(name, value string) {
	if l.Extra == nil {
		l.Extra = make(map[string]string)
	}
	l.Extra[name] = value
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
