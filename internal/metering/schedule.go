package metering

import "time"

// Schedule is a stage's timetable: every Every, Phase after the full hour. The phases give an hour five
// minutes to settle and let each stage find what the one before it has left.
type Schedule struct {
	Name         string
	Every, Phase time.Duration
}

// The timetable, the same on AWS, on one machine and in the tests.
var (
	MeterSchedule    = Schedule{"meter", 15 * time.Minute, 5 * time.Minute}
	AgeoutSchedule   = Schedule{"ageout", 15 * time.Minute, 5 * time.Minute}
	FlushSchedule    = Schedule{"flush-deprovisioning", 5 * time.Minute, time.Minute}
	SubmitSchedule   = Schedule{"submit", 5 * time.Minute, 3 * time.Minute}
	ExpireSchedule   = Schedule{"expire", 5 * time.Minute, 3 * time.Minute}
	FinalizeSchedule = Schedule{"finalize", 15 * time.Minute, 7 * time.Minute}
)

// Next is the first run after t.
func (s Schedule) Next(t time.Time) time.Time {
	base := t.UTC().Truncate(time.Hour).Add(s.Phase)
	for !base.After(t) {
		base = base.Add(s.Every)
	}
	// A phase never exceeds the period, so a run of the hour before cannot lie after t.
	return base
}
