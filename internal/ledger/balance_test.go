package ledger_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

const (
	license = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	account = "111122223333"
)

var group = metering.Group{License: license, Account: account, Dimension: "api_calls", Hour: hour("2026-03-10T14")}

func hour(s string) metering.Hour {
	h, err := metering.ParseHour(s)
	if err != nil {
		panic(err)
	}
	return h
}

// at is a row of the group at a minute, in a status; "" waits.
func at(minute int, quantity int64, status metering.Status) metering.Row {
	r := metering.NewRow(group, group.Hour.Second(60*minute), quantity)
	if status != "" {
		r.Pending, r.Status = "", status
	}
	return r
}

// summed is the record of rows as they were committed.
func summed(status metering.Status, rows ...metering.Row) metering.Record {
	fold := metering.NewFold(group, group.Hour.End())
	for _, r := range rows {
		r.Pending = group.Hour.String()
		fold.Add(r)
	}
	rec, reason := fold.Record()
	if reason != "" {
		panic(reason)
	}
	if status != "" {
		rec.Pending, rec.Status = "", status
	}
	return rec
}

func with(r metering.Record, change func(*metering.Record)) metering.Record {
	change(&r)
	return r
}

func withRow(r metering.Row, change func(*metering.Row)) metering.Row {
	change(&r)
	return r
}

type places map[ledger.Place]int64

