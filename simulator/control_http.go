package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

// take serves an endpoint that reads a JSON body and answers with what it read.
func take[In any](apply func(In) error) http.Handler {
	return give(func(in In) (In, error) { return in, apply(in) })
}

// give serves an endpoint that reads a JSON body and answers with JSON.
func give[In, Out any](apply func(In) (Out, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := readJSON(http.MaxBytesReader(w, r.Body, 1<<20), &in); err != nil {
			controlError(w, http.StatusBadRequest, err.Error(), example(r))
			return
		}
		out, err := apply(in)
		controlDone(w, out, err, example(r))
	})
}

// controlDone answers a call that was understood: with out, or with the error and what to do about it.
func controlDone(w http.ResponseWriter, out any, err error, hint string) {
	switch {
	case errors.Is(err, ErrForeignClock):
		controlError(w, http.StatusConflict, err.Error(), "start the simulator without a clock of your own to move it here")
	case errors.As(err, new(*unwritten)):
		controlError(w, http.StatusInternalServerError, err.Error(), "make room on the disk of the journal and send it again")
	case err != nil:
		controlError(w, http.StatusBadRequest, err.Error(), hint)
	default:
		controlJSON(w, http.StatusOK, out)
	}
}

// readJSON reads one JSON object and refuses misspelt members, which would otherwise go unnoticed.
func readJSON(body io.Reader, into any) error {
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return errors.New("the body is empty: it must be a JSON object")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("something follows the JSON object in the body, or there is more than one")
	}
	return nil
}

// example is the line of the endpoint list that shows this call.
func example(r *http.Request) string {
	for line := range strings.Lines(endpoints) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		path, _, query := strings.Cut(fields[1], "?")
		if (query || len(fields) > 2) && fields[0] == r.Method && path == r.URL.Path {
			return "for example " + strings.Join(fields, " ")
		}
	}
	return "GET /_simulator/ lists the control endpoints"
}

func controlError(w http.ResponseWriter, status int, message, hint string) {
	controlJSON(w, status, map[string]string{"error": message, "hint": hint})
}

func controlJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(value) // a caller that went away does not hear it
}
