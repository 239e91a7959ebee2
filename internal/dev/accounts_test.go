package dev_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/dev"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// The accounts of a license are those of its subscribers, or else those that its usage names.
func TestAccountsOfALicense(t *testing.T) {
	t.Parallel()
	m := start(t, t.TempDir())
	const user, other, subscriber = "444455556666", "777788889999", "999900001111"
	want := func(license, agreement string, want ...string) {
		t.Helper()
		var got dev.Accounts
		query := url.Values{"license": {license}, "agreement": {agreement}}.Encode()
		if r := m.ask(http.MethodGet, "/v1/accounts?"+query, nil, nil, &got); r.StatusCode != http.StatusOK {
			t.Fatal(r.Status)
		}
		if diff := cmp.Diff(append([]string{}, want...), got.Accounts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", license, diff)
		}
	}
	use := func(account string) {
		m.post("application/x-ndjson", "", strings.Replace(object("2026-03-10T14:10:00", 3), `"`+buyerOne+`"`, `"`+account+`"`, 1))
	}
	subscribe := func(account string) {
		event := metering.LicenseEvent{License: licenseOne, Account: account, Agreement: agreementOne, ProductCode: simulator.DefaultProductCode, At: afternoon}
		if _, _, err := m.folder.Store.ChangeSubscriber(t.Context(), event.UpdatedAt(afternoon)); err != nil {
			t.Fatal(err)
		}
	}
	want(licenseOne, agreementOne)
	use(user)
	want(licenseOne, agreementOne, user)
	m.advance(afternoon.Add(time.Hour)) // the rows are records
	use(other)
	want(licenseOne, agreementOne, user, other)
	want(licenseTwo, agreementOne)
	subscribe(user)
	want(licenseOne, "", user)
	want(licenseOne, "agmt-2", user)
	m.tell(strings.Replace(happened(t, lifecycle.LicenseUpdated, licenseTwo, afternoon), `"`+buyerOne+`"`, `"`+subscriber+`"`, 1))
	want(licenseTwo, agreementOne, subscriber)
	want(licenseTwo, "")
	for _, query := range []string{"", "?license=", "?license=x&license=y", "?license=x&account=y"} {
		var p dev.Problem
		if r := m.ask(http.MethodGet, "/v1/accounts"+query, nil, nil, &p); r.StatusCode != http.StatusBadRequest || !strings.Contains(p.Hint, "/v1/accounts?license=") {
			t.Errorf("%s: %s %+v", query, r.Status, p)
		}
	}
}
