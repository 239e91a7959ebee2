package desk_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
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

// F12, a put that is delivered twice: the source comes back as it was, is late, and is not carried once more.
func TestSourceThatIsPutAgainIsNotCarriedAgain(t *testing.T) {
	t.Parallel()
	w := lateWorld(t)
	again := waiting(apiCalls, "2026-03-10T14:10:00", 2)
	w.carry(license(), 0, false)
	w.put(again)
	w.until("2026-03-10T16:20:30")
	done := w.carry(license(), 0, false)
	if done.Rows != 0 || len(done.Left) != 1 || done.Left[0].Cause != metering.RowCarried || done.Left[0].Units != 2 {
		t.Errorf("%+v", done)
	}
	again.Quantity = metering.Units(12) // put with more: the more alone is late
	w.put(again)
	w.until("2026-03-10T16:35:30")
	if done := w.carry(license(), 0, false); done.Rows != 1 || done.Units != 10 {
		t.Errorf("%+v", done)
	}
	w.until("2026-03-10T17:20:00")
	w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 5, apiCalls + " 2026-03-10T16": 19})
	w.books()
}

// A writer puts its own row where usage was carried to: what is lost by it has a name.
func TestTargetThatIsWrittenOverIsFound(t *testing.T) {
	t.Parallel()
	w := lateWorld(t)
	w.carry(license(), 0, false)
	w.put(waiting(apiCalls, "2026-03-10T16:00:01", 1))
	w.until("2026-03-10T17:20:00")
	b, err := ledger.Read(w.ctx, w.store, groupIn(apiCalls, "2026-03-10T14"))
	if err != nil || b.Balanced() || len(b.Findings) != 1 {
		t.Errorf("%+v, %v", b, err)
	}
}

// F32: the sale of the source's hour is billed by customer identifier; a copy of it under the license is not booked in another hour.
func TestCarryAsksForTheOtherSale(t *testing.T) {
	t.Parallel()
	w := lateWorld(t)
	twin := metering.NewRecord(metering.Group{License: w.desk.ProductCode, Account: driveAccount, Dimension: apiCalls, Hour: hourOf("2026-03-10T14")}, 100)
	twin.CustomerIdentifier, twin.Pending, twin.Status = "cust-1", "", metering.Success
	w.putRecords(twin)
	if done := w.carry(license(), 0, false); done.Rows != 0 || len(done.Left) != 1 || done.Left[0].Cause != metering.RowTwin || done.Left[0].Units != 9 {
		t.Errorf("%+v", done)
	}
	twin.Status = metering.CustomerNotSubscribed
	w.putRecords(twin)
	if done := w.carry(license(), 0, false); done.Rows != 3 {
		t.Errorf("%+v", done)
	}
}

// Usage without tags is not the first of an hour whose own will have tags, as the source's had.
func TestCarryIntoAnEmptyHour(t *testing.T) {
	t.Parallel()
	w := newDriveWorld(t)
	tagged := func(second string, n int64) metering.Row {
		r := waiting(apiCalls, second, n)
		r.Allocations = []metering.Allocation{{Quantity: n, Tags: []metering.Tag{{Key: "team", Value: "blue"}}}}
		return r
	}
	w.put(tagged("2026-03-10T14:00:00", 5))
	w.until("2026-03-10T15:40:00")
	w.put(waiting(apiCalls, "2026-03-10T14:10:00", 1), tagged("2026-03-10T14:11:00", 2))
	w.until("2026-03-10T16:00:30")
	done := w.carry(license(), 0, false)
	if done.Rows != 1 || done.Units != 2 || len(done.Left) != 1 || done.Left[0].Cause != desk.RowUnfit {
		t.Errorf("%+v", done)
	}
	w.put(tagged("2026-03-10T16:05:00", 1000))
	w.until("2026-03-10T17:20:00")
	w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 5, apiCalls + " 2026-03-10T16": 1002})
}

// A license's last hour: nothing is booked that no flush could take any more.
func TestCarryBeforeALicenseEnds(t *testing.T) {
	t.Parallel()
	for at, rows := range map[string]int{"2026-03-10T16:03:00": 3, "2026-03-10T16:06:01": 0} { // flushed at 16:06, sent at 16:08
		w := lateWorld(t)
		up := metering.LicenseEvent{License: driveLicense, Account: driveAccount, At: instant("2026-03-01T00:00:00")}
		down := metering.LicenseEvent{License: driveLicense, Account: driveAccount, At: instant("2026-03-10T15:10:00")}
		for _, c := range []metering.SubscriberChange{up.UpdatedAt(up.At), down.DeprovisionedAt(down.At)} { // its window ends at 16:10
			if _, _, err := w.store.ChangeSubscriber(w.ctx, c); err != nil {
				t.Fatal(err)
			}
		}
		w.until(at)
		if done := w.carry(license(), 0, false); done.Rows != rows || rows == 0 && done.Left[0].Cause != metering.RowEnded {
			t.Errorf("at %s: %+v", at, done)
		}
	}
}

// secondOperator does something just before the first one's write.
type secondOperator struct {
	desk.Tables
	before func()
}

func (s secondOperator) CarryRow(ctx context.Context, x metering.Carry) (metering.Outcome[metering.Row], error) {
	s.before()
	return s.Tables.CarryRow(ctx, x)
}

// Two operators in one second choose the same second: one of them has booked it, and says so.
func TestTwoOperatorsCarry(t *testing.T) {
	t.Parallel()
	w := lateWorld(t)
	first, other := *w.desk, desk.Carried{}
	first.Tables = secondOperator{w.store, func() {
		if other.Rows == 0 {
			other = w.carry(license(), 0, false)
		}
	}}
	done, err := first.CarryLate(w.ctx, license(), 0, false)
	if err != nil || done.Rows != 0 || other.Rows != 3 {
		t.Errorf("both: %+v, %v; %+v", done, err, other)
	}
}

// The hour turns between the look and the write.
func TestCarryWhileTheHourTurns(t *testing.T) {
	t.Parallel()
	w := lateWorld(t)
	w.until("2026-03-10T16:59:59")
	n := 0
	w.desk.Now = func() time.Time {
		if n++; n > 1 {
			return instant("2026-03-10T17:00:05")
		}
		return instant("2026-03-10T16:59:59")
	}
	done := w.carry(license(), 1, false)
	if len(done.Left) == 0 || done.Left[0].Cause != metering.RowChanged {
		t.Errorf("%+v", done)
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
