package desk

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// Carried is what a carry of late usage did, or with DryRun would have done.
type Carried struct {
	DryRun bool `json:"dryRun"`
	Sum
	List    []CarriedRow `json:"carried"`
	Left    []LeftRows   `json:"left"`              // what stays late, and why
	Limited bool         `json:"limited,omitempty"` // there may be more: it ended at the limit
}

// CarriedRow is late usage of one row that is booked in another.
type CarriedRow struct {
	License string `json:"licenseArn"`
	From    string `json:"from"` // sort key of the source
	To      string `json:"to"`   // sort key of the target, in the current hour
	Units   int64  `json:"units"`
}

// CarryLate books late usage anew in the current hour, row by row: each in one transaction, so that it is never in both. What it did is told
// beside an error, and it may be run again: what is carried is late no more. With a limit above 0 it ends after as many rows.
func (d *Desk) CarryLate(ctx context.Context, what Which, limit int, dryRun bool) (Carried, error) {
	done, left := Carried{DryRun: dryRun, List: []CarriedRow{}}, make(leftRows)
	judge := d.lateJudge()
	var failed error
	for r, err := range d.lateRows(ctx, what) {
		if err != nil {
			failed = fmt.Errorf("look for late rows: %w", err)
			break
		}
		if limit > 0 && done.Rows == limit {
			done.Limited = true
			break
		}
		v, err := judge.look(ctx, r)
		var x metering.Carry
		if err == nil && v.obstacle == "" {
			x, v.obstacle, err = judge.carry(ctx, v, dryRun)
		}
		switch {
		case err != nil:
			failed = err
		case v.obstacle != "":
			left.units(v.obstacle, v.units)
		default:
			done.late(v)
			done.List = append(done.List, CarriedRow{r.License, r.SortKey, x.TargetKey(), x.Quantity})
		}
		if failed != nil {
			break
		}
	}
	done.Left = left.list()
	return done, failed
}

// carry chooses a free second for a row that can be carried, and books it there; at the next one where another writer has taken it meanwhile.
func (j *lateJudge) carry(ctx context.Context, v lateRow, dryRun bool) (metering.Carry, metering.RowObstacle, error) {
	c := &j.current
	if err := c.rows(ctx, j.d.Now()); err != nil {
		return metering.Carry{}, "", err
	}
	for {
		now := j.d.Now()
		target, free := c.free(now)
		switch {
		case metering.HourOf(now) != c.group.Hour:
			return metering.Carry{}, metering.RowChanged, nil
		case !free:
			return metering.Carry{}, RowNoSecond, nil
		}
		x, o := metering.CarryOf(v.row, v.record, j.d.Rules, target, now)
		if o != "" {
			return x, o, nil
		}
		if c.unlike(v.record, x.Row()) || !c.fits(x.Row(), now) {
			return x, RowUnfit, nil
		}
		x.Token = rand.Text()
		c.taken[target] = true
		if dryRun {
			return x, "", nil
		}
		if err := ctx.Err(); err != nil {
			return x, "", err
		}
		out, err := j.d.Tables.CarryRow(ctx, x)
		switch {
		case errors.Is(err, metering.ErrTooLarge):
			return x, metering.RowFull, nil
		case err != nil:
			return x, "", fmt.Errorf("carry row %s to %s: %w", x.SortKey, x.Target, err)
		case out.Done:
			noted := x.Note(*v.record)
			j.records.record = &noted
			return x, "", nil
		case out.Old == nil, !x.Holds(*out.Old):
			j.records.looked = false // another row of the group is judged by the record as it is now
			return x, metering.RowChanged, nil
		}
		c.held = c.held[:len(c.held)-1] // another writer has taken the second meanwhile
		c.refold(now)
	}
}

// rows reads what the current hour holds already.
func (c *current) rows(ctx context.Context, now time.Time) error {
	if c.read {
		return nil
	}
	c.taken, c.unfit, c.next = make(map[metering.Second]bool), make(map[bool]bool), c.group.Hour.Second(1)
	c.held = nil
	for r, err := range c.tables.GroupRows(ctx, c.group) {
		if err != nil {
			return fmt.Errorf("read the rows of the current hour: %w", err)
		}
		if second, ours := c.group.Contains(r.SortKey); ours {
			c.taken[second] = true
			c.held = append(c.held, r)
		}
	}
	c.refold(now)
	_, reason := c.fold.Record()
	c.unfit[true], c.unfit[false], c.read = reason != "", reason != "", true
	return nil
}

func (c *current) refold(now time.Time) {
	c.fold = metering.NewFold(c.group, now)
	for _, r := range c.held {
		c.fold.Add(r)
	}
}

// free is the first second of the current hour without a row, from its second one on: the first is where writers begin. So it is the one that
// lies back longest, since whoever meters a second may put its row minutes after it, over what is carried there; a young one is
// taken in the hour's first minutes alone, or where all older ones have their rows. None lies ahead of the clock.
func (c *current) free(now time.Time) (metering.Second, bool) {
	for c.taken[c.next] {
		c.next++
	}
	return c.next, c.next <= metering.Second(now.Unix())
}

// unlike reports whether a row would be the first with units in the current hour, and is tagged where the source's hour, as its record has
// it, was not, or the other way round: so, most likely, will be the rows that are still to come, and the hour would be refused with them.
func (c *current) unlike(source *metering.Record, r metering.Row) bool {
	if slices.ContainsFunc(c.held, func(r metering.Row) bool { return r.Quantity.N > 0 }) || source.Quantity.N == 0 {
		return false
	}
	return (len(source.Allocations) > 0) != (len(r.Allocations) > 0)
}

// fits reports whether the current hour can be summed with a row more: one that cannot be would hold back the whole hour, which is right so
// far. Where one does not fit, no later one is tried that is tagged, or untagged, like it.
func (c *current) fits(r metering.Row, now time.Time) bool {
	tagged := len(r.Allocations) > 0
	if c.unfit[tagged] {
		return false
	}
	c.fold.Add(r)
	if _, reason := c.fold.Record(); reason != "" {
		c.unfit[tagged] = true
		c.refold(now)
		return false
	}
	c.held = append(c.held, r)
	return true
}
