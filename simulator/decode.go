package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// cursor walks JSON that json.Valid has already passed, so it meets only faults of type, never of syntax. encoding/json itself
// would take "timestamp" for "Timestamp", which the service does not, and is several times slower.
type cursor struct {
	text []byte
	at   int
}

func parse(body []byte) (*cursor, error) {
	if !utf8.Valid(body) || !json.Valid(body) {
		return nil, serialization("the body is no valid JSON")
	}
	c := &cursor{text: body}
	if c.peek() != '{' {
		return nil, serialization("the request must be a JSON object")
	}
	return c, nil
}

func (c *cursor) peek() byte {
	for {
		switch b := c.text[c.at]; b {
		case ' ', '\t', '\r', '\n':
			c.at++
		default:
			return b
		}
	}
}

// null consumes a null, which the protocol treats as an absent member.
func (c *cursor) null() bool {
	if c.peek() != 'n' {
		return false
	}
	c.at += len("null")
	return true
}

// Faults name the place from the inside out: a caller puts its own part of the path before the message with within, so that a
// sound request builds no paths.

func (c *cursor) object(member func(name []byte) error) error {
	if c.peek() != '{' {
		return wrongType("an object")
	}
	c.at++
	for c.peek() != '}' {
		if c.text[c.at] == ',' {
			c.at++
			c.peek()
		}
		name := c.memberName()
		c.peek()
		c.at++ // the colon
		if err := member(name); err != nil {
			return err
		}
	}
	c.at++
	return nil
}

func (c *cursor) array(element func() error) error {
	if c.peek() != '[' {
		return wrongType("a list")
	}
	c.at++
	for i := 0; c.peek() != ']'; i++ {
		if c.text[c.at] == ',' {
			c.at++
		}
		if err := element(); err != nil {
			return within("["+strconv.Itoa(i)+"]", err)
		}
	}
	c.at++
	return nil
}

func (c *cursor) string() (string, error) {
	if c.peek() != '"' {
		return "", wrongType("a string")
	}
	text, escaped := c.quoted()
	if !escaped {
		return string(text[1 : len(text)-1]), nil
	}
	return unquote(text), nil
}

// memberName is what stands before a colon, in place where it can be.
func (c *cursor) memberName() []byte {
	text, escaped := c.quoted()
	if !escaped {
		return text[1 : len(text)-1]
	}
	return []byte(unquote(text))
}

// quoted passes over a string and returns it with its quotes.
func (c *cursor) quoted() (text []byte, escaped bool) {
	start := c.at
	c.at++
	for c.text[c.at] != '"' {
		if c.text[c.at] == '\\' {
			escaped = true
			c.at++
		}
		c.at++
	}
	c.at++
	return c.text[start:c.at], escaped
}

func unquote(text []byte) string {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		panic(fmt.Sprintf("unquote a string of valid JSON: %v", err))
	}
	return s
}

// number returns a number as it is written.
func (c *cursor) number() (string, error) {
	if b := c.peek(); b != '-' && (b < '0' || b > '9') {
		return "", wrongType("a number")
	}
	start := c.at
	for c.at < len(c.text) && strings.IndexByte("+-.0123456789eE", c.text[c.at]) >= 0 {
		c.at++
	}
	return string(c.text[start:c.at]), nil
}

// skip passes over a value of any kind: an unknown member is ignored.
func (c *cursor) skip() {
	switch c.peek() {
	case '{':
		_ = c.object(func([]byte) error { c.skip(); return nil })
	case '[':
		_ = c.array(func() error { c.skip(); return nil })
	case '"':
		c.quoted()
	case 't', 'n':
		c.at += 4
	case 'f':
		c.at += 5
	default:
		_, _ = c.number()
	}
}

func wrongType(want string) error { return serialization(" must be %s", want) }

// within puts the place of a fault before its message.
func within(place string, err error) error {
	if refused := new(exception); errors.As(err, &refused) {
		refused.message = place + refused.message
	}
	return err
}
