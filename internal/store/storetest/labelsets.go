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
)

func labelSetContract() []contract {
	return []contract{
		{"labels are answered one by one, in their order", labelSet},
		{"a row twice in one set of labels is labelled once", labelTwice},
		{"hundreds of labels at once", manyLabels},
		{"case 32: a label that is too large is refused alone", labelTooLarge},
		{"sets of labels from many at once", labelSetRace},
		{"labels after the context is done do nothing", labelSetDone},
		{"case 34: a key over 1,024 bytes is refused, or kept whole", longKeys},
	}
}

func labelSet(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	waiting, grown, ended := row(g, 0, 5), row(g, 1, 8), row(g, 2, 5)
	ended.Pending, ended.Status = "", metering.LateUsage
	odd := metering.RowFromItem(strange(g, 3))
	elsewhere := row(group(licenseB, "api_calls"), 0, 5)
	put(t, s, waiting, grown, ended, odd, elsewhere)

	stale, judged, mended, replaced := label(grown, true), label(odd, true), label(odd, true), label(ended, false)
	stale.Quantity = metering.Units(5)
	judged.Fingerprint, judged.Status, judged.Reason = odd.Fingerprint(), metering.RejectedClientSide, string(metering.NonNumericQuantity)
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
	same(t, "rows", []metering.Row{labels[1].Apply(waiting), grown, replaced.Apply(ended), judged.Apply(odd)}, collect(t, s.LicenseRows(t.Context(), licenseA)))
	same(t, "the row of another license", []metering.Row{labels[5].Apply(elsewhere)}, collect(t, s.LicenseRows(t.Context(), licenseB)))
	same(t, "what waits", []string{licenseA + " " + grown.SortKey}, pendingKeys(t, s, hour(), ""))
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
	const total = 450
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
	// What a row may hold much of, in characters of one byte and of more.
	note, tagged, wide, flushed := row(g, 1, 5), row(g, 2, 5), row(g, 3, 5), row(g, 4, 5)
	note.Other = metering.Item{"note": strings.Repeat("x", 390*1024)}
	for range 100 {
		tagged.Allocations = append(tagged.Allocations, metering.Allocation{Tags: []metering.Tag{{Key: "team", Value: strings.Repeat("y", 3900)}}})
		wide.Allocations = append(wide.Allocations, metering.Allocation{Tags: []metering.Tag{{Key: "team", Value: strings.Repeat("\U0001F600", 975)}}})
	}
	for i := range 100 {
		flushed.Flushes = append(flushed.Flushes, fmt.Sprint(strings.Repeat("t", 3990), i))
	}
	rows := []metering.Row{row(g, 0, 5), note, tagged, wide, flushed, row(g, 5, 5)}
	put(t, s, rows...)
	var labels []metering.Label
	for _, r := range rows {
		labels = append(labels, label(r, true))
		labels[len(labels)-1].Reason = strings.Repeat("r", 30*1024)
	}
	for i, l := range s.LabelRows(t.Context(), labels) {
		tooLarge := i > 0 && i < 5
		if errors.Is(l.Err, metering.ErrTooLarge) != tooLarge || l.Done == tooLarge || l.Old != nil {
			t.Errorf("label %d: %v, %v, %v", i, l.Err, l.Done, l.Old != nil)
		}
	}
	rows[0], rows[5] = labels[0].Apply(rows[0]), labels[5].Apply(rows[5])
	same(t, "rows", rows, collect(t, s.GroupRows(t.Context(), g)))

	for i, r := range rows {
		l := label(r, false)
		l.Reason = strings.Repeat("r", 400*1024)
		one, err := s.LabelRow(t.Context(), l)
		if !errors.Is(err, metering.ErrTooLarge) || one.Done {
			t.Errorf("label %d alone: %+v, %v, want %v", i, one, err, metering.ErrTooLarge)
		}
		one, err = s.LabelRow(t.Context(), label(r, false))
		same(t, "a shorter one", metering.Outcome[metering.Row]{Done: true}, must(t, one, err))
	}
}

func labelSetRace(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	rows := make([]metering.Row, 60)
	for i := range rows {
		rows[i] = row(g, i, 5)
	}
	must(t, 0, s.PutRows(t.Context(), rows))
	won := make([][]int, 6)
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
