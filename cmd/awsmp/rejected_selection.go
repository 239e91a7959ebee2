package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/metering"
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
		b.WriteString(" --" + f.name + " " + word(f.value))
	}
	return b.String()
}

// wholeLicense is the license that a person has named at a desk: on this machine also by its end, or as tables show it.
func wholeLicense(ctx context.Context, d *desk.Desk, license string) (string, error) {
	whole, err := d.License(ctx, license)
	var ambiguous *desk.AmbiguousError
	if errors.As(err, &ambiguous) {
		return license, &failure{code: exitUsage, err: fmt.Errorf("%w: name one of them whole, as %s", err, word(ambiguous.Licenses[0]))}
	}
	return whole, err
}

// unknownLicense is what to try where a license is not known at a place; list is the command that shows those that are.
func (p *place) unknownLicense(err error, license, list string) error {
	switch {
	case !errors.Is(err, desk.ErrUnknownLicense):
		return err
	case p.stack != "" && !strings.HasPrefix(license, "arn:"):
		return &failure{exitError, fmt.Errorf("%w: name the whole licenseArn, the end of one is not looked up on a stack", err), list + p.where()}
	}
	return &failure{exitError, err, list + p.where()}
}
