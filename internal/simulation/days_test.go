//go:build !race

package simulation

// defaultDays is how many virtual days a plain go test plays.
const defaultDays = 150
