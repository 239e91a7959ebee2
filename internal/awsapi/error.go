package awsapi

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/smithy-go"
)

var errNoRegion = errors.New("no Region is set")

const hintNoRegion = "export AWS_REGION=us-east-1, or the Region of the tables"

// Error is a call that failed: what was being done, to which table or queue, what kind of failure it is, and what a person can
// do about it.
type Error struct {
	Class     Class
	Operation string // a short verb phrase: "read rows"
	Resource  string // a table's or queue's name; empty where there is none
	Hint      string // what to do, with the command that helps; empty where there is nothing but to wait
	Err       error
}

// Error is all of it in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Operation)
	if e.Resource != "" {
		fmt.Fprintf(&b, " (%s)", e.Resource)
	}
	b.WriteString(": " + cause(e.Err))
	if e.Hint != "" {
		b.WriteString(". Try: " + e.Hint)
	}
	return b.String()
}

// Retry reports whether the same call may succeed later as it is. Those who repeat calls ask it.
func (e *Error) Retry() bool { return e.Class.Retry() }

// Unwrap is the SDK's error.
func (e *Error) Unwrap() error { return e.Err }

// Wrap makes an *Error of what a call of the SDK failed with; nil stays nil, and an *Error stays the one it is. What is in the
// error already stays visible to errors.Is and errors.As, as context.Canceled.
func Wrap(operation, resource string, err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	class := classify(err)
	return &Error{Class: class, Operation: operation, Resource: resource, Hint: hint(class, resource, err), Err: err}
}

// ClassOf is the class of an error, whether it was wrapped or not; empty for nil.
func ClassOf(err error) Class {
	var known *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &known):
		return known.Class
	}
	return classify(err)
}

// cause is what the service said, without the SDK's words around it, or all that there is.
func cause(err error) string {
	var refused smithy.APIError
	if !errors.As(err, &refused) || refused.ErrorCode() == "" {
		return err.Error()
	}
	text := strings.TrimRight(refused.ErrorMessage(), ". \n")
	if text == "" || text == "UnknownError" { // which the SDK says where the service says nothing
		text = "refused"
	}
	return fmt.Sprintf("%s (%s)", text, refused.ErrorCode())
}
