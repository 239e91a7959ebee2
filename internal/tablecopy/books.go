package tablecopy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

const (
	// clockSkew is how far the clocks of who copies and of who writes may be apart.
	clockSkew = 15 * time.Minute
	// batch is how many groups are settled at once, fewer where they hold more than batchRows rows; readers is how many of these are read
	// again at once.
	batch     = 64
	batchRows = 2_000
	readers   = 8
)

var errUnfinished = errors.New("the copy does not hold the whole tables yet")

// Books computes the ledger of a scope from a copy that is finished. What cannot be decided by the copy is read again from the source, at
// the pace; again is told how many groups that are so far. It may be called more than once.
func (c *Copy) Books(ctx context.Context, source Source, scope ledger.Scope, pace *rate.Limiter, again func(groups int)) (ledger.Sheet, error) {
	if !c.Finished() {
		return ledger.Sheet{}, errUnfinished
	}
	scope.Alone = true
	b := &books{
		copy: c, source: source, scope: scope, pace: pace, observe: again,
		report:  ledger.NewReport(scope, "all partitions of a copy of the usage and aggregated-usage tables"),
		carried: make(map[metering.Group]bool),
	}
	if scope.License != "" {
		b.report.FoundBy = "named by the caller"
		b.report.AddLicense(scope.License)
	}
	// Late groups come last: units that an operator books from one of them into a later hour meanwhile are met in one place at most.
	err := b.pass(ctx, false)
	if err == nil && b.late {
		err = b.pass(ctx, true)
	}
	if err != nil {
		return ledger.Sheet{}, err
	}
	if err := b.addCarried(ctx); err != nil {
		return ledger.Sheet{}, err
	}
	b.report.Sort()
	sum := c.Progress()
	return ledger.Sheet{Report: b.report, Copy: &ledger.CopyNote{
		StartedAt: c.plan.StartedAt, FinishedAt: c.plan.FinishedAt, Continued: c.plan.Continued,
		Rows: sum.Rows, Records: sum.Records, ReadUnits: sum.Units, Dollars: dynamodb.DollarsOf(sum.Units), ReadAgain: b.again,
	}}, nil
}

// books is a ledger that is being computed.
type books struct {
	copy    *Copy
	source  Source
	scope   ledger.Scope
	pace    *rate.Limiter
	observe func(int)

	report  ledger.Report
	again   int
	late    bool                    // there are groups for the second pass
	carried map[metering.Group]bool // that units were carried to since, and the copy does not hold
}

// pass goes through the copy once and counts the groups with late rows, or all others.
func (b *books) pass(ctx context.Context, late bool) error {
	store := b.copy.store
	held, rows := make([]ledger.Held, 0, batch), 0
	for license, err := range store.Licenses(ctx) {
		if err != nil {
			return fmt.Errorf("read the copy: %w", err)
		}
		if b.scope.License != "" && b.scope.License != license {
			continue
		}
		if !late && b.scope.License == "" {
			b.report.AddLicense(license)
		}
		for h, err := range ledger.Gather(license, store.LicenseRows(ctx, license), store.LicenseRecords(ctx, license)) {
			if err != nil {
				return fmt.Errorf("read the copy: %w", err)
			}
			if !b.scope.Covers(h) {
				continue
			}
			if h.Late() != late {
				b.late = true
				continue
			}
			held, rows = append(held, h), rows+len(h.Rows)
			if len(held) == batch || rows >= batchRows {
				if err := b.settle(ctx, held, late); err != nil {
					return err
				}
				clear(held)
				held, rows = held[:0], 0
			}
		}
	}
	return b.settle(ctx, held, late)
}

// settle counts groups, those that the copy cannot decide as the tables have them now.
func (b *books) settle(ctx context.Context, held []ledger.Held, late bool) error {
	counts := make([]count, len(held))
	since := b.copy.plan.StartedAt.Add(-clockSkew)
	group, reading := errgroup.WithContext(ctx)
	group.SetLimit(readers)
	again := 0
	for i, h := range held {
		counts[i].Balance = h.Balance()
		if !late && h.Settled(since) && !h.Carried() && counts[i].Balanced() || h.Stray && h.Record != nil {
			continue
		}
		again++
		group.Go(func() (err error) {
			counts[i], err = b.read(reading, h)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("read again what changed: %w", err)
	}
	for _, c := range counts {
		if !c.gone {
			b.report.Add(c.Balance)
		}
		for _, g := range c.carriedTo {
			b.carried[g] = true
		}
	}
	if b.again += again; again > 0 && b.observe != nil {
		b.observe(b.again)
	}
	return nil
}

// count is what a group is counted as.
type count struct {
	ledger.Balance
	gone      bool // it was a row that is deleted now
	carriedTo []metering.Group
}

// read reads a group, or a row that belongs to none, as it stands.
func (b *books) read(ctx context.Context, h ledger.Held) (c count, err error) {
	const rowsAUnit = 16 // about, of a consistent read
	if err := take(ctx, b.pace, float64(3+len(h.Rows)/rowsAUnit)); err != nil {
		return c, err
	}
	err = patiently(ctx, func() error {
		if !h.Stray {
			seen := traces{Source: b.source}
			c.Balance, err = ledger.Read(ctx, &seen, h.Group)
			c.carriedTo = seen.to
			return err
		}
		row, err := b.source.Row(ctx, h.Group.License, h.Rows[0].SortKey)
		if err != nil {
			return err
		}
		if c.gone = row == nil; !c.gone {
			c.Balance = ledger.OfRow(*row)
		}
		return nil
	})
	return c, err
}

// traces notes where units were carried to from the groups whose records are read.
type traces struct {
	Source
	to []metering.Group
}

func (t *traces) Record(ctx context.Context, g metering.Group) (*metering.Record, error) {
	record, err := t.Source.Record(ctx, g)
	if err != nil || record == nil {
		return record, err
	}
	list, _ := record.Carried()
	for _, c := range list {
		if key, reason := metering.ParseRowKey(c.To); reason == "" {
			t.to = append(t.to, key.Group(g.License))
		}
	}
	return record, nil
}

// addCarried counts the groups that came into being by carrying after their place in the table was copied: else their units, which the late
// rows that were read again no longer hold, would be nowhere.
func (b *books) addCarried(ctx context.Context) error {
	for g := range b.carried {
		if !b.scope.Covers(ledger.Held{Group: g}) {
			continue
		}
		copied, err := b.holds(ctx, g)
		if err != nil {
			return fmt.Errorf("read the copy: %w", err)
		}
		if copied {
			continue // it was counted: its rows waited, and were read again
		}
		c, err := b.read(ctx, ledger.Held{Group: g})
		if err != nil {
			return fmt.Errorf("read what units were carried to: %w", err)
		}
		if c.Written != (ledger.Amount{}) {
			b.again++
			b.report.Add(c.Balance)
		}
	}
	return nil
}

// holds reports whether the copy holds anything of a group.
func (b *books) holds(ctx context.Context, g metering.Group) (bool, error) {
	record, err := b.copy.store.Record(ctx, g)
	if err != nil || record != nil {
		return record != nil, err
	}
	for _, err := range b.copy.store.GroupRows(ctx, g) {
		return err == nil, err
	}
	return false, nil
}
