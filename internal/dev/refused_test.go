package dev_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// ended writes a record of a group that ended so.
func (m *machine) ended(license, dimension, hour string, quantity int64, status metering.Status, reason string) {
	m.t.Helper()
	h, err := metering.ParseHour(hour)
	if err != nil {
		m.t.Error(err)
		return
	}
	r := metering.NewRecord(metering.Group{License: license, Account: buyerOne, Dimension: dimension, Hour: h}, quantity)
	r.Pending, r.Status, r.StatusReason = "", status, reason
	if err := m.folder.Store.PutRecord(m.t.Context(), r); err != nil {
		m.t.Error(err)
	}
}

func (m *machine) refusals(query string) (l dev.Refusals) {
	m.t.Helper()
	if r := m.ask(http.MethodGet, "/v1/refused"+query, nil, nil, &l); r.StatusCode != http.StatusOK {
		m.t.Fatal(r.Status)
	}
	return l
}

// What was refused is found without knowing of which license: what a retry of each would do, the newest hour in front.
func TestWhatWasRefusedIsListed(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	if l := m.refusals(""); l.List == nil || l.Skipped == nil || l.Records != 0 {
		t.Errorf("of an empty store: %+v", l)
	}
	m.ended(licenseTwo, "storage", "2026-03-10T13", 40, metering.RejectedClientSide, metering.ExceptionDimension)
	m.ended(licenseOne, "api_calls", "2026-03-10T13", 7, metering.CustomerNotSubscribed, "")
	m.ended(licenseOne, "api_calls", "2026-03-10T14", 3, metering.CustomerNotSubscribed, "")
	m.ended(licenseOne, "api_calls", "2026-03-10T12", 1000, metering.Success, "")
	m.ended(licenseOne, "api_calls", "2026-03-09T12", 16, metering.CustomerNotSubscribed, "")
	m.ended(licenseTwo, "api_calls", "2026-03-09T12", 8, metering.CustomerNotSubscribed, "")
	m.ended(licenseTwo, "api_calls", "2026-03-10T12", 2, metering.RejectedClientSide, string(metering.DuplicateIdentity))

	record := func(license, dimension, hour string, units int64, status metering.Status, reason string, day, h int) pipeline.LicenseRefusal {
		return pipeline.LicenseRefusal{License: license, Refusal: pipeline.Refusal{
			Account: buyerOne, Dimension: dimension, Hour: hour, Units: units, Status: status, Reason: reason, LostAt: time.Date(2026, 3, day, h, 0, 0, 0, time.UTC),
		}}
	}
	twin := metering.ObstacleTwin
	want := dev.Refusals{Reopenable: pipeline.Reopenable{Records: 3, Units: 50, FirstLostAt: time.Date(2026, 3, 11, 13, 0, 0, 0, time.UTC)}, List: []pipeline.LicenseRefusal{
		record(licenseOne, "api_calls", "2026-03-10T14", 3, metering.CustomerNotSubscribed, "", 11, 14),
		record(licenseOne, "api_calls", "2026-03-10T13", 7, metering.CustomerNotSubscribed, "", 11, 13),
		record(licenseTwo, "storage", "2026-03-10T13", 40, metering.RejectedClientSide, metering.ExceptionDimension, 11, 13),
	}, Skipped: []pipeline.Skipped{{Cause: twin, Why: twin.Why(), Records: 1, Units: 2}}, Older: 2}
	withoutLeft := cmpopts.IgnoreFields(pipeline.LicenseRefusal{}, "Left")
	got := m.refusals("")
	if diff := cmp.Diff(want, got, withoutLeft); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if s := m.status().Refused; s.Records != 3 || s.Units != 50 || !s.FirstLostAt.Equal(want.FirstLostAt) || !strings.HasPrefix(s.Left, "21h") || s.Uncounted {
		t.Errorf("the status says %+v", s)
	}
	for _, r := range got.List {
		left, err := time.ParseDuration(r.Left)
		if exact := r.LostAt.Sub(afternoon); err != nil || left > exact || left < exact-time.Minute {
			t.Errorf("%s has %q left, want about %v", r.Hour, r.Left, exact)
		}
	}
	for _, license := range []string{licenseOne, licenseTwo} {
		var dry dev.Retried
		m.retry(`{"licenseArn": "`+license+`", "dryRun": true}`, &dry)
		l := m.refusals("?license=" + url.QueryEscape(license))
		var listed []pipeline.Refusal
		for _, r := range l.List {
			if r.License != license {
				t.Errorf("%s is listed as %s's", r.License, license)
			}
			listed = append(listed, r.Refusal)
		}
		byHour := func(list []pipeline.Refusal) []pipeline.Refusal {
			slices.SortStableFunc(list, func(a, b pipeline.Refusal) int { return strings.Compare(b.Hour, a.Hour) })
			return list
		}
		if diff := cmp.Diff(byHour(dry.Reopened), listed, cmpopts.EquateEmpty()); diff != "" || l.Units != dry.Units || l.Records != len(dry.Reopened) || l.Older != dry.Older {
			t.Errorf("%s: a dry run says otherwise (-dry run +list):\n%s", license, diff)
		}
	}
	if d := m.ledger(""); d.Places[ledger.InFlight].Units != 0 {
		t.Errorf("the list has let %d units wait", d.Places[ledger.InFlight].Units)
	}
	for _, query := range []string{"?licence=x", "?license=x&hour=2026-03-10T14", "?license=x&license=y"} {
		var p dev.Problem
		if r := m.ask(http.MethodGet, "/v1/refused"+query, nil, nil, &p); r.StatusCode != http.StatusBadRequest || p.Error == "" || !strings.Contains(p.Hint, "/v1/refused?license=") {
			t.Errorf("%s: %s %+v", query, r.Status, p)
		}
	}
	for _, r := range []struct{ method, path, body string }{
		{http.MethodGet, "/v1/refused?license=nobody", ""}, {http.MethodPost, "/v1/refused/retry", `{"licenseArn": "nobody"}`},
	} {
		var p dev.Problem
		if a := m.ask(r.method, r.path, nil, strings.NewReader(r.body), &p); a.StatusCode != http.StatusNotFound || p.Error != "no usage of this license is known here" || p.Hint == "" {
			t.Errorf("%s: %s %+v", r.path, a.Status, p)
		}
	}
	if r := m.ask(http.MethodPost, "/v1/refused", nil, strings.NewReader("{}"), nil); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %s", r.Status)
	}
}

