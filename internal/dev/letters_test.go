package dev_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/awsmp/metering/internal/dev"
)

// Messages that fail too often are set aside under the queue that they came from, are read there, and are handled once more when that is asked for.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	n := m.Node()
	for _, put := range []struct {
		send func() ([]int, error)
	}{
		{func() ([]int, error) { return n.Work.Send(t.Context(), []string{"one", "two"}) }},
		{func() ([]int, error) { return n.Deprovision.Send(t.Context(), []string{"three"}) }},
	} {
		if refused, err := put.send(); err != nil || len(refused) > 0 {
			t.Fatal(refused, err)
		}
	}
	m.ask(http.MethodPost, "/v1/clock", nil, strings.NewReader(`{"advance": "40m"}`), nil)
	failed := func() map[string]int {
		var s dev.Status
		m.ask(http.MethodGet, "/v1/status?brief=true", nil, nil, &s)
		of := make(map[string]int)
		for _, q := range s.Queues {
			of[q.Name] = q.Failed
		}
		of["all"] = s.DeadLetters
		return of
	}
	if diff := cmp.Diff(map[string]int{"work": 2, "deprovision": 1, "cleanup": 0, "all": 3}, failed()); diff != "" {
		t.Errorf("failed (-want +got):\n%s", diff)
	}
	var letters dev.Letters
	m.ask(http.MethodGet, "/v1/dead-letters?queue=work&limit=1", nil, nil, &letters)
	want := dev.Letters{Queue: "work", Letters: []dev.Letter{{SentAt: letters.Letters[0].SentAt, Body: "one"}}}
	if diff := cmp.Diff(want, letters, cmpopts.IgnoreFields(dev.Letter{}, "ID")); diff != "" || letters.Letters[0].SentAt.Before(afternoon) {
		t.Errorf("letters (-want +got):\n%s", diff)
	}
	var moved dev.Redriven
	m.ask(http.MethodPost, "/v1/dead-letters/redrive", nil, strings.NewReader(`{"queue": "work"}`), &moved)
	if diff := cmp.Diff(map[string]int{"work": 0, "deprovision": 1, "cleanup": 0, "all": 1}, failed()); diff != "" || moved.Moved != 2 {
		t.Errorf("failed after %d were moved (-want +got):\n%s", moved.Moved, diff)
	}
	if waits, _ := n.Work.Len(); waits != 2 {
		t.Errorf("%d messages wait", waits)
	}
	for _, request := range []struct{ method, path, body, says string }{
		{http.MethodGet, "/v1/dead-letters", "", "queue is needed"},
		{http.MethodGet, "/v1/dead-letters?queue=works", "", `there is no queue "works"`},
		{http.MethodGet, "/v1/dead-letters?queue=work&limit=0", "", `limit is "0"`},
		{http.MethodGet, "/v1/dead-letters?queue=work&all=1", "", "all is not known"},
		{http.MethodPost, "/v1/dead-letters/redrive", "{}", "queue is needed"},
		{http.MethodPost, "/v1/dead-letters/redrive", `{"queue": "work", "n": 1}`, "unknown field"},
		{http.MethodGet, "/v1/counted?from=1", "", "from is not known"},
	} {
		var p dev.Problem
		response := m.ask(request.method, request.path, nil, strings.NewReader(request.body), &p)
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(p.Error, request.says) || p.Hint == "" {
			t.Errorf("%s %s: %s, %+v", request.method, request.path, response.Status, p)
		}
	}
}

// What is counted stands under the hour of the node's clock in which it was.
func TestCountedByTheHour(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	for _, second := range []string{"2026-03-10T14:00:00", "2026-03-10T15:10:00"} {
		body := `{"licenseArn": "` + licenseOne + `", "customerAWSAccountId": "` + buyerOne + `", "dimension": "api_calls", "timestamp": "` + second + `", "quantity": 3}`
		if r := m.ask(http.MethodPost, "/v1/usage", map[string]string{"Content-Type": "application/json", "Idempotency-Key": second}, strings.NewReader(body), nil); r.StatusCode != http.StatusOK {
			t.Fatal(r.Status)
		}
	}
	m.ask(http.MethodPost, "/v1/clock", nil, strings.NewReader(`{"advance": "70m"}`), nil)
	var counted dev.CountedHours
	m.ask(http.MethodGet, "/v1/counted", nil, nil, &counted)
	want := []dev.CountedHour{
		{Hour: "2026-03-10T15", Metric: "UsageBilled", Items: 1, Units: 3}, {Hour: "2026-03-10T16", Metric: "UsageBilled", Items: 1, Units: 3},
	}
	if diff := cmp.Diff(want, counted.Counted); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}
