package lambdahost

import (
	"fmt"
	"testing"
	"time"
)

// Drain waits until nothing is left for mappings to do, and fails the test if something still is when patience is over. Left says what their
// queues hold, messages under way included, and nothing where they hold none; it looks first into queues whose messages fill others. One look
// is not enough: what is visible and what is under way are counted one after the other, and a message whose time runs out in between is in
// neither number. An empty receive in between tells.
func Drain(t testing.TB, patience time.Duration, left func() string, mappings ...*Mapping) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		problem := left()
		for _, m := range mappings {
			if problem != "" {
				break
			}
			before := m.Tally().Empty
			for problem = "no empty receive"; problem != "" && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
				if m.Tally().Empty > before+m.pollers { // as many may have begun before
					problem = ""
				}
			}
			if problem != "" {
				problem = fmt.Sprintf("no empty receive: %+v", m.Tally())
			}
		}
		if problem == "" {
			if problem = left(); problem == "" {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("messages are left after %v: %s", patience, problem)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
