package storetest

import (
	"pgregory.net/rapid"

	"github.com/awsmp/metering/internal/metering"
)

// judgement is the fingerprint of a row as it stands, most often, or of another.
func (m *model) judgement(rt *rapid.T, key string) string {
	current := metering.RowFromItem(m.rows[key]).Fingerprint()
	return rapid.SampledFrom([]string{current, current, current, metering.Row{}.Fingerprint()}).Draw(rt, "fingerprint")
}

func (m *model) recallRow(rt *rapid.T, s Store) {
	key := m.rowKey(rt)
	x := metering.Recall{
		License: m.license, SortKey: key, Fingerprint: m.judgement(rt, key), Reason: rapid.SampledFrom([]string{"", "because"}).Draw(rt, "reason"),
		Times: rapid.IntRange(0, 1).Draw(rt, "times"), Hour: hour(), At: now(),
	}
	want := change(m.rows, key, metering.RowFromItem, x.Holds, x.Apply, metering.Row.Item)
	got, err := s.RecallRow(rt.Context(), x)
	same(rt, "RecallRow", want, must(rt, got, err))
}

func (m *model) dropRow(rt *rapid.T, s Store) {
	key := m.rowKey(rt)
	x := metering.Drop{
		License: m.license, SortKey: key, Fingerprint: m.judgement(rt, key), Reason: rapid.SampledFrom([]string{"", "because"}).Draw(rt, "reason"), At: now(),
	}
	want := change(m.rows, key, metering.RowFromItem, x.Holds, x.Apply, metering.Row.Item)
	got, err := s.DropRow(rt.Context(), x)
	same(rt, "DropRow", want, must(rt, got, err))
}

func (m *model) carryRow(rt *rapid.T, s Store) {
	g := m.group(rt)
	key := g.RowKey(g.Hour.Second(rapid.IntRange(0, 2).Draw(rt, "second")))
	x := metering.Carry{
		License: m.license, SortKey: key, Fingerprint: m.judgement(rt, key), Times: rapid.IntRange(0, 1).Draw(rt, "times"),
		Keeps: int64(rapid.IntRange(0, 3).Draw(rt, "keeps")), Covered: rapid.Bool().Draw(rt, "covered"), Reason: "carried", Token: rapid.SampledFrom([]string{"one", "two"}).Draw(rt, "token"),
		Target: (hour() + 1).Second(rapid.IntRange(0, 3).Draw(rt, "target")), Quantity: 2, TTL: quantity(rt), At: now(),
	}
	if rapid.Bool().Draw(rt, "tagged") {
		x.Allocations = []metering.Allocation{{Quantity: 2, Tags: []metering.Tag{{Key: "a", Value: "b"}}}}
	}
	record := metering.RecordFromItem(m.records[g.RecordKey()])
	if _, there := m.records[g.RecordKey()]; !there && rapid.Bool().Draw(rt, "committed") {
		record = metering.NewRecord(g, 3)
		m.records[g.RecordKey()] = record.Item()
		must(rt, 0, s.PutRecord(rt.Context(), record))
	}
	x.Manifest = rapid.SampledFrom([]string{record.Manifest, record.Manifest, record.Manifest, "v1 0 0"}).Draw(rt, "judged manifest")
	list, _ := record.Carried()
	x.Listed = max(0, len(list)-rapid.IntRange(0, 3).Draw(rt, "listed")/3)
	want := m.carry(x)
	got, err := s.CarryRow(rt.Context(), x)
	same(rt, "CarryRow", want, must(rt, got, err))
}

func (m *model) carry(x metering.Carry) metering.Outcome[metering.Row] {
	stored, committed := m.records[x.RecordKey()]
	record := metering.RecordFromItem(stored)
	switch {
	case committed && x.Shows(record):
		return metering.Outcome[metering.Row]{Done: true}
	case !committed || !x.HoldsOf(record):
		return metering.Outcome[metering.Row]{}
	}
	_, taken := m.rows[x.TargetKey()]
	want := change(m.rows, x.SortKey, metering.RowFromItem, func(r metering.Row) bool { return !taken && x.Holds(r) }, x.Apply, metering.Row.Item)
	if want.Done {
		m.rows[x.TargetKey()] = x.Row().Item()
		m.records[x.RecordKey()] = x.Note(record).Item()
	}
	return want
}
