package memory_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

func TestNothingIsShared(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	fresh := func() metering.Row {
		r := row(group("api"), 0, 5)
		r.Allocations = []metering.Allocation{{Quantity: 5, Tags: []metering.Tag{{Key: "team", Value: "blue"}}}}
		r.Other = metering.Item{"nested": map[string]any{"list": []any{"text"}}}
		return r
	}
	spoil := func(r *metering.Row) {
		r.Allocations[0].Quantity, r.Allocations[0].Tags[0].Value = 6, "red"
		r.Other["nested"].(map[string]any)["list"].([]any)[0] = "other"
		r.Other["more"] = true
	}
	check := func(after string) {
		t.Helper()
		want := fresh()
		got, err := s.Row(t.Context(), want.License, want.SortKey)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", after, diff)
		}
		spoil(got)
	}
	r := fresh()
	put(t, s, r)
	spoil(&r)
	check("the caller changed what it put")
	check("the caller changed what Row returned")
	for r, err := range s.GroupRows(t.Context(), group("api")) {
		if err != nil {
			t.Fatal(err)
		}
		spoil(&r)
	}
	check("the caller changed what GroupRows yielded")
	out, err := s.LabelRow(t.Context(), metering.Label{License: r.License, SortKey: r.SortKey})
	if err != nil || out.Old == nil {
		t.Fatalf("LabelRow: %+v, %v", out, err)
	}
	spoil(out.Old)
	check("the caller changed the old item")
}

func TestUpdateRow(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	fresh := row(group("api"), 0, 1)
	add := func(old *metering.Row) (metering.Row, bool) {
		if old == nil {
			return fresh, true
		}
		r := *old
		r.Quantity.N++
		return r, true
	}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if out, err := s.UpdateRow(t.Context(), fresh.License, fresh.SortKey, add); err != nil || !out.Done || out.Old != nil {
				t.Errorf("UpdateRow: %+v, %v", out, err)
			}
		})
	}
	wg.Wait()
	want := fresh
	want.Quantity = metering.Units(50)
	check := func(after string) {
		t.Helper()
		got, err := s.Row(t.Context(), fresh.License, fresh.SortKey)
		if diff := cmp.Diff(&want, got); err != nil || diff != "" {
			t.Errorf("after %s: %v (-want +got):\n%s", after, err, diff)
		}
	}
	check("50 additions")

	out, err := s.UpdateRow(t.Context(), fresh.License, fresh.SortKey, func(old *metering.Row) (metering.Row, bool) {
		old.Quantity.N = 0
		return *old, false
	})
	if err != nil || out.Done || out.Old == nil {
		t.Errorf("a refused change: %+v, %v", out, err)
	}
	check("a refused change")

	if out, err := s.UpdateRow(t.Context(), fresh.License, fresh.SortKey, func(*metering.Row) (metering.Row, bool) { return row(group("api"), 1, 1), true }); err == nil || out.Done {
		t.Errorf("a change of the key: %+v, want an error", out)
	}
	if out, err := s.UpdateRow(t.Context(), fresh.License, fresh.SortKey, func(old *metering.Row) (metering.Row, bool) {
		old.StatusReason = strings.Repeat("x", 400*1024)
		return *old, true
	}); !errors.Is(err, metering.ErrTooLarge) || out.Done {
		t.Errorf("a change over 400 KB: %+v, %v, want %v", out, err, metering.ErrTooLarge)
	}
	check("two changes that failed")
	if none, err := s.UpdateRow(t.Context(), license, "gone", func(*metering.Row) (metering.Row, bool) { return metering.Row{}, false }); err != nil || none != (metering.Outcome[metering.Row]{}) {
		t.Errorf("a row that is not there: %+v, %v", none, err)
	}
}

func TestPutsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	large := row(group("api"), 0, 1)
	large.Other = metering.Item{"note": strings.Repeat("x", 400*1024)}
	if err := s.PutRow(t.Context(), large); !errors.Is(err, metering.ErrTooLarge) {
		t.Errorf("PutRow of a large row: %v, want %v", err, metering.ErrTooLarge)
	}
	if err := s.PutRow(t.Context(), metering.Row{License: license}); err == nil {
		t.Error("PutRow took a row without a sort key")
	}
	if err := s.PutRecord(t.Context(), metering.Record{SortKey: "a#b#c"}); err == nil {
		t.Error("PutRecord took a record without a license")
	}
	for l, err := range s.Licenses(t.Context()) {
		t.Errorf("something was stored: %s, %v", l, err)
	}
}

func TestTypedAttributeWins(t *testing.T) {
	t.Parallel()
	s := memory.New(memory.Options{})
	r := row(group("api"), 0, 1)
	r.Other = metering.Item{metering.AttrQuantity: "7", "kept": true}
	put(t, s, r)
	got, err := s.Row(t.Context(), r.License, r.SortKey)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(metering.Item{"kept": true}, got.Other); diff != "" || got.Quantity != metering.Units(1) {
		t.Errorf("quantity %v, other (-want +got):\n%s", got.Quantity, diff)
	}
}
