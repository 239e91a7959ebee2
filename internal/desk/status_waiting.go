package desk

import (
	"cmp"
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

const (
	defaultEntries = 5_000
	// summedMost is how many hours' bound of entries is read in all, where the store sums what waits by itself.
	summedMost = 4
	// hoursAtOnce bounds the hours whose index is read at the same time.
	hoursAtOnce = 12
	// pastHours are the hours past billing that are looked at, each of which is a query of two tables. What waits there is named within minutes while the stages run, and
	// where they stand still the last of these hours say so.
	pastHours = 12
	// sampledRows is how many rows of an old hour are read to see whether they hold anything: hours of zeros wait for a day by design.
	sampledRows = 5
)

// backlog is a store that sums what waits by itself.
type backlog interface {
	Waiting(ctx context.Context) ([]store.Waiting, error)
}

// waiting is what waits, by hour.
func (l *look) waiting(ctx context.Context) error {
	var list []Waiting
	var err error
	if b, ok := l.desk.Tables.(backlog); ok {
		list, err = l.summed(ctx, b)
	} else {
		list, err = l.queried(ctx)
	}
	slices.SortFunc(list, func(a, b Waiting) int { return cmp.Compare(a.Bucket, b.Bucket) })
	l.status.Waiting = append(l.status.Waiting, list...)
	return err
}

func (l *look) summed(ctx context.Context, b backlog) (list []Waiting, err error) {
	found, err := b.Waiting(ctx)
	limit := summedMost * l.most()
	for _, v := range found {
		w := Waiting{Bucket: v.Bucket, Rows: v.Rows, Records: v.Records, Units: v.Units, zeros: v.Units == 0}
		if h, err := metering.ParseHour(v.Bucket); err != nil {
			w.Misfiled = true
		} else {
			l.date(&w, h)
			if err := l.whose(ctx, h, &w, &limit); err != nil {
				return list, err
			}
		}
		list = append(list, w)
	}
	return list, err
}

// most is how many rows, and records, are counted of an hour.
func (l *look) most() int { return cmp.Or(l.options.Entries, defaultEntries) }

// date says how long an hour can still be billed.
func (l *look) date(w *Waiting, h metering.Hour) {
	w.LostAt = l.desk.Rules.Deadline(h)
	w.LostIn = l.left(w.LostAt)
}

// queried asks the indexes of both tables for the hours at which something may wait: from the next one back to half a day past billing.
func (l *look) queried(ctx context.Context) ([]Waiting, error) {
	current := metering.HourOf(l.now)
	oldest := current - metering.MaxOffset - 1 - pastHours
	if tail := l.desk.Rules.GraceTail(l.now); len(tail) > 0 {
		oldest = min(oldest, tail[0])
	}
	hours := make([]Waiting, current+1-oldest+1)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(hoursAtOnce)
	for i := range hours {
		group.Go(func() (err error) {
			hours[i], err = l.hour(ctx, oldest+metering.Hour(i))
			return err
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(hours, func(w Waiting) bool { return w.Rows+w.Records == 0 }), err
}

// hour counts what waits under one hour, up to a bound.
func (l *look) hour(ctx context.Context, h metering.Hour) (Waiting, error) {
	d, most := l.desk, l.most()
	w := Waiting{Bucket: h.String(), zeros: true}
	l.date(&w, h)
	var sample []metering.PendingRow
	if !d.Direct {
		for r, err := range d.Tables.PendingRows(ctx, h, "") {
			if err != nil {
				return w, err
			}
			if w.Rows == most {
				w.Over = true
				break
			}
			w.Rows++
			w.note(r.License, r.Account, 1, 0)
			if len(sample) < sampledRows {
				sample = append(sample, r)
			}
		}
	}
	records := 0
	for r, err := range d.Tables.PendingRecords(ctx, h, "") {
		if err != nil {
			return w, err
		}
		if records == most {
			w.Over = true
			break
		}
		records++
		w.note(r.License, r.Account, 0, 1)
		units, _ := r.Quantity.Count()
		w.Units += units
	}
	w.Records, w.NoUnits = records, w.Rows > 0
	return w, l.sampled(ctx, &w, h, sample)
}

// sampled looks whether an old hour's rows hold anything.
func (l *look) sampled(ctx context.Context, w *Waiting, h metering.Hour, sample []metering.PendingRow) error {
	if !l.overdue(h) || w.Units > 0 {
		w.zeros = w.zeros && w.Units == 0 && len(sample) == 0
		return nil
	}
	for _, r := range sample {
		row, err := l.desk.Tables.Row(ctx, r.License, r.SortKey)
		if err != nil {
			return err
		}
		if row == nil {
			continue
		}
		if units, known := row.Quantity.Count(); units != 0 || !known {
			w.zeros = false
		}
	}
	return nil
}

// overdue reports whether rows of an hour should have been summed by now: two hours after its lock.
func (l *look) overdue(h metering.Hour) bool {
	return h.Offset(l.now) >= l.desk.Rules.Lock(h, l.now)+2
}
