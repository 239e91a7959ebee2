package tablecopy_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/tablecopy"
)

// live changes the tables between the pages of a copy as the stages do, one step of one group at a time: rows come, are committed, are
// labelled, the record is marked, sent and answered. Each step is stamped with the time of the copy.
type live struct {
	t      *testing.T
	source *hooked
	mu     sync.Mutex
	step   int
	groups int
}

const steps = 5

func (l *live) before(ctx context.Context, _ int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.step == steps*l.groups {
		return nil
	}
	// The groups are at different steps at any moment.
	n, step := l.step%l.groups, l.step/l.groups
	l.step++
	g := group(n%3, 1+n/3, "live")
	rows := []metering.Row{rowAt(g, 0, 4, "", ""), rowAt(g, 1, 6, "", "")}
	record := recordOf(l.t, "", rows...)
	record.CreatedAt, record.UpdatedAt = now().Format(time.RFC3339), now().Format(time.RFC3339)
	switch step {
	case 0:
		return l.source.PutRows(ctx, rows)
	case 1:
		return l.source.PutRecord(ctx, record)
	case 2, 3: // one row each
		r := rows[step-2]
		_, err := l.source.LabelRow(ctx, metering.Label{
			License: r.License, SortKey: r.SortKey, Marker: true, Quantity: r.Quantity, Status: metering.Aggregated, Reason: metering.AggregatedReason(10, 2), At: now(),
		})
		return err
	}
	_, err := l.source.FinishRecord(ctx, metering.Finish{
		License: g.License, SortKey: g.RecordKey(), Pending: true, Quantity: metering.Units(10), Status: metering.Success, MeteringRecordID: "r", At: now(),
	})
	return err
}

// While stages work on the tables a copy of them finds no imbalance that is not there and counts no unit twice: afterwards the books are
// those of the tables.
func TestBesideLiveStages(t *testing.T) {
	t.Parallel()
	source := &hooked{Ledger: tables(t, standin.Dynalite(t), 3)}
	l := &live{t: t, source: source, groups: 24}
	fill(t, source.Ledger, 3, 1)
	source.before = l.before
	pages := 0
	c := opened(t, t.TempDir(), source, tablecopy.Options{})
	defer c.Close()
	check(t, c.Run(t.Context(), source, nil, func(tablecopy.Progress) { pages++ }))
	if l.step < l.groups || pages < l.groups {
		t.Fatalf("only %d steps were taken during %d pages", l.step, pages)
	}
	sheet := books(t, c, source, ledger.Scope{})
	want := computed(t, source, ledger.Scope{})
	if !sheet.Report.Balanced() {
		t.Errorf("imbalances %+v", sheet.Report.Imbalances)
	}
	// Whole groups came after their place was copied: these are not in it, and nothing else is missing or there twice.
	missing := want.Total.Written.Units - sheet.Report.Total.Written.Units
	if missing < 0 || missing%10 != 0 || missing > int64(10*l.groups) || want.Groups-sheet.Report.Groups != int(missing/10) {
		t.Errorf("written %d in %d groups, the tables hold %d in %d", sheet.Report.Total.Written.Units, sheet.Report.Groups, want.Total.Written.Units, want.Groups)
	}
	t.Logf("%d steps during %d pages; %d of %d live groups were met", l.step, pages, int64(l.groups)-missing/10, l.groups)
}

// carry books a late row's units in the current hour.
func carry(t *testing.T, source *hooked, g metering.Group, target metering.Second) {
	t.Helper()
	row := rowAt(g, 30, 5, metering.LateUsage, metering.LateReason)
	record, err := source.Record(t.Context(), g)
	check(t, err)
	x, obstacle := metering.CarryOf(row, record, metering.Rules{LockHours: 1}, target, now())
	if obstacle != "" {
		t.Fatal(obstacle.Why())
	}
	// As the one transaction leaves them; nothing is read between the two here.
	check(t, source.PutRow(t.Context(), x.Apply(row)))
	check(t, source.PutRow(t.Context(), x.Row()))
	check(t, source.PutRecord(t.Context(), x.Note(*record)))
}

// Units that an operator books from one hour into another while the tables are copied, or after, stand in one place all the same.
func TestCarriedMeanwhile(t *testing.T) {
	t.Parallel()
	source := &hooked{Ledger: tables(t, standin.Dynalite(t), 2)}
	var late []metering.Group
	for n := range 4 {
		g := group(n, 3, "api")
		rows := []metering.Row{rowAt(g, 0, 7, metering.Aggregated, "")}
		check(t, source.PutRecord(t.Context(), recordOf(t, metering.Success, rows...)))
		check(t, source.PutRows(t.Context(), append(rows, rowAt(g, 30, 5, metering.LateUsage, metering.LateReason))))
		late = append(late, g)
	}
	// The current hour of the second license has usage of its own, so that its group is in the copy.
	check(t, source.PutRow(t.Context(), rowAt(group(1, 0, "api"), 0, 1, "", "")))
	at := metering.HourOf(now()).Second(600)
	source.before = func(_ context.Context, page int64) error {
		if page == 3 { // some of the tables was read
			carry(t, source, late[0], at)
		}
		return nil
	}
	c := opened(t, t.TempDir(), source, tablecopy.Options{Segments: 1})
	defer c.Close()
	check(t, c.Run(t.Context(), source, nil, nil))
	carry(t, source, late[1], at)
	carry(t, source, late[2], at)
	sheet := books(t, c, source, ledger.Scope{})
	same(t, computed(t, source, ledger.Scope{}), sheet.Report)
	if got := sheet.Report.Total.Written.Units; got != 4*12+1 {
		t.Errorf("written %d", got)
	}
}
