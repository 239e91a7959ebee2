package metering

import "time"

// PromoteOf is the write that lets a record which a dry run ended be sent after all, when the stage has gone live (F38), or why it may not be.
// It was never sent, so nothing of it can be billed; its sale may be by another record, which is the same question as before a
// retry: SaleTaken answers it, and a record under a customer identifier is not promoted.
func PromoteOf(r Record, rules Rules, now time.Time) (Reopen, Obstacle) {
	return reopenIf(promoteObstacle(r), r, rules, now)
}

// promoteObstacle is what the way in which a record has ended has against sending it for the first time.
func promoteObstacle(r Record) Obstacle {
	switch o := statusObstacle(r); {
	case o == "":
		return ObstacleRefused
	case o != ObstacleDryRun:
		return o
	case LegacyLicense(r.License):
		return ObstacleLegacy
	}
	return ""
}
