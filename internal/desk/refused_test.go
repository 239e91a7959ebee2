package desk_test

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/store/sqlite"
)

// refusedWorld has a record in each of two hours and dimensions that were refused: the buyer was suspended.
func refusedWorld(t *testing.T) *driveWorld {
	w := newDriveWorld(t)
	if err := w.sim.SuspendAccount(driveAccount, true); err != nil {
		t.Fatal(err)
	}
	w.put(waiting(apiCalls, "2026-03-10T14:00:00", 5), waiting(storage, "2026-03-10T13:00:00", 7))
	w.until("2026-03-10T15:40:00")
	if err := w.sim.SuspendAccount(driveAccount, false); err != nil {
		t.Fatal(err)
	}
	return w
}

// F21: what was refused is listed with the time that is left, and sent once more when it is asked for.
func TestRefusedUsageIsSentOnceMore(t *testing.T) {
	t.Parallel()
	w := refusedWorld(t)
	for _, license := range []string{"", driveLicense} {
		list, err := w.desk.Refused(w.ctx, license)
		if err != nil {
			t.Fatal(err)
		}
		if list.Records != 2 || list.Units != 12 || !list.FirstLostAt.Equal(instant("2026-03-11T13:00:00")) || len(list.List) != 2 || list.List[0].Hour != "2026-03-10T14" ||
			list.List[0].Left != "22h20m0s" || list.List[0].License != driveLicense {
			t.Errorf("%+v", list)
		}
	}
	one := desk.Which{License: driveLicense, Dimension: storage}
	done, err := w.desk.RetryRefused(w.ctx, one, false)
	if err != nil || len(done.Reopened) != 1 || done.Units != 7 || !done.NextSubmission.Equal(instant("2026-03-10T15:43:00")) {
		t.Errorf("%+v, %v", done, err)
	}
	if _, err = w.desk.RetryRefused(w.ctx, license(), false); err != nil {
		t.Fatal(err)
	}
	w.until("2026-03-10T15:50:00")
	w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 5, storage + " 2026-03-10T13": 7})
	w.books()
	if list, err := w.desk.Refused(w.ctx, ""); err != nil || list.Records != 0 || len(list.Skipped) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if err := w.desk.Known(w.ctx, "arn:aws:license-manager::111122223333:license:l-unknown"); !errors.Is(err, pipeline.ErrUnknownLicense) {
		t.Errorf("%v", err)
	}
	if err := w.desk.Known(w.ctx, driveLicense); err != nil {
		t.Error(err)
	}
}

// Where nothing runs, or nothing is sent, no submission is promised.
func TestNoSubmissionIsPromised(t *testing.T) {
	t.Parallel()
	for _, change := range []func(*desk.Desk){func(d *desk.Desk) { d.Plant = nil }, func(d *desk.Desk) { d.Paused = true }} {
		w := refusedWorld(t)
		change(w.desk)
		if done, err := w.desk.RetryRefused(w.ctx, license(), true); err != nil || !done.NextSubmission.IsZero() || len(done.Reopened) != 2 {
			t.Errorf("%+v, %v", done, err)
		}
	}
}

func TestKilledRetryOfRefused(t *testing.T) {
	t.Parallel()
	killed(t, refusedWorld, func(d *desk.Desk, ctx context.Context) (int, error) {
		n := 0
		var err error
		for _, dimension := range []string{apiCalls, storage} { // a retry goes on after a write that failed, so one write each
			var done desk.Retried
			if done, err = d.RetryRefused(ctx, desk.Which{License: driveLicense, Dimension: dimension}, false); err != nil {
				break
			}
			n += len(done.Reopened)
		}
		return n, err
	}, 2, func(w *driveWorld) {
		w.until("2026-03-10T15:50:00")
		w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 5, storage + " 2026-03-10T13": 7})
		w.books()
	})
}

// dryWorld has two records that a dry run ended. Its desk is of a place that is live by now.
func dryWorld(t *testing.T) *driveWorld {
	dry := newDriveWorld(t, func(c *node.Config) { c.DryRun = true })
	dry.put(waiting(apiCalls, "2026-03-10T14:00:00", 5), waiting(storage, "2026-03-10T13:00:00", 7))
	dry.until("2026-03-10T15:40:00")
	return driveWorldOn(t, dry.store, dry.clock)
}

// F38: what a dry run has ended is billed when the place has gone live, inside the window, once.
func TestDryRunIsPromoted(t *testing.T) {
	t.Parallel()
	w := dryWorld(t)
	list, err := w.desk.DryRuns(w.ctx, "")
	if err != nil || list.Records != 2 || list.Units != 12 || len(list.List) != 2 || len(list.Skipped) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	w.desk.DryRun = true
	if done, err := w.desk.Promote(w.ctx, desk.Which{}, false); !errors.Is(err, desk.ErrDryRun) || done.Records != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	w.desk.DryRun = false
	twin := metering.NewRecord(groupIn(storage, "2026-03-10T13"), 7)
	twin.License, twin.Pending, twin.Status = w.desk.ProductCode, "", metering.Success
	w.putRecords(twin)
	for _, dry := range []bool{true, false} {
		done, err := w.desk.Promote(w.ctx, desk.Which{}, dry)
		if err != nil || done.Records != 1 || done.Units != 5 || done.DryRun != dry || len(done.Licenses) != 1 || !done.NextSubmission.Equal(instant("2026-03-10T15:43:00")) {
			t.Fatalf("%+v, %v", done, err)
		}
		o := metering.ObstacleTwin
		if diff := cmp.Diff([]pipeline.Skipped{{Cause: o, Why: o.Why(), Records: 1, Units: 7}}, done.Licenses[0].Skipped); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	w.until("2026-03-10T15:50:00")
	w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 5})
}

