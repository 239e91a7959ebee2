package metering

import (
	"fmt"
	"time"
)

const (
	hourLayout   = "2006-01-02T15"
	secondLayout = "2006-01-02T15:04:05"

	// secondsPerHour bounds a group: one row a second, so at most 3,600 rows.
	secondsPerHour = 3600
)

// Hour is a UTC hour bucket, counted in whole hours since the Unix epoch. It names the half-open
// interval [Start, End): 13:59:59 belongs to hour 13 and 14:00:00 to hour 14.
type Hour int64

// HourOf returns the hour that t falls into.
func HourOf(t time.Time) Hour { return Second(t.Unix()).Hour() }

// ParseHour reads a bucket written as YYYY-MM-DDTHH, and nothing else.
func ParseHour(s string) (Hour, error) {
	t, err := parseStrict(hourLayout, s)
	if err != nil {
		return 0, fmt.Errorf("read hour %q: want YYYY-MM-DDTHH in UTC, as in 2026-03-10T14", s)
	}
	return HourOf(t), nil
}

// Start is the first instant of the hour.
func (h Hour) Start() time.Time { return time.Unix(int64(h)*secondsPerHour, 0).UTC() }

// Second is the second that lies offset seconds after the hour's start.
func (h Hour) Second(offset int) Second { return Second(h)*secondsPerHour + Second(offset) }

// End is the first instant after the hour.
func (h Hour) End() time.Time { return (h + 1).Start() }

// String writes the bucket as YYYY-MM-DDTHH.
func (h Hour) String() string { return h.Start().Format(hourLayout) }

// Offset is how many hours h lies before the hour of now: 0 for the hour in progress, negative for
// hours that have not begun.
func (h Hour) Offset(now time.Time) int { return int(HourOf(now) - h) }

// nextMonth is the first instant of the month after the one that h starts in.
func (h Hour) nextMonth() time.Time {
	t := h.Start()
	return time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC)
}

// Second is a whole UTC second, counted since the Unix epoch: the precision of a usage row.
type Second int64

// ParseSecond reads a timestamp written as YYYY-MM-DDTHH:MM:SS, and nothing else: no zone, no fraction.
func ParseSecond(s string) (Second, error) {
	t, err := parseStrict(secondLayout, s)
	if err != nil {
		return 0, fmt.Errorf("read timestamp %q: want YYYY-MM-DDTHH:MM:SS in UTC, whole seconds, no zone", s)
	}
	return Second(t.Unix()), nil
}

// Hour is the hour that the second falls into.
func (s Second) Hour() Hour {
	h := s / secondsPerHour
	if s%secondsPerHour < 0 { // before 1970: round down, not towards zero
		h--
	}
	return Hour(h)
}

// Time is the second as an instant.
func (s Second) Time() time.Time { return time.Unix(int64(s), 0).UTC() }

// String writes the second as YYYY-MM-DDTHH:MM:SS.
func (s Second) String() string { return s.Time().Format(secondLayout) }

// parseStrict refuses what time.Parse forgives (one-digit hours, fractions after the seconds): a key
// that does not read back as written would name one group and be found under another.
func parseStrict(layout, s string) (time.Time, error) {
	t, err := time.Parse(layout, s)
	if err != nil {
		return time.Time{}, err
	}
	if t.Format(layout) != s {
		return time.Time{}, fmt.Errorf("%q is not in canonical form", s)
	}
	return t, nil
}
