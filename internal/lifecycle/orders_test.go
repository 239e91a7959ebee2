package lifecycle_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
)

// eventKinds are those that change something.
var eventKinds = []lifecycle.Kind{lifecycle.LicenseUpdated, lifecycle.LicenseDeprovisioned, lifecycle.AgreementEnded, lifecycle.AgreementAmended}

// atRank is one of the times that events have in these tests; the hour of each is over at some time of finishing.
func atRank(rank int) time.Time { return clock(2, 40*rank, 0) }

// lifeOf is a license's subscriber after everything has been told and its last hour is over: the four events' times say it all.
func lifeOf(license string, at map[lifecycle.Kind]time.Time) metering.Subscriber {
	up, down, ended, amended := at[lifecycle.LicenseUpdated], at[lifecycle.LicenseDeprovisioned], at[lifecycle.AgreementEnded], at[lifecycle.AgreementAmended]
	s := metering.Subscriber{
		License: license, Account: buyer, ProductCode: product, Agreement: "agmt-1", Updated: up, Regions: []string{"us-east-1"},
		Status: metering.LifecycleActive, StatusAt: up, AgreementStatus: metering.LifecycleActive, AgreementStatusAt: up,
		AgreementEnded: ended, AgreementAmended: amended, AgreementStart: clock(0, 0, 0), AgreementEnd: clock(0, 0, 0).AddDate(1, 0, 0),
	}
	if !down.Before(up) {
		s.Status, s.StatusAt, s.Deprovisioned = metering.LifecycleInactive, down, []time.Time{down}
	}
	if !ended.Before(up) {
		s.AgreementStatus, s.AgreementStatusAt = metering.LifecycleInactive, ended
	}
	return s
}

// TestEveryOrderThroughTheQueue: the events as EventBridge words them, registration and the finalizer in every order, some of them again, in
// batches of whatever size, what failed delivered again; for every way in which the four times can lie to each other. The 720 orders are
// spread over the 75 ways, each order meeting several.
func TestEveryOrderThroughTheQueue(t *testing.T) {
	t.Parallel()
	var ways [][4]int
	for n := range 4 * 4 * 4 * 4 {
		ranks := [4]int{n % 4, n / 4 % 4, n / 16 % 4, n / 64}
		used := map[int]bool{}
		for _, r := range ranks {
			used[r] = true
		}
		if len(used) == slices.Max(ranks[:])+1 {
			ways = append(ways, ranks)
		}
	}
	orders := permutations([]int{0, 1, 2, 3, 4, 5})
	if len(ways) != 75 || len(orders) != 720 {
		t.Fatalf("%d ways, %d orders", len(ways), len(orders))
	}
	for i, ranks := range ways {
		at, bodies := map[lifecycle.Kind]time.Time{}, []string{}
		for j, kind := range eventKinds {
			at[kind] = atRank(ranks[j])
			bodies = append(bodies, event(kind, at[kind]))
		}
		want := lifeOf(licenseOne, at)
		for j := i % spread; j < len(orders); j += spread {
			random := rand.New(rand.NewPCG(uint64(i), uint64(j)))
			w := newWorld(t)
			w.handler.Log, w.finalizer.Log = nil, nil
			w.now = clock(2, 40+random.IntN(150), 0) // before any hour is over, up to after them all
			for _, step := range append(slices.Clone(orders[j]), random.Perm(6)[:random.IntN(4)]...) {
				switch step {
				case 4:
					w.register(licenseOne)
				case 5:
					w.finalize()
				default:
					w.send(bodies[step])
				}
				if random.IntN(2) == 0 {
					w.receive(1 + random.IntN(5))
				}
				w.now = w.now.Add(time.Duration(random.IntN(240)) * time.Second) // what waits must not grow old
			}
			w.drain()
			w.now = clock(12, 0, 0)
			w.finalize()
			if diff := cmp.Diff(want, w.subscriber(licenseOne)); diff != "" || len(w.dead) > 0 {
				t.Fatalf("ranks %v, order %v, dead %v (-want +got):\n%s", ranks, orders[j], w.dead, diff)
			}
		}
	}
}

func permutations(list []int) (all [][]int) {
	if len(list) == 0 {
		return [][]int{nil}
	}
	for i, first := range list {
		for _, rest := range permutations(slices.Delete(slices.Clone(list), i, i+1)) {
			all = append(all, append([]int{first}, rest...))
		}
	}
	return all
}

