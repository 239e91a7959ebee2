package desk_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/metering"
)

func (w *driveWorld) carry(what desk.Which, limit int, dryRun bool) desk.Carried {
	w.t.Helper()
	done, err := w.desk.CarryLate(w.ctx, what, limit, dryRun)
	if err != nil {
		w.t.Fatal(err)
	}
	return done
}

// lateWorld has an hour that is billed with 5 units, to which rows of 2 and 3 came late, and whose first row grew by 4.
func lateWorld(t *testing.T) *driveWorld {
	w := newDriveWorld(t)
	first := waiting(apiCalls, "2026-03-10T14:00:00", 5)
	w.put(first)
	w.until("2026-03-10T15:40:00")
	grown := w.row(first)
	grown.Quantity, grown.Pending, grown.Status, grown.StatusReason = metering.Units(9), "2026-03-10T14", "", ""
	w.put(grown, waiting(apiCalls, "2026-03-10T14:10:00", 2), waiting(apiCalls, "2026-03-10T14:11:00", 3))
	w.until("2026-03-10T16:00:30")
	return w
}

// F7, F23: late usage is booked in the current hour, and billed with it, once.
func TestLateUsageIsCarriedIntoTheCurrentHour(t *testing.T) {
	t.Parallel()
	w := lateWorld(t)
	list, err := w.desk.Late(w.ctx, desk.Which{})
	if err != nil {
		t.Fatal(err)
	}
	usage := desk.Usage{License: driveLicense, Account: driveAccount, Dimension: apiCalls, Hour: "2026-03-10T14"}
	sum := desk.Sum{Rows: 3, Units: 9}
	if diff := cmp.Diff(desk.Late{Sum: sum, Ready: sum, List: []desk.LateUsage{{Usage: usage, Sum: sum}}}, list); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	w.put(waiting(apiCalls, "2026-03-10T16:00:02", 100)) // the second target is taken
	dry := w.carry(license(), 0, true)
	done := w.carry(license(), 0, false)
	key := func(second string) string { return driveAccount + "#" + apiCalls + "#2026-03-10T" + second }
	want := desk.Carried{Sum: sum, Left: []desk.LeftRows{}, List: []desk.CarriedRow{
		{driveLicense, key("14:00:00"), key("16:00:01"), 4}, {driveLicense, key("14:10:00"), key("16:00:03"), 2}, {driveLicense, key("14:11:00"), key("16:00:04"), 3},
	}}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want.DryRun = true
	if diff := cmp.Diff(want, dry); diff != "" {
		t.Errorf("the dry run said otherwise (-want +got):\n%s", diff)
	}
	w.books()
	if again := w.carry(license(), 0, false); again.Rows != 0 || len(again.Left) != 0 {
		t.Errorf("a second carry did %+v", again)
	}
	w.until("2026-03-10T17:20:00")
	w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 5, apiCalls + " 2026-03-10T16": 109})
	w.books()
}

func TestCarryStopsAtItsLimit(t *testing.T) {
	t.Parallel()
	w := lateWorld(t)
	if done := w.carry(license(), 2, false); done.Rows != 2 || !done.Limited || done.Units != 6 {
		t.Errorf("%+v", done)
	}
	if done := w.carry(license(), 2, false); done.Rows != 1 || done.Limited {
		t.Errorf("%+v", done)
	}
	w.until("2026-03-10T17:20:00")
	w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 5, apiCalls + " 2026-03-10T16": 9})
}

