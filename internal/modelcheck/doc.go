// Package modelcheck explores every course that a small world of the real stages can take: not some interleavings, drawn at random, but
// all of them. The code that runs is that of the pipeline, the writer library, the Marketplace client and its simulator; only who takes
// the next step is decided here.
//
// A process is one run of a stage: a scheduled one, or one delivery of a message. Each of its effects (a read of the record, a page of
// rows, an index query, a conditional write, a send, a call to the Marketplace) is one step, and between two steps of one process any other
// process may take any number of steps. So may the clock: nothing is assumed about how long a process takes. A stage's own code between
// two effects takes no time; it sees the clock once, and where Scenario.Clockwise is set that look is a step of its own, so that time may
// pass between an effect and the look that follows it.
//
// What a stage does next is a function of the answers that it has got so far. So the real code is run once for each sequence of answers,
// and what the tables or the Marketplace answer is computed once for each content of theirs; both are remembered. A state of the world is
// then a handful of numbers, and a step costs about a microsecond, whatever the depth. States are visited in the order of their
// distance from the start, so a course that breaks the law is told as the shortest story that does (among those in which a process whose
// last step is to send takes it at once: the others lead to the same worlds and are left out).
package modelcheck
