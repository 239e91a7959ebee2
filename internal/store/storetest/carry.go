package storetest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// carryContract is what a store keeps that writes two rows at once.
func carryContract() []contract {
	return []contract{
		{"late usage is carried, both rows at once", carryLate},
		{"a carry is written where its conditions hold", carryConditions},
		{"a carry to a second that is taken", carryTaken},
		{"of many carries of a row one is written", carryRace},
		{"of carries of two rows to one second one is written", carryCrowd},
		{"a carry is written where the record is as it was judged", carryRecordConditions},
		{"a source that is put once more is not carried once more", carryPutAgain},
		{"case 32: a source without room for its trace", carryTooLarge},
		{"case 32: a record without room for its list", carryRecordTooLarge},
	}
}

// late is a row of a group that came after its hour was committed.
func late(g metering.Group, offset int, quantity int64) metering.Row {
	r := rejected(g, offset, quantity)
	r.Status, r.StatusReason = metering.LateUsage, metering.LateReason
	return r
}

// hourRecord is the record of the group's hour. It holds 3 units of the row at second 9, and none of any other.
func hourRecord(g metering.Group) metering.Record {
	r := record(g, 3)
	r.Manifest, r.Pending, r.Status = "v1 1 3 9:3", "", metering.Success
	return r
}

// carryAt is the moment at which usage is carried, a minute into the hour after now.
func carryAt() time.Time { return now().Add(41 * time.Minute) }

// committed puts the hour's record.
func committed(t *testing.T, s Store, g metering.Group) metering.Record {
	t.Helper()
	record := hourRecord(g)
	putRecords(t, s, record)
	return record
}

func carrying(t *testing.T, s Store, r metering.Row, g metering.Group, offset int) metering.Carry {
	t.Helper()
	record, err := s.Record(t.Context(), g)
	if must(t, record, err) == nil {
		t.Fatal("there is no record")
	}
	x, obstacle := metering.CarryOf(r, record, metering.Rules{}, metering.HourOf(carryAt()).Second(offset), carryAt())
	if obstacle != "" {
		t.Fatalf("%s cannot be carried: %s", r.SortKey, obstacle)
	}
	x.Token = "token of " + r.SortKey
	return x
}

