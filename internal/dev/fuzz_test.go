package dev_test

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// plain is a store in memory with settings.
type plain struct {
	*memory.Store
	mu       sync.Mutex
	settings map[string]string
}

func (p *plain) Setting(_ context.Context, name string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.settings[name], nil
}

func (p *plain) SetSetting(_ context.Context, name, value string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settings[name] = value
	return nil
}

// idle is a machine over a store in memory, which runs no stage.
func idle(t *testing.T) (*dev.Machine, *plain) {
	t.Helper()
	s := &plain{Store: memory.New(memory.Options{}), settings: map[string]string{}}
	m, err := dev.New(t.Context(), dev.Options{Store: s, At: afternoon})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m, s
}

func request(m *dev.Machine, method, path string, header map[string]string, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "http://localhost/", strings.NewReader(body))
	r.Method = method
	r.URL.Path, r.URL.RawQuery, _ = strings.Cut(path, "?")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, r)
	return w
}

// holds are all rows, and their sum.
func (p *plain) holds(t *testing.T) (rows []metering.Row, sum int64) {
	t.Helper()
	for license, err := range p.Licenses(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range p.LicenseRows(t.Context(), license) {
			if err != nil {
				t.Fatal(err)
			}
			rows, sum = append(rows, r), sum+r.Quantity.N
			if reason := r.Validate(afternoon); reason != "" {
				t.Errorf("%s is written, and would be refused: %s", r.SortKey, reason)
			}
		}
	}
	return rows, sum
}

// FuzzUsage: whatever is posted as usage, each line or element is written or named as refused; no content is a fault of ours; and under the
// same key it counts once.
func FuzzUsage(f *testing.F) {
	one, two := object("2026-03-10T14:00:00", 3), object("2026-03-10T14:00:59", 4)
	f.Add("application/json", "key", " ["+one+", "+two+",7,[],{}]\n")
	f.Add("application/json", "", strings.ReplaceAll(one, ",", ",\n  ")+" ")
	f.Add("application/json; charset=utf-16", "k", one+two)
	f.Add("application/json", "k", "["+one+","+one)
	f.Add("application/x-ndjson; charset=UTF-8", "a b", one+"\n{\"dimension\":\"\\u2028\\ud800\"}\n"+two)
	f.Add("text/csv", "k", csvHead+csvLine("2026-03-10T14:00:00", "3")+csvLine("2026-03-09T14:00:00", "3")+csvLine("2026-03-10T15:27:00", "1")+csvLine("2026-03-10T14:00:00", "2147483647")+"\xff\n")
	f.Add("text/csv", "é", csvHead+csvLine("2026-03-10T14:00:00", "x"))
	f.Fuzz(func(t *testing.T, kind, key, body string) {
		m, s := idle(t)
		header := map[string]string{"Content-Type": kind, "Idempotency-Key": key}
		w := request(m, http.MethodPost, "/v1/usage", header, body)
		var taken dev.Taken
		if err := json.Unmarshal(w.Body.Bytes(), &taken); err != nil || w.Code >= 500 {
			t.Fatalf("status %d, %v of %s", w.Code, err, w.Body)
		}
		if ok := w.Code < 300 || w.Code == 422; ok != (taken.Problem == nil) || taken.Problem != nil && (taken.Error == "" || taken.Hint == "") {
			t.Errorf("status %d, %+v", w.Code, taken)
		}
		if taken.Written+taken.Late+taken.RefusedLines != taken.Lines || w.Code == 200 && taken.Written != taken.Lines || w.Code == 422 && taken.Written > 0 || taken.RefusedLines != len(taken.Refused) && !taken.RefusedTruncated {
			t.Errorf("status %d, %+v", w.Code, taken)
		}
		for _, r := range taken.Refused {
			if r.Line < 1 || r.Code == "" || r.Reason == "" || r.Hint == "" {
				t.Errorf("refused %+v", r)
			}
		}
		var elements []any
		if media, _, err := mime.ParseMediaType(kind); err == nil && media == "application/json" && taken.Problem == nil && json.Unmarshal([]byte(body), &elements) == nil && len(elements) != taken.Lines {
			t.Errorf("%d elements are %d lines", len(elements), taken.Lines)
		}
		rows, sum := s.holds(t)
		if (len(rows) > 0) != (taken.Written > 0) {
			t.Errorf("%d lines are written, %d rows are there", taken.Written, len(rows))
		}
		again := request(m, http.MethodPost, "/v1/usage", header, body)
		if after, sumAfter := s.holds(t); key != "" && !cmp.Equal(rows, after) {
			t.Errorf("sent again, %d units are %d:\n%s", sum, sumAfter, cmp.Diff(rows, after))
		}
		if utf8.ValidString(body) && key != "" && again.Body.String() != w.Body.String() {
			t.Errorf("once  %s\ntwice %s", w.Body, again.Body)
		}
	})
}

