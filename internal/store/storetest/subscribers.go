package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/awsmp/metering/internal/metering"
)

func subscriberContract() map[string]func(t *testing.T, s Lifecycle) {
	return map[string]func(t *testing.T, s Lifecycle){
		"every change":                          everyChange,
		"changes that make no subscriber":       changesOfNone,
		"a change again changes nothing":        changeAgain,
		"changes at once end as one order does": changesAtOnce,
		"no Region is lost":                     regionsAtOnce,
		"the last hours":                        lastHoursAlone,
		"the licenses of an agreement":          agreementLicenses,
		"attributes that nobody knows":          unknownAttributes,
		"attributes of the wrong type":          oddAttributes,
		"a subscriber needs a key":              subscriberKey,
		"what is handed out is the caller's":    handedOut,
		"a context that is done":                lifecycleContext,
	}
}

// everyChange takes each change of a subscriber once, in an order in which each has something to do.
func everyChange(t *testing.T, s Lifecycle) {
	var want *metering.Subscriber
	for _, step := range []struct {
		name   string
		change metering.SubscriberChange
		ends   bool // in a last hour
	}{
		{"registered", registered("us-east-1"), false},
		{"in another Region", registered("eu-west-1"), false},
		{"License Updated", event(licenseA, 1).UpdatedAt(now()), false},
		{"Ended before it", ended(0).EndedAt(licenseA, buyer, now()), false},
		{"Amended", amended(2).AmendedAt(licenseA, buyer, now()), false},
		{"License Deprovisioned", event(licenseA, 9).DeprovisionedAt(now()), true},
		{"an earlier one", event(licenseA, 8).DeprovisionedAt(now()), true},
		{"License Updated after them", event(licenseA, 10).UpdatedAt(now()), false},
		{"License Deprovisioned anew", event(licenseA, 11).DeprovisionedAt(now()), true},
		{"Ended", ended(12).EndedAt(licenseA, buyer, now()), true},
		{"the last hour is over", metering.FinalizeAt(licenseA, buyer, at(11).Add(metering.DeprovisionWindow)), false},
		{"another agreement", metering.LicenseEvent{License: licenseA, Account: buyer, Agreement: "agmt-b", ProductCode: "prod-b", At: at(13)}.UpdatedAt(now()), false},
	} {
		after, changed := step.change.Apply(want)
		if !changed {
			t.Fatalf("%s: there is nothing to do", step.name)
		}
		after = normal(after)
		want = &after
		got, changed, err := s.ChangeSubscriber(t.Context(), step.change)
		if must(t, got, err); !changed {
			t.Errorf("%s: nothing was changed", step.name)
		}
		same(t, step.name, after, got)
		same(t, step.name+", read", want, subscriber(t, s, licenseA))
		var hours []metering.Deprovisioning
		if step.ends {
			hours = []metering.Deprovisioning{{License: licenseA, Account: buyer, Expiry: after.Expiry}}
		}
		same(t, step.name+", last hours", hours, lastHours(t, t.Context(), s))
	}
}

func changesOfNone(t *testing.T, s Lifecycle) {
	apply(t, s, event(licenseB, 1).UpdatedAt(now()))
	for name, c := range map[string]metering.SubscriberChange{
		"Ended": ended(2).EndedAt(licenseA, buyer, now()), "Amended": amended(2).AmendedAt(licenseA, buyer, now()),
		"the finalizer": metering.FinalizeAt(licenseA, buyer, now()), "another account": metering.FinalizeAt(licenseB, "111122223333", now()),
	} {
		got, changed, err := s.ChangeSubscriber(t.Context(), c)
		if must(t, got, err); changed {
			t.Errorf("%s: something was changed", name)
		}
		same(t, name, metering.Subscriber{}, got)
	}
	same(t, "subscriber", (*metering.Subscriber)(nil), subscriber(t, s, licenseA))
}

