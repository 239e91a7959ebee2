package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/simulation"
)

const proveLong = `Play virtual days of the whole system in which everything goes wrong that can, and show that no unit is lost or billed twice.

The stages are those that run on AWS and on one machine, and so is the AWS SDK that calls the Marketplace; tables and queues
are in memory, and the Marketplace is the built-in simulator. What happens is decided by a seed: sellers write late, grow,
shrink, overwrite and delete rows, write garbage and mend it; licenses end and return; an operator pauses and retries;
schedules fire twice, late or never; messages are lost, doubled, delayed and refused; processes die before and after every
kind of effect; replies are lost, partitions throttled, indexes show the past, clocks differ; the Marketplace throttles,
fails and loses answers. Days fall on month ends and leap days as often as not.

After every single event the books of what it touched are recomputed and compared with the Marketplace's own ledger, all of
them every two hours, and more is checked: nothing waits past its deadline, no terminal status is overwritten, no call is above
the quota or holds what cannot be billed, every loss has its metric, and every record is what its rows said.

A day that breaks one of these rules is made short, told as a story and written to a file; --replay plays it again, exactly.`

const proveExample = `  # A few minutes' proof. Another --seed plays other days.
  awsmp prove --days 1000 --seed 1

  # Everything that happens on one day.
  awsmp prove --tell --seed 7

  # A day that broke the law, once more.
  awsmp prove --replay awsmp-story-7.json`

type proveFlags struct {
	days          float64
	seed          uint64
	workers       int
	story, replay string
	tell          bool
	json, quiet   bool
}

func newProveCommand() *cobra.Command {
	var f proveFlags
	cmd := &cobra.Command{
		Use:     "prove",
		Short:   "Try to break the law of conservation, over virtual days",
		Long:    proveLong,
		Example: proveExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return misused(cmd, err)
			}
			switch {
			case f.replay != "":
				return replayStory(cmd, f)
			case f.tell:
				return tellDay(cmd, f)
			}
			return prove(cmd, f)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Float64Var(&f.days, "days", 100, "virtual days to play, at least")
	flags.Uint64Var(&f.seed, "seed", 1, "the first day's; the others follow it")
	flags.IntVar(&f.workers, "workers", 0, "days played at once (default one a processor)")
	flags.BoolVar(&f.tell, "tell", false, "play the one day of --seed and tell everything that happens")
	flags.StringVar(&f.replay, "replay", "", "play the story in this file again")
	flags.StringVar(&f.story, "story", "", "where the story of a broken day goes (default awsmp-story-SEED.json)")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "show no progress")
	flags.BoolVar(&f.json, "json", false, "write one JSON document")
	return cmd
}

func (f proveFlags) check(cmd *cobra.Command) error {
	switch {
	case !(f.days > 0):
		return fmt.Errorf("--days is %v, and must be greater than 0", f.days)
	case f.workers < 0:
		return fmt.Errorf("--workers is %d, and must not be negative", f.workers)
	case f.tell && f.replay != "":
		return errors.New("--tell plays the day of a seed, --replay that of a story: give one of them")
	case f.replay != "" && (cmd.Flags().Changed("seed") || cmd.Flags().Changed("days")):
		return errors.New("--replay plays what is in its file, and takes no --seed or --days")
	case f.tell && cmd.Flags().Changed("days"):
		return errors.New("--tell plays one day, and takes no --days")
	}
	return nil
}

func prove(cmd *cobra.Command, f proveFlags) error {
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	out, errs := cmd.OutOrStdout(), cmd.ErrOrStderr()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // worlds are small and short: collecting them so often would cost a fifth of the time
	}
	line := newProveLine(errs, f.quiet, f.days)
	result, err := simulation.Prove(ctx, simulation.Options{Days: f.days, Seed: f.seed, Workers: f.workers, Progress: line.played})
	line.end()
	if err != nil && ctx.Err() == nil {
		return err
	}
	document := result.Document(f.seed)
	if !f.json {
		if err := result.WriteTable(out); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		listBroken(errs, result)
		return &failure{exitError, errors.New("interrupted: what was played up to then is above"), ""}
	}
	if result.Sound() {
		if f.json {
			return writeJSON(out, document)
		}
		_, err := fmt.Fprintln(out, "\nNo unit was lost, and none billed twice.")
		return err
	}
	return showBroken(ctx, cmd, f, result, document)
}

// listBroken names the days that broke the law.
func listBroken(out io.Writer, r simulation.Result) {
	for _, v := range r.Violated {
		fmt.Fprintf(out, "  seed %d: %s: %s\n", v.Seed, v.Violation.Rule, v.Violation.What)
	}
}

