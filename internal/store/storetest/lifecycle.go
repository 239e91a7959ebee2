package storetest

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// Lifecycle is what the suite asks of an adapter of the subscribers and customer-profile tables.
type Lifecycle interface {
	ChangeSubscriber(ctx context.Context, c metering.SubscriberChange) (metering.Subscriber, bool, error)
	AgreementSubscribers(ctx context.Context, agreement string) iter.Seq2[metering.Subscriber, error]
	Subscriber(ctx context.Context, license, account string) (*metering.Subscriber, error)
	Deprovisioning(ctx context.Context) ([]metering.Deprovisioning, error)
	SaveProfile(ctx context.Context, c metering.ProfileChange) error
	Profile(ctx context.Context, license, account string) (*metering.Profile, error)

	// PutSubscriber puts an item in the place of whatever stood there, as no stage does.
	PutSubscriber(ctx context.Context, item metering.Item) error
}

// RunLifecycle holds a store against the contract of the subscribers and customer-profile tables. Each test opens one of its own,
// empty, and runs beside the others.
func RunLifecycle(t *testing.T, open func(t *testing.T) Lifecycle) {
	for name, tests := range map[string]map[string]func(t *testing.T, s Lifecycle){
		"subscribers": subscriberContract(), "profiles": profileContract(),
		"random": {"changes": lifecycleAgreesWithModel},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for name, test := range tests {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					test(t, open(t))
				})
			}
		})
	}
}

const agreement = "agmt-aaaaaaaaaaaaaaaaaaaaaaaaa"

// at is a moment of the hour before now.
func at(minute int) time.Time { return hour().Start().Add(time.Duration(minute) * time.Minute) }

func event(license string, minute int) metering.LicenseEvent {
	return metering.LicenseEvent{License: license, Account: buyer, Agreement: agreement, ProductCode: "prod-a", At: at(minute)}
}

func ended(minute int) metering.AgreementEvent {
	return metering.AgreementEvent{Agreement: agreement, At: at(minute)}
}

func amended(minute int) metering.AgreementEvent {
	return metering.AgreementEvent{Agreement: agreement, Start: at(0), End: at(0).AddDate(1, 0, minute), At: at(minute)}
}

func registered(region string) metering.SubscriberChange {
	return metering.Registered(licenseA, buyer, "prod-a", region, now())
}

// apply makes changes that the store must find to be of use.
func apply(t *testing.T, s Lifecycle, changes ...metering.SubscriberChange) {
	t.Helper()
	for _, c := range changes {
		if _, changed, err := s.ChangeSubscriber(t.Context(), c); err != nil || !changed {
			t.Fatalf("ChangeSubscriber: changed %v, %v", changed, err)
		}
	}
}

func subscriber(t *testing.T, s Lifecycle, license string) *metering.Subscriber {
	t.Helper()
	sub, err := s.Subscriber(t.Context(), license, buyer)
	return must(t, sub, err)
}

func lastHours(t fataler, ctx context.Context, s Lifecycle) []metering.Deprovisioning {
	t.Helper()
	list, err := s.Deprovisioning(ctx)
	return must(t, list, err)
}

// normal is a subscriber as it reads back.
func normal(s metering.Subscriber) metering.Subscriber { return metering.SubscriberFromItem(s.Item()) }
