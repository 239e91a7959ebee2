package modelcheck

import (
	"flag"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var deep = flag.Bool("deep", false, "explore the large scenarios too: some 40 million states, in minutes and 2 GB")

// fates are some of the ends that a scenario comes to: a world in which nothing can happen keeps every law. What is in flight then would
// end at the next visit, which is played from there.
func fates() map[string][]string {
	return map[string][]string{
		"everyone": {"billed 12", "billed 5, late 7", "billed 9, late 3", "billed 5, late 3, inFlight 4", "expired 12", "inDoubt 12", "late 7, inDoubt 5", "late 4, expired 3, inFlight 5"},
		"library":  {"billed 12", "billed 5", "billed 9", "billed 5, late 4", "billed 5, late 7"},
		"clock":    {"billed 8", "billed 5, late 3", "expired 3, inFlight 5", "late 3, inDoubt 5"},
		"fault":    {"billed 8", "billed 5, late 3", "expired 8", "inDoubt 8", "inFlight 8"},
		"loss":     {"billed 5", "expired 5", "inDoubt 5", "inFlight 5"},
		"twice":    {"billed 8", "billed 5, late 3"},
		"lag":      {"billed 8", "billed 5, late 3", "inDoubt 8"},
		"deleted":  {"billed 4", "billed 9", "expired 4", "expired 9", "inDoubt 9"},
		"replaced": {"billed 9", "billed 5, late 4", "expired 9", "inDoubt 9"},
		"rejected": {"billed 9", "rejected 5, expired 4", "expired 9"},
		"zero":     {"billed 4", "billed 0, late 4", "expired 4"},
		"legacy":   {"billed 5", "expired 5", "inDoubt 5"},
	}
}

// TestEveryCourseKeepsTheLaw explores whole scenarios. The large ones are asked for:
//
//	go test ./internal/modelcheck -run TestEveryCourse -v -timeout 30m -args -deep
func TestEveryCourseKeepsTheLaw(t *testing.T) {
	t.Parallel()
	for _, s := range explored() {
		t.Run(s.Name, func(t *testing.T) {
			if !*deep { // else one at a time: each fills the memory by itself
				t.Parallel()
			}
			r := explore(t, s)
			want, small := fates()[s.Name]
			if !small && !*deep {
				t.Errorf("nobody has said what it comes to: %q", r.Fates)
			}
			for _, f := range want {
				if !slices.Contains(r.Fates, f) {
					t.Errorf("it never comes to %q, but to %q", f, r.Fates)
				}
			}
		})
	}
}

// explored are the scenarios of this run. The race detector sees those alone in which every role and every kind of step has its turn: it
// makes each state ten times as dear.
func explored() []Scenario {
	switch {
	case *deep:
		return Deep()
	case underRace:
		return slices.DeleteFunc(Scenarios(), func(s Scenario) bool { return !slices.Contains(smallest(), s.Name) })
	}
	return Scenarios()
}

// smallest are the scenarios for the race detector.
func smallest() []string { return []string{"loss", "twice", "replaced", "rejected", "legacy"} }

func explore(t *testing.T, s Scenario) Result {
	t.Helper()
	r, err := Explore(t.Context(), s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	if r.Breach != nil {
		t.Fatalf("the law is broken:\n%v", r.Breach)
	}
	return r
}

// TestNothingIsLeftOut: what is not explored, because it leads nowhere else, leads nowhere else.
func TestNothingIsLeftOut(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"twice", "legacy", "rejected"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := scenario(t, name)
			reduced := explore(t, s)
			s.whole = true
			whole := explore(t, s)
			if whole.States <= reduced.States {
				t.Errorf("nothing was left out of %d states: the comparison says nothing", whole.States)
			}
			type ends struct {
				Finals, Outcomes, Settled, Contents int
				Fates                               []string
			}
			of := func(r Result) ends { return ends{r.Finals, r.Outcomes, r.Settled, r.Contents, r.Fates} }
			if diff := cmp.Diff(of(whole), of(reduced)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTheSameEveryTime: an exploration depends on its scenario alone.
func TestTheSameEveryTime(t *testing.T) {
	t.Parallel()
	a, b := explore(t, scenario(t, "loss")), explore(t, scenario(t, "loss"))
	a.Elapsed = b.Elapsed
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
}
