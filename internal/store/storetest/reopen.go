package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

func reopenContract() []contract {
	return []contract{
		{"a refused record waits again", reopenRefused},
		{"a reopening is written where its condition holds", reopenConditions},
		{"F21: of many reopenings one is written", reopenRace},
		{"a Success and a reopening end as Success", reopenAgainstSuccess},
	}
}

// refused is a record of a group that was sent and refused.
func refused(g metering.Group, quantity int64) metering.Record {
	r := record(g, quantity).Stamped(now())
	r.SentQuantity, r.SentSecond, r.Pending = metering.Units(quantity), g.Hour.Second(0).String(), ""
	r.Status, r.MeteringRecordID = metering.CustomerNotSubscribed, "id-1"
	return r
}

// reopening is what an hour later lets the record wait again.
func reopening(t *testing.T, r metering.Record) metering.Reopen {
	t.Helper()
	x, obstacle := metering.ReopenOf(r, metering.Rules{}, now().Add(time.Hour))
	if obstacle != "" {
		t.Fatalf("%s cannot be reopened: %s", r.SortKey, obstacle)
	}
	x.Token = "token of " + r.SortKey
	return x
}

func reopenRefused(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	r := refused(g, 5)
	r.Other = metering.Item{"invoice": "A-1"}
	for name, rejected := range map[string]metering.Record{
		"once": r, "no mark": func(r metering.Record) metering.Record {
			r.SentQuantity, r.SentSecond, r.MeteringRecordID = metering.Quantity{}, "", ""
			r.Status, r.StatusReason = metering.RejectedClientSide, "InvalidUsageDimensionException"
			return r
		}(r), "an empty trace": func(r metering.Record) metering.Record {
			r.Other = metering.Item{metering.AttrReopened: []any{}}
			return r
		}(r),
	} {
		putRecords(t, s, rejected)
		x := reopening(t, rejected)
		out, err := s.ReopenRecord(t.Context(), x)
		same(t, name, metering.Outcome[metering.Record]{Done: true}, must(t, out, err))
		want := x.Apply(rejected)
		same(t, name+": record", &want, getRecord(t, s, g))
		// The index shows it as it showed it on its first day.
		entries := collect(t, s.PendingRecords(t.Context(), g.Hour, ""))
		if len(entries) != 1 || entries[0].Fingerprint() != want.Fingerprint() || entries[0].SentQuantity.Whole || entries[0].Status != "" {
			t.Errorf("%s: entries %+v", name, entries)
		}
		out, err = s.ReopenRecord(t.Context(), x)
		if must(t, out, err); out.Done || out.Old == nil || !x.Shows(*out.Old) {
			t.Errorf("%s, asked for again: %+v, want it refused and shown", name, out)
		}

		// Refused again and reopened again: the trace grows.
		f := finish(want, metering.CustomerNotSubscribed)
		out, err = s.FinishRecord(t.Context(), f)
		same(t, name+": refused again", metering.Outcome[metering.Record]{Done: true}, must(t, out, err))
		second := f.Apply(want)
		y := reopening(t, second)
		out, err = s.ReopenRecord(t.Context(), x)
		same(t, name+": the first reopening", metering.Outcome[metering.Record]{Old: &second}, must(t, out, err))
		out, err = s.ReopenRecord(t.Context(), y)
		same(t, name+": twice", metering.Outcome[metering.Record]{Done: true}, must(t, out, err))
		want = y.Apply(second)
		same(t, name+": record that was reopened twice", &want, getRecord(t, s, g))
	}
}

