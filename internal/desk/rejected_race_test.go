package desk_test

import (
	"context"
	"testing"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// commit makes the record of a group as the aggregator does; its labels are on their way.
func (w *driveWorld) commit(g metering.Group) {
	w.t.Helper()
	fold := metering.NewFold(g, w.clock.Now())
	for r, err := range w.store.GroupRows(w.ctx, g) {
		if err != nil {
			w.t.Fatal(err)
		}
		fold.Add(r)
	}
	record, reason := fold.Record()
	if reason != "" {
		w.t.Fatal(reason)
	}
	if out, err := w.store.CreateRecord(w.ctx, record.Stamped(w.clock.Now())); err != nil || !out.Done {
		w.t.Fatal(out, err)
	}
}

// committing is a store whose group is committed right before a row of it is dropped.
type committing struct {
	*memory.Store
	commit func()
}

func (c committing) DropRow(ctx context.Context, x metering.Drop) (metering.Outcome[metering.Row], error) {
	c.commit()
	return c.Store.DropRow(ctx, x)
}

// A rejected row came back with its hour, and its label says otherwise still. It is billed, so no drop of it is claimed, whether the hour was
// committed before the desk looks or between its look and its write.
func TestDropOfACommittedRow(t *testing.T) {
	t.Parallel()
	g := groupIn(apiCalls, "2026-03-10T14")
	for name, tt := range map[string]struct {
		before bool
		cause  metering.RowObstacle
	}{
		"before":    {true, metering.RowCovered},
		"meanwhile": {false, desk.RowTooLate},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newDriveWorld(t)
			bad := rejected(apiCalls, "2026-03-10T14:01:00", 7, metering.MixedAllocatedAndUnallocated)
			w.put(bad, waiting(apiCalls, "2026-03-10T14:02:00", 3))
			if tt.before {
				w.commit(g)
			} else {
				w.desk.Tables = committing{w.store, func() { w.commit(g) }}
			}
			done, err := w.desk.DropRow(w.ctx, bad.License, bad.SortKey, false)
			if err != nil || done.Rows != 0 || len(done.List) != 0 || len(done.Left) != 1 || done.Left[0].Cause != tt.cause || done.Left[0].Units != 7 || done.Left[0].Why == "" {
				t.Errorf("told: %+v, %v", done, err)
			}
			w.desk.Tables = w.store
			w.until("2026-03-10T16:20:00")
			if got := w.row(bad); got.Status != metering.Aggregated {
				t.Errorf("at the end it is %s", got.Status)
			}
			w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 10})
			w.books()
		})
	}
}

// Where the manifest cannot be read it cannot be told what is billed.
func TestDropBesideAnUnreadableRecord(t *testing.T) {
	t.Parallel()
	w := newDriveWorld(t)
	bad := rejected(apiCalls, "2026-03-10T14:01:00", -1, metering.NegativeQuantity)
	record := metering.NewRecord(groupIn(apiCalls, "2026-03-10T14"), 3)
	record.Pending, record.Status, record.Manifest = "", metering.Success, "v9 1 3"
	w.put(bad)
	w.putRecords(record)
	done, err := w.desk.DropAtFault(w.ctx, groupIn(apiCalls, "2026-03-10T14"), false)
	if err != nil || done.Rows != 0 || len(done.Left) != 1 || done.Left[0].Cause != metering.RowManifest || w.row(bad).Dropped {
		t.Errorf("told: %+v, %v", done, err)
	}
}

// A flush into a dropped row is refused, so its writer books it elsewhere; one into a row beside it brings that one in.
func TestFlushIntoADroppedRow(t *testing.T) {
	t.Parallel()
	w := newDriveWorld(t)
	bad := rejected(apiCalls, "2026-03-10T14:01:59", 7, metering.MixedAllocatedAndUnallocated)
	w.put(bad)
	if _, err := w.desk.DropRow(w.ctx, driveLicense, bad.SortKey, false); err != nil {
		t.Fatal(err)
	}
	var flushes []metering.Flush
	for _, at := range []string{"2026-03-10T14:01:59", "2026-03-10T14:02:59"} {
		s, err := metering.ParseSecond(at)
		if err != nil {
			t.Fatal(err)
		}
		f := metering.NewFlush(groupIn(apiCalls, "2026-03-10T14"), s, 5, "token")
		f.At = w.clock.Now()
		flushes = append(flushes, f)
	}
	out := w.store.FlushRows(w.ctx, flushes)
	if out[0].Done || flushes[0].Refused(out[0].Row) != metering.ErrRowDropped || !out[1].Done {
		t.Errorf("flushed: %+v", out)
	}
	w.until("2026-03-10T16:20:00")
	w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 5})
	w.books()
}

// A rejection that is delivered once more, or lay among the dead letters, does not hit a row that waits again.
func TestStaleRejectionAfterARecall(t *testing.T) {
	t.Parallel()
	w := newDriveWorld(t)
	good, bad := waiting(apiCalls, "2026-03-10T14:01:00", 7), waiting(apiCalls, "2026-03-10T14:02:00", -1)
	w.put(good, bad)
	rejection := metering.NewCleanupRow(w.row(good))
	w.until("2026-03-10T15:36:00")
	if got := w.row(good); got.Status != metering.RejectedClientSide {
		t.Fatalf("it is %s", got.Status)
	}
	if _, err := w.desk.DropAtFault(w.ctx, groupIn(apiCalls, "2026-03-10T14"), false); err != nil {
		t.Fatal(err)
	}
	if done := w.retry(license(), false); done.Rows != 1 {
		t.Fatalf("recalled: %+v", done)
	}
	l := metering.Label{
		License: driveLicense, SortKey: rejection.Key, Marker: true, Fingerprint: rejection.Fingerprint,
		Status: metering.RejectedClientSide, Reason: string(metering.NegativeQuantity), At: w.clock.Now(),
	}
	if out, err := w.store.LabelRow(w.ctx, l); err != nil || out.Done {
		t.Errorf("the rejection is written: %+v, %v", out, err)
	}
	w.until("2026-03-10T16:20:00")
	w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 7})
	w.books()
}
