package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/faults"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
)

// TestFinalizerEndsWhatIsOver: to the second, and nothing else.
func TestFinalizerEndsWhatIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(
		event(lifecycle.LicenseUpdated, clock(10, 0, 0)), event(lifecycle.LicenseDeprovisioned, clock(11, 0, 0)),
		event(lifecycle.LicenseDeprovisioned, clock(11, 0, 1), ofSecond))
	w.finalizer.Subscribers = &refusing{w.store, licenseTwo} // that one need not even be asked for
	if n := w.finalize(); n != 1 || w.subscriber(licenseOne).Status != metering.LifecycleInactive || w.subscriber(licenseTwo).Status != metering.LifecycleDeprovisioning {
		t.Errorf("%d ended at 12:00:00", n)
	}
	w.now, w.finalizer.Subscribers = clock(12, 0, 1), w.store
	if n := w.finalize(); n != 1 || w.subscriber(licenseTwo).Status != metering.LifecycleInactive {
		t.Errorf("%d ended at 12:00:01", n)
	}
	if n := w.finalize(); n != 0 {
		t.Errorf("%d ended again", n)
	}
}

// TestF31RemarkedBetweenListAndWrite: a license that came back and left again while the finalizer was at work was closed early.
func TestF31RemarkedBetweenListAndWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(event(lifecycle.LicenseUpdated, clock(10, 0, 0)), event(lifecycle.LicenseDeprovisioned, clock(11, 0, 0)))
	w.finalizer.Subscribers = &meanwhile{Subscribers: w.store, then: func() {
		w.apply(event(lifecycle.LicenseUpdated, clock(11, 30, 0)), event(lifecycle.LicenseDeprovisioned, clock(11, 45, 0)))
	}}
	n := w.finalize()
	if got := w.subscriber(licenseOne); n != 0 || got.Status != metering.LifecycleDeprovisioning || !got.Expiry.Equal(clock(12, 45, 0)) {
		t.Errorf("%d ended: %+v", n, got)
	}
}

// TestFinalizerFailures: one license that fails holds up no other, nor does a list that is not whole; all is told, without naming anybody.
func TestFinalizerFailures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const licenses = faults.Told + 4
	for i := range licenses {
		w.apply(event(lifecycle.LicenseDeprovisioned, clock(10, 0, 0), ofLicense(fmt.Sprintf("%s%02d", licenseOne, i))))
	}
	refusing := &refusingMost{halfList{w.store}, fmt.Sprintf("%s%02d", licenseOne, licenses-1)}
	w.finalizer.Subscribers = refusing
	done, err := w.finalizer.Run(w.ctx)
	if done.Ended != 1 || !errors.Is(err, errRefused) || !errors.Is(err, errHalf) || !strings.Contains(err.Error(), "and 3 errors more") || strings.Contains(err.Error(), licenseOne) {
		t.Errorf("%d ended: %v", done.Ended, err)
	}
	if n := strings.Count(err.Error(), "end the last hour of license …"); n != faults.Told {
		t.Errorf("%d failures told one by one", n)
	}
	w.finalizer.Subscribers = w.store
	if n := w.finalize(); n != licenses-1 {
		t.Errorf("%d ended afterwards", n)
	}
}

// TestFinalizerStopsInTime: a run whose time is up asks for nothing more; the next one goes on.
func TestFinalizerStopsInTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(event(lifecycle.LicenseDeprovisioned, clock(10, 0, 0)), event(lifecycle.LicenseDeprovisioned, clock(10, 0, 1), ofSecond))
	ctx, cancel := context.WithCancel(t.Context())
	asked := &refusingMost{&meanwhile{Subscribers: w.store, then: cancel}, licenseOne}
	w.finalizer.Subscribers = asked
	if done, err := w.finalizer.Run(ctx); done.Ended != 0 || !errors.Is(err, context.Canceled) || errors.Is(err, errRefused) {
		t.Errorf("%d ended: %v", done.Ended, err)
	}
	w.finalizer.Subscribers = w.store
	if n := w.finalize(); n != 2 {
		t.Errorf("%d ended afterwards", n)
	}
}

// TestFinalizerOutOfTime: a run that ends some of the hours that are over and has no time for the others says so.
func TestFinalizerOutOfTime(t *testing.T) {
	t.Parallel()
	for left, fails := range map[int]bool{0: false, 4: true} {
		w := newWorld(t)
		for i := range left + 1 {
			w.apply(event(lifecycle.LicenseDeprovisioned, clock(3, 0, i), ofLicense(fmt.Sprintf("%s%d", licenseOne, i))))
		}
		w.apply(event(lifecycle.LicenseDeprovisioned, clock(11, 30, 0), ofSecond)) // not over: nothing is left undone there
		ctx, cancel := context.WithCancel(t.Context())
		w.finalizer.Subscribers = timesUp{w.store, cancel}
		done, err := w.finalizer.Run(ctx)
		if done.Ended != 1 || errors.Is(err, context.Canceled) != fails {
			t.Errorf("%d left: %d ended, %v", left, done.Ended, err)
		}
	}
}

// timesUp has time for one change.
type timesUp struct {
	lifecycle.Subscribers
	cancel context.CancelFunc
}

func (s timesUp) ChangeSubscriber(ctx context.Context, c metering.SubscriberChange) (metering.Subscriber, bool, error) {
	defer s.cancel()
	return s.Subscribers.ChangeSubscriber(ctx, c)
}

var errHalf = errors.New("an entry could not be read")

type halfList struct{ lifecycle.Subscribers }

func (h halfList) Deprovisioning(ctx context.Context) ([]metering.Deprovisioning, error) {
	list, _ := h.Subscribers.Deprovisioning(ctx)
	return list, errHalf
}

type refusingMost struct {
	lifecycle.Subscribers
	but string
}

func (r *refusingMost) ChangeSubscriber(ctx context.Context, c metering.SubscriberChange) (metering.Subscriber, bool, error) {
	if c.License != r.but {
		return metering.Subscriber{}, false, errRefused
	}
	return r.Subscribers.ChangeSubscriber(ctx, c)
}
