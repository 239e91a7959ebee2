package dev_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	licenseOne = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	buyerOne   = "111122223333"
)

// afternoon is 15:20 on a day without a month end.
var afternoon = time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)

// machine is a Machine on a folder of its own, served.
type machine struct {
	*dev.Machine
	t      *testing.T
	folder *dev.Folder
	server *httptest.Server
	closed bool
}

// start opens a machine in dir at afternoon, or where its clock stood.
func start(t *testing.T, dir string, change ...func(*dev.Options)) *machine {
	t.Helper()
	folder, err := dev.OpenFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	o := dev.Options{Store: folder.Store, StorePath: "usage.db", Journal: folder.Journal(), At: afternoon}
	for _, c := range change {
		c(&o)
	}
	m := &machine{t: t, folder: folder}
	if m.Machine, err = dev.New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	m.server = httptest.NewServer(m.Handler())
	t.Cleanup(m.stop)
	return m
}

func (m *machine) stop() {
	if m.closed {
		return
	}
	m.closed = true
	m.server.Client().CloseIdleConnections()
	m.server.Close()
	if err := m.Close(context.Background()); err != nil {
		m.t.Error(err)
	}
	if err := m.folder.Close(); err != nil {
		m.t.Error(err)
	}
}

// ask sends a request and reads the answer's JSON.
func (m *machine) ask(method, path string, header map[string]string, body io.Reader, into any) *http.Response {
	m.t.Helper()
	r, err := http.NewRequestWithContext(m.t.Context(), method, m.server.URL+path, body)
	if err != nil {
		m.t.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, text := m.send(r)
	if into != nil {
		d := json.NewDecoder(bytes.NewReader(text))
		if err := d.Decode(into); err != nil {
			m.t.Fatalf("%s %s: %v in %s", method, path, err, text)
		}
	}
	return response
}

func (m *machine) send(r *http.Request) (*http.Response, []byte) {
	m.t.Helper()
	response, err := m.server.Client().Do(r)
	if err != nil {
		m.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	return response, text
}

// do sends a request and returns the answer's status and text.
func (m *machine) do(r *http.Request) (int, string) {
	m.t.Helper()
	response, text := m.send(r)
	return response.StatusCode, string(text)
}

// post sends usage and returns the answer's status and body.
func (m *machine) post(kind, key, body string) (int, dev.Taken) {
	m.t.Helper()
	var taken dev.Taken
	header := map[string]string{"Content-Type": kind}
	if key != "" {
		header["Idempotency-Key"] = key
	}
	return m.ask(http.MethodPost, "/v1/usage", header, strings.NewReader(body), &taken).StatusCode, taken
}

func (m *machine) advance(to time.Time) {
	m.t.Helper()
	body := fmt.Sprintf(`{"to": %q}`, to.Format(time.RFC3339))
	if r := m.ask(http.MethodPost, "/v1/clock", nil, strings.NewReader(body), nil); r.StatusCode != http.StatusOK {
		m.t.Fatalf("advance: %s", r.Status)
	}
}

func (m *machine) ledger(query string) (d ledger.Document) {
	m.t.Helper()
	if r := m.ask(http.MethodGet, "/v1/ledger"+query, nil, nil, &d); r.StatusCode != http.StatusOK {
		m.t.Fatalf("ledger: %s", r.Status)
	}
	return d
}

// wantPlaces holds the books to balance, to agree with the simulator's, and to have these units.
func (m *machine) wantPlaces(written int64, want map[ledger.Place]int64) {
	m.t.Helper()
	d := m.ledger("")
	if !d.Balanced || d.CrossCheck == nil || !d.CrossCheck.Equal || d.Written.Units != written {
		m.t.Errorf("written %d, want %d; balanced %v, compared %+v", d.Written.Units, written, d.Balanced, d.CrossCheck)
	}
	for p, units := range want {
		if got := d.Places[p].Units; got != units {
			m.t.Errorf("%s %d, want %d", p, got, units)
		}
	}
}

// object is a line of NDJSON.
func object(second string, quantity any) string {
	text, err := json.Marshal(map[string]any{
		metering.AttrLicense: licenseOne, metering.AttrAccount: buyerOne, metering.AttrDimension: "api_calls",
		metering.AttrTimestamp: second, metering.AttrQuantity: quantity,
	})
	if err != nil {
		panic(err)
	}
	return string(text) + "\n"
}

// teller keeps what a machine's story tells.
type teller struct {
	mu    sync.Mutex
	lines []string
}

func (t *teller) listen(o *dev.Options) {
	o.Observe = func(e node.Event, did string) {
		t.mu.Lock()
		defer t.mu.Unlock()
		if e.At.Before(afternoon) || e.At.After(afternoon.AddDate(0, 0, 1)) {
			did += ", by another clock"
		}
		t.lines = append(t.lines, e.Stage+": "+did)
	}
}

func (t *teller) told() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.lines)
}
