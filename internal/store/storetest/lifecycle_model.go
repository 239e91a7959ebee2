package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// books are the two tables in their plainest form: what the rules make of each change, one after the other.
type books struct {
	run         int
	subscribers map[[2]string]metering.Subscriber
	profiles    map[[2]string]metering.Profile
}

// lifecycleAgreesWithModel runs random changes on the store and on the rules alone, each run on licenses of its own, and compares what
// every change answers and, at the end, all that can be read.
func lifecycleAgreesWithModel(t *testing.T, s Lifecycle) {
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		b := books{run: runs, subscribers: map[[2]string]metering.Subscriber{}, profiles: map[[2]string]metering.Profile{}}
		rt.Repeat(map[string]func(*rapid.T){
			"license event": func(rt *rapid.T) {
				e := metering.LicenseEvent{
					License: b.license(rt), Account: b.account(rt), Agreement: rapid.SampledFrom([]string{b.agreement("a"), b.agreement("b"), ""}).Draw(rt, "agreement"),
					ProductCode: rapid.SampledFrom([]string{"prod-a", "prod-b", ""}).Draw(rt, "product"), At: moment(rt),
				}
				if rapid.Bool().Draw(rt, "deprovisioned") {
					b.change(rt, s, e.DeprovisionedAt(moment(rt)))
				} else {
					b.change(rt, s, e.UpdatedAt(moment(rt)))
				}
			},
			"agreement event": func(rt *rapid.T) {
				e := metering.AgreementEvent{Agreement: b.agreement(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "agreement")), Start: moment(rt), End: moment(rt), At: moment(rt)}
				if rapid.Bool().Draw(rt, "ended") {
					b.change(rt, s, e.EndedAt(b.license(rt), b.account(rt), moment(rt)))
				} else {
					b.change(rt, s, e.AmendedAt(b.license(rt), b.account(rt), moment(rt)))
				}
			},
			"registration": func(rt *rapid.T) {
				b.change(rt, s, metering.Registered(b.license(rt), b.account(rt), "prod-a", rapid.SampledFrom([]string{"us-east-1", "eu-west-1"}).Draw(rt, "Region"), moment(rt)))
			},
			"finalizer": func(rt *rapid.T) {
				b.change(rt, s, metering.FinalizeAt(b.license(rt), b.account(rt), moment(rt).Add(metering.DeprovisionWindow)))
			},
			"profile": func(rt *rapid.T) { b.save(rt, s) },
		})
		b.compare(rt, s)
	})
}

func (b *books) agreement(name string) string { return fmt.Sprintf("agmt-%d-%s", b.run, name) }

func (b *books) license(rt *rapid.T) string {
	return fmt.Sprintf("license-%d-%s", b.run, rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "license"))
}

func (*books) account(rt *rapid.T) string {
	return rapid.SampledFrom([]string{buyer, buyer, "111122223333"}).Draw(rt, "account")
}

// moment is one of few, and not always a whole second.
func moment(rt *rapid.T) time.Time {
	return at(rapid.IntRange(0, 4).Draw(rt, "minute")).Add(time.Duration(rapid.IntRange(0, 1).Draw(rt, "half")) * time.Second / 2)
}

func (b *books) change(rt *rapid.T, s Lifecycle, c metering.SubscriberChange) {
	key := [2]string{c.License, c.Account}
	var old *metering.Subscriber
	if sub, ok := b.subscribers[key]; ok {
		old = &sub
	}
	want, changes := c.Apply(old)
	if changes {
		want = normal(want)
		b.subscribers[key] = want
	}
	got, changed, err := s.ChangeSubscriber(rt.Context(), c)
	same(rt, "ChangeSubscriber", want, must(rt, got, err))
	if changed != changes {
		rt.Errorf("changed %v, want %v", changed, changes)
	}
}

func (b *books) save(rt *rapid.T, s Lifecycle) {
	c := metering.ProfileChange{License: b.license(rt), Account: b.account(rt), ProductCode: "prod-a", Fields: map[string]string{}, At: moment(rt)}
	for _, name := range []string{"contactName", "companyName"} {
		if rapid.Bool().Draw(rt, "has "+name) {
			c.Fields[name] = rapid.StringN(1, 8, -1).Draw(rt, name)
		}
		if rapid.Bool().Draw(rt, "promotes "+name) {
			c.Promoted = append(c.Promoted, name)
		}
	}
	key := [2]string{c.License, c.Account}
	var old *metering.Profile
	if p, ok := b.profiles[key]; ok {
		old = &p
	}
	b.profiles[key] = c.Apply(old)
	must(rt, 0, s.SaveProfile(rt.Context(), c))
}

func (b *books) compare(rt *rapid.T, s Lifecycle) {
	agreements := make(map[string][]string)
	var hours []metering.Deprovisioning
	for _, name := range []string{"a", "b"} {
		for _, account := range []string{buyer, "111122223333"} {
			key := [2]string{fmt.Sprintf("license-%d-%s", b.run, name), account}
			got, err := s.Subscriber(rt.Context(), key[0], key[1])
			must(rt, got, err)
			if want, ok := b.subscribers[key]; ok {
				same(rt, "Subscriber", &want, got)
				agreements[want.Agreement] = append(agreements[want.Agreement], key[0]+" "+key[1])
				if !want.Expiry.IsZero() {
					hours = append(hours, metering.Deprovisioning{License: key[0], Account: key[1], Expiry: want.Expiry})
				}
			} else if got != nil {
				rt.Errorf("nobody made %+v", got)
			}
			profile, err := s.Profile(rt.Context(), key[0], key[1])
			must(rt, profile, err)
			if want, ok := b.profiles[key]; ok {
				same(rt, "Profile", &want, profile)
			} else if profile != nil {
				rt.Errorf("nobody saved a profile of %v", key)
			}
		}
	}
	for _, name := range []string{"a", "b"} {
		var got []string
		for _, sub := range collect(rt, s.AgreementSubscribers(rt.Context(), b.agreement(name))) {
			got = append(got, sub.License+" "+sub.Account)
		}
		same(rt, "AgreementSubscribers", sorted(agreements[b.agreement(name)]), sorted(got))
	}
	slices.SortFunc(hours, store.EndsFirst)
	ours := slices.DeleteFunc(lastHours(rt, rt.Context(), s), func(d metering.Deprovisioning) bool {
		_, ours := b.subscribers[[2]string{d.License, d.Account}]
		return !ours // of another run
	})
	same(rt, "Deprovisioning", hours, ours)
}
