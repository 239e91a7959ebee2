package usagefile

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
)

const (
	license = "arn:aws:license-manager::111122223333:license:l-1a2b3c4d5e6f708192a3b4c5d6e7f801"
	header  = "licenseArn,customerAWSAccountId,dimension,timestamp,quantity,usageAllocations"
	first   = license + ",111122223333,d,2026-03-10T14:00:00,"
)

// readAll reads everything: the lines kept, the lines refused, and the error that ended it.
func readAll(r io.Reader, o Options) (kept []Line, refused []*Refusal, fault *FileError) {
	for line, err := range Read(r, o) {
		var refusal *Refusal
		switch {
		case err == nil:
			kept = append(kept, line)
		case errors.As(err, &refusal):
			refused = append(refused, refusal)
		case !errors.As(err, &fault):
			panic(err)
		}
	}
	return kept, refused, fault
}

func TestReadKeepsQuantitiesAsWritten(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cell, value string // in CSV and in NDJSON; an empty value cannot be written there
		want        any
	}{
		{"7", "7", json.Number("7")},
		{"3.0", "3.0", json.Number("3.0")},
		{"2.5", "2.5", json.Number("2.5")},
		{"-4", "-4", json.Number("-4")},
		{"1e30", "1e30", json.Number("1e30")},
		{"1e999999999", "1e999999999", json.Number("1e999999999")},
		{"9007199254740993", "9007199254740993", json.Number("9007199254740993")},
		{"abc", `"abc"`, "abc"},
		{"007", `"007"`, "007"},
		{"+7", `"+7"`, "+7"},
		{" 7", `" 7"`, " 7"},
		{`"7,5"`, `"7,5"`, "7,5"},
		{"true", "", "true"},
		{"", "", nil},
		{"0x10", `"0x10"`, "0x10"},
		{"NaN", `"NaN"`, "NaN"},
	} {
		kept, refused, fault := readAll(strings.NewReader(header+"\n"+first+tt.cell+",\n"), Options{})
		if len(kept) != 1 || refused != nil || fault != nil {
			t.Errorf("cell %q: kept %v, refused %v, fault %v", tt.cell, kept, refused, fault)
			continue
		}
		if got := kept[0].Item[metering.AttrQuantity]; got != tt.want {
			t.Errorf("cell %q: %#v, want %#v", tt.cell, got, tt.want)
		}
		if tt.value == "" {
			continue
		}
		kept, refused, fault = readAll(strings.NewReader(`{"quantity": `+tt.value+`}`), Options{})
		if len(kept) != 1 || kept[0].Item[metering.AttrQuantity] != tt.want {
			t.Errorf("value %q: kept %v, refused %v, fault %v", tt.value, kept, refused, fault)
		}
	}
	kept, _, _ := readAll(strings.NewReader(`{"quantity": true, "usageAllocations": {"a": 1}}`), Options{})
	want := metering.Item{"quantity": true, "usageAllocations": map[string]any{"a": json.Number("1")}}
	if diff := cmp.Diff(want, kept[0].Item); diff != "" {
		t.Error(diff)
	}
}

func TestReadLineEndsMarksAndNumbers(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"plain":              "\n#a\n" + header + "\n" + first + "1,\n\n# b, \"c\n" + first + "2,\n",
		"CRLF":               "\r\n#a\r\n" + header + "\r\n" + first + "1,\r\n\r\n# b\r\n" + first + "2,\r\n",
		"mark, no last end":  byteOrderMark + "#\n#\n" + header + "\n" + first + "1,\n \n#\n" + first + "2,",
		"blanks in a header": "\n\n" + strings.ReplaceAll(header, ",", ", ") + "\n" + first + "1,\n\n\n" + first + "2,",
	} {
		for chunk, r := range map[string]io.Reader{"whole": strings.NewReader(text), "byte by byte": iotest.OneByteReader(strings.NewReader(text))} {
			kept, refused, fault := readAll(r, Options{})
			if refused != nil || fault != nil || len(kept) != 2 || kept[0].Number != 4 || kept[1].Number != 7 || kept[1].Item["quantity"] != json.Number("2") {
				t.Errorf("%s, %s: kept %v, refused %v, fault %v", name, chunk, kept, refused, fault)
			}
		}
	}
}

