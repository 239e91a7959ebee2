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
	var many strings.Builder
	many.WriteString("[" + object("2026-03-10T14:00:00", 3))
	for many.Len() <= 16<<20 {
		many.WriteString(",\n" + object("2026-03-10T14:00:00", 3))
	}
	many.WriteString("]")
	for _, length := range []int64{int64(many.Len()), -1} { // said, and not said
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.server.URL+"/v1/usage", strings.NewReader(many.String()))
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
