package simulation

import (
	"flag"
	"fmt"
	"hash/fnv"

	"slices"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
)

var (
	proofDays = flag.Float64("days", defaultDays, "how many virtual days TestProof plays")
	firstSeed = flag.Uint64("seed", 1, "the seed of its first day")
)

// TestProof plays days in which everything goes wrong that can, and holds the books against the law after every event. Days that never
// reached a place or met a kind of fault would prove nothing about it.
func TestProof(t *testing.T) {
	t.Parallel()
	started := time.Now()
	r, err := Prove(t.Context(), Options{Days: *proofDays, Seed: *firstSeed, Progress: func(r Result) {
		if since := time.Since(started); since > 30*time.Second {
			started = started.Add(since)
			t.Log(r.Summary())
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r.Summary())
	for _, v := range r.Violated {
		t.Errorf("seed %d: %s: %s; see it: go run ./cmd/awsmp prove --days 1 --seed %d", v.Seed, v.Violation.Rule, v.Violation.What, v.Seed)
	}
	if r.Days < 100 {
		return
	}
	for _, kind := range FaultKinds() {
		if r.Faults[kind] == 0 {
			t.Errorf("in %.0f days there was no fault of this kind: %s", r.Days, kind)
		}
	}
	for _, p := range ledger.Places() {
		if r.Books.Place(p).Units == 0 && p != ledger.InFlight {
			t.Errorf("in %.0f days no unit was %s", r.Days, p)
		}
	}
}

// TestReplaysExactly: the same seed is the same day, line by line, or a broken one could not be looked at again.
func TestReplaysExactly(t *testing.T) {
	t.Parallel()
	seeds := uint64(4)
	if underRace {
		seeds = 1
	}
	for seed := *firstSeed; seed < *firstSeed+seeds; seed++ {
		var traces [2]uint64
		var last [2]Day
		for i := range traces {
			h := fnv.New64a()
			var err error
			if last[i], err = Play(seed, nil, func(l Line) { fmt.Fprintln(h, l) }); err != nil {
				t.Fatal(err)
			}
			traces[i] = h.Sum64()
		}
		if traces[0] != traces[1] || last[0].Events != last[1].Events || last[0].Days != last[1].Days {
			t.Errorf("seed %d took two different courses", seed)
		}
	}
}

// TestPartsMakeTheDay: a day that is played by the names of all its moves and faults is the day itself.
func TestPartsMakeTheDay(t *testing.T) {
	t.Parallel()
	whole, err := Play(*firstSeed, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	story := &Story{Seed: *firstSeed, Faults: whole.struck}
	for i := range whole.moves {
		story.Moves = append(story.Moves, i)
	}
	parts, err := Play(*firstSeed, story, nil)
	if err != nil {
		t.Fatal(err)
	}
	if parts.Events != whole.Events || parts.Days != whole.Days || !slices.Equal(parts.struck, whole.struck) {
		t.Errorf("played by its parts the day has %d events and %d faults, not %d and %d", parts.Events, len(parts.struck), whole.Events, len(whole.struck))
	}
}

// TestPlansAreBroad: the days of many seeds hold what a proof is for.
func TestPlansAreBroad(t *testing.T) {
	t.Parallel()
	met := make(map[string]bool)
	for seed := range uint64(100) {
		p := draw(seed)
		met[p.start.Format("01-02")] = true
		met[fmt.Sprint("lock ", p.rules.LockHours)] = true
		met[fmt.Sprint("dry run ", !p.dryRun.IsZero())] = true
		met[fmt.Sprint("throttled ", len(p.weather.throttled) > 0)] = true
		for _, m := range p.moves {
			met[m.who] = true
		}
		if !slices.IsSortedFunc(p.moves, func(a, b move) int { return a.at.Compare(b.at) }) {
			t.Fatalf("the moves of seed %d are not in order", seed)
		}
	}
	for _, want := range []string{
		"03-31", "12-31", "02-28", "02-29", "lock 1", "lock 20", "dry run true", "dry run false", "throttled true", "operator", "EventBridge", "Marketplace",
	} {
		if !met[want] {
			t.Errorf("no plan has %q", want)
		}
	}
}
