//go:build !race

package node_test

// departures are how many licenses TestLastHourOfMany has leave at once, and everyMinute is the step of TestLastHourAtEveryMinute.
var departures = []int{1, 100, 1000}

const everyMinute = 1
