package verify

import "github.com/awsmp/metering/internal/metering"

// OldestZeros is the hour of zeros that a run tries which begins now.
func OldestZeros(s Settings) metering.Hour {
	h, _, _ := newPlan(s, s.Now()).oldestZeros()
	return h
}
