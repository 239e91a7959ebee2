//go:build race

package usage_test

// The race detector makes a day some ten times slower.
const parts = 2
