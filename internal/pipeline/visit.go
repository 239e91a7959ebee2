package pipeline

import (
	"context"
	"log/slog"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// logger is l, or one that drops everything.
func logger(l *slog.Logger) *slog.Logger {
	if l == nil {
		return slog.New(slog.DiscardHandler)
	}
	return l
}

// visit is a visit of a group that has its record: what the aggregator and age-out share.
type visit struct {
	rows    Rows
	metrics Metrics
	log     *slog.Logger
	now     time.Time
	out     *outbox
}

// cover applies the rule of coverage, second by second, to the rows of a committed group. It also heals: a cleanup that was
// lost, and covered rows that carry another label (F2, F25).
func (v visit) cover(ctx context.Context, g metering.Group, record metering.Record) error {
	manifest, err := record.Covers()
	if err != nil {
		v.metrics.Emit(metering.Measure{Metric: metering.MetricManifestUnreadable, Items: 1})
		v.log.Error("manifest unreadable: no row of the group is labelled until it is put right",
			"hour", g.Hour.String(), "dimension", g.Dimension, "license", metering.Masked(g.License), "error", err)
		return nil
	}
	total, _ := record.Quantity.Count()
	reason := metering.AggregatedReason(total, manifest.Count())

	type label struct {
		status metering.Status
		reason string
	}
	var covered []metering.CleanupRow
	other := make(map[label][]metering.CleanupRow)
	var order []label // labels in the order in which they were met, so that a visit repeats exactly
	for row, err := range v.rows.GroupRows(ctx, g) {
		if err != nil {
			return err
		}
		second, ours := g.Contains(row.SortKey)
		if !ours {
			continue
		}
		if quantity, ok := manifest.Quantity(second); ok {
			if _, changed := metering.Covered(row, quantity, reason); changed {
				covered = append(covered, metering.CoveredRow(g, second, quantity))
			}
			continue
		}
		if row.Pending == "" {
			continue
		}
		l := label{}
		switch status, why := metering.Uncovered(row, v.now); status {
		case metering.RejectedClientSide:
			l = label{status, string(why)}
		case metering.LateUsage:
			l = label{status, metering.LateReason}
		default:
			l = label{status, reason}
		}
		if _, met := other[l]; !met {
			order = append(order, l)
		}
		other[l] = append(other[l], metering.NewCleanupRow(row))
	}
	if err := v.out.label(ctx, metering.CleanupMessage{
		License: g.License, Covered: true, Status: metering.Aggregated, Reason: reason,
	}, covered); err != nil {
		return err
	}
	for _, l := range order {
		if err := v.out.label(ctx, metering.CleanupMessage{License: g.License, Status: l.status, Reason: l.reason}, other[l]); err != nil {
			return err
		}
	}
	return nil
}
