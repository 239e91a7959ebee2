package storetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/awsmp/metering/internal/metering"
)

// model is the store in its plainest form: one license's items by sort key.
type model struct {
	license       string
	nested        bool
	rows, records map[string]metering.Item
}

func modelContract() []contract {
	return []contract{
		{"random operations", func(t *testing.T, s Store) { agreesWithModel(t, s, false) }},
		{"random operations, with lists and maps", func(t *testing.T, s Store) { agreesWithModel(t, s, true) }},
	}
}

// agreesWithModel runs random operations on the store and on the model, each run on a license of its own, and compares
// what every write answers and, at the end, all that can be read. Nested lets what is judged be a list or a map.
func agreesWithModel(t *testing.T, s Store, nested bool) {
	runs := 0
	rapid.Check(t, func(rt *rapid.T) {
		runs++
		m := model{
			license: fmt.Sprintf("%s-%d", licenseA, runs), nested: nested,
			rows: make(map[string]metering.Item), records: make(map[string]metering.Item),
		}
		operations := map[string]func(*rapid.T){
			"put row":       func(rt *rapid.T) { m.putRow(rt, s) },
			"flush row":     func(rt *rapid.T) { m.flushRow(rt, s) },
			"delete row":    func(rt *rapid.T) { m.deleteRow(rt, s) },
			"label row":     func(rt *rapid.T) { m.labelRow(rt, s) },
			"rebucket row":  func(rt *rapid.T) { m.rebucketRow(rt, s) },
			"recall row":    func(rt *rapid.T) { m.recallRow(rt, s) },
			"drop row":      func(rt *rapid.T) { m.dropRow(rt, s) },
			"put record":    func(rt *rapid.T) { m.putRecord(rt, s) },
			"delete record": func(rt *rapid.T) { m.deleteRecord(rt, s) },
			"create record": func(rt *rapid.T) { m.createRecord(rt, s) },
			"mark sent":     func(rt *rapid.T) { m.markSent(rt, s) },
			"finish record": func(rt *rapid.T) { m.finishRecord(rt, s) },
		}
		if m.nested { // a stand-in that takes no lists has no transactions either
			operations["carry row"] = func(rt *rapid.T) { m.carryRow(rt, s) }
		}
		rt.Repeat(operations)
		m.compare(rt, s)
	})
}

// Small worlds, so that operations meet.
var (
	dimensions = rapid.SampledFrom([]string{"api", "api#2026-03-10T14", "api#2026-03-10T14:00"})
	buckets    = rapid.SampledFrom([]string{hour().String(), (hour() + 1).String(), "2026-3-10T14"})
	statuses   = rapid.SampledFrom([]metering.Status{metering.Success, metering.DuplicateRecord, metering.RejectedClientSide, metering.LateUsage})
	numbers    = rapid.SampledFrom([]any{json.Number("0"), json.Number("3"), json.Number("3.0"), json.Number("2.5"), "3", true, nil})
)

func (m *model) group(rt *rapid.T) metering.Group {
	g := group(m.license, dimensions.Draw(rt, "dimension"))
	g.Hour += metering.Hour(rapid.IntRange(0, 1).Draw(rt, "hour"))
	return g
}

func (m *model) rowKey(rt *rapid.T) string {
	if rapid.IntRange(0, 9).Draw(rt, "malformed") == 0 {
		return rapid.SampledFrom([]string{"no key at all", group("", "api").RowPrefix(), buyer + "#api"}).Draw(rt, "key")
	}
	g := m.group(rt)
	return g.RowKey(g.Hour.Second(rapid.IntRange(0, 2).Draw(rt, "second")))
}