// A list has an end: the newest thousand, however many licenses they are of, and how many more there are.
func TestTheListOfRefusedUsageIsBounded(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	licenses := []string{licenseTwo, licenseOne}
	var writes sync.WaitGroup
	for i := range 1_210 { // 500 each of 14 and 13 o'clock, 210 of 12 o'clock
		writes.Go(func() {
			m.ended(licenses[i%2], fmt.Sprintf("dim_%04d", i), fmt.Sprintf("2026-03-10T%d", 14-i/500), 1, metering.CustomerNotSubscribed, "")
		})
	}
	writes.Wait()
	l := m.refusals("")
	if l.Records != 1_210 || l.Units != 1_210 || l.More != 210 || len(l.List) != 1_000 {
		t.Fatalf("%d records, %d units, %d listed, %d more", l.Records, l.Units, len(l.List), l.More)
	}
	for i, r := range l.List {
		if want := fmt.Sprintf("2026-03-10T%d", 14-i/500); r.Hour != want {
			t.Fatalf("%d. is of %s, want %s", i, r.Hour, want)
		}
	}
	if l = m.refusals("?license=" + url.QueryEscape(licenseOne)); l.Records != 605 || l.More != 0 || len(l.List) != 605 {
		t.Errorf("of one license %d records, %d listed, %d more", l.Records, len(l.List), l.More)
	}
}

// vast is a store whose records take longer to read than a status waits for.
type vast struct{ dev.Store }

func (v vast) LicenseRecords(ctx context.Context, _ string) iter.Seq2[metering.Record, error] {
	return func(yield func(metering.Record, error) bool) {
		<-ctx.Done()
		yield(metering.Record{}, ctx.Err())
	}
}

// A status comes without the refused usage where that would take too long.
func TestAStatusDoesNotWaitForAVastStore(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir(), func(o *dev.Options) { o.Store = vast{o.Store} })
	m.ended(licenseOne, "api_calls", "2026-03-10T13", 7, metering.CustomerNotSubscribed, "")
	if s := m.status(); s.Refused != (dev.RefusedSum{Uncounted: true}) || len(s.Stages) == 0 {
		t.Errorf("%+v", s.Refused)
	}
}

// What the Marketplace refused is told where it is told what was billed.
func TestTheStoryTellsOfRefusedUnits(t *testing.T) {
	t.Parallel()
	var story teller
	m := start(t, t.TempDir(), story.listen)
	m.tell(happened(t, lifecycle.LicenseDeprovisioned, licenseOne, afternoon.Add(-5*time.Hour)))
	m.post("application/x-ndjson", "", object("2026-03-10T14:10:00", 3)+object("2026-03-10T13:10:00", 8))
	m.advance(afternoon.Add(20 * time.Minute))
	if want := "submit: 1 call, 2 records answered, 2 refused (11 units)"; !slices.Contains(story.told(), want) {
		t.Errorf("%q is not in %q", want, story.told())
	}
}
