//go:build race

package tablecopy_test

// The race detector makes a row some ten times slower.
const fewGroups, manyGroups = 50, 250
