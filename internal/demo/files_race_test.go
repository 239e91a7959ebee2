//go:build race

package demo_test

// The race detector makes a day some ten times slower.
const files = "10"
