package endtoend_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	dynamosdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/functions"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/usage"
	"github.com/awsmp/metering/usage/dynamodb"
)

// longAgo is past billing whatever the time of day, also at the turn of a month, and within the three days that every sweep
// looks at, also where the hour turns meanwhile.
const longAgo = 60

// usageBecomesABalancedLedger walks every path that usage can take but for the faults: all functions, each way of calling them.
// What is written and where it ends up stand side by side.
func usageBecomesABalancedLedger(t *testing.T, s suite) {
	w := newWorld(t, s)
	ordinary, closing := w.license(), w.license()
	fresh := w.license(w.hour.Start().Add(20 * time.Minute)) // bought when its first hour was twenty minutes old

	want := map[ledger.Cause]ledger.Amount{}
	expect := func(p ledger.Place, reason string, items int, units int64) {
		a := want[ledger.Cause{Place: p, Reason: reason}]
		want[ledger.Cause{Place: p, Reason: reason}] = ledger.Amount{Items: a.Items + items, Units: a.Units + units}
	}

	w.writeEvents(ordinary)
	expect(ledger.Billed, "", 2, 5+7+100+30)
	seats := w.group(ordinary, "seats#standard") // a dimension may hold the separator
	w.putItems(seats, "1", "2", "3", "4", "5", "6")
	expect(ledger.Billed, "", 6, 21)
	w.putItems(w.group(ordinary, "broken"), "4", "2.5", `"7"`)
	expect(ledger.Rejected, string(metering.NonIntegerQuantity), 2, 4) // the whole group, with the first reason
	expect(ledger.Rejected, string(metering.NonIntegerQuantity), 1, 0)
	idle := w.group(ordinary, "idle")
	w.putItems(idle, "0")
	expect(ledger.InFlight, "", 1, 0) // until the last hour of its window: a 0 sent now would own the hour
	unreadable := rows(w.group(ordinary, "unreadable"), 1)[0]
	unreadable.SortKey, unreadable.Quantity = "no key of ours", metering.Units(9)
	misfiled := w.group(ordinary, "misfiled")
	misfiled.Hour = metering.HourOf(time.Now()) - longAgo
	lost := rows(misfiled, 2)
	lost[0].Pending = w.hour.String() // found there, brought home, and found there again
	w.put(unreadable, lost[0], lost[1])
	expect(ledger.Rejected, string(metering.MalformedSortKey), 1, 9)
	expect(ledger.Expired, string(metering.AggregationExpired), 2, 3)

	ends := time.Now().Add(5 * time.Minute)
	_, _, err := w.closing.ChangeSubscriber(t.Context(), metering.LicenseEvent{
		License: closing, Account: account(closing), At: ends.Add(-metering.DeprovisionWindow),
	}.DeprovisionedAt(time.Now()))
	fatal(t, err)
	last := w.group(closing, "seats")
	last.Hour = metering.HourOf(time.Now())
	w.putItems(w.group(closing, "seats"), "10", "20")
	w.putItems(last, "40") // of the hour in progress, which ends with the license
	w.putItems(w.group(closing, "idle"), "0")
	expect(ledger.Billed, "", 4, 70)

	first := w.group(fresh, "seats")
	w.put(metering.NewRow(first, first.Hour.Second(30*60), 11))
	expect(ledger.Billed, "", 1, 11)

	old := w.group(ordinary, "direct")
	old.Hour = metering.HourOf(time.Now()) - longAgo
	unsent, doubtful := metering.NewRecord(old, 8), metering.NewRecord(w.group(closing, "direct"), 6)
	doubtful.SortKey, doubtful.HourBucket, doubtful.Pending = metering.Group{Account: account(closing), Dimension: "direct", Hour: old.Hour}.RecordKey(), old.Hour.String(), old.Hour.String()
	doubtful.SentQuantity, doubtful.SentSecond = metering.Units(6), old.Hour.Second(0).String()
	for _, r := range []metering.Record{unsent, doubtful} {
		fatal(t, w.store.PutRecord(t.Context(), r))
	}
	expect(ledger.Expired, string(metering.SubmissionExpired), 1, 8)
	expect(ledger.InDoubt, metering.VerdictUnknown, 1, 6)

	w.connectAll()
	w.round()
	w.books(want)
	w.labelled(seats, 6, metering.Aggregated)
	if record := w.record(first); record.SentSecond != first.Hour.Second(30*60).String() {
		t.Errorf("the first hour of a license was sent for %s, want its first row's second", record.SentSecond)
	}
	w.measured(functions.Cleanup, "UsageRecordRejected", 2, 13)
	w.measured(functions.Cleanup, "UsageAggregationExpired", 2, 3)
	w.measured(functions.Discoverer, "UsagePendingRepaired", 1, 0)
	w.measured(functions.SubmissionExpiry, "UsageSubmissionExpired", 2, 14)
	w.measured(functions.Submitter, "UsageBilled", 7, 244)

	// A second round finds the group that waits for its last hour and nothing else, and changes nothing.
	writes, sold := w.writes(), w.sim.Ledger()
	w.round()
	if n := w.writes() - writes; n != 0 {
		t.Errorf("%d writes in a second round, want none", n)
	}
	if diff := cmp.Diff(sold, w.sim.Ledger()); diff != "" {
		t.Errorf("a second round bills (-before +after):\n%s", diff)
	}
	w.books(want)
}

