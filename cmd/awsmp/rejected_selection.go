package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// selection is the flags by which usage is chosen for re-driving.
type selection struct {
	license, account, dimension, hour string
}

func (s *selection) flags(flags *pflag.FlagSet) {
	flags.StringVar(&s.license, "license", "", "of this licenseArn only; on this machine its end is enough")
	s.narrower(flags)
}

// narrower are the flags where the license has one of its own.
func (s *selection) narrower(flags *pflag.FlagSet) {
	flags.StringVar(&s.account, "account", "", "of this customerAWSAccountId only")
	flags.StringVar(&s.dimension, "dimension", "", "of this dimension only")
	flags.StringVar(&s.hour, "hour", "", "of this hour only, as in 2026-03-31T14")
}

// which is what is chosen. A command that changes usage needs a license.
func (s *selection) which(cmd *cobra.Command, needed string) (desk.Which, error) {
	w := desk.Which{License: s.license, Account: s.account, Dimension: s.dimension}
	if s.license == "" && needed != "" {
		return w, misused(cmd, errors.New("--license is needed: the licenseArn of the "+needed))
	}
	if s.account != "" && !metering.ValidAccount(s.account) {
		return w, misused(cmd, fmt.Errorf("--account is %q, and must be 12 digits", s.account))
	}
	if s.hour != "" {
		h, err := metering.ParseHour(s.hour)
		if err != nil {
			return w, misused(cmd, fmt.Errorf("--hour: %w", err))
		}
		w.Hour = &h
	}
	return w, nil
}

// listing is the list of usage of a kind, the name of the command over it. It reads the tables alone: a node is not asked.
func listing[T any](kind, short, long string, read func(*desk.Desk, context.Context, desk.Which) (T, error), words func(out io.Writer, list T, where string) error) *cobra.Command {
	var (
		at     place
		chosen selection
		agreed consent
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "list",
		Short: short,
		Long:  long,
		Example: "  awsmp " + kind + ` list

  # Of one license, for a program.
  awsmp ` + kind + " list --license arn:aws:license-manager::111122223333:license:l-0123456789abcdef0123456789abcdef --json",
		Args: noArgument,
		RunE: func(cmd *cobra.Command, _ []string) error {
			which, err := chosen.which(cmd, "")
			if err != nil {
				return err
			}
			agreed.prices(cmd, &at, 1)
			at.tablesOnly = true
			d, closeDesk, err := openFor(cmd, &at, &which.License, "awsmp "+kind+" list")
			if err != nil {
				return err
			}
			defer func() { _ = closeDesk() }()
			list, err := read(d, cmd.Context(), which)
			if err != nil {
				return err
			}
			if asJSON {
				return writeJSON(cmd.OutOrStdout(), list)
			}
			return words(cmd.OutOrStdout(), list, d.Flags)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	chosen.flags(flags)
	flags.BoolVar(&asJSON, "json", false, "write one JSON document, with the newest 1,000 entries")
	agreed.yesFlag(flags)
	at.flags(flags)
	return cmd
}

// noArgument is the Args of a command that is told everything by flags.
func noArgument(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes no argument like %q: a license is named with --license", cmd.Name(), args[0])
	}
	return nil
}

// groupFlags are the flags that name a group, with a space before; those of what is empty are left out. They are empty too where a part cannot
// be copied from a terminal.
func groupFlags(u desk.Usage) string {
	var b strings.Builder
	for _, f := range []struct{ name, value string }{{"license", u.License}, {"account", u.Account}, {"dimension", u.Dimension}, {"hour", u.Hour}} {
		if f.value == "" {
			continue
		}
		if entire(f.value) != f.value {
			return ""
		}
		b.WriteString(" --" + f.name + " " + desk.Word(f.value))
	}
	return b.String()
}

// wholeLicense is the license that a person has named at a desk: on this machine also by its end, or as tables show it.
func wholeLicense(ctx context.Context, d *desk.Desk, license string) (string, error) {
	whole, err := d.License(ctx, license)
	var ambiguous *desk.AmbiguousError
	if errors.As(err, &ambiguous) {
		return license, &failure{code: exitUsage, err: fmt.Errorf("%w: name one of them whole, as %s", err, desk.Word(ambiguous.Licenses[0]))}
	}
	return whole, err
}

// unknownLicense is what to try where a license is not known at a place; list is the command that shows those that are.
func (p *place) unknownLicense(err error, license, list string) error {
	switch {
	case !errors.Is(err, pipeline.ErrUnknownLicense):
		return err
	case p.stack != "" && !strings.HasPrefix(license, "arn:"):
		return &failure{exitError, fmt.Errorf("%w: name the whole licenseArn, the end of one is not looked up on a stack", err), list + p.where()}
	}
	return &failure{exitError, err, list + p.where()}
}