func carryLate(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	record := committed(t, s, g)
	tagged := late(g, 0, 5)
	tagged.Allocations = []metering.Allocation{{Quantity: 2}, {Quantity: 3, Tags: []metering.Tag{{Key: "team", Value: "blue"}}}}
	tagged.Other, tagged.Flushes = metering.Item{"invoice": "A-1", metering.AttrTTL: json.Number("1773155999")}, []string{"one"}
	grown := late(g, 9, 10)
	grown.LateQuantity = metering.Units(7)
	decimals := metering.RowFromItem(func() metering.Item {
		item := late(g, 2, 5).Item()
		item[metering.AttrQuantity] = json.Number("5.0")
		return item
	}())
	for offset, r := range []metering.Row{tagged, grown, decimals} {
		put(t, s, r)
		x := carrying(t, s, r, g, offset)
		out, err := s.CarryRow(t.Context(), x)
		same(t, r.SortKey, metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
		source, target := x.Apply(r), x.Row()
		record = x.Note(record)
		got, err := s.Record(t.Context(), g)
		same(t, r.SortKey+": record", &record, must(t, got, err))
		same(t, r.SortKey+": source", &source, getRow(t, s, licenseA, r.SortKey))
		same(t, r.SortKey+": target", &target, getRow(t, s, licenseA, x.TargetKey()))
		out, err = s.CarryRow(t.Context(), x) // its answer was lost
		same(t, r.SortKey+": again", metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
		same(t, r.SortKey+": source after that", &source, getRow(t, s, licenseA, r.SortKey))
		same(t, r.SortKey+": target after that", &target, getRow(t, s, licenseA, x.TargetKey()))
	}
	if keys := pendingKeys(t, s, metering.HourOf(carryAt()), licenseA); len(keys) != 3 {
		t.Errorf("there wait %q", keys)
	}

	// More comes into a source, is late again, and is carried again.
	f := metering.NewFlush(g, second(9), 2, "more")
	f.At = now()
	if got := s.FlushRows(t.Context(), []metering.Flush{f}); !got[0].Done {
		t.Fatalf("flush: %+v", got)
	}
	more := getRow(t, s, licenseA, grown.SortKey)
	l, changed := metering.Covered(*more, 3, "total")
	labelled, err := s.LabelRow(t.Context(), l)
	if must(t, labelled, err); !changed || !labelled.Done {
		t.Fatalf("label: %+v", labelled)
	}
	again := carrying(t, s, l.Apply(*more), g, 30)
	out, err := s.CarryRow(t.Context(), again)
	same(t, "more", metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
	source := again.Apply(l.Apply(*more))
	same(t, "source of more", &source, getRow(t, s, licenseA, grown.SortKey))
}

func carryConditions(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	committed(t, s, g)
	r := late(g, 0, 5)
	x := carrying(t, s, r, g, 0)
	changes := changedRows()
	delete(changes, "late")
	delete(changes, "another reason") // which is text
	changes["rejected"] = func(r *metering.Row) { r.Status = metering.RejectedClientSide }
	changes["aggregated"] = func(r *metering.Row) { r.Status = metering.Aggregated }
	changes["allocations"] = func(r *metering.Row) { r.Allocations = []metering.Allocation{{Quantity: 5}} }
	changes["a trace"] = func(r *metering.Row) {
		r.Other = metering.Item{metering.AttrCarriedTo: []any{map[string]any{"at": "2026-03-10T15:30:00Z"}}}
	}
	changes["no trace of ours"] = func(r *metering.Row) { r.Other = metering.Item{metering.AttrCarriedTo: "never"} }
	for name, change := range changes {
		stored := r
		change(&stored)
		put(t, s, stored)
		out, err := s.CarryRow(t.Context(), x)
		same(t, name, metering.Outcome[metering.Row]{Old: &stored}, must(t, out, err))
		same(t, name+": source", &stored, getRow(t, s, licenseA, r.SortKey))
		same(t, name+": target", (*metering.Row)(nil), getRow(t, s, licenseA, x.TargetKey()))
	}
	if err := s.DeleteRow(t.Context(), licenseA, r.SortKey); err != nil {
		t.Fatal(err)
	}
	out, err := s.CarryRow(t.Context(), x)
	same(t, "no row", missingRow, must(t, out, err))
	same(t, "target of no row", (*metering.Row)(nil), getRow(t, s, licenseA, x.TargetKey()))
}

func carryRecordConditions(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	record, r := committed(t, s, g), late(g, 0, 5)
	put(t, s, r)
	x := carrying(t, s, r, g, 0)
	for name, change := range map[string]func(*metering.Record){
		"another manifest": func(r *metering.Record) { r.Manifest = "v1 1 3 8:3" },
		"no manifest":      func(r *metering.Record) { r.Manifest = "" },
		"another carry": func(r *metering.Record) {
			other := x
			other.Token = "another"
			*r = other.Note(*r)
		},
		"no list of ours": func(r *metering.Record) { r.Other = metering.Item{metering.AttrCarried: "never"} },
	} {
		stored := record
		change(&stored)
		putRecords(t, s, stored)
		out, err := s.CarryRow(t.Context(), x)
		same(t, name, missingRow, must(t, out, err))
		same(t, name+": source", &r, getRow(t, s, licenseA, r.SortKey))
		same(t, name+": target", (*metering.Row)(nil), getRow(t, s, licenseA, x.TargetKey()))
		got, err := s.Record(t.Context(), g)
		same(t, name+": record", &stored, must(t, got, err))
	}
	if err := s.DeleteRecord(t.Context(), licenseA, record.SortKey); err != nil {
		t.Fatal(err)
	}
	out, err := s.CarryRow(t.Context(), x)
	same(t, "no record", missingRow, must(t, out, err))
	same(t, "no record: source", &r, getRow(t, s, licenseA, r.SortKey))
	refused := record // what becomes of it otherwise is nothing to the carry
	refused.Status, refused.StatusReason = metering.CustomerNotSubscribed, "because"
	putRecords(t, s, refused)
	out, err = s.CarryRow(t.Context(), x)
	same(t, "a refused record", metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
}

// carryPutAgain: the record alone remembers it. The write that was judged before is not made again, and no other can be judged.
func carryPutAgain(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	committed(t, s, g)
	r := late(g, 0, 5)
	put(t, s, r)
	x := carrying(t, s, r, g, 0)
	out, err := s.CarryRow(t.Context(), x)
	same(t, "first", metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
	put(t, s, r)
	out, err = s.CarryRow(t.Context(), x)
	same(t, "the same write", metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
	other := x
	other.Token, other.Target = "another", x.Target+1
	out, err = s.CarryRow(t.Context(), other)
	same(t, "another's", missingRow, must(t, out, err))
	same(t, "source", &r, getRow(t, s, licenseA, r.SortKey))
	same(t, "another's target", (*metering.Row)(nil), getRow(t, s, licenseA, other.TargetKey()))
	record, err := s.Record(t.Context(), g)
	if _, o := metering.CarryOf(r, must(t, record, err), metering.Rules{}, other.Target, carryAt()); o != metering.RowCarried {
		t.Errorf("it may be carried again: %q", o)
	}
}

func carryTaken(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	committed(t, s, g)
	r := late(g, 0, 5)
	x := carrying(t, s, r, g, 0)
	current := g
	current.Hour = metering.HourOf(carryAt())
	taken := row(current, 0, 9)
	put(t, s, r, taken)
	out, err := s.CarryRow(t.Context(), x)
	same(t, "outcome", metering.Outcome[metering.Row]{Old: &r}, must(t, out, err))
	if out.Old == nil || !x.Holds(*out.Old) {
		t.Error("it does not say that the source is as it was")
	}
	same(t, "source", &r, getRow(t, s, licenseA, r.SortKey))
	same(t, "target", &taken, getRow(t, s, licenseA, taken.SortKey))
}

// carryRace lets several operators carry one row, to seconds of their own.
func carryRace(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	committed(t, s, g)
	r := late(g, 0, 5)
	put(t, s, r)
	next := make(chan metering.Carry, 8)
	for i := range cap(next) {
		next <- carrying(t, s, r, g, i/2) // two for each second
	}
	outcomes := together(t, cap(next), func() (metering.Outcome[metering.Row], error) { return s.CarryRow(t.Context(), <-next) })
	done := 0
	for _, out := range outcomes {
		if out.Done {
			done++
		} else if out.Old != nil && out.Old.Status != metering.Aggregated { // none where the record was looked at first, and tells of another's
			t.Errorf("a loser: %+v", out)
		}
	}
	current := g
	current.Hour = metering.HourOf(carryAt())
	targets := collect(t, s.GroupRows(t.Context(), current))
	if len(targets) != 1 || targets[0].Quantity != metering.Units(5) || done < 1 || done > 2 { // both of one second are the same carry
		t.Errorf("%d were carried, to %+v", done, targets)
	}
	trace, _ := getRow(t, s, licenseA, r.SortKey).Other[metering.AttrCarriedTo].([]any)
	if len(trace) != 1 {
		t.Errorf("trace %v", trace)
	}
}

// carryCrowd lets two rows be carried to the same second at once: what is lost of neither stays where it was.
func carryCrowd(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	committed(t, s, g)
	rows := []metering.Row{late(g, 0, 5), late(g, 1, 7)}
	put(t, s, rows...)
	next := make(chan metering.Carry, 2)
	for _, r := range rows {
		next <- carrying(t, s, r, g, 0)
	}
	done := 0
	for _, out := range together(t, 2, func() (metering.Outcome[metering.Row], error) { return s.CarryRow(t.Context(), <-next) }) {
		if out.Done {
			done++
		} else if out.Old != nil && out.Old.Status != metering.LateUsage {
			t.Errorf("the loser: %+v", out)
		}
	}
	var units int64
	for _, r := range collect(t, s.LicenseRows(t.Context(), licenseA)) {
		units += r.Quantity.N
	}
	if done != 1 || units != 12 {
		t.Errorf("%d were carried, and the rows hold %d units", done, units)
	}
}

func carryTooLarge(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	committed(t, s, g)
	r := late(g, 0, 5)
	r.Other = metering.Item{"note": ""}
	r.Other["note"] = strings.Repeat("x", store.MaxItemBytes-store.RowSize(&r)-50)
	put(t, s, r)
	x := carrying(t, s, r, g, 0)
	if out, err := s.CarryRow(t.Context(), x); !errors.Is(err, metering.ErrTooLarge) || out.Done {
		t.Errorf("%+v, %v, want %v", out, err, metering.ErrTooLarge)
	}
	same(t, "source", &r, getRow(t, s, licenseA, r.SortKey))
	same(t, "target", (*metering.Row)(nil), getRow(t, s, licenseA, x.TargetKey()))
}

func carryRecordTooLarge(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	record, r := hourRecord(g), late(g, 0, 5)
	record.Other = metering.Item{"note": ""}
	record.Other["note"] = strings.Repeat("x", store.MaxItemBytes-store.RecordSize(&record)-50)
	putRecords(t, s, record)
	put(t, s, r)
	x := carrying(t, s, r, g, 0)
	if out, err := s.CarryRow(t.Context(), x); !errors.Is(err, metering.ErrTooLarge) || out.Done {
		t.Errorf("%+v, %v, want %v", out, err, metering.ErrTooLarge)
	}
	same(t, "source", &r, getRow(t, s, licenseA, r.SortKey))
	same(t, "target", (*metering.Row)(nil), getRow(t, s, licenseA, x.TargetKey()))
}
