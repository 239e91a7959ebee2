package usagefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/awsmp/metering/internal/metering"
)

// parseObject reads one JSON object, field by field, so that a field which stands twice is seen.
func (f *File) parseObject(raw string, into *Line) *Refusal {
	d := json.NewDecoder(strings.NewReader(raw))
	d.UseNumber()
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return &Refusal{Code: BrokenJSON, Reason: "it is not a JSON object", Hint: `write one object a line, like {"licenseArn": "…", "quantity": 3}`}
	}
	seen := make(map[string]bool, len(attributes))
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return brokenJSON(err)
		}
		name, _ := token.(string)
		var value any
		if err := d.Decode(&value); err != nil {
			return brokenJSON(err)
		}
		if seen[name] {
			return &Refusal{Code: RepeatedField, Reason: fmt.Sprintf("the field %.60q stands twice", name), Hint: "keep one of the two"}
		}
		seen[name] = true
		if refusal := f.field(name, value, into); refusal != nil {
			return refusal
		}
	}
	if _, err := d.Token(); err != nil {
		return brokenJSON(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return &Refusal{Code: BrokenJSON, Reason: "something follows the JSON object", Hint: "write one object a line"}
	}
	return nil
}

func (f *File) field(name string, value any, into *Line) *Refusal {
	switch {
	case !f.known(name):
		return &Refusal{Code: UnknownField, Reason: f.unknown("field", name), Hint: f.listing("fields")}
	case slices.Contains(f.Extra, name):
		s, ok := value.(string)
		if !ok && value != nil {
			return notText(name)
		}
		if s != "" {
			into.setExtra(name, s)
		}
	case slices.Contains(keys, name):
		s, ok := value.(string)
		if !ok && value != nil {
			return notText(name)
		}
		if s != "" {
			into.Item[name] = s
		}
	default:
		into.Item[name] = value
	}
	return nil
}

// keys are the attributes that a row's place in the table rests on: they are text, or there is no row.
var keys = []string{
	metering.AttrLicense, metering.AttrAccount, metering.AttrDimension, metering.AttrTimestamp, metering.AttrPending, metering.AttrRowKey,
}

func notText(name string) *Refusal {
	return &Refusal{Code: NotText, Reason: fmt.Sprintf("the field %s is no text", name), Hint: fmt.Sprintf(`put it in quotes: "%s": "…"`, name)}
}

func brokenJSON(err error) *Refusal {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it ends too early")
	}
	return &Refusal{Code: BrokenJSON, Reason: fmt.Sprintf("broken JSON: %v", err), Hint: "write one whole object a line"}
}

// decode reads one JSON value with its numbers as they are written.
func decode(s string) (any, error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("it ends too early")
		}
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the value")
	}
	return v, nil
}
