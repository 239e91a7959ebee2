package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/awsmp/metering/internal/metering"
)

func flushContract() []contract {
	return []contract{
		{"a flush makes the row and adds to it", flushAdds},
		{"a token counts once", flushOnce},
		{"case 37: the same flush from many at once counts once", flushRace},
		{"flushes into one row add up, whoever sends them", flushTogether},
		{"what cannot be added to is left as it is", flushRefused},
		{"a flush after a label marks the row again", flushMarksAgain},
		{"case 32: a row that grows beyond 400 KB is refused", flushTooLarge},
		{"a flush after the context is done does nothing", flushDone},
	}
}

func flush(g metering.Group, offset int, quantity int64, token string) metering.Flush {
	f := metering.NewFlush(g, g.Hour.Second(offset), quantity, token)
	f.At = now()
	return f
}

// flushOne is one flush, which must be answered.
func flushOne(t *testing.T, s Store, f metering.Flush) metering.Flushed {
	t.Helper()
	out := s.FlushRows(t.Context(), []metering.Flush{f})
	if len(out) != 1 || out[0].Err != nil {
		t.Fatalf("FlushRows: %+v", out)
	}
	return out[0]
}

func flushAdds(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	first := flush(g, 0, 5, "one")
	first.Allocations = []metering.Allocation{{Quantity: 5, Tags: []metering.Tag{{Key: "team", Value: "blue"}}}}
	second := flush(g, 0, 3, "two")
	second.Allocations = []metering.Allocation{{Quantity: 1}, {Quantity: 2, Tags: []metering.Tag{{Key: "team", Value: "red"}}}}
	other := flush(g, 7, 2, "one") // a token is the row's own: the same one may stand in another row

	want := row(g, 0, 8)
	want.Allocations = append(append([]metering.Allocation{}, first.Allocations...), second.Allocations...)
	want.Flushes, want.CreatedAt, want.UpdatedAt = []string{"one", "two"}, "2026-03-10T15:20:00Z", "2026-03-10T15:20:00Z"
	wantOther := row(g, 7, 2)
	wantOther.Flushes, wantOther.CreatedAt, wantOther.UpdatedAt = []string{"one"}, want.CreatedAt, want.UpdatedAt

	out := s.FlushRows(t.Context(), []metering.Flush{first, other, second})
	if len(out) != 3 || !out[0].Done || out[0].Row.Quantity != metering.Units(5) || out[0].Row.Flushes[0] != "one" {
		t.Fatalf("FlushRows: %+v", out)
	}
	same(t, "results", []metering.Flushed{{Done: true, Row: &wantOther}, {Done: true, Row: &want}}, out[1:])
	same(t, "rows", []metering.Row{want, wantOther}, collect(t, s.GroupRows(t.Context(), g)))
	if n := len(pendingKeys(t, s, hour(), "")); n != 2 {
		t.Errorf("%d rows wait, want 2", n)
	}
	same(t, "no flushes", []metering.Flushed(nil), s.FlushRows(t.Context(), nil))
}

func flushOnce(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	f := flush(g, 0, 5, "one")
	flushOne(t, s, f)
	flushOne(t, s, flush(g, 0, 2, "two"))
	want := getRow(t, s, licenseA, f.SortKey())
	f.Quantity = 9 // the token decides, not what came with it
	same(t, "the answer to the same token", metering.Flushed{Done: true, Row: want}, flushOne(t, s, f))
	same(t, "row", want, getRow(t, s, licenseA, f.SortKey()))
	if want.Quantity != metering.Units(7) {
		t.Errorf("quantity %v, want 7", want.Quantity)
	}
	both := s.FlushRows(t.Context(), []metering.Flush{flush(g, 1, 4, "x"), flush(g, 1, 4, "x")}) // twice in one batch
	if !both[0].Done || !both[1].Done || getRow(t, s, licenseA, g.RowKey(second(1))).Quantity != metering.Units(4) {
		t.Errorf("the same flush twice in a batch: %+v", both)
	}
}

func flushRace(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			for i := range 10 {
				if out := s.FlushRows(t.Context(), []metering.Flush{flush(g, i, 3, fmt.Sprint("token ", i))}); !out[0].Done {
					t.Errorf("FlushRows: %+v", out[0])
				}
			}
		})
	}
	all.Wait()
	for _, r := range collect(t, s.GroupRows(t.Context(), g)) {
		if r.Quantity != metering.Units(3) || len(r.Flushes) != 1 {
			t.Errorf("row %s holds %v after %d flushes, want 3 after one", r.SortKey, r.Quantity, len(r.Flushes))
		}
	}
}

func flushTogether(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	var all sync.WaitGroup
	for w := range 6 {
		all.Go(func() {
			for i := range 8 {
				if out := s.FlushRows(t.Context(), []metering.Flush{flush(g, 0, 1, fmt.Sprint(w, i)), flush(g, 1, 2, fmt.Sprint(w, i))}); !out[0].Done || !out[1].Done {
					t.Errorf("FlushRows: %+v", out)
				}
			}
		})
	}
	all.Wait()
	for i, want := range []int64{48, 96} {
		r := getRow(t, s, licenseA, g.RowKey(second(i)))
		if r == nil || r.Quantity != metering.Units(want) || len(r.Flushes) != 48 {
			t.Errorf("row %d is %+v, want %d from 48 flushes", i, r, want)
		}
	}
}

