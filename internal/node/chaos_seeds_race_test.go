//go:build race

package node_test

// The race detector makes a day some ten times slower; the days are the same, so it looks at fewer.
const defaultSeeds = 30
