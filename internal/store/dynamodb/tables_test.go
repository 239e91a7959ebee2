package dynamodb_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

func TestSchema(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		in   *sdk.CreateTableInput
		want []string
	}{
		"usage": {dynamodb.UsageTable("t"), []string{
			"licenseArn customerAWSAccountId_dimension_timestamp",
			"metering_pending: meteringPending licenseArn INCLUDE customerAWSAccountId dimension",
		}},
		"aggregated usage": {dynamodb.AggregatedUsageTable("t"), []string{
			"licenseArn account_dimension_hour",
			"metering_pending: meteringPending licenseArn INCLUDE customerAWSAccountId dimension hourBucket quantity usageAllocations customerIdentifier " +
				"sentQuantity sentSecond meteringStatus billedQuantity",
		}},
		"customer profile": {dynamodb.CustomerProfileTable("t", "companyName", "contactEmail"), []string{
			"licenseArn customerAWSAccountId",
			"companyName-index: companyName KEYS_ONLY", "contactEmail-index: contactEmail KEYS_ONLY",
		}},
		"customer profile, nothing promoted": {dynamodb.CustomerProfileTable("t"), []string{"licenseArn customerAWSAccountId"}},
		"subscribers": {dynamodb.SubscribersTable("t"), []string{
			"licenseArn customerAWSAccountId",
			"deprovisioning-pending-index: deprovisioningPendingFlag deprovisioningExpiry KEYS_ONLY",
			"customerAWSAccountId-index: customerAWSAccountId ALL",
			"agreementId-index: agreementId ALL",
		}},
	}
	keys := func(schema []types.KeySchemaElement) string {
		var names []string
		for _, k := range schema {
			names = append(names, *k.AttributeName)
		}
		return strings.Join(names, " ")
	}
	for name, tt := range tests {
		got := []string{keys(tt.in.KeySchema)}
		for _, i := range tt.in.GlobalSecondaryIndexes {
			line := *i.IndexName + ": " + keys(i.KeySchema) + " " + string(i.Projection.ProjectionType)
			got = append(got, strings.TrimSpace(line+" "+strings.Join(i.Projection.NonKeyAttributes, " ")))
		}
		same(t, name, tt.want, got)
	}
}

// A table that is there already is left as it is.
func TestCreateAgain(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		w.put(t, row(0, 5))
		check(t, dynamodb.Create(t.Context(), w.direct, dynamodb.UsageTable(w.usage)))
		if w.row(t, 0) == nil {
			t.Error("the row is gone")
		}
	})
}

// A license whose end cannot be read takes no other's last hour away: the rest is listed, and the error names it, masked.
func TestUnreadableExpiry(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		odd := func(license, expiry string) {
			t.Helper()
			_, err := w.direct.PutItem(t.Context(), &sdk.PutItemInput{TableName: &w.subscribersTable, Item: map[string]types.AttributeValue{
				"licenseArn": text(license), "customerAWSAccountId": text(buyer), "deprovisioningPendingFlag": text("1"), "deprovisioningExpiry": text(expiry),
			}})
			check(t, err)
		}
		odd(license, "2026-03-10 16:00:00")
		second := metering.Deprovisioning{License: "b", Account: "1", Expiry: now().Add(time.Minute)}
		first := metering.Deprovisioning{License: "c", Account: "1", Expiry: now()}
		w.closing(t, second)
		w.closing(t, first)
		list, err := w.subscribers.Deprovisioning(t.Context())
		wantClass(t, "an end that is no time", awsapi.Invalid, err, `…aaaa ends at no time: "2026-03-10 16:00:00"`, "deprovisioningExpiry")
		if err != nil && strings.Contains(err.Error(), license) {
			t.Errorf("the license is not masked: %v", err)
		}
		same(t, "the others", []metering.Deprovisioning{first, second}, list)

		for i := range 8 {
			odd(fmt.Sprint(license, i), strings.Repeat("x", 500))
		}
		list, err = w.subscribers.Deprovisioning(t.Context())
		wantClass(t, "many", awsapi.Invalid, err, "and 4 more")
		same(t, "the others", []metering.Deprovisioning{first, second}, list)
		if n := len(err.Error()); n > 1000 {
			t.Errorf("an error of %d characters", n)
		}
	})
}

