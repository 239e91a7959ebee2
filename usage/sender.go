package usage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/awsmp/metering/internal/metering"
)

// Table is where usage is written: one of the stores. Reads are consistent, and calls return soon after their context is done.
type Table interface {
	// Record reads a group's record as it stands; nil where there is none: its hour has not been metered.
	Record(ctx context.Context, g metering.Group) (*metering.Record, error)
	// Row reads a row as it stands; nil where there is none. It is asked where a batch comes again after its hour was metered.
	Row(ctx context.Context, license, sortKey string) (*metering.Row, error)
	// FlushRows applies each flush at most once, in one conditional write each. Results are in the order of the flushes.
	FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed
}

// sender takes parts to the table and finds out what became of them.
type sender struct {
	table    Table
	rules    metering.Rules
	parallel int
	now      func() time.Time
}

// rowsAtOnce holds the finest hour of a group: then its record is read once before it and once after.
const rowsAtOnce = 3600

// try sends each part once. Those that have no answer are returned, each with its cause; what became of the others stands in them.
func (s *sender) try(ctx context.Context, parts []*part, answered func([]*part)) (left []*part) {
	inOrder(parts)
	for some := range slices.Chunk(parts, rowsAtOnce) {
		s.tryTogether(ctx, some)
		done := make([]*part, 0, len(some))
		for _, p := range some {
			if p.answered {
				done = append(done, p)
			} else {
				p.tries++
				left = append(left, p)
			}
		}
		answered(done)
	}
	return left
}

// visit is one group's share of a round: its record is read once before and once after its rows are written.
type visit struct {
	group metering.Group
	parts []*part
}

func (v *visit) fresh() bool {
	return slices.ContainsFunc(v.parts, func(p *part) bool { return !p.sent })
}

func (v *visit) written() bool {
	return slices.ContainsFunc(v.parts, func(p *part) bool { return p.stands })
}

func (s *sender) tryTogether(ctx context.Context, parts []*part) {
	var visits []*visit
	of := make(map[*group]*visit)
	for _, p := range parts {
		v := of[p.group]
		if v == nil {
			v = &visit{group: p.group.key}
			of[p.group], visits = v, append(visits, v)
		}
		v.parts = append(v.parts, p)
	}
	s.each(len(visits), func(i int) {
		if visits[i].fresh() {
			s.lookBefore(ctx, visits[i])
		}
	})
	s.write(ctx, parts)
	s.each(len(visits), func(i int) {
		if visits[i].written() {
			s.lookAfter(ctx, visits[i])
		}
	})
}

// lookBefore answers the parts that were never sent and whose hour is taken or over: nothing of them is written. Once a part may
// have reached the table, only the row can tell.
func (s *sender) lookBefore(ctx context.Context, v *visit) {
	record, err := s.table.Record(ctx, v.group)
	var against error
	switch {
	case err != nil:
		err = fmt.Errorf("read record: %w", err)
	case record != nil:
		against = ErrHourCommitted
	case !s.rules.Billable(v.group.Hour, s.now()):
		against = refusalOf(HourClosed, nil)
	}
	for _, p := range v.parts {
		switch {
		case p.sent:
		case err != nil:
			p.cause = err
		case against != nil && p.known:
			s.lookForToken(ctx, v, p, against)
		case against != nil:
			p.answer(against)
		default:
			p.cause = nil
		}
	}
}

// lookForToken keeps a batch that comes again apart from one that comes too late: the first stands in its rows, and what became
// of it is not what would become of it now.
func (s *sender) lookForToken(ctx context.Context, v *visit, p *part, against error) {
	row, err := s.table.Row(ctx, v.group.License, p.flush.SortKey())
	switch {
	case err != nil:
		p.cause = fmt.Errorf("read row: %w", err)
	case row != nil && p.flush.Shows(*row):
		p.sent, p.stands, p.row = true, true, row
	default:
		p.answer(against)
	}
}

// write flushes what is neither answered, nor found in its row, nor without its look before.
func (s *sender) write(ctx context.Context, parts []*part) {
	ready := make([]*part, 0, len(parts))
	for _, p := range parts {
		if !p.answered && !p.stands && (p.sent || p.cause == nil) {
			ready = append(ready, p)
		}
	}
	if len(ready) == 0 {
		return
	}
	if err := ctx.Err(); err != nil { // nothing is sent, and so nothing becomes uncertain
		for _, p := range ready {
			p.cause = err
		}
		return
	}
	flushes, now := make([]metering.Flush, len(ready)), s.now()
	for i, p := range ready {
		p.sent, p.flush.At = true, now
		flushes[i] = p.flush
	}
	results := s.table.FlushRows(ctx, flushes)
	for i, p := range ready {
		if i < len(results) {
			p.take(results[i])
		} else {
			p.cause = errors.New("write row: the table gave no answer")
		}
	}
}

// take notes what became of a flush.
func (p *part) take(r metering.Flushed) {
	switch {
	case errors.Is(r.Err, metering.ErrTooLarge):
		p.answer(refusedByTable(r.Err))
	case r.Err != nil:
		p.cause = fmt.Errorf("write row: %w", r.Err)
	case r.Done:
		p.stands, p.row = true, r.Row
	default:
		if against := p.flush.Refused(r.Row); against != nil {
			p.answer(refusedByTable(against))
		} else {
			p.cause = errors.New("write row: the table refused it for nothing that stands in the row")
		}
	}
}

// lookAfter tells written from late. Where it cannot look, the part is sent once more: its token stands in the row.
func (s *sender) lookAfter(ctx context.Context, v *visit) {
	record, err := s.table.Record(ctx, v.group)
	var covers metering.Manifest // one that is missing or unreadable covers nothing
	if record != nil {
		covers, _ = record.Covers()
	}
	for _, p := range v.parts {
		if !p.stands {
			continue
		}
		switch {
		case err != nil:
			p.cause = fmt.Errorf("read record after the row was written: %w", err)
		case record == nil || p.flush.Quantity == 0 || p.covered(covers):
			p.answer(nil)
		default:
			p.answer(ErrLate)
		}
		p.stands, p.row = false, nil
	}
}

// covered reports whether the record holds all that the row held once the part was in it.
func (p *part) covered(m metering.Manifest) bool {
	committed, stands := m.Quantity(p.flush.Second)
	if !stands || p.row == nil {
		return false
	}
	held, known := p.row.Quantity.Count()
	return known && held <= committed
}

// each runs do for every number below n, a few at once.
func (s *sender) each(n int, do func(i int)) {
	var group errgroup.Group
	group.SetLimit(s.parallel)
	for i := range n {
		group.Go(func() error { do(i); return nil })
	}
	_ = group.Wait() // what fails stands in the parts
}
