package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	dynamosdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/eventbus"
	"github.com/awsmp/metering/internal/lambdahost"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/simulator"
	"github.com/awsmp/metering/usage"
	usagetable "github.com/awsmp/metering/usage/dynamodb"
)

// pastBilling is past billing whatever the time of day, also at the turn of a month, and within the three days that every sweep looks at.
const pastBilling = 60

// buyerAccount is the account of a buyer, 0 to 9.
func buyerAccount(i int) string { return fmt.Sprintf("44445555661%d", i) }

// buyerLicense is the license of buyerAccount(i).
func buyerLicense(i int) string {
	return fmt.Sprintf("arn:aws:license-manager::111122223333:license:l-%032d", 10+i)
}

// books are where units are wanted.
type books map[ledger.Cause]ledger.Amount

func (b books) add(place ledger.Place, reason string, items int, units int64) {
	cause := ledger.Cause{Place: place, Reason: reason}
	b[cause] = ledger.Amount{Items: b[cause].Items + items, Units: b[cause].Units + units}
}

// balance recomputes the ledger of licenses: it must balance, agree with what the Marketplace has billed, and hold what is wanted.
func (d *driver) balance(store ledger.Store, want books, licenses ...string) {
	d.t.Helper()
	var total ledger.Balance
	for _, license := range licenses {
		report, err := ledger.Compute(d.t.Context(), store, ledger.Scope{License: license})
		d.must(err)
		if !report.Balanced() {
			d.t.Errorf("the books do not balance: %+v", report.Imbalances)
		}
		var sold []ledger.Sold
		for _, b := range d.sim.Ledger() {
			if b.LicenseARN == license {
				sold = append(sold, node.Sold(b))
			}
		}
		if check := report.Against(sold); !check.Equal() || len(check.Explained) > 0 {
			d.t.Errorf("the Marketplace says otherwise: %+v", check)
		}
		total.Merge(report.Total)
	}
	if diff := cmp.Diff(map[ledger.Cause]ledger.Amount(want), total.Places); diff != "" {
		d.t.Errorf("where the units are (-want +got):\n%s", diff)
	}
}

