package store_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

func TestItemSize(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		item metering.Item
		want int
	}{
		{"nothing", metering.Item{}, 0},
		{"text in UTF-8", metering.Item{"name": "Grüße"}, 4 + 7},
		{"a number of three digits", metering.Item{"n": json.Number("123")}, 1 + 2 + 1},
		{"zeros at the ends do not count", metering.Item{"n": json.Number("0.00120000")}, 1 + 1 + 1},
		{"an exponent does not count", metering.Item{"n": json.Number("12e9")}, 1 + 1 + 1},
		{"a sign counts", metering.Item{"n": json.Number("-12")}, 1 + 1 + 1 + 1},
		{"boolean and null", metering.Item{"b": true, "z": nil}, 2 + 2},
		{"list", metering.Item{"l": []any{"ab", json.Number("7")}}, 1 + 3 + (1 + 2) + (1 + 2)},
		{"binary", metering.Item{"b": []byte("12345")}, 1 + 5},
		{"set of texts", metering.Item{"s": store.TextSet{"ab", "Grüße"}}, 1 + 3 + (1 + 2) + (1 + 7)},
		{"set of numbers", metering.Item{"s": store.NumberSet{"123", "-12"}}, 1 + 3 + (1 + 3) + (1 + 3)},
		{"set of binaries", metering.Item{"s": store.BinarySet{{1, 2, 3}, {4}}}, 1 + 3 + (1 + 3) + (1 + 1)},
		{"map", metering.Item{"m": map[string]any{"key": "value"}}, 1 + 3 + (1 + 3 + 5)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := store.ItemSize(tt.item); got != tt.want {
				t.Errorf("size %d, want %d", got, tt.want)
			}
		})
	}
}

// What the submitter judges and sends by must be the same from the index entry as from the whole item.
func TestProjectRecordKeepsWhatIsJudged(t *testing.T) {
	t.Parallel()
	whole := metering.RecordFromItem(metering.Item{
		metering.AttrLicense: "arn:aws:license-manager::111122223333:license:l-1", metering.AttrRecordKey: "111122223333#api#2026-03-10T14",
		metering.AttrAccount: "111122223333", metering.AttrDimension: json.Number("7"), metering.AttrHour: "2026-03-10T14",
		metering.AttrQuantity: "12", metering.AttrPending: "2026-03-10T14", metering.AttrSentQuantity: json.Number("3"),
		metering.AttrSentSecond: "2026-03-10T14:00:00", metering.AttrStatus: "Success", metering.AttrBilledQuantity: json.Number("3"),
		metering.AttrManifest: "v1 0 0", metering.AttrStatusReason: "because", metering.AttrRecordID: "id", metering.AttrCreatedAt: "then",
		metering.AttrUpdatedAt: "now", metering.AttrTTL: json.Number("9"), "invoice": "A-1",
	})
	entry := store.ProjectRecord(whole)
	if entry.Fingerprint() != whole.Fingerprint() || entry.Validate() != whole.Validate() {
		t.Error("the index entry is judged otherwise than the record")
	}
	want := metering.RecordFromItem(metering.Item{
		metering.AttrLicense: whole.License, metering.AttrRecordKey: whole.SortKey,
		metering.AttrAccount: "111122223333", metering.AttrDimension: json.Number("7"), metering.AttrHour: "2026-03-10T14",
		metering.AttrQuantity: "12", metering.AttrPending: "2026-03-10T14", metering.AttrSentQuantity: json.Number("3"),
		metering.AttrSentSecond: "2026-03-10T14:00:00", metering.AttrStatus: "Success", metering.AttrBilledQuantity: json.Number("3"),
	})
	if diff := cmp.Diff(want, entry); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
	if whole.Manifest == "" || whole.Other["invoice"] != "A-1" {
		t.Error("the record itself was changed")
	}
}