// item is one with some of the attributes that rows and records have, well-formed or not.
func (m *model) item(rt *rapid.T, keyName, key string) metering.Item {
	out := metering.Item{metering.AttrLicense: m.license, keyName: key}
	maybe := func(name string, draw func() any) {
		if rapid.Bool().Draw(rt, "has "+name) {
			out[name] = draw()
		}
	}
	maybe(metering.AttrPending, func() any { return buckets.Draw(rt, "bucket") })
	maybe(metering.AttrQuantity, func() any { return numbers.Draw(rt, "quantity") })
	maybe(metering.AttrSentQuantity, func() any { return numbers.Draw(rt, "sent") })
	maybe(metering.AttrStatus, func() any { return string(statuses.Draw(rt, "status")) })
	maybe(metering.AttrAccount, func() any { return rapid.SampledFrom([]any{buyer, json.Number("7")}).Draw(rt, "account") })
	dimension := []any{"api", true}
	if m.nested {
		dimension = []any{"api", []any{}}
	}
	maybe(metering.AttrDimension, func() any { return rapid.SampledFrom(dimension).Draw(rt, "dimension") })
	maybe(metering.AttrDropped, func() any { return rapid.SampledFrom([]any{true, false, "yes"}).Draw(rt, "dropped") })
	maybe(metering.AttrManifest, func() any { return rapid.SampledFrom([]any{"v1 0 0", json.Number("1")}).Draw(rt, "manifest") })
	maybe(metering.AttrCreatedAt, func() any { return "2026-03-01T00:00:00Z" })
	maybe(metering.AttrAllocations, func() any {
		if !m.nested {
			return rapid.SampledFrom([]any{"none", nil}).Draw(rt, "allocations")
		}
		return []any{map[string]any{"AllocatedUsageQuantity": numbers.Draw(rt, "allocated"), "Tags": []any{map[string]any{"Key": "a", "Value": "b"}}}}
	})
	maybe("unknown", func() any { return map[string]any{"list": []any{nil, json.Number("1.50"), "text"}} })
	return out
}

// fingerprint is that of the item as it stands, of another one, or none.
func fingerprint(rt *rapid.T, current, other string) string {
	return rapid.SampledFrom([]string{"", current, current, other}).Draw(rt, "fingerprint")
}

func quantity(rt *rapid.T) metering.Quantity {
	return rapid.SampledFrom([]metering.Quantity{{}, metering.Units(0), metering.Units(3)}).Draw(rt, "quantity")
}

func (m *model) putRow(rt *rapid.T, s Store) {
	key := m.rowKey(rt)
	r := metering.RowFromItem(m.item(rt, metering.AttrRowKey, key))
	must(rt, 0, s.PutRow(rt.Context(), r))
	m.rows[key] = r.Item()
}

func (m *model) flushRow(rt *rapid.T, s Store) {
	g := m.group(rt)
	f := metering.NewFlush(g, g.Hour.Second(rapid.IntRange(0, 2).Draw(rt, "second")), int64(rapid.IntRange(-1, 4).Draw(rt, "quantity")),
		rapid.SampledFrom([]string{"one", "two", "three"}).Draw(rt, "token"))
	f.At = now()
	if m.nested && rapid.Bool().Draw(rt, "tagged") {
		f.Allocations = []metering.Allocation{{Quantity: f.Quantity, Tags: []metering.Tag{{Key: "a", Value: "b"}}}}
	}
	want := metering.Flushed{}
	stored, ok := m.rows[f.SortKey()]
	if ok {
		r := metering.RowFromItem(stored)
		want = metering.Flushed{Done: f.Shows(r), Row: &r}
	}
	if !want.Done && f.Refused(want.Row) == nil {
		r := f.Apply(want.Row)
		m.rows[f.SortKey()] = r.Item()
		r = metering.RowFromItem(r.Item())
		want = metering.Flushed{Done: true, Row: &r}
	}
	got := s.FlushRows(rt.Context(), []metering.Flush{f})
	if ok && !want.Done && len(got) == 1 && got[0].Done && got[0].Row != nil && addable(*want.Row) {
		r := metering.RowFromItem(exactly(stored, f))
		m.rows[f.SortKey()] = r.Item()
		want = metering.Flushed{Done: true, Row: &r}
	}
	same(rt, "FlushRows", []metering.Flushed{want}, got)
}

// addable are the rows that Flush.Refused refuses and a store may add to all the same, since the condition of a write cannot tell
// them in DynamoDB: a quantity with a fraction, and a list of allocations of which one is odd. They were rejected as they stood, and
// stay so whatever is added.
func addable(r metering.Row) bool {
	n, fraction := r.Other[metering.AttrQuantity].(json.Number)
	list, odd := r.Other[metering.AttrAllocations].([]any)
	return !r.Dropped && (fraction && strings.Contains(string(n), ".") || odd && len(list) > 0)
}

