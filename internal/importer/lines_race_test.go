//go:build race

package importer

// The race detector makes a line some ten times slower.
const manyLines = 700_000
