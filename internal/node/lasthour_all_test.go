//go:build !race

package node_test

// departures are how many licenses TestLastHourOfMany has leave at once, beside so many ordinary ones, and everyMinute is the step of
// TestLastHourAtEveryMinute.
var departures = []int{1, 100, 1000}

const (
	ordinary    = 100
	everyMinute = 1
)
