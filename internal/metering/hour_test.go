package metering

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// instant reads an RFC 3339 instant, with a fraction where a boundary needs one.
func instant(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t
}

// hour reads a bucket.
func hour(s string) Hour {
	h, err := ParseHour(s)
	if err != nil {
		panic(err)
	}
	return h
}

func TestHourOfIsHalfOpen(t *testing.T) { // case 21
	t.Parallel()
	for _, tt := range []struct{ at, want string }{
		{"2026-03-10T13:00:00Z", "2026-03-10T13"},
		{"2026-03-10T13:59:59Z", "2026-03-10T13"},
		{"2026-03-10T13:59:59.999999999Z", "2026-03-10T13"},
		{"2026-03-10T14:00:00Z", "2026-03-10T14"},
		{"2026-03-10T14:00:00.000000001Z", "2026-03-10T14"},
		{"2026-03-10T15:00:00+01:00", "2026-03-10T14"}, // the instant counts, not the wall of a zone
		{"2026-03-10T20:15:00+05:45", "2026-03-10T14"},
		{"1970-01-01T00:00:00Z", "1970-01-01T00"},
		{"1969-12-31T23:59:59.999999999Z", "1969-12-31T23"},
		{"1969-12-31T23:00:00Z", "1969-12-31T23"},
		{"1969-12-31T22:59:59Z", "1969-12-31T22"},
	} {
		h := HourOf(instant(tt.at))
		if h.String() != tt.want {
			t.Errorf("HourOf(%s) = %s, want %s", tt.at, h, tt.want)
		}
		if at := instant(tt.at); at.Before(h.Start()) || !at.Before(h.End()) {
			t.Errorf("%s lies outside [%v, %v)", tt.at, h.Start(), h.End())
		}
	}
}

func TestHourOfEveryInstant(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-4e9, 8e9).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		h := HourOf(at)
		if at.Before(h.Start()) || !at.Before(h.End()) || h.End().Sub(h.Start()) != time.Hour {
			t.Fatalf("%v is not in [%v, %v)", at, h.Start(), h.End())
		}
		if back, err := ParseHour(h.String()); err != nil || back != h {
			t.Fatalf("ParseHour(%s) = %v, %v", h, back, err)
		}
		s := Second(at.Unix())
		if back, err := ParseSecond(s.String()); err != nil || back != s || s.Hour() != h {
			t.Fatalf("ParseSecond(%s) = %v, %v in hour %v", s, back, err, s.Hour())
		}
		if h.Offset(at) != 0 || (h-3).Offset(at) != 3 || (h+2).Offset(at) != -2 {
			t.Fatalf("offsets around %v: %d %d %d", at, h.Offset(at), (h - 3).Offset(at), (h + 2).Offset(at))
		}
	})
}

func TestParseHourIsStrict(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "2026-03-10", "2026-03-10T", "2026-03-10T4", "2026-03-10t14", "2026-03-10 14", "2026-03-10T14Z",
		"2026-03-10T14:00", "2026-3-10T14", "2026-03-10T24", "2026-02-29T00", "2026-13-01T00", "2026-00-10T00",
		" 2026-03-10T14", "2026-03-10T14\n", "26-03-10T14", "+2026-03-10T14", "2026-03-10T-1",
		"2026-03-10T14.5", "２026-03-10T14",
	} {
		if h, err := ParseHour(s); err == nil {
			t.Errorf("ParseHour(%q) = %v, want an error", s, h)
		}
	}
	for _, s := range []string{"2026-03-10T14", "2028-02-29T00", "1969-12-31T23", "9999-12-31T23"} {
		if h, err := ParseHour(s); err != nil || h.String() != s {
			t.Errorf("ParseHour(%q) = %v, %v", s, h, err)
		}
	}
}

func TestParseSecondIsStrict(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "2026-03-10T14", "2026-03-10T14:00", "2026-03-10T14:00:0", "2026-03-10T4:00:00", "2026-03-10T14:00:60",
		"2026-03-10T14:60:00", "2026-03-10T24:00:00", "2026-03-10T14:00:00Z", "2026-03-10T14:00:00+00:00",
		"2026-03-10T14:00:00.0", "2026-03-10T14:00:00.5", "2026-03-10T14:00:00,5", "2026-03-10 14:00:00",
		"2026-02-29T00:00:00", "2026-04-31T00:00:00", "2026-03-10T14:00:00 ",
	} {
		if sec, err := ParseSecond(s); err == nil {
			t.Errorf("ParseSecond(%q) = %v, want an error", s, sec)
		}
	}
	s, err := ParseSecond("2026-03-10T14:07:09")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(instant("2026-03-10T14:07:09Z"), s.Time()); diff != "" {
		t.Error(diff)
	}
}

func TestSecondsBefore1970(t *testing.T) {
	t.Parallel()
	for s, want := range map[Second]Hour{
		-1: -1, -3599: -1, -3600: -1, -3601: -2, -7200: -2, -7201: -3, 0: 0, 3599: 0, 3600: 1,
	} {
		if got := s.Hour(); got != want {
			t.Errorf("Second(%d).Hour() = %d, want %d", int64(s), int64(got), int64(want))
		}
	}
}

func TestFoldedInto(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		at, want string
		stretch  Second
	}{
		{"2026-03-10T14:05:00", "2026-03-10T14:05:59", 60},
		{"2026-03-10T14:05:59", "2026-03-10T14:05:59", 60},
		{"2026-03-10T14:06:00", "2026-03-10T14:06:59", 60},
		{"2026-03-10T14:59:59", "2026-03-10T14:59:59", 300},
		{"2026-03-10T14:05:07", "2026-03-10T14:05:07", 1},
		{"1969-12-31T23:58:30", "1969-12-31T23:58:59", 60},
	} {
		at, err := ParseSecond(tt.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := at.FoldedInto(tt.stretch).String(); got != tt.want {
			t.Errorf("%s in stretches of %d s: %s, want %s", tt.at, tt.stretch, got, tt.want)
		}
	}
}
