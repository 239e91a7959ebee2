package dynamodb_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

// A copy asks for what the ledger judges by and nothing else: neither the flushes and allocations of rows nor what a seller has added go over
// the network.
func TestPartsHaveWhatALedgerNeeds(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{PageLimit: 2})
		tagged := row(7, 5)
		tagged.Allocations = []metering.Allocation{{Quantity: 5, Tags: []metering.Tag{{Key: "team", Value: "a"}}}}
		tagged.Flushes = []string{"token"}
		odd := row(8, 0)
		odd.Quantity, odd.Other = metering.Quantity{}, metering.Item{metering.AttrQuantity: "many", "note": "the seller's"}
		stray := row(9, 4)
		stray.SortKey = "no key"
		w.put(t, tagged, odd, stray)
		whole := record(6)
		whole.SentQuantity, whole.SentSecond, whole.Status, whole.StatusReason = metering.Units(6), "2026-03-10T14:00:00", metering.Success, "because"
		whole.CreatedAt, whole.UpdatedAt, whole.BilledQuantity, whole.MeteringRecordID = "then", "now", metering.Units(5), "id"
		check(t, w.PutRecord(t.Context(), whole))
		check(t, w.PutRecord(t.Context(), metering.NewRecord(group("seats"), 1)))

		plain := tagged
		plain.Allocations, plain.Flushes = nil, nil
		bare := odd
		bare.Other = metering.Item{metering.AttrQuantity: "many"}
		unkeyed := stray
		unkeyed.Timestamp = ""
		rows := map[string]metering.Row{plain.SortKey: plain, bare.SortKey: bare, unkeyed.SortKey: unkeyed}
		kept := whole
		kept.SentSecond, kept.MeteringRecordID = "", ""
		other := metering.NewRecord(group("seats"), 1)
		records := map[string]metering.Record{kept.SortKey: kept, other.SortKey: other}

		got, units := map[string]metering.Row{}, 0.0
		for segment := range 3 {
			for _, r := range parts(t, &units, func(after string) (dynamodb.Part[metering.Row], error) {
				return w.ScanRows(t.Context(), segment, 3, after)
			}) {
				got[r.SortKey] = r
			}
		}
		same(t, "scanned rows", rows, got)
		found := map[string]metering.Record{}
		for segment := range 3 {
			for _, r := range parts(t, &units, func(after string) (dynamodb.Part[metering.Record], error) {
				return w.ScanRecords(t.Context(), segment, 3, after)
			}) {
				found[r.SortKey] = r
			}
		}
		same(t, "scanned records", records, found)

		w.proxy.Forget()
		got, found = map[string]metering.Row{}, map[string]metering.Record{}
		for _, r := range parts(t, &units, func(after string) (dynamodb.Part[metering.Row], error) {
			return w.QueryRows(t.Context(), license, after)
		}) {
			got[r.SortKey] = r
		}
		for _, r := range parts(t, &units, func(after string) (dynamodb.Part[metering.Record], error) {
			return w.QueryRecords(t.Context(), license, after)
		}) {
			found[r.SortKey] = r
		}
		same(t, "queried rows", rows, got)
		same(t, "queried records", records, found)
		for _, c := range w.proxy.Calls() {
			var asked struct {
				ConsistentRead       bool
				ProjectionExpression string
			}
			check(t, json.Unmarshal(c.Body, &asked))
			if !asked.ConsistentRead || strings.Contains(asked.ProjectionExpression, "usageAllocations") {
				t.Errorf("a query asks for %+v", asked)
			}
		}
		surveys, err := w.Surveys(t.Context())
		check(t, err)
		if len(surveys) != 2 || surveys[0].Table != w.usage || surveys[1].Table != w.aggregated || surveys[0].ID == surveys[1].ID || surveys[0].Region == "" {
			t.Errorf("surveys %+v", surveys)
		}
	})
}

// A place without a usage table has no rows, and one table to read.
func TestPartsWithoutAUsageTable(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		w.Ledger.Rows = nil
		scanned, err := w.ScanRows(t.Context(), 0, 1, "")
		check(t, err)
		queried, err := w.QueryRows(t.Context(), license, "")
		check(t, err)
		surveys, err := w.Surveys(t.Context())
		check(t, err)
		if len(scanned.Items)+len(queried.Items) > 0 || scanned.Next+queried.Next != "" || len(surveys) != 1 || surveys[0].Table != w.aggregated {
			t.Errorf("%+v, %+v, %+v", scanned, queried, surveys)
		}
	})
}

// parts takes all pages.
func parts[T any](t *testing.T, units *float64, read func(after string) (dynamodb.Part[T], error)) (all []T) {
	t.Helper()
	for after, more := "", true; more; {
		p, err := read(after)
		check(t, err)
		if len(p.Items) > 2 {
			t.Errorf("a page of %d items", len(p.Items))
		}
		all, *units = append(all, p.Items...), *units+p.Units
		after, more = p.Next, p.Next != ""
	}
	return all
}
