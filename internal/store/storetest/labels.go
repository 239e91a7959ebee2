package storetest

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

func labelContract() []contract {
	return []contract{
		{"a label is written where its condition holds", labelConditions},
		{"a label written twice shows itself", labelReplay},
		{"F27: no write makes an item", noGhosts},
		{"unknown and wrongly typed attributes are kept", labelsKeepTheRest},
		{"lists and maps are judged as they were read", labelNested},
		{"audit times are set once and updated", rowAuditTimes},
		{"3 and 3.0 are the same quantity", labelDecimals},
		{"a bucket is mended only where it is wrong", rebucketConditions},
		{"of many writers of one marker one wins", labelRace},
	}
}

func label(r metering.Row, marker bool) metering.Label {
	return metering.Label{
		License: r.License, SortKey: r.SortKey, Marker: marker, Quantity: r.Quantity,
		Status: metering.Aggregated, Reason: metering.AggregatedReason(5, 1), At: now(),
	}
}

func labelConditions(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	waiting := row(g, 0, 5)
	grown := waiting
	grown.Quantity = metering.Units(8)
	late := waiting
	late.Pending, late.Status, late.LateQuantity = "", metering.LateUsage, metering.Units(5)
	text := metering.RowFromItem(strange(g, 0))
	mended := text
	mended.Other = nil
	mended.Quantity = metering.Units(7)
	judged := label(text, true)
	judged.Fingerprint, judged.Status, judged.Reason = text.Fingerprint(), metering.RejectedClientSide, string(metering.NonNumericQuantity)
	lateLabel := label(grown, true)
	lateLabel.Status, lateLabel.LateQuantity = metering.LateUsage, metering.Units(3)

	tests := []struct {
		name   string
		stored metering.Row
		label  metering.Label
		done   bool
	}{
		{"waiting, quantity as read", waiting, label(waiting, true), true},
		{"with a late quantity", grown, lateLabel, true},
		{"F7: grown in between", grown, label(waiting, true), false},
		{"marker gone", late, label(waiting, true), false},
		{"cleanup needs no marker and replaces a label", late, label(waiting, false), true},
		{"cleanup needs the quantity", grown, label(waiting, false), false},
		{"no number is no condition", text, label(text, false), false},
		{"as judged", text, judged, true},
		{"mended in between", mended, judged, false},
	}
	for _, tt := range tests {
		put(t, s, tt.stored)
		got, err := s.LabelRow(t.Context(), tt.label)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		want, left := metering.Outcome[metering.Row]{Done: true}, tt.label.Apply(tt.stored)
		if !tt.done {
			want, left = metering.Outcome[metering.Row]{Old: &tt.stored}, tt.stored
		}
		same(t, tt.name+": outcome", want, got)
		same(t, tt.name+": row", &left, getRow(t, s, licenseA, waiting.SortKey))
	}
}

func labelReplay(t *testing.T, s Store) {
	r := row(group(licenseA, "api_calls"), 0, 5)
	put(t, s, r)
	l := label(r, true)
	first, err := s.LabelRow(t.Context(), l)
	if must(t, first, err); !first.Done {
		t.Fatal("the first write was refused")
	}
	again, err := s.LabelRow(t.Context(), l)
	if must(t, again, err); again.Done || again.Old == nil || !l.Shows(*again.Old) {
		t.Errorf("the second write: %+v, want it refused and the label shown", again)
	}
	other := l
	other.Status = metering.LateUsage
	third, err := s.LabelRow(t.Context(), other)
	if must(t, third, err); third.Done || third.Old == nil || other.Shows(*third.Old) {
		t.Errorf("another label: %+v, want it refused and not shown", third)
	}
}

