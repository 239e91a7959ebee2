package desk_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/metering"
)

func license() desk.Which { return desk.Which{License: driveLicense} }

func (w *driveWorld) retry(what desk.Which, dryRun bool) desk.Recalled {
	w.t.Helper()
	done, err := w.desk.RetryRejected(w.ctx, what, dryRun)
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

// mended puts a row's quantity right and leaves the rest as it is.
func (w *driveWorld) mend(r metering.Row, quantity int64) {
	w.t.Helper()
	now := w.row(r)
	now.Quantity = metering.Units(quantity)
	w.put(now)
}

// F8, F9: one negative row has its hour rejected. While it is wrong a retry refuses and names it; mended, the whole hour is billed once.
func TestRejectedHourComesBackWhenItsRowIsMended(t *testing.T) {
	t.Parallel()
	w := newDriveWorld(t)
	good, bad := waiting(apiCalls, "2026-03-10T14:00:00", 5), waiting(apiCalls, "2026-03-10T14:01:00", -7)
	w.put(good, bad)
	w.until("2026-03-10T15:40:00")
	if r := w.row(good); r.Status != metering.RejectedClientSide {
		t.Fatalf("the hour is not rejected: %+v", r)
	}
	for _, dry := range []bool{true, false} {
		got := w.retry(license(), dry)
		want := desk.Recalled{DryRun: dry, Groups: []desk.RecalledGroup{}, Refused: []desk.NotRecalled{{
			Usage: desk.Usage{License: driveLicense, Account: driveAccount, Dimension: apiCalls, Hour: "2026-03-10T14"}, Sum: desk.Sum{Rows: 2, Units: 5, Unknown: 0},
			Cause: desk.CauseAgain, Why: "it would be rejected again: rows of it are still wrong", Reason: metering.NegativeQuantity, What: "a quantity is negative",
			Faulty: []desk.FaultyRow{{Key: bad.SortKey, Reason: metering.NegativeQuantity, What: "a quantity is negative"}},
		}}}
		want.Refused[0].Unknown = got.Refused[0].Unknown // of a negative quantity the ledger tests say which it is
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	w.mend(bad, 7)
	dry := w.retry(license(), true)
	if r := w.row(good); r.Pending != "" || dry.Rows != 2 || !dry.DryRun {
		t.Errorf("a dry run did %+v", dry)
	}
	got := w.retry(license(), false)
	if diff := cmp.Diff([]desk.RecalledGroup{{
		Usage: desk.Usage{License: driveLicense, Account: driveAccount, Dimension: apiCalls, Hour: "2026-03-10T14"}, Sum: desk.Sum{Rows: 2, Units: 12},
		VisitAt: instant("2026-03-10T15:50:00"), LostAt: instant("2026-03-11T14:00:00"),
	}}, got.Groups); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if again := w.retry(license(), false); again.Rows != 0 || len(again.Refused) != 0 {
		t.Errorf("a second retry did %+v", again)
	}
	w.books()
	w.until("2026-03-10T16:00:00")
	w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 12})
	w.books()
}

// Of a group that cannot be mended the rows at fault are dropped, and what is right comes back.
func TestDropAtFaultBringsTheRestBack(t *testing.T) {
	t.Parallel()
	w := newDriveWorld(t)
	good, bad := waiting(apiCalls, "2026-03-10T14:00:00", 5), waiting(apiCalls, "2026-03-10T14:01:00", 7)
	bad.Quantity, bad.Other = metering.Quantity{}, metering.Item{"quantity": "many"}
	w.put(good, bad)
	w.until("2026-03-10T15:40:00")
	g := groupIn(apiCalls, "2026-03-10T14")
	dry, err := w.desk.DropAtFault(w.ctx, g, true)
	if err != nil || w.row(bad).Dropped || dry.Rows != 1 || dry.Unknown != 1 || dry.Rest == nil || dry.Rest.Units != 5 {
		t.Errorf("a dry run did %+v, %v", dry, err)
	}
	done, err := w.desk.DropAtFault(w.ctx, g, false)
	if err != nil || !w.row(bad).Dropped || w.row(good).Dropped {
		t.Errorf("%+v, %v", done, err)
	}
	dry.DryRun = false
	if diff := cmp.Diff(dry, done); diff != "" {
		t.Errorf("the dry run said otherwise (-dry +done):\n%s", diff)
	}
	again, err := w.desk.DropAtFault(w.ctx, g, false)
	if err != nil || again.Rows != 0 || len(again.Left) != 1 || again.Left[0].Cause != metering.RowDropped {
		t.Errorf("a second drop did %+v, %v", again, err)
	}
	if r := w.retry(license(), false); r.Rows != 1 || r.Dropped.Rows != 1 {
		t.Errorf("%+v", r)
	}
	w.until("2026-03-10T16:00:00")
	w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 5})
	if r := w.row(bad); r.Status != metering.RejectedClientSide || !r.Dropped {
		t.Errorf("the dropped row ended as %+v", r)
	}
	w.books()
	if list, err := w.desk.Rejected(w.ctx, license()); err != nil || list.Rows != 0 || list.Dropped.Rows != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// A row under a key that names no group is listed, refused and can be dropped by its key.
