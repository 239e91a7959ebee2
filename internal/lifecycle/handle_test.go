package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// TestF29EndedBeforeUpdatedHeals: agreement events name no license. One that outran License Updated was dropped as done, and
// agreementStatus stayed active for good.
func TestF29EndedBeforeUpdatedHeals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(event(lifecycle.AgreementEnded, clock(11, 59, 0)), event(lifecycle.AgreementAmended, clock(11, 58, 0)), event(lifecycle.LicenseUpdated, clock(11, 57, 0)))
	if failed := w.receive(10); len(failed) != 2 {
		t.Fatalf("failed at first: %v", failed)
	}
	w.drain()
	got := w.subscriber(licenseOne)
	if got.AgreementStatus != metering.LifecycleInactive || got.AgreementAmended.IsZero() || got.Status != metering.LifecycleActive || len(w.dead) > 0 {
		t.Errorf("subscriber %+v, dead %v", got, w.dead)
	}
	if n := w.metrics.Of(metering.MetricAgreementUnknown).Items; n != 0 {
		t.Errorf("agreements unknown: %d", n)
	}
}

// TestF29EndedBeforeTheIndexShowsIt: the row is there, the index not yet.
func TestF29EndedBeforeTheIndexShowsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(event(lifecycle.LicenseUpdated, clock(11, 57, 0)))
	w.handler.Subscribers = laggingIndex{w.store, map[string]int{licenseOne: 2}}
	w.send(event(lifecycle.AgreementEnded, clock(11, 59, 0)))
	w.drain()
	if got := w.subscriber(licenseOne); got.AgreementStatus != metering.LifecycleInactive {
		t.Errorf("subscriber %+v", got)
	}
}

// TestF29UnresolvedLicenseEventsAreNeverDropped: they were acknowledged, and final usage was lost quietly. They come again until the
// queue gives them up, visibly; the same event by hand says why.
func TestF29UnresolvedLicenseEventsAreNeverDropped(t *testing.T) {
	t.Parallel()
	for _, kind := range []lifecycle.Kind{lifecycle.LicenseUpdated, lifecycle.LicenseDeprovisioned} {
		w := newWorld(t)
		nameless := strings.Replace(event(kind, clock(11, 59, 0)), licenseOne, "", 1)
		if _, err := w.handler.Apply(w.ctx, []byte(nameless)); !errors.Is(err, lifecycle.ErrUnresolved) {
			t.Errorf("%s: %v", kind, err)
		}
		w.send(nameless)
		w.drain()
		if len(w.dead) != 1 {
			t.Errorf("%s: dead %v", kind, w.dead)
		}
		if n := len(w.metrics.Metrics()); n != 0 {
			t.Errorf("%s: counted as %v", kind, w.metrics.Metrics())
		}
	}
}

// TestF29UnresolvedDeprovisionedHeals: what it names by its agreement alone is there a little later.
func TestF29UnresolvedDeprovisionedHeals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(strings.Replace(event(lifecycle.LicenseDeprovisioned, clock(11, 59, 0)), licenseOne, "l-"+strings.Repeat("a", 32), 1), event(lifecycle.LicenseUpdated, clock(11, 0, 0)))
	w.drain()
	if got := w.subscriber(licenseOne); got.Status != metering.LifecycleDeprovisioning || !got.Expiry.Equal(clock(12, 59, 0)) {
		t.Errorf("subscriber %+v", got)
	}
}

// TestF30StaleEventsNeverWin: a stale or repeated License Updated after Ended made the agreement active again, and a repeated
// Deprovisioned opened the hour anew.
func TestF30StaleEventsNeverWin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	up, down := event(lifecycle.LicenseUpdated, clock(10, 0, 0)), event(lifecycle.LicenseDeprovisioned, clock(11, 0, 0))
	amended, ended := event(lifecycle.AgreementAmended, clock(10, 30, 0)), event(lifecycle.AgreementEnded, clock(11, 0, 0))
	w.apply(up, amended, down, ended)
	if n := w.finalize(); n != 1 {
		t.Fatalf("%d ended", n)
	}
	want := w.subscriber(licenseOne)
	if want.Status != metering.LifecycleInactive || want.AgreementStatus != metering.LifecycleInactive {
		t.Fatalf("subscriber %+v", want)
	}
	for _, body := range []string{up, amended, down, ended, event(lifecycle.LicenseUpdated, clock(9, 0, 0)), event(lifecycle.AgreementAmended, clock(9, 0, 0))} {
		if a := w.apply(body); a.Licenses[0].Changed {
			t.Errorf("changed by %s", body)
		}
	}
	if diff := cmp.Diff(want, w.subscriber(licenseOne)); diff != "" {
		t.Error(diff)
	}
}

