package storetest

import (
	"context"
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// Backlogged is a store that can say what waits.
type Backlogged interface {
	Store
	Waiting(ctx context.Context) ([]store.Waiting, error)
}

// Waiting holds an empty store's word on what waits against what was put into it.
func Waiting(t *testing.T, s Backlogged) {
	t.Helper()
	check := func(step string, want ...store.Waiting) {
		t.Helper()
		got, err := s.Waiting(t.Context())
		same(t, step, want, must(t, got, err))
	}
	check("an empty store")

	g := group(licenseA, "api")
	next := group(licenseB, "storage")
	next.Hour++
	put(t, s, row(g, 0, 5), row(g, 1, 7), row(next, 0, 1), row(group(licenseB, "api"), 0, 0))
	rec := record(g, 12)
	putRecords(t, s, rec)
	ended := record(group(licenseA, "ended"), 100)
	ended.Pending = ""
	putRecords(t, s, ended)
	here, there := hour().String(), next.Hour.String()
	check("rows and a record", store.Waiting{Bucket: here, Rows: 3, Records: 1, Units: 24}, store.Waiting{Bucket: there, Rows: 1, Units: 1})

	// What is no number, or a negative one, counts as nothing; a bucket is named as the item names it.
	odd := row(g, 2, 0)
	odd.Quantity, odd.Other = metering.Quantity{}, metering.Item{metering.AttrQuantity: "9"}
	negative := row(g, 3, -4)
	elsewhere := row(g, 4, 2)
	elsewhere.Pending = "today"
	put(t, s, odd, negative, elsewhere)
	check("odd rows", store.Waiting{Bucket: here, Rows: 5, Records: 1, Units: 24}, store.Waiting{Bucket: there, Rows: 1, Units: 1},
		store.Waiting{Bucket: "today", Rows: 1, Units: 2})

	for _, r := range []metering.Row{row(g, 0, 5), row(g, 1, 7), row(next, 0, 1), row(group(licenseB, "api"), 0, 0), odd, negative, elsewhere} {
		l := label(r, true)
		l.Fingerprint = r.Fingerprint()
		out, err := s.LabelRow(t.Context(), l)
		if must(t, out, err); !out.Done {
			t.Fatalf("the label of %s was refused", r.SortKey)
		}
	}
	check("labelled rows", store.Waiting{Bucket: here, Records: 1, Units: 12})
	out, err := s.FinishRecord(t.Context(), finish(rec, metering.Success))
	if must(t, out, err); !out.Done {
		t.Fatal("FinishRecord was refused")
	}
	check("a finished record")
}
