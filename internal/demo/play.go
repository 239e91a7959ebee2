package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/usagefile"
)

// patience is how long after the last thing that happens a play goes on, and how long after an hour begins something is looked
// for in it. By then it is past billing and ended: an hour lives for 24 hours, and on the last day of a month for up to 30.
const patience = 31 * time.Hour

// longSilence is a stretch without usage whose month ends are not worth a word.
const longSilence = 72 * time.Hour

// Options say how a script is played.
type Options struct {
	LockHours int // 1 to 20
	// Tell, where set, is told the story, line by line as it happens.
	Tell func(at time.Time, text string)
}

// Play plays the script to its end. Rows that the table cannot hold join the refused lines.
func (s *Script) Play(ctx context.Context, o Options) (*Outcome, error) {
	first, last, ok := s.span()
	if !ok {
		return nil, errNothing
	}
	start := first.Truncate(time.Hour)
	w, err := newWorld(start, metering.Rules{LockHours: o.LockHours})
	if err != nil {
		return nil, fmt.Errorf("set the stage: %w", err)
	}
	w.register(s.actions)
	p := &play{world: w, script: s, last: last, story: story{tell: o.Tell, world: w}}
	if err := p.run(ctx, start); err != nil {
		return nil, err
	}
	return &Outcome{Start: start, End: w.clock.Now(), world: w}, nil
}

type play struct {
	*world
	script *Script
	next   int // the action that comes next
	last   time.Time
	story  story
}

func (p *play) run(ctx context.Context, start time.Time) error {
	for t := start; ; {
		before := t
		t = p.node.Next(t)
		if err := p.act(ctx, t); err != nil {
			return err
		}
		p.clock.MoveTo(t)
		p.story.months(before, t)
		_ = p.node.RunDue(ctx, t) // a stage that failed is observed; what it left is found again
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("stopped at %s: %w", t.Format(time.DateTime), err)
		}
		p.story.instant(t)
		if p.over(t) {
			p.story.end(t)
			return nil
		}
		t = p.skip(t)
	}
}

// act lets everything happen that happens by t, each at its own time.
func (p *play) act(ctx context.Context, t time.Time) error {
	for ; p.next < len(p.script.actions); p.next++ {
		a := p.script.actions[p.next]
		if a.at.After(t) {
			return nil
		}
		p.clock.MoveTo(a.at)
		if a.event != nil {
			p.story.event(*a.event, p.clock.Now())
			if err := p.happen(ctx, *a.event); err != nil {
				return fmt.Errorf("line %d: %w", a.line, err)
			}
			continue
		}
		err := p.store.Write(ctx, *a.row)
		switch {
		case err == nil:
		case errors.Is(err, metering.ErrTooLarge):
			p.refuse(a.line, "the row is larger than 400 KB, the most that the table holds", "split its allocations over several rows")
		case errors.Is(err, errUnaddable):
			p.refuse(a.line, err.Error(), "write its quantity as a whole number, or leave the line out")
		default:
			return fmt.Errorf("line %d: write the row: %w", a.line, err)
		}
	}
	return nil
}

// refuse takes a line that was to be played out of the script.
func (p *play) refuse(line int, reason, hint string) {
	p.script.Rows--
	p.script.Refused = append(p.script.Refused, &usagefile.Refusal{Line: line, Reason: reason, Hint: hint})
}

// over reports whether nothing can happen any more.
func (p *play) over(t time.Time) bool {
	if p.next < len(p.script.actions) {
		return false
	}
	if p.idle() {
		return true
	}
	// A row that is filed under a later hour than its own is found in that one.
	found := p.store.nextFound(t.Add(-patience))
	return t.Sub(p.last) >= patience && (found.IsZero() || found.After(p.last.Add(patience)))
}

func (p *play) idle() bool {
	rows, records := p.store.inFlight()
	list, err := p.store.Deprovisioning(context.Background())
	return rows+records == 0 && err == nil && len(list) == 0
}

// skip jumps over a stretch in which no stage has anything to find, to just before the next thing that happens.
func (p *play) skip(t time.Time) time.Time {
	if p.next == len(p.script.actions) {
		return t
	}
	now := p.clock.Now()
	target := p.script.actions[p.next].at
	if !p.idle() {
		if p.next > 0 && now.Sub(p.script.actions[p.next-1].at) < patience {
			return t
		}
		// What was found longer ago than that has been looked at in vain: it is past billing, or no visit ever finds it.
		if found := p.store.nextFound(now.Add(-patience)); !found.IsZero() && found.Before(target) {
			target = found
		}
	}
	if target = target.Truncate(time.Hour); target.After(t) {
		p.clock.MoveTo(target)
		if target.Sub(t) < longSilence {
			p.story.months(t, target)
		}
		return target
	}
	return t
}
