package simulation

import (
	"context"
	"errors"
	"slices"
)

// part is a move or a fault of a day.
type part struct {
	move  int    // -1: a fault
	fault string // by name
}

// Shrink makes the day of a seed that breaks the law short: what can be left out while the same rule is still broken is left out, half
// of the day at first and single moves and faults at last (Zeller and Hildebrandt, Simplifying and isolating failure-inducing input,
// 2002). Progress, where set, is told how many moves and faults are left after each try.
func Shrink(ctx context.Context, seed uint64, progress func(moves, faults int)) (*Story, error) {
	return shrink(ctx, seed, func(only *Story) (Day, error) { return Play(seed, only, nil) }, progress)
}

func shrink(ctx context.Context, seed uint64, play func(*Story) (Day, error), progress func(moves, faults int)) (*Story, error) {
	d, err := play(nil)
	if err != nil {
		return nil, err
	}
	if d.Violation == nil {
		return nil, errors.New("shrink day: the law holds, there is nothing to tell")
	}
	s := shrinker{seed: seed, rule: d.Violation.Rule, play: play, progress: progress, violation: *d.Violation}
	var parts []part
	for i := range d.moves {
		parts = append(parts, part{move: i})
	}
	for _, f := range d.struck {
		parts = append(parts, part{-1, f})
	}
	if !s.breaks(ctx, parts) {
		return nil, errors.New("shrink day: it takes another course when it is played by its parts")
	}
	parts = s.minimize(ctx, parts)
	story := s.story(parts)
	story.Violation = s.violation
	return story, ctx.Err()
}

type shrinker struct {
	seed      uint64
	rule      string
	play      func(*Story) (Day, error)
	progress  func(moves, faults int)
	violation Violation // of the last day that broke the rule
}

// minimize leaves out ever smaller pieces, until no single part can be spared.
func (s *shrinker) minimize(ctx context.Context, parts []part) []part {
	for size := (len(parts) + 1) / 2; size > 0 && ctx.Err() == nil; {
		spared := false
		for from := 0; from < len(parts); {
			rest := slices.Delete(slices.Clone(parts), from, min(from+size, len(parts)))
			if s.breaks(ctx, rest) {
				parts, spared = rest, true
			} else {
				from += size
			}
		}
		if size == 1 && !spared {
			break
		}
		if size > 1 {
			size /= 2
		}
	}
	return parts
}

// breaks reports whether the same rule is broken when only these parts happen.
func (s *shrinker) breaks(ctx context.Context, parts []part) bool {
	if ctx.Err() != nil {
		return false
	}
	story := s.story(parts)
	d, err := s.play(story)
	if err != nil || d.Violation == nil || d.Violation.Rule != s.rule {
		return false
	}
	s.violation = *d.Violation
	if s.progress != nil {
		s.progress(len(story.Moves), len(story.Faults))
	}
	return true
}

func (s *shrinker) story(parts []part) *Story {
	story := &Story{Seed: s.seed, Moves: []int{}, Faults: []string{}}
	for _, p := range parts {
		if p.move >= 0 {
			story.Moves = append(story.Moves, p.move)
		} else {
			story.Faults = append(story.Faults, p.fault)
		}
	}
	return story
}
