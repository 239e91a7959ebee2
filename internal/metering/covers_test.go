package metering

import (
	"encoding/json"
	"testing"
)

// Only a manifest that is not there covers nothing. One that cannot be read says nothing of any row: taken for none, every row of a billed group
// would be called late.
func TestCoversNothingUnlessThereIsNone(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		manifest any // nil: the attribute is absent
		rows     int
		unread   bool
	}{
		"none":                           {nil, 0, false},
		"two rows":                       {"v1 2 9 0:5 60:4", 2, false},
		"another version":                {"v2 2 9 0:5 60:4", 0, true},
		"cut short":                      {"v1 2 9 0:5", 0, true},
		"a number":                       {json.Number("9"), 0, true},
		"a list":                         {[]any{"v1 2 9 0:5 60:4"}, 0, true},
		"a map":                          {map[string]any{"0": json.Number("5")}, 0, true},
		"a boolean":                      {true, 0, true},
		"an empty text, which is a text": {"", 0, true},
	}
	for name, tt := range tests {
		item := recordItem()
		delete(item, AttrManifest)
		if tt.manifest != nil {
			item[AttrManifest] = tt.manifest
		}
		m, err := RecordFromItem(item).Covers()
		if m.Count() != tt.rows || (err != nil) != tt.unread {
			t.Errorf("%s: covers %d rows, error %v", name, m.Count(), err)
		}
	}
}
