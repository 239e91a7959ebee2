package dev

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// elements reads a JSON document, an object or an array of them, as lines of one object each, so that one reader knows what usage
// looks like. An element is read when its line is.
type elements struct {
	source *bufio.Reader
	json   *json.Decoder
	line   bytes.Buffer // what is left of the current one
	begun  bool
	array  bool
	err    error
}

func newElements(r io.Reader) *elements {
	source := bufio.NewReader(r)
	return &elements{source: source, json: json.NewDecoder(source)}
}

func (e *elements) Read(p []byte) (int, error) {
	for e.line.Len() == 0 {
		if e.err == nil {
			e.err = e.next()
		}
		if e.err != nil {
			return 0, e.err
		}
	}
	return e.line.Read(p)
}

func (e *elements) next() error {
	if !e.begun {
		e.begun = true
		if e.array = e.startsArray(); !e.array {
			return e.element()
		}
		if _, err := e.json.Token(); err != nil { // the bracket
			return brokenDocument(err)
		}
	}
	if e.array && e.json.More() {
		return e.element()
	}
	if e.array {
		e.array = false
		if _, err := e.json.Token(); err != nil {
			return brokenDocument(err)
		}
	}
	if _, err := e.json.Token(); !errors.Is(err, io.EOF) {
		return brokenDocument(errors.New("something follows the document"))
	}
	return io.EOF
}

// startsArray passes over white space and looks at what the document begins with.
func (e *elements) startsArray() bool {
	for {
		c, err := e.source.ReadByte()
		if err != nil {
			return false // the decoder meets it again
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			_ = e.source.UnreadByte()
			return c == '['
		}
	}
}

func (e *elements) element() error {
	var raw json.RawMessage
	if err := e.json.Decode(&raw); err != nil {
		return brokenDocument(err)
	}
	if err := json.Compact(&e.line, raw); err != nil {
		return brokenDocument(err)
	}
	e.line.WriteByte('\n')
	return nil
}

func brokenDocument(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read the JSON document: %w", err)
}