// exactly is the item of an addable row after a flush, in the terms of a store that looks at neither.
func exactly(stored metering.Item, f metering.Flush) metering.Item {
	bare := maps.Clone(stored)
	sum := new(big.Rat).SetInt64(f.Quantity)
	if n, ok := stored[metering.AttrQuantity].(json.Number); ok {
		held, _ := new(big.Rat).SetString(string(n))
		sum.Add(sum, held)
	}
	delete(bare, metering.AttrQuantity)
	delete(bare, metering.AttrAllocations)
	row := metering.RowFromItem(bare)
	grown := f.Apply(&row).Item()
	grown[metering.AttrQuantity] = json.Number(sum.FloatString(2))
	held, _ := stored[metering.AttrAllocations].([]any)
	added, _ := grown[metering.AttrAllocations].([]any)
	if all := slices.Concat(held, added); len(all) > 0 {
		grown[metering.AttrAllocations] = all
	}
	return grown
}

func (m *model) deleteRow(rt *rapid.T, s Store) {
	key := m.rowKey(rt)
	must(rt, 0, s.DeleteRow(rt.Context(), m.license, key))
	delete(m.rows, key)
}

// change is what a conditional write does to the model.
func change[T any](items map[string]metering.Item, key string, read func(metering.Item) T, holds func(T) bool, apply func(T) T, write func(T) metering.Item) metering.Outcome[T] {
	stored, ok := items[key]
	if !ok {
		return metering.Outcome[T]{}
	}
	old := read(stored)
	if !holds(old) {
		return metering.Outcome[T]{Old: &old}
	}
	items[key] = write(apply(old))
	return metering.Outcome[T]{Done: true}
}

func (m *model) labelRow(rt *rapid.T, s Store) {
	key := m.rowKey(rt)
	l := metering.Label{
		License: m.license, SortKey: key, Marker: rapid.Bool().Draw(rt, "marker"), Quantity: quantity(rt),
		Fingerprint: fingerprint(rt, metering.RowFromItem(m.rows[key]).Fingerprint(), metering.Row{}.Fingerprint()),
		Status:      statuses.Draw(rt, "status"), Reason: "because", LateQuantity: quantity(rt), At: now(),
	}
	want := change(m.rows, key, metering.RowFromItem, l.Holds, l.Apply, metering.Row.Item)
	got, err := s.LabelRow(rt.Context(), l)
	same(rt, "LabelRow", want, must(rt, got, err))
}

func (m *model) rebucketRow(rt *rapid.T, s Store) {
	key := m.rowKey(rt)
	b := metering.Rebucket{License: m.license, SortKey: key, From: buckets.Draw(rt, "from"), To: buckets.Draw(rt, "to"), At: now()}
	want := change(m.rows, key, metering.RowFromItem, b.Holds, b.Apply, metering.Row.Item)
	got, err := s.RebucketRow(rt.Context(), b)
	same(rt, "RebucketRow", want, must(rt, got, err))
}

func (m *model) putRecord(rt *rapid.T, s Store) {
	key := m.group(rt).RecordKey()
	r := metering.RecordFromItem(m.item(rt, metering.AttrRecordKey, key))
	must(rt, 0, s.PutRecord(rt.Context(), r))
	m.records[key] = r.Item()
}

func (m *model) deleteRecord(rt *rapid.T, s Store) {
	key := m.group(rt).RecordKey()
	must(rt, 0, s.DeleteRecord(rt.Context(), m.license, key))
	delete(m.records, key)
}

func (m *model) createRecord(rt *rapid.T, s Store) {
	key := m.group(rt).RecordKey()
	r := metering.RecordFromItem(m.item(rt, metering.AttrRecordKey, key))
	want := metering.Outcome[metering.Record]{Done: true}
	if stored, ok := m.records[key]; ok {
		old := metering.RecordFromItem(stored)
		want = metering.Outcome[metering.Record]{Old: &old}
	} else {
		m.records[key] = r.Item()
	}
	got, err := s.CreateRecord(rt.Context(), r)
	same(rt, "CreateRecord", want, must(rt, got, err))
}

func (m *model) markSent(rt *rapid.T, s Store) {
	key := m.group(rt).RecordKey()
	mark := metering.Send{
		License: m.license, SortKey: key, Quantity: 3, Second: second(0), At: now(),
		Fingerprint: rapid.SampledFrom([]string{metering.RecordFromItem(m.records[key]).Fingerprint(), metering.Record{}.Fingerprint()}).Draw(rt, "fingerprint"),
	}
	want := change(m.records, key, metering.RecordFromItem, mark.Holds, mark.Apply, metering.Record.Item)
	got, err := s.MarkSent(rt.Context(), mark)
	same(rt, "MarkSent", want, must(rt, got, err))
}