func flushRefused(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	tagged := flush(g, 0, 1, "new")
	tagged.Allocations = []metering.Allocation{{Quantity: 1}}
	full := row(g, 0, 1)
	for i := range metering.MaxFlushes {
		full.Flushes = append(full.Flushes, fmt.Sprint(i))
	}
	text := row(g, 0, 1)
	text.Quantity, text.Other = metering.Quantity{}, metering.Item{metering.AttrQuantity: "7"}
	allocated := row(g, 0, 1)
	allocated.Allocations = []metering.Allocation{{Quantity: 1}}
	for _, tt := range []struct {
		name string
		old  metering.Row
		add  metering.Flush
		want error
	}{
		{"untagged to tagged", allocated, flush(g, 0, 1, "new"), metering.ErrMixedAllocations},
		{"tagged to untagged", row(g, 0, 1), tagged, metering.ErrMixedAllocations},
		{"to text", text, flush(g, 0, 1, "new"), metering.ErrNoNumber},
		{"to a negative number", row(g, 0, -1), flush(g, 0, 1, "new"), metering.ErrNoNumber},
		{"another customer's", ofCustomer(row(g, 0, 1), "c-1"), flush(g, 0, 1, "new"), metering.ErrRowIdentifier},
		{"a dropped row", dropped(row(g, 0, 1)), flush(g, 0, 1, "new"), metering.ErrRowDropped},
		{"too many", full, flush(g, 0, 1, "new"), metering.ErrRowFull},
		{"too much", row(g, 0, metering.MaxQuantity), flush(g, 0, 1, "new"), metering.ErrRowQuantity},
	} {
		put(t, s, tt.old)
		got := flushOne(t, s, tt.add)
		if got.Done || got.Row == nil || !errors.Is(tt.add.Refused(got.Row), tt.want) {
			t.Errorf("%s: %+v", tt.name, got)
		}
		same(t, tt.name, &tt.old, getRow(t, s, licenseA, tt.old.SortKey))
	}
	none := flush(g, 1, -1, "new")
	same(t, "a negative flush", metering.Flushed{}, flushOne(t, s, none))
	if r := getRow(t, s, licenseA, none.SortKey()); r != nil {
		t.Errorf("a refused flush made the row %+v", r)
	}
	// A flush that the row has taken is done, whatever an operator did to the row since.
	took := dropped(row(g, 2, 1))
	took.Flushes = []string{"new"}
	put(t, s, took)
	if got := flushOne(t, s, flush(g, 2, 1, "new")); !got.Done {
		t.Errorf("a flush from before the row was dropped: %+v", got)
	}
	// A row that says something else in that place is not dropped.
	odd := row(g, 3, 1)
	odd.Other = metering.Item{metering.AttrDropped: "no"}
	put(t, s, odd)
	if got := flushOne(t, s, flush(g, 3, 1, "new")); !got.Done || got.Row.Quantity != metering.Units(2) || got.Row.Other[metering.AttrDropped] != "no" {
		t.Errorf("a row that was never dropped: %+v", got)
	}
	// A row of nothing is neither tagged nor untagged.
	put(t, s, row(g, 0, 0))
	if got := flushOne(t, s, tagged); !got.Done || got.Row.Quantity != metering.Units(1) {
		t.Errorf("tagged usage to a row of nothing: %+v", got)
	}
}

func dropped(r metering.Row) metering.Row {
	r.Pending, r.Status, r.Dropped = "", metering.RejectedClientSide, true
	return r
}

func ofCustomer(r metering.Row, identifier string) metering.Row {
	r.CustomerIdentifier = identifier
	return r
}

func flushMarksAgain(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	flushOne(t, s, flush(g, 0, 5, "one"))
	l := metering.Label{License: licenseA, SortKey: g.RowKey(second(0)), Marker: true, Quantity: metering.Units(5), Status: metering.Aggregated, Reason: "because", At: now()}
	out, err := s.LabelRow(t.Context(), l)
	if must(t, out, err); !out.Done {
		t.Fatal("the label was refused")
	}
	same(t, "the first token again", true, flushOne(t, s, flush(g, 0, 5, "one")).Done)
	same(t, "waiting rows after a flush that was there", []string(nil), pendingKeys(t, s, hour(), ""))
	got := flushOne(t, s, flush(g, 0, 2, "two")).Row
	if got.Pending != hour().String() || got.Status != metering.Aggregated || got.Quantity != metering.Units(7) {
		t.Errorf("after a label and a flush: %+v", got)
	}
	same(t, "waiting rows", []string{licenseA + " " + g.RowKey(second(0))}, pendingKeys(t, s, hour(), ""))
}

func flushTooLarge(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	held := row(g, 0, 1)
	held.Other = metering.Item{"note": strings.Repeat("x", 394*1024)}
	put(t, s, held)
	f := flush(g, 0, 1, strings.Repeat("t", 7000))
	out := s.FlushRows(t.Context(), []metering.Flush{f, flush(g, 1, 1, "one")})
	if !errors.Is(out[0].Err, metering.ErrTooLarge) || !out[1].Done {
		t.Errorf("FlushRows: %+v, %+v", out[0].Err, out[1])
	}
	same(t, "row", &held, getRow(t, s, licenseA, held.SortKey))
}

func flushDone(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := s.FlushRows(ctx, []metering.Flush{flush(g, 0, 1, "one"), flush(g, 1, 1, "one")})
	for _, o := range out {
		if !errors.Is(o.Err, context.Canceled) {
			t.Errorf("FlushRows: %+v, want %v", o, context.Canceled)
		}
	}
	same(t, "rows", []metering.Row(nil), collect(t, s.GroupRows(t.Context(), g)))
}