// TestF30ReinstatedLicense: one that was taken back could never become active again.
func TestF30ReinstatedLicense(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]bool{"in its last hour": false, "after it": true} {
		w := newWorld(t)
		w.apply(event(lifecycle.LicenseUpdated, clock(10, 0, 0)), event(lifecycle.LicenseDeprovisioned, clock(11, 0, 0)))
		if last {
			w.finalize()
		}
		a := w.apply(event(lifecycle.LicenseUpdated, clock(11, 10, 0)))
		want := []lifecycle.Change{{License: licenseOne, Account: buyer, Changed: true, Status: "active", AgreementStatus: "active"}}
		if diff := cmp.Diff(want, a.Licenses); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if list, err := w.store.Deprovisioning(w.ctx); err != nil || len(list) > 0 {
			t.Errorf("%s: in their last hour: %v, %v", name, list, err)
		}
	}
}

// TestF30EveryLicenseOfAnAgreement: only one of several was told that the agreement had ended.
func TestF30EveryLicenseOfAnAgreement(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const licenses = 60
	for i := range licenses {
		w.apply(event(lifecycle.LicenseUpdated, clock(10, 0, 0), ofLicense(fmt.Sprintf("%s%02d", licenseOne, i))))
	}
	a := w.apply(event(lifecycle.AgreementEnded, clock(11, 0, 0)))
	if len(a.Licenses) != licenses {
		t.Errorf("%d licenses told", len(a.Licenses))
	}
	for _, c := range a.Licenses {
		if c.AgreementStatus != metering.LifecycleInactive || c.Status != metering.LifecycleActive || !c.Changed {
			t.Errorf("%+v", c)
		}
	}
}

// TestLateLicenseHearsOfItsAgreement: Ended and Amended are told once. A license that comes to the agreement later, or that the index did
// not show, hears of them from the others.
func TestLateLicenseHearsOfItsAgreement(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]string{
		"by Updated":       event(lifecycle.LicenseUpdated, clock(10, 0, 0), ofLicense(licenseTwo)),
		"by Deprovisioned": event(lifecycle.LicenseDeprovisioned, clock(10, 30, 0), ofLicense(licenseTwo)),
	} {
		w := newWorld(t)
		w.apply(event(lifecycle.LicenseUpdated, clock(10, 0, 0)), event(lifecycle.AgreementAmended, clock(10, 30, 0)), event(lifecycle.AgreementEnded, clock(11, 0, 0)))
		w.apply(late)
		one, two := w.subscriber(licenseOne), w.subscriber(licenseTwo)
		if two.AgreementStatus != metering.LifecycleInactive || !two.AgreementStatusAt.Equal(one.AgreementStatusAt) || !two.AgreementEnd.Equal(one.AgreementEnd) {
			t.Errorf("%s: %+v", name, two)
		}
	}
	t.Run("by a repeat of Updated", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		up := event(lifecycle.LicenseUpdated, clock(10, 0, 0), ofLicense(licenseTwo))
		w.apply(event(lifecycle.LicenseUpdated, clock(10, 0, 0)), up, event(lifecycle.AgreementAmended, clock(10, 30, 0)))
		w.change(metering.AgreementEvent{Agreement: "agmt-1", At: clock(11, 0, 0)}.EndedAt(licenseOne, buyer, w.now))
		if c := w.apply(up).Licenses[0]; !c.Changed || c.AgreementStatus != metering.LifecycleInactive {
			t.Errorf("%+v", c)
		}
		if c := w.apply(up).Licenses[0]; c.Changed {
			t.Errorf("once more: %+v", c)
		}
	})
	t.Run("written while Ended is told", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.apply(event(lifecycle.LicenseUpdated, clock(10, 0, 0)))
		w.handler.Subscribers = &meanwhile{Subscribers: w.store, then: func() {
			w.change(metering.LicenseEvent{License: licenseTwo, Account: buyer, Agreement: "agmt-1", At: clock(10, 0, 0)}.UpdatedAt(w.now))
		}}
		w.apply(event(lifecycle.AgreementEnded, clock(11, 0, 0)))
		if got := w.subscriber(licenseTwo); got.AgreementStatus != metering.LifecycleInactive {
			t.Errorf("%+v", got)
		}
	})
}

