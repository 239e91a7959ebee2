package lifecycle_test

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
)

// counted counts what is asked of the subscribers table.
type counted struct {
	lifecycle.Subscribers
	changes, queries, items int
	refused                 error
}

func (c *counted) ChangeSubscriber(ctx context.Context, x metering.SubscriberChange) (metering.Subscriber, bool, error) {
	c.changes++
	return c.Subscribers.ChangeSubscriber(ctx, x)
}

func (c *counted) AgreementSubscribers(ctx context.Context, agreement string) iter.Seq2[metering.Subscriber, error] {
	c.queries++
	return func(yield func(metering.Subscriber, error) bool) {
		if c.refused != nil {
			yield(metering.Subscriber{}, c.refused)
			return
		}
		for s, err := range c.Subscribers.AgreementSubscribers(ctx, agreement) {
			if c.items++; !yield(s, err) {
				return
			}
		}
	}
}

// crowd is an agreement of so many licenses, amended and ended, and what is asked from then on.
func crowd(t *testing.T, licenses int) (*world, *counted) {
	w := newWorld(t)
	w.handler.Log = nil
	for i := range licenses {
		w.change(metering.LicenseEvent{License: member(i), Account: buyer, Agreement: "agmt-1", ProductCode: product, At: clock(1, 0, 0)}.UpdatedAt(w.now))
	}
	if licenses > 0 {
		w.apply(event(lifecycle.AgreementAmended, clock(1, 30, 0)), event(lifecycle.AgreementEnded, clock(11, 0, 0)))
	}
	c := &counted{Subscribers: w.store}
	w.handler.Subscribers = c
	return w, c
}

func member(i int) string { return fmt.Sprintf("%s%04d", licenseOne, i) }

// TestThousandLicensesLeaveAtOnce: each event told the license what each other had heard, twice a license: 599 changes where one of 300
// leaves. Now an event of a license that its agreement knows is one change, and reads no other license.
func TestThousandLicensesLeaveAtOnce(t *testing.T) {
	t.Parallel()
	const licenses, joining = 1000, 10
	w, c := crowd(t, licenses)
	for i := range licenses {
		w.send(event(lifecycle.LicenseDeprovisioned, clock(11, 0, 20), ofLicense(member(i))))
	}
	for len(w.queue) > 0 {
		if failed := w.receive(10); failed != nil {
			t.Fatalf("%v failed", failed)
		}
	}
	if c.changes != licenses || c.queries != 0 {
		t.Errorf("%d events: %d changes, %d index queries of %d items", licenses, c.changes, c.queries, c.items)
	}
	if list, err := w.store.Deprovisioning(w.ctx); len(list) != licenses || err != nil {
		t.Errorf("%d in their last hour, %v", len(list), err)
	}

	for i := range joining {
		*c = counted{Subscribers: w.store}
		w.send(event(lifecycle.LicenseUpdated, clock(1, 0, 0), ofLicense(member(licenses+i))))
		if failed := w.receive(10); failed != nil || c.changes != 3 || c.queries != 1 {
			t.Errorf("one that joins: %v failed, %d changes, %d index queries", failed, c.changes, c.queries)
		}
		got, want := w.subscriber(member(licenses+i)), w.subscriber(member(0))
		if got.AgreementStatus != metering.LifecycleInactive || !got.AgreementEnd.Equal(want.AgreementEnd) || !got.AgreementEnded.Equal(want.AgreementEnded) {
			t.Errorf("one that joins: %+v", got)
		}
	}
}

// TestDeprovisionedDoesNotWaitForItsAgreement: the last hour begins although the index cannot be read. The event comes again for what the
// others have heard, and asks for it although the license is new no more.
func TestDeprovisionedDoesNotWaitForItsAgreement(t *testing.T) {
	t.Parallel()
	w, c := crowd(t, 3)
	c.refused = errRefused
	w.send(event(lifecycle.LicenseDeprovisioned, clock(11, 30, 0), ofLicense(licenseTwo)))
	failed, got := w.receive(1), w.subscriber(licenseTwo)
	if len(failed) != 1 || !got.Expiry.Equal(clock(12, 30, 0)) || got.AgreementStatus != "" {
		t.Errorf("%v failed: %+v", failed, got)
	}
	c.refused = nil
	if failed := w.receive(1); failed != nil || w.subscriber(licenseTwo).AgreementStatus != metering.LifecycleInactive || c.queries != 2 {
		t.Errorf("%v failed again, %d index queries: %+v", failed, c.queries, w.subscriber(licenseTwo))
	}
}

