package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// explainedUsage is awsmp explain LICENSE DIMENSION HOUR as JSON.
type explainedUsage struct {
	Groups []desk.Story `json:"groups"` // one an account that has usage of it
}

// usage tells of the groups of a license, a dimension and an hour, of each account that has one.
func (f *explainFlags) usage(cmd *cobra.Command, license, dimension, hourText string) error {
	hour, err := metering.ParseHour(hourText)
	if err != nil {
		return misused(cmd, fmt.Errorf("HOUR is %q: %w", hourText, err))
	}
	d, closeDesk, err := f.place.open(cmd)
	if err != nil {
		return err
	}
	defer func() { _ = closeDesk() }() // nothing was written
	ctx := cmd.Context()
	var ambiguous *desk.AmbiguousError
	switch license, err = d.License(ctx, license); {
	case errors.As(err, &ambiguous):
		return &failure{exitUsage, err, "awsmp explain " + desk.Word(ambiguous.Licenses[0]) + " " + desk.Word(dimension) + " " + hour.String() + f.place.where()}
	case err != nil:
		return err
	}
	accounts := []string{f.account}
	if f.account == "" {
		if accounts, err = d.Tables.Accounts(ctx, license); err != nil {
			return fmt.Errorf("look for the license's accounts: %w", err)
		}
	}
	var e explainedUsage
	for _, account := range accounts {
		s, err := d.Explain(ctx, metering.Group{License: license, Account: account, Dimension: dimension, Hour: hour})
		if err != nil {
			return err
		}
		if s.Known() {
			e.Groups = append(e.Groups, s)
		}
	}
	if len(e.Groups) == 0 {
		return f.unknown(ctx, d, metering.Group{License: license, Account: f.account, Dimension: dimension, Hour: hour}, accounts)
	}
	out := cmd.OutOrStdout()
	if f.json {
		return encode(out, e)
	}
	var b strings.Builder
	for i, s := range e.Groups {
		if i > 0 {
			b.WriteString("\n\n")
		}
		most := len(s.Rows)
		if terminal(out) {
			most = shownStoryRows
		}
		writeGroupStory(&b, s, most)
	}
	_, err = io.WriteString(out, b.String())
	return err
}

// unknown says where usage was looked for in vain, and what there is instead.
func (f *explainFlags) unknown(ctx context.Context, d *desk.Desk, g metering.Group, accounts []string) error {
	text := fmt.Sprintf("no usage of %s in the hour %s is known under %s", ledger.Shown(g.Dimension), g.Hour, ledger.Short(g.License))
	if g.Account != "" {
		text += " for the account " + g.Account
	}
	text += " at the " + d.Name
	if len(accounts) == 0 || g.Account == "" && accounts[0] == "" {
		text, try := text+": there is no usage of that license at all", "awsmp status"+f.place.where()
		if f.place.stack != "" && !strings.HasPrefix(g.License, "arn:") {
			text += "; name the whole licenseArn, its end alone is not looked up on a stack"
		}
		if licenses := nearLicenses(ctx, d, g.License); len(licenses) > 0 {
			text += "; there is some of " + strings.Join(licenses, " ")
			try = "awsmp explain " + licenses[0] + " " + desk.Word(g.Dimension) + " " + g.Hour.String() + f.place.where()
		}
		return &failure{exitError, errors.New(text), try}
	}
	near, err := d.Near(ctx, g)
	if err != nil {
		return err
	}
	if len(near) == 0 {
		return &failure{exitError, errors.New(text), "awsmp status" + f.place.where()}
	}
	text += "; looked at rows and records. There is usage of"
	var lines []string
	for _, n := range near {
		lines = append(lines, fmt.Sprintf("\n  %s %s, account %s", ledger.Shown(n.Dimension), n.Hour, ledger.Shown(n.Account)))
	}
	lines = slices.Compact(lines)
	first := near[0]
	return &failure{exitError, errors.New(text + strings.Join(lines, "")),
		"awsmp explain " + desk.Word(first.License) + " " + desk.Word(first.Dimension) + " " + first.Hour.String() + f.place.where()}
}

// nearLicenses are some licenses of a place on this machine.
func nearLicenses(ctx context.Context, d *desk.Desk, text string) (near []string) {
	licenses, err := d.LocalLicenses(ctx)
	if err != nil {
		return nil
	}
	const most = 3
	for _, license := range licenses {
		if len(near) < most && (len(licenses) <= most || strings.Contains(license, text)) {
			near = append(near, desk.Word(license))
		}
	}
	return near
}
