package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// TestCarriedUnitsAreFollowed: the books of an hour that units were carried from balance as long as these are where its record says, or were
// committed there.
func TestCarriedUnitsAreFollowed(t *testing.T) {
	t.Parallel()
	current := group
	current.Hour += 3
	now := current.Hour.Start().Add(20 * time.Minute)
	record := summed(metering.Success, at(0, 7, metering.Aggregated))
	source := at(2, 11, metering.LateUsage)
	carried := func(ttl bool) (metering.Row, metering.Record, metering.Row) {
		r := source
		if ttl {
			item := r.Item()
			item[metering.AttrTTL] = at(2, 1_800_000_000, "").Item()[metering.AttrQuantity]
			r = metering.RowFromItem(item)
		}
		x, o := metering.CarryOf(r, &record, metering.Rules{}, current.Hour.Second(1), now)
		if o != "" {
			t.Fatal(o)
		}
		x.Token = "token"
		return x.Apply(r), x.Note(record), x.Row()
	}
	key := current.RowKey(current.Hour.Second(1))
	over := metering.NewRow(current, current.Hour.Second(1), 1)
	sold := func(quantity int64) *metering.Record {
		fold := metering.NewFold(current, now)
		fold.Add(metering.NewRow(current, current.Hour.Second(1), quantity))
		r, _ := fold.Record()
		return &r
	}
	replaced := []string{"11 units carried to " + key + " are not there: another row stands in its place"}
	gone := []string{"11 units carried to " + key + " are not there: the row is gone"}
	for _, tt := range []struct {
		name   string
		ttl    bool
		target func(metering.Row) *metering.Row
		record *metering.Record
		list   any // of the source's record, in the place of its own
		want   []string
	}{
		{name: "it stands there", target: func(r metering.Row) *metering.Row { return &r }},
		{name: "more came to it", target: func(r metering.Row) *metering.Row {
			r = metering.NewFlush(current, current.Hour.Second(1), 5, "more").Apply(&r)
			return &r
		}},
		{name: "another row in its place", target: func(metering.Row) *metering.Row { return &over }, want: replaced},
		{name: "carried there from elsewhere", target: func(r metering.Row) *metering.Row {
			r.Other = metering.Item{metering.AttrCarriedFrom: group.RowKey(group.Hour.Second(1))}
			return &r
		}, want: replaced},
		{name: "it is gone", want: gone},
		{name: "it is gone, as its time to live says", ttl: true},
		{name: "another row in its place, for a time", ttl: true, target: func(metering.Row) *metering.Row { return &over }, want: replaced},
		{name: "it is committed and gone", record: sold(11)},
		{name: "it is committed and written over", target: func(metering.Row) *metering.Row { return &over }, record: sold(11)},
		{name: "another row was committed", target: func(metering.Row) *metering.Row { return &over }, record: sold(10), want: replaced},
		{name: "a list that is none", list: "x", want: []string{"the record's carried, what was carried from its hour, cannot be read: restore it from a backup"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := memory.New(memory.Options{})
			left, noted, target := carried(tt.ttl)
			if tt.list != nil {
				noted.Other = metering.Item{metering.AttrCarried: tt.list}
			}
			rows, records := []metering.Row{at(0, 7, metering.Aggregated), left}, []metering.Record{noted}
			if tt.target != nil {
				rows = append(rows, *tt.target(target))
			}
			if tt.record != nil {
				records = append(records, *tt.record)
			}
			if err := s.PutRows(t.Context(), rows); err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				if err := s.PutRecord(t.Context(), r); err != nil {
					t.Fatal(err)
				}
			}
			b, err := ledger.Read(t.Context(), s, group)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, b.Findings); diff != "" || b.Balanced() != (tt.want == nil) {
				t.Errorf("balanced %v (-want +got):\n%s", b.Balanced(), diff)
			}
		})
	}
}
