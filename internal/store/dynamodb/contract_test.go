package dynamodb_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/internal/registration"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/internal/store/storetest"
)

var (
	_ pipeline.Rows        = (*dynamodb.Rows)(nil)
	_ pipeline.Records     = (*dynamodb.Records)(nil)
	_ pipeline.Subscribers = (*dynamodb.Subscribers)(nil)
	_ ledger.Store         = (*dynamodb.Ledger)(nil)

	_ lifecycle.Subscribers    = (*dynamodb.Subscribers)(nil)
	_ registration.Subscribers = (*dynamodb.Subscribers)(nil)
	_ registration.Profiles    = (*dynamodb.Profiles)(nil)
)

// standins are the implementations that nobody here wrote, and the parts of the contract that each gets wrong. None is enough alone;
// what one gets wrong the other is held to.
func standins(t *testing.T) map[string]service {
	t.Helper()
	return map[string]service{
		"moto": {standin.Moto(t), []string{
			// It writes the first attributes of an update and then finds that the item grew too large.
			"case 32: a label that is too large loses its reason, alone", "case 32: a label that is too large in bytes, not in characters",
			"case 32: a full row ends all the same",
			"case 32: a row that grows beyond 400 KB is refused",                                          // it takes no measure of what is added to a set
			"case 32: a source without room for its trace", "case 32: a record without room for its list", // nor does it take an item of nearly 400 KB
			"case 39: 6,000 pending groups", // it takes half a minute
			"random operations",             // those with lists and maps are all of them
		}},
		"dynalite": {standin.Dynalite(t), []string{
			"lists and maps are judged as they were read", "random operations, with lists and maps", // it compares lists and maps by reference
			"case 32: a label that is too large in bytes, not in characters", // it counts characters
			// It has no transactions.
			"late usage is carried, both rows at once", "a carry is written where its conditions hold", "a carry to a second that is taken",
			"of many carries of a row one is written", "of carries of two rows to one second one is written",
			"a carry is written where the record is as it was judged", "a source that is put once more is not carried once more",
		}},
	}
}

type service struct {
	url     string
	without []string
}

func TestContract(t *testing.T) {
	t.Parallel()
	for name, service := range standins(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.RunWithout(t, func(t *testing.T) storetest.Store { return open(t, service.url, dynamodb.Options{}) }, service.without...)
		})
	}
	t.Run("dynalite, pages of some items", func(t *testing.T) { // moto reads a whole table for each page
		t.Parallel()
		url := standin.Dynalite(t)
		storetest.Pages(t, func(t *testing.T) storetest.Store { return open(t, url, dynamodb.Options{PageLimit: 50}) })
	})
}

func TestLifecycleContract(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		storetest.RunLifecycle(t, func(t *testing.T) storetest.Lifecycle { return openLifecycle(t, url, 0) })
	})
	t.Run("dynalite, pages of some items", func(t *testing.T) {
		t.Parallel()
		url := standin.Dynalite(t)
		storetest.RunLifecycle(t, func(t *testing.T) storetest.Lifecycle { return openLifecycle(t, url, 4) })
	})
}

// client is one of the SDK that tries each call once: what comes again, comes from here.
func client(url string) *sdk.Client {
	return sdk.NewFromConfig(standin.Config(url), func(o *sdk.Options) {
		o.Retryer, o.HTTPClient = aws.NopRetryer{}, awsapi.KeepBodies(o.HTTPClient)
	})
}

// open makes the two usage tables under names of the test's own.
func open(t *testing.T, url string, o dynamodb.Options) *dynamodb.Ledger {
	t.Helper()
	c := client(url)
	usage, aggregated := standin.Name(t, "usage"), standin.Name(t, "aggregated")
	if err := dynamodb.Create(t.Context(), c, dynamodb.UsageTable(usage), dynamodb.AggregatedUsageTable(aggregated)); err != nil {
		t.Fatal(err)
	}
	return &dynamodb.Ledger{Rows: dynamodb.NewRows(c, usage, o), Records: dynamodb.NewRecords(c, aggregated, o)}
}

// buyers are the tables of subscribers and of profiles.
type buyers struct {
	*dynamodb.Subscribers
	*dynamodb.Profiles
	client *sdk.Client
	table  string
}

func (b buyers) PutSubscriber(ctx context.Context, item metering.Item) error {
	_, err := b.client.PutItem(ctx, &sdk.PutItemInput{TableName: &b.table, Item: dynamodb.RawOf(item)})
	return err
}

func openLifecycle(t *testing.T, url string, page int32) buyers {
	t.Helper()
	c := client(url)
	subscribers, profiles := standin.Name(t, "subscribers"), standin.Name(t, "profile")
	check(t, dynamodb.Create(t.Context(), c, dynamodb.SubscribersTable(subscribers), dynamodb.CustomerProfileTable(profiles)))
	return buyers{dynamodb.NewSubscribers(c, subscribers).InPages(page), dynamodb.NewProfiles(c, profiles), c, subscribers}
}