// fullPipeline is the life of two licenses in the full stack as it is deployed: a first click, usage in its tables, and the Marketplace's events
// through its rule and queue. It ends in books that balance and are the Marketplace's.
func fullPipeline(t *testing.T, s stands) {
	d := newDriver(t, simulator.Options{ProductCode: fullProduct}, s.live, s.full)
	dynamo := dynamosdk.NewFromConfig(standin.Config(d.cloud.endpoint))
	usageTable, aggregated := s.full.outputs["UsageTableName"], s.full.outputs["AggregatedUsageTableName"]
	subscribers := dynamodb.NewSubscribers(dynamo, s.live.outputs["SubscribersTableName"])
	ordinary, closing, hour := buyerLicense(1), buyerLicense(2), metering.HourOf(time.Now())-1
	d.must(d.sim.PutLicense(simulator.License{ARN: ordinary, AccountID: buyerAccount(1)}))
	d.must(d.sim.PutLicense(simulator.License{ARN: closing, AccountID: buyerAccount(2), DeprovisionedAt: time.Now().Add(-50 * time.Minute)}))
	group := func(license, account, dimension string, back int) metering.Group {
		return metering.Group{License: license, Account: account, Dimension: dimension, Hour: hour - metering.Hour(back)}
	}

	d.firstClick(s.full, ordinary, buyerAccount(1))
	registered, err := subscribers.Subscriber(t.Context(), ordinary, buyerAccount(1))
	d.must(err)
	if registered == nil || registered.ProductCode != fullProduct || !slices.Equal(registered.Regions, []string{standin.Region}) {
		t.Errorf("after the first click: %+v", registered)
	}

	d.happens(lifecycle.LicenseUpdated, closing, buyerAccount(2), 3*time.Hour)
	d.happens(lifecycle.LicenseDeprovisioned, closing, buyerAccount(2), 50*time.Minute)
	d.settle()

	want := books{}
	writer, err := usage.NewWriter(usagetable.New(dynamo, usagetable.Tables{Usage: usageTable, AggregatedUsage: aggregated}, usagetable.Options{}), usage.Options{})
	d.must(err)
	for minute, quantity := range []int64{5, 7} {
		d.must(writer.Add(t.Context(), usage.Event{
			License: ordinary, Account: buyerAccount(1), Dimension: "requests", Time: hour.Start().Add(time.Duration(minute) * time.Minute), Quantity: quantity,
		}))
	}
	d.must(writer.Close(t.Context()))
	want.add(ledger.Billed, "", 2, 12)
	d.putRows(dynamo, usageTable, group(ordinary, buyerAccount(1), "seats", 0), "1", "2", "3")
	want.add(ledger.Billed, "", 3, 6)
	d.putRows(dynamo, usageTable, group(ordinary, buyerAccount(1), "seats", 4), "4")
	want.add(ledger.Billed, "", 1, 4)
	d.putRows(dynamo, usageTable, group(ordinary, buyerAccount(1), "broken", 0), "8", "2.5")
	want.add(ledger.Rejected, string(metering.NonIntegerQuantity), 2, 8) // the whole hour, whose sum is not known
	d.putRows(dynamo, usageTable, group(ordinary, buyerAccount(1), "old", pastBilling), "9")
	want.add(ledger.Expired, string(metering.AggregationExpired), 1, 9)
	d.putRows(dynamo, usageTable, group(closing, buyerAccount(2), "seats", 0), "10", "20")
	d.putRows(dynamo, usageTable, group(closing, buyerAccount(2), "seats", -1), "40") // of the hour in progress, which ends with the license
	want.add(ledger.Billed, "", 3, 70)

	forgotten := metering.NewRecord(group(ordinary, buyerAccount(1), "direct", pastBilling), 6)
	store := &dynamodb.Ledger{Rows: dynamodb.NewRows(dynamo, usageTable, dynamodb.Options{}), Records: dynamodb.NewRecords(dynamo, aggregated, dynamodb.Options{})}
	d.must(store.PutRecord(t.Context(), forgotten))
	want.add(ledger.Expired, string(metering.SubmissionExpired), 1, 6)

	d.pass(quarter)
	d.balance(store, want, ordinary, closing)

	// Once more there is nothing to do, but to end the license whose last hour is over.
	sold := d.sim.Ledger()
	d.happens(lifecycle.LicenseDeprovisioned, closing, buyerAccount(2), 61*time.Minute)
	d.settle()
	d.pass(8)
	d.balance(store, want, ordinary, closing)
	if diff := cmp.Diff(sold, d.sim.Ledger()); diff != "" {
		t.Errorf("eight minutes more bill (-before +after):\n%s", diff)
	}
	if ended, err := subscribers.Subscriber(t.Context(), closing, buyerAccount(2)); err != nil || ended == nil || ended.Status != metering.LifecycleInactive {
		t.Errorf("after its last hour: %+v, %v, want it inactive", ended, err)
	}
	needed(t, d)
}

// directSubmit bills what a seller writes to the aggregated table of a direct-submit stack, and names what is too late.
func directSubmit(t *testing.T, s stands) {
	d := newDriver(t, simulator.Options{ProductCode: directProduct}, s.direct)
	dynamo := dynamosdk.NewFromConfig(standin.Config(d.cloud.endpoint))
	table := s.direct.outputs["AggregatedUsageTableName"]
	if s.direct.outputs["UsageTableName"] != "" {
		t.Errorf("a direct-submit stack has the usage table %s", s.direct.outputs["UsageTableName"])
	}
	license, account, hour := buyerLicense(3), buyerAccount(3), metering.HourOf(time.Now())-1
	d.must(d.sim.PutLicense(simulator.License{ARN: license, AccountID: account}))
	want := books{}
	for back, quantity := range map[int]string{0: "7", 4: "30", pastBilling: "8"} {
		at := (hour - metering.Hour(back)).String()
		item := map[string]types.AttributeValue{"quantity": &types.AttributeValueMemberN{Value: quantity}}
		for name, text := range map[string]string{
			"licenseArn": license, "account_dimension_hour": account + "#seats#" + at, "customerAWSAccountId": account, "dimension": "seats", "hourBucket": at,
			"meteringPending": at,
		} {
			item[name] = &types.AttributeValueMemberS{Value: text}
		}
		_, err := dynamo.PutItem(t.Context(), &dynamosdk.PutItemInput{TableName: &table, Item: item})
		d.must(err)
	}
	want.add(ledger.Billed, "", 2, 37)
	want.add(ledger.Expired, string(metering.SubmissionExpired), 1, 8)
	d.firstClick(s.direct, license, account)
	d.pass(8)
	d.balance(recordsAlone{dynamodb.NewRecords(dynamo, table, dynamodb.Options{})}, want, license)
}

