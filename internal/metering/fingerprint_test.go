package metering

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// The golden values were computed apart from this code: FNV-1a of 64 bits over each part written as length, colon, bytes.
// A release that changes them disowns every cleanup message that is under way.
func TestFingerprintsAreStableAcrossReleases(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, got, want string }{
		{"row", RowFromItem(rowItem()).Fingerprint(), "5506e8be4f952b70"},
		{"row with allocations", RowFromItem(rowItem().with(AttrAllocations, []any{allocation(1, "team", "a"), allocation(2)})).Fingerprint(), "deaa61900f149251"},
		{"row with a wrong type", RowFromItem(rowItem().with(AttrQuantity, "abc")).Fingerprint(), "b4ffea6e54563310"},
		{"row with an unknown field", RowFromItem(rowItem().with(AttrAllocations, []any{map[string]any{"Colour": "red", attrAllocated: number(3)}})).Fingerprint(), "3aa50256f9b3badf"},
		{"record", RecordFromItem(recordItem()).Fingerprint(), "f5c8cd4cf25da478"},
		{"record that was sent", RecordFromItem(recordItem().with(AttrSentQuantity, number(3), AttrSentSecond, "2026-03-10T14:00:00")).Fingerprint(), "e00adfffb576492b"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, tt.got, tt.want)
		}
	}
}

func TestFingerprintSeesWhatWasJudged(t *testing.T) {
	t.Parallel()
	row := func(i Item) string { return RowFromItem(i).Fingerprint() }
	record := func(i Item) string { return RecordFromItem(i).Fingerprint() }
	tagged := []any{allocation(1, "team", "a"), allocation(2)}
	for _, tt := range []struct {
		name  string
		base  Item
		print func(Item) string
		attr  string
		same  bool
		to    []any
	}{
		{"row", rowItem(), row, AttrAccount, false, []any{"111122223334", "", without{}, number(7), nil}},
		{"row", rowItem(), row, AttrDimension, false, []any{"api", "", without{}, true}},
		{"row", rowItem(), row, AttrTimestamp, false, []any{"2026-03-10T14:00:06", without{}, number(1)}},
		{"row", rowItem(), row, AttrCustomerIdentifier, false, []any{"c", "", number(1), nil}},
		{"row", rowItem(), row, AttrQuantity, false, []any{number(4), "3", json.Number("3.5"), without{}, nil, true, number(-3), json.Number("1e30")}},
		{"row", rowItem(), row, AttrAllocations, false, []any{[]any{allocation(3)}, "x", nil, []any{allocation("3")}}},
		{"row", rowItem().with(AttrAllocations, tagged), row, AttrAllocations, false, []any{
			without{}, []any{allocation(2), allocation(1, "team", "a")}, []any{allocation(1, "team", "b"), allocation(2)}, []any{allocation(1, "tea", "ma"), allocation(2)},
		}},
		{"row", rowItem(), row, AttrQuantity, true, []any{json.Number("3.0"), json.Number("3e0")}},
		{"row", rowItem(), row, AttrPending, true, []any{without{}, "2026-03-10T15"}}, // the label's marker says it
		{"row", rowItem(), row, AttrStatus, true, []any{"LateUsage"}},
		{"row", rowItem(), row, AttrStatusReason, true, []any{"why"}},
		{"row", rowItem(), row, AttrUpdatedAt, true, []any{"now"}},
		{"row", rowItem(), row, AttrTTL, true, []any{number(1)}},
		{"row", rowItem(), row, AttrFlushes, true, []any{[]any{"token"}}},
		{"row", rowItem(), row, AttrRecalled, false, []any{[]any{map[string]any{"at": "now"}}, []any{map[string]any{"at": "now"}, map[string]any{"at": "then"}}}},
		{"row", rowItem(), row, AttrRecalled, true, []any{[]any{}, "never", nil}}, // never let wait again: as a release without recalls judges it
		{"record", recordItem(), record, AttrAccount, false, []any{"111122223334", without{}}},
		{"record", recordItem(), record, AttrDimension, false, []any{"api", number(1)}},
		{"record", recordItem(), record, AttrHour, false, []any{"2026-03-10T15", without{}}},
		{"record", recordItem(), record, AttrCustomerIdentifier, false, []any{"c"}},
		{"record", recordItem(), record, AttrPending, false, []any{without{}, "2026-03-10T15"}},
		{"record", recordItem(), record, AttrQuantity, false, []any{number(4), "3", without{}}},
		{"record", recordItem(), record, AttrAllocations, false, []any{[]any{allocation(3)}, "x"}},
		{"record", recordItem(), record, AttrSentQuantity, false, []any{number(3), number(0), "3"}},
		{"record", recordItem(), record, AttrSentSecond, false, []any{"2026-03-10T14:00:00", number(1)}},
		{"record", recordItem(), record, AttrStatus, true, []any{"Success"}},
		{"record", recordItem(), record, AttrRecordID, true, []any{"id"}},
		{"record", recordItem(), record, AttrUpdatedAt, true, []any{"now"}},
		{"record", recordItem(), record, "note", true, []any{"x"}},
	} {
		before := tt.print(tt.base)
		seen := map[string]any{before: "as it was"}
		for _, v := range tt.to {
			after := tt.print(tt.base.with(tt.attr, v))
			if tt.same && after != before {
				t.Errorf("%s: %s = %#v changes the fingerprint", tt.name, tt.attr, v)
			}
			if was, ok := seen[after]; ok && !tt.same {
				t.Errorf("%s: %s = %#v has the fingerprint of %#v", tt.name, tt.attr, v, was)
			}
			seen[after] = v
		}
	}
}

func TestEqualFingerprintsMeanEqualVerdicts(t *testing.T) {
	t.Parallel()
	now := instant("2026-03-10T15:20:00Z")
	rapid.Check(t, func(t *rapid.T) {
		judged := []string{AttrAccount, AttrDimension, AttrTimestamp, AttrCustomerIdentifier, AttrQuantity, AttrAllocations}
		a := drawItem(t, rowItem(), judged)
		b := drawItem(t, a, []string{rapid.SampledFrom(judged).Draw(t, "changed")})
		x, y := RowFromItem(a), RowFromItem(b)
		if x.Fingerprint() == y.Fingerprint() && x.Validate(now) != y.Validate(now) {
			t.Fatalf("%q and %q look alike: %#v, %#v", x.Validate(now), y.Validate(now), a, b)
		}
		if sameItem(a, b) && x.Fingerprint() != y.Fingerprint() && len(x.Other) == 0 {
			t.Fatalf("equal items look different: %#v, %#v", a, b)
		}
	})
}
