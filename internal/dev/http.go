package dev

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/awsmp/metering/internal/store/sqlite"
)

// maxCommand bounds the body of a request that is not usage.
const maxCommand = 64 << 10

const here = `awsmp dev: a metering node for development

POST /v1/usage   usage as text/csv, application/x-ndjson or application/json; with an Idempotency-Key it counts once
POST /v1/events  an EventBridge event of the Marketplace, or an array of them: buyers come and leave
GET  /v1/accounts?license=  the accounts that are known of a license
GET  /v1/status  the clock, what waits, licenses in their last hour, the stages
GET  /v1/ledger  the books; ?license=, ?hour=, ?from= and ?to= narrow them
GET  /v1/refused  refused usage that can be sent once more, newest hour first; ?license= narrows it
POST /v1/refused/retry  {"licenseArn": "arn:…"}: refused usage is sent once more; "dimension", "hour" and "dryRun" narrow it
GET  /v1/counted  what was counted since the start, by the hour in which it was
GET  /v1/dead-letters?queue=  messages that failed too often, of work, deprovision or cleanup
POST /v1/dead-letters/redrive {"queue": "work"}: they are handled once more
GET  /v1/clock   the time; POST {"advance": "90m"} or {"to": "2026-03-10T15:00:00Z"} moves it
POST /register   a buyer's first click, as AWS Marketplace posts it
`

const hereSimulator = `
Everything else is the simulated AWS Marketplace Metering Service: point an AWS SDK's endpoint here.
GET  /_simulator/ledger  what it billed; GET /_simulator/ lists the rest
`

// Handler serves the node's own endpoints under /v1/, registration, a word for browsers at /, and everything else to the simulator.
// Requests of other sites' pages are refused, but for a buyer's first click.
func (m *Machine) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/usage", only(m.postUsage, http.MethodPost))
	mux.HandleFunc("/v1/events", only(m.postEvents, http.MethodPost))
	mux.HandleFunc("/v1/accounts", only(m.getAccounts, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/v1/refused", only(m.getRefused, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/v1/refused/retry", only(m.postRetry, http.MethodPost))
	mux.HandleFunc("/v1/status", only(m.getStatus, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/v1/ledger", only(m.getLedger, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/v1/counted", only(m.getCounted, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/v1/dead-letters", only(m.getLetters, http.MethodGet, http.MethodHead))
	mux.HandleFunc("/v1/dead-letters/redrive", only(m.postRedrive, http.MethodPost))
	mux.HandleFunc("/v1/clock", only(m.clockEndpoint, http.MethodGet, http.MethodHead, http.MethodPost))
	mux.Handle(registerPath, m.register)
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, r.URL.Path+" is not served here", "GET / lists what is") // awsmp knows a node of an older release by these words
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, here)
		if m.sim != nil {
			_, _ = io.WriteString(w, hereSimulator)
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if m.sim != nil {
			m.sim.ServeHTTP(w, r)
			return
		}
		fail(w, http.StatusNotFound, fmt.Sprintf("%s %s is not served here: the Marketplace is at %s", r.Method, r.URL.Path, m.options.MarketplaceEndpoint),
			"GET / lists what is")
	})
	return guarded(mux)
}

// Problem is the body of every answer that is an error.
type Problem struct {
	Error string `json:"error"`
	Hint  string `json:"hint"` // what to do about it
}

func fail(w http.ResponseWriter, status int, why, hint string) {
	answer(w, status, Problem{Error: why, Hint: hint})
}

// broken answers with an error of the store or of the machine itself.
func broken(w http.ResponseWriter, err error) {
	fail(w, http.StatusInternalServerError, err.Error(), brokenHint(err, "see the output of awsmp dev"))
}

// brokenHint is the store's own hint, where it has one.
func brokenHint(err error, otherwise string) string {
	var p *sqlite.Problem
	if errors.As(err, &p) {
		return p.Hint
	}
	return otherwise
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	_ = e.Encode(body) // a caller that went away does not hear it
}

func only(serve http.HandlerFunc, methods ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for _, m := range methods {
			if r.Method == m {
				serve(w, r)
				return
			}
		}
		w.Header().Set("Allow", strings.Join(methods, ", "))
		fail(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s is not for %s", r.Method, r.URL.Path), "use "+strings.Join(methods, " or "))
	}
}

// errBrokenOff is a body that ended before its end. Whoever sent it may still listen: it may be a proxy that gave up halfway.
var errBrokenOff = errors.New("the body broke off")

// readCommand reads a small JSON object and refuses members that are not known.
func readCommand(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxCommand))
	if errors.As(err, new(*http.MaxBytesError)) {
		return fmt.Errorf("the body is larger than %d bytes", maxCommand)
	}
	if err != nil {
		return errBrokenOff
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("the body is empty")
		}
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the JSON object")
	}
	return nil
}
