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
	if len(s) == len(hourLayout) {
		if n, ok := parseTime(s, ":00:00"); ok {
			return n.Hour(), nil
		}
	}
	return 0, fmt.Errorf("read hour %q: want YYYY-MM-DDTHH in UTC, as in 2026-03-10T14", s)
}

// Start is the first instant of the hour.
func (h Hour) Start() time.Time { return time.Unix(int64(h)*secondsPerHour, 0).UTC() }

// Second is the second that lies offset seconds after the hour's start.
func (h Hour) Second(offset int) Second { return Second(h)*secondsPerHour + Second(offset) }

// End is the first instant after the hour.
func (h Hour) End() time.Time { return (h + 1).Start() }

// String writes the bucket as YYYY-MM-DDTHH.
func (h Hour) String() string { return formatTime(h.Start(), hourLayout) }

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
	if len(s) == len(secondLayout) {
		if n, ok := parseTime(s, ""); ok {
			return n, nil
		}
	}
	return 0, fmt.Errorf("read timestamp %q: want YYYY-MM-DDTHH:MM:SS in UTC, whole seconds, no zone", s)
}

// Hour is the hour that the second falls into.
func (s Second) Hour() Hour {
	h := s / secondsPerHour
	if s%secondsPerHour < 0 { // before 1970: round down, not towards zero
		h--
	}
	return Hour(h)
}

// FoldedInto is the second of the row that usage of s is folded into, where a stretch of so many seconds becomes one row: the last of
// its stretch.
func (s Second) FoldedInto(stretch Second) Second {
	into := s % stretch
	if into < 0 { // before 1970
		into += stretch
	}
	return s - into + stretch - 1
}

// Time is the second as an instant.
func (s Second) Time() time.Time { return time.Unix(int64(s), 0).UTC() }

// String writes the second as YYYY-MM-DDTHH:MM:SS.
func (s Second) String() string { return formatTime(s.Time(), secondLayout) }

// parseTime reads head and tail together as a time in secondLayout, exactly: what time.Parse forgives (one-digit hours, fractions
// after the seconds) would make a key that does not read back as written, and so name one group and be found under another. A row
// is read and written by its time many times over, hence the plain arithmetic.
func parseTime(head, tail string) (Second, bool) {
	var text [len(secondLayout)]byte
	copy(text[copy(text[:], head):], tail)
	for i, c := range []byte(secondLayout) {
		if digit := '0' <= c && c <= '9'; digit && (text[i] < '0' || text[i] > '9') || !digit && text[i] != c {
			return 0, false
		}
	}
	two := func(i int) int { return int(text[i]-'0')*10 + int(text[i+1]-'0') }
	year, month, day, hour, minute, second := two(0)*100+two(2), two(5), two(8), two(11), two(14), two(17)
	if month < 1 || month > 12 || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	t := time.Date(year, time.Month(month), day, hour, minute, second, 0, time.UTC)
	return Second(t.Unix()), t.Day() == day // a 31st of April would be the 1st of May
}

// formatTime writes t in one of the two layouts.
func formatTime(t time.Time, layout string) string {
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return t.Format(layout)
	}
	hour, minute, second := t.Clock()
	var text [len(secondLayout)]byte
	copy(text[:], secondLayout)
	two := func(i, n int) { text[i], text[i+1] = byte('0'+n/10), byte('0'+n%10) }
	two(0, year/100)
	two(2, year%100)
	two(5, int(month))
	two(8, day)
	two(11, hour)
	two(14, minute)
	two(17, second)
	return string(text[:len(layout)])
}
