//go:build race

package simulation

// quickVariants: the race detector makes a day ten times slower, and what it looks for is the same in every variant: those that are caught
// within a few days are played.
const quickVariants = true