// TestCatchUpIsTheLatestThatAnyHasHeard: the others need not have heard the same. Of two amendments of one second, the same wins as where both
// are told.
func TestCatchUpIsTheLatestThatAnyHasHeard(t *testing.T) {
	t.Parallel()
	w, c := crowd(t, 0)
	end := clock(0, 0, 0).AddDate(2, 0, 0)
	amendment := metering.AgreementEvent{Agreement: "agmt-1", Start: clock(0, 0, 0), End: end, At: clock(10, 0, 0)}
	for i, heard := range []func(license string) metering.SubscriberChange{
		func(l string) metering.SubscriberChange {
			return metering.AgreementEvent{Agreement: "agmt-1", At: clock(10, 0, 0)}.EndedAt(l, buyer, w.now)
		},
		func(l string) metering.SubscriberChange {
			earlier := amendment
			earlier.End = end.AddDate(0, -1, 0)
			return earlier.AmendedAt(l, buyer, w.now)
		},
		func(l string) metering.SubscriberChange {
			return metering.AgreementEvent{Agreement: "agmt-1", At: clock(11, 0, 0)}.EndedAt(l, buyer, w.now)
		},
		func(l string) metering.SubscriberChange { return amendment.AmendedAt(l, buyer, w.now) },
	} {
		w.change(metering.LicenseEvent{License: member(i), Account: buyer, Agreement: "agmt-1", At: clock(1, 0, 0)}.UpdatedAt(w.now))
		w.change(heard(member(i)))
	}
	w.apply(event(lifecycle.LicenseUpdated, clock(2, 0, 0)))
	want := metering.Subscriber{
		License: licenseOne, Account: buyer, ProductCode: product, Agreement: "agmt-1", Updated: clock(2, 0, 0), Status: "active", StatusAt: clock(2, 0, 0),
		AgreementStatus: "inactive", AgreementStatusAt: clock(11, 0, 0), AgreementEnded: clock(11, 0, 0),
		AgreementStart: clock(0, 0, 0), AgreementEnd: end, AgreementAmended: clock(10, 0, 0),
	}
	if diff := cmp.Diff(want, w.subscriber(licenseOne)); diff != "" || c.changes != 3 {
		t.Errorf("%d changes\n%s", c.changes, diff)
	}
	*c = counted{Subscribers: w.store}
	w.apply(event(lifecycle.LicenseUpdated, clock(2, 0, 0)), event(lifecycle.LicenseUpdated, clock(2, 0, 0), ofSecond))
	if c.changes != 2 || c.queries != 2 {
		t.Errorf("with nothing new to hear: %d changes, %d index queries", c.changes, c.queries)
	}
}

// TestEndedIsToldAlthoughOverruledElsewhere: the first license is Updated after the end of the agreement, the second before it. What the second
// heard depended on whether the first still stood as ended when it asked.
func TestEndedIsToldAlthoughOverruledElsewhere(t *testing.T) {
	t.Parallel()
	later := event(lifecycle.LicenseUpdated, atRank(3))
	earlier := event(lifecycle.LicenseUpdated, atRank(1), ofLicense(licenseTwo))
	ended := event(lifecycle.AgreementEnded, atRank(2))
	for _, order := range permutations([]int{0, 1, 2}) {
		w := newWorld(t)
		w.now = clock(6, 0, 0)
		for _, i := range order {
			w.send([]string{later, earlier, ended}[i])
			w.receive(1)
			w.now = w.now.Add(time.Minute)
		}
		w.drain()
		one, two := w.subscriber(licenseOne), w.subscriber(licenseTwo)
		if one.AgreementStatus != metering.LifecycleActive || two.AgreementStatus != metering.LifecycleInactive || !one.AgreementEnded.Equal(two.AgreementEnded) {
			t.Errorf("%v: %s and %s", order, one.AgreementStatus, two.AgreementStatus)
		}
	}
}