// stageEvents sends invented events to the test stage as `awsmp events send` does. They arrive there, in a table of its own, and not in the live one.
func stageEvents(t *testing.T, s stands) {
	d := newDriver(t, simulator.Options{}, s.stage)
	dynamo := dynamosdk.NewFromConfig(standin.Config(d.cloud.endpoint))
	license, account := buyerLicense(0), buyerAccount(0)
	function := s.stage.outputs["SubscriptionFunctionName"]
	if want := lifecycle.TestFunction(stageName); function != want {
		t.Errorf("the stage's function is %s, and events are sent to %s", function, want)
	}
	stage, err := eventbus.ReadStage(t.Context(), lambda.NewFromConfig(standin.Config(d.cloud.endpoint)), function)
	d.must(err)
	d.must(stage.Allows(stageName, account))
	if err := stage.Allows(stageName, buyerAccount(4)); err == nil {
		t.Error("the stage takes events of an account that it was not given")
	}
	_, err = eventbus.Put(t.Context(), eventbridge.NewFromConfig(standin.Config(d.cloud.endpoint)), d.bus, inventedEvent(d, lifecycle.TestEvent{
		Kind: lifecycle.LicenseDeprovisioned, License: license, Account: account, ProductCode: fullProduct, Stage: stageName, At: time.Now().Add(-61 * time.Minute),
	}))
	d.must(err)
	d.settle()
	for name, want := range map[string]bool{s.stage.outputs["SubscribersTableName"]: true, s.live.outputs["SubscribersTableName"]: false} {
		if got, err := dynamodb.NewSubscribers(dynamo, name).Subscriber(t.Context(), license, account); err != nil || (got != nil) != want {
			t.Errorf("%s has %+v, %v; want one: %v", name, got, err, want)
		}
	}
	d.pass(8)
	if got, err := dynamodb.NewSubscribers(dynamo, s.stage.outputs["SubscribersTableName"]).Subscriber(t.Context(), license, account); err != nil || got == nil || got.Status != metering.LifecycleInactive {
		t.Errorf("after its last hour: %+v, %v, want it inactive", got, err)
	}
}

// needed shows that what no policy allows would be noticed, and that the roles' statements are needed: without any one of them a call is forbidden. What
// Lambda and CloudWatch do under a role the functions do not call themselves.
func needed(t *testing.T, d *driver) {
	for _, f := range d.functions {
		for i, s := range f.statements {
			own := !slices.Contains(s.Action, "sqs:ReceiveMessage") && !slices.Contains(s.Action, "logs:PutLogEvents")
			if own && len(forbidden(f, slices.Delete(slices.Clone(f.statements), i, i+1))) == 0 {
				t.Errorf("%s called nothing that its role allows by %+v", f.name, s)
			}
		}
	}
	for _, f := range d.firings {
		if f.of += "-another"; strings.HasPrefix(f.of, "arn:") && d.admits(f) {
			t.Errorf("%s lets %s call it", f.function, f.of)
		}
	}
}

// happens puts an event of the Marketplace about a license of the full stack on the bus. Its source is one that AWS lets nobody else use, so the
// command that sends invented events refuses it.
func (d *driver) happens(kind lifecycle.Kind, license, account string, ago time.Duration) {
	d.t.Helper()
	e := inventedEvent(d, lifecycle.TestEvent{Kind: kind, License: license, Account: account, ProductCode: fullProduct, At: time.Now().Add(-ago)})
	_, err := d.cloud.call("events", "AWSEvents.PutEvents", map[string]any{"Entries": []any{map[string]any{
		"EventBusName": d.bus, "Source": e.Source, "DetailType": e.Type, "Time": e.Time.Unix(), "Resources": e.Resources, "Detail": string(e.Detail),
	}}})
	d.must(err)
}