// The law of conservation, place by place: what the tables hold, and where each unit is by them.
func TestOf(t *testing.T) {
	t.Parallel()
	seven, three := at(0, 7, metering.Aggregated), at(1, 3, metering.Aggregated)
	direct := with(metering.NewRecord(group, 15), func(r *metering.Record) { r.Pending, r.Status = "", metering.Success })
	tests := []struct {
		name     string
		record   *metering.Record
		rows     []metering.Row
		written  int64
		want     places
		withdraw int64
		stale    int
		unknown  int
		finding  string // part of it; empty: balanced
		cause    string // of one of the places
	}{
		{name: "rows that wait", rows: []metering.Row{at(0, 7, ""), at(1, 3, "")}, written: 10, want: places{ledger.InFlight: 10}},
		{name: "a row that waits under another hour", rows: []metering.Row{withRow(at(0, 7, ""), func(r *metering.Row) { r.Pending = "2031-01-01T00" })}, written: 7, want: places{ledger.InFlight: 7}, cause: ledger.Misfiled},
		{name: "record waits", record: new(summed("", seven, three)), rows: []metering.Row{seven, at(1, 3, "")}, written: 10, want: places{ledger.InFlight: 10}},
		{name: "billed", record: new(summed(metering.Success, seven, three)), rows: []metering.Row{seven, three}, written: 10, want: places{ledger.Billed: 10}},
		{name: "billed, cleanup lost (F2)", record: new(summed(metering.Success, seven, three)), rows: []metering.Row{at(0, 7, ""), at(1, 3, "")}, written: 10, want: places{ledger.Billed: 10}},
		{name: "refused", record: new(summed(metering.CustomerNotSubscribed, seven)), rows: []metering.Row{seven}, written: 7, want: places{ledger.Refused: 7}},
		{name: "duplicate", record: new(summed(metering.DuplicateRecord, seven)), rows: []metering.Row{seven}, written: 7, want: places{ledger.Refused: 7}},
		{name: "rejected record", record: new(summed(metering.RejectedClientSide, seven)), rows: []metering.Row{seven}, written: 7, want: places{ledger.Rejected: 7}},
		{name: "expired record", record: new(summed(metering.SubmissionExpired, seven)), rows: []metering.Row{seven}, written: 7, want: places{ledger.Expired: 7}},
		{
			name:   "expired after it was sent",
			record: new(with(summed(metering.SubmissionExpired, seven), func(r *metering.Record) { r.SentQuantity = metering.Units(7) })),
			rows:   []metering.Row{seven}, written: 7, want: places{ledger.InDoubt: 7},
		},
		{name: "dry run", record: new(summed(metering.DryRunSubmitted, seven)), rows: []metering.Row{seven}, written: 7, want: places{ledger.DryRun: 7}},
		{
			name: "late row and grown row (F3, F7)", record: new(summed(metering.Success, seven)),
			rows: []metering.Row{at(0, 12, metering.LateUsage), at(1, 3, metering.LateUsage)}, written: 15, want: places{ledger.Billed: 7, ledger.Late: 8},
		},
		{
			name: "growth that waits", record: new(summed(metering.Success, seven)),
			rows: []metering.Row{at(0, 12, "")}, written: 12, want: places{ledger.Billed: 7, ledger.InFlight: 5},
		},
		{
			name: "growth without its marker", record: new(summed(metering.Success, seven)),
			rows: []metering.Row{at(0, 12, metering.Aggregated)}, written: 12, want: places{ledger.Billed: 7}, finding: "grew without its marker",
		},
		{name: "rejected rows", rows: []metering.Row{at(0, 7, metering.RejectedClientSide)}, written: 7, want: places{ledger.Rejected: 7}},
		{name: "expired rows", rows: []metering.Row{at(0, 7, metering.AggregationExpired)}, written: 7, want: places{ledger.Expired: 7}},
		{
			name: "shrunk and deleted after the commit", record: new(summed(metering.Success, seven, three)),
			rows: []metering.Row{at(0, 5, metering.Aggregated)}, written: 10, want: places{ledger.Billed: 10}, withdraw: 5,
		},
		{
			name: "covered row with another label (F25)", record: new(summed(metering.Success, seven)),
			rows: []metering.Row{at(0, 7, metering.AggregationExpired)}, written: 7, want: places{ledger.Billed: 7}, stale: 1,
		},
		{
			name: "quantity that is no number", written: 0, unknown: 1, want: places{},
			rows: []metering.Row{withRow(at(0, 0, metering.RejectedClientSide), func(r *metering.Row) {
				r.Quantity, r.Other = metering.Quantity{}, metering.Item{metering.AttrQuantity: "abc"}
			})},
		},
		{
			name: "row without a marker", rows: []metering.Row{withRow(at(0, 7, ""), func(r *metering.Row) { r.Pending = "" })},
			written: 7, want: places{}, finding: "written without meteringPending",
		},
		{
			name: "row under a marker that is no hour", rows: []metering.Row{withRow(at(0, 7, ""), func(r *metering.Row) { r.Pending = "soon" })},
			written: 7, want: places{}, finding: "which is no hour",
		},
		{name: "record written by a seller", record: &direct, written: 15, want: places{ledger.Billed: 15}},
		{
			name: "changed by its seller after it was billed (F19)", written: 15, want: places{ledger.Billed: 10, ledger.Refused: 5},
			record: new(with(direct, func(r *metering.Record) { r.BilledQuantity = metering.Units(10) })),
		},
		{
			name: "changed, and the change still waits", written: 15, want: places{ledger.Billed: 10, ledger.Refused: 5},
			record: new(with(direct, func(r *metering.Record) { r.SentQuantity, r.Pending = metering.Units(10), group.Hour.String() })),
		},
		{
			name: "lowered after it was billed", written: 20, want: places{ledger.Billed: 20},
			record: new(with(direct, func(r *metering.Record) { r.BilledQuantity = metering.Units(20) })),
		},
		{
			name: "billed with less than nothing", written: 15, want: places{}, finding: "-3 units are billed",
			record: new(with(direct, func(r *metering.Record) { r.BilledQuantity = metering.Units(-3) })),
		},
		{
			name: "record without a marker or status", written: 15, want: places{}, finding: "written without meteringPending",
			record: new(with(direct, func(r *metering.Record) { r.Status = "" })),
		},
		{
			name: "record under a marker that is no hour", written: 15, want: places{}, finding: "which is no hour",
			record: new(with(direct, func(r *metering.Record) { r.Status, r.Pending = "", "now" })),
		},
		{
			name: "record whose quantity was tampered with", written: 7, want: places{ledger.Billed: 9}, finding: "no longer what its manifest adds up to",
			record: new(with(summed(metering.Success, seven), func(r *metering.Record) { r.Quantity = metering.Units(9) })), rows: []metering.Row{seven},
		},
		{
			name: "manifest that cannot be read", written: 0, want: places{ledger.Billed: 7}, finding: "manifest cannot be read",
			record: new(with(summed(metering.Success, seven), func(r *metering.Record) { r.Manifest = "v1 2 9 0:7" })), rows: []metering.Row{seven},
		},
		{
			name:   "row of another dimension under the same prefix (case 35)",
			record: new(summed(metering.Success, seven)), written: 7, want: places{ledger.Billed: 7},
			rows: []metering.Row{seven, withRow(at(1, 9, ""), func(r *metering.Row) {
				r.SortKey, r.Dimension = account+"#api_calls#2026-03-10T14:x#2026-03-10T14:01:00", "api_calls#2026-03-10T14:x"
			})},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := ledger.Of(group, test.record, test.rows)
			got := places{}
			for _, p := range ledger.Places() {
				if a := b.Place(p); a.Units != 0 {
					got[p] = a.Units
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("places (-want +got):\n%s", diff)
			}
			if test.finding == "" && !b.Balanced() || test.finding != "" && (b.Balanced() || !strings.Contains(strings.Join(b.Findings, "\n"), test.finding)) {
				t.Errorf("balanced %v, findings %q, want %q", b.Balanced(), b.Findings, test.finding)
			}
			causes := map[string]bool{"": true}
			for c := range b.Places {
				causes[c.Reason] = true
			}
			if !causes[test.cause] {
				t.Errorf("causes %v, want %q", causes, test.cause)
			}
			if b.Withdraw.Units != test.withdraw || b.Stale != test.stale || b.Unknown != test.unknown {
				t.Errorf("withdrawn %d, stale %d, unknown %d", b.Withdraw.Units, b.Stale, b.Unknown)
			}
			if test.finding == "" && b.Written.Units != test.written {
				t.Errorf("written %d, want %d", b.Written.Units, test.written)
			}
		})
	}
}
