package tablecopy_test

import (
	"fmt"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/internal/tablecopy"
)

const buyer = "444455556666"

func now() time.Time { return time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC) }

// long is the time of writes that ended long before any copy.
func long() time.Time { return now().Add(-5 * time.Hour) }

func licenseOf(n int) string {
	return fmt.Sprintf("arn:aws:license-manager::111122223333:license:l-%032d", n)
}

// tables are both tables in dynalite, with pages of so many items; 0 leaves that to the service.
func tables(t testing.TB, url string, page int32) *dynamodb.Ledger {
	t.Helper()
	return tablesBy(t, sdk.NewFromConfig(standin.Config(url), func(o *sdk.Options) { o.RetryMaxAttempts = 1 }), page)
}

func tablesBy(t testing.TB, client *sdk.Client, page int32) *dynamodb.Ledger {
	t.Helper()
	usage, aggregated := standin.Name(t, "usage"), standin.Name(t, "aggregated")
	check(t, dynamodb.Create(t.Context(), client, dynamodb.UsageTable(usage), dynamodb.AggregatedUsageTable(aggregated)))
	o := dynamodb.Options{PageLimit: page}
	return &dynamodb.Ledger{Rows: dynamodb.NewRows(client, usage, o), Records: dynamodb.NewRecords(client, aggregated, o)}
}

func group(license, hour int, dimension string) metering.Group {
	return metering.Group{License: licenseOf(license), Account: buyer, Dimension: dimension, Hour: metering.HourOf(now()) - metering.Hour(hour)}
}

// rowAt is a row of a group in a status, which "" leaves waiting.
func rowAt(g metering.Group, minute int, quantity int64, status metering.Status, reason string) metering.Row {
	r := metering.NewRow(g, g.Hour.Second(60*minute), quantity)
	if status != "" {
		r.Pending, r.Status, r.StatusReason = "", status, reason
		r.CreatedAt, r.UpdatedAt = long().Format(time.RFC3339), long().Format(time.RFC3339)
	}
	r.Flushes = []string{"token-that-no-ledger-asks-for"}
	return r
}

// recordOf is the record that rows were committed to, in a status, which "" leaves waiting.
func recordOf(t testing.TB, status metering.Status, rows ...metering.Row) metering.Record {
	t.Helper()
	key, _ := metering.ParseRowKey(rows[0].SortKey)
	g := key.Group(rows[0].License)
	fold := metering.NewFold(g, g.Hour.End())
	for _, r := range rows {
		r.Pending, r.Status = g.Hour.String(), ""
		fold.Add(r)
	}
	record, reason := fold.Record()
	if reason != "" {
		t.Fatal(reason)
	}
	if status != "" {
		record.Pending, record.Status = "", status
		record.CreatedAt, record.UpdatedAt = long().Format(time.RFC3339), long().Format(time.RFC3339)
	}
	return record
}

// fill writes groups in every place into the tables: licenses × hours × 12.
func fill(t testing.TB, l *dynamodb.Ledger, licenses, hours int) {
	t.Helper()
	var rows []metering.Row
	put := func(r metering.Record) { check(t, l.PutRecord(t.Context(), r)) }
	add := func(list ...metering.Row) []metering.Row { rows = append(rows, list...); return list }
	for license := range licenses {
		for hour := 2; hour < 2+hours; hour++ {
			of := func(dimension string) metering.Group { return group(license, hour, dimension) }
			done := func(g metering.Group) []metering.Row {
				return add(rowAt(g, 0, 7, metering.Aggregated, ""), rowAt(g, 1, 3, metering.Aggregated, ""), rowAt(g, 59, 0, metering.Aggregated, ""))
			}
			put(recordOf(t, metering.Success, done(of("billed"))...))
			put(recordOf(t, metering.DuplicateRecord, done(of("refused"))...))
			put(recordOf(t, metering.DryRunSubmitted, done(of("dry"))...))
			put(recordOf(t, "", done(of("waits"))...))
			// Dimensions that sort one way as part of a key and another way with its time behind them.
			put(recordOf(t, metering.Success, done(of("a!"))...))
			put(recordOf(t, metering.Success, done(of("a#"+of("").Hour.String()))...))
			put(recordOf(t, metering.Success, done(of("a"))...))
			put(recordOf(t, metering.Success, done(of("late"))...))
			add(rowAt(of("late"), 30, 5, metering.LateUsage, metering.LateReason))
			doubt := recordOf(t, metering.SubmissionExpired, done(of("doubt"))...)
			doubt.StatusReason, doubt.SentQuantity = metering.VerdictUnknown, doubt.Quantity
			put(doubt)
			add(rowAt(of("rejected"), 0, 9, metering.RejectedClientSide, string(metering.AllocationSumMismatch)))
			add(rowAt(of("expired"), 0, 11, metering.AggregationExpired, ""), rowAt(of("new"), 0, 13, "", ""))
			grown := done(of("grown"))
			put(recordOf(t, metering.Success, grown...))
			grown[0].Quantity, grown[0].Status, grown[0].StatusReason = metering.Units(20), metering.LateUsage, "Grew from 7 to 20 after its hour was committed"
			rows[len(rows)-3] = grown[0]
		}
		direct := metering.NewRecord(group(license, 1, "direct"), 40)
		direct.Pending, direct.Status = "", metering.Success
		put(direct)
		odd := rowAt(group(license, 1, "odd"), 0, 2, metering.RejectedClientSide, string(metering.MalformedSortKey))
		odd.SortKey = "no key"
		late := rowAt(group(license, 1, "odder"), 0, 2, metering.RejectedClientSide, string(metering.MalformedTimestamp))
		late.SortKey = buyer + "#odder#yesterday"
		many := rowAt(group(license, 1, "many"), 0, 0, metering.RejectedClientSide, string(metering.NonNumericQuantity))
		many.Quantity, many.Other = metering.Quantity{}, metering.Item{metering.AttrQuantity: "many"}
		add(odd, late, many)
	}
	check(t, l.PutRows(t.Context(), rows))
}

// copied is a finished copy in a folder of the test.
func copied(t testing.TB, dir string, source tablecopy.Source, o tablecopy.Options) *tablecopy.Copy {
	t.Helper()
	c := opened(t, dir, source, o)
	check(t, c.Run(t.Context(), source, nil, nil))
	return c
}

func opened(t testing.TB, dir string, source tablecopy.Source, o tablecopy.Options) *tablecopy.Copy {
	t.Helper()
	if o.Now == nil {
		o.Now = now
	}
	surveys, err := source.Surveys(t.Context())
	check(t, err)
	c, err := tablecopy.Open(t.Context(), dir, surveys, o)
	check(t, err)
	return c
}

func books(t testing.TB, c *tablecopy.Copy, source tablecopy.Source, scope ledger.Scope) ledger.Sheet {
	t.Helper()
	sheet, err := c.Books(t.Context(), source, scope, nil, nil)
	check(t, err)
	return sheet
}

// computed is the ledger of the tables themselves.
func computed(t testing.TB, source ledger.Store, scope ledger.Scope) ledger.Report {
	t.Helper()
	r, err := ledger.Compute(t.Context(), source, scope)
	check(t, err)
	return r
}

// same compares two ledgers but for how their licenses were found.
func same(t testing.TB, want, got ledger.Report) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(ledger.Report{}, ledger.Balance{}), cmpopts.IgnoreFields(ledger.Report{}, "FoundBy"), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the copy's ledger (-tables +copy):\n%s", diff)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
