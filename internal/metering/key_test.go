package metering

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	licenseA = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	licenseB = "arn:aws:license-manager::111122223333:license:l-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	buyer    = "111122223333"
)

// groupH is the group that most tests speak of.
func groupH() Group {
	return Group{License: licenseA, Account: buyer, Dimension: "api_calls", Hour: hour("2026-03-10T14")}
}

func TestParseRowKey(t *testing.T) {
	t.Parallel()
	at := second("2026-03-10T14:00:05")
	for _, tt := range []struct {
		key    string
		want   RowKey
		reason Reason
	}{
		{"111122223333#api_calls#2026-03-10T14:00:05", RowKey{buyer, "api_calls", at}, ""},
		{"111122223333#a#b#2026-03-10T14:00:05", RowKey{buyer, "a#b", at}, ""},
		{"111122223333###2026-03-10T14:00:05", RowKey{buyer, "#", at}, ""},
		{"111122223333#api#2026-03-10T14#2026-03-10T14:00:05", RowKey{buyer, "api#2026-03-10T14", at}, ""},
		{"##2026-03-10T14:00:05", RowKey{"", "", at}, ""}, // named by validation: account and dimension are missing
		{"", RowKey{}, MalformedSortKey},
		{"#", RowKey{}, MalformedSortKey},
		{"111122223333", RowKey{}, MalformedSortKey},
		{"111122223333#2026-03-10T14:00:05", RowKey{}, MalformedSortKey},
		{"111122223333#api_calls#", RowKey{}, MalformedTimestamp},
		{"111122223333#api_calls#2026-03-10T14", RowKey{}, MalformedTimestamp},
		{"111122223333#api_calls#2026-03-10T14:00:05Z", RowKey{}, MalformedTimestamp},
		{"111122223333#api_calls#2026-03-10T4:00:05", RowKey{}, MalformedTimestamp},
		{"111122223333#api_calls#2026-03-10T14:00:05#", RowKey{}, MalformedTimestamp},
	} {
		got, reason := ParseRowKey(tt.key)
		if diff := cmp.Diff(tt.want, got); diff != "" || reason != tt.reason {
			t.Errorf("ParseRowKey(%q): reason %q, want %q (-want +got):\n%s", tt.key, reason, tt.reason, diff)
		}
	}
}

func TestParseRecordKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		key    string
		want   Group
		reason Reason
	}{
		{"111122223333#api_calls#2026-03-10T14", groupH(), ""},
		{"111122223333#a#b#2026-03-10T14", Group{licenseA, buyer, "a#b", hour("2026-03-10T14")}, ""},
		{"111122223333#2026-03-10T14", Group{}, MalformedSortKey},
		{"", Group{}, MalformedSortKey},
		{"111122223333#api_calls#2026-03-10T14:00:00", Group{}, MalformedTimestamp},
		{"111122223333#api_calls#", Group{}, MalformedTimestamp},
		{"111122223333#api_calls#2026-03-10T24", Group{}, MalformedTimestamp},
	} {
		got, reason := ParseRecordKey(licenseA, tt.key)
		if diff := cmp.Diff(tt.want, got); diff != "" || reason != tt.reason {
			t.Errorf("ParseRecordKey(%q): reason %q, want %q (-want +got):\n%s", tt.key, reason, tt.reason, diff)
		}
	}
}

func TestKeysDoNotBleed(t *testing.T) { // case 35
	t.Parallel()
	plain, nested := groupH(), groupH()
	plain.Dimension, nested.Dimension = "api", "api#2026-03-10T14:00:00"
	inner := nested.RowKey(second("2026-03-10T14:00:09"))
	if !strings.HasPrefix(inner, plain.RowPrefix()) {
		t.Fatalf("%s should show what the comparison is for: it begins with %s", inner, plain.RowPrefix())
	}
	if _, ok := plain.Contains(inner); ok {
		t.Errorf("group %v takes the row %s of another", plain, inner)
	}
	if s, ok := nested.Contains(inner); !ok || s != second("2026-03-10T14:00:09") {
		t.Errorf("group %v: %v, %v", nested, s, ok)
	}
	for _, key := range []string{
		"111122223333#api#2026-03-10T13:59:59", "111122223333#api#2026-03-10T15:00:00", "111122223334#api#2026-03-10T14:00:00",
		"111122223333#Api#2026-03-10T14:00:00", "111122223333#api#2026-03-10T14:00", "",
	} {
		if _, ok := plain.Contains(key); ok {
			t.Errorf("group %v takes %q", plain, key)
		}
	}
}

// dimensions that hold what keys are made of.
func drawDimension(t *rapid.T, label string) string {
	parts := rapid.SliceOfN(rapid.SampledFrom([]string{"#", "api", "2026-03-10T14", ":", ":00:00", "é", " ", "0"}), 1, 6).Draw(t, label)
	return strings.Join(parts, "")
}

func TestKeysRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		g := Group{License: licenseA, Account: buyer, Dimension: drawDimension(t, "dimension"), Hour: drawHour(t)}
		s := Second(g.Hour)*secondsPerHour + Second(rapid.IntRange(0, 3599).Draw(t, "offset"))
		key := g.RowKey(s)
		k, reason := ParseRowKey(key)
		if reason != "" || k.Group(licenseA) != g || k.Second != s || !strings.HasPrefix(key, g.RowPrefix()) {
			t.Fatalf("%q reads back as %+v, %q", key, k, reason)
		}
		if back, reason := ParseRecordKey(licenseA, g.RecordKey()); reason != "" || back != g {
			t.Fatalf("%q reads back as %+v, %q", g.RecordKey(), back, reason)
		}
		other := g
		other.Dimension = drawDimension(t, "other")
		if _, ok := other.Contains(key); ok != (other == g) {
			t.Fatalf("%+v contains %q: %v", other, key, ok)
		}
		if (other.RecordKey() == g.RecordKey()) != (other == g) {
			t.Fatalf("%+v and %+v share a key", other, g)
		}
	})
}