func TestRowWithoutAGroup(t *testing.T) {
	t.Parallel()
	w := newDriveWorld(t)
	r := rejected(apiCalls, "2026-03-10T14:00:00", 5, metering.MalformedSortKey)
	r.SortKey = "no key at all"
	w.put(r)
	list, err := w.desk.Rejected(w.ctx, desk.Which{})
	if err != nil || len(list.List) != 1 || list.List[0].Key != r.SortKey || list.List[0].Hour != "" || list.List[0].Left != "" {
		t.Errorf("%+v, %v", list, err)
	}
	if done := w.retry(license(), false); len(done.Refused) != 1 || done.Refused[0].Cause != desk.CauseNoGroup || done.Refused[0].Key != r.SortKey {
		t.Errorf("%+v", done)
	}
	if done, err := w.desk.DropRow(w.ctx, driveLicense, r.SortKey, false); err != nil || done.Rows != 1 || done.Rest != nil {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err := w.desk.DropRow(w.ctx, driveLicense, "another", false); !errors.Is(err, desk.ErrNoRow) {
		t.Errorf("%v", err)
	}
	if done := w.retry(license(), false); len(done.Refused) != 0 {
		t.Errorf("%+v", done)
	}
}

// TestRetryRejectedRefuses: each case is an hour of rejected rows, and what stands against bringing it back.
func TestRetryRejectedRefuses(t *testing.T) {
	t.Parallel()
	h := hourOf("2026-03-10T14")
	over := hourOf("2026-03-09T14")
	row := func() metering.Row { return rejected(apiCalls, "2026-03-10T14:00:00", 5, metering.NegativeQuantity) }
	tagged := row()
	tagged.SortKey, tagged.Timestamp = groupIn(apiCalls, "2026-03-10T14").RowKey(h.Second(60)), h.Second(60).String()
	tagged.Allocations = []metering.Allocation{{Quantity: 5, Tags: []metering.Tag{{Key: "team", Value: "a"}}}}
	record := func(manifest string, quantity int64, status metering.Status) metering.Record {
		r := metering.NewRecord(groupIn(apiCalls, "2026-03-10T14"), quantity)
		r.Pending, r.Status, r.Manifest = "", status, manifest
		return r
	}
	byIdentifier := metering.NewRecord(groupIn(apiCalls, "2026-03-10T14"), 5)
	byIdentifier.License, byIdentifier.Pending, byIdentifier.Status = "sim-product", "", metering.Success
	legacy := row()
	legacy.License, legacy.CustomerIdentifier = "sim-product", "cust-1"
	for _, tt := range []struct {
		name   string
		what   desk.Which
		rows   []metering.Row
		record *metering.Record
		cause  string // of the one refusal; empty where there is none
		check  func(desk.Recalled) bool
	}{
		{"its hour is over", desk.Which{License: driveLicense, Hour: &over}, []metering.Row{rejected(apiCalls, "2026-03-09T14:00:00", 5, metering.NegativeQuantity)}, nil, "HourOver", nil},
		{"an older hour of a license", license(), []metering.Row{rejected(apiCalls, "2026-03-09T14:00:00", 5, metering.NegativeQuantity)}, nil, "",
			func(r desk.Recalled) bool { return r.Older == desk.Sum{Rows: 1, Units: 5} }},
		{"its rows do not fit together", license(), []metering.Row{row(), tagged}, nil, desk.CauseUnfit, nil},
		{"its record cannot be read", license(), []metering.Row{row()}, new(record("v9 1 5", 5, metering.Success)), "ManifestUnreadable", nil},
		{"its record holds it", license(), []metering.Row{row()}, new(record("v1 1 5 0:5", 5, metering.Success)), "",
			func(r desk.Recalled) bool { return r.Stale == desk.Sum{Rows: 1, Units: 5} }},
		{"its sale went by customer identifier", license(), []metering.Row{row()}, &byIdentifier, "SecondOfASale", nil},
		{"it is metered by customer identifier", desk.Which{License: "sim-product"}, []metering.Row{legacy}, nil, "ByIdentifier", nil},
		{"another dimension is asked for", desk.Which{License: driveLicense, Dimension: storage}, []metering.Row{row()}, nil, "", func(r desk.Recalled) bool { return r.Older.Rows == 0 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newDriveWorld(t)
			w.put(tt.rows...)
			if tt.record != nil {
				w.putRecords(*tt.record)
			}
			done := w.retry(tt.what, false)
			for _, r := range tt.rows {
				if got := w.row(r); got.Pending != "" {
					t.Errorf("%s waits", r.SortKey)
				}
			}
			switch {
			case len(done.Groups) != 0:
				t.Errorf("brought back %+v", done.Groups)
			case tt.cause == "" && len(done.Refused) != 0, tt.check != nil && !tt.check(done):
				t.Errorf("%+v", done)
			case tt.cause != "" && (len(done.Refused) != 1 || done.Refused[0].Cause != tt.cause || (tt.cause == desk.CauseUnfit) != (len(done.Refused[0].Unfit) == 2) || done.Refused[0].Why == "" || done.Refused[0].Why == tt.cause):
				t.Errorf("refused %+v", done.Refused)
			}
		})
	}
}

// F32: a group that has its record is asked for the other sale as one that has none, since what comes back late can be carried.
func TestRetryOfACommittedHourAsksForTheOtherSale(t *testing.T) {
	t.Parallel()
	w := newDriveWorld(t)
	w.put(waiting(apiCalls, "2026-03-10T14:00:00", 5))
	w.until("2026-03-10T15:40:00")
	twin := metering.NewRecord(groupIn(apiCalls, "2026-03-10T14"), 3)
	twin.License, twin.Pending, twin.Status = w.desk.ProductCode, "", metering.Success
	w.putRecords(twin)
	r := rejected(apiCalls, "2026-03-10T14:10:00", 3, metering.NegativeQuantity)
	w.put(r)
	if done := w.retry(license(), false); done.Rows != 0 || len(done.Refused) != 1 || done.Refused[0].Cause != string(metering.ObstacleTwin) || w.row(r).Pending != "" {
		t.Errorf("%+v", done)
	}
}

// A group that has its record comes back as late, row by row: what is wrong stays.
func TestRetryOfACommittedHourEndsAsLate(t *testing.T) {
	t.Parallel()
	w := newDriveWorld(t)
	w.put(waiting(apiCalls, "2026-03-10T14:00:00", 5))
	w.until("2026-03-10T15:40:00")
	good, bad := rejected(apiCalls, "2026-03-10T14:10:00", 3, metering.NegativeQuantity), rejected(apiCalls, "2026-03-10T14:11:00", -3, metering.NegativeQuantity)
	w.put(good, bad)
	done := w.retry(license(), false)
	if len(done.Groups) != 1 || !done.Groups[0].Late || done.Rows != 1 || len(done.Refused) != 1 || done.Refused[0].Cause != string(metering.RowFault) || len(done.Refused[0].Faulty) != 1 {
		t.Errorf("%+v", done)
	}
	w.until("2026-03-10T16:00:00")
	if r := w.row(good); r.Status != metering.LateUsage {
		t.Errorf("ended as %+v", r)
	}
	w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 5})
	w.books()
}

