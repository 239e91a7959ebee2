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
		{"case 32: a source without room for its trace", carryTooLarge},
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

func carrying(t *testing.T, r metering.Row, g metering.Group, offset int) metering.Carry {
	t.Helper()
	record := hourRecord(g)
	x, obstacle := metering.CarryOf(r, &record, metering.Rules{}, metering.HourOf(carryAt()).Second(offset), carryAt())
	if obstacle != "" {
		t.Fatalf("%s cannot be carried: %s", r.SortKey, obstacle)
	}
	return x
}

func carryLate(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
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
		x := carrying(t, r, g, offset)
		out, err := s.CarryRow(t.Context(), x)
		same(t, r.SortKey, metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
		source, target := x.Apply(r), x.Row()
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
	again := carrying(t, l.Apply(*more), g, 30)
	out, err := s.CarryRow(t.Context(), again)
	same(t, "more", metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
	source := again.Apply(l.Apply(*more))
	same(t, "source of more", &source, getRow(t, s, licenseA, grown.SortKey))
}

func carryConditions(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	r := late(g, 0, 5)
	x := carrying(t, r, g, 0)
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

func carryTaken(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	r := late(g, 0, 5)
	x := carrying(t, r, g, 0)
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
	r := late(g, 0, 5)
	put(t, s, r)
	next := make(chan metering.Carry, 8)
	for i := range cap(next) {
		next <- carrying(t, r, g, i/2) // two for each second
	}
	outcomes := together(t, cap(next), func() (metering.Outcome[metering.Row], error) { return s.CarryRow(t.Context(), <-next) })
	done := 0
	for _, out := range outcomes {
		if out.Done {
			done++
		} else if out.Old == nil || out.Old.Status != metering.Aggregated {
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
	rows := []metering.Row{late(g, 0, 5), late(g, 1, 7)}
	put(t, s, rows...)
	next := make(chan metering.Carry, 2)
	for _, r := range rows {
		next <- carrying(t, r, g, 0)
	}
	done := 0
	for _, out := range together(t, 2, func() (metering.Outcome[metering.Row], error) { return s.CarryRow(t.Context(), <-next) }) {
		if out.Done {
			done++
		} else if out.Old == nil || out.Old.Status != metering.LateUsage {
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
	r := late(g, 0, 5)
	r.Other = metering.Item{"note": ""}
	r.Other["note"] = strings.Repeat("x", store.MaxItemBytes-store.RowSize(&r)-50)
	put(t, s, r)
	x := carrying(t, r, g, 0)
	if out, err := s.CarryRow(t.Context(), x); !errors.Is(err, metering.ErrTooLarge) || out.Done {
		t.Errorf("%+v, %v, want %v", out, err, metering.ErrTooLarge)
	}
	same(t, "source", &r, getRow(t, s, licenseA, r.SortKey))
	same(t, "target", (*metering.Row)(nil), getRow(t, s, licenseA, x.TargetKey()))
}
