package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

func labelSetContract() []contract {
	return []contract{
		{"labels are answered one by one, in their order", labelSet},
		{"a row twice in one set of labels is labelled once", labelTwice},
		{"hundreds of labels at once", manyLabels},
		{"case 32: a label that is too large loses its reason, alone", labelTooLarge},
		{"case 32: a label that is too large in bytes, not in characters", labelTooWide},
		{"case 32: a full row ends all the same", labelFullRows},
		{"sets of labels from many at once", labelSetRace},
		{"labels after the context is done do nothing", labelSetDone},
		{"case 34: a key over 1,024 bytes is refused, or kept whole", longKeys},
	}
}

func labelSet(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	waiting, grown, ended := row(g, 0, 5), row(g, 1, 8), row(g, 2, 5)
	ended.Pending, ended.Status = "", metering.LateUsage
	odd, faulty := metering.RowFromItem(strange(g, 3)), metering.RowFromItem(strange(g, 5))
	healed := row(g, 4, 5)
	healed.Pending, healed.Status = "", metering.LateUsage
	elsewhere := row(group(licenseB, "api_calls"), 0, 5)
	put(t, s, waiting, grown, ended, odd, healed, faulty, elsewhere)

	stale, judged, mended, replaced := label(grown, true), label(faulty, true), label(odd, true), label(healed, false)
	stale.Quantity = metering.Units(5)
	judged.Fingerprint, judged.Status, judged.Reason = faulty.Fingerprint(), metering.RejectedClientSide, string(metering.NonNumericQuantity)
	mended.Fingerprint = waiting.Fingerprint()
	labels := []metering.Label{
		label(row(g, 9, 5), true), label(waiting, true), stale, mended, label(ended, true), label(elsewhere, true),
		label(row(group("arn:none", "none"), 0, 5), true), judged, replaced,
	}
	done, old := func() metering.Outcome[metering.Row] { return metering.Outcome[metering.Row]{Done: true} }, func(r metering.Row) metering.Outcome[metering.Row] {
		return metering.Outcome[metering.Row]{Old: &r}
	}
	want := []metering.Outcome[metering.Row]{missingRow, done(), old(grown), old(odd), old(ended), done(), missingRow, done(), done()}
	var got []metering.Outcome[metering.Row]
	for i, l := range s.LabelRows(t.Context(), labels) {
		if l.Err != nil {
			t.Errorf("label %d: %v", i, l.Err)
		}
		got = append(got, l.Outcome)
	}
	same(t, "outcomes", want, got)
	same(t, "rows", []metering.Row{labels[1].Apply(waiting), grown, ended, odd, replaced.Apply(healed), judged.Apply(faulty)}, collect(t, s.LicenseRows(t.Context(), licenseA)))
	same(t, "the row of another license", []metering.Row{labels[5].Apply(elsewhere)}, collect(t, s.LicenseRows(t.Context(), licenseB)))
	same(t, "what waits", []string{licenseA + " " + grown.SortKey, licenseA + " " + odd.SortKey}, pendingKeys(t, s, hour(), ""))
	same(t, "no labels", []metering.Labelled(nil), s.LabelRows(t.Context(), nil))
}

// A store may write a set in any order, or at once.
func labelTwice(t *testing.T, s Store) {
	r := row(group(licenseA, "api_calls"), 0, 5)
	put(t, s, r)
	labels := []metering.Label{label(r, true), label(r, true)}
	labels[1].Status, labels[1].Reason = metering.LateUsage, "other"
	out := s.LabelRows(t.Context(), labels)
	if len(out) != 2 || out[0].Err != nil || out[1].Err != nil || out[0].Done == out[1].Done {
		t.Fatalf("LabelRows: %+v, want one to be done", out)
	}
	winner := slices.IndexFunc(out, func(l metering.Labelled) bool { return l.Done })
	want := labels[winner].Apply(r)
	same(t, "what stood against the other", &want, out[1-winner].Old)
	same(t, "row", &want, getRow(t, s, licenseA, r.SortKey))

	for _, l := range s.LabelRows(t.Context(), []metering.Label{labels[winner], labels[winner]}) { // its answer was lost, twice
		if l.Done || l.Old == nil || !labels[winner].Shows(*l.Old) {
			t.Errorf("the same label again: %+v, want it refused and shown", l)
		}
	}
}

