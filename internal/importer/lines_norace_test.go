//go:build !race

package importer

const manyLines = 1_000_000
