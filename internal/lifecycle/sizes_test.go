//go:build !race

package lifecycle_test

const (
	spread  = 24 // each way in which the times can lie meets one order of so many
	setStep = 1  // all sets of events are told
)
