package dev_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

func (m *machine) retry(body string, into any) int {
	m.t.Helper()
	return m.ask(http.MethodPost, "/v1/refused/retry", nil, strings.NewReader(body), into).StatusCode
}

// TestRefusedUsageIsSentOnceMore goes the whole way over HTTP: a dimension is missing, and defined later.
func TestRefusedUsageIsSentOnceMore(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	dimension := func(method string) {
		if r := m.ask(method, "/_simulator/dimensions", nil, strings.NewReader(`{"name": "api_calls"}`), nil); r.StatusCode != http.StatusOK {
			t.Fatal(r.Status)
		}
	}
	dimension(http.MethodDelete)
	m.post("application/json", "", object("2026-03-10T14:10:00", 3))
	m.advance(afternoon.Add(20 * time.Minute))
	m.wantPlaces(3, map[ledger.Place]int64{ledger.Rejected: 3})
	dimension(http.MethodPut)

	want := dev.Retried{Retried: pipeline.Retried{DryRun: true, Units: 3, Skipped: []pipeline.Skipped{}, Reopened: []pipeline.Refusal{{
		Account: buyerOne, Dimension: "api_calls", Hour: "2026-03-10T14", Units: 3, Status: metering.RejectedClientSide,
		Reason: "InvalidUsageDimensionException", LostAt: time.Date(2026, 3, 11, 14, 0, 0, 0, time.UTC),
	}}}}
	scope := `{"licenseArn": "` + licenseOne + `", "customerAWSAccountId": "` + buyerOne + `", "dimension": "api_calls", "hour": "2026-03-10T14"`
	for _, dry := range []bool{true, false} {
		var got dev.Retried
		body := scope + "}"
		if dry {
			body = scope + `, "dryRun": true}`
		}
		want.DryRun = dry
		if status := m.retry(body, &got); status != http.StatusOK {
			t.Fatal(status)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if dry {
			m.wantPlaces(3, map[ledger.Place]int64{ledger.Rejected: 3})
		}
	}
	m.wantPlaces(3, map[ledger.Place]int64{ledger.InFlight: 3})
	m.advance(afternoon.Add(25 * time.Minute))
	m.wantPlaces(3, map[ledger.Place]int64{ledger.Billed: 3})
	var again dev.Retried
	m.retry(`{"licenseArn": "`+licenseOne+`"}`, &again)
	if len(again.Reopened) != 0 || len(again.Skipped) != 1 || again.Skipped[0].Cause != metering.ObstacleBilled || again.Skipped[0].Why != "billed" {
		t.Errorf("again: %+v", again)
	}
}

func TestRetryRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	for body, says := range map[string]string{
		"":                                 "the body is empty",
		"{}":                               "licenseArn is needed",
		`{"license": "x"}`:                 "unknown field",
		`{"licenseArn": "x", "hour": "2"}`: "hour: ",
		`{"licenseArn": 3}`:                "cannot unmarshal",
		`{"licenseArn": "x"} ]`:            "something follows",
	} {
		var p dev.Problem
		if status := m.retry(body, &p); status != http.StatusBadRequest || !strings.Contains(p.Error, says) || !strings.Contains(p.Hint, "licenseArn") {
			t.Errorf("%s: %d %+v", body, status, p)
		}
	}
	if r := m.ask(http.MethodGet, "/v1/refused/retry", nil, nil, nil); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: %s", r.Status)
	}
	m.post("application/json", "", object("2026-03-10T14:10:00", 3))
	var none dev.Retried
	if status := m.retry(`{"licenseArn": "`+licenseOne+`"}`, &none); status != http.StatusOK || none.Reopened == nil || none.Skipped == nil {
		t.Errorf("%d %+v", status, none)
	}
}