// showBroken makes the first broken day short and tells it.
func showBroken(ctx context.Context, cmd *cobra.Command, f proveFlags, r simulation.Result, d simulation.Document) error {
	out := cmd.OutOrStdout()
	first := r.Violated[0]
	if !f.json {
		fmt.Fprintf(out, "\nTHE LAW IS BROKEN on %s:\n", ledger.Counted(int64(len(r.Violated)), "day"))
		listBroken(out, r)
	}
	line := newProveLine(cmd.ErrOrStderr(), f.quiet, 0)
	story, err := simulation.Shrink(ctx, first.Seed, line.shrunk)
	line.end()
	if err != nil {
		return err
	}
	name := f.story
	if name == "" {
		name = fmt.Sprintf("awsmp-story-%d.json", first.Seed)
	}
	if err := writeStory(name, story); err != nil {
		return err
	}
	if f.json {
		d.Story = story
		if err := writeJSON(out, d); err != nil {
			return err
		}
		return &failure{code: exitUnsound}
	}
	fmt.Fprintf(out, "\nThe day of seed %d, made short: %s and %s suffice.\n\n", first.Seed,
		ledger.Counted(int64(len(story.Moves)), "move"), ledger.Counted(int64(len(story.Faults)), "fault"))
	return showStory(out, story, name)
}

func showStory(out io.Writer, story *simulation.Story, name string) error {
	lines, day, told := simulation.Tell(story)
	if day.Violation == nil {
		return &failure{exitError, told, fmt.Sprintf("awsmp prove --tell --seed %d", story.Seed)}
	}
	if err := simulation.WriteLines(out, lines); err != nil {
		return err
	}
	fmt.Fprintf(out, "\nBroken: %s: %s\n", day.Violation.Rule, day.Violation.What)
	return &failure{exitUnsound, told, "awsmp prove --replay " + name}
}

func replayStory(cmd *cobra.Command, f proveFlags) error {
	file, err := os.Open(f.replay)
	if errors.Is(err, fs.ErrNotExist) {
		return &failure{exitError, fmt.Errorf("%s: there is no such file", f.replay), "awsmp prove --days 100, which writes one where the law is broken"}
	}
	if err != nil {
		return fmt.Errorf("open story: %w", err)
	}
	defer file.Close()
	story, err := simulation.ReadStory(file)
	if err != nil {
		return fmt.Errorf("%s: %w", f.replay, err)
	}
	return showStory(cmd.OutOrStdout(), story, f.replay)
}

// tellDay tells a whole day as it passes.
func tellDay(cmd *cobra.Command, f proveFlags) error {
	out := cmd.OutOrStdout()
	tell := func(l simulation.Line) { _ = simulation.WriteLines(out, []simulation.Line{l}) }
	if f.json {
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		tell = func(l simulation.Line) { _ = e.Encode(l) }
	}
	day, err := simulation.Play(f.seed, nil, tell)
	if err != nil {
		return err
	}
	if day.Violation != nil {
		return &failure{exitUnsound, fmt.Errorf("%s: %s", day.Violation.Rule, day.Violation.What), fmt.Sprintf("awsmp prove --seed %d --days 1", f.seed)}
	}
	return nil
}

func writeStory(name string, story *simulation.Story) error {
	file, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("write story: %w", err)
	}
	if err := errors.Join(story.Write(file), file.Close()); err != nil {
		return fmt.Errorf("write story: %w", err)
	}
	return nil
}

func writeJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// proveLine is the progress line: on a terminal one that changes, elsewhere a new one every now and then.
type proveLine struct {
	out      io.Writer // nil where nothing is shown
	terminal bool
	days     float64
	begun    time.Time
	shown    time.Time
	violated int // days that were told
}

const (
	terminalEvery = 200 * time.Millisecond
	otherEvery    = 15 * time.Second
)

func newProveLine(errs io.Writer, quiet bool, days float64) *proveLine {
	l := &proveLine{days: days, begun: time.Now()}
	l.shown = l.begun
	if quiet {
		return l
	}
	l.out = errs
	if file, ok := errs.(*os.File); ok {
		info, err := file.Stat()
		l.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return l
}

func (l *proveLine) played(r simulation.Result) {
	if n := len(r.Violated); n > l.violated && l.out != nil {
		l.end()
		listBroken(l.out, simulation.Result{Violated: r.Violated[l.violated:]}) // at once: what follows may take hours
		l.violated = n
	}
	l.show(func() string {
		left := ""
		if r.Days > 0 && r.Days < l.days {
			left = fmt.Sprintf(", about %v left", (time.Duration(float64(time.Since(l.begun)) * (l.days - r.Days) / r.Days)).Round(time.Second))
		}
		return fmt.Sprintf("%3.0f%%  %s%s", min(100, 100*r.Days/l.days), r.Summary(), left)
	})
}

func (l *proveLine) shrunk(moves, faults int) {
	l.show(func() string {
		return fmt.Sprintf("making the day short: %s, %s left", ledger.Counted(int64(moves), "move"), ledger.Counted(int64(faults), "fault"))
	})
}

func (l *proveLine) show(text func() string) {
	every := otherEvery
	if l.terminal {
		every = terminalEvery
	}
	now := time.Now()
	if l.out == nil || now.Sub(l.shown) < every {
		return
	}
	l.shown = now
	if l.terminal {
		fmt.Fprintf(l.out, "\r\x1b[K%s", text())
		return
	}
	fmt.Fprintln(l.out, text())
}

// end leaves the terminal's line empty for what follows.
func (l *proveLine) end() {
	if l.terminal && l.out != nil {
		fmt.Fprint(l.out, "\r\x1b[K")
	}
}