func TestPromotionEndsWithTheWindow(t *testing.T) {
	t.Parallel()
	w := dryWorld(t)
	w.clock.MoveTo(instant("2026-03-11T13:00:00"))
	h := hourOf("2026-03-10T13")
	done, err := w.desk.Promote(w.ctx, desk.Which{License: driveLicense, Hour: &h}, false)
	if err != nil || done.Records != 0 || len(done.Licenses[0].Skipped) != 1 || done.Licenses[0].Skipped[0].Cause != metering.ObstacleOver {
		t.Errorf("%+v, %v", done, err)
	}
}

func TestKilledPromotion(t *testing.T) {
	t.Parallel()
	killed(t, dryWorld, func(d *desk.Desk, ctx context.Context) (int, error) {
		n := 0
		var err error
		for _, dimension := range []string{apiCalls, storage} {
			var done desk.Promoted
			if done, err = d.Promote(ctx, desk.Which{License: driveLicense, Dimension: dimension}, false); err != nil {
				break
			}
			n += done.Records
		}
		return n, err
	}, 2, func(w *driveWorld) {
		w.until("2026-03-10T15:50:00")
		w.wantSold(map[string]int64{apiCalls + " 2026-03-10T14": 5, storage + " 2026-03-10T13": 7})
		w.books()
	})
}

// Two operators run the same command at the same time on the store that lasts: together they do each thing once.
func TestTwoOperatorsAtOnce(t *testing.T) {
	t.Parallel()
	const rows = 40
	for _, tt := range []struct {
		name    string
		prepare func(i int64) (metering.Row, *metering.Record)
		records []metering.Record
		operate func(d *desk.Desk) (int, error)
	}{
		{"rejected retry", func(i int64) (metering.Row, *metering.Record) {
			return rejectedAt(i, 1, metering.NegativeQuantity), nil
		}, nil, func(d *desk.Desk) (int, error) {
			done, err := d.RetryRejected(context.Background(), license(), false)
			return done.Rows, err
		}},
		{"rejected drop", func(i int64) (metering.Row, *metering.Record) {
			return rejectedAt(i, -1, metering.NegativeQuantity), nil
		}, nil, func(d *desk.Desk) (int, error) {
			done, err := d.DropAtFault(context.Background(), groupIn(apiCalls, "2026-03-10T14"), false)
			if errors.Is(err, desk.ErrNoneAtFault) {
				err = nil
			}
			return done.Rows, err
		}},
		{"late carry", func(i int64) (metering.Row, *metering.Record) {
			r := rejectedAt(i, 1, "")
			r.Status, r.StatusReason = metering.LateUsage, metering.LateReason
			record := metering.NewRecord(groupIn(apiCalls, "2026-03-10T14"), 5)
			record.Pending, record.Status, record.Manifest = "", metering.Success, "v1 1 5 3599:5"
			return r, &record
		}, nil, func(d *desk.Desk) (int, error) {
			done, err := d.CarryLate(context.Background(), license(), 0, false)
			return done.Rows, err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "usage.db")
			var desks [2]*desk.Desk
			for i := range desks {
				s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = s.Close() })
				now := instant("2026-03-10T15:20:00").Add(time.Duration(i) * time.Second) // by which each knows its own writes
				desks[i] = &desk.Desk{Tables: s, ProductCode: "product-1", Now: func() time.Time { return now }}
				if i > 0 {
					continue
				}
				for n := range int64(rows) {
					r, record := tt.prepare(n)
					if err := s.PutRow(t.Context(), r); err != nil {
						t.Fatal(err)
					}
					if record != nil {
						if err := s.PutRecord(t.Context(), *record); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			var done [2]int
			var both sync.WaitGroup
			for i, d := range desks {
				both.Go(func() {
					for {
						n, err := tt.operate(d)
						done[i] += n
						if locked := (*sqlite.Problem)(nil); errors.As(err, &locked) {
							continue // the other was quicker for too long: an operator asks again
						}
						if err != nil {
							t.Error(err)
						}
						return
					}
				})
			}
			both.Wait()
			if done[0]+done[1] != rows {
				t.Errorf("they did %d and %d of %d", done[0], done[1], rows)
			}
			var units int64
			for r, err := range desks[0].Tables.LicenseRows(t.Context(), driveLicense) {
				if err != nil {
					t.Fatal(err)
				}
				units += r.Quantity.N
			}
			if units != rows && units != -rows {
				t.Errorf("%d units stand in the table afterwards, want %d", units, rows)
			}
			if third, err := tt.operate(desks[0]); third != 0 || err != nil {
				t.Errorf("a third did %d, %v", third, err)
			}
		})
	}
}

func rejectedAt(second, quantity int64, reason metering.Reason) metering.Row {
	return rejected(apiCalls, hourOf("2026-03-10T14").Second(int(second)).String(), quantity, reason)
}
