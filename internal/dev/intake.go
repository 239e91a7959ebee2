package dev

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/awsmp/metering/internal/intake"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/usagefile"
	"github.com/awsmp/metering/usage"
)

const (
	// A chunk is held in memory and written as one batch. Its limits depend on the content alone, so that a request sent again is
	// cut in the same places; a change of them makes requests begun before it count anew.
	chunkLines = 10_000
	chunkBytes = 8 << 20

	maxUsage    = 1 << 30  // bytes of one request
	maxUsageDoc = 16 << 20 // of one JSON document
	maxRefused  = 1000     // that an answer lists
	maxKey      = 255
)

// Taken is the answer of POST /v1/usage: what became of the lines, or of the elements of a JSON array.
type Taken struct {
	// ID is the request's Idempotency-Key, or the one that it was given: sent again under it, nothing counts twice.
	ID           string    `json:"id"`
	Lines        int       `json:"lines"`
	Written      int       `json:"written"`
	Late         int       `json:"late"` // written, but after their hour was committed: do not book them again
	RefusedLines int       `json:"refusedLines"`
	Refused      []Refused `json:"refused"` // the first 1,000 of them
	// RefusedTruncated says that more lines were refused than are listed.
	RefusedTruncated bool `json:"refusedTruncated,omitempty"`
	// RefusedHint says what to do about refused lines.
	RefusedHint string `json:"refusedHint,omitempty"`
	// Set where the request did not come to its end. The counts are then of what came before.
	*Problem
}

// Refused is a line of which nothing was written.
type Refused struct {
	Line   int    `json:"line"` // from 1; of a JSON array the element
	Code   string `json:"code"`
	Reason string `json:"reason"`
	Hint   string `json:"hint"`
}

// CodeHourCommitted is the code of a line whose hour had its record before.
const CodeHourCommitted = "HourCommitted"

// postUsage writes usage while it is read. It answers 200 where every line was taken, 207 where some were refused, 422 where all
// were, and 503 where it is unknown whether some were written.
func (m *Machine) postUsage(w http.ResponseWriter, r *http.Request) {
	key, ok := keyOf(r.Header.Values("Idempotency-Key"))
	if !ok {
		fail(w, http.StatusBadRequest, "the Idempotency-Key is not 1 to 255 characters of visible ASCII, or there are several", "use a UUID, or the hash of what is sent")
		return
	}
	body, format, ok := usageBody(w, r)
	if !ok {
		return
	}
	t := &taking{machine: m, request: r, taken: Taken{ID: key, Refused: []Refused{}}}
	for line, err := range usagefile.Read(body, usagefile.Options{Format: format}) {
		if err = t.line(line, err); err != nil {
			t.fail(w, err)
			return
		}
	}
	if err := t.write(); err != nil {
		t.fail(w, err)
		return
	}
	status := http.StatusOK
	if t.taken.RefusedLines > 0 {
		status = http.StatusMultiStatus
	}
	if t.taken.RefusedLines == t.taken.Lines {
		status = http.StatusUnprocessableEntity
	}
	answer(w, status, t.taken)
}

// keyOf is the request's key, or a new one where it has none.
func keyOf(headers []string) (string, bool) {
	if len(headers) == 0 {
		return rand.Text(), true
	}
	key := headers[0]
	odd := strings.ContainsFunc(key, func(c rune) bool { return c < '!' || c > '~' })
	return key, len(headers) == 1 && key != "" && len(key) <= maxKey && !odd
}

// usageBody is the request's body as lines of usage. What is too large is refused before anything of it is written, as far as it
// says so.
func usageBody(w http.ResponseWriter, r *http.Request) (io.Reader, usagefile.Format, bool) {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		fail(w, http.StatusUnsupportedMediaType, fmt.Sprintf("the Content-Encoding %.60q is not read", coding), "send the usage as it is: gunzip it first")
		return nil, "", false
	}
	kind, parameters, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	limit := int64(maxUsage)
	if kind == "application/json" {
		limit = maxUsageDoc
	}
	if r.ContentLength > limit {
		fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes; nothing of it was written", limit), tooLargeHint)
		return nil, "", false
	}
	switch charset := strings.ToLower(parameters["charset"]); {
	case err != nil, charset != "" && charset != "utf-8" && charset != "us-ascii":
	case kind == "text/csv":
		return http.MaxBytesReader(w, r.Body, maxUsage), usagefile.CSV, true
	case kind == "application/x-ndjson", kind == "application/ndjson", kind == "application/jsonl":
		return http.MaxBytesReader(w, r.Body, maxUsage), usagefile.NDJSON, true
	case kind == "application/json":
		document, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUsageDoc))
		if errors.As(err, new(*http.MaxBytesError)) {
			fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes; nothing of it was written", maxUsageDoc), tooLargeHint)
			return nil, "", false
		}
		if err != nil {
			fail(w, http.StatusBadRequest, errBrokenOff.Error()+"; nothing of it was written", "send it again")
			return nil, "", false
		}
		return newElements(bytes.NewReader(document)), usagefile.NDJSON, true
	}
	fail(w, http.StatusUnsupportedMediaType, fmt.Sprintf("the Content-Type %.60q is not usage", r.Header.Get("Content-Type")),
		"say text/csv, application/x-ndjson or application/json: curl -H 'Content-Type: text/csv' --data-binary @usage.csv")
	return nil, "", false
}