func noGhosts(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	r, rec := row(g, 0, 5), record(g, 5)
	neighbour := row(g, 1, 1)
	neighbourRecord := record(group(licenseA, "storage"), 1)
	put(t, s, neighbour)
	putRecords(t, s, neighbourRecord)
	fingerprinted := label(r, true)
	fingerprinted.Fingerprint = r.Fingerprint()
	for _, l := range []metering.Label{label(r, true), label(r, false), fingerprinted} {
		got, err := s.LabelRow(t.Context(), l)
		same(t, "LabelRow", missingRow, must(t, got, err))
	}
	moved, err := s.RebucketRow(t.Context(), metering.Rebucket{License: r.License, SortKey: r.SortKey, From: "", To: r.Pending, At: now()})
	same(t, "RebucketRow", missingRow, must(t, moved, err))
	sent, err := s.MarkSent(t.Context(), send(rec))
	same(t, "MarkSent", missingRecord, must(t, sent, err))
	for _, f := range []metering.Finish{finish(rec, metering.Success), finish(rec, metering.DuplicateRecord)} {
		got, err := s.FinishRecord(t.Context(), f)
		same(t, "FinishRecord", missingRecord, must(t, got, err))
	}
	if got := getRow(t, s, r.License, r.SortKey); got != nil {
		t.Errorf("a row came into being: %+v", got)
	}
	if got := getRecord(t, s, g); got != nil {
		t.Errorf("a record came into being: %+v", got)
	}
	same(t, "rows", []metering.Row{neighbour}, collect(t, s.LicenseRows(t.Context(), licenseA)))
	same(t, "records", []metering.Record{neighbourRecord}, collect(t, s.LicenseRecords(t.Context(), licenseA)))
}

func labelsKeepTheRest(t *testing.T, s Store) {
	r := metering.RowFromItem(strange(group(licenseA, "api_calls"), 0))
	put(t, s, r)
	move := metering.Rebucket{License: r.License, SortKey: r.SortKey, From: r.Pending, To: (hour() + 1).String(), At: now()}
	moved, err := s.RebucketRow(t.Context(), move)
	if must(t, moved, err); !moved.Done {
		t.Fatal("RebucketRow was refused")
	}
	want := move.Apply(r)
	same(t, "rebucketed", &want, getRow(t, s, r.License, r.SortKey))

	l := label(r, true)
	l.Fingerprint, l.Status, l.Reason = getRow(t, s, r.License, r.SortKey).Fingerprint(), metering.RejectedClientSide, string(metering.NonNumericQuantity)
	labelled, err := s.LabelRow(t.Context(), l)
	if must(t, labelled, err); !labelled.Done {
		t.Fatal("LabelRow was refused")
	}
	got := getRow(t, s, r.License, r.SortKey)
	for _, name := range []string{metering.AttrFlushes, "ttl", "price", "nested", metering.AttrQuantity, metering.AttrAccount, metering.AttrAllocations} {
		if !metering.SameValue(got.Other[name], strange(group(licenseA, "api_calls"), 0)[name]) {
			t.Errorf("attribute %s is %v now", name, got.Other[name])
		}
	}
}

// What was judged may be a list or a map, well-formed or not.
func labelNested(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	tagged := row(g, 0, 7)
	tagged.Allocations = []metering.Allocation{{Quantity: 5}, {Quantity: 7, Tags: []metering.Tag{{Key: "team", Value: "blue"}}}}
	regrouped := tagged
	regrouped.Allocations = []metering.Allocation{{Quantity: 5}, {Quantity: 7, Tags: []metering.Tag{{Key: "team", Value: "red"}}}}
	odd := row(g, 0, 7)
	odd.Other = metering.Item{metering.AttrAllocations: map[string]any{"AllocatedUsageQuantity": json.Number("7"), "Tags": []any{nil, true}}}
	half := row(g, 0, 7)
	half.Other = metering.Item{metering.AttrAllocations: []any{map[string]any{"AllocatedUsageQuantity": json.Number("2.5")}}}
	for _, judged := range []metering.Row{tagged, odd, half} {
		l := label(judged, true)
		l.Fingerprint, l.Status, l.Reason = judged.Fingerprint(), metering.RejectedClientSide, "because"
		for _, stored := range []metering.Row{tagged, regrouped, odd, half} {
			put(t, s, stored)
			want, left := metering.Outcome[metering.Row]{Old: &stored}, stored
			if stored.Fingerprint() == judged.Fingerprint() {
				want, left = metering.Outcome[metering.Row]{Done: true}, l.Apply(stored)
			}
			got, err := s.LabelRow(t.Context(), l)
			same(t, "LabelRow", want, must(t, got, err))
			same(t, "row", &left, getRow(t, s, licenseA, stored.SortKey))
		}
	}
}