// TestCarryRefuses: what stands against booking the late usage now.
func TestCarryRefuses(t *testing.T) {
	t.Parallel()
	ended := metering.SubscriberFromItem(metering.Item{
		"licenseArn": driveLicense, "customerAWSAccountId": driveAccount, "subscriptionStatus": "inactive", "subscriptionStatusAt": "2026-03-10T15:00:00Z",
	})
	tagged := func(r metering.Row, quantity int64) metering.Row {
		r.Allocations = []metering.Allocation{{Quantity: quantity, Tags: []metering.Tag{{Key: "team", Value: "a"}}}}
		return r
	}
	for _, tt := range []struct {
		name    string
		prepare func(*driveWorld)
		cause   metering.RowObstacle
		rows    int // carried all the same
	}{
		{"nothing", func(*driveWorld) {}, "", 3},
		{"the license has ended", func(w *driveWorld) { w.mustEnd(ended) }, metering.RowEnded, 0},
		{"the current hour is committed", func(w *driveWorld) { w.putRecords(metering.NewRecord(groupIn(apiCalls, "2026-03-10T16"), 1)) }, metering.RowCommitted, 0},
		{"the hour has just begun", func(w *driveWorld) { w.until("2026-03-10T17:00:00") }, desk.RowNoSecond, 0},
		{"every second is taken", func(w *driveWorld) {
			for s := range 30 {
				w.put(waiting(apiCalls, fmt.Sprintf("2026-03-10T16:00:%02d", s+1), 1))
			}
		}, desk.RowNoSecond, 0},
		{"the current hour is wrong", func(w *driveWorld) { w.put(waiting(apiCalls, "2026-03-10T16:00:00", -1)) }, desk.RowUnfit, 0},
		{"the current hour is tagged", func(w *driveWorld) { w.put(tagged(waiting(apiCalls, "2026-03-10T16:00:00", 1), 1)) }, desk.RowUnfit, 0},
		{"the grown row is tagged", func(w *driveWorld) {
			r := w.row(waiting(apiCalls, "2026-03-10T14:00:00", 0))
			w.put(tagged(r, 9))
		}, metering.RowTagged, 2},
		{"one is tagged, and does not go with the others", func(w *driveWorld) {
			r := w.row(waiting(apiCalls, "2026-03-10T14:10:00", 0))
			w.put(tagged(r, 2))
		}, desk.RowUnfit, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := lateWorld(t)
			tt.prepare(w)
			done := w.carry(license(), 0, false)
			if done.Rows != tt.rows {
				t.Errorf("carried %+v", done.List)
			}
			if tt.cause == "" {
				if len(done.Left) != 0 {
					t.Errorf("left %+v", done.Left)
				}
				return
			}
			if len(done.Left) != 1 || done.Left[0].Cause != tt.cause || done.Left[0].Rows != 3-tt.rows || done.Left[0].Why == "" || done.Left[0].Why == string(tt.cause) {
				t.Errorf("left %+v", done.Left)
			}
			w.books()
		})
	}
}

func (w *driveWorld) mustEnd(s metering.Subscriber) {
	w.t.Helper()
	at := instant("2026-03-10T14:30:00")
	e := metering.LicenseEvent{License: s.License, Account: s.Account, At: at}
	for _, c := range []metering.SubscriberChange{e.UpdatedAt(at), e.DeprovisionedAt(at), metering.FinalizeAt(s.License, s.Account, w.clock.Now())} {
		if _, _, err := w.store.ChangeSubscriber(w.ctx, c); err != nil {
			w.t.Fatal(err)
		}
	}
}

// TestKilledCarry: whatever write the operator dies at, run again it does the rest, and every unit is billed once.
func TestKilledCarry(t *testing.T) {
	t.Parallel()
	killed(t, lateWorld, func(d *desk.Desk, ctx context.Context) (int, error) {
		done, err := d.CarryLate(ctx, license(), 0, false)
		return done.Rows, err
	}, 3, func(w *driveWorld) {
		w.until("2026-03-10T17:20:00")
		w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 5, apiCalls + " 2026-03-10T16": 9})
		w.books()
	})
}

// rival writes a row at the target of each carry just before it is made.
type rival struct {
	desk.Tables
	w    *driveWorld
	left int
}

func (r *rival) CarryRow(ctx context.Context, x metering.Carry) (metering.Outcome[metering.Row], error) {
	if r.left--; r.left >= 0 {
		row := x.Row()
		row.Quantity, row.Other = metering.Units(1000), nil
		r.w.put(row)
	}
	return r.Tables.CarryRow(ctx, x)
}

// Another writer takes the chosen second between look and write: the next one is taken, and neither overwrites the other.
func TestCarryGivesWayToAnotherWriter(t *testing.T) {
	t.Parallel()
	w := lateWorld(t)
	w.desk.Tables = &rival{Tables: w.store, w: w, left: 2}
	if done := w.carry(license(), 0, false); done.Rows != 3 || done.List[0].To[len(done.List[0].To)-8:] != "16:00:03" {
		t.Errorf("%+v", done)
	}
	w.desk.Tables = w.store
	w.until("2026-03-10T17:20:00")
	w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 5, apiCalls + " 2026-03-10T16": 2009})
	w.books()
}