const tooLargeHint = "send it in parts, each under a key of its own, or as application/x-ndjson; awsmp import takes files of any size"

// taking is one request under way.
type taking struct {
	machine *Machine
	request *http.Request
	taken   Taken

	chunks int
	lines  []int // of the events
	events []usage.Event
	read   int // lines of the chunk, refused ones included
	bytes  int64
}

// line takes a line, or the refusal of one. Other errors end the request: what was read of the chunk is left, because it would not
// be the same chunk when the request is sent again.
func (t *taking) line(l usagefile.Line, err error) error {
	var event usage.Event
	if err == nil {
		event, err = intake.Event(l)
	}
	var refusal *usagefile.Refusal
	switch {
	case errors.As(err, &refusal):
		t.refuse(refusal.Line, string(refusal.Code), refusal.Reason, refusal.Hint)
	case err != nil:
		return err
	default:
		t.lines, t.events = append(t.lines, l.Number), append(t.events, event)
	}
	t.read, t.bytes = t.read+1, t.bytes+l.Size
	if t.read < t.machine.chunk && t.bytes < chunkBytes {
		return nil
	}
	return t.write()
}

func (t *taking) refuse(line int, code, reason, hint string) {
	t.taken.RefusedLines++
	t.taken.RefusedHint = "send the refused lines alone once they are mended, under another key: the others would be written again"
	if len(t.taken.Refused) == maxRefused {
		t.taken.RefusedTruncated = true
		return
	}
	t.taken.Refused = append(t.taken.Refused, Refused{line, code, reason, hint})
}

// write writes the chunk. What has begun goes on when the caller goes away, so that it is not left in doubt without need.
func (t *taking) write() error {
	if err := t.request.Context().Err(); err != nil {
		return err
	}
	id := fmt.Sprintf("http/%s/%d", t.taken.ID, t.chunks)
	errs, err := t.machine.writer.WriteBatch(context.WithoutCancel(t.request.Context()), id, t.events)
	if err != nil {
		return err
	}
	for i, err := range errs {
		var refusal *usage.Refusal
		switch {
		case err == nil:
			t.taken.Written++
		case errors.Is(err, usage.ErrLate):
			t.taken.Late++
		case errors.Is(err, usage.ErrHourCommitted):
			t.refuse(t.lines[i], CodeHourCommitted, "its hour is already committed", "book it in the current hour, under a key of its own; "+metering.CommittedForGood)
		case errors.As(err, &refusal):
			t.refuse(t.lines[i], string(refusal.Reason), refusal.What, refusal.Hint)
		default:
			return err
		}
	}
	t.taken.Lines += t.read
	t.chunks++
	clear(t.events)
	t.lines, t.events, t.read, t.bytes = t.lines[:0], t.events[:0], 0, 0
	return nil
}

// fail answers a request that did not come to its end.
func (t *taking) fail(w http.ResponseWriter, err error) {
	var file *usagefile.FileError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		t.end(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the request is larger than %d bytes", large.Limit),
			fmt.Sprintf("the first %d lines are done: send what follows them, in parts, each under another key", t.taken.Lines))
	case errors.As(err, &file):
		hint := file.Hint
		if t.taken.Lines > 0 {
			hint += fmt.Sprintf("; the first %d lines are done: send what follows them under another key", t.taken.Lines)
		}
		t.end(w, http.StatusBadRequest, "the usage cannot be read: "+file.Why, hint)
	default:
		w.Header().Set("Retry-After", "1")
		t.end(w, http.StatusServiceUnavailable, "it is unknown whether all of it was written: "+err.Error(),
			"send the same request again with Idempotency-Key: "+t.taken.ID)
	}
}

func (t *taking) end(w http.ResponseWriter, status int, why, hint string) {
	t.taken.Problem = &Problem{Error: why, Hint: hint}
	answer(w, status, t.taken)
}
