package endtoend_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/lambdahost"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/simulator"
)

const agreement = "agmt-example1"

// event is one of the Marketplace's about a license, some time ago.
func (w *world) event(kind lifecycle.Kind, license string, ago time.Duration) string {
	w.t.Helper()
	body, err := lifecycle.TestEvent{
		Kind: kind, License: license, Account: account(license), Agreement: agreement, ProductCode: simulator.DefaultProductCode,
		Start: time.Now().Add(-30 * 24 * time.Hour), End: time.Now().Add(30 * 24 * time.Hour), At: time.Now().Add(-ago),
	}.JSON()
	fatal(w.t, err)
	return string(body)
}

// eventsAndTheLastHour: events in the wrong order, repeated, with one that is none among them, leave what their times say; the hours of the
// license that ends are billed while its last hour lasts, the one in progress too; and when it is over it is ended, and the other goes on.
func eventsAndTheLastHour(t *testing.T, s suite) {
	w := newWorld(t, s)
	leaving, staying := w.license(), w.license()
	mapping := w.connect(functions.Subscription, eventsQueue)

	// The agreement's end outruns all that names its licenses, and waits for it.
	const poison = `{"detail-type":"License Deprovisioned - Manufacturer"`
	send(t, w, eventsQueue, w.event(lifecycle.AgreementEnded, leaving, 56*time.Minute), poison)
	eventually(t, "what cannot be done comes back", func() string {
		return problemf(mapping.Tally().Returned >= 2, "%+v", mapping.Tally())
	})
	started := w.event(lifecycle.LicenseUpdated, leaving, 3*time.Hour)
	closing := w.event(lifecycle.LicenseDeprovisioned, leaving, 55*time.Minute)
	send(t, w, eventsQueue, closing, started, w.event(lifecycle.LicenseUpdated, staying, 2*time.Hour),
		w.event(lifecycle.AgreementCreated, leaving, 3*time.Hour), w.event(lifecycle.AgreementAmended, leaving, 2*time.Hour), closing, started)
	eventually(t, "all events but one are applied", func() string {
		dead := w.held(w.urls[eventsQueue] + "-dlq")
		return problemf(w.held(w.urls[eventsQueue]) == 0 && dead == 1, "%d left, %d dead letters", w.held(w.urls[eventsQueue]), dead)
	})
	if diff := cmp.Diff([]string{poison}, w.dead(eventsQueue)); diff != "" {
		t.Errorf("dead letters (-want +got):\n%s", diff)
	}
	if got := mapping.Tally(); got.Failures != 0 || got.Deleted < 8 {
		t.Errorf("%+v, want all eight messages done and no invocation failed", got)
	}
	w.measured(functions.Subscription, "SubscriptionEventIgnored", 1, 0)
	w.stands(leaving, metering.LifecycleDeprovisioning, 5*time.Minute)
	w.stands(staying, metering.LifecycleActive, 0)

	// The last hour: five minutes of it are left.
	fatal(t, w.sim.PutLicense(simulator.License{ARN: leaving, AccountID: account(leaving), DeprovisionedAt: time.Now().Add(-55 * time.Minute)}))
	last, early, other := w.group(leaving, "seats"), w.group(leaving, "seats"), w.group(staying, "seats")
	last.Hour, early.Hour, other.Hour = metering.HourOf(time.Now()), w.hour, metering.HourOf(time.Now())
	w.put(rows(early, 3)...)
	w.put(rows(last, 1)...)
	w.put(rows(other, 1)...)
	w.connectAll()
	if found := w.discover(`{"mode":"flush-deprovisioning"}`); found.Licenses != 1 || found.Enqueued < 2 { // three, where the hour has turned meanwhile
		t.Errorf("flush: %+v, want one license and its two hours", found)
	}
	w.drained()
	w.submit()
	want := billed(4, 7)
	for cause, amount := range waiting(1, 1) { // of the license that stays
		want[cause] = amount
	}
	w.books(want)

	// Nobody ends it before its time.
	w.finalize(0)
	w.stands(leaving, metering.LifecycleDeprovisioning, 5*time.Minute)
	// A Deprovisioned that came late is of an earlier time: the hour is over.
	send(t, w, eventsQueue, w.event(lifecycle.LicenseDeprovisioned, leaving, 61*time.Minute))
	eventually(t, "the hour is over", func() string {
		s := w.subscriber(leaving)
		return problemf(s.Expiry.Before(time.Now()), "%+v", s)
	})
	if found := w.discover(`{"mode":"flush-deprovisioning"}`); found.Licenses != 0 {
		t.Errorf("flush after the hour: %+v, want none", found)
	}
	w.finalize(1)
	w.finalize(0)
	w.stands(leaving, metering.LifecycleInactive, 0)
	w.stands(staying, metering.LifecycleActive, 0)
	w.books(want)
}

