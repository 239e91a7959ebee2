//go:build !race

package importer

const (
	manyLines  = 1_000_000
	smallChunk = 0 // what an import takes by itself
	spreadOver = 3 * 3600
	disturbed  = 300
)
