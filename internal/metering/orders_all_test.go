//go:build !race

package metering_test

// orderStep: all ways in which the event times can lie to each other are walked.
const orderStep = 1