func manyLabels(t *testing.T, s Store) {
	const total = 210
	var rows []metering.Row
	var labels []metering.Label
	for i := range total {
		r := row(group(licenseA, fmt.Sprint("dimension-", i%3)), i, int64(i))
		l := label(r, true)
		l.Reason = fmt.Sprint("reason ", i%70)
		if i%5 == 4 {
			l.Quantity = metering.Units(-1) // is refused
		}
		rows, labels = append(rows, r), append(labels, l)
	}
	must(t, 0, s.PutRows(t.Context(), rows))
	slices.Reverse(labels)
	out := s.LabelRows(t.Context(), labels)
	slices.Reverse(labels)
	slices.Reverse(out)
	if len(out) != total {
		t.Fatalf("%d results, want %d", len(out), total)
	}
	for i := range rows {
		want, left := metering.Labelled{Outcome: metering.Outcome[metering.Row]{Done: true}}, labels[i].Apply(rows[i])
		if i%5 == 4 {
			want, left = metering.Labelled{Outcome: metering.Outcome[metering.Row]{Old: &rows[i]}}, rows[i]
		}
		same(t, labels[i].SortKey+": result", want, out[i])
		rows[i] = left
	}
	same(t, "rows", inOrder(rows), inOrder(collect(t, s.LicenseRows(t.Context(), licenseA))))
	same(t, "what waits", total/5, len(pendingKeys(t, s, hour(), "")))
}

func labelTooLarge(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	// What a row may hold much of.
	note, tagged, flushed := row(g, 1, 5), row(g, 2, 5), row(g, 3, 5)
	note.Other = metering.Item{"note": strings.Repeat("x", 390*1024)}
	for range 100 {
		tagged.Allocations = append(tagged.Allocations, metering.Allocation{Tags: []metering.Tag{{Key: "team", Value: strings.Repeat("y", 3900)}}})
	}
	for i := range 100 {
		flushed.Flushes = append(flushed.Flushes, fmt.Sprint(strings.Repeat("t", 3990), i))
	}
	labelsTooLarge(t, s, row(g, 0, 5), note, tagged, flushed, row(g, 4, 5))
}

func labelTooWide(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	wide := row(g, 1, 5)
	for range 100 {
		wide.Allocations = append(wide.Allocations, metering.Allocation{Tags: []metering.Tag{{Key: "team", Value: strings.Repeat("\U0001F600", 975)}}})
	}
	labelsTooLarge(t, s, row(g, 0, 5), wide, row(g, 2, 5))
}

// labelsTooLarge labels rows of one group of which all but the first and the last have no room for a long reason.
func labelsTooLarge(t *testing.T, s Store, rows ...metering.Row) {
	last := len(rows) - 1
	put(t, s, rows...)
	var labels []metering.Label
	for _, r := range rows {
		labels = append(labels, label(r, true))
		labels[len(labels)-1].Reason = strings.Repeat("r", 30*1024)
	}
	for i, l := range s.LabelRows(t.Context(), labels) {
		if l.Err != nil || !l.Done || l.Old != nil {
			t.Errorf("label %d: %v, %v, %v", i, l.Err, l.Done, l.Old != nil)
		}
		if i > 0 && i < last {
			rows[i] = noRoom(labels[i], store.NoRoom).Apply(rows[i])
		} else {
			rows[i] = labels[i].Apply(rows[i])
		}
	}
	same(t, "rows", rows, collect(t, s.GroupRows(t.Context(), group(licenseA, "api_calls"))))

	for i, r := range rows {
		l := label(r, false)
		l.Reason = strings.Repeat("r", 400*1024)
		one, err := s.LabelRow(t.Context(), l)
		same(t, fmt.Sprintf("label %d alone", i), metering.Outcome[metering.Row]{Done: true}, must(t, one, err))
		want := noRoom(l, store.NoRoom).Apply(r)
		same(t, "its row", &want, getRow(t, s, licenseA, r.SortKey))
		one, err = s.LabelRow(t.Context(), label(r, false))
		same(t, "a shorter one", metering.Outcome[metering.Row]{Done: true}, must(t, one, err))
	}
}

func noRoom(l metering.Label, reason string) store.Labelling {
	l.Reason = reason
	return store.Labelling{Label: l, Bare: true}
}