func (m *model) finishRecord(rt *rapid.T, s Store) {
	key := m.group(rt).RecordKey()
	f := metering.Finish{
		License: m.license, SortKey: key,
		Pending: rapid.Bool().Draw(rt, "pending"), Unbilled: rapid.Bool().Draw(rt, "unbilled"), Quantity: quantity(rt),
		Fingerprint: fingerprint(rt, metering.RecordFromItem(m.records[key]).Fingerprint(), metering.Record{}.Fingerprint()),
		Status:      statuses.Draw(rt, "status"), Reason: "because", MeteringRecordID: "id-1",
		BilledQuantity: quantity(rt), TTL: quantity(rt), At: now(),
	}
	want := change(m.records, key, metering.RecordFromItem, f.Holds, f.Apply, metering.Record.Item)
	got, err := s.FinishRecord(rt.Context(), f)
	same(rt, "FinishRecord", want, must(rt, got, err))
}

func (m *model) compare(rt *rapid.T, s Store) {
	var rows []metering.Row
	for _, key := range slices.Sorted(maps.Keys(m.rows)) {
		rows = append(rows, metering.RowFromItem(m.rows[key]))
	}
	var records []metering.Record
	for _, key := range slices.Sorted(maps.Keys(m.records)) {
		records = append(records, metering.RecordFromItem(m.records[key]))
	}
	same(rt, "LicenseRows", rows, inOrder(collect(rt, s.LicenseRows(rt.Context(), m.license))))
	same(rt, "LicenseRecords", records, recordsInOrder(collect(rt, s.LicenseRecords(rt.Context(), m.license))))

	for h := hour(); h <= hour()+1; h++ {
		var waiting []string
		for _, r := range rows {
			if r.Pending == h.String() {
				waiting = append(waiting, r.SortKey+" "+r.Account+" "+r.Dimension)
			}
		}
		var listed []string
		for _, p := range collect(rt, s.PendingRows(rt.Context(), h, m.license)) {
			listed = append(listed, p.SortKey+" "+p.Account+" "+p.Dimension)
		}
		same(rt, "PendingRows", waiting, sorted(listed))

		var unsent []string
		for _, r := range records {
			if r.Pending == h.String() {
				unsent = append(unsent, r.SortKey+" "+r.Fingerprint())
			}
		}
		listed = nil
		for _, r := range collect(rt, s.PendingRecords(rt.Context(), h, m.license)) {
			listed = append(listed, r.SortKey+" "+r.Fingerprint())
			if r.Manifest != "" || r.Other[metering.AttrManifest] != nil || r.Other["unknown"] != nil {
				rt.Errorf("the index carries more than it should: %+v", r)
			}
		}
		same(rt, "PendingRecords", unsent, sorted(listed))
	}

	g := group(m.license, "api")
	var ofGroup []metering.Row
	for _, r := range rows {
		if _, ours := g.Contains(r.SortKey); ours {
			ofGroup = append(ofGroup, r)
		}
	}
	// A read may show rows of another group whose keys begin alike, and malformed ones.
	shown := slices.DeleteFunc(collect(rt, s.GroupRows(rt.Context(), g)), func(r metering.Row) bool {
		_, ours := g.Contains(r.SortKey)
		return !ours && strings.HasPrefix(r.SortKey, g.RowPrefix())
	})
	same(rt, "GroupRows", ofGroup, shown)
	var want *metering.Record
	if stored, ok := m.records[g.RecordKey()]; ok {
		r := metering.RecordFromItem(stored)
		want = &r
	}
	got, err := s.Record(rt.Context(), g)
	same(rt, "Record", want, must(rt, got, err))
}

// inOrder sorts rows by their keys. A store may keep odd keys, which begin like others or end in no time, in an order of its own.
func inOrder(rows []metering.Row) []metering.Row {
	slices.SortFunc(rows, func(a, b metering.Row) int { return strings.Compare(a.SortKey, b.SortKey) })
	return rows
}

func sorted(keys []string) []string {
	slices.Sort(keys)
	return keys
}

func recordsInOrder(records []metering.Record) []metering.Record {
	slices.SortFunc(records, func(a, b metering.Record) int { return strings.Compare(a.SortKey, b.SortKey) })
	return records
}
