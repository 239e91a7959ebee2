package simulation

import (
	"slices"
	"testing"
	"time"
)

// variant is a world in which one rule is another's, one that is known to lose, double or hide usage. A checker that did not catch it
// would be worth nothing.
type variant struct {
	name   string // begins with the scenario
	does   string
	change func(*world)
	rules  []string // by which it may be caught
	// when, where set, tells the days on which it can show at all.
	when func(plan) bool
	// beside, where set, adds to the day what seeds seldom draw. It alone breaks nothing.
	beside func(*world)
	// slow ones take more than the first day, and are not played under the race detector: what it looks for is the same in every variant.
	slow bool
}

// mostDays is within how many days a variant must be caught.
const mostDays = 60

// TestVariantsAreCaught plays each variant, seed after seed from 1 on, until the checker sees it.
func TestVariantsAreCaught(t *testing.T) {
	t.Parallel()
	for _, v := range variants() {
		if underRace && v.slow {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			d, played := v.caught(t)
			if d.Violation == nil {
				t.Fatalf("%s, and nothing is seen of it in %.0f days", v.does, played)
			}
			t.Logf("%s: caught with seed %d after %.1f days: %v", v.does, d.Seed, played, d.Violation)
			if !slices.Contains(v.rules, d.Violation.Rule) {
				t.Errorf("caught by %q, want one of %q", d.Violation.Rule, v.rules)
			}
		})
	}
}

// TestVariantsBeside plays what variants add to their days with our own rules, which hold.
func TestVariantsBeside(t *testing.T) {
	t.Parallel()
	for _, v := range variants() {
		if v.beside == nil || underRace {
			continue
		}
		v.change = func(*world) {}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 6; seed++ {
				if d := v.play(t, seed, nil); d.Violation != nil {
					t.Errorf("seed %d: %v", seed, d.Violation)
				}
			}
		})
	}
}

// caught plays day after day until one breaks the law, and returns that and how many virtual days it took.
func (v variant) caught(t *testing.T) (d Day, days float64) {
	for seed, played := uint64(1), 0; played < mostDays && d.Violation == nil; seed++ {
		if v.when == nil || v.when(draw(seed)) {
			d = v.play(t, seed, nil)
			days += d.Days
			played++
		}
	}
	return d, days
}

// play plays the day of a seed, or with a story what that names of it, by the variant's rule.
func (v variant) play(t *testing.T, seed uint64, only *Story) Day {
	t.Helper()
	w, err := newWorld(seed, only, nil)
	if err != nil {
		t.Fatal(err)
	}
	if v.beside != nil {
		v.beside(w)
	}
	v.change(w)
	return w.day()
}

// stormy reports whether much goes wrong on a day.
func stormy(p plan) bool { return p.weather.fail > 0.02 }

// monthEnds reports whether a day's usage lives to the end of its month.
func monthEnds(p plan) bool { return p.start.Month() != p.start.Add(24*time.Hour).Month() }
