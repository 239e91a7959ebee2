package dev

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/awsmp/metering/internal/metering"
)

// Accounts is the answer of GET /v1/accounts: the accounts that this node knows of a license, in order. Where one of them is a subscriber,
// those that are none are left out.
type Accounts struct {
	Accounts []string `json:"accounts"`
}

// maxAccounts bounds the accounts of a license that are looked for: from two on somebody has to say which is meant.
const maxAccounts = 10

func (m *Machine) getAccounts(w http.ResponseWriter, r *http.Request) {
	q, err := queryOf(r, "license", "agreement")
	if err == nil && q.Get("license") == "" {
		err = errors.New("license is needed")
	}
	if err != nil {
		fail(w, http.StatusBadRequest, err.Error(), "as in /v1/accounts?license=arn:aws:license-manager::…; agreement= helps to find subscribers without usage")
		return
	}
	accounts, err := m.accounts(r.Context(), q.Get("license"), q.Get("agreement"))
	if err != nil {
		broken(w, err)
		return
	}
	answer(w, http.StatusOK, Accounts{accounts})
}

// queryOf is a query that has no other members than those named, each once. One that cannot be read is an error: what it asks for would
// be left out, and the answer be of more than was meant.
func queryOf(r *http.Request, names ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, fmt.Errorf("read the query: %w", err)
	}
	for name, values := range q {
		switch {
		case !slices.Contains(names, name):
			return q, fmt.Errorf("%s is not known", name)
		case len(values) > 1:
			return q, fmt.Errorf("%s is there twice", name)
		}
	}
	return q, nil
}

// accounts are those of a license: of its subscribers, as far as its agreement or its usage leads to them, or else of its usage.
func (m *Machine) accounts(ctx context.Context, license, agreement string) ([]string, error) {
	known, err := m.subscribed(ctx, license, agreement)
	if err != nil || len(known) > 0 {
		return known, err
	}
	used, err := m.usedBy(ctx, license, maxAccounts)
	if err != nil {
		return nil, err
	}
	for _, account := range used {
		s, err := m.store.Subscriber(ctx, license, account)
		if err != nil {
			return nil, fmt.Errorf("read the subscriber: %w", err)
		}
		if s != nil {
			known = append(known, account)
		}
	}
	if len(known) > 0 {
		return known, nil
	}
	return used, nil
}

// subscribed are the accounts of an agreement's subscribers of the license.
func (m *Machine) subscribed(ctx context.Context, license, agreement string) ([]string, error) {
	accounts := []string{}
	if agreement == "" {
		return accounts, nil
	}
	for s, err := range m.store.AgreementSubscribers(ctx, agreement) {
		if err != nil {
			return nil, fmt.Errorf("read the agreement's licenses: %w", err)
		}
		if s.License == license {
			accounts = append(accounts, s.Account)
		}
	}
	return accounts, nil
}

// usedBy are accounts that the license has usage of, in order, the first few that are met. It reads what the license has of both tables.
func (m *Machine) usedBy(ctx context.Context, license string, most int) ([]string, error) {
	accounts := []string{}
	full := func(account string) bool {
		if at, found := slices.BinarySearch(accounts, account); !found && account != "" {
			accounts = slices.Insert(accounts, at, account)
		}
		return len(accounts) >= most
	}
	for r, err := range m.store.LicenseRecords(ctx, license) {
		if err != nil {
			return nil, fmt.Errorf("read the license's records: %w", err)
		}
		account := r.Account
		if g, reason := r.Group(); reason == "" {
			account = g.Account
		}
		if full(account) {
			return accounts, nil
		}
	}
	for r, err := range m.store.LicenseRows(ctx, license) {
		if err != nil {
			return nil, fmt.Errorf("read the license's usage: %w", err)
		}
		account := r.Account
		if key, reason := metering.ParseRowKey(r.SortKey); reason == "" {
			account = key.Group(license).Account
		}
		if full(account) {
			break
		}
	}
	return accounts, nil
}
