package metering_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/awsmp/metering/internal/metering"
)

// happening is one event of a license's life, or its registration.
type happening struct {
	kind      byte // U, D, E, A or R, as in Updated, Deprovisioned, Ended, Amended, registered
	at        time.Time
	agreement string
}

func (h happening) String() string {
	return fmt.Sprintf("%c %s %s", h.kind, h.at.Format("15:04"), h.agreement)
}

func (h happening) change() metering.SubscriberChange {
	switch h.kind {
	case 'U':
		return updated(h.at, h.agreement)
	case 'D':
		return deprovisioned(h.at, h.agreement)
	case 'E':
		return ended(h.at, h.agreement)
	case 'A':
		return amended(h.at, h.agreement, h.at.Add(24*time.Hour))
	}
	return registered("us-east-1")
}

// tell applies the happening as the handler does: Ended and Amended of an agreement that the license is none of are not taken; their message
// stays in the queue.
func (h happening) tell(s *metering.Subscriber) (next *metering.Subscriber, taken bool) {
	got, changed := h.change().Apply(s)
	taken = h.kind != 'E' && h.kind != 'A' || got.Agreement == h.agreement
	if changed {
		return &got, taken
	}
	return s, taken
}

// implied is the subscriber that a set of happenings comes to after its last hour, told from the set alone.
func implied(told []happening) metering.Item {
	var up, end, names happening
	var amended, first time.Time
	i := metering.Item{}
	word := func(t time.Time) string { return t.Format(time.RFC3339) }
	for _, h := range told {
		switch h.kind {
		case 'U':
			up = latest(up, h)
		case 'D':
			names = latest(names, h)
		case 'R':
			i["registeredRegions"], i["productCode"] = []any{"us-east-1"}, "product-of-agmt-1"
		}
	}
	var downs []any
	for _, h := range slices.SortedFunc(slices.Values(told), func(a, b happening) int { return a.at.Compare(b.at) }) {
		if h.kind != 'D' || h.at.Before(up.at) {
			continue
		}
		if first.IsZero() {
			first = h.at
		}
		if w := word(h.at); len(downs) == 0 || downs[len(downs)-1] != w {
			downs = append(downs, w)
		}
	}
	if up.kind != 0 { // Deprovisioned names no agreement where Updated does
		names = up
	}
	if names.kind == 0 {
		return i
	}
	i["agreementId"], i["productCode"] = names.agreement, "product-of-"+names.agreement
	for _, h := range told {
		switch {
		case h.agreement != names.agreement:
		case h.kind == 'E':
			end = latest(end, h)
		case h.kind == 'A' && h.at.After(amended):
			amended = h.at
		}
	}
	if !amended.IsZero() {
		i["agreementAmendedAt"], i["agreementEndTime"], i["agreementStartTime"] = word(amended), word(amended.Add(24*time.Hour)), word(clock(0, 0, 0))
	}
	if up.kind != 0 {
		i["agreementStatus"], i["agreementStatusAt"] = "active", word(up.at)
		i["licenseUpdatedAt"], i["subscriptionStatus"], i["subscriptionStatusAt"] = word(up.at), "active", word(up.at)
	}
	if end.kind != 0 {
		i["agreementEndedAt"] = word(end.at)
		if !end.at.Before(up.at) {
			i["agreementStatus"], i["agreementStatusAt"] = "inactive", word(end.at)
		}
	}
	if downs != nil {
		i["licenseDeprovisionedAt"], i["subscriptionStatus"], i["subscriptionStatusAt"] = downs, "inactive", word(first)
	}
	return i
}

// returns reports whether the license may come back to an agreement that it had left, on its way to the last one that it is told of. What it
// then knows of that agreement depends on when it was told: the first stay's knowledge went with it.
func returns(told []happening) bool {
	var way []happening
	for _, h := range told {
		if h.kind == 'U' || h.kind == 'D' {
			way = append(way, h)
		}
	}
	if len(way) == 0 {
		return false
	}
	slices.SortFunc(way, func(a, b happening) int { // until the first Updated is told, Deprovisioned names the agreement
		return strings.Compare(a.String(), b.String())
	})
	last := way[len(way)-1].agreement
	been, left := false, false
	for _, h := range way {
		if h.agreement == last && left {
			return true
		}
		been = been || h.agreement == last
		left = been && h.agreement != last
	}
	return false
}

// latest is the later of two, at equal times that of the agreement whose name comes later.
func latest(a, b happening) happening {
	if b.kind == 0 || a.at.After(b.at) || a.at.Equal(b.at) && a.agreement > b.agreement {
		return a
	}
	return b
}

