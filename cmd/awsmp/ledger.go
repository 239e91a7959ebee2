package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/internal/tablecopy"
)

const ledgerLong = `Recompute the books from the tables alone: for every license, account, dimension and hour, each unit that was written is billed,
refused, rejected, late, expired, in doubt, dry run or in flight, and for what is not billed the cause and what helps are named.

Of the folder of one machine everything is read, beside the node that may run on it. What the simulated Marketplace has billed is
compared with the books.

Of a stack on AWS a license is read by queries. Without --license both tables are read as a whole, under your own credentials: a copy is
made by parallel scans at a pace that leaves the stages alone, its price is printed and asked for first, and a copy that was
interrupted goes on where it stood. What waited, changed meanwhile or does not balance in the copy is read again from the tables.`

const ledgerExample = `  awsmp ledger
  awsmp ledger --hour 2026-03-31T14 --json

  # One license of a stack on AWS.
  awsmp ledger --stack awsmp-exampleproduct-metering --license ` + exampleLicense + `

  # The whole of it, in a script; the copy is kept and used again for a day.
  awsmp ledger --stack awsmp-exampleproduct-metering --yes --keep --json`

// ledgerFlags are the command's flags.
type ledgerFlags struct {
	place    place
	consent  consent
	license  string
	hour     string
	from, to string
	whole    bool
	json     bool

	segments, rate int
	state          string
	fresh, keep    bool
}

func newLedgerCommand() *cobra.Command {
	var f ledgerFlags
	cmd := &cobra.Command{
		Use:     "ledger",
		Short:   "Show the books, and whether they balance",
		Long:    ledgerLong,
		Example: ledgerExample,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			scope, err := f.check(cmd)
			if err != nil {
				return err
			}
			sheet, err := f.compute(cmd, scope)
			if err != nil {
				return err
			}
			if err := f.show(cmd, sheet); err != nil {
				return err
			}
			if !sheet.Sound() {
				return &failure{code: exitUnsound}
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.license, "license", "", "of this licenseArn only; on this machine its end is enough")
	flags.StringVar(&f.hour, "hour", "", "of this hour only, as in 2026-03-31T14")
	flags.StringVar(&f.from, "from", "", "of this hour and later ones only")
	flags.StringVar(&f.to, "to", "", "of this hour and earlier ones only")
	flags.BoolVar(&f.whole, "whole", false, "of all licenses, which is meant anyway where none is named")
	flags.BoolVar(&f.json, "json", false, "write one JSON document")
	f.place.flags(flags)
	f.consent.yesFlag(flags)
	flags.IntVar(&f.rate, "rate", dynamodb.DefaultScanUnits, "read units a second that reading a stack may take")
	flags.IntVar(&f.segments, "segments", tablecopy.DefaultSegments, "parts of a stack's table that are read at once, where a copy is begun")
	flags.StringVar(&f.state, "state", "", "folder for the copy of a stack's tables (default: one of the user's cache)")
	flags.BoolVar(&f.keep, "keep", false, "keep the copy: for a day it is used again in place of another")
	flags.BoolVar(&f.fresh, "fresh", false, "make a new copy, whatever an earlier command has left")
	return cmd
}

// check is the scope that the flags name, or what is wrong with them.
func (f *ledgerFlags) check(cmd *cobra.Command) (scope ledger.Scope, err error) {
	if f.hour != "" && (f.from != "" || f.to != "") {
		return scope, misused(cmd, errors.New("--hour excludes --from and --to"))
	}
	if f.whole && f.license != "" {
		return scope, misused(cmd, errors.New("--whole excludes --license"))
	}
	scope.License = f.license
	for _, bound := range []struct {
		flag, value string
		set         func(h *metering.Hour)
	}{
		{"hour", f.hour, func(h *metering.Hour) { scope.From, scope.To = h, h }},
		{"from", f.from, func(h *metering.Hour) { scope.From = h }},
		{"to", f.to, func(h *metering.Hour) { scope.To = h }},
	} {
		if bound.value == "" {
			continue
		}
		h, err := metering.ParseHour(bound.value)
		if err != nil {
			return scope, misused(cmd, fmt.Errorf("--%s: %w", bound.flag, err))
		}
		bound.set(&h)
	}
	if scope.From != nil && scope.To != nil && *scope.From > *scope.To {
		return scope, misused(cmd, fmt.Errorf("--from %s is after --to %s", f.from, f.to))
	}
	if f.rate < 1 {
		return scope, misused(cmd, errors.New("--rate must be at least 1 read unit a second"))
	}
	if f.segments < 1 || f.segments > tablecopy.MaxSegments {
		return scope, misused(cmd, fmt.Errorf("--segments must be from 1 to %d", tablecopy.MaxSegments))
	}
	if err := f.place.settle(cmd); err != nil {
		return scope, err
	}
	if f.place.stack == "" {
		for _, flag := range []string{"rate", "segments", "state", "keep", "fresh", "yes"} {
			if cmd.Flags().Changed(flag) {
				return scope, misused(cmd, fmt.Errorf("--%s is about reading the tables of a stack: name one with --stack", flag))
			}
		}
	}
	return scope, nil
}

func (f *ledgerFlags) compute(cmd *cobra.Command, scope ledger.Scope) (sheet ledger.Sheet, err error) {
	if f.place.stack == "" {
		sheet, err = f.ofFolder(cmd, &scope)
	} else {
		sheet, err = f.ofStack(cmd, scope)
	}
	if err == nil && scope.License != "" && scope.From == nil && scope.To == nil && sheet.Report.Groups == 0 {
		err := fmt.Errorf("nothing was ever written for the license %s, or all of it is deleted", entire(scope.License))
		if f.place.stack != "" && !strings.HasPrefix(scope.License, "arn:") {
			err = fmt.Errorf("%w: name the whole licenseArn, the end of one is not looked up on a stack", err)
		}
		return sheet, &failure{exitError, err, cmd.CommandPath() + f.place.where()}
	}
	return sheet, err
}

func (f *ledgerFlags) show(cmd *cobra.Command, sheet ledger.Sheet) error {
	if !f.json {
		return sheet.WriteTable(cmd.OutOrStdout())
	}
	e := json.NewEncoder(cmd.OutOrStdout())
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(sheet.Document())
}