// A repeat answers with what stands there, and the time of the last change stays.
func changeAgain(t *testing.T, s Lifecycle) {
	again := func(name string, changes ...metering.SubscriberChange) {
		t.Helper()
		want := subscriber(t, s, licenseA)
		for _, c := range changes {
			c.At = c.At.AddDate(0, 0, 1)
			got, changed, err := s.ChangeSubscriber(t.Context(), c)
			if must(t, got, err); changed {
				t.Errorf("%s: something was changed", name)
			}
			same(t, name, want, &got)
			same(t, name+", read", want, subscriber(t, s, licenseA))
		}
	}
	updated, closing, over := event(licenseA, 1).UpdatedAt(now()), event(licenseA, 9).DeprovisionedAt(now()), metering.FinalizeAt(licenseA, buyer, at(69))
	apply(t, s, updated, registered("us-east-1"), closing)
	again("in its last hour", updated, registered("us-east-1"), closing, metering.FinalizeAt(licenseA, buyer, at(68)))
	apply(t, s, over)
	again("ended", updated, closing, over)
}

// changesAtOnce makes changes of one subscriber from as many goroutines. One of the orders must have led to what stands there.
func changesAtOnce(t *testing.T, s Lifecycle) {
	changes := []metering.SubscriberChange{
		registered("us-east-1"), event(licenseA, 1).UpdatedAt(now()), event(licenseA, 9).DeprovisionedAt(now()),
		ended(9).EndedAt(licenseA, buyer, now()), metering.FinalizeAt(licenseA, buyer, at(69)),
	}
	var outcomes []*metering.Subscriber
	for order := range permutations(len(changes)) {
		var sub *metering.Subscriber
		for _, i := range order {
			if after, changed := changes[i].Apply(sub); changed {
				after = normal(after)
				sub = &after
			}
		}
		outcomes = append(outcomes, sub)
	}
	for round := range 5 {
		license := fmt.Sprint(licenseA, round)
		var all sync.WaitGroup
		for _, c := range changes {
			c.License = license
			all.Go(func() {
				if _, _, err := s.ChangeSubscriber(t.Context(), c); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		got := subscriber(t, s, license)
		got.License = licenseA
		if !slices.ContainsFunc(outcomes, func(want *metering.Subscriber) bool { return cmp.Equal(want, got, cmpopts.EquateEmpty()) }) {
			t.Errorf("no order leads to %+v", got)
		}
	}
}

// permutations are all orders of the numbers below n.
func permutations(n int) func(yield func([]int) bool) {
	return func(yield func([]int) bool) {
		var place func(order []int) bool
		place = func(order []int) bool {
			if len(order) == n {
				return yield(order)
			}
			for i := range n {
				if !slices.Contains(order, i) && !place(append(slices.Clone(order), i)) {
					return false
				}
			}
			return true
		}
		place(nil)
	}
}

func regionsAtOnce(t *testing.T, s Lifecycle) {
	var all sync.WaitGroup
	var want []string
	for i := range 8 {
		region := fmt.Sprintf("us-east-%d", i)
		want = append(want, region)
		all.Go(func() {
			got, changed, err := s.ChangeSubscriber(t.Context(), registered(region))
			if err != nil || !changed || !slices.Contains(got.Regions, region) {
				t.Errorf("%s: changed %v, %v, %+v", region, changed, err, got)
			}
		})
	}
	all.Wait()
	same(t, "Regions", want, subscriber(t, s, licenseA).Regions)
}

// The index holds exactly the licenses in their last hour, also one whose end has passed and that nobody has ended; the one that ends
// first at the head.
func lastHoursAlone(t *testing.T, s Lifecycle) {
	hour := func(license, account string, minute int) metering.Deprovisioning {
		return metering.Deprovisioning{License: license, Account: account, Expiry: at(minute).Add(metering.DeprovisionWindow)}
	}
	expect := func(step string, want ...metering.Deprovisioning) {
		t.Helper()
		same(t, step, want, lastHours(t, t.Context(), s))
	}
	closes := func(license, account string, minute int) metering.SubscriberChange {
		return metering.LicenseEvent{License: license, Account: account, At: at(minute)}.DeprovisionedAt(now())
	}
	expect("an empty store")
	apply(t, s, event("active", 1).UpdatedAt(now()), closes("b", "1", 9), closes("a", "2", 5), closes("a", "1", 5))
	expect("three", hour("a", "1", 5), hour("a", "2", 5), hour("b", "1", 9))
	apply(t, s, closes("b", "1", 3), closes("b", "1", 4))
	expect("one moves earlier", hour("b", "1", 3), hour("a", "1", 5), hour("a", "2", 5))
	apply(t, s, metering.LicenseEvent{License: "a", Account: "1", At: at(6)}.UpdatedAt(now()))
	expect("one is active again", hour("b", "1", 3), hour("a", "2", 5))
	apply(t, s, metering.FinalizeAt("b", "1", at(63)))
	expect("one has ended", hour("a", "2", 5))
	apply(t, s, closes("a", "1", 7))
	expect("one closes anew", hour("a", "2", 5), hour("a", "1", 7))
}

func agreementLicenses(t *testing.T, s Lifecycle) {
	const ours = 12 // three full pages of four
	var want []string
	for i := range ours {
		license := fmt.Sprintf("license-%03d", i)
		apply(t, s, event(license, 1).UpdatedAt(now()))
		want = append(want, license)
	}
	other := metering.LicenseEvent{License: licenseB, Account: buyer, Agreement: agreement + "b", At: at(1)}
	apply(t, s, other.UpdatedAt(now()), registered("us-east-1")) // one of another agreement, one of none
	read := func(agreement string) (licenses []string) {
		t.Helper()
		for _, sub := range collect(t, s.AgreementSubscribers(t.Context(), agreement)) {
			same(t, sub.License, subscriber(t, s, sub.License), &sub)
			licenses = append(licenses, sub.License)
		}
		return sorted(licenses)
	}
	same(t, "the agreement's", want, read(agreement))
	same(t, "another's", []string{licenseB}, read(agreement+"b"))
	same(t, "an unknown one's", []string(nil), read("agmt-none"))
	same(t, "no agreement's", []string(nil), read(""))

	seq := s.AgreementSubscribers(t.Context(), agreement)
	for range 2 { // a read may end early and begin again
		n := 0
		for range seq {
			if n++; n == 7 {
				break
			}
		}
		if n != 7 {
			t.Errorf("%d, want 7", n)
		}
	}
	seen := make(map[string]bool) // and survives the writes that it causes
	for sub, err := range seq {
		if must(t, sub, err); seen[sub.License] {
			t.Errorf("%s came twice", sub.License)
		}
		seen[sub.License] = true
		apply(t, s, ended(2).EndedAt(sub.License, sub.Account, now()))
	}
	if len(seen) != ours {
		t.Errorf("%d were seen, want %d", len(seen), ours)
	}

	moved := metering.LicenseEvent{License: "license-000", Account: buyer, Agreement: agreement + "b", At: at(3)}
	apply(t, s, moved.UpdatedAt(now()))
	same(t, "the agreement's that are left", want[1:], read(agreement))
	same(t, "another's", []string{licenseB, "license-000"}, read(agreement+"b"))
}

func unknownAttributes(t *testing.T, s Lifecycle) {
	unknown := metering.Item{
		"tier": "gold", "seats": json.Number("3"), "trial": true, "nothing": nil,
		"history": []any{json.Number("1.50"), map[string]any{"by": "hand"}},
	}
	item := metering.Item{metering.AttrLicense: licenseA, metering.AttrAccount: buyer, metering.AttrProductCode: "prod-a"}
	for name, v := range unknown {
		item[name] = v
	}
	must(t, 0, s.PutSubscriber(t.Context(), item))
	for _, c := range []metering.SubscriberChange{
		registered("us-east-1"), event(licenseA, 1).UpdatedAt(now()), event(licenseA, 9).DeprovisionedAt(now()),
		ended(9).EndedAt(licenseA, buyer, now()), amended(9).AmendedAt(licenseA, buyer, now()), metering.FinalizeAt(licenseA, buyer, at(69)),
	} {
		got, changed, err := s.ChangeSubscriber(t.Context(), c)
		if must(t, got, err); !changed {
			t.Error("nothing was changed")
		}
		same(t, "answered", unknown, got.Other)
		same(t, "read", unknown, subscriber(t, s, licenseA).Other)
	}
}

// What cannot be read is as good as absent, and is kept until a change has its say.
func oddAttributes(t *testing.T, s Lifecycle) {
	item := metering.Item{
		metering.AttrLicense: licenseA, metering.AttrAccount: buyer, metering.AttrProductCode: json.Number("7"), metering.AttrAgreementStatus: true,
		metering.AttrAgreementStatusAt: "soon", metering.AttrSubscriptionStatusAt: "", metering.AttrLicenseUpdatedAt: json.Number("1773151200"),
		metering.AttrDeprovisioningFlag: metering.DeprovisioningFlag, metering.AttrDeprovisioningExpiry: "2026-03-10 16:00:00",
		metering.AttrRegisteredRegions: "us-east-1",
	}
	must(t, 0, s.PutSubscriber(t.Context(), item))
	if list, err := s.Deprovisioning(t.Context()); err == nil || len(list) != 0 {
		// A store whose index cannot hold such a license has nothing to say about it.
		same(t, "last hours", []metering.Deprovisioning(nil), list)
	} else if strings.Contains(err.Error(), licenseA) {
		t.Errorf("the license is not masked: %v", err)
	}
	sub := metering.SubscriberFromItem(item)
	for _, c := range []metering.SubscriberChange{
		metering.FinalizeAt(licenseA, buyer, now()), registered("eu-west-1"), event(licenseA, 1).UpdatedAt(now()),
		event(licenseA, 9).DeprovisionedAt(now()), ended(9).EndedAt(licenseA, buyer, now()),
	} {
		want, changes := c.Apply(&sub)
		sub = normal(want)
		got, changed, err := s.ChangeSubscriber(t.Context(), c)
		if must(t, got, err); changed != changes {
			t.Errorf("changed %v, want %v", changed, changes)
		}
		same(t, "answered", sub, got)
		same(t, "read", &sub, subscriber(t, s, licenseA))
	}
	if len(sub.Other) != 0 {
		t.Errorf("still odd: %v", sub.Other)
	}
}

func subscriberKey(t *testing.T, s Lifecycle) {
	for _, key := range [][2]string{{"", buyer}, {licenseA, ""}, {"", ""}} {
		c := metering.LicenseEvent{License: key[0], Account: key[1], Agreement: agreement, At: at(1)}.UpdatedAt(now())
		if _, changed, err := s.ChangeSubscriber(t.Context(), c); err == nil || changed || !strings.Contains(err.Error(), "licenseArn") {
			t.Errorf("license %q, account %q: changed %v, %v", key[0], key[1], changed, err)
		}
	}
	same(t, "subscribers", []metering.Subscriber(nil), collect(t, s.AgreementSubscribers(t.Context(), agreement)))
}

// What a caller does to what it was handed is nothing to the store.
func handedOut(t *testing.T, s Lifecycle) {
	must(t, 0, s.PutSubscriber(t.Context(), metering.Item{metering.AttrLicense: licenseA, metering.AttrAccount: buyer, "tags": []any{"one"}}))
	apply(t, s, event(licenseA, 1).UpdatedAt(now()), event(licenseA, 9).DeprovisionedAt(now()))
	got, _, err := s.ChangeSubscriber(t.Context(), registered("us-east-1"))
	must(t, got, err)
	want := subscriber(t, s, licenseA)
	spoil := func(sub metering.Subscriber) {
		sub.Regions[0], sub.Deprovisioned[0] = "spoilt", now()
		sub.Other["tags"].([]any)[0] = "spoilt"
	}
	spoil(got)
	spoil(*subscriber(t, s, licenseA))
	for _, sub := range collect(t, s.AgreementSubscribers(t.Context(), agreement)) {
		spoil(sub)
	}
	same(t, "subscriber", want, subscriber(t, s, licenseA))
}

func lifecycleContext(t *testing.T, s Lifecycle) {
	apply(t, s, event(licenseA, 1).UpdatedAt(now()))
	want := subscriber(t, s, licenseA)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func() error{
		"ChangeSubscriber":     func() error { _, _, err := s.ChangeSubscriber(ctx, registered("us-east-1")); return err },
		"Subscriber":           func() error { _, err := s.Subscriber(ctx, licenseA, buyer); return err },
		"AgreementSubscribers": func() error { return ends(s.AgreementSubscribers(ctx, agreement)) },
		"Deprovisioning":       func() error { _, err := s.Deprovisioning(ctx); return err },
		"SaveProfile":          func() error { return s.SaveProfile(ctx, profile(nil)) },
		"Profile":              func() error { _, err := s.Profile(ctx, licenseA, buyer); return err },
	} {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v, want %v", name, err, context.Canceled)
		}
	}
	same(t, "subscriber", want, subscriber(t, s, licenseA))
}
