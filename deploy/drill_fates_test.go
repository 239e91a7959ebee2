package deploy_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/marketplacemetering"
	meteringtypes "github.com/aws/aws-sdk-go-v2/service/marketplacemetering/types"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/simulator"
)

// usageFates: usage is refused, malformed, late, too old or in doubt, each by a seller's, a buyer's or an operator's doing.
func usageFates(d *drill) {
	b, doubted, refused, slow := d.buys(7), d.buys(8), d.buys(9), d.buys(5)
	unmatched(d, b)

	// What was sent without an answer is refused afterwards; what came in time is summed; a record stays undone in run after run.
	doubt, base := doubted.group("doubt", 0), map[string]metering.Group{}
	d.record(doubt, 9)
	d.sim.Inject(simulator.Fault{Kind: simulator.Unreachable, Times: 1, Match: func(r simulator.Record) bool { return r.LicenseARN == doubted.license }})
	for i, name := range []string{"late", "lowered", "unreadable"} {
		base[name] = b.group(name, 0)
		d.row(base[name], 0, fmt.Sprint(10*(i+1)))
	}
	d.row(slow.group("undone", 0), 0, "3")
	undone := d.sim.Inject(simulator.Fault{Kind: simulator.Unprocessed, Match: func(r simulator.Record) bool { return r.LicenseARN == slow.license }})
	d.pass(4, often("submitter"))
	d.must(d.sim.SuspendAccount(doubted.account, true))
	d.round(often("submitter"))

	d.row(base["late"], 60, "1")
	d.row(base["lowered"], 0, "15")
	d.row(base["unreadable"], 60, "1")
	manifest := d.edit("aggregated-usage", "account_dimension_hour", b.license, recordKey(base["unreadable"]), "manifest", &types.AttributeValueMemberB{Value: []byte("of another release")})
	rejected, ghost, cancelled, twice := b.group("rejected", 0), b.group("ghost", 0), refused.group("seats", 0), b.group("twice", 0)
	d.row(rejected, 0, "8")
	d.row(rejected, 60, "2.5")
	d.must(d.sim.UndefineDimension("ghost"))
	d.row(ghost, 0, "2")
	d.must(d.sim.SuspendAccount(refused.account, true))
	d.row(cancelled, 0, "5")
	d.row(twice, 0, "7")
	d.sells(twice, 4)
	d.row(b.group("old", pastBilling), 0, "6")
	d.pass(9, often("submitter"))
	d.record(b.group("older", pastBilling), 5) // ends with the very next run
	d.round(often("submitter", "submission-expiry"))

	alarms := []string{"usage-late", "usage-covered-row-changed", "usage-manifest-unreadable", "usage-record-rejected", "batch-meter-usage-exception", "customer-not-subscribed", "duplicate-record",
		"usage-aggregation-expired", "usage-submission-expired", "usage-record-in-doubt", "usage-record-unprocessed"}
	d.rings(alarms...)
	d.sees(alarms...)
	d.understands(alarms...)
	story := map[string]string{}
	for name, of := range map[string]struct {
		group metering.Group
		words []string
	}{
		"late": {base["late"], []string{"LateUsage", "late carry"}}, "lowered": {base["lowered"], []string{"15"}}, "unreadable": {base["unreadable"], []string{"manifest"}},
		"rejected": {rejected, []string{string(metering.NonIntegerQuantity), "rejected"}}, "ghost": {ghost, []string{"InvalidUsageDimensionException", "refused retry"}},
		"cancelled": {cancelled, []string{"CustomerNotSubscribed", "refused retry"}}, "twice": {twice, []string{"DuplicateRecord"}},
		"old": {b.group("old", pastBilling), []string{"AggregationExpired"}}, "older": {b.group("older", pastBilling), []string{"SubmissionExpired"}},
		"doubt": {doubt, []string{"doubt"}}, "undone": {slow.group("undone", 0), []string{"3"}},
	} {
		story[name] = d.explains(of.group, of.words...)
	}

	// Put right what can be. The rest has its name, and is left.
	d.edit("aggregated-usage", "account_dimension_hour", b.license, recordKey(base["unreadable"]), "manifest", manifest)
	d.edit("usage", "customerAWSAccountId_dimension_timestamp", b.license, d.rowKey(rejected, 60), "quantity", &types.AttributeValueMemberN{Value: "3"})
	d.must(d.sim.DefineDimension("ghost"))
	d.must(d.sim.SuspendAccount(refused.account, false))
	d.must(d.sim.SuspendAccount(doubted.account, false))
	undone()
	d.runs(story["late"], "awsmp late carry")
	d.runs(d.explains(rejected, "rejected retry"), "awsmp rejected retry") // it named a drop while the row was wrong
	d.runs(story["ghost"], "awsmp refused retry")
	d.runs(story["cancelled"], "awsmp refused retry")
	d.pass(30, often("submitter"))
	d.quiet(alarms...)
	d.clear("batch-meter-usage-exception", "customer-not-subscribed", "usage-record-rejected", "usage-record-in-doubt", "usage-record-unprocessed", "usage-manifest-unreadable")
	for _, g := range []metering.Group{rejected, ghost, cancelled, doubt, slow.group("undone", 0)} {
		if _, billed := d.sim.Billed(g.License, g.Account, g.Dimension, g.Hour.Start()); !billed {
			d.t.Errorf("%s is not billed", g.Dimension)
		}
	}
}