// TestRejectedList: groups by reason, the newest hour first; what a record holds, and what is dropped, is none.
func TestRejectedList(t *testing.T) {
	t.Parallel()
	w := newDriveWorld(t)
	dropped := rejected(apiCalls, "2026-03-10T14:03:00", 9, metering.NegativeQuantity)
	dropped.Dropped = true
	w.put(
		rejected(apiCalls, "2026-03-10T14:00:00", 5, metering.NegativeQuantity), rejected(apiCalls, "2026-03-10T14:01:00", 6, metering.NegativeQuantity),
		dropped, rejected(storage, "2026-03-10T14:00:00", 1, metering.InvalidTag), rejected(apiCalls, "2026-03-09T10:00:00", 2, metering.InvalidTag),
		rejected("covered", "2026-03-10T14:00:00", 4, metering.InvalidTag), rejected("covered", "2026-03-10T14:00:09", 8, metering.InvalidTag),
	)
	covered := metering.NewRecord(groupIn("covered", "2026-03-10T14"), 4)
	covered.Manifest = "v1 1 4 0:4"
	w.putRecords(covered)
	got, err := w.desk.Rejected(w.ctx, desk.Which{})
	if err != nil {
		t.Fatal(err)
	}
	entry := func(dimension, hour string, rows int, units int64, reason metering.Reason, what, do string, lost time.Time, left string) desk.RejectedUsage {
		return desk.RejectedUsage{
			Usage: desk.Usage{License: driveLicense, Account: driveAccount, Dimension: dimension, Hour: hour}, Sum: desk.Sum{Rows: rows, Units: units},
			Reason: string(reason), What: what, Do: do, LostAt: lost, Left: left, Committed: dimension == "covered",
		}
	}
	for i := range got.List {
		if got.List[i].What == "" || got.List[i].Do == "" {
			t.Errorf("no words for %+v", got.List[i])
		}
		if offers := strings.Contains(got.List[i].Do, "awsmp "); offers != (got.List[i].Left != "") {
			t.Errorf("%+v offers what needs time: %t", got.List[i], offers)
		}
		got.List[i].What, got.List[i].Do = "", ""
	}
	lost := instant("2026-03-11T14:00:00")
	want := desk.Rejected{
		Sum: desk.Sum{Rows: 5, Units: 22}, Dropped: desk.Sum{Rows: 1, Units: 9},
		List: []desk.RejectedUsage{
			entry(apiCalls, "2026-03-10T14", 2, 11, metering.NegativeQuantity, "", "", lost, "22h40m0s"),
			entry("covered", "2026-03-10T14", 1, 8, metering.InvalidTag, "", "", lost, "22h40m0s"),
			entry(storage, "2026-03-10T14", 1, 1, metering.InvalidTag, "", "", lost, "22h40m0s"),
			entry(apiCalls, "2026-03-09T10", 1, 2, metering.InvalidTag, "", "", instant("2026-03-10T10:00:00"), ""),
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	h := hourOf("2026-03-10T14")
	one, err := w.desk.Rejected(w.ctx, desk.Which{License: driveLicense, Account: driveAccount, Dimension: storage, Hour: &h})
	if err != nil || one.Rows != 1 {
		t.Errorf("%+v, %v", one, err)
	}
}

// TestKilledRetryOfRejected: two hours of three rows each; whatever write the operator dies at, run again it does the rest, and each hour is billed once.
func TestKilledRetryOfRejected(t *testing.T) {
	t.Parallel()
	killed(t, func(t *testing.T) *driveWorld {
		w := newDriveWorld(t)
		for _, hour := range []string{"2026-03-10T13", "2026-03-10T14"} {
			for i, minute := range []string{":00:00", ":01:00", ":02:00"} {
				w.put(rejected(apiCalls, hour+minute, int64(i+1), metering.NegativeQuantity))
			}
		}
		return w
	}, func(d *desk.Desk, ctx context.Context) (int, error) {
		done, err := d.RetryRejected(ctx, license(), false)
		return done.Rows, err
	}, 6, func(w *driveWorld) {
		w.until("2026-03-10T16:00:00")
		w.wantSold(map[string]int64{apiCalls + " 2026-03-10T13": 6, apiCalls + " 2026-03-10T14": 6})
		w.books()
	})
}

// An operator who dies half way and never comes back leaves no hour in parts: the rejected rows are summed with those that wait.
func TestRetryLeftHalfWayBillsWholeHours(t *testing.T) {
	t.Parallel()
	w := newDriveWorld(t)
	for i, minute := range []string{":00:00", ":01:00", ":02:00"} {
		w.put(rejected(apiCalls, "2026-03-10T14"+minute, int64(i+1), metering.NegativeQuantity))
	}
	w.desk.Tables = &mortal{Tables: w.store, left: 1}
	if _, err := w.desk.RetryRejected(w.ctx, license(), false); !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	w.until("2026-03-10T16:00:00")
	w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 6})
	w.books()
}

func TestKilledDrop(t *testing.T) {
	t.Parallel()
	g := groupIn(apiCalls, "2026-03-10T14")
	killed(t, func(t *testing.T) *driveWorld {
		w := newDriveWorld(t)
		w.put(rejected(apiCalls, "2026-03-10T14:00:00", 5, metering.NegativeQuantity))
		for _, minute := range []string{":01:00", ":02:00", ":03:00"} {
			w.put(rejected(apiCalls, "2026-03-10T14"+minute, -1, metering.NegativeQuantity))
		}
		return w
	}, func(d *desk.Desk, ctx context.Context) (int, error) {
		done, err := d.DropAtFault(ctx, g, false)
		return done.Rows, err
	}, 3, func(w *driveWorld) {
		w.retry(license(), false)
		w.until("2026-03-10T16:00:00")
		w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 5})
		w.books()
	})
}
