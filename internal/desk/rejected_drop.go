package desk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// Dropped is what was dropped, or with DryRun would have been.
type Dropped struct {
	DryRun bool `json:"dryRun"`
	Sum
	List []DroppedRow `json:"dropped"` // in the order of their keys
	Left []LeftRows   `json:"left"`    // what stays as it is, and why
	// Rest are the rows of the group that are rejected still and are right by themselves: a retry brings them back. Missing where the
	// group has none, or its hour is over.
	Rest *RejectedRest `json:"rest,omitempty"`
}

// DroppedRow is a rejected row that takes part in no sum any more.
type DroppedRow struct {
	License string `json:"licenseArn"`
	Key     string `json:"key"`
	Units   int64  `json:"units"` // that are not billed; 0 where its quantity is no number
	Reason  string `json:"reason"`
	What    string `json:"what"` // the reason in words
}

// RejectedRest is what is still rejected in a group.
type RejectedRest struct {
	Usage
	Sum
}

// LeftRows are rows that an operation leaves as they are, for one cause.
type LeftRows struct {
	Cause metering.RowObstacle `json:"cause"`
	Why   string               `json:"why"` // in words
	Sum
}

// RowTooLate is of a row whose hour was committed with it while it was dropped.
const RowTooLate metering.RowObstacle = "CommittedMeanwhile"

// ErrNoneAtFault says that no rejected row of a group is wrong by itself.
var ErrNoneAtFault = errors.New("no rejected row of the group is wrong by itself")

// DropRow drops one rejected row, whatever is wrong with it. It fails with ErrNoRow where there is none of the key.
func (d *Desk) DropRow(ctx context.Context, license, key string, dryRun bool) (Dropped, error) {
	done := Dropped{DryRun: dryRun, List: []DroppedRow{}, Left: []LeftRows{}}
	r, err := d.Tables.Row(ctx, license, key)
	switch {
	case err != nil:
		return done, fmt.Errorf("read row %s: %w", key, err)
	case r == nil:
		return done, ErrNoRow
	}
	left := make(leftRows)
	if err := d.drop(ctx, []metering.Row{*r}, &done, left); err != nil {
		return done, err
	}
	if g, named := groupOf(*r); named {
		return done, d.rest(ctx, g, &done)
	}
	return done, nil
}

// DropAtFault drops the rejected rows of a group that are wrong by themselves, so that the others can come back. It fails with ErrNoneAtFault
// where there are none: then rows that are right do not fit together, and which of them to give up only a person can say.
func (d *Desk) DropAtFault(ctx context.Context, g metering.Group, dryRun bool) (Dropped, error) {
	done := Dropped{DryRun: dryRun, List: []DroppedRow{}, Left: []LeftRows{}}
	now, left := d.Now(), make(leftRows)
	var faulty []metering.Row
	for r, err := range d.Tables.GroupRows(ctx, g) {
		if err != nil {
			return done, fmt.Errorf("read the rows of %s: %w", g.RecordKey(), err)
		}
		_, ours := g.Contains(r.SortKey)
		switch {
		case !ours:
		case r.Pending == "" && r.Status == metering.RejectedClientSide && r.Dropped:
			left.add(metering.RowDropped, r)
		case r.Pending == "" && r.Status == metering.RejectedClientSide && r.Validate(now) != "":
			faulty = append(faulty, r)
		}
	}
	if err := d.drop(ctx, faulty, &done, left); err != nil {
		return done, err
	}
	if len(faulty) == 0 && len(done.Left) == 0 {
		return done, ErrNoneAtFault
	}
	return done, d.rest(ctx, g, &done)
}

