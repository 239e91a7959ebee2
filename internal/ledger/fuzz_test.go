package ledger_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"testing"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// items are a list of JSON objects, each laid over an item of base.
func items(text []byte, base func(i int) metering.Item) (list []metering.Item) {
	var overlays []metering.Item
	d := json.NewDecoder(bytes.NewReader(text))
	if d.UseNumber(); d.Decode(&overlays) != nil {
		return nil
	}
	for i, o := range overlays {
		item := base(i)
		maps.Copy(item, o)
		list = append(list, item)
	}
	return list
}

// FuzzBalance: whatever the tables hold of a group, the books count each written unit once, and have a place for it or a finding; no place
// holds less than nothing.
func FuzzBalance(f *testing.F) {
	committed := `[{"quantity": 7}, {"quantity": 3}]`
	for _, rows := range []string{
		`[{}, {}]`, `[{"meteringPending": "", "meteringStatus": "Aggregated"}, {"quantity": 9}]`, `[{"quantity": "7"}, {"quantity": 2.5, "meteringStatus": "RejectedClientSide"}, {"quantity": -4}]`,
		`[{}, {}, {"quantity": 1000000000000}, {"meteringPending": "tomorrow"}, {"quantity": 0, "meteringPending": "", "meteringStatus": "AggregationExpired"}]`, `[{"customerAWSAccountId_dimension_timestamp": "x"}]`,
	} {
		for _, record := range []string{
			`[]`, `[{}]`, `[{"meteringPending": "", "meteringStatus": "Success"}]`, `[{"meteringPending": "", "meteringStatus": "Success", "billedQuantity": 12}]`, `[{"meteringStatus": "Success", "sentQuantity": 4, "manifest": ""}]`,
			`[{"manifest": "v2", "meteringStatus": "DuplicateRecord"}]`, `[{"meteringPending": "", "meteringStatus": "SubmissionExpired", "sentQuantity": -4, "quantity": 11}]`,
			`[{"meteringPending": "", "meteringStatus": "Success", "billedQuantity": -3, "manifest": ""}]`,
		} {
			f.Add([]byte(committed), []byte(rows), []byte(record))
		}
	}
	f.Fuzz(func(t *testing.T, committed, stored, recorded []byte) {
		if len(committed)+len(stored) > 2000 {
			t.Skip() // as long lists as those find nothing more
		}
		base := func(i int) metering.Item { return at(i%60, 7, "").Item() }
		fold := metering.NewFold(group, group.Hour.End())
		seen := map[string]bool{}
		for _, item := range items(committed, base) {
			if r := metering.RowFromItem(item); !seen[r.SortKey] {
				seen[r.SortKey] = true
				fold.Add(r)
			}
		}
		sum, reason := fold.Record()
		if reason != "" {
			t.Skip()
		}
		var record *metering.Record
		for _, item := range items(recorded, func(int) metering.Item { return sum.Item() }) {
			r := metering.RecordFromItem(item)
			record = &r
			break
		}
		rows := map[string]metering.Row{}
		var list []metering.Row
		for _, item := range items(stored, base) {
			if r := metering.RowFromItem(item); rows[r.SortKey].SortKey == "" {
				rows[r.SortKey] = r
				list = append(list, r)
			}
		}
		b := ledger.Of(group, record, list)
		for cause, amount := range b.Places {
			if amount.Units < 0 || amount.Items < 0 {
				t.Errorf("%+v holds %+v", cause, amount)
			}
		}
		if len(b.Findings) == 0 && b.Written.Units != b.Named() || b.Balanced() != (len(b.Findings) == 0) {
			t.Errorf("written %+v, named %d, findings %q", b.Written, b.Named(), b.Findings)
		}
		if want, ok := written(record, rows); ok && b.Written.Units != want {
			t.Errorf("written %+v, the tables hold %d", b.Written, want)
		}
	})
}

// written is the sum over all seconds of what is there or was committed, the larger; ok is false where a record says more of itself.
func written(record *metering.Record, rows map[string]metering.Row) (sum int64, ok bool) {
	var manifest metering.Manifest
	if record != nil {
		var err error
		if manifest, err = record.Covers(); err != nil || record.BilledQuantity.Whole || record.Status == metering.Success {
			return 0, false
		}
		if record.Manifest == "" {
			sum, _ = record.Quantity.Count()
		}
	}
	for second, committed := range manifest.All(group.Hour) {
		held, _ := rows[group.RowKey(second)].Quantity.Count()
		sum += max(held, committed)
	}
	for key, r := range rows {
		second, ours := group.Contains(key)
		if _, covered := manifest.Quantity(second); ours && !covered {
			held, _ := r.Quantity.Count()
			sum += held
		}
	}
	return sum, true
}
