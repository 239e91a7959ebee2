package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/simulator"
)

// comparisons is how often two ledgers are read again that differ while calls are under way.
const comparisons = 5

// ofFolder computes the books of this machine's store, and compares them with what the simulator has billed where there is one. A license that
// is named by its end becomes the whole one in the scope.
func (f *ledgerFlags) ofFolder(cmd *cobra.Command, scope *ledger.Scope) (ledger.Sheet, error) {
	f.place.tablesOnly = true
	d, closeDesk, err := f.place.open(cmd)
	if err != nil {
		return ledger.Sheet{}, err
	}
	defer func() { _ = closeDesk() }()
	if scope.License != "" {
		if scope.License, err = wholeLicense(cmd.Context(), d, scope.License); err != nil {
			return ledger.Sheet{}, err
		}
	}
	scope.Now, scope.Rules = d.Now(), d.Rules
	// Customers of products of the old kind are not known by their license at the Marketplace.
	compare := scope.License == "" || !metering.LegacyLicense(scope.License)
	for try := 1; ; try++ {
		report, err := ledger.Compute(cmd.Context(), d.Tables, *scope)
		if err != nil {
			return ledger.Sheet{}, fmt.Errorf("compute the ledger: %w", err)
		}
		sheet := ledger.Sheet{Report: report}
		if !compare {
			return sheet, nil
		}
		billed, live, err := f.billed(cmd, d)
		if err != nil || billed == nil {
			return sheet, err
		}
		sold := soldIn(billed, *scope)
		check := report.Against(sold)
		if check.Equal() || !live || try == comparisons {
			sheet.Check, sheet.Sold = &check, len(sold)
			return sheet, nil
		}
	}
}

// billed is the ledger of the folder's simulator, from the node that runs or, live false, out of its journal; nil where there is none.
func (f *ledgerFlags) billed(cmd *cobra.Command, d *desk.Desk) (billed []simulator.Billed, live bool, err error) {
	owner, err := dev.OwnerOf(f.place.data)
	if err != nil {
		return nil, false, err
	}
	if owner.Node == "" {
		return f.journal(cmd, d)
	}
	beside := remote{node: owner.Node} // and not one that the environment names
	text, err := beside.call(cmd.Context(), http.MethodGet, "/v1/status", nil)
	if errors.Is(err, errAbsent) {
		return f.journal(cmd, d)
	}
	status, err := decode[dev.Status](text, err)
	if err != nil || status.Simulator == nil {
		return nil, true, err
	}
	text, err = beside.call(cmd.Context(), http.MethodGet, "/_simulator/ledger", nil)
	billed, err = decode[[]simulator.Billed](text, err)
	return append([]simulator.Billed{}, billed...), true, err
}

// journal is what the simulator of a folder without a node has billed.
func (f *ledgerFlags) journal(cmd *cobra.Command, d *desk.Desk) (billed []simulator.Billed, live bool, err error) {
	path := folder.Journal(f.place.data)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	sim, err := simulator.New(simulator.Options{ProductCode: d.ProductCode, OpenDoors: true, Journal: path, Now: d.Now})
	if err != nil {
		why, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Fprintf(cmd.ErrOrStderr(), "Not compared with what the simulated Marketplace has billed: %s\n", why)
		return nil, false, nil
	}
	billed = sim.Ledger()
	return append([]simulator.Billed{}, billed...), false, sim.Close()
}

// soldIn is what was billed within a scope, in the terms of the ledger.
func soldIn(billed []simulator.Billed, scope ledger.Scope) (sold []ledger.Sold) {
	for _, b := range billed {
		hour := metering.HourOf(b.Hour)
		if scope.License != "" && scope.License != b.LicenseARN || scope.From != nil && hour < *scope.From || scope.To != nil && hour > *scope.To {
			continue
		}
		sold = append(sold, node.Sold(b))
	}
	return sold
}