func TestReadRefusesLines(t *testing.T) {
	t.Parallel()
	long := first + `"` + strings.Repeat("x", MaxLine) + `",`
	text := strings.Join([]string{header, first + "1,", first + "1", first + `"1,`, first + `1"1,`, first + "1,[", first + "1,[] []", first + "\xff,", long, first + "2,"}, "\n")
	kept, refused, fault := readAll(strings.NewReader(text), Options{})
	if len(kept) != 2 || kept[1].Number != 10 || fault != nil {
		t.Errorf("kept %v, fault %v", kept, fault)
	}
	var got []string
	for i, r := range refused {
		if r.Line != i+3 || r.Hint == "" {
			t.Errorf("refusal %v of line %d", r, i+3)
		}
		got = append(got, r.Reason)
	}
	want := []string{
		"it has 5 cells, the header has 6", "its quotes are broken", "its quotes are broken",
		"its usageAllocations are broken JSON: it ends too early", "its usageAllocations are broken JSON: something follows the value",
		"it is not valid UTF-8", "it is longer than 1 MiB",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The longest line that is read is 1 MiB without its end.
func TestReadLongestLine(t *testing.T) {
	t.Parallel()
	fits := `{"dimension": "` + strings.Repeat("d", MaxLine-len(`{"dimension": ""}`)) + `"}`
	for _, end := range []string{"\n", "\r\n"} {
		if kept, refused, _ := readAll(strings.NewReader(fits+end+"{}"), Options{}); len(kept) != 2 || refused != nil {
			t.Errorf("end %q: kept %d, refused %v", end, len(kept), refused)
		}
		if kept, refused, _ := readAll(strings.NewReader(" "+fits+end+"{}"), Options{}); len(kept) != 1 || len(refused) != 1 || refused[0].Line != 1 {
			t.Errorf("end %q, one byte more: kept %d, refused %v", end, len(kept), refused)
		}
	}
}

func TestReadFilesThatAreNoUsage(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"empty":     {"", "f: it is empty"},
		"blank":     {"\n \n", "f: it is empty"},
		"mark":      {byteOrderMark, "f: it is empty"},
		"comments":  {"# a\n", "f: it holds comments only"},
		"header":    {header + "\n#\n", "f: it holds no usage, only a header or comments"},
		"gzip":      {"\x1f\x8b\x08\x00", "f: it is compressed with gzip"},
		"zip":       {"PK\x03\x04rest", "f: it is a zip archive or a spreadsheet"},
		"parquet":   {"PAR1rest", "f: it is a Parquet file"},
		"UTF-16":    {"\xff\xfel\x00", "f: it is written in UTF-16"},
		"binary":    {"lic\x00ense", "f: it is binary, not text"},
		"list":      {" [{}]", "f: it is one JSON list"},
		"quotes":    {`"a` + "\n", "f: its header, line 1, has broken quotes"},
		"unknown":   {header + ",cost\n", `f: the column "cost" is not known`},
		"misspelt":  {"license_arn\n", `f: the column "license_arn" is not known (did you mean licenseArn?)`},
		"twice":     {header + ",quantity\n", "f: its header has the column quantity twice"},
		"lacking":   {"licenseArn,dimension,timestamp\n", "f: its header has no column customerAWSAccountId"},
		"tabs":      {"licenseArn\tdimension\n", `f: its columns are separated by "\t"`},
		"long head": {strings.Repeat("x", MaxLine+1), "f: its header, line 1, is longer than 1 MiB"},
	} {
		kept, refused, fault := readAll(strings.NewReader(tt.text), Options{Name: "f"})
		if kept != nil || refused != nil || fault == nil || fault.Error() != tt.want || fault.Hint == "" {
			t.Errorf("%s: kept %v, refused %v, fault %+v", name, kept, refused, fault)
		}
	}
}

func TestReadStopsWhenItsSourceFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken pipe")
	kept, _, fault := readAll(io.MultiReader(strings.NewReader(header+"\n"+strings.Repeat(first+"1,\n", 100)), iotest.ErrReader(broken)), Options{})
	if fault == nil || !errors.Is(fault, broken) || len(kept) != 100 {
		t.Errorf("kept %d, fault %v", len(kept), fault)
	}
	if _, _, fault := readAll(iotest.ErrReader(broken), Options{}); fault == nil || !errors.Is(fault, broken) {
		t.Errorf("fault %v", fault)
	}
}

func TestReadFormats(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		format     Format
		want       int // lines kept
	}{
		{"a.ndjson", "{}", Sniff, 1},
		{"a.JSONL", "{}\n{}", Sniff, 2},
		{"a.csv", "{}", Sniff, 0},
		{"a", "\n\n {}", Sniff, 1},
		{"a", "{}", CSV, 0},
		{"a.csv", "{}", NDJSON, 1},
		{"a", "{}", "xml", 0},
	} {
		kept, _, fault := readAll(strings.NewReader(tt.text), Options{Name: tt.name, Format: tt.format})
		if len(kept) != tt.want || (fault == nil) != (tt.want > 0) {
			t.Errorf("%s as %q: kept %v, fault %v", tt.name, tt.format, kept, fault)
		}
	}
}