// stepFault is what a single change did that none may do; empty where all is well.
func stepFault(before, after *metering.Subscriber, update bool, again func(*metering.Subscriber) (metering.Subscriber, bool)) string {
	if after == nil {
		return ""
	}
	item := after.Item()
	_, expires := item[metering.AttrDeprovisioningExpiry]
	marked := item[metering.AttrDeprovisioningFlag] == "1"
	inLastHour := after.Status == metering.LifecycleDeprovisioning
	switch {
	case marked != inLastHour || expires != inLastHour:
		return fmt.Sprintf("status %q, flag %t, expiry %t", after.Status, marked, expires)
	case !slices.Contains([]metering.LifecycleStatus{"", "active", "deprovisioning", "inactive"}, after.Status):
		return fmt.Sprintf("status %q", after.Status)
	case after.Status == "" && !(after.Updated.IsZero() && len(after.Deprovisioned) == 0):
		return "no status after an event of the license"
	case !slices.Contains([]metering.LifecycleStatus{"", "active", "inactive"}, after.AgreementStatus):
		return fmt.Sprintf("agreement status %q", after.AgreementStatus)
	case inLastHour && !after.Expiry.Equal(after.Deprovisioned[0].Add(time.Hour)):
		return fmt.Sprintf("expiry %s, deprovisioned at %s", after.Expiry, after.Deprovisioned[0])
	case !update && before != nil && inLastHour && !before.Expiry.IsZero() && after.Expiry.After(before.Expiry):
		return fmt.Sprintf("expiry moved from %s to %s", before.Expiry, after.Expiry)
	}
	if got := metering.SubscriberFromItem(item); !reflect.DeepEqual(*after, got) {
		return cmp.Diff(*after, got)
	}
	if got, changed := again(after); changed {
		return "a repeat changes it:\n" + cmp.Diff(*after, got)
	}
	return ""
}

// lives walks through every state that a life can be in when its happenings come in any order, each as often as it likes, with the finalizer
// running in between at any of the times given. What a change does depends on the state alone, so that every sequence, of any length,
// is a path of this walk.
type lives struct {
	t          *testing.T
	happenings []happening
	finalizer  []time.Time
	seen       map[string]bool
}

func (l *lives) walk(s *metering.Subscriber, told int) {
	key := fmt.Sprint(told, plain(s))
	if l.seen[key] || l.t.Failed() {
		return
	}
	l.seen[key] = true
	var set []happening
	for i, h := range l.happenings {
		if told&(1<<i) != 0 {
			set = append(set, h)
		}
	}
	want := implied(set)
	if s == nil {
		want = nil
	}
	if got := plain(then(s, finalized(clock(23, 59, 0)))); !reflect.DeepEqual(want, got) {
		l.t.Fatalf("after %v in some order (-want +got):\n%s", set, cmp.Diff(want, got))
	}
	for i, h := range l.happenings {
		next, taken := h.tell(s)
		if fault := stepFault(s, next, h.kind == 'U', h.change().Apply); fault != "" {
			l.t.Fatalf("after %v, then %v: %s", set, h, fault)
		}
		if taken {
			l.walk(next, told|1<<i)
		} else if next != s {
			l.t.Fatalf("after %v: %v changed a license of another agreement", set, h)
		}
	}
	for _, now := range l.finalizer {
		next := then(s, finalized(now))
		if fault := stepFault(s, next, false, finalized(now).Apply); fault != "" {
			l.t.Fatalf("after %v, finalized at %s: %s", set, now, fault)
		}
		l.walk(next, told)
	}
}

// weakOrders are all ways in which n event times can lie to each other, equal ones included: lists of ranks.
func weakOrders(n int) (list [][]int) {
	ranks := make([]int, n)
	for {
		highest, used := 0, map[int]bool{}
		for _, r := range ranks {
			highest, used[r] = max(highest, r), true
		}
		if len(used) == highest+1 {
			list = append(list, slices.Clone(ranks))
		}
		i := 0
		for ; i < n; i++ {
			if ranks[i]++; ranks[i] < n {
				break
			}
			ranks[i] = 0
		}
		if i == n {
			return list
		}
	}
}

