package metering

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func newFlush(quantity int64, allocations ...Allocation) Flush {
	g := Group{License: licenseA, Account: "111122223333", Dimension: "api_calls"}
	s, _ := ParseSecond("2026-03-10T14:05:59")
	f := NewFlush(g, s, quantity, "token")
	f.Allocations, f.At = allocations, writtenAt()
	return f
}

func TestFlushMakesTheRow(t *testing.T) {
	t.Parallel()
	f := newFlush(5)
	if f.Refused(nil) != nil || f.SortKey() != "111122223333#api_calls#2026-03-10T14:05:59" || f.Group.Hour.String() != "2026-03-10T14" {
		t.Fatalf("%+v: %v", f, f.Refused(nil))
	}
	want := NewRow(f.Group, f.Second, 5)
	want.Flushes, want.CreatedAt, want.UpdatedAt = []string{"token"}, "2026-03-10T15:23:00Z", "2026-03-10T15:23:00Z"
	got := f.Apply(nil)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.Validate(writtenAt().Add(time.Hour)) != "" || !f.Shows(got) || f.Shows(want.with("other")) {
		t.Errorf("the row is %q, shown %v", got.Validate(writtenAt()), f.Shows(got))
	}
}

func (r Row) with(tokens ...string) Row {
	r.Flushes = tokens
	return r
}

func TestFlushAddsToTheRow(t *testing.T) {
	t.Parallel()
	tagged := []Allocation{{Quantity: 2, Tags: []Tag{{"team", "blue"}}}}
	f := newFlush(2, tagged...)
	old := NewRow(f.Group, f.Second, 3).with("before")
	old.Allocations, old.Pending, old.Status, old.StatusReason = []Allocation{{Quantity: 3}}, "", Aggregated, "because"
	old.Other, old.CreatedAt = Item{"note": "kept", AttrPending: number(7)}, "2026-03-10T14:06:00Z"
	before := old.Item()

	got := f.Apply(&old)
	want := old.with("before", "token")
	want.Quantity, want.Allocations, want.Pending = Units(5), slices.Concat(old.Allocations, tagged), "2026-03-10T14"
	want.UpdatedAt, want.Other = "2026-03-10T15:23:00Z", Item{"note": "kept"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(before, old.Item()); diff != "" {
		t.Errorf("the old row was changed: %s", diff)
	}
}

// A row of nothing that were tagged could not take untagged usage any more.
func TestFlushOfNothingIsUntagged(t *testing.T) {
	t.Parallel()
	zero := newFlush(0, Allocation{Quantity: 0, Tags: []Tag{{"a", "b"}}})
	row := zero.Apply(nil)
	if len(row.Allocations) > 0 {
		t.Errorf("a flush of 0 left the allocations %v", row.Allocations)
	}
	next := newFlush(3)
	if err := next.Refused(&row); err != nil {
		t.Fatal(err)
	}
	if row = next.Apply(&row); row.Validate(writtenAt().Add(time.Hour)) != "" {
		t.Errorf("untagged usage on top of it is %s", row.Validate(writtenAt().Add(time.Hour)))
	}
}

func TestFlushRefused(t *testing.T) {
	t.Parallel()
	some := Allocation{Quantity: 1, Tags: []Tag{{"a", "b"}}}
	row := func(change func(*Row)) *Row {
		f := newFlush(0)
		r := NewRow(f.Group, f.Second, 3)
		change(&r)
		return &r
	}
	full := make([]string, MaxFlushes)
	for _, tt := range []struct {
		name  string
		flush Flush
		old   *Row
		want  error
	}{
		{"nothing there", newFlush(MaxQuantity), nil, nil},
		{"negative", newFlush(-1), nil, ErrRowQuantity},
		{"more than a record holds", newFlush(MaxQuantity + 1), nil, ErrRowQuantity},
		{"together more than a record holds", newFlush(MaxQuantity - 2), row(func(*Row) {}), ErrRowQuantity},
		{"together just what a record holds", newFlush(MaxQuantity - 3), row(func(*Row) {}), nil},
		{"untagged to untagged", newFlush(1), row(func(*Row) {}), nil},
		{"tagged to untagged", newFlush(1, some), row(func(*Row) {}), ErrMixedAllocations},
		{"untagged to tagged", newFlush(1), row(func(r *Row) { r.Allocations = []Allocation{some} }), ErrMixedAllocations},
		{"tagged to tagged", newFlush(1, some), row(func(r *Row) { r.Allocations = []Allocation{some} }), nil},
		{"a zero to tagged", newFlush(0), row(func(r *Row) { r.Allocations = []Allocation{some} }), nil},
		{"tagged to a zero", newFlush(1, some), row(func(r *Row) { r.Quantity = Units(0) }), nil},
		{"to allocations that cannot be read", newFlush(1, some), row(func(r *Row) { r.Other = Item{AttrAllocations: "x"} }), ErrMixedAllocations},
		{"to a row without quantity", newFlush(1), row(func(r *Row) { r.Quantity = Quantity{} }), nil},
		{"to text", newFlush(1), row(func(r *Row) { r.Quantity, r.Other = Quantity{}, Item{AttrQuantity: "3"} }), ErrNoNumber},
		{"to null", newFlush(1), row(func(r *Row) { r.Quantity, r.Other = Quantity{}, Item{AttrQuantity: nil} }), ErrNoNumber},
		{"to a negative number", newFlush(1), row(func(r *Row) { r.Quantity = Units(-3) }), ErrNoNumber},
		{"more allocations than a row takes", newFlush(1, some), row(func(r *Row) { r.Allocations = make([]Allocation, maxAllocations) }), ErrRowAllocations},
		{"of another customer", newFlush(1), row(func(r *Row) { r.CustomerIdentifier = "c-2" }), ErrRowIdentifier},
		{"of nobody who can be read", newFlush(1), row(func(r *Row) { r.Other = Item{AttrCustomerIdentifier: number(2)} }), ErrRowIdentifier},
		{"to a dropped row", newFlush(1), row(func(r *Row) { r.Dropped = true }), ErrRowDropped},
		{"nothing, to a dropped row", newFlush(0), row(func(r *Row) { r.Dropped = true }), ErrRowDropped},
		{"to a row that says something else of it", newFlush(1), row(func(r *Row) { r.Other = Item{AttrDropped: "no"} }), nil},
		{"one flush more", newFlush(1), row(func(r *Row) { r.Flushes = full[1:] }), nil},
		{"one flush too many", newFlush(1), row(func(r *Row) { r.Flushes = full }), ErrRowFull},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.flush.Refused(tt.old); !errors.Is(got, tt.want) || tt.want == nil && got != nil {
				t.Errorf("refused: %v, want %v", got, tt.want)
			}
		})
	}
}

func TestMergeAllocations(t *testing.T) {
	t.Parallel()
	got := MergeAllocations(
		[]Allocation{{Quantity: 2, Tags: []Tag{{"b", "2"}, {"a", "1"}}}, {Quantity: 1}},
		[]Allocation{{Quantity: 3, Tags: []Tag{{"a", "1"}, {"b", "2"}}}, {Quantity: 4, Tags: []Tag{}}},
	)
	want := []Allocation{{Quantity: 5}, {Quantity: 5, Tags: []Tag{{"a", "1"}, {"b", "2"}}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