func TestRow(t *testing.T) {
	t.Parallel()
	text := func(more string) string {
		return `{"licenseArn": "` + license + `", "customerAWSAccountId": "111122223333", "dimension": "a#b", "timestamp": "2026-03-10T14:05:09", "quantity": 3` + more + "}"
	}
	row := func(more string) metering.Row {
		t.Helper()
		kept, refused, fault := readAll(strings.NewReader(text(more)), Options{})
		if len(kept) != 1 {
			t.Fatal(refused, fault)
		}
		r, err := kept[0].Row()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	want := metering.Row{
		License: license, SortKey: "111122223333#a#b#2026-03-10T14:05:09", Account: "111122223333", Dimension: "a#b",
		Timestamp: "2026-03-10T14:05:09", Quantity: metering.Units(3), Pending: "2026-03-10T14",
	}
	if diff := cmp.Diff(want, row("")); diff != "" {
		t.Error(diff)
	}
	want.Pending, want.SortKey = "2026-03-10T16", "x"
	if diff := cmp.Diff(want, row(`, "meteringPending": "2026-03-10T16", "customerAWSAccountId_dimension_timestamp": "x"`)); diff != "" {
		t.Error(diff)
	}
}

func TestRowRefusesTimes(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"2026-03-31T14:00:00Z":      `its timestamp "2026-03-31T14:00:00Z" has a zone: write it in UTC without a zone, in whole seconds: 2026-03-31T14:00:00`,
		"2026-03-31T16:00:00+02:00": `its timestamp "2026-03-31T16:00:00+02:00" has a zone: write it in UTC without a zone, in whole seconds: 2026-03-31T14:00:00`,
		"2026-03-31T14:00:00.25":    `its timestamp "2026-03-31T14:00:00.25" has a fraction of a second: write it in UTC without a zone, in whole seconds: 2026-03-31T14:00:00`,
		"2026-03-31 14:00:00":       `its timestamp "2026-03-31 14:00:00" is not in the one form that is read: write it in UTC without a zone, in whole seconds: 2026-03-31T14:00:00`,
		"1774965600":                `its timestamp "1774965600" is no time: write it as YYYY-MM-DDTHH:MM:SS in UTC, whole seconds, no zone, as in 2026-03-31T14:00:00`,
		"2026-02-30T00:00:00":       `its timestamp "2026-02-30T00:00:00" is no time: write it as YYYY-MM-DDTHH:MM:SS in UTC, whole seconds, no zone, as in 2026-03-31T14:00:00`,
	} {
		line := Line{Number: 9, Item: metering.Item{"licenseArn": "l", "customerAWSAccountId": "a", "dimension": "d", "timestamp": value}}
		if _, err := line.Row(); err == nil || err.Error() != "line 9: "+want {
			t.Errorf("%s: %v", value, err)
		}
	}
}

// A line can be found again in its file, refused or not, and the header comes as it stands.
func TestLinesSayWhereTheyStand(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", MaxLine+1) + "\n"
	lines := []string{first + "1,\r\n", "broken\n", long, first + "2,\n", first + "3,"}
	text := byteOrderMark + "# remark\n" + header + "\r\n" + lines[0] + "\n" + lines[1] + "# remark\n" + lines[2] + lines[3] + lines[4]
	f, err := Open(iotest.HalfReader(strings.NewReader(text)), Options{})
	if err != nil || f.Header != header || f.Format != CSV {
		t.Fatalf("%+v, %v", f, err)
	}
	var got []string
	var codes []Code
	for line, err := range f.Lines() {
		got = append(got, text[line.Offset:line.Offset+line.Size])
		var refusal *Refusal
		if errors.As(err, &refusal) {
			codes = append(codes, refusal.Code)
		}
	}
	if diff := cmp.Diff(lines, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Code{WrongCellCount, LineTooLong}, codes); diff != "" {
		t.Error(diff)
	}
}

func TestRefusalsHaveCodes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Code{
		`[]`: BrokenJSON, `{`: BrokenJSON, `{} {}`: BrokenJSON, `{"dimension": 1}`: NotText, `{"dimensions": ""}`: UnknownField,
		`{"dimension": "a", "dimension": "b"}`: RepeatedField, "\xff": NotUTF8,
	} {
		_, refused, _ := readAll(strings.NewReader("{}\n"+text), Options{})
		if len(refused) != 1 || refused[0].Code != want {
			t.Errorf("%s: %+v, want %s", text, refused, want)
		}
	}
	for item, want := range map[string]Code{`{}`: MissingField, `{"licenseArn": "l", "customerAWSAccountId": "a", "dimension": "d", "timestamp": "now"}`: Code(metering.MalformedTimestamp)} {
		kept, _, _ := readAll(strings.NewReader(item), Options{})
		var refusal *Refusal
		if _, err := kept[0].Row(); !errors.As(err, &refusal) || refusal.Code != want {
			t.Errorf("%s: %v, want %s", item, err, want)
		}
	}
}
