package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/stack"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/internal/tablecopy"
)

// copySource is the tables of a stack as a copy reads them: the desk's, which know of stacks without a usage table, and what reads whole
// tables page by page.
type copySource struct {
	desk.Tables
	pages *dynamodb.Ledger
}

func (s copySource) Surveys(ctx context.Context) ([]dynamodb.Survey, error) {
	return s.pages.Surveys(ctx)
}

func (s copySource) ScanRows(ctx context.Context, segment, segments int, after string) (dynamodb.Part[metering.Row], error) {
	return s.pages.ScanRows(ctx, segment, segments, after)
}

func (s copySource) ScanRecords(ctx context.Context, segment, segments int, after string) (dynamodb.Part[metering.Record], error) {
	return s.pages.ScanRecords(ctx, segment, segments, after)
}

func (s copySource) QueryRows(ctx context.Context, license, after string) (dynamodb.Part[metering.Row], error) {
	return s.pages.QueryRows(ctx, license, after)
}

func (s copySource) QueryRecords(ctx context.Context, license, after string) (dynamodb.Part[metering.Record], error) {
	return s.pages.QueryRecords(ctx, license, after)
}

// ofStack computes the books of a stack: of one license by queries, else of both tables as a whole.
func (f *ledgerFlags) ofStack(cmd *cobra.Command, scope ledger.Scope) (ledger.Sheet, error) {
	s, err := f.place.findStack(cmd)
	if err != nil {
		return ledger.Sheet{}, err
	}
	scope.Now, scope.Rules = time.Now(), s.Rules
	source := copySource{s.Desk().Tables, s.Ledger}
	surveys, err := source.Surveys(cmd.Context())
	if err != nil {
		return ledger.Sheet{}, err
	}
	if scope.License != "" {
		return f.ofLicense(cmd, source, surveys, scope)
	}
	return f.ofWhole(cmd, s, source, surveys, scope)
}

