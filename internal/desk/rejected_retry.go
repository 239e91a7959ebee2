package desk

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// Recalled is what a retry of rejected usage did, or with DryRun would have done.
type Recalled struct {
	DryRun bool `json:"dryRun"`
	Sum
	Groups  []RecalledGroup `json:"recalled"` // in the order of their keys
	Refused []NotRecalled   `json:"refused"`  // what stays rejected, and why
	Waiting Sum             `json:"waiting"`  // rows of the groups that wait already
	Stale   Sum             `json:"stale"`    // rows that their hour's record holds: the next visit labels them so
	Dropped Sum             `json:"dropped"`  // rows that an operator has taken out
	Older   Sum             `json:"older"`    // rows of hours that are over, passed over; those of an hour that was asked for are refused
}

// RecalledGroup is a group whose rejected rows wait again.
type RecalledGroup struct {
	Usage
	Sum
	Late    bool      `json:"late"`             // its hour has its record: the rows end as late usage, which can be carried
	VisitAt time.Time `json:"visitAt,omitzero"` // of its next visit; missing where nothing runs
	LostAt  time.Time `json:"lostAt"`           // from when on the hour can no longer be billed
}

// NotRecalled is rejected usage that stays as it is.
type NotRecalled struct {
	Usage
	Sum
	Cause  string          `json:"cause"`
	Why    string          `json:"why"`              // in words
	Reason metering.Reason `json:"reason,omitempty"` // for which it would be rejected again
	What   string          `json:"what,omitempty"`   // that reason in words
	Faulty []FaultyRow     `json:"faulty,omitempty"` // the rows that are wrong by themselves
	Unfit  []UnfitRow      `json:"unfit,omitempty"`  // where none is: the rejected rows, which cannot be summed together
}

// FaultyRow is a row that would be rejected by itself.
type FaultyRow struct {
	Key    string          `json:"key"`
	Units  int64           `json:"units"` // 0 where its quantity is no number
	Reason metering.Reason `json:"reason"`
	What   string          `json:"what"` // the reason in words
}

// UnfitRow is a row that is right by itself.
type UnfitRow struct {
	Key    string `json:"key"`
	Units  int64  `json:"units"`
	Tagged bool   `json:"tagged"` // it has allocations
}

// Causes of NotRecalled beside the obstacles of package metering.
const (
	CauseNoGroup = "KeyNamesNoGroup"
	CauseAgain   = "RejectedAgain"
	CauseUnfit   = "RowsDoNotFit"
)

// why is a cause in words.
func why(cause string) string {
	switch cause {
	case CauseNoGroup:
		return "its key names no group: a key cannot be changed, so write the row anew under a right one, and drop this one"
	case CauseAgain:
		return "it would be rejected again: rows of it are still wrong"
	case CauseUnfit:
		return "it would be rejected again: each row is right by itself, but they cannot be summed together"
	case string(metering.RowOver):
		return metering.RowOver.Why() + "; what is owed can only be booked once, in the current hour"
	case string(metering.ObstacleTwin):
		return metering.ObstacleTwin.Why()
	}
	return metering.RowObstacle(cause).Why()
}

// RetryRejected lets rejected groups wait again whose fault is mended. Before it writes it sums each group as the aggregator would; one that
// would be rejected again stays as it is. What it did is told beside an error, and it may be run again: what waits already is left alone.
func (d *Desk) RetryRejected(ctx context.Context, what Which, dryRun bool) (Recalled, error) {
	done := Recalled{DryRun: dryRun, Groups: []RecalledGroup{}, Refused: []NotRecalled{}}
	groups, err := d.rejectedGroups(ctx, what, &done)
	if err != nil {
		return done, err
	}
	for _, g := range groups {
		if err := d.recallGroup(ctx, g, &done); err != nil {
			return done, err
		}
	}
	return done, nil
}

// rejectedGroups are the groups that are asked for and have rejected rows, in the order of their keys.
func (d *Desk) rejectedGroups(ctx context.Context, what Which, done *Recalled) ([]metering.Group, error) {
	if g, one := what.One(); one {
		return []metering.Group{g}, nil
	}
	now := d.Now()
	var groups []metering.Group
	met := make(map[metering.Group]bool)
	for r, err := range d.Tables.EndedRows(ctx, what.License, metering.RejectedClientSide) {
		if err != nil {
			return nil, fmt.Errorf("look for rejected rows: %w", err)
		}
		if r.Dropped || !what.Row(r) {
			continue
		}
		g, named := groupOf(r)
		switch {
		case !named:
			done.refuse(Usage{License: r.License, Account: r.Account, Dimension: r.Dimension, Key: r.SortKey}, []metering.Row{r}, CauseNoGroup)
		case what.Hour == nil && !d.Rules.Billable(g.Hour, now):
			done.Older.row(r)
		case !met[g]:
			met[g] = true
			groups = append(groups, g)
		}
	}
	return groups, nil
}

func (r *Recalled) refuse(u Usage, rows []metering.Row, cause string) *NotRecalled {
	n := NotRecalled{Usage: u, Cause: cause, Why: why(cause)}
	for _, row := range rows {
		n.row(row)
	}
	r.Refused = append(r.Refused, n)
	return &r.Refused[len(r.Refused)-1]
}

// rejectedGroup is a group as it is found.
type rejectedGroup struct {
	metering.Group
	record   *metering.Record
	unread   error          // why the record's manifest cannot be read
	rejected []metering.Row // without a marker, undropped, and not in the record
	faulty   []FaultyRow    // of all that would be summed
	fold     *metering.Fold
}