// stands fails unless a license and its agreement stand as wanted, and its last hour ends in about the time that is left.
func (w *world) stands(license string, status metering.LifecycleStatus, left time.Duration) {
	w.t.Helper()
	s := w.subscriber(license)
	ends := s.Expiry.IsZero()
	if left > 0 {
		ends = time.Until(s.Expiry) <= left && time.Until(s.Expiry) > left-2*time.Minute
	}
	if s.Status != status || s.AgreementStatus != metering.LifecycleInactive || !ends || s.Agreement != agreement || s.ProductCode != simulator.DefaultProductCode {
		w.t.Errorf("%+v, want it %s, with %v left, and its agreement inactive", s, status, left)
	}
}

func (w *world) finalize(want int) {
	w.t.Helper()
	var done lifecycle.Finalized
	fatal(w.t, w.run(functions.DeprovisionCleanup, `{}`, &done))
	if done.Ended != want {
		w.t.Errorf("%+v, want %d licenses ended", done, want)
	}
}

// missingSubscribersTable: events stay where they are and the error says what to look at; a buyer is told whom to ask, and what to
// name. When the table is there, all of it goes on.
func missingSubscribersTable(t *testing.T, s suite) {
	w := newWorld(t, s)
	license := w.license()
	missing := w.subscribers + "-missing"
	w.knowSubscribers(missing)
	hint := "Try: check AWS_REGION and the name of " + missing

	f := w.function(functions.Subscription, "SUBSCRIBERS_TABLE="+missing)
	mapping := w.connect(functions.Subscription, eventsQueue)
	send(t, w, eventsQueue, w.event(lifecycle.LicenseUpdated, license, time.Hour))
	eventually(t, "the message comes back", func() string {
		return problemf(mapping.Tally().Returned > 0, "%+v", mapping.Tally())
	})
	logged(t, f, hint)

	c := w.function(functions.DeprovisionCleanup, "SUBSCRIBERS_TABLE="+missing)
	var none struct{}
	if err := w.run(functions.DeprovisionCleanup, `{}`, &none); !lambdahost.Failed(err, lambdahost.Errored) || !strings.Contains(err.Error(), hint) {
		t.Errorf("deprovision-cleanup: %v, want %q", err, hint)
	}
	logged(t, c, "run failed", hint)

	token := w.token(simulator.Token{AccountID: account(license), LicenseARN: license})
	r := w.function(functions.Registration, "SUBSCRIBERS_TABLE="+missing)
	told := w.click(r, form(token, buyer, nil))
	if told.StatusCode != http.StatusInternalServerError || !strings.Contains(told.Body, "help@example.com") || !strings.Contains(told.Body, requestID) {
		t.Errorf("registration: %d %s, want the seller's contact and the number of the request", told.StatusCode, told.Body)
	}
	logged(t, r, hint, requestID)

	fatal(t, dynamodb.Create(t.Context(), w.dynamo, dynamodb.SubscribersTable(missing)))
	w.closing = dynamodb.NewSubscribers(w.dynamo, missing)
	eventually(t, "the event is applied", func() string {
		return problemf(mapping.Tally().Deleted == 1, "%+v", mapping.Tally())
	})
	if n := w.held(w.urls[eventsQueue] + "-dlq"); n != 0 {
		t.Errorf("%d dead letters, want none", n)
	}
	if told = w.click(r, form(token, buyer, nil)); told.StatusCode != http.StatusOK {
		t.Errorf("registration: %d %s", told.StatusCode, told.Body)
	}
	if got := w.subscriber(license); got.Status != metering.LifecycleActive || !slices.Equal(got.Regions, []string{"us-east-1"}) {
		t.Errorf("%+v, want it active and registered", got)
	}
	w.finalize(0)
}
