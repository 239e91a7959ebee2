package stack

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/metering"
)

// Stopped are the schedules that do not run, for their rules are missing, off or without their targets. What may not be looked at counts as running; a map and
// an error may come together.
func (s *Stack) Stopped(ctx context.Context) (map[string]desk.Stop, error) {
	all := in(s, rules(), func(r rule) where { return r.in })
	stopped := make(map[string]desk.Stop)
	found, err := sideBySide(ctx, len(all), func(ctx context.Context, i int) (broken, error) { return s.broken(ctx, all[i]) })
	for _, b := range found {
		for _, name := range starts(b.lost) {
			stopped[name] = desk.Stop{Why: b.what, Fix: b.fix}
		}
	}
	schedule, scheduleErr := s.scheduleTroubles(ctx)
	for _, f := range schedule {
		why, _, _ := strings.Cut(f.What, ": ")
		stopped[metering.FinalizeSchedule.Name] = desk.Stop{Why: why, Fix: f.Fix}
	}
	return stopped, distinct(ctx, err, scheduleErr)
}

// starts are the schedules of the pipeline that targets are.
func starts(targets []target) (names []string) {
	for _, t := range targets {
		switch t.function {
		case "submitter":
			names = append(names, metering.SubmitSchedule.Name)
		case "submission-expiry":
			names = append(names, metering.ExpireSchedule.Name)
		case "discoverer":
			var slice struct {
				Mode       string
				HourOffset int
			}
			if json.Unmarshal([]byte(t.input), &slice) != nil {
				continue
			}
			switch slice.Mode {
			case "meter":
				names = append(names, desk.MeterAt(slice.HourOffset))
			case "flush-deprovisioning":
				names = append(names, metering.FlushSchedule.Name)
			}
		}
	}
	return names
}

// off reports whether nothing of a schedule runs. Visits and sweeps are the work of many rules, which have to be off all together.
func off(stopped map[string]desk.Stop, schedule string) bool {
	if schedule != metering.MeterSchedule.Name && schedule != metering.AgeoutSchedule.Name {
		_, is := stopped[schedule]
		return is
	}
	for offset := metering.MinOffset; offset <= metering.MaxOffset; offset++ {
		if _, is := stopped[desk.MeterAt(offset)]; !is {
			return false
		}
	}
	return true
}
