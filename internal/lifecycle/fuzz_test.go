package lifecycle_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// FuzzEvent: whatever comes is applied, ignored or refused, and what is not applied changes nothing.
func FuzzEvent(f *testing.F) {
	for _, kind := range lifecycle.Kinds() {
		f.Add([]byte(event(kind, clock(11, 0, 0))))
	}
	f.Add([]byte(`{"detail-type":"License Deprovisioned","source":"aws.agreement-marketplace","time":"2026-03-10T11:00:00.9+14:00","detail":{"license":{"arn":"aws:license-manager:us-east-1:111122223333:l-1"},"acceptor":{"accountId":"111122223333"}}}`))
	f.Add([]byte(`{"detail-type":[],"source":{},"detail":7}`))
	f.Fuzz(func(t *testing.T, body []byte) { told(t, body) })
}

// FuzzEventMembers: the same of an event that is well-formed and says what it likes.
func FuzzEventMembers(f *testing.F) {
	const title = " - Manufacturer"
	licenses := []string{licenseOne, licenseTwo, "aws:license-manager:us-east-1:111122223333:" + idOne, idOne, "l-", "", "arn:aws:license-manager::111122223333:license/" + idOne}
	accounts := []string{buyer, otherBuyer, "", "11112222333", " 111122223333\n"}
	for i, kind := range []string{"License Updated", "License Deprovisioned", "Purchase Agreement Ended", "Purchase Agreement Amended", "Purchase Agreement Created", "License Renamed"} {
		for j, license := range licenses {
			at := []string{"2026-03-10T11:00:00Z", "2026-03-10T09:00:00Z", "2026-03-11T12:00:01Z", "0001-01-01T00:00:00Z", "soon"}[(i+j)%5]
			f.Add(lifecycle.Source, kind+title, at, license, accounts[(i+j)%len(accounts)], []string{"agmt-1", "agmt-2", "agmt-3", ""}[j%4], "prod-code-2")
		}
	}
	f.Add("awsmp.test.dev", "License Updated - Proposer", "2026-03-10T11:00:00Z", licenseOne, buyer, "agmt-1", product)
	f.Fuzz(func(t *testing.T, source, kind, at, license, account, agreement, code string) {
		type object map[string]any
		body, err := json.Marshal(object{"id": "e-1", "source": source, "detail-type": kind, "time": at, "detail": object{
			"license": object{"arn": license}, "acceptor": object{"accountId": account},
			"agreement": object{"id": agreement, "startTime": at, "endTime": at}, "product": object{"code": code},
		}})
		if err != nil {
			t.Fatal(err)
		}
		told(t, body)
	})
}

// told applies an event where two licenses are known, and checks all that must hold of whatever it says.
func told(t *testing.T, body []byte) {
	w := newWorld(t)
	w.apply(event(lifecycle.LicenseUpdated, clock(10, 0, 0)), event(lifecycle.LicenseUpdated, clock(10, 0, 0), ofSecond), event(lifecycle.LicenseDeprovisioned, clock(11, 30, 0), ofSecond))
	known := [][2]string{{licenseOne, buyer}, {licenseTwo, buyer}}
	before := w.all(known)
	a, err := w.handler.Apply(w.ctx, body)
	if err != nil && !errors.Is(err, lifecycle.ErrNoEvent) && !errors.Is(err, lifecycle.ErrUnresolved) {
		t.Fatal(err)
	}
	if err == nil && (a.Ignored == "") == (len(a.Licenses) == 0) || err != nil && len(a.Licenses) > 0 {
		t.Errorf("%+v, %v", a, err)
	}
	for _, c := range a.Licenses {
		known = append(known, [2]string{c.License, c.Account})
		if !metering.ValidLicense(c.License) || !metering.ValidAccount(c.Account) {
			t.Errorf("license %+v", c)
		}
	}
	after := w.all(known)
	for at, s := range before {
		concerned := slices.ContainsFunc(a.Licenses, func(c lifecycle.Change) bool { return c.License == at[0] && c.Account == at[1] })
		if diff := cmp.Diff(s, after[at]); diff != "" && !concerned {
			t.Errorf("%s is changed by an event that does not concern it:\n%s", at[0], diff)
		}
		if ofAgreement := strings.HasPrefix(a.Kind, "agreement-"); ofAgreement && (s.Status != after[at].Status || !s.Expiry.Equal(after[at].Expiry)) {
			t.Errorf("an agreement's event moves money: %+v, before %+v", after[at], s)
		}
	}
	w.checkAll(after)
	if again, errAgain := w.handler.Apply(w.ctx, body); (errAgain == nil) != (err == nil) || slices.ContainsFunc(again.Licenses, func(c lifecycle.Change) bool { return c.Changed }) {
		t.Errorf("applied again: %+v, %v", again, errAgain)
	}
	if failed := w.handler.Handle(w.ctx, []pipeline.Message{{ID: "m", Body: string(body), SentAt: w.now.Add(-time.Hour)}}); (len(failed) > 0) != (err != nil) {
		t.Errorf("applied %v, handled %v", err, failed)
	}
	if diff := cmp.Diff(after, w.all(known)); diff != "" {
		t.Errorf("the third time is not the first:\n%s", diff)
	}
}

// all are the subscribers of licenses and accounts; of one that is not there, the zero Subscriber.
func (w *world) all(list [][2]string) map[[2]string]metering.Subscriber {
	w.t.Helper()
	found := map[[2]string]metering.Subscriber{}
	for _, at := range list {
		s, err := w.store.Subscriber(w.ctx, at[0], at[1])
		if err != nil {
			w.t.Fatal(err)
		}
		if found[at] = (metering.Subscriber{}); s != nil {
			found[at] = *s
		}
	}
	return found
}

// checkAll checks that each subscriber reads back as it was written, and is in its last hour if it says so, for an hour and no longer.
func (w *world) checkAll(found map[[2]string]metering.Subscriber) {
	w.t.Helper()
	list, err := w.store.Deprovisioning(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	for at, s := range found {
		if diff := cmp.Diff(s, metering.SubscriberFromItem(s.Item())); diff != "" {
			w.t.Errorf("%s reads back otherwise:\n%s", at, diff)
		}
		if !slices.Contains([]metering.LifecycleStatus{metering.LifecycleActive, metering.LifecycleDeprovisioning, metering.LifecycleInactive}, s.Status) {
			w.t.Errorf("%s has status %q", at, s.Status)
		}
		for _, told := range []time.Time{s.StatusAt, s.AgreementStatusAt, s.Updated, s.AgreementEnded, s.AgreementAmended} {
			if told.After(w.now.AddDate(0, 0, 1)) {
				w.t.Errorf("%s has heard of %v, which outlasts whatever comes", at, told)
			}
		}
		last := s.Status == metering.LifecycleDeprovisioning
		listed := slices.ContainsFunc(list, func(d metering.Deprovisioning) bool {
			return d.License == at[0] && d.Account == at[1] && d.Expiry.Equal(s.Expiry)
		})
		if last != listed || last && !s.Expiry.Equal(s.StatusAt.Add(time.Hour)) || !last && !s.Expiry.IsZero() {
			w.t.Errorf("%s: %+v, in the list of last hours: %v", at, s, listed)
		}
	}
}