func reopenConditions(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	r := refused(g, 5)
	x := reopening(t, r)
	for name, change := range map[string]func(*metering.Record){
		"waiting":          func(r *metering.Record) { r.Pending, r.Status = r.HourBucket, "" },
		"billed":           func(r *metering.Record) { r.Status = metering.Success },
		"billed in part":   func(r *metering.Record) { r.BilledQuantity = metering.Units(2) },
		"billed, no count": func(r *metering.Record) { r.Other = metering.Item{metering.AttrBilledQuantity: "2"} },
		"a duplicate":      func(r *metering.Record) { r.Status = metering.DuplicateRecord },
		"another reason":   func(r *metering.Record) { r.StatusReason = "why" },
		"another quantity": func(r *metering.Record) { r.Quantity = metering.Units(6) },
		"no mark":          func(r *metering.Record) { r.SentQuantity = metering.Quantity{} },
		"a trace": func(r *metering.Record) {
			r.Other = metering.Item{metering.AttrReopened: []any{map[string]any{"at": "2026-03-10T15:30:00Z"}}}
		},
		"no trace of ours": func(r *metering.Record) { r.Other = metering.Item{metering.AttrReopened: "never"} },
	} {
		stored := r
		change(&stored)
		putRecords(t, s, stored)
		out, err := s.ReopenRecord(t.Context(), x)
		same(t, name, metering.Outcome[metering.Record]{Old: &stored}, must(t, out, err))
		same(t, name+": record", &stored, getRecord(t, s, g))
	}
	if err := s.DeleteRecord(t.Context(), g.License, g.RecordKey()); err != nil {
		t.Fatal(err)
	}
	out, err := s.ReopenRecord(t.Context(), x)
	same(t, "no record", missingRecord, must(t, out, err))
	if got := getRecord(t, s, g); got != nil {
		t.Errorf("a record was made: %+v", got)
	}
	// What nobody judges may change.
	noted := r
	noted.Other, noted.Manifest = metering.Item{"note": "mine"}, "v1 1 5 0:5"
	putRecords(t, s, noted)
	out, err = s.ReopenRecord(t.Context(), x)
	same(t, "a note", metering.Outcome[metering.Record]{Done: true}, must(t, out, err))
	want := x.Apply(noted)
	same(t, "record with a note", &want, getRecord(t, s, g))
}

func reopenRace(t *testing.T, s Store) {
	g := group(licenseA, "api_calls")
	r := refused(g, 5)
	putRecords(t, s, r)
	x := reopening(t, r)
	outcomes := together(t, 8, func() (metering.Outcome[metering.Record], error) { return s.ReopenRecord(t.Context(), x) })
	done := 0
	for _, out := range outcomes {
		if out.Done {
			done++
		} else if out.Old == nil || !x.Shows(*out.Old) {
			t.Errorf("a loser: %+v", out)
		}
	}
	want := x.Apply(r)
	same(t, "record", &want, getRecord(t, s, g))
	if done != 1 {
		t.Errorf("%d were written", done)
	}
}

// reopenAgainstSuccess lets the Success of another run's call arrive beside the reopening, in whatever order.
func reopenAgainstSuccess(t *testing.T, s Store) {
	for round := range 10 {
		g := group(licenseA, "api_calls")
		g.Hour -= metering.Hour(round)
		r := refused(g, 5)
		putRecords(t, s, r)
		x, f := reopening(t, r), finish(r, metering.Success)
		var wg sync.WaitGroup
		wg.Go(func() {
			_, err := s.ReopenRecord(t.Context(), x)
			must(errorsOnly{t}, 0, err)
		})
		wg.Go(func() {
			out, err := s.FinishRecord(t.Context(), f)
			same(t, "the Success", metering.Outcome[metering.Record]{Done: true}, must(errorsOnly{t}, out, err))
		})
		wg.Wait()
		if got := getRecord(t, s, g); got == nil || got.Status != metering.Success || got.Pending != "" || got.Quantity != r.Quantity {
			t.Errorf("round %d: %+v", round, got)
		}
	}
}

// together calls do n times at once.
func together[T any](t *testing.T, n int, do func() (T, error)) []T {
	t.Helper()
	out := make([]T, n)
	var wg sync.WaitGroup
	for i := range out {
		wg.Go(func() {
			v, err := do()
			out[i] = must(errorsOnly{t}, v, err)
		})
	}
	wg.Wait()
	return out
}