// TestEveryOrderEndsTheSame: License Updated, Deprovisioned, Ended, Amended, registration and the finalizer, in every order and with any number of
// repeats, for each way in which the four event times can lie to each other (F29, F30, case 51).
func TestEveryOrderEndsTheSame(t *testing.T) {
	t.Parallel()
	states := 0
	orders := weakOrders(4)
	if len(orders) != 75 {
		t.Fatalf("%d weak orders of four, want 75", len(orders))
	}
	walked := 0
	for i := 0; i < len(orders); i += orderStep {
		ranks := orders[i]
		walked++
		l := lives{t: t, seen: map[string]bool{}, happenings: []happening{{kind: 'R'}}}
		for i, kind := range []byte("UDEA") {
			l.happenings = append(l.happenings, happening{kind, clock(12, 40*ranks[i], 0), "agmt-1"})
			l.finalizer = append(l.finalizer, clock(13, 40*i, 0)) // as the hour of that rank is over
		}
		if l.walk(nil, 0); t.Failed() {
			t.Fatalf("times of Updated, Deprovisioned, Ended, Amended: %v", ranks)
		}
		states += len(l.seen)
	}
	if states < walked*1<<5 {
		t.Errorf("%d states seen", states)
	}
}

// TestRandomLivesEndTheSame: several events of each kind, and a second agreement that takes the license over at some time; Deprovisioned of
// whichever. Where the license may return to an agreement that it had left, each step must be sound, but the end depends on the order.
func TestRandomLivesEndTheSame(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		moved := rapid.IntRange(0, 8).Draw(t, "moved")
		told := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) happening {
			slot := rapid.IntRange(0, 7).Draw(t, "slot")
			h := happening{rapid.SampledFrom([]byte("UUDDEAR")).Draw(t, "kind"), clock(12, 20*slot, 0), "agmt-1"}
			if second := rapid.IntRange(0, 5).Draw(t, "of the second"); h.kind == 'U' && slot >= moved && second > 0 || h.kind != 'U' && second > 2 {
				h.agreement = "agmt-2"
			}
			return h
		}), 1, 9).Draw(t, "happenings")

		queue := rapid.Permutation(append(told, rapid.SliceOfN(rapid.SampledFrom(told), 0, 5).Draw(t, "repeats")...)).Draw(t, "order")
		var s *metering.Subscriber
		var taken []happening
		for missed := 0; len(queue) > missed; {
			if rapid.IntRange(0, 3).Draw(t, "finalize") == 0 {
				now := clock(12, 20*rapid.IntRange(0, 11).Draw(t, "now"), 0)
				next := then(s, finalized(now))
				if fault := stepFault(s, next, false, finalized(now).Apply); fault != "" {
					t.Fatalf("finalized at %s: %s", now, fault)
				}
				s = next
			}
			h := queue[0]
			queue = queue[1:]
			next, ok := h.tell(s)
			if fault := stepFault(s, next, h.kind == 'U', h.change().Apply); fault != "" {
				t.Fatalf("%v: %s", h, fault)
			}
			if s = next; ok {
				taken, missed = append(taken, h), 0
				continue
			}
			queue, missed = append(queue, h), missed+1
		}
		if returns(taken) {
			return
		}
		want := implied(taken)
		if s == nil {
			want = nil
		}
		if diff := cmp.Diff(want, plain(then(s, finalized(clock(23, 59, 0))))); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", taken, diff)
		}
	})
}

// TestReturnToALeftAgreement: the one way in which the order tells. The license is of agmt-1, then of agmt-2, then of agmt-1 again; what was told of
// agmt-1 at first is known afterwards only if it came when the license was there to stay. The license's own status is the same.
func TestReturnToALeftAgreement(t *testing.T) {
	t.Parallel()
	first, second, back := updated(clock(12, 0, 0), "agmt-1"), updated(clock(12, 20, 0), "agmt-2"), updated(clock(12, 40, 0), "agmt-1")
	end, down := ended(clock(13, 0, 0), "agmt-1"), deprovisioned(clock(13, 0, 0), "agmt-1")
	told := []happening{{'U', clock(12, 0, 0), "agmt-1"}, {'U', clock(12, 20, 0), "agmt-2"}, {'U', clock(12, 40, 0), "agmt-1"}}
	if !returns(told) || returns(told[:2]) || returns(told[1:]) {
		t.Error("this is the return that the other tests leave out")
	}
	early, late := after(first, end, second, back, down), after(first, second, back, end, down)
	if early.AgreementStatus != metering.LifecycleActive || late.AgreementStatus != metering.LifecycleInactive || !late.AgreementEnded.Equal(clock(13, 0, 0)) {
		t.Errorf("the agreement is %s and %s", early.AgreementStatus, late.AgreementStatus)
	}
	if early.Status != metering.LifecycleDeprovisioning || early.Agreement != "agmt-1" || !early.Expiry.Equal(late.Expiry) || early.Status != late.Status {
		t.Errorf("the license:\n%s", cmp.Diff(early, late))
	}
}
