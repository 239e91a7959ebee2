package usagefile

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/metering"
)

// FuzzRead: every line of a file is skipped, kept or refused, once and in order, and what is kept is what stands there.
func FuzzRead(f *testing.F) {
	f.Add([]byte(header+"\n"+first+"1,\n"+first+"0,[]\n"+first+"x,[{}]\n"), "csv")
	f.Add([]byte(header+"\n"+first+"\"1\",\"[{\"\"AllocatedUsageQuantity\"\": 1}]\"\r\n\n"+first+"\"a\"b,\n,,,,,"), "csv")
	f.Add([]byte("# remark\n\"quantity\" ,event,licenseArn,customerAWSAccountId,dimension,timestamp\n03,-,a,b,c,d\n-0,\"\"\"\",a,b,c,\"d\"\r\r\n"), "")
	f.Add([]byte(`{"quantity": 1e400}`+"\n{\n"), "ndjson")
	f.Add([]byte("{\"event\":\"e\",\"quantity\":-0.0,\"usageAllocations\":[1.50,{\"a\":null}]}\n{\"dimension\":null}\n {\"dimension\":\"\\ud800\"}\t\n"), "ndjson")
	f.Add([]byte("\ufeff\r\n#\r\n"+header+"\r\n\"\r\n"), "")
	f.Add([]byte("{\"a\":[[[[]]]]}\x00"), "")
	f.Fuzz(func(t *testing.T, text []byte, format string) {
		file, err := Open(strings.NewReader(string(text)), Options{Format: Format(format), Extra: []string{"event"}})
		if err != nil {
			wantFault(t, err)
			return
		}
		lines := strings.SplitAfter(string(text), "\n")
		next := file.skipped(lines, 0)
		if file.Format == CSV {
			if next == len(lines) || bare(lines, next) != file.Header {
				t.Fatalf("header %q of line %d", file.Header, next+1)
			}
			next = file.skipped(lines, next+1)
		}
		ended := false
		for line, err := range file.Lines() {
			if ended {
				t.Fatal("something follows the end")
			}
			var refusal *Refusal
			if err != nil && !errors.As(err, &refusal) {
				wantFault(t, err)
				ended = true
				continue
			}
			if line.Number != next+1 || string(text[line.Offset:line.Offset+line.Size]) != lines[next] {
				t.Fatalf("line %d of %d bytes at %d, want line %d: %q", line.Number, line.Size, line.Offset, next+1, lines[next])
			}
			switch {
			case refusal == nil:
				kept(t, file, bare(lines, next), line)
			case refusal.Line != line.Number || refusal.Reason == "" || refusal.Hint == "" || refusal.Code == "" || line.Item != nil:
				t.Errorf("refusal %+v of line %+v", refusal, line)
			}
			next = file.skipped(lines, next+1)
		}
		if next != len(lines) {
			t.Errorf("line %d has no fate: %q", next+1, lines[next])
		}
	})
}

func wantFault(t *testing.T, err error) {
	t.Helper()
	if fault, ok := errors.AsType[*FileError](err); !ok || fault.Why == "" || fault.Hint == "" {
		t.Errorf("%#v", err)
	}
}

// bare is a line without its end, and the first one without a byte order mark.
func bare(lines []string, i int) string {
	line := strings.TrimSuffix(strings.TrimSuffix(lines[i], "\n"), "\r")
	if i == 0 {
		line = strings.TrimPrefix(line, byteOrderMark)
	}
	return line
}

// skipped is the first line from i on that holds something.
func (f *File) skipped(lines []string, i int) int {
	for i < len(lines) && (strings.TrimSpace(bare(lines, i)) == "" || f.Format == CSV && strings.HasPrefix(bare(lines, i), "#")) {
		i++
	}
	return i
}

// kept checks a line that was read against what stands in it, read by other means.
func kept(t *testing.T, f *File, raw string, line Line) {
	t.Helper()
	want := metering.Item{}
	if f.Format == CSV {
		for name, cell := range columns(t, f.Header, raw) {
			if cell == "" {
				continue
			}
			want[name] = cell
			if n := json.Number(cell); name == metering.AttrQuantity && json.Valid([]byte(cell)) && strings.Trim(cell, "-0123456789.eE+") == "" {
				want[name] = n
			}
			if name == metering.AttrAllocations {
				want[name] = number(t, cell)
			}
		}
	} else {
		want, _ = number(t, raw).(map[string]any)
		maps.DeleteFunc(want, func(name string, v any) bool {
			return slices.Contains(append(slices.Clone(keys), "event"), name) && (v == nil || v == "")
		})
	}
	got := maps.Clone(line.Item)
	for name, v := range line.Extra {
		got[name] = v
	}
	if !metering.SameValue(map[string]any(got), map[string]any(want)) || len(got) != len(want) {
		t.Errorf("line %q is read as %#v, want %#v", raw, got, want)
	}
	row, err := line.Row()
	if err != nil {
		if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Line != line.Number || refusal.Hint == "" {
			t.Errorf("%#v", err)
		}
		return
	}
	stored := row.Item()
	for name, v := range line.Item {
		if !metering.SameValue(stored[name], v) {
			t.Errorf("%s %#v becomes %#v", name, v, stored[name])
		}
	}
	second, err := metering.ParseSecond(row.Timestamp)
	if own := fmt.Sprintf("%s#%s#%s", row.Account, row.Dimension, row.Timestamp); err != nil || line.Item[metering.AttrRowKey] == nil && row.SortKey != own ||
		line.Item[metering.AttrPending] == nil && row.Pending != second.Hour().String() {
		t.Errorf("row %+v", row)
	}
}

// columns are the cells of a line by the names of its header.
func columns(t *testing.T, header, raw string) map[string]string {
	t.Helper()
	both := make([][]string, 2)
	for i, line := range []string{header, raw} {
		r := csv.NewReader(strings.NewReader(line))
		r.FieldsPerRecord = -1
		var err error
		if both[i], err = r.Read(); err != nil {
			t.Fatalf("%q is kept: %v", line, err)
		}
	}
	if len(both[0]) != len(both[1]) {
		t.Fatalf("%d cells under %d columns", len(both[1]), len(both[0]))
	}
	cells := map[string]string{}
	for i, name := range both[0] {
		cells[strings.TrimSpace(name)] = both[1][i]
	}
	return cells
}

// number reads JSON with its numbers as they are written.
func number(t *testing.T, text string) (v any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&v); err != nil || d.More() {
		t.Fatalf("%q is kept: %v", text, err)
	}
	return v
}
