// Package importer takes files of usage into a store, each line once, however often its file is imported.
//
// A file is read twice. The first pass makes its name, the SHA-256 of all its bytes; a stream is spooled to disk on the way. The
// second pass cuts it into chunks, whose limits depend on its content alone, and hands each to the writer as one batch under the
// name of the file and the number of the chunk. So a run that follows another, complete or broken off at any point, sends
// the same batches again, and what was added before is not added twice. No state is kept for that but the rows' own tokens.
//
// Every line has one fate: taken; late, which is taken too, but its hour was committed before; or refused, with a reason.
package importer
