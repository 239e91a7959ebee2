package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/pipeline"
)

// refusedPlace is where refused usage is dealt with: at a desk, or by a node that is named by its address.
type refusedPlace interface {
	Refused(ctx context.Context, license string) (desk.Refused, error)
	RetryRefused(ctx context.Context, what desk.Which, dryRun bool) (desk.Retried, error)
}

// openRefused opens a place where a license is known, if one is named, as openFor does. Where is the flags by which another command goes there.
func openRefused(cmd *cobra.Command, at *place, license *string) (p refusedPlace, where string, closePlace func() error, err error) {
	if err := at.settle(cmd); err != nil {
		return nil, "", nil, err
	}
	if at.node != "" {
		return nodeRefused{at}, at.where(), func() error { return nil }, nil
	}
	d, closeDesk, err := openFor(cmd, at, license, "awsmp refused list")
	if err != nil {
		return nil, "", nil, err
	}
	return d, d.Flags, closeDesk, nil
}

// nodeRefused asks a node, which answers as a desk does.
type nodeRefused struct{ at *place }

func (n nodeRefused) Refused(ctx context.Context, license string) (desk.Refused, error) {
	path := "/v1/refused"
	if license != "" {
		path += "?" + url.Values{"license": {license}}.Encode()
	}
	text, err := n.at.call(ctx, http.MethodGet, path, nil)
	return decode[desk.Refused](text, n.known(err))
}

func (n nodeRefused) RetryRefused(ctx context.Context, what desk.Which, dryRun bool) (desk.Retried, error) {
	body := dev.Retry{License: what.License, Account: what.Account, Dimension: what.Dimension, DryRun: dryRun}
	if what.Hour != nil {
		body.Hour = what.Hour.String()
	}
	text, err := n.at.call(ctx, http.MethodPost, "/v1/refused/retry", body)
	return decode[desk.Retried](text, n.known(err))
}

// known is an error with what helps here where the node does not know a license: it looks up no ends of licenses.
func (n nodeRefused) known(err error) error {
	if err == nil || err.Error() != pipeline.ErrUnknownLicense.Error() {
		return err
	}
	return &failure{exitError, fmt.Errorf("%w: name the whole licenseArn, its end is not looked up by a node's address", err), "awsmp refused list" + n.at.where()}
}