func rowAuditTimes(t *testing.T, s Store) {
	r := row(group(licenseA, "api_calls"), 0, 5)
	put(t, s, r)
	if got := getRow(t, s, r.License, r.SortKey); got.CreatedAt != "" || got.UpdatedAt != "" {
		t.Errorf("a seller's row got audit times: %q, %q", got.CreatedAt, got.UpdatedAt)
	}
	l := label(r, true)
	for i, want := range []string{"2026-03-10T15:20:00Z", "2026-03-10T15:35:00Z"} {
		l.Marker, l.At = false, now().Add(time.Duration(i)*15*time.Minute)
		out, err := s.LabelRow(t.Context(), l)
		if must(t, out, err); !out.Done {
			t.Fatal("LabelRow was refused")
		}
		got := getRow(t, s, r.License, r.SortKey)
		if got.CreatedAt != "2026-03-10T15:20:00Z" || got.UpdatedAt != want {
			t.Errorf("write %d: created %q, updated %q", i+1, got.CreatedAt, got.UpdatedAt)
		}
	}
}

func labelDecimals(t *testing.T, s Store) {
	r := row(group(licenseA, "api_calls"), 0, 3)
	for _, stored := range []json.Number{"3", "3.0", "3e0", "0.3E1", "3.000"} {
		item := r.Item()
		item[metering.AttrQuantity] = stored
		put(t, s, metering.RowFromItem(item))
		out, err := s.LabelRow(t.Context(), label(r, true))
		if must(t, out, err); !out.Done {
			t.Errorf("a label for 3 is refused by %s", stored)
		}
	}
	for _, stored := range []any{json.Number("3.5"), "3", true, nil} {
		item := r.Item()
		item[metering.AttrQuantity] = stored
		put(t, s, metering.RowFromItem(item))
		out, err := s.LabelRow(t.Context(), label(r, true))
		if must(t, out, err); out.Done {
			t.Errorf("a label for 3 is taken by %v", stored)
		}
	}
}

func rebucketConditions(t *testing.T, s Store) {
	r := row(group(licenseA, "api_calls"), 0, 5)
	right := r.Pending
	r.Pending = (hour() + 2).String()
	put(t, s, r)
	b := metering.Rebucket{License: r.License, SortKey: r.SortKey, From: (hour() + 3).String(), To: right, At: now()}
	out, err := s.RebucketRow(t.Context(), b)
	same(t, "from a bucket where it is not", metering.Outcome[metering.Row]{Old: &r}, must(t, out, err))
	b.From = r.Pending
	out, err = s.RebucketRow(t.Context(), b)
	same(t, "from its bucket", metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
	out, err = s.RebucketRow(t.Context(), b)
	if must(t, out, err); out.Done || out.Old == nil || out.Old.Pending != right {
		t.Errorf("once more: %+v, want it refused and the right bucket shown", out)
	}
}

func labelRace(t *testing.T, s Store) {
	r := row(group(licenseA, "api_calls"), 0, 5)
	put(t, s, r)
	var (
		mu   sync.Mutex
		won  []string
		lost []metering.Outcome[metering.Row]
		wg   sync.WaitGroup
	)
	for i := range 8 {
		wg.Go(func() {
			l := label(r, true)
			l.Reason = strings.Repeat("x", i+1)
			out, err := s.LabelRow(t.Context(), l)
			mu.Lock()
			defer mu.Unlock()
			if must(errorsOnly{t}, out, err); out.Done {
				won = append(won, l.Reason)
			} else {
				lost = append(lost, out)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d writers won, want 1", len(won))
	}
	for _, out := range lost {
		if out.Old == nil || out.Old.StatusReason != won[0] {
			t.Errorf("a loser was shown %+v, want the label of the winner", out.Old)
		}
	}
}
