//go:build !race

package simulation

const (
	underRace   = false
	defaultDays = 150 // how many virtual days a plain go test plays
)
