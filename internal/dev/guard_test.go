package dev_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/dev"
)

// What is refused by its head alone is refused before any of it is written, in the form of every error.
func TestRequestsRefusedByTheirHead(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	one := object("2026-03-10T14:00:00", 3)
	for name, c := range map[string]struct {
		change func(*http.Request)
		status int
	}{
		"an empty key":        {func(r *http.Request) { r.Header.Set("Idempotency-Key", "") }, 400},
		"two keys":            {func(r *http.Request) { r.Header["Idempotency-Key"] = []string{"a", "b"} }, 400},
		"a key with a blank":  {func(r *http.Request) { r.Header.Set("Idempotency-Key", "a b") }, 400},
		"compressed":          {func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") }, 415},
		"another alphabet":    {func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=latin1") }, 415},
		"another site's page": {func(r *http.Request) { r.Header.Set("Origin", "http://elsewhere.example") }, 403},
		"a site's name led to here": {func(r *http.Request) {
			r.Header.Set("Origin", "http://elsewhere.example:8787")
			r.Host = "elsewhere.example:8787"
		}, 403},
		"UTF-8 said so":              {func(r *http.Request) { r.Header.Set("Content-Type", "application/json; charset=UTF-8") }, 200},
		"a page of this machine":     {func(r *http.Request) { r.Header.Set("Origin", "http://localhost:8787"); r.Host = "localhost:8787" }, 200},
		"an SDK by some host's name": {func(r *http.Request) { r.Host = "host.internal:8787" }, 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.server.URL+"/v1/usage", strings.NewReader(one))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			c.change(r)
			status, body := m.do(r)
			if status != c.status || status != 200 && (!strings.Contains(body, `"error": "`) || !strings.Contains(body, `"hint": "`)) {
				t.Errorf("status %d, want %d: %s", status, c.status, body)
			}
		})
	}
}

// A request that says that it is too large is refused at once: half of it written would be counted twice when it is sent in parts.
func TestTooLargeIsRefusedWhole(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	one := object("2026-03-10T14:00:00", 3)
	many := "[" + one + strings.Repeat(",\n"+one, 16<<20/len(one)) + "]"
	for _, length := range []int64{int64(len(many)), -1} { // said, and not said
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.server.URL+"/v1/usage", strings.NewReader(many))
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = length
		r.Header.Set("Content-Type", "application/json")
		if status, body := m.do(r); status != 413 || !strings.Contains(body, "nothing of it was written") {
			t.Errorf("status %d: %s", status, body)
		}
	}
	m.wantPlaces(0, nil)
}

// The rows of a request depend on the fold: sent again under another one it would count twice.
func TestFoldIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := start(t, dir, func(o *dev.Options) { o.Fold = time.Minute })
	m.post("application/json", "key", object("2026-03-10T14:00:00", 3))
	m.stop()
	folder, err := dev.OpenFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var refused *dev.FoldError
	if _, err := dev.New(t.Context(), dev.Options{Store: folder.Store, Fold: time.Second}); !errors.As(err, &refused) || refused.Kept != time.Minute {
		t.Errorf("another fold: %v", err)
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	m = start(t, dir, func(o *dev.Options) { o.Fold, o.At = 0, time.Time{} })
	m.post("application/json", "key", object("2026-03-10T14:00:00", 3))
	m.wantPlaces(3, nil)
}

// A page under a name that later leads here is of this address's own origin. It reads nothing, and registers nobody: neither with the
// headers that browsers send, nor without those that a page can leave out. Programs go on as they did.
func TestNothingIsReadByAnothersName(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	const rebound, port = "rebound.example", ":8787"
	page := func(header ...string) http.Header {
		h := http.Header{"User-Agent": {"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36"}, "Accept": {"*/*"}}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return h
	}
	program := http.Header{"User-Agent": {"curl/7.88.1"}}
	firstClick := "/_simulator/first-click?to=http://127.0.0.1:8787/register"
	reads := []string{"/v1/status", "/v1/ledger", "/v1/refused", "/v1/clock", "/_simulator/ledger", "/_simulator/", firstClick, "/register", "/"}
	type request struct {
		method, path, host string
		header             http.Header
		refused            bool
	}
	var requests []request
	for _, path := range reads {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			for _, host := range []string{rebound + port, rebound, rebound + ".", "127.0.0.1." + rebound + port, "localhost." + rebound, "xn--0.internal." + rebound} {
				requests = append(requests, request{method, path, host, page(), true}) // as a page's fetch without Referer comes
			}
			for _, host := range []string{"", "localhost" + port, "LOCALHOST", "register.localhost" + port, "127.0.0.1" + port, "[::1]" + port, "192.0.2.7" + port, "host.docker.internal" + port, "awsmp" + port} {
				requests = append(requests, request{method, path, host, program, false}, request{method, path, host, page("Sec-Fetch-Site", "none"), false})
			}
		}
	}
	own, aws := "http://"+rebound+port, "https://aws.amazon.com"
	requests = append(requests,
		request{"GET", "/v1/status", rebound + port, page("Referer", own+"/"), true},
		request{"POST", "/register", rebound + port, page("Origin", own), true},
		request{"POST", "/register", rebound + port, page("Origin", "null"), true},
		request{"POST", "/register", rebound + port, page("Origin", own, "Sec-Fetch-Site", "same-origin"), true},
		request{"POST", "/register", rebound + port, page("Origin", aws, "Sec-Fetch-Site", "cross-site"), true},
		request{"POST", "/_simulator/tokens", rebound + port, page("Origin", own), true},
		request{"POST", "/v1/events", rebound + port, page("Origin", own), true},
		request{"POST", "/", rebound + port, page("Origin", own), true},
		request{"PUT", "/_simulator/suspensions", rebound + port, page("Origin", own), true},
		request{"OPTIONS", "/v1/usage", rebound + port, page("Origin", own), true},

		request{"POST", "/register", "localhost" + port, page("Origin", aws, "Sec-Fetch-Site", "cross-site"), false},
		request{"POST", "/register", "127.0.0.1" + port, page("Origin", "null", "Sec-Fetch-Site", "cross-site"), false},
		request{"POST", "/register", "localhost" + port, page("Origin", "http://localhost"+port, "Sec-Fetch-Site", "same-origin"), false},
		request{"POST", "/register", "awsmp.corp.example" + port, program, false},
		request{"POST", "/", "awsmp.corp.example" + port, program, false},
		request{"POST", "/v1/usage", "awsmp.corp.example" + port, program, false},
	)
	for _, c := range requests {
		r, err := http.NewRequestWithContext(t.Context(), c.method, m.server.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header, r.Host = c.header.Clone(), c.host
		response, text := m.send(r)
		if got := response.StatusCode == http.StatusForbidden; got != c.refused {
			t.Errorf("%s %s of %q with %v: %s %s", c.method, c.path, c.host, c.header, response.Status, text)
		}
		if c.refused && c.method != http.MethodHead && (!strings.Contains(string(text), "comes by the name") || !strings.Contains(string(text), `"hint": "use an address`)) {
			t.Errorf("%s %s of %q: %s", c.method, c.path, c.host, text)
		}
	}
}
