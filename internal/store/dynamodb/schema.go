package dynamodb

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

const createTimeout = 2 * time.Minute

// UsageTable is the usage table: keys, and the sparse index of what waits.
func UsageTable(name string) *dynamodb.CreateTableInput {
	return tableInput(name, metering.AttrRowKey,
		index(metering.PendingIndex, metering.AttrPending, metering.AttrLicense, metering.AttrAccount, metering.AttrDimension))
}

// AggregatedUsageTable is the aggregated-usage table: keys, and the sparse index of what waits, with what is sent.
func AggregatedUsageTable(name string) *dynamodb.CreateTableInput {
	return tableInput(name, metering.AttrRecordKey,
		index(metering.PendingIndex, metering.AttrPending, metering.AttrLicense, store.RecordProjection()...))
}

// SubscribersTable is the subscribers table, with the index of the licenses in their last hour and those by account and agreement.
func SubscribersTable(name string) *dynamodb.CreateTableInput {
	whole := func(name, partition string) types.GlobalSecondaryIndex {
		i := index(name, partition, "")
		i.Projection = &types.Projection{ProjectionType: types.ProjectionTypeAll}
		return i
	}
	return tableInput(name, metering.AttrAccount,
		index(metering.DeprovisioningIndex, metering.AttrDeprovisioningFlag, metering.AttrDeprovisioningExpiry),
		whole(metering.AccountIndex, metering.AttrAccount), whole(metering.AgreementIndex, metering.AttrAgreement))
}

// CustomerProfileTable is the customer-profile table, with an index for each promoted field, named after it. An index finds the keys
// of profiles and holds no other personal data.
func CustomerProfileTable(name string, promoted ...string) *dynamodb.CreateTableInput {
	var indexes []types.GlobalSecondaryIndex // a list without entries is refused
	for _, field := range promoted {
		indexes = append(indexes, index(field+"-index", field, ""))
	}
	return tableInput(name, metering.AttrAccount, indexes...)
}

// index carries the keys and the attributes named.
func index(name, partition, sort string, carries ...string) types.GlobalSecondaryIndex {
	projection := &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly}
	if len(carries) > 0 {
		projection = &types.Projection{ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: carries}
	}
	return types.GlobalSecondaryIndex{IndexName: &name, KeySchema: keys(partition, sort), Projection: projection}
}

func keys(partition, sort string) []types.KeySchemaElement {
	schema := []types.KeySchemaElement{{AttributeName: &partition, KeyType: types.KeyTypeHash}}
	if sort != "" {
		schema = append(schema, types.KeySchemaElement{AttributeName: &sort, KeyType: types.KeyTypeRange})
	}
	return schema
}

func tableInput(name, sort string, indexes ...types.GlobalSecondaryIndex) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		KeySchema: keys(metering.AttrLicense, sort), GlobalSecondaryIndexes: indexes,
	}
	var named []string
	all := slices.Clone(in.KeySchema)
	for _, i := range indexes {
		all = append(all, i.KeySchema...)
	}
	for _, key := range all {
		if attribute := *key.AttributeName; !slices.Contains(named, attribute) {
			named = append(named, attribute)
			in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: &attribute, AttributeType: types.ScalarAttributeTypeS})
		}
	}
	return in
}

// Create makes tables and waits until they can be used. One that is there already is left as it is.
func Create(ctx context.Context, client *dynamodb.Client, inputs ...*dynamodb.CreateTableInput) error {
	var all errgroup.Group
	for _, in := range inputs {
		all.Go(func() error {
			_, err := client.CreateTable(ctx, in)
			var there *types.ResourceInUseException
			if err != nil && !errors.As(err, &there) {
				return awsapi.Wrap("create table", *in.TableName, err)
			}
			ready := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) { o.MinDelay = 100 * time.Millisecond })
			err = ready.Wait(ctx, &dynamodb.DescribeTableInput{TableName: in.TableName}, createTimeout)
			return awsapi.Wrap("wait for table", aws.ToString(in.TableName), err)
		})
	}
	return all.Wait()
}