// unmatched: the Marketplace answers for a record that nobody asked about.
func unmatched(d *drill, b buyer) {
	asked := b.group("asked", 0)
	d.round(often())
	d.record(asked, 1)
	d.troubles(d.name("submitter"), func(c standin.Call) standin.Action {
		if c.Operation != "BatchMeterUsage" {
			return standin.Action{}
		}
		var call struct{ UsageRecords []map[string]any }
		if err := json.Unmarshal(c.Body, &call); err != nil || len(call.UsageRecords) == 0 {
			return standin.Action{}
		}
		other := call.UsageRecords[0]
		other["Dimension"] = "another"
		text, err := json.Marshal(map[string]any{"Results": []any{map[string]any{"UsageRecord": other, "MeteringRecordId": "another", "Status": "Success"}}, "UnprocessedRecords": []any{}})
		if err != nil {
			return standin.Action{}
		}
		return standin.Action{Status: http.StatusOK, Body: string(text), Header: http.Header{"Content-Type": {"application/x-amz-json-1.1"}}}
	})
	d.pass(5, often("submitter"))
	d.rings("usage-result-unmatched")
	d.sees("usage-result-unmatched")
	d.understands("usage-result-unmatched")
	d.explains(asked, "1")
	d.troubles(d.name("submitter"), nil)
	d.pass(15, often("submitter"))
	d.quiet("usage-result-unmatched")
	d.clear("usage-result-unmatched")
}

// recordKey is the sort key of a group's record.
func recordKey(g metering.Group) string {
	return strings.Join([]string{g.Account, g.Dimension, g.Hour.String()}, "#")
}

// sells bills a group's hour from elsewhere: another program meters the same product.
func (d *drill) sells(g metering.Group, quantity int32) {
	d.t.Helper()
	client := marketplacemetering.NewFromConfig(standin.Config(d.simURL))
	out, err := client.BatchMeterUsage(d.t.Context(), &marketplacemetering.BatchMeterUsageInput{UsageRecords: []meteringtypes.UsageRecord{{
		LicenseArn: aws.String(g.License), CustomerAWSAccountId: aws.String(g.Account), Dimension: aws.String(g.Dimension), Quantity: aws.Int32(quantity), Timestamp: aws.Time(g.Hour.Start()),
	}}})
	d.must(err)
	if len(out.Results) != 1 || out.Results[0].Status != meteringtypes.UsageRecordResultStatusSuccess {
		d.t.Fatalf("another program is told %+v", out)
	}
	d.elsewhere += int64(quantity)
}