// drop drops rows of one group, and tells what it did beside an error. The write cannot see the group's record, so it is read before the
// first one and after the last one.
func (d *Desk) drop(ctx context.Context, rows []metering.Row, done *Dropped, left leftRows) (err error) {
	defer func() { done.Left = left.list() }()
	if len(rows) == 0 {
		return nil
	}
	record, err := d.recordOf(ctx, rows[0])
	if err != nil {
		return err
	}
	var dropped []droppedRow
	for _, r := range rows {
		x, o, failed := d.dropRow(ctx, r, record, done.DryRun)
		if err = failed; err != nil {
			break
		}
		if o != "" {
			left.add(o, r)
			continue
		}
		dropped = append(dropped, droppedRow{r, x})
	}
	if len(dropped) > 0 && !done.DryRun { // what was dropped before an interruption is looked after too
		after, failed := d.recordOf(context.WithoutCancel(ctx), rows[0])
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("look whether %s came in time: %w", ledger.Counted(int64(len(dropped)), "drop"), failed))
		}
		record = after
	}
	for _, r := range dropped {
		if r.drop.Late(record) != "" {
			left.add(RowTooLate, r.row)
			continue
		}
		units, _ := r.row.Quantity.Count()
		done.row(r.row)
		done.List = append(done.List, DroppedRow{
			r.row.License, r.row.SortKey, units, r.row.StatusReason, ledger.Explain(ledger.Rejected, r.row.StatusReason).What,
		})
	}
	return err
}

type droppedRow struct {
	row  metering.Row
	drop metering.Drop
}

// recordOf is the record of a row's group; nil where there is none, or the row's key names no group.
func (d *Desk) recordOf(ctx context.Context, r metering.Row) (*metering.Record, error) {
	g, named := groupOf(r)
	if !named {
		return nil, nil
	}
	record, err := d.Tables.Record(ctx, g)
	if err != nil {
		return nil, fmt.Errorf("look for the record of %s: %w", g.RecordKey(), err)
	}
	return record, nil
}

func (d *Desk) dropRow(ctx context.Context, r metering.Row, record *metering.Record, dryRun bool) (metering.Drop, metering.RowObstacle, error) {
	x, o := metering.DropOf(r, record, d.Now())
	if o != "" || dryRun {
		return x, o, nil
	}
	if err := ctx.Err(); err != nil {
		return x, "", err
	}
	x.Token = rand.Text()
	out, err := d.Tables.DropRow(ctx, x)
	switch {
	case err != nil:
		return x, "", fmt.Errorf("drop row %s: %w", r.SortKey, err)
	case out.Done, out.Old != nil && x.Made(*out.Old):
		return x, "", nil
	case out.Old != nil && x.Shows(*out.Old): // by another hand
		return x, metering.RowDropped, nil
	}
	return x, metering.RowChanged, nil
}

// rest looks at what the group could bring back now.
func (d *Desk) rest(ctx context.Context, g metering.Group, done *Dropped) error {
	now := d.Now()
	if !d.Rules.Billable(g.Hour, now) {
		return nil
	}
	gone := make(map[string]bool, len(done.List)) // a dry run finds them as they were
	for _, r := range done.List {
		gone[r.Key] = true
	}
	rest := RejectedRest{Usage: usageOf(g)}
	for r, err := range d.Tables.GroupRows(ctx, g) {
		if err != nil {
			return fmt.Errorf("read the rows of %s: %w", g.RecordKey(), err)
		}
		if _, ours := g.Contains(r.SortKey); ours && !gone[r.SortKey] && !r.Dropped && r.Pending == "" && r.Status == metering.RejectedClientSide && r.Validate(now) == "" {
			rest.row(r)
		}
	}
	if rest.Rows > 0 {
		done.Rest = &rest
	}
	return nil
}

// leftRows are rows with what stands against them.
type leftRows map[metering.RowObstacle]*LeftRows

func (l leftRows) add(o metering.RowObstacle, r metering.Row) {
	units, _ := r.Quantity.Count()
	l.units(o, units)
	if !r.Quantity.Whole {
		l[o].Unknown++
	}
}

// units counts a row by other units than it holds.
func (l leftRows) units(o metering.RowObstacle, n int64) {
	if l[o] == nil {
		l[o] = &LeftRows{Cause: o, Why: rowWhy(o)}
	}
	l[o].Rows++
	l[o].Units += n
}

// list is in the order in which obstacles are shown.
func (l leftRows) list() []LeftRows {
	list := []LeftRows{}
	for _, o := range append(metering.RowObstacles(), RowNoSecond, RowUnfit, RowTooLate) {
		if left := l[o]; left != nil {
			list = append(list, *left)
		}
	}
	return list
}
