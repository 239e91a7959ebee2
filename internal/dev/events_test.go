package dev_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

const (
	licenseTwo   = "arn:aws:license-manager::111122223333:license:l-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	agreementOne = "agmt-1"
)

// happened is an event of the Marketplace about a license.
func happened(t *testing.T, kind lifecycle.Kind, license string, at time.Time) string {
	t.Helper()
	text, err := lifecycle.TestEvent{
		Kind: kind, License: license, Account: buyerOne, Agreement: agreementOne, ProductCode: simulator.DefaultProductCode, At: at,
	}.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tell sends an event and returns the answer's status and body.
func (m *machine) tell(event string) (int, dev.EventResult) {
	m.t.Helper()
	var r dev.EventResult
	return m.ask(http.MethodPost, "/v1/events", nil, strings.NewReader(event), &r).StatusCode, r
}

func (m *machine) status() (s dev.Status) {
	m.t.Helper()
	m.ask(http.MethodGet, "/v1/status", nil, nil, &s)
	return s
}

// A buyer leaves: what was used is billed, the last hour is shown while it lasts, then neither the node nor the Marketplace knows
// the license any more. It comes back, and is billed again.
func TestABuyerLeavesAndComesBack(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	m.wantEvent(happened(t, lifecycle.LicenseUpdated, licenseOne, afternoon.Add(-time.Hour)), metering.LifecycleActive, time.Time{})
	m.post("application/x-ndjson", "before", object("2026-03-10T15:10:00", 5))

	left := afternoon.Add(10 * time.Second)
	ends := left.Add(time.Hour)
	event := happened(t, lifecycle.LicenseDeprovisioned, licenseOne, left)
	m.wantEvent(event, metering.LifecycleDeprovisioning, ends)
	if _, r := m.tell(event); r.Licenses[0].Changed {
		t.Error("a repeat changes something")
	}
	want := []dev.Window{{License: licenseOne, Account: buyerOne, Expiry: ends}}
	windows := m.status().Windows
	for i := range windows {
		if left, err := time.ParseDuration(windows[i].Left); err != nil || left <= 59*time.Minute || left > time.Hour+10*time.Second {
			t.Errorf("left %q", windows[i].Left)
		}
		windows[i].Left = ""
	}
	if diff := cmp.Diff(want, windows); diff != "" {
		t.Error(diff)
	}

	m.advance(afternoon.Add(2 * time.Hour))
	if windows := m.status().Windows; len(windows) != 0 {
		t.Errorf("windows %+v", windows)
	}
	m.wantPlaces(5, map[ledger.Place]int64{ledger.Billed: 5})
	m.post("application/x-ndjson", "after", object("2026-03-10T17:10:00", 7))
	m.advance(afternoon.Add(4 * time.Hour))
	m.wantPlaces(12, map[ledger.Place]int64{ledger.Billed: 5, ledger.Refused: 7})

	m.wantEvent(happened(t, lifecycle.LicenseUpdated, licenseOne, afternoon.Add(4*time.Hour)), metering.LifecycleActive, time.Time{})
	m.post("application/x-ndjson", "again", object("2026-03-10T19:10:00", 9))
	m.advance(afternoon.Add(6 * time.Hour))
	m.wantPlaces(21, map[ledger.Place]int64{ledger.Billed: 14, ledger.Refused: 7})
}

func (m *machine) wantEvent(event string, status metering.LifecycleStatus, expiry time.Time) {
	m.t.Helper()
	code, r := m.tell(event)
	if code != http.StatusOK || r.Problem != nil || len(r.Licenses) != 1 {
		m.t.Fatalf("%d %+v", code, r)
	}
	want := lifecycle.Change{License: licenseOne, Account: buyerOne, Changed: true, Status: status, AgreementStatus: metering.LifecycleActive, Expiry: expiry}
	if diff := cmp.Diff(want, r.Licenses[0]); diff != "" {
		m.t.Error(diff)
	}
}

// An answer lost is an event sent again: it makes the Marketplace follow, though nothing changes in the node's own table.
func TestARepeatedEventIsFollowed(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	left := metering.LicenseEvent{License: licenseOne, Account: buyerOne, At: afternoon.Add(-2 * time.Hour)}
	if _, _, err := m.folder.Store.ChangeSubscriber(t.Context(), left.DeprovisionedAt(afternoon)); err != nil { // and then the node was killed
		t.Fatal(err)
	}
	if code, r := m.tell(happened(t, lifecycle.LicenseDeprovisioned, licenseOne, left.At)); code != http.StatusOK || r.Licenses[0].Expiry.IsZero() {
		t.Fatalf("%d %+v", code, r)
	}
	m.post("application/x-ndjson", "too-late", object("2026-03-10T15:10:00", 5))
	m.advance(afternoon.Add(time.Hour))
	m.wantPlaces(5, map[ledger.Place]int64{ledger.Refused: 5})
}

func TestAnAgreementsEndReachesAllItsLicenses(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	ended := happened(t, lifecycle.AgreementEnded, "", afternoon)
	code, r := m.tell(ended)
	if code != http.StatusConflict || r.Applied != nil || r.Problem == nil || r.Hint == "" {
		t.Errorf("%d %+v", code, r)
	}
	events := []string{
		ended, // too early still
		happened(t, lifecycle.LicenseUpdated, licenseOne, afternoon.Add(-time.Hour)), happened(t, lifecycle.LicenseUpdated, licenseTwo, afternoon.Add(-time.Hour)),
		`"no event"`, ended, happened(t, lifecycle.AgreementCreated, "", afternoon),
	}
	var results []dev.EventResult
	response := m.ask(http.MethodPost, "/v1/events", nil, strings.NewReader("["+strings.Join(events, ",")+"]"), &results)
	if response.StatusCode != http.StatusMultiStatus || len(results) != len(events) {
		t.Fatalf("%s: %+v", response.Status, results)
	}
	for i, want := range []int{409, 200, 200, 400, 200, 200} {
		if got := results[i]; got.Status != want || (got.Problem == nil) != (want == 200) {
			t.Errorf("event %d: %+v", i, got)
		}
	}
	var licenses []string
	for _, l := range results[4].Licenses {
		if l.AgreementStatus != metering.LifecycleInactive || l.Status != metering.LifecycleActive || !l.Changed {
			t.Errorf("%+v", l)
		}
		licenses = append(licenses, l.License)
	}
	if diff := cmp.Diff([]string{licenseOne, licenseTwo}, licenses); diff != "" {
		t.Error(diff)
	}
	if results[5].Ignored == "" {
		t.Errorf("%+v", results[5])
	}
}

func TestEventsRefused(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	updated := happened(t, lifecycle.LicenseUpdated, licenseOne, afternoon)
	for name, tt := range map[string]struct {
		body, origin string
		status       int
		want         string
	}{
		"nothing":               {"", "", 400, "no event"},
		"no JSON":               {"{", "", 400, "no event"},
		"no event":              {"{}", "", 400, "no event"},
		"half an array":         {"[" + updated, "", 400, "nothing of it was applied"},
		"too much":              {"[" + strings.Repeat(" ", 1<<20) + "]", "", 413, "larger than"},
		"from the far future":   {happened(t, lifecycle.LicenseUpdated, licenseOne, afternoon.AddDate(0, 0, 3)), "", 400, "ahead of the clock"},
		"another site's page":   {updated, "http://elsewhere.example", 403, "another site"},
		"an unknown license":    {strings.Replace(updated, licenseOne, "", 1), "", 409, "no license"},
		"a misspelt license":    {strings.Replace(updated, licenseOne, "none", 1), "", 409, "no license"},
		"an empty array is all": {"[]", "", 200, "[]"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.server.URL+"/v1/events", strings.NewReader(tt.body))
		if err != nil {
			t.Fatal(err)
		}
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		if status, text := m.do(r); status != tt.status || !strings.Contains(text, tt.want) || status != 200 && !strings.Contains(text, `"hint": "`) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	if r := m.ask(http.MethodGet, "/v1/events", nil, nil, nil); r.StatusCode != http.StatusMethodNotAllowed {
		t.Error(r.Status)
	}
}

// A stage's test events are for stages on AWS: a node plays the Marketplace itself.
func TestTestEventsAreNotForANode(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	event := strings.Replace(happened(t, lifecycle.LicenseUpdated, licenseOne, afternoon), lifecycle.Source, lifecycle.TestSource("dev"), 1)
	code, r := m.tell(event)
	if code != http.StatusOK || r.Applied == nil || r.Ignored == "" || len(r.Licenses) != 0 {
		t.Errorf("%d %+v", code, r)
	}
	if s, err := m.folder.Store.Subscriber(t.Context(), licenseOne, buyerOne); s != nil || err != nil {
		t.Errorf("%+v: %v", s, err)
	}
}

// Events of one license at once end as the latest of them, at the Marketplace too.
func TestEventsAtOnce(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	done := make(chan error)
	kinds := []lifecycle.Kind{lifecycle.LicenseUpdated, lifecycle.LicenseDeprovisioned}
	for i := range 20 { // the last is a Deprovisioned, whose hour is over
		event := happened(t, kinds[i%2], licenseOne, afternoon.Add(time.Duration(i-100)*time.Minute))
		go func() {
			r, err := m.server.Client().Post(m.server.URL+"/v1/events", "application/json", strings.NewReader(event))
			if err == nil {
				if r.Body.Close(); r.StatusCode != http.StatusOK {
					err = fmt.Errorf("%s", r.Status)
				}
			}
			done <- err
		}()
	}
	for range 20 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	m.post("application/x-ndjson", "too-late", object("2026-03-10T15:10:00", 5))
	m.advance(afternoon.Add(time.Hour))
	m.wantPlaces(5, map[ledger.Place]int64{ledger.Refused: 5})
}