// ofLicense reads one license into a copy that nobody will go on with.
func (f *ledgerFlags) ofLicense(cmd *cobra.Command, source tablecopy.Source, surveys []dynamodb.Survey, scope ledger.Scope) (ledger.Sheet, error) {
	dir, err := os.MkdirTemp("", "awsmp-ledger-")
	if err != nil {
		return ledger.Sheet{}, fmt.Errorf("make a folder for what is read: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	c, err := tablecopy.Open(cmd.Context(), dir, surveys, tablecopy.Options{Segments: 1, Now: time.Now})
	if err != nil {
		return ledger.Sheet{}, err
	}
	defer func() { _ = c.Close() }()
	pace, one := tablecopy.NewPace(f.rate), tablecopy.OfLicense(source, scope.License)
	if err := c.Run(cmd.Context(), one, pace, nil); err != nil {
		return ledger.Sheet{}, err
	}
	return c.Books(cmd.Context(), one, scope, pace, nil)
}

// ofWhole copies both tables, or goes on with a copy, after the price was agreed to.
func (f *ledgerFlags) ofWhole(cmd *cobra.Command, s *stack.Stack, source tablecopy.Source, surveys []dynamodb.Survey, scope ledger.Scope) (sheet ledger.Sheet, err error) {
	dir := f.state
	if dir == "" {
		if dir, err = os.UserCacheDir(); err != nil {
			return sheet, &failure{exitError, fmt.Errorf("find a folder for the copy: %w", err), again(cmd, "--state", "ledger-copy")}
		}
		dir = filepath.Join(dir, "awsmp", "ledger", s.Name+"-"+s.Region)
	}
	c, err := tablecopy.Open(cmd.Context(), dir, surveys, tablecopy.Options{Segments: f.segments, Fresh: f.fresh, Now: time.Now})
	switch {
	case errors.Is(err, tablecopy.ErrTaken):
		return sheet, &failure{exitError, fmt.Errorf("%w; another folder is named with --state", err), again(cmd)}
	case err != nil:
		return sheet, &failure{exitError, fmt.Errorf("open the copy in %s: %w", dir, err), again(cmd, "--fresh")}
	}
	keep := true
	defer func() {
		if keep {
			err = errors.Join(err, c.Close())
		} else {
			err = errors.Join(err, c.Remove())
		}
	}()
	if !c.Finished() {
		if err := f.agree(cmd, c, surveys, dir); err != nil {
			keep = c.Continued() || c.Progress() != (tablecopy.Progress{})
			return sheet, err
		}
	} else {
		fmt.Fprintf(cmd.ErrOrStderr(), "The copy of %s UTC in %s is used again: what was written since is not in it. --fresh makes another.\n", c.StartedAt().Format("2006-01-02 15:04:05"), dir)
	}
	pace := tablecopy.NewPace(f.rate)
	bar := newLedgerBar(cmd.ErrOrStderr(), surveys, c.Progress())
	err = c.Run(cmd.Context(), source, pace, bar.copied)
	if err == nil {
		sheet, err = c.Books(cmd.Context(), source, scope, pace, bar.readAgain)
	}
	bar.clear()
	if err != nil {
		return sheet, f.interrupted(cmd, c, surveys, err)
	}
	if keep = f.keep; keep {
		fmt.Fprintf(cmd.ErrOrStderr(), "The copy is kept in %s.\n", dir)
	}
	return sheet, nil
}

// agree prints what the copy costs and asks whether it is to be made.
func (f *ledgerFlags) agree(cmd *cobra.Command, c *tablecopy.Copy, surveys []dynamodb.Survey, dir string) error {
	errs := cmd.ErrOrStderr()
	if c.Dropped != "" {
		fmt.Fprintf(errs, "An earlier copy in %s is not gone on with: %s.\n", dir, c.Dropped)
	}
	var units, dollars float64
	for _, s := range surveys {
		fmt.Fprintf(errs, "This is %s.\n", s.ScanPrice)
		units, dollars = units+s.Units, dollars+s.Dollars
	}
	question := "Read both tables"
	if len(surveys) == 1 {
		question = "Read the table"
	}
	if done := c.Progress(); c.Continued() {
		fmt.Fprintf(errs, "The copy that was begun at %s UTC goes on: %s and %s are there, and took %s.\n", c.StartedAt().Format("2006-01-02 15:04:05"),
			ledger.Counted(done.Rows, "row"), ledger.Counted(done.Records, "record"), ledger.Counted(int64(done.Units+0.5), "read unit"))
		units = max(0, units-done.Units)
		dollars = dynamodb.DollarsOf(units)
		question = "Read the rest"
	}
	long := time.Duration(units / float64(f.rate) * float64(time.Second)).Round(time.Second)
	fmt.Fprintf(errs, "To be read: about $%.4f, and %s at %s a second (--rate). The sizes are as AWS counts them every six hours.\n", dollars, max(long, time.Second), ledger.Counted(int64(f.rate), "read unit"))
	if dollars < cheap {
		return nil
	}
	return f.consent.ask(cmd, question)
}

// interrupted is an error in the middle of a copy, with the command that goes on.
func (f *ledgerFlags) interrupted(cmd *cobra.Command, c *tablecopy.Copy, surveys []dynamodb.Survey, err error) error {
	done, total := c.Progress(), int64(0)
	for _, s := range surveys {
		total += s.Items
	}
	state := fmt.Sprintf("%s of about %s are copied and stay", ledger.Counted(done.Rows+done.Records, "item"), ledger.Thousands(max(total, done.Rows+done.Records)))
	if c.Finished() {
		state = "both tables are copied, and the copy stays"
	}
	if cmd.Context().Err() != nil {
		return &failure{exitInterrupted, fmt.Errorf("interrupted: %s", state), again(cmd)}
	}
	if hinted(err).try != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "Of the copy %s; the same command goes on.\n", state)
		return err
	}
	return &failure{exitError, fmt.Errorf("%s: %w", state, err), again(cmd)}
}
