//go:build race

package node_test

// The race detector makes an hour some ten times slower. Ten licenses go the same ways as a thousand, and all minutes of five
// are alike but for the first.
var departures = []int{1, 10}

const (
	ordinary    = 30
	everyMinute = 20
)
