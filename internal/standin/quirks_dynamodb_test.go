package standin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/standin"
)

type item = map[string]types.AttributeValue

func str(s string) types.AttributeValue    { return &types.AttributeValueMemberS{Value: s} }
func number(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }
func list(of ...types.AttributeValue) types.AttributeValue {
	return &types.AttributeValueMemberL{Value: of}
}
func set(of ...string) types.AttributeValue { return &types.AttributeValueMemberSS{Value: of} }

// tables is a stand-in with a table: keys p and s; two sparse indexes on m and p, "included" with a and "keys-only" without.
type tables struct {
	*dynamodb.Client
	name string
}

func newTables(t testing.TB, endpoint, name string) tables {
	c := tables{name: unique(name), Client: dynamodb.NewFromConfig(standin.Config(endpoint), func(o *dynamodb.Options) { o.RetryMaxAttempts = 1 })}
	key := func(hash, sort string) []types.KeySchemaElement {
		return []types.KeySchemaElement{{AttributeName: &hash, KeyType: types.KeyTypeHash}, {AttributeName: &sort, KeyType: types.KeyTypeRange}}
	}
	index := func(name string, p types.Projection) types.GlobalSecondaryIndex {
		return types.GlobalSecondaryIndex{IndexName: &name, KeySchema: key("m", "p"), Projection: &p}
	}
	in := &dynamodb.CreateTableInput{
		TableName: &c.name, BillingMode: types.BillingModePayPerRequest, KeySchema: key("p", "s"),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{
			index("included", types.Projection{ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: []string{"a"}}),
			index("keys-only", types.Projection{ProjectionType: types.ProjectionTypeKeysOnly}),
		},
	}
	for _, name := range []string{"p", "s", "m"} {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeTypeS})
	}
	if _, err := c.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	return c
}

func key(t testing.TB) item { return item{"p": str(t.Name()), "s": str("1")} }

func (c tables) put(t testing.TB, more item) error {
	of := key(t)
	for name, value := range more {
		of[name] = value
	}
	_, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &c.name, Item: of})
	return err
}

// update runs an expression under a condition, either of which may be empty, with the values :0, :1 and so on.
func (c tables) update(t *testing.T, expression, condition string, values ...types.AttributeValue) error {
	in := &dynamodb.UpdateItemInput{TableName: &c.name, Key: key(t), ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld}
	if expression != "" {
		in.UpdateExpression = &expression
	}
	if condition != "" {
		in.ConditionExpression = &condition
		if expression == "" {
			in.UpdateExpression = aws.String("REMOVE nothing") // moto fails on a condition alone
		}
	}
	for i, v := range values {
		if in.ExpressionAttributeValues == nil {
			in.ExpressionAttributeValues = item{}
		}
		in.ExpressionAttributeValues[fmt.Sprint(":", i)] = v
	}
	_, err := c.UpdateItem(t.Context(), in)
	return err
}

// get reads a number of this test's item.
func (c tables) get(t *testing.T, attribute string) string {
	got, err := c.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &c.name, Key: key(t)})
	if err != nil {
		return said("", err)
	}
	n, ok := got.Item[attribute].(*types.AttributeValueMemberN)
	if !ok {
		return fmt.Sprintf("no number but %v", got.Item[attribute])
	}
	return n.Value
}

// readBack stores a number and says how it is read.
func (c tables) readBack(t *testing.T, n string) string {
	if err := c.put(t, item{"n": number(n)}); err != nil {
		return said("", err)
	}
	return c.get(t, "n")
}

// query reads the partition of this test, of the table or of an index.
func (c tables) query(t *testing.T, index string, change func(*dynamodb.QueryInput)) (*dynamodb.QueryOutput, error) {
	in := &dynamodb.QueryInput{TableName: &c.name, ExpressionAttributeValues: item{":v": str(t.Name())}, KeyConditionExpression: aws.String("p = :v")}
	if index != "" {
		in.IndexName, in.KeyConditionExpression = &index, aws.String("m = :v")
	}
	if change != nil {
		change(in)
	}
	return c.Query(t.Context(), in)
}

// fill writes n items of one size into this test's partition.
func (c tables) fill(t *testing.T, n, bytes int) {
	for i := range n {
		if err := c.put(t, item{"s": str(fmt.Sprintf("%02d", i)), "x": str(strings.Repeat("x", bytes))}); err != nil {
			t.Fatal(err)
		}
	}
}

func (c tables) batch(ctx context.Context, keys ...item) error {
	writes := []types.WriteRequest{}
	for _, k := range keys {
		writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: k}})
	}
	_, err := c.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{c.name: writes}})
	return err
}

// TestDynamoDBQuirks asks what the adapters of the tables rest on.
func TestDynamoDBQuirks(t *testing.T) {
	t.Parallel()
	ask(t, tableQuirks(), map[string]tables{"moto": newTables(t, standin.Moto(t), "quirks"), "dynalite": newTables(t, standin.Dynalite(t), "quirks")})
}