// findRejected reads a group as the aggregator does.
func (d *Desk) findRejected(ctx context.Context, g metering.Group, now time.Time, done *Recalled) (rejectedGroup, error) {
	found := rejectedGroup{Group: g, fold: metering.NewFold(g, now)}
	look := committed{tables: d.Tables}
	if err := look.look(ctx, g); err != nil {
		return found, err
	}
	found.record, found.unread = look.record, look.unread
	for r, err := range d.Tables.GroupRows(ctx, g) {
		if err != nil {
			return found, fmt.Errorf("read the rows of %s: %w", g.RecordKey(), err)
		}
		second, ours := g.Contains(r.SortKey)
		if !ours {
			continue
		}
		found.fold.Add(r)
		_, covered := look.manifest.Quantity(second)
		switch {
		case r.Pending != "":
			done.Waiting.row(r)
		case r.Status != metering.RejectedClientSide:
			continue
		case r.Dropped:
			done.Dropped.row(r)
			continue
		case covered:
			done.Stale.row(r)
		default:
			found.rejected = append(found.rejected, r)
		}
		if reason := r.Validate(now); reason != "" && !covered {
			units, _ := r.Quantity.Count()
			found.faulty = append(found.faulty, FaultyRow{r.SortKey, units, reason, ledger.Explain(ledger.Rejected, string(reason)).What})
		}
	}
	return found, nil
}

func (d *Desk) recallGroup(ctx context.Context, g metering.Group, done *Recalled) error {
	now := d.Now()
	found, err := d.findRejected(ctx, g, now, done)
	if err != nil || len(found.rejected) == 0 {
		return err
	}
	cause, err := d.againstRecall(ctx, found, now)
	switch {
	case err != nil:
		return err
	case cause == "":
		return d.recallRows(ctx, found, now, done)
	}
	n := done.refuse(usageOf(g), found.rejected, cause)
	if cause == CauseAgain || cause == CauseUnfit {
		_, n.Reason = found.fold.Record()
		n.What, n.Faulty = ledger.Explain(ledger.Rejected, string(n.Reason)).What, found.faulty
	}
	if cause == CauseUnfit {
		for _, r := range found.rejected {
			n.Unfit = append(n.Unfit, UnfitRow{r.SortKey, r.Quantity.N, len(r.Allocated()) > 0})
		}
	}
	return nil
}

// againstRecall is what stands against letting a whole group wait again. What its rows hold is judged row by row where it has its record.
func (d *Desk) againstRecall(ctx context.Context, found rejectedGroup, now time.Time) (cause string, err error) {
	switch {
	case metering.LegacyLicense(found.License):
		return string(metering.RowLegacy), nil
	case !d.Rules.Billable(found.Hour, now):
		return string(metering.RowOver), nil
	case found.unread != nil:
		return string(metering.RowManifest), nil
	}
	if _, reason := found.fold.Record(); reason != "" && found.record == nil { // else it is judged row by row
		if len(found.faulty) == 0 {
			return CauseUnfit, nil
		}
		return CauseAgain, nil
	}
	if taken, err := d.saleTaken(ctx, found.Group); err != nil || !taken {
		return "", err
	}
	return string(metering.ObstacleTwin), nil
}

// recallRows lets a group's rows wait again, one after the other. A group that is left half way is whole all the same: as long as one of its rows
// waits, the rejected ones are summed with it.
func (d *Desk) recallRows(ctx context.Context, found rejectedGroup, now time.Time, done *Recalled) error {
	group := RecalledGroup{Usage: usageOf(found.Group), Late: found.record != nil, VisitAt: d.nextVisit(found.Hour, now), LostAt: d.Rules.Deadline(found.Hour)}
	against := make(map[metering.RowObstacle][]metering.Row)
	var err error
	for _, r := range found.rejected {
		var o metering.RowObstacle
		if o, err = d.recallRow(ctx, r, now, done.DryRun); err != nil {
			break
		}
		if o == "" {
			group.row(r)
		} else {
			against[o] = append(against[o], r)
		}
	}
	if group.Rows > 0 {
		done.Groups = append(done.Groups, group)
		done.add(group.Sum)
	}
	for _, o := range metering.RowObstacles() {
		switch rows := against[o]; {
		case len(rows) == 0:
		case o == metering.RowWaiting: // by another hand
			for _, r := range rows {
				done.Waiting.row(r)
			}
		case o == metering.RowFault:
			done.refuse(group.Usage, rows, string(o)).Faulty = found.faulty
		default:
			done.refuse(group.Usage, rows, string(o))
		}
	}
	return err
}

func (d *Desk) recallRow(ctx context.Context, r metering.Row, now time.Time, dryRun bool) (metering.RowObstacle, error) {
	x, o := metering.RecallOf(r, d.Rules, now)
	if o != "" || dryRun {
		return o, nil
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	x.Token = rand.Text()
	out, err := d.Tables.RecallRow(ctx, x)
	switch {
	case err != nil:
		return "", fmt.Errorf("let row %s wait again: %w", r.SortKey, err)
	case out.Done, out.Old != nil && x.Shows(*out.Old):
		return "", nil
	case out.Old != nil && out.Old.Pending != "":
		return metering.RowWaiting, nil
	}
	return metering.RowChanged, nil
}

// nextVisit is when the discoverer looks at an hour next; zero where nothing runs, or where it is not looked at any more.
func (d *Desk) nextVisit(h metering.Hour, now time.Time) time.Time {
	if d.Plant == nil {
		return time.Time{}
	}
	at, _ := d.metered(h, now, false)
	return at
}
