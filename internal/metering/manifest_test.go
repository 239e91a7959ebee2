package metering

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestManifestGolden(t *testing.T) {
	t.Parallel()
	m := Manifest{entries: []manifestEntry{{0, 5}, {60, 4}, {61, 6}}}
	const want = "v1 3 15 0:5 60:4 1:6"
	if got := m.String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	back, err := ParseManifest(want)
	if diff := cmp.Diff(m.entries, back.entries, cmp.AllowUnexported(manifestEntry{})); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if got := (Manifest{}).String(); got != "v1 0 0" {
		t.Errorf("the empty manifest is %q", got)
	}
}

func drawManifest(t *rapid.T) Manifest {
	offsets := rapid.SliceOfNDistinct(rapid.Uint16Range(0, 3599), 0, 40, rapid.ID).Draw(t, "offsets")
	slices.Sort(offsets)
	var m Manifest
	for _, o := range offsets {
		m.entries = append(m.entries, manifestEntry{o, rapid.OneOf(rapid.Uint32Range(0, 3), rapid.Uint32Range(0, MaxQuantity)).Draw(t, "quantity")})
	}
	return m
}

func TestManifestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, h := drawManifest(t), drawHour(t)
		back, err := ParseManifest(m.String())
		if err != nil || back.String() != m.String() || back.Count() != m.Count() || back.Sum() != m.Sum() {
			t.Fatalf("%q: %v", m, err)
		}
		byOffset := map[uint16]uint32{}
		first := Second(-1)
		for _, e := range m.entries {
			byOffset[e.offset] = e.quantity
			if e.quantity > 0 && first < 0 {
				first = Second(h)*secondsPerHour + Second(e.offset)
			}
		}
		for offset := range uint16(3600) {
			want, covered := byOffset[offset]
			if q, ok := back.Quantity(Second(h)*secondsPerHour + Second(offset)); ok != covered || q != int64(want) {
				t.Fatalf("second %d: %d, %v, want %d, %v", offset, q, ok, want, covered)
			}
		}
		if s, ok := back.First(h); ok != (first >= 0) || ok && s != first {
			t.Fatalf("First = %v, %v, want %v", s, ok, first)
		}
		var sum int64
		var seconds []Second
		for s, q := range back.All(h) {
			sum, seconds = sum+q, append(seconds, s)
		}
		if sum != m.Sum() || len(seconds) != m.Count() || !slices.IsSorted(seconds) {
			t.Fatalf("All gives %d units of %d in %v", sum, m.Sum(), seconds)
		}
	})
}

func TestManifestAllStops(t *testing.T) {
	t.Parallel()
	m := Manifest{entries: []manifestEntry{{0, 0}, {1, 2}, {2, 3}}}
	for s, q := range m.All(hour("2026-03-10T14")) {
		if q == 2 {
			if s != second("2026-03-10T14:00:01") {
				t.Errorf("2 units at %v", s)
			}
			break
		}
	}
	if s, ok := m.First(hour("2026-03-10T14")); !ok || s != second("2026-03-10T14:00:01") {
		t.Errorf("the first second with usage is %v, %v", s, ok)
	}
}

func TestCorruptManifestsAreRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "v1", "v1 ", "v1 0", "v1 1 5", "v2 3 15 0:5 60:4 1:6", "3 15 0:5 60:4 1:6", "V1 0 0",
		"v1 3 14 0:5 60:4 1:6",         // the sum is wrong
		"v1 2 15 0:5 60:4 1:6",         // the count is wrong
		"v1 3 15 0:5 60:4",             // cut short
		"v1 3 15 0:5 60:4 1",           // cut within an entry
		"v1 3 15 0:5 60:4 1:",          //
		"v1 3 15 0:5 0:4 1:6",          // the same second twice
		"v1 1 5 3600:5",                // outside the hour
		"v1 2 5 3599:5 1:0",            //
		"v1 1 5 65536:5",               //
		"v1 1 -5 0:-5",                 //
		"v1 1 5 -1:5",                  //
		"v1 1 2147483648 0:2147483648", // no quantity
		"v1 1 5 +0:5", "v1 1 5 0:+5", "v1 1 5 0x0:5", "v1 1 5 0:5:0", "v1 01 5 0:5", "v1 1 05 0:5", "v1 1 5.0 0:5", "v1 1 5 0:5.0", "v1 a b 0:5",
		"v1 3601 3601" + strings.Repeat(" 1:1", 3601),
		`{"v":1}`,
	} {
		if m, err := ParseManifest(s); err == nil {
			t.Errorf("%.40q reads as %v", s, m)
		}
	}
}

func TestNoChangeOfADigitGoesUnseen(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := drawManifest(t)
		s := []byte(m.String())
		i := rapid.IntRange(0, len(s)-1).Draw(t, "at")
		s[i] = "0123456789: vx"[rapid.IntRange(0, 13).Draw(t, "to")]
		back, err := ParseManifest(string(s))
		if err == nil && (back.Count() != m.Count() || back.Sum() != m.Sum()) {
			t.Fatalf("%q became %q", m, s)
		}
	})
}

func TestLargestManifest(t *testing.T) {
	t.Parallel()
	var m Manifest
	for i := range 3600 {
		m.entries = append(m.entries, manifestEntry{uint16(i), MaxQuantity / 3600})
	}
	s := m.String()
	back, err := ParseManifest(s)
	if err != nil || back.Count() != 3600 || back.Sum() != MaxQuantity/3600*3600 {
		t.Fatalf("%v, %d rows", err, back.Count())
	}
	if len(s) > 33_000 { // a twelfth of an item
		t.Errorf("%d bytes", len(s))
	}
	if q, ok := back.Quantity(second("2026-03-10T14:59:59")); !ok || q != MaxQuantity/3600 {
		t.Errorf("the last second: %d, %v", q, ok)
	}
	if fmt.Sprint(m) != s {
		t.Error("a manifest prints as it is stored")
	}
}
