//go:build race

package lifecycle_test

// The race detector makes an order some five times slower, and nothing in it runs beside anything else: some orders of each way, and each
// tenth set, go through all that it looks at. Without it all are tried.
const (
	spread  = 240
	setStep = 10
)
