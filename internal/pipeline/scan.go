package pipeline

import (
	"context"
	"errors"

	"github.com/awsmp/metering/internal/metering"
)

// scan walks the pending index hour by hour and decides what becomes of each entry. Nothing that the index shows stays
// pending unhandled.
type scan struct {
	*Discoverer
	closing bool // the license's window is about to close
	// visitable reports whether a misfiled row's own hour may be visited now.
	visitable func(metering.Hour) bool
	expiring  bool // the hours can no longer be billed: their rows are ended, not enqueued

	found   Discovery
	work    outbox
	cleanup outbox
	// seen holds the groups already handled of the license being read: the index is sorted by license, so memory does
	// not grow with the number of licenses.
	seen    map[metering.Group]bool
	license string
	errs    []error
}

func (d *Discoverer) newScan(work Queue) *scan {
	s := &scan{Discoverer: d, work: outbox{queue: work}, cleanup: outbox{queue: d.Cleanup}}
	s.visitable = func(h metering.Hour) bool { return s.Rules.Visitable(h, s.Now()) }
	return s
}

// close sends what is left, counts what was really sent, and reports all that went wrong.
func (s *scan) close(ctx context.Context) error {
	err := errors.Join(append(s.errs, s.work.close(ctx), s.cleanup.close(ctx))...)
	s.found.Enqueued, s.found.Labels = s.work.sent, s.cleanup.sent
	return err
}

// maxErrors is how many failures a scan puts up with before it leaves the rest to its next run.
const maxErrors = 8

// hour looks at one hour and reports whether the scan goes on. What fails is noted and left to the next visit: it must not
// starve what stands behind it.
func (s *scan) hour(ctx context.Context, h metering.Hour, license string) bool {
	s.seen, s.license = nil, ""
	for entry, err := range s.Rows.PendingRows(ctx, h, license) {
		if err == nil {
			s.found.Entries++
			err = s.entry(ctx, h, entry)
		}
		if err != nil {
			s.errs = append(s.errs, err)
		}
		if ctx.Err() != nil || len(s.errs) > maxErrors {
			return false
		}
	}
	return true
}

func (s *scan) entry(ctx context.Context, bucket metering.Hour, e metering.PendingRow) error {
	key, reason := metering.ParseRowKey(e.SortKey)
	if reason != "" {
		return s.rejectUnreadable(ctx, e)
	}
	g := key.Group(e.License)
	if g.Hour != bucket {
		return s.misfiled(ctx, g, e)
	}
	if !s.first(g) {
		return nil
	}
	if s.expiring {
		return s.expire(ctx, g)
	}
	return s.enqueue(ctx, g)
}

// first reports whether the group is met for the first time in this hour.
func (s *scan) first(g metering.Group) bool {
	if s.seen == nil || s.license != g.License {
		s.seen, s.license = make(map[metering.Group]bool), g.License
	}
	if s.seen[g] {
		return false
	}
	s.seen[g] = true
	return true
}

func (s *scan) enqueue(ctx context.Context, g metering.Group) error {
	if !s.Rules.Billable(g.Hour, s.Now()) {
		return nil // it lapsed during the scan: age-out owns it now
	}
	return s.work.add(ctx, metering.Encode(metering.NewWorkMessage(g, s.closing)))
}

// misfiled handles a row whose bucket is not the hour of its key, which its group's prefix would never find again (F11,
// case 23). A wrong bucket alone never rejects.
func (s *scan) misfiled(ctx context.Context, g metering.Group, e metering.PendingRow) error {
	now := s.Now()
	switch {
	case s.visitable(g.Hour):
		if !s.first(g) {
			return nil
		}
		return s.enqueue(ctx, g)
	case metering.BeyondSweep(g.Hour, now): // under its own hour nobody would look for it again
		if !s.first(g) {
			return nil
		}
		return s.expire(ctx, g)
	}
	s.Metrics.Emit(metering.Measure{Metric: metering.MetricPendingRepaired, Items: 1})
	out, err := s.Rows.RebucketRow(ctx, metering.Rebucket{
		License: e.License, SortKey: e.SortKey, From: e.Bucket, To: g.Hour.String(), At: now,
	})
	if out.Done {
		s.found.Repaired++
	}
	return err
}

// rejectUnreadable ends a row whose key names no group at all.
func (s *scan) rejectUnreadable(ctx context.Context, e metering.PendingRow) error {
	row, err := s.Rows.Row(ctx, e.License, e.SortKey)
	if err != nil || row == nil || row.Pending == "" {
		return err
	}
	reason := row.Validate(s.Now())
	return s.cleanup.label(ctx, metering.CleanupMessage{
		License: e.License, Status: metering.RejectedClientSide, Reason: string(reason),
	}, []metering.CleanupRow{metering.NewCleanupRow(*row)})
}

// expire ends the waiting rows of a group that can no longer be billed: by coverage where it has a record, so that billed
// usage is never called lost (F2), otherwise as AggregationExpired.
func (s *scan) expire(ctx context.Context, g metering.Group) error {
	record, err := s.Records.Record(ctx, g)
	if err != nil {
		return err
	}
	v := visit{rows: s.Rows, metrics: s.Metrics, log: logger(s.Log), now: s.Now(), out: &s.cleanup}
	if record != nil {
		return v.cover(ctx, g, *record)
	}
	var rows []metering.CleanupRow
	for row, err := range s.Rows.GroupRows(ctx, g) {
		if err != nil {
			return err
		}
		if _, ours := g.Contains(row.SortKey); ours && row.Pending != "" {
			rows = append(rows, metering.NewCleanupRow(row))
		}
	}
	return s.cleanup.label(ctx, metering.CleanupMessage{
		License: g.License, Status: metering.AggregationExpired, Reason: metering.ExpiredReason,
	}, rows)
}
