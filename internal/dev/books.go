package dev

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
)

// getLedger answers with a ledger.Document, compared with the simulator's own ledger where the simulator is ours.
func (m *Machine) getLedger(w http.ResponseWriter, r *http.Request) {
	scope, err := scopeOf(r)
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error(), "as in /v1/ledger?hour=2026-03-10T14, or from= and to=, and license=")
		return
	}
	sheet, err := m.Ledger(r.Context(), scope)
	if err != nil {
		broken(w, err)
		return
	}
	answer(w, http.StatusOK, sheet.Document())
}

func scopeOf(r *http.Request) (ledger.Scope, error) {
	q, err := queryOf(r, "license", "hour", "from", "to")
	scope := ledger.Scope{License: q.Get("license")}
	if err != nil {
		return scope, err
	}
	if q.Get("hour") != "" && (q.Get("from") != "" || q.Get("to") != "") {
		return scope, errors.New("hour excludes from and to")
	}
	for name := range q {
		value := q.Get(name)
		if value == "" || name == "license" {
			continue
		}
		h, err := metering.ParseHour(value)
		if err != nil {
			return scope, fmt.Errorf("%s: %w", name, err)
		}
		switch name {
		case "hour":
			scope.From, scope.To = &h, &h
		case "from":
			scope.From = &h
		case "to":
			scope.To = &h
		}
	}
	return scope, nil
}

// comparisons is how often two ledgers are read again that differ while calls are under way.
const comparisons = 5

// Ledger recomputes the books from the tables, beside the running stages.
func (m *Machine) Ledger(ctx context.Context, scope ledger.Scope) (ledger.Sheet, error) {
	scope.Now, scope.Rules = m.clock.Now(), m.rules
	// Customers of products of the old kind are not known by their license at the Marketplace.
	compare := m.sim != nil && (scope.License == "" || !metering.LegacyLicense(scope.License))
	for try := 1; ; try++ {
		calls := m.calls()
		report, err := ledger.Compute(ctx, m.store, scope)
		if err != nil {
			return ledger.Sheet{}, fmt.Errorf("compute the ledger: %w", err)
		}
		if !compare {
			return ledger.Sheet{Report: report}, nil
		}
		sold := m.sold(scope)
		check := report.Against(sold)
		if check.Equal() || try == comparisons || calls == m.calls() {
			return ledger.Sheet{Report: report, Check: &check, Sold: len(sold)}, nil
		}
	}
}

func (m *Machine) calls() int {
	if m.sim == nil {
		return 0
	}
	return m.sim.Stats().Calls
}

// sold is the simulator's own ledger within the scope.
func (m *Machine) sold(scope ledger.Scope) (sold []ledger.Sold) {
	for _, b := range m.sim.Ledger() {
		hour := metering.HourOf(b.Hour)
		if scope.License != "" && scope.License != b.LicenseARN || scope.From != nil && hour < *scope.From || scope.To != nil && hour > *scope.To {
			continue
		}
		sold = append(sold, node.Sold(b))
	}
	return sold
}