// FuzzAsk: whatever else is asked of the node, in whatever words, is answered in JSON; no content is a fault of ours; an error says what to
// do; and to ask changes nothing.
func FuzzAsk(f *testing.F) {
	license := "?license=" + licenseOne
	for _, path := range []string{
		"/v1/accounts" + license + "&agreement=agmt-1", "/v1/refused" + license, "/v1/refused?x", "/v1/ledger?hour=2026-03-10T14", "/v1/ledger?from=2026-03-10T14&to=9999-12-31T23" + license, "/v1/ledger?%zz;=&license=\xff", "/v1/refused?license=%zz",
		"/v1/status", "/v1/clock", "/v1/nothing", "/register", "/v1/accounts?license=l&license=m",
	} {
		f.Add("GET", path, "")
	}
	f.Add("POST", "/v1/refused/retry", `{"licenseArn": "`+licenseOne+`", "hour": "2026-03-10T14", "dryRun": false}`)
	f.Add("POST", "/v1/refused/retry", `{"licenseArn": "x", "hour": null}{}`)
	f.Add("POST", "/v1/refused/retry", `{"licenseArn": "`+licenseOne+`"} ]`)
	f.Add("POST", "/v1/events", `[{"source":"aws.agreement-marketplace","detail-type":"License Updated - Manufacturer","time":"2026-03-10T15:00:00Z","detail":{"license":{"arn":"`+licenseOne+`"},"acceptor":{"accountId":"111122223333"}}},7,null,{}]`)
	f.Add("POST", "/v1/events", `{"source":"aws.agreement-marketplace","detail-type":"License Deprovisioned - Manufacturer","time":"2026-03-10T15:00:00.5+01:00","detail":{"license":{"id":"l-1"}}}`)
	f.Fuzz(func(t *testing.T, method, path, body string) {
		if strings.HasPrefix(path, "/v1/clock") && method == http.MethodPost || !strings.HasPrefix(path, "/v1/") && path != "/register" {
			t.Skip() // to move the clock runs all stages on the way; the simulator is asked elsewhere
		}
		m, s := idle(t)
		if w := request(m, http.MethodPost, "/v1/usage", map[string]string{"Content-Type": "application/json"}, object("2026-03-10T14:00:00", 3)); w.Code != 200 {
			t.Fatal(w.Body)
		}
		rows, _ := s.holds(t)
		w := request(m, method, path, nil, body)
		if w.Code >= 500 {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		if w.Header().Get("Content-Type") == "application/json" && !json.Valid(w.Body.Bytes()) && method != http.MethodHead {
			t.Errorf("%s: %s", w.Header().Get("Content-Type"), w.Body)
		}
		var problem dev.Problem
		if w.Code >= 400 && path != "/register" && (json.Unmarshal(w.Body.Bytes(), &problem) != nil || problem.Error == "" || problem.Hint == "") {
			t.Errorf("status %d says no more than %s", w.Code, w.Body)
		}
		route, query, _ := strings.Cut(path, "?")
		if _, err := url.ParseQuery(query); err != nil && w.Code < 300 && route != "/v1/status" && route != "/v1/clock" && route != "/v1/events" && route != "/register" && method == http.MethodGet {
			t.Errorf("status %d, and the query is no query: %v", w.Code, err)
		}
		if w.Code < 300 && method == http.MethodPost && route != "/register" && !json.Valid([]byte(body)) {
			t.Errorf("%q is taken for JSON", body)
		}
		if after, _ := s.holds(t); !cmp.Equal(rows, after) {
			t.Errorf("usage changes:\n%s", cmp.Diff(rows, after))
		}
		if again := request(m, method, path, nil, body); method == http.MethodGet && again.Code != w.Code {
			t.Errorf("status %d, and then %d", w.Code, again.Code)
		}
	})
}