func inventedEvent(d *driver, e lifecycle.TestEvent) eventbus.Event {
	d.t.Helper()
	e.Agreement = "agmt-example1"
	text, err := e.JSON()
	d.must(err)
	event, err := eventbus.Read(text)
	d.must(err)
	return event
}

// firstClick registers a buyer with the deployed function: the form, then what they typed, which is in the stack's profiles from then on.
func (d *driver) firstClick(s *standing, license, account string) {
	d.t.Helper()
	f := d.function("arn:aws:lambda:" + standin.Region + ":" + motoAccount + ":function:" + s.outputs["RegistrationFunctionName"])
	token, err := d.sim.IssueToken(simulator.Token{AccountID: account, LicenseARN: license})
	d.must(err)
	typed := map[string]string{"contactName": "Erika Mustermann", "contactEmail": "erika@mustermann.example", "companyName": "Mustermann & Söhne"}
	form := url.Values{"x-amzn-marketplace-token": {token}}
	page := d.post(f, form)
	if page.StatusCode != http.StatusOK || !strings.Contains(page.Body, "<form") {
		d.t.Fatalf("to a token alone: %d %s", page.StatusCode, page.Body)
	}
	for field, value := range typed {
		form.Set(field, value)
	}
	if done := d.post(f, form); done.StatusCode != http.StatusOK {
		d.t.Fatalf("to the form: %d %s", done.StatusCode, done.Body)
	}
	dynamo := dynamosdk.NewFromConfig(standin.Config(d.cloud.endpoint))
	profile, err := dynamodb.NewProfiles(dynamo, s.outputs["CustomerProfileTableName"]).Profile(d.t.Context(), license, account)
	d.must(err)
	if profile == nil || !maps.Equal(profile.Fields, typed) {
		d.t.Errorf("the profile is %+v, want %v", profile, typed)
	}
}

func (d *driver) post(f *driven, form url.Values) (told events.APIGatewayProxyResponse) {
	d.t.Helper()
	payload, err := json.Marshal(lambdahost.Posted("/register", "c6af9ac6-7b61-11e6-9a41-93e8deadbeef", form))
	d.must(err)
	body, err := f.Invoke(d.t.Context(), payload)
	d.must(err)
	d.must(json.Unmarshal(body, &told))
	return told
}

// putRows writes rows as the contract for writers describes them, item by item, a minute apart, without any code of ours.
func (d *driver) putRows(dynamo *dynamosdk.Client, table string, g metering.Group, quantities ...string) {
	d.t.Helper()
	for i, quantity := range quantities {
		at := g.Hour.Start().Add(time.Duration(i) * time.Minute)
		item := map[string]types.AttributeValue{"quantity": &types.AttributeValueMemberN{Value: quantity}}
		for name, text := range map[string]string{
			"licenseArn": g.License, "customerAWSAccountId": g.Account, "dimension": g.Dimension,
			"timestamp": at.Format("2006-01-02T15:04:05"), "meteringPending": at.Format("2006-01-02T15"),
			"customerAWSAccountId_dimension_timestamp": g.Account + "#" + g.Dimension + "#" + at.Format("2006-01-02T15:04:05"),
		} {
			item[name] = &types.AttributeValueMemberS{Value: text}
		}
		_, err := dynamo.PutItem(d.t.Context(), &dynamosdk.PutItemInput{TableName: &table, Item: item})
		d.must(err)
	}
}

// recordsAlone are the books of a stack without a usage table.
type recordsAlone struct{ *dynamodb.Records }

func (recordsAlone) Licenses(context.Context) iter.Seq2[string, error] { return nothing[string] }

func (recordsAlone) LicenseRows(context.Context, string) iter.Seq2[metering.Row, error] {
	return nothing[metering.Row]
}

func (recordsAlone) GroupRows(context.Context, metering.Group) iter.Seq2[metering.Row, error] {
	return nothing[metering.Row]
}

func nothing[T any](func(T, error) bool) {}
