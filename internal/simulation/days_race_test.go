//go:build race

package simulation

// defaultDays is how many virtual days are played under the race detector, which slows them down tenfold. Nothing in a world runs beside
// anything else: what it looks for is worlds that share something.
const defaultDays = 12
