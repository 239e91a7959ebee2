package sqlite_test

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/sqlite"
)

const (
	usageView      = "SELECT customerAWSAccountId, dimension, timestamp, quantity, meteringPending, meteringStatus, meteringStatusReason, createdAt, updatedAt FROM usage ORDER BY licenseArn, dimension, timestamp"
	aggregatedView = "SELECT licenseArn, customerAWSAccountId, dimension, hourBucket, quantity, meteringPending, meteringStatus, billedQuantity, meteringRecordId, updatedAt FROM aggregated_usage"
)

// viewed is a store with what an operator may look at, and what the views show of its rows.
func viewed(t *testing.T, path string) [][]string {
	t.Helper()
	s := open(t, path, sqlite.Options{}.Unsynced())
	plain, hash := row(group(licenseA, "api"), 61, 5), row(group(licenseA, "api#2026-03-10T14"), 0, 7)
	put(t, s, plain, hash)
	if out, err := s.LabelRow(t.Context(), label(hash, "because")); err != nil || !out.Done {
		t.Fatalf("LabelRow: %+v, %v", out, err)
	}
	odd := metering.RowFromItem(metering.Item{
		metering.AttrLicense: licenseB, metering.AttrRowKey: buyer + "#storage#yesterday", metering.AttrQuantity: "7", metering.AttrPending: "today",
	})
	put(t, s, odd)
	rec := metering.NewRecord(group(licenseA, "api#x"), 12)
	rec.Status, rec.BilledQuantity, rec.MeteringRecordID, rec.UpdatedAt = metering.Success, metering.Units(12), "id-1", now().Format(time.RFC3339)
	check(t, "PutRecord", s.PutRecord(t.Context(), rec))
	return [][]string{
		{buyer, "api", "2026-03-10T14:01:01", "5", "2026-03-10T14", "", "", "", ""},
		{buyer, "api#2026-03-10T14", "2026-03-10T14:00:00", "7", "", "Aggregated", "because", "2026-03-10T15:20:00Z", "2026-03-10T15:20:00Z"},
		{buyer, "storage", "yesterday", "", "today", "", "", "", ""},
	}
}

func viewedRecord() []string {
	return []string{licenseA, buyer, "api#x", "2026-03-10T14", "12", "2026-03-10T14", "Success", "12", "id-1", "2026-03-10T15:20:00Z"}
}

func TestViews(t *testing.T) {
	t.Parallel()
	path := file(t)
	want := viewed(t, path)
	c := other(t, path)
	same(t, "usage", want, ask(t, c, usageView))
	same(t, "aggregated_usage", [][]string{viewedRecord()}, ask(t, c, aggregatedView))
	rest := ask(t, c, "SELECT licenseArn, rest FROM usage WHERE rest IS NOT NULL")
	if len(rest) != 1 || rest[0][0] != licenseB || !json.Valid([]byte(rest[0][1])) || !strings.Contains(rest[0][1], `"7"`) {
		t.Errorf("what has no column is shown as %v", rest)
	}
	// An operator's questions, by the names that the tables have on AWS.
	same(t, "units by hour", [][]string{{"2026-03-10T14", "12"}},
		ask(t, c, "SELECT substr(timestamp, 1, 13), sum(quantity) FROM usage WHERE licenseArn = ? AND timestamp BETWEEN '2026-03-10' AND '2026-03-11' GROUP BY 1", licenseA))
}

// The same through the sqlite3 program, where there is one.
func TestViewsInTheShell(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("sqlite3")
	path := file(t)
	want := viewed(t, path)
	if err != nil {
		return // TestViews asks the same over a connection
	}
	var lines []string
	for _, line := range append(want, viewedRecord()) {
		lines = append(lines, strings.Join(line, "|"))
	}
	out, err := exec.CommandContext(t.Context(), program, "-readonly", path, usageView, aggregatedView).CombinedOutput()
	check(t, string(out), err)
	same(t, "its answer", strings.Join(lines, "\n")+"\n", string(out))
}

func TestViewsOfBuyers(t *testing.T) {
	t.Parallel()
	path := file(t)
	s := open(t, path, sqlite.Options{}.Unsynced())
	at := now().Add(-metering.DeprovisionWindow)
	e := metering.LicenseEvent{License: licenseA, Account: buyer, Agreement: "agmt-a", ProductCode: "prod-a", At: at}
	for _, c := range []metering.SubscriberChange{
		e.UpdatedAt(now()), e.DeprovisionedAt(now()), metering.Registered(licenseA, buyer, "prod-a", "us-east-1", now()),
		metering.AgreementEvent{Agreement: "agmt-a", At: at}.EndedAt(licenseA, buyer, now()),
	} {
		_, _, err := s.ChangeSubscriber(t.Context(), c)
		check(t, "ChangeSubscriber", err)
	}
	check(t, "SaveProfile", s.SaveProfile(t.Context(), metering.ProfileChange{
		License: licenseA, Account: buyer, ProductCode: "prod-a", CustomerIdentifier: "cust-1", Fields: map[string]string{"contactName": "Zoë"}, At: now(),
	}))
	c := other(t, path)
	began, ends := "2026-03-10T14:20:00Z", "2026-03-10T15:20:00Z"
	same(t, "subscribers", [][]string{{
		licenseA, buyer, "prod-a", "agmt-a", "inactive", began, began, "deprovisioning", began, began, `["` + began + `"]`, "1", ends, `["us-east-1"]`, ends, ends,
	}}, ask(t, c, `SELECT licenseArn, customerAWSAccountId, productCode, agreementId, agreementStatus, agreementStatusAt, agreementEndedAt, subscriptionStatus, subscriptionStatusAt,
		licenseUpdatedAt, licenseDeprovisionedAt, deprovisioningPendingFlag, deprovisioningExpiry, registeredRegions, createdAt, updatedAt FROM subscribers`))
	same(t, "customer_profile", [][]string{{licenseA, buyer, "prod-a", "cust-1", `{"contactName":"Zoë"}`, ends, ends}},
		ask(t, c, "SELECT licenseArn, customerAWSAccountId, productCode, customerIdentifier, registrationData, createdAt, updatedAt FROM customer_profile"))
	same(t, "by a field", [][]string{{licenseA}}, ask(t, c, "SELECT licenseArn FROM customer_profile WHERE registrationData ->> 'contactName' = 'Zoë'"))
}
