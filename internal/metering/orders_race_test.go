//go:build race

package metering_test

// orderStep: the race detector makes a walk some three times slower, and nothing runs beside it: each tenth goes all ways of the code.
const orderStep = 10
