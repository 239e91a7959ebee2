//go:build race

package simulation

// The race detector slows a virtual day down tenfold, and nothing in a world runs beside anything else: what it looks for is worlds that
// share something, which a few days show.
const (
	underRace   = true
	defaultDays = 6 // how many virtual days are played
)
