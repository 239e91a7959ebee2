package lifecycle_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// TestIndexLagWithinABatch: License Updated and Ended milliseconds apart. The index shows the new license only after Ended was told to the
// others, and the license saw there what they had heard before that.
func TestIndexLagWithinABatch(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]string{
		"Updated":       event(lifecycle.LicenseUpdated, clock(11, 0, 0), ofLicense(licenseTwo)),
		"Deprovisioned": event(lifecycle.LicenseDeprovisioned, clock(11, 0, 0), ofLicense(licenseTwo)),
	} {
		w := newWorld(t)
		w.apply(event(lifecycle.LicenseUpdated, clock(10, 0, 0)))
		w.handler.Subscribers = laggingIndex{w.store, map[string]int{licenseTwo: 6}}
		w.send(second, event(lifecycle.AgreementEnded, clock(11, 30, 0)), event(lifecycle.AgreementAmended, clock(11, 20, 0)))
		if diff := cmp.Diff([]string{"m2", "m3"}, w.receive(10)); diff != "" || w.subscriber(licenseOne).AgreementStatus != metering.LifecycleInactive {
			t.Errorf("%s: left in the queue:\n%s", name, diff)
		}
		w.now = w.now.Add(5 * time.Minute)
		if failed := w.receive(10); failed != nil {
			t.Errorf("%s: %v are left in the queue after five minutes", name, failed)
		}
		for _, l := range []string{licenseOne, licenseTwo} {
			if s := w.subscriber(l); s.AgreementStatus != metering.LifecycleInactive || s.AgreementAmended.IsZero() {
				t.Errorf("%s: %+v", name, s)
			}
		}
		if strings.Contains(w.log.String(), `"ERROR"`) {
			t.Errorf("%s: once more is no error:\n%s", name, w.log)
		}
	}
}

// TestOnceMoreWhileTheMessageIsYoung: an agreement's event whose message is five minutes old, of unknown age, or there for the second time, is done as it is applied, and so
// is one that is not applied at all.
func TestOnceMoreWhileTheMessageIsYoung(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(event(lifecycle.LicenseUpdated, clock(10, 0, 0)))
	ended := event(lifecycle.AgreementEnded, clock(11, 0, 0))
	message := func(id, body string, age time.Duration) pipeline.Message {
		return pipeline.Message{ID: id, Body: body, SentAt: w.now.Add(-age), Receives: 1}
	}
	failed := w.handler.Handle(w.ctx, []pipeline.Message{
		message("young", ended, 5*time.Minute-time.Second), message("old", ended, 5*time.Minute), {ID: "of unknown age", Body: ended, Receives: 1},
		{ID: "young, once more", Body: ended, SentAt: w.now, Receives: 2},
		message("refused", event(lifecycle.AgreementEnded, clock(11, 0, 0), ofStage("qa")), 0),
		message("of a license", event(lifecycle.LicenseUpdated, clock(10, 0, 0)), 0), message("ignored", event(lifecycle.AgreementCreated, clock(10, 0, 0)), 0),
	})
	if diff := cmp.Diff([]string{"young"}, failed); diff != "" {
		t.Error(diff)
	}
}

// TestLicenseEventsGoFirst: in a batch that a queue brings after it stood still, Ended and Amended lie before the Updated that they wait for. The
// results are named by message.
func TestLicenseEventsGoFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(event(lifecycle.AgreementEnded, clock(11, 59, 0)), "not an event", event(lifecycle.AgreementAmended, clock(11, 59, 0), ofAgreement("agmt-9")),
		strings.Replace(event(lifecycle.LicenseUpdated, clock(11, 58, 0)), licenseOne, "l-unknown", 1), event(lifecycle.LicenseUpdated, clock(11, 58, 0)))
	w.now = w.now.Add(50 * time.Minute)
	if diff := cmp.Diff([]string{"m2", "m3", "m4"}, w.receive(10)); diff != "" {
		t.Error(diff)
	}
	if s := w.subscriber(licenseOne); s.AgreementStatus != metering.LifecycleInactive {
		t.Errorf("subscriber %+v", s)
	}
}

// TestBacklogOlderThanThreeQuarters: a queue stood still for longer than an agreement may be unknown, and brings Ended in a batch before that of
// Updated. It is given up at its third delivery at the earliest, and never where deliveries are not counted.
func TestBacklogOlderThanThreeQuarters(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.send(event(lifecycle.AgreementEnded, clock(11, 59, 0)), event(lifecycle.AgreementEnded, clock(11, 59, 0), ofAgreement("agmt-9")), event(lifecycle.LicenseUpdated, clock(11, 58, 0)))
	w.now = w.now.Add(50 * time.Minute)
	w.receive(2)
	w.receive(1)
	if diff := cmp.Diff([]string{"m2"}, w.receive(2)); diff != "" || w.subscriber(licenseOne).AgreementStatus != metering.LifecycleInactive {
		t.Errorf("at the second delivery:\n%s", diff)
	}
	if failed := w.receive(1); failed != nil || w.metrics.Of(metering.MetricAgreementUnknown).Items != 1 {
		t.Errorf("at the third delivery: %v failed", failed)
	}
	uncounted := pipeline.Message{ID: "m", Body: event(lifecycle.AgreementEnded, clock(11, 59, 0), ofAgreement("agmt-9")), SentAt: clock(11, 59, 0)}
	if failed := w.handler.Handle(w.ctx, []pipeline.Message{uncounted}); !slices.Equal(failed, []string{"m"}) {
		t.Errorf("a message whose deliveries are not counted: %v failed", failed)
	}
}