// A row may be as full as its table allows when its label comes. It must not wait for ever.
func labelFullRows(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	full := func(offset, free int) metering.Row {
		r := row(g, offset, 5)
		r.Other = metering.Item{"note": "-"}
		r.Other["note"] = strings.Repeat("x", store.MaxItemBytes-free-store.RowSize(&r)+1)
		return r
	}
	rejected := func(r metering.Row) metering.Label {
		l := label(r, true)
		l.Status, l.Reason = metering.RejectedClientSide, strings.Repeat("r", 60)
		return l
	}
	late := func(r metering.Row) metering.Label {
		l := rejected(r)
		l.Status, l.LateQuantity = metering.LateUsage, metering.Units(3)
		return l
	}
	judged := func(r metering.Row) metering.Label {
		l := rejected(r)
		l.Fingerprint = r.Fingerprint()
		return l
	}
	covered := func(r metering.Row) metering.Label { return label(r, false) }
	for i, tt := range []struct {
		name   string
		free   int
		label  func(metering.Row) metering.Label
		reason string
	}{
		{"room for a short reason", 100, rejected, store.NoRoom},
		{"room for a status", 30, rejected, ""},
		{"as judged, room for a short reason", 100, judged, store.NoRoom},
		{"as judged, room for a status", 30, judged, ""},
		{"a late quantity stays", 30, late, ""},
		{"Aggregated always fits", 0, covered, ""},
	} {
		r := full(i, tt.free)
		put(t, s, r)
		l := tt.label(r)
		out, err := s.LabelRow(t.Context(), l)
		same(t, tt.name, metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
		want := noRoom(l, tt.reason).Apply(r)
		same(t, tt.name+": row", &want, getRow(t, s, licenseA, r.SortKey))

		again, err := s.LabelRow(t.Context(), l) // as a message that is delivered again asks
		if must(t, again, err); again.Done == l.Marker || l.Marker && !noRoom(l, tt.reason).Shows(*again.Old) {
			t.Errorf("%s: again: done %v", tt.name, again.Done)
		}
		same(t, tt.name+": row", &want, getRow(t, s, licenseA, r.SortKey))
	}
	same(t, "what waits", []string(nil), pendingKeys(t, s, hour(), ""))

	r := full(9, 0)
	put(t, s, r)
	out, err := s.LabelRow(t.Context(), rejected(r))
	if !errors.Is(err, metering.ErrTooLarge) || out.Done {
		t.Errorf("room for nothing: %v, %v, want %v", out.Done, err, metering.ErrTooLarge)
	}
	same(t, "room for nothing: row", &r, getRow(t, s, licenseA, r.SortKey))
}

func labelSetRace(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	rows := make([]metering.Row, 30) // more than a batch
	for i := range rows {
		rows[i] = row(g, i, 5)
	}
	must(t, 0, s.PutRows(t.Context(), rows))
	won := make([][]int, 4)
	var wg sync.WaitGroup
	for w := range won {
		wg.Go(func() {
			labels := make([]metering.Label, len(rows))
			for i, r := range rows {
				labels[i] = label(r, true)
				labels[i].Reason = fmt.Sprint("writer ", w)
			}
			for i, out := range s.LabelRows(t.Context(), labels) {
				if out.Done {
					won[w] = append(won[w], i)
				} else if out.Err != nil || out.Old == nil || out.Old.Status != metering.Aggregated {
					t.Errorf("a label that lost: %+v", out)
				}
			}
		})
	}
	wg.Wait()
	winners := make(map[int]string)
	total := 0
	for w, list := range won {
		for _, i := range list {
			winners[i] = fmt.Sprint("writer ", w)
		}
		total += len(list)
	}
	if total != len(rows) || len(winners) != len(rows) {
		t.Errorf("%d labels won on %d rows, want %d on %d", total, len(winners), len(rows), len(rows))
	}
	for i, r := range collect(t, s.GroupRows(t.Context(), g)) {
		same(t, r.SortKey, winners[i], r.StatusReason)
	}
}

func labelSetDone(t *testing.T, s Store) {
	r := row(group(licenseA, "api_calls"), 0, 5)
	put(t, s, r)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out := s.LabelRows(ctx, []metering.Label{label(r, true), label(r, false)})
	if len(out) != 2 || !errors.Is(out[0].Err, context.Canceled) || !errors.Is(out[1].Err, context.Canceled) || out[0].Done || out[1].Done {
		t.Errorf("LabelRows: %+v, want %v twice", out, context.Canceled)
	}
	same(t, "row", &r, getRow(t, s, licenseA, r.SortKey))
}

// DynamoDB stores no sort key over 1,024 bytes (developer guide, quotas); other stores may. None may cut it, nor stumble over it.
func longKeys(t *testing.T, s Store) {
	g := group(licenseA, strings.Repeat("\U0001F600", 255))
	neighbour := row(group(licenseA, g.Dimension[:len(g.Dimension)-4]), 0, 1)
	r := row(g, 0, 5)
	neighbourTaken := s.PutRow(t.Context(), neighbour) == nil
	var wantRows []metering.Row
	if neighbourTaken {
		wantRows = append(wantRows, neighbour)
	}
	if err := s.PutRow(t.Context(), r); err == nil {
		wantRows = append(wantRows, r)
		same(t, "row", &r, getRow(t, s, licenseA, r.SortKey))
		l := label(r, true)
		l.Fingerprint, l.Status, l.Reason = r.Fingerprint(), metering.RejectedClientSide, string(metering.DimensionTooLong)
		out, err := s.LabelRow(t.Context(), l)
		same(t, "its label", metering.Outcome[metering.Row]{Done: true}, must(t, out, err))
		wantRows[len(wantRows)-1] = l.Apply(r)
	}
	same(t, "rows", inOrder(wantRows), inOrder(collect(t, s.LicenseRows(t.Context(), licenseA))))

	rec := record(g, 5)
	if out, err := s.CreateRecord(t.Context(), rec); err == nil {
		same(t, "CreateRecord", metering.Outcome[metering.Record]{Done: true}, out)
		same(t, "record", &rec, getRecord(t, s, g))
		same(t, "pending records", []string{licenseA + " " + rec.SortKey}, pendingRecordKeys(t, s, hour(), licenseA))
	} else {
		same(t, "pending records", []string(nil), pendingRecordKeys(t, s, hour(), licenseA))
	}
}