// round invokes every scheduled function once, and lets the queues run dry.
func (w *world) round() {
	w.t.Helper()
	w.meter()
	w.discover(`{"mode":"flush-deprovisioning"}`)
	for offset := longAgo; offset <= longAgo+1; offset++ { // the hour may turn
		w.discover(fmt.Sprintf(`{"mode":"ageout","shard":%d}`, offset%metering.AgeoutShards))
	}
	w.drained()
	var none map[string]any
	fatal(w.t, w.run(functions.SubmissionExpiry, `{}`, &none))
	w.submit()
}

// writeEvents writes usage as an application does: events through the public writer, which folds them into rows of a minute.
func (w *world) writeEvents(license string) {
	w.t.Helper()
	table := dynamodb.New(w.dynamo, dynamodb.Tables{Usage: w.usage, AggregatedUsage: w.aggregated}, dynamodb.Options{})
	writer, err := usage.NewWriter(table, usage.Options{})
	fatal(w.t, err)
	at := w.hour.Start().Add(10 * time.Minute)
	for _, e := range []usage.Event{
		{Dimension: "requests", Time: at, Quantity: 5},
		{Dimension: "requests", Time: at.Add(59 * time.Second), Quantity: 7}, // the same minute: the same row
		{Dimension: "storage", Time: at, Quantity: 130, Allocations: []usage.Allocation{
			{Quantity: 100, Tags: []usage.Tag{{Key: "team", Value: "red"}}}, {Quantity: 30},
		}},
	} {
		e.License, e.Account = license, account(license)
		fatal(w.t, writer.Add(w.t.Context(), e))
	}
	fatal(w.t, writer.Close(w.t.Context()))
}

// putItems writes rows as the contract for writers describes them, item by item, without any code of ours: one a minute, with
// quantities that are numbers, or text where they stand in quotes.
func (w *world) putItems(g metering.Group, quantities ...string) {
	w.t.Helper()
	for i, quantity := range quantities {
		at := g.Hour.Start().Add(time.Duration(i) * time.Minute)
		var value types.AttributeValue = &types.AttributeValueMemberN{Value: quantity}
		if text := strings.Trim(quantity, `"`); text != quantity {
			value = &types.AttributeValueMemberS{Value: text}
		}
		item := map[string]types.AttributeValue{"quantity": value}
		for name, text := range map[string]string{
			"licenseArn":           g.License,
			"customerAWSAccountId": g.Account,
			"dimension":            g.Dimension,
			"timestamp":            at.Format("2006-01-02T15:04:05"),
			"meteringPending":      at.Format("2006-01-02T15"),
			"customerAWSAccountId_dimension_timestamp": g.Account + "#" + g.Dimension + "#" + at.Format("2006-01-02T15:04:05"),
		} {
			item[name] = &types.AttributeValueMemberS{Value: text}
		}
		_, err := w.dynamo.PutItem(w.t.Context(), &dynamosdk.PutItemInput{TableName: aws.String(w.usage), Item: item})
		fatal(w.t, err)
	}
}

// writes counts what all functions have written.
func (w *world) writes() (n int) {
	for _, f := range w.functions {
		n += succeeded(f.aws, "UpdateItem") + succeeded(f.aws, "PutItem")
	}
	return n
}

// measured fails unless the metric's lines on a function's output add up to items and units.
func (w *world) measured(handler, metric string, items, units float64) {
	w.t.Helper()
	var gotItems, gotUnits float64
	for line := range strings.Lines(w.function(handler).Logs()) {
		var fields map[string]any
		if !strings.HasPrefix(line, "{") || json.Unmarshal([]byte(line), &fields) != nil {
			continue
		}
		n, _ := fields[metric].(float64)
		u, _ := fields[metric+"Units"].(float64)
		gotItems, gotUnits = gotItems+n, gotUnits+u
	}
	if gotItems != items || gotUnits != units {
		w.t.Errorf("%s counts %s %v with %v units, want %v with %v", handler, metric, gotItems, gotUnits, items, units)
	}
}