// meanwhile does something once, before the first change.
type meanwhile struct {
	lifecycle.Subscribers
	then func()
}

func (m *meanwhile) ChangeSubscriber(ctx context.Context, c metering.SubscriberChange) (metering.Subscriber, bool, error) {
	if m.then != nil {
		m.then()
		m.then = nil
	}
	return m.Subscribers.ChangeSubscriber(ctx, c)
}

// TestCase51abEndedAndDeprovisionedInEitherOrder: AWS's pages contradict each other on which comes first. Either way the row is the same, and
// Deprovisioned alone sets the expiry.
func TestCase51abEndedAndDeprovisionedInEitherOrder(t *testing.T) {
	t.Parallel()
	ended, down := event(lifecycle.AgreementEnded, clock(12, 0, 0)), event(lifecycle.LicenseDeprovisioned, clock(12, 0, 20))
	want := metering.Subscriber{
		License: licenseOne, Account: buyer, ProductCode: product, Agreement: "agmt-1",
		AgreementStatus: "inactive", AgreementStatusAt: clock(12, 0, 0), AgreementEnded: clock(12, 0, 0), Status: "deprovisioning", StatusAt: clock(12, 0, 20),
		Updated: clock(9, 0, 0), Deprovisioned: []time.Time{clock(12, 0, 20)}, Expiry: clock(13, 0, 20),
	}
	for name, order := range map[string][]string{"a": {ended, down}, "b": {down, ended}} {
		w := newWorld(t)
		w.send(append([]string{event(lifecycle.LicenseUpdated, clock(9, 0, 0))}, order...)...)
		w.drain()
		if diff := cmp.Diff(want, w.subscriber(licenseOne)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestCase52UpdatedAndRegistration: an event before the row existed hit nothing, and its message was gone.
func TestCase52UpdatedAndRegistration(t *testing.T) {
	t.Parallel()
	up := event(lifecycle.LicenseUpdated, clock(11, 0, 0))
	want := metering.Subscriber{
		License: licenseOne, Account: buyer, ProductCode: product, Agreement: "agmt-1", AgreementStatus: "active", AgreementStatusAt: clock(11, 0, 0),
		Status: "active", StatusAt: clock(11, 0, 0), Updated: clock(11, 0, 0), Regions: []string{"us-east-1"},
	}
	for name, steps := range map[string]func(w *world){
		"Updated first":      func(w *world) { w.apply(up); w.register(licenseOne) },
		"registration first": func(w *world) { w.register(licenseOne); w.apply(up) },
	} {
		w := newWorld(t)
		steps(w)
		if diff := cmp.Diff(want, w.subscriber(licenseOne)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestCase58EveryWayToEnd: a handler keyed by account mixed a buyer's licenses up, and knew two of the five ways in which agreements end.
func TestCase58EveryWayToEnd(t *testing.T) {
	t.Parallel()
	for _, status := range append(lifecycle.EndStatuses(), "SOMETHING_NEW") {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.apply(event(lifecycle.LicenseUpdated, clock(10, 0, 0)), event(lifecycle.LicenseUpdated, clock(10, 0, 0), ofSecond))
			want := w.subscriber(licenseTwo)
			w.apply(strings.Replace(event(lifecycle.AgreementEnded, clock(11, 0, 0)), "CANCELLED", status, 1))
			one := w.subscriber(licenseOne)
			if one.AgreementStatus != metering.LifecycleInactive || one.Status != metering.LifecycleActive {
				t.Errorf("the agreement's own license: %+v", one)
			}
			if diff := cmp.Diff(want, w.subscriber(licenseTwo)); diff != "" {
				t.Errorf("the buyer's other license:\n%s", diff)
			}
		})
	}
}

// TestCase58UnknownAgreement: other products of the account have agreements too. Their events come again for three quarters of an hour, are
// counted then, and never reach the dead-letter queue. By hand they are refused at once.
func TestCase58UnknownAgreement(t *testing.T) {
	t.Parallel()
	for _, kind := range []lifecycle.Kind{lifecycle.AgreementEnded, lifecycle.AgreementAmended} {
		w := newWorld(t)
		body := event(kind, clock(11, 0, 0))
		if _, err := w.handler.Apply(w.ctx, []byte(body)); !errors.Is(err, lifecycle.ErrUnresolved) {
			t.Errorf("%s: %v", kind, err)
		}
		w.send(body)
		w.drain()
		if took := w.now.Sub(clock(12, 0, 0)); took != 50*time.Minute || len(w.dead) > 0 {
			t.Errorf("%s: it took %s, dead %v", kind, took, w.dead)
		}
		if n := w.metrics.By(metering.MetricAgreementUnknown, string(kind)).Items; n != 1 {
			t.Errorf("%s: counted %d times", kind, n)
		}
	}
	w := newWorld(t)
	w.now = w.now.Add(24 * time.Hour)
	if failed := w.handler.Handle(w.ctx, []pipeline.Message{{ID: "m", Body: event(lifecycle.AgreementEnded, clock(11, 0, 0))}}); len(failed) != 1 {
		t.Error("a message of unknown age is not old")
	}
}

// TestCase58LicenseHasMovedOn: the index still shows a license under the agreement that it has left.
func TestCase58LicenseHasMovedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(event(lifecycle.LicenseUpdated, clock(10, 0, 0), ofAgreement("agmt-2")))
	want := w.subscriber(licenseOne)
	w.handler.Subscribers = staleIndex{w.store}
	if _, err := w.handler.Apply(w.ctx, []byte(event(lifecycle.AgreementEnded, clock(11, 0, 0)))); !errors.Is(err, lifecycle.ErrUnresolved) {
		t.Error(err)
	}
	if diff := cmp.Diff(want, w.subscriber(licenseOne)); diff != "" {
		t.Error(diff)
	}
}

// staleIndex shows the first license under every agreement.
type staleIndex struct{ lifecycle.Subscribers }

func (s staleIndex) AgreementSubscribers(context.Context, string) iter.Seq2[metering.Subscriber, error] {
	return func(yield func(metering.Subscriber, error) bool) {
		yield(metering.Subscriber{License: licenseOne, Account: buyer, Agreement: "agmt-1"}, nil)
	}
}

// TestOneFailureHoldsUpNoOther: neither a message of a batch nor a license of an agreement.
func TestOneFailureHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(event(lifecycle.LicenseUpdated, clock(10, 0, 0)), event(lifecycle.LicenseUpdated, clock(10, 0, 0), ofLicense(licenseTwo)))
	refusing := &refusing{w.store, licenseOne}
	w.handler.Subscribers = refusing
	w.send(event(lifecycle.LicenseDeprovisioned, clock(11, 0, 0)), "not an event", event(lifecycle.AgreementEnded, clock(11, 0, 0)),
		event(lifecycle.LicenseDeprovisioned, clock(11, 30, 0), ofLicense(licenseTwo)))
	if diff := cmp.Diff([]string{"m1", "m2", "m3"}, w.receive(10)); diff != "" {
		t.Error(diff)
	}
	for _, kind := range []lifecycle.Kind{lifecycle.LicenseDeprovisioned, lifecycle.AgreementEnded} {
		if n := w.metrics.By(metering.MetricEventFailed, string(kind)).Items; n != 1 {
			t.Errorf("%d %s counted as failed", n, kind)
		}
	}
	if n := w.metrics.Of(metering.MetricEventFailed).Items; n != 3 { // one of them is no event
		t.Errorf("%d events counted as failed", n)
	}
	if two := w.subscriber(licenseTwo); two.AgreementStatus != metering.LifecycleInactive || two.Status != metering.LifecycleDeprovisioning {
		t.Errorf("%+v", two)
	}
	refusing.license = ""
	w.drain()
	if one := w.subscriber(licenseOne); one.AgreementStatus != metering.LifecycleInactive || one.Status != metering.LifecycleDeprovisioning {
		t.Errorf("%+v", one)
	}
	if diff := cmp.Diff([]string{"m2"}, w.dead); diff != "" {
		t.Errorf("dead: %s", diff)
	}
}

// refusing refuses changes of one license.
type refusing struct {
	lifecycle.Subscribers
	license string
}

func (r *refusing) ChangeSubscriber(ctx context.Context, c metering.SubscriberChange) (metering.Subscriber, bool, error) {
	if c.License == r.license {
		return metering.Subscriber{}, false, errRefused
	}
	return r.Subscribers.ChangeSubscriber(ctx, c)
}