// A page that fails leaves what was read before it.
func TestDeprovisioningPageFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{})
	w.proxy.Intercept(func(c standin.Call) standin.Action {
		if strings.Contains(string(c.Body), "ExclusiveStartKey") {
			return standin.Exception(500, "com.amazon.coral.service#InternalServerError", "The request processing has failed.")
		}
		return standin.Action{Status: 200, Body: `{"Items":[{"licenseArn":{"S":"a"},"customerAWSAccountId":{"S":"1"},"deprovisioningExpiry":{"S":"soon"}},
				{"licenseArn":{"S":"b"},"customerAWSAccountId":{"S":"1"},"deprovisioningExpiry":{"S":"2026-03-10T15:20:00Z"}}],
			"LastEvaluatedKey":{"licenseArn":{"S":"b"},"customerAWSAccountId":{"S":"1"}}}`}
	})
	list, err := w.subscribers.Deprovisioning(t.Context())
	wantClass(t, "the second page", awsapi.Unavailable, err, "InternalServerError", `"soon"`)
	same(t, "those of the first", []metering.Deprovisioning{{License: "b", Account: "1", Expiry: now()}}, list)
}

// The set of licenses in their last hour may take more than a page: all pages are read.
func TestDeprovisioningOfManyPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{})
	w.proxy.Intercept(func(c standin.Call) standin.Action {
		if strings.Contains(string(c.Body), "ExclusiveStartKey") {
			return standin.Action{}
		}
		return standin.Action{Status: 200, Body: `{"Items":[{"licenseArn":{"S":"a"},"customerAWSAccountId":{"S":"1"},"deprovisioningPendingFlag":{"S":"1"},"deprovisioningExpiry":{"S":"2026-03-10T15:00:00Z"}}],
			"LastEvaluatedKey":{"licenseArn":{"S":"a"},"customerAWSAccountId":{"S":"1"},"deprovisioningPendingFlag":{"S":"1"},"deprovisioningExpiry":{"S":"2026-03-10T15:00:00Z"}}}`}
	})
	w.closing(t, metering.Deprovisioning{License: "b", Account: "1", Expiry: now()})
	list, err := w.subscribers.Deprovisioning(t.Context())
	check(t, err)
	if len(list) != 2 || list[0].License != "a" || list[1].License != "b" {
		t.Errorf("%+v, want those of both pages", list)
	}
}

// An operator hears what a scan costs before it begins, and may say no.
func TestScanIsAnnounced(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Moto(t), dynamodb.Options{PageLimit: 2})
	w.put(t, row(0, 5), row(1, 5), row(2, 5))
	check(t, w.PutRecord(t.Context(), record(15)))
	w.proxy.Intercept(func(c standin.Call) standin.Action {
		if c.Operation == "DescribeTable" && c.Resource == w.usage {
			return standin.Action{Status: 200, Body: fmt.Sprintf(`{"Table":{"TableName":%q,"ItemCount":250000000,"TableSizeBytes":81920000000}}`, w.usage)}
		}
		return standin.Action{}
	})
	w.proxy.Forget()
	var prices []dynamodb.ScanPrice
	w.Announce = func(p dynamodb.ScanPrice) error {
		prices = append(prices, p)
		return nil
	}
	licenses, err := read(w.Licenses(t.Context()))
	check(t, err)
	same(t, "licenses", []string{license}, licenses)
	if len(prices) != 2 {
		t.Fatalf("%d prices, want that of each table", len(prices))
	}
	same(t, "price of the usage table", dynamodb.ScanPrice{Table: w.usage, Items: 250_000_000, Bytes: 81_920_000_000, Units: 10_000_000, Dollars: 1.25}, prices[0])
	if want := "250000000 items, 81920.0 MB, 10000000 read units, about $1.2500"; !strings.Contains(prices[0].String(), want) {
		t.Errorf("in words: %s", prices[0])
	}
	calls := w.operations()
	same(t, "what comes first", []string{"DescribeTable", "DescribeTable"}, calls[:2])
	if scans := w.proxy.Count("Scan", w.usage); scans != 2 {
		t.Errorf("%d scans of 3 rows at 2 a page, want 2", scans)
	}

	w.proxy.Forget()
	no := errors.New("too dear")
	w.Announce = func(dynamodb.ScanPrice) error { return no }
	if _, err := read(w.Licenses(t.Context())); !errors.Is(err, no) || w.proxy.Count("Scan", "") != 0 {
		t.Errorf("%v, %d scans, want %v and none", err, w.proxy.Count("Scan", ""), no)
	}
}
