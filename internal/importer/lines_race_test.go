//go:build race

package importer

// The race detector makes a line some ten times slower. With a tenth of the lines, of the time that they are spread over and less of a chunk, an
// import holds no larger a part of its file.
const (
	manyLines  = 100_000
	smallChunk = chunkLines / 20
	spreadOver = 3 * 360
	disturbed  = 120
)
