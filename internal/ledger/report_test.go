package ledger_test

import (
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

const otherLicense = "arn:aws:license-manager::111122223333:license:l-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

// filled is a store with two licenses, three hours and a row that names no group.
func filled(t *testing.T) *memory.Store {
	t.Helper()
	s := memory.New(memory.Options{PageBytes: 1})
	put := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	billed := at(0, 7, metering.Aggregated)
	put(s.PutRow(t.Context(), billed))
	put(s.PutRecord(t.Context(), summed(metering.Success, billed)))
	for _, h := range []string{"2026-03-10T15", "2026-03-10T16"} {
		g := metering.Group{License: otherLicense, Account: account, Dimension: "seats", Hour: hour(h)}
		put(s.PutRow(t.Context(), withRow(metering.NewRow(g, g.Hour.Second(0), 4), func(r *metering.Row) {
			r.Pending, r.Status = "", metering.AggregationExpired
		})))
	}
	put(s.PutRow(t.Context(), metering.Row{License: otherLicense, SortKey: "no key", Quantity: metering.Units(2), Status: metering.RejectedClientSide}))
	return s
}

func TestComputeCoversWhatItIsAskedFor(t *testing.T) {
	t.Parallel()
	fifteen, sixteen := hour("2026-03-10T15"), hour("2026-03-10T16")
	for name, test := range map[string]struct {
		scope    ledger.Scope
		written  int64
		licenses []string
		groups   int
	}{
		"everything":           {ledger.Scope{}, 17, []string{license, otherLicense}, 4},
		"a license":            {ledger.Scope{License: license}, 7, []string{license}, 1},
		"an hour":              {ledger.Scope{From: &fifteen, To: &fifteen}, 4, []string{otherLicense}, 1},
		"from an hour on":      {ledger.Scope{From: &fifteen}, 8, []string{otherLicense}, 2},
		"until an hour":        {ledger.Scope{To: &fifteen}, 11, []string{license, otherLicense}, 2},
		"a license's hour":     {ledger.Scope{License: otherLicense, From: &sixteen, To: &sixteen}, 4, []string{otherLicense}, 1},
		"an unknown license":   {ledger.Scope{License: "nobody"}, 0, []string{"nobody"}, 0},
		"an hour with nothing": {ledger.Scope{From: new(hour("2026-03-11T00"))}, 0, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := ledger.Compute(t.Context(), filled(t), test.scope)
			if err != nil || !r.Balanced() {
				t.Fatalf("error %v, imbalances %v", err, r.Imbalances)
			}
			if r.Total.Written.Units != test.written || r.Groups != test.groups || !slices.Equal(r.Licenses, test.licenses) {
				t.Errorf("written %d in %d groups of %v", r.Total.Written.Units, r.Groups, r.Licenses)
			}
		})
	}
}

// shifting is a store whose record ends between the two reads of a ledger, as beside live stages.
type shifting struct {
	*memory.Store
	times int
}

func (s *shifting) GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error] {
	if s.times--; s.times >= 0 {
		rec, err := s.Store.Record(ctx, g)
		if err != nil || rec == nil {
			panic(err)
		}
		rec.BilledQuantity = metering.Units(rec.BilledQuantity.N + 1)
		if err := s.PutRecord(ctx, *rec); err != nil {
			panic(err)
		}
	}
	return s.Store.GroupRows(ctx, g)
}

func TestReadBesideLiveStages(t *testing.T) {
	t.Parallel()
	s := &shifting{Store: filled(t), times: 2}
	b, err := ledger.Read(t.Context(), s, group)
	if err != nil || b.Place(ledger.Billed).Units != 2 {
		t.Errorf("billed %+v, error %v: want what the last of three readings says", b.Place(ledger.Billed), err)
	}
	if _, err := ledger.Read(t.Context(), &shifting{Store: filled(t), times: 100}, group); err == nil {
		t.Error("a record that never stands still must be an error, not a guess")
	}
}

func TestAgainst(t *testing.T) {
	t.Parallel()
	id := metering.Identity{Customer: license, Account: account, Dimension: "api_calls", Hour: group.Hour}
	foreign := id
	foreign.Dimension = "unheard_of"
	for name, test := range map[string]struct {
		record    func(*metering.Record)
		sold      []ledger.Sold
		differ    int
		explained int
	}{
		"equal":                        {func(*metering.Record) {}, []ledger.Sold{{Identity: id, Quantity: 7}}, 0, 0},
		"billed less":                  {func(*metering.Record) {}, []ledger.Sold{{Identity: id, Quantity: 6}}, 1, 0},
		"not billed":                   {func(*metering.Record) {}, nil, 1, 0},
		"billed twice (F32)":           {func(*metering.Record) {}, []ledger.Sold{{Identity: id, Quantity: 7}, {Identity: foreign, Quantity: 7}}, 1, 0},
		"billed and called rejected":   {func(r *metering.Record) { r.Status = metering.RejectedClientSide }, []ledger.Sold{{Identity: id, Quantity: 7}}, 1, 0},
		"in doubt, billed":             {doubt, []ledger.Sold{{Identity: id, Quantity: 7}}, 0, 1},
		"in doubt, not billed":         {doubt, nil, 0, 0},
		"an earlier quantity (case 2)": {func(r *metering.Record) { r.Status = metering.DuplicateRecord }, []ledger.Sold{{Identity: id, Quantity: 5}}, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := memory.New(memory.Options{})
			if err := s.PutRecord(t.Context(), with(summed(metering.Success, at(0, 7, "")), test.record)); err != nil {
				t.Fatal(err)
			}
			r, err := ledger.Compute(t.Context(), s, ledger.Scope{})
			if err != nil {
				t.Fatal(err)
			}
			c := r.Against(test.sold)
			if len(c.Differences) != test.differ || len(c.Explained) != test.explained || c.Equal() != (test.differ == 0) {
				t.Errorf("%s", cmp.Diff(ledger.CrossCheck{}, c))
			}
		})
	}
}

func doubt(r *metering.Record) {
	r.Status, r.StatusReason, r.SentQuantity = metering.SubmissionExpired, metering.VerdictUnknown, metering.Units(7)
}
