//go:build !race

package simulation

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestVariantIsMadeShort: a day that a variant breaks is made a story of a few moves and faults, which breaks the same rule each time that
// it is played. The day is played a hundred times for it, so not under the race detector.
func TestVariantIsMadeShort(t *testing.T) {
	t.Parallel()
	all := variants()
	v := all[slices.IndexFunc(all, func(v variant) bool { return v.name == "F7 unconditional cleanup" })]
	d, _ := v.caught(t)
	tries := 0
	story, err := shrink(t.Context(), d.Seed, func(only *Story) (Day, error) { return v.play(t, d.Seed, only), nil }, func(int, int) { tries++ })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d moves and %d faults of %d and %d, after %d that broke it too: %v", len(story.Moves), len(story.Faults), d.moves, len(d.struck), tries, &story.Violation)
	if len(story.Moves) > 6 || len(story.Faults) > 3 {
		t.Errorf("%d moves and %d faults, want at most 6 and 3", len(story.Moves), len(story.Faults))
	}
	if diff := cmp.Diff(&story.Violation, v.play(t, d.Seed, story).Violation); diff != "" {
		t.Errorf("played again (-story +again):\n%s", diff)
	}
	if again, err := Play(d.Seed, story, nil); err != nil || again.Violation != nil {
		t.Errorf("the story breaks our own rule too: %v %v", again.Violation, err)
	}
}
