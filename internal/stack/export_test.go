package stack

import "slices"

// Urgent is how many alarms there are.
func Urgent() int { return len(alarms()) }

// Urgency is the place of an alarm in the runbook.
func Urgency(name string) int {
	return slices.IndexFunc(alarms(), func(a alarm) bool { return a.name == name })
}
