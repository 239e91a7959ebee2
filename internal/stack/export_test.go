package stack

import "slices"

// Urgency is the place of an alarm in the runbook.
func Urgency(name string) int {
	return slices.IndexFunc(alarms(), func(a alarm) bool { return a.name == name })
}