// TestLicensesOfOneAgreement: several licenses, each Updated before the agreement's end or after it, come to what their own events and their
// agreement's say, in any order and with repeats: also those that come when Ended and Amended have long been told to the others, or when
// a newer Updated has overruled Ended there.
func TestLicensesOfOneAgreement(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		rank := func(name string, from, to int) time.Time { return atRank(rapid.IntRange(from, to).Draw(rt, name)) }
		ended, amended := rank("ended", 0, 5), rank("amended", 0, 5)
		bodies := []string{event(lifecycle.AgreementEnded, ended), event(lifecycle.AgreementAmended, amended)}
		want := map[string]metering.Subscriber{}
		for i := range rapid.IntRange(1, 3).Draw(rt, "licenses") {
			license := fmt.Sprintf("%s%d", licenseOne, i)
			at := map[lifecycle.Kind]time.Time{
				lifecycle.LicenseUpdated: rank("updated", 0, 5), lifecycle.LicenseDeprovisioned: rank("deprovisioned", 0, 5),
				lifecycle.AgreementEnded: ended, lifecycle.AgreementAmended: amended,
			}
			for _, kind := range eventKinds[:2] {
				bodies = append(bodies, event(kind, at[kind], ofLicense(license)))
			}
			s := lifeOf(license, at)
			s.Regions = nil
			want[license] = s
		}
		again := rapid.SliceOfN(rapid.SampledFrom(bodies), 0, 4).Draw(rt, "again")
		w := newWorld(t)
		w.now = clock(6, 0, 0)
		for _, body := range rapid.Permutation(append(bodies, again...)).Draw(rt, "order") {
			w.send(body)
			w.receive(rapid.IntRange(0, 3).Draw(rt, "receive"))
			if rapid.IntRange(0, 3).Draw(rt, "finalize") == 0 {
				w.finalize()
			}
		}
		w.drain()
		w.now = clock(12, 0, 0)
		w.finalize()
		for license, want := range want {
			if diff := cmp.Diff(want, w.subscriber(license)); diff != "" {
				rt.Errorf("(-want +got):\n%s", diff)
			}
		}
	})
}

// TestUpToThreeEventsInEveryOrder: license events that name two agreements, and Ended and Amended of both, in all sets of up to three and at all
// times that they can have to each other. Every order ends the same. It takes four events until the order tells: three bring the license back
// to an agreement that it had left, and one speaks of that agreement (TestReturnToALeftAgreement in package metering).
func TestUpToThreeEventsInEveryOrder(t *testing.T) {
	t.Parallel()
	type told struct {
		name, body string
		rank       int
	}
	var all []told
	for rank := range 3 {
		for _, agreement := range []string{"agmt-1", "agmt-2"} {
			for _, kind := range eventKinds {
				all = append(all, told{fmt.Sprintf("%s of %s at %d", kind, agreement, rank), event(kind, atRank(rank), ofAgreement(agreement)), rank})
			}
		}
	}
	end := func(set []told, order []int) (metering.Subscriber, []string) {
		w := newWorld(t)
		w.handler.Log, w.finalizer.Log, w.now = nil, nil, clock(6, 0, 0)
		var names []string
		for _, i := range order {
			w.send(set[i].body)
			w.receive(len(w.queue))
			w.now = w.now.Add(5 * time.Minute)
			names = append(names, set[i].name)
		}
		w.receive(len(w.queue)) // what failed comes again; what nobody waits for is left
		w.now = clock(12, 0, 0)
		w.finalize()
		return w.subscriber(licenseOne), names
	}
	orders := [][][]int{permutations([]int{0, 1}), permutations([]int{0, 1, 2})}
	sets := 0
	try := func(set ...told) {
		ranks, licenses := map[int]bool{}, false
		for _, e := range set {
			ranks[e.rank] = true
			licenses = licenses || strings.HasPrefix(e.name, "license-")
		}
		if !licenses {
			return // nobody is told
		}
		if highest := slices.MaxFunc(set, func(a, b told) int { return a.rank - b.rank }).rank; len(ranks) <= highest {
			return // the same as one with lower ranks
		}
		if sets++; sets%setStep != 0 {
			return
		}
		var want metering.Subscriber
		var first []string
		for i, order := range orders[len(set)-2] {
			got, names := end(set, order)
			if i == 0 {
				want, first = got, names
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%q and %q:\n%s", first, names, diff)
			}
		}
	}
	for i := range all {
		for j := range i {
			try(all[j], all[i])
			for k := range j {
				try(all[k], all[j], all[i])
			}
		}
	}
	if sets < 900 {
		t.Errorf("%d sets", sets)
	}
}
