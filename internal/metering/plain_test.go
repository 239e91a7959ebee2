package metering

import (
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The three hottest paths are plain loops. Each is held against the library's way of saying the same.

func TestTimesAreThoseOfTheLibrary(t *testing.T) {
	t.Parallel()
	strict := func(layout, s string) (time.Time, bool) {
		at, err := time.Parse(layout, s)
		return at, err == nil && at.Format(layout) == s
	}
	check := func(t interface{ Errorf(string, ...any) }, s string) {
		want, ok := strict(secondLayout, s)
		if got, err := ParseSecond(s); (err == nil) != ok || ok && got != Second(want.Unix()) {
			t.Errorf("ParseSecond(%q) = %d, %v; the library says %v, %v", s, got, err, want, ok)
		}
		want, ok = strict(hourLayout, s)
		if got, err := ParseHour(s); (err == nil) != ok || ok && got != HourOf(want) {
			t.Errorf("ParseHour(%q) = %d, %v; the library says %v, %v", s, got, err, want, ok)
		}
	}
	for _, s := range []string{
		"", "2026-02-29T00", "2024-02-29T23", "2024-02-30T00", "2026-04-31T10:00:00", "2026-12-31T23:59:59", "2026-12-31T24:00:00", "2026-12-31T23:60:00",
		"2026-12-31T23:59:60", "2026-13-01T00:00:00", "2026-00-01T00:00:00", "2026-01-00T00:00:00", "0000-01-01T00:00:00", "9999-12-31T23:59:59",
		"2026-03-10 14:00:00", "2026-03-10T14:00:00Z", "2026-03-10T14:00:00.5", "2026-3-10T14:00:00", "２026-03-10T14", "2026-03-10T1４",
	} {
		check(t, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-70_000_000_000, 260_000_000_000).Draw(t, "second"), 0).UTC()
		if got := Second(at.Unix()).String(); got != at.Format(secondLayout) {
			t.Errorf("second %d is written %q, the library writes %q", at.Unix(), got, at.Format(secondLayout))
		}
		if got := HourOf(at).String(); got != at.Format(hourLayout) {
			t.Errorf("its hour is written %q, the library writes %q", got, at.Format(hourLayout))
		}
		text := []byte(at.Format(secondLayout))
		if rapid.Bool().Draw(t, "spoiled") {
			text[rapid.IntRange(0, len(text)-1).Draw(t, "at")] = rapid.SampledFrom([]byte("0123456789-:T. ")).Draw(t, "by")
		}
		check(t, string(text))
		check(t, string(text[:len(hourLayout)]))
	})
}

func TestLicensesAreThoseOfThePattern(t *testing.T) {
	t.Parallel()
	pattern := regexp.MustCompile(`^arn:aws[a-zA-Z-]*:[A-Za-z0-9][A-Za-z0-9_/.-]{0,62}:[A-Za-z0-9_/.-]{0,63}:[A-Za-z0-9_/.-]{0,63}:([A-Za-z0-9][A-Za-z0-9:_/+=,@.-]*)$`)
	rapid.Check(t, func(t *rapid.T) {
		part := func(name string, most int) string {
			return rapid.StringOfN(rapid.SampledFrom([]rune("aZ09-_/.:+=,@ é")), 0, most, -1).Draw(t, name)
		}
		plain := rapid.Bool().Draw(t, "plain")
		arn := "arn:aws:license-manager:us-east-1:111122223333:license:l-0123"
		if !plain {
			arn = fmt.Sprintf("arn:aws%s:%s:%s:%s:%s", part("partition", 2), part("service", 2)+strings.Repeat("a", rapid.IntRange(60, 64).Draw(t, "length")), part("region", 3), part("account", 3), part("resource", 4))
		}
		if i := rapid.IntRange(0, len(arn)).Draw(t, "cut"); rapid.IntRange(0, 3).Draw(t, "whole") == 0 {
			arn = arn[:i]
		}
		if got, want := ValidLicense(arn), pattern.MatchString(arn); got != want {
			t.Errorf("%q: %v, the pattern says %v", arn, got, want)
		}
	})
	long := "arn:aws:license-manager:::" + strings.Repeat("l", 1024)
	if !ValidLicense(long) || ValidLicense(long+"l") {
		t.Error("the resource of an ARN may have 1,024 characters and no more")
	}
}

func TestFingerprintIsFNV(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		hash, f := fnv.New64a(), newFingerprint()
		for _, s := range rapid.SliceOf(rapid.String()).Draw(t, "texts") {
			fmt.Fprintf(hash, "%d:%s", len(s), s)
			f.write(s)
		}
		if want := fmt.Sprintf("%x", hash.Sum64()); f.String() != want {
			t.Errorf("fingerprint %s, want %s", f, want)
		}
	})
}
