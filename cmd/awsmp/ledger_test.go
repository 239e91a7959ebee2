package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	dynamosdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/spf13/cobra"

	"github.com/awsmp/metering/internal/folder"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/stack/stacktest"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/internal/store/sqlite"
	"github.com/awsmp/metering/internal/tablecopy"
)

// A unit that is in no place ends the command with 4, in words and as a document.
func TestLedgerImbalance(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store, err := sqlite.Open(t.Context(), folder.Store(dir), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hour, _ := metering.ParseHour("2026-03-10T14")
	row := metering.NewRow(metering.Group{License: exampleLicense, Account: "111122223333", Dimension: "api_calls", Hour: hour}, hour.Second(0), 7)
	row.Pending = "" // nothing will ever find it
	if err := store.PutRow(t.Context(), row); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), []string{"ledger", "--store", dir}, strings.NewReader(""), &out, &errs); code != exitUnsound || errs.Len() > 0 {
		t.Errorf("exit code %d, %s", code, errs.String())
	}
	for _, want := range []string{"NOT BALANCED: 7 units written, 0 units in a place.", "it was written without meteringPending"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	out.Reset()
	if code := run(t.Context(), []string{"ledger", "--store", dir, "--json", "--license", exampleLicense}, strings.NewReader(""), &out, &errs); code != exitUnsound {
		t.Errorf("exit code %d", code)
	}
	var d ledger.Document
	if err := json.Unmarshal(out.Bytes(), &d); err != nil || d.Balanced || len(d.Imbalances) != 1 {
		t.Errorf("%v: %s", err, out.String())
	}
}

// Below a cent the whole of a stack is read without a question; from a cent on somebody has to agree.
func TestLedgerAsksFromACentOn(t *testing.T) {
	t.Parallel()
	for dollars, asks := range map[float64]bool{0: false, 0.009: false, 0.01: true, 4: true} {
		surveys := []dynamodb.Survey{{ScanPrice: dynamodb.ScanPrice{Table: "usage", Dollars: dollars / 2}}, {ScanPrice: dynamodb.ScanPrice{Table: "aggregated-usage", Dollars: dollars / 2}}}
		dir := t.TempDir()
		c, err := tablecopy.Open(t.Context(), dir, surveys, tablecopy.Options{Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		cmd := &cobra.Command{Use: "awsmp"}
		cmd.SetIn(strings.NewReader(""))
		cmd.SetErr(&errs)
		f := ledgerFlags{rate: 500}
		if err := f.agree(cmd, c, surveys, dir); (err != nil) != asks || !strings.Contains(errs.String(), fmt.Sprintf("To be read: about $%.4f", dollars)) {
			t.Errorf("$%.3f: %v, %s", dollars, err, errs.String())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A copy that is interrupted ends with 130 and the command that goes on, which reads the rest. It sets the environment, and is not parallel.
func TestLedgerInterrupted(t *testing.T) {
	deployed := stacktest.Deploy(t, stacktest.Options{NoEvents: true})
	cfg, err := deployed.Config(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	hour, _ := metering.ParseHour("2026-03-10T14")
	var rows []metering.Row
	for i := range 9 { // three pages
		row := metering.NewRow(metering.Group{License: exampleLicense, Account: "111122223333", Dimension: "api_calls", Hour: hour}, hour.Second(i), 7)
		row.Other = metering.Item{"note": strings.Repeat("x", 300_000)}
		rows = append(rows, row)
	}
	usage := "awsmp-" + deployed.ProductCode + "-usage"
	if err := dynamodb.NewRows(dynamosdk.NewFromConfig(cfg), usage, dynamodb.Options{}).PutRows(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	proxy := standin.NewProxy(t, deployed.Endpoint)
	for _, setting := range deployed.Env() {
		name, value, _ := strings.Cut(setting, "=")
		if value == deployed.Endpoint {
			value = proxy.URL
		}
		t.Setenv(name, value)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	scans := 0
	proxy.Intercept(func(c standin.Call) standin.Action {
		if c.Operation == "Scan" && c.Resource == usage {
			if scans++; scans == 3 {
				interrupt()
			}
		}
		return standin.Action{}
	})
	state := filepath.Join(t.TempDir(), "state")
	args := []string{"ledger", "--stack", deployed.StackName, "--state", state, "--segments", "1", "--yes"}
	var out, errs bytes.Buffer
	if code := run(ctx, args, strings.NewReader(""), &out, &errs); code != exitInterrupted || out.Len() > 0 {
		t.Errorf("exit code %d, printed %q", code, out.String())
	}
	said := regexp.MustCompile(`(?m)^awsmp: interrupted: [36] items of about 9 are copied and stay\nTry: awsmp ledger --stack .* --state .* --segments 1 --yes$`)
	if !said.MatchString(errs.String()) {
		t.Errorf("said:\n%s", errs.String())
	}
	errs.Reset()
	if code := run(t.Context(), args, strings.NewReader(""), &out, &errs); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	if !regexp.MustCompile(`(?m)^The copy that was begun at .* UTC goes on: [36] rows and 0 records are there, and took \d+ read units?\.$`).MatchString(errs.String()) {
		t.Errorf("said:\n%s", errs.String())
	}
	for _, want := range []string{"written 63 = billed 0 + in flight 63", "9 rows, 0 records, ", "Balanced: every unit is accounted for."} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}
