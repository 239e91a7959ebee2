package standin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func tableQuirks() []quirk[tables] {
	const (
		invalid  = "ValidationException"
		failed   = "ConditionalCheckFailedException"
		missing  = "ResourceNotFoundException"
		unknown  = "UnknownOperationException"
		withItem = failed + " with the item"
		canceled = "TransactionCanceledException with the item"
		crash    = "status 500"
		accepted = "accepted"

		putItem    = "API reference, PutItem"
		updateItem = "API reference, UpdateItem"
		query      = "API reference, Query"
		batch      = "API reference, BatchWriteItem"
		transact   = "API reference, TransactWriteItems"
		types_     = "Developer guide, data types"
		quotas     = "Developer guide, quotas"
		operators  = "Developer guide, comparison operator and function reference"
		updates    = "Developer guide, update expressions"
		indexes    = "Developer guide, global secondary indexes"
	)
	return []quirk[tables]{
		{"old item of a failed condition", withItem, withItem, failed, updateItem, func(t *testing.T, c tables) string {
			return said(accepted, first(c.put(t, nil), c.update(t, "", "attribute_not_exists(p)")))
		}},
		{"transaction whose condition fails", canceled, canceled, unknown, transact, func(t *testing.T, c tables) string {
			put := types.TransactWriteItem{Put: &types.Put{TableName: &c.name, Item: key(t), ConditionExpression: aws.String("attribute_not_exists(p)"), ReturnValuesOnConditionCheckFailure: "ALL_OLD"}}
			_, err := c.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{put}})
			if err == nil {
				_, err = c.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{put}})
			}
			return said(accepted, err)
		}},
		{"time to live, switched on", accepted, accepted, unknown, "API reference, UpdateTimeToLive", func(t *testing.T, c tables) string {
			_, err := c.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{TableName: &c.name, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(true)}})
			return said(accepted, err)
		}},
		{"point-in-time recovery, switched on", accepted, accepted, unknown, "API reference, UpdateContinuousBackups", func(t *testing.T, c tables) string {
			_, err := c.UpdateContinuousBackups(t.Context(), &dynamodb.UpdateContinuousBackupsInput{TableName: &c.name, PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}})
			return said(accepted, err)
		}},

		{"number 3.0, read back", "3", "3.0", "3", types_, func(t *testing.T, c tables) string {
			return c.readBack(t, "3.0")
		}},
		{"number 1e2, read back", "100", "1e2", "100", types_, func(t *testing.T, c tables) string {
			return c.readBack(t, "1e2")
		}},
		{"number of 39 digits", invalid, accepted, invalid, types_, func(t *testing.T, c tables) string {
			return said(accepted, c.put(t, item{"n": number(strings.Repeat("1", 39))}))
		}},
		{"number 1e126", invalid, accepted, invalid, types_, func(t *testing.T, c tables) string {
			return said(accepted, c.put(t, item{"n": number("1e126")}))
		}},
		{"3.0 equals 3 in a condition", accepted, accepted, accepted, types_, func(t *testing.T, c tables) string {
			return said(accepted, first(c.put(t, item{"n": number("3.0")}), c.update(t, "", "n = :0", number("3"))))
		}},
		{"list equals the same list", accepted, accepted, failed, operators, func(t *testing.T, c tables) string {
			return said(accepted, first(c.put(t, item{"l": list(str("a"))}), c.update(t, "", "l = :0", list(str("a")))))
		}},
		{"set equals the same set in another order", accepted, accepted, accepted, operators, func(t *testing.T, c tables) string {
			return said(accepted, first(c.put(t, item{"f": set("a", "b")}), c.update(t, "", "f = :0", set("b", "a"))))
		}},
		{"absent attribute differs from a value", accepted, accepted, accepted, operators, func(t *testing.T, c tables) string {
			return said(accepted, first(c.put(t, nil), c.update(t, "", "gone <> :0", number("3"))))
		}},
		{"type of an absent attribute", failed, failed, failed, operators, func(t *testing.T, c tables) string {
			return said(accepted, c.update(t, "", "attribute_type(gone, :0)", str("N")))
		}},
		{"size of a set", accepted, accepted, accepted, operators, func(t *testing.T, c tables) string {
			return said(accepted, first(c.put(t, item{"f": set("a", "b")}), c.update(t, "", "size(f) = :0", number("2"))))
		}},
		{"size of an absent attribute", "not said", crash, failed, operators, func(t *testing.T, c tables) string {
			return said(accepted, c.update(t, "", "size(gone) < :0", number("100")))
		}},
		{"size of a number", "not said", crash, failed, operators, func(t *testing.T, c tables) string {
			return said(accepted, first(c.put(t, item{"n": number("3")}), c.update(t, "", "size(n) < :0", number("100"))))
		}},
		{"list_append to an absent attribute", invalid, invalid, invalid, updates, func(t *testing.T, c tables) string {
			return said(accepted, first(c.put(t, nil), c.update(t, "SET l = list_append(l, :0)", "", list(str("a")))))
		}},
		{"list_append with if_not_exists", accepted, accepted, accepted, updates, func(t *testing.T, c tables) string {
			return said(accepted, c.update(t, "SET l = list_append(if_not_exists(l, :0), :1)", "", list(), list(str("a"))))
		}},
		{"ADD to an attribute that is no number", invalid, invalid, invalid, updates, func(t *testing.T, c tables) string {
			return said(accepted, first(c.put(t, item{"n": str("7")}), c.update(t, "ADD n :0", "", number("3"))))
		}},
		{"update expression over 4 KB", invalid, crash, accepted, quotas, func(t *testing.T, c tables) string {
			names := make([]string, 800)
			for i := range names {
				names[i] = fmt.Sprintf("a%d = :0", i)
			}
			return said(accepted, c.update(t, "SET "+strings.Join(names, ","), "", number("3")))
		}},
		{"update without an expression", accepted, crash, accepted, updateItem, func(t *testing.T, c tables) string {
			return said(accepted, c.update(t, "", ""))
		}},

		{"item of exactly 400 KB", accepted, invalid, accepted, quotas, func(t *testing.T, c tables) string {
			return said(accepted, c.put(t, item{"x": str(strings.Repeat("x", 400<<10-len("p"+"s1x")-len(t.Name())))}))
		}},
		{"item of 400 KB and a byte", invalid, invalid, invalid, quotas, func(t *testing.T, c tables) string {
			return said(accepted, c.put(t, item{"x": str(strings.Repeat("x", 400<<10-len("p"+"s1x")-len(t.Name())+1))}))
		}},
		{"update to more than 400 KB", invalid, invalid, invalid, quotas, func(t *testing.T, c tables) string {
			half := str(strings.Repeat("x", 200<<10))
			return said(accepted, first(c.put(t, item{"x": half}), c.update(t, "SET y = :0", "", half)))
		}},
		{"first attribute of an update that is refused for its size", "not written", "written", "not written", updateItem, func(t *testing.T, c tables) string {
			half := str(strings.Repeat("x", 200<<10))
			if err := c.put(t, item{"x": half}); err != nil {
				return said("", err)
			}
			if err := c.update(t, "SET n = :0, y = :1", "", number("3"), half); err == nil {
				return accepted
			}
			if c.get(t, "n") == "3" {
				return "written"
			}
			return "not written"
		}},
		{"set that ADD grows beyond 400 KB", invalid, accepted, invalid, quotas, func(t *testing.T, c tables) string {
			half := strings.Repeat("x", 200<<10)
			return said(accepted, first(c.put(t, item{"f": set(half + "a")}), c.update(t, "ADD f :0", "", set(half+"b"))))
		}},
		{"item of 402 KB in two-byte characters", invalid, invalid, accepted, quotas, func(t *testing.T, c tables) string {
			return said(accepted, c.put(t, item{"x": str(strings.Repeat("\u00e9", 201<<10))}))
		}},
		{"sort key of 1,025 bytes", invalid, invalid, invalid, quotas, func(t *testing.T, c tables) string {
			return said(accepted, c.put(t, item{"s": str(strings.Repeat("x", 1025))}))
		}},
		{"set without members", invalid, invalid, invalid, types_, func(t *testing.T, c tables) string {
			return said(accepted, c.put(t, item{"f": set()}))
		}},
		{"set with a member twice", invalid, accepted, invalid, types_, func(t *testing.T, c tables) string {
			return said(accepted, c.put(t, item{"f": set("a", "a")}))
		}},
		{"index key that is a number", invalid, accepted, invalid, putItem, func(t *testing.T, c tables) string {
			return said(accepted, c.put(t, item{"m": number("3")}))
		}},
		{"index key that is empty", invalid, invalid, accepted, putItem, func(t *testing.T, c tables) string {
			return said(accepted, c.put(t, item{"m": str("")}))
		}},

		{"table that is not there", missing, missing, missing, query, func(t *testing.T, c tables) string {
			_, err := c.query(t, "", func(q *dynamodb.QueryInput) { q.TableName = aws.String("nowhere") })
			return said(accepted, err)
		}},
		{"index that is not there", "ResourceNotFoundException by the reference, ValidationException by experience", missing, invalid, query, func(t *testing.T, c tables) string {
			_, err := c.query(t, "nowhere", nil)
			return said(accepted, err)
		}},
		{"item of an index that includes one attribute", "4 attributes", "4 attributes", "4 attributes", indexes, indexed("included", nil)},
		{"item of an index of keys", "3 attributes", "3 attributes", "3 attributes", indexes, indexed("keys-only", nil)},
		{"attribute that an index lacks", invalid, "0 attributes", "0 attributes", indexes, indexed("keys-only", func(q *dynamodb.QueryInput) {
			q.ProjectionExpression = aws.String("x")
		})},
		{"all attributes of an index of keys", invalid, "3 attributes", invalid, indexes, indexed("keys-only", func(q *dynamodb.QueryInput) {
			q.Select = types.SelectAllAttributes
		})},
		{"consistent read of an index", invalid, invalid, invalid, indexes, indexed("keys-only", func(q *dynamodb.QueryInput) {
			q.ConsistentRead = aws.Bool(true)
		})},
		{"entry of an item whose index key was removed", "0", "0", "0", indexes, func(t *testing.T, c tables) string {
			if err := first(c.put(t, item{"m": str(t.Name())}), c.update(t, "REMOVE m", "")); err != nil {
				return said("", err)
			}
			return count(c.query(t, "keys-only", nil))
		}},
		{"index entry right after the write", "may lag", "1", "1", indexes, func(t *testing.T, c tables) string {
			if err := c.put(t, item{"m": str(t.Name())}); err != nil {
				return said("", err)
			}
			return count(c.query(t, "keys-only", nil))
		}},
		{"page of items of 100,000 bytes", "at most 1 MB", "9", "11", query, func(t *testing.T, c tables) string {
			c.fill(t, 12, 100_000)
			return count(c.query(t, "", nil))
		}},
		{"next page after a Limit that takes all", "may be announced", "none", "announced", query, func(t *testing.T, c tables) string {
			c.fill(t, 3, 1)
			got, err := c.query(t, "", func(q *dynamodb.QueryInput) { q.Limit = aws.Int32(3) })
			if err == nil && got.LastEvaluatedKey == nil {
				return "none"
			}
			return said("announced", err)
		}},

		{"batch with a key twice, in different items", invalid, accepted, invalid, batch, func(t *testing.T, c tables) string {
			other := key(t)
			other["x"] = str("x")
			return said(accepted, c.batch(t.Context(), key(t), other))
		}},
		{"batch of 26", invalid, accepted, invalid, batch, func(t *testing.T, c tables) string {
			keys := make([]item, 26)
			for i := range keys {
				keys[i] = item{"p": str(t.Name()), "s": str(fmt.Sprint(i))}
			}
			return said(accepted, c.batch(t.Context(), keys...))
		}},
		{"batch of none", invalid, accepted, invalid, batch, func(t *testing.T, c tables) string {
			return said(accepted, c.batch(t.Context()))
		}},
		{"units of a write of 3 KB into both indexes", "5", "1", "3", "Developer guide, read and write operations", func(t *testing.T, c tables) string {
			of := key(t)
			of["m"], of["x"] = str(t.Name()), str(strings.Repeat("x", 2900))
			got, err := c.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &c.name, Item: of, ReturnConsumedCapacity: "INDEXES"})
			if err != nil {
				return said("", err)
			}
			return fmt.Sprint(*got.ConsumedCapacity.CapacityUnits)
		}},
		{"table of the same name in another Region", missing, missing, "the same table", "Developer guide, core components", func(t *testing.T, c tables) string {
			_, err := c.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &c.name, Key: key(t)}, func(o *dynamodb.Options) { o.Region = "eu-west-1" })
			return said("the same table", err)
		}},
	}
}

// indexed says how many attributes an index gives of an item that has the keys, a and x.
func indexed(index string, change func(*dynamodb.QueryInput)) func(*testing.T, tables) string {
	return func(t *testing.T, c tables) string {
		if err := c.put(t, item{"m": str(t.Name()), "a": str("a"), "x": str("x")}); err != nil {
			return said("", err)
		}
		got, err := c.query(t, index, change)
		if err != nil {
			return said("", err)
		}
		if len(got.Items) == 0 {
			return "0 attributes"
		}
		return fmt.Sprint(len(got.Items[0]), " attributes")
	}
}

func count(got *dynamodb.QueryOutput, err error) string {
	if err != nil {
		return said("", err)
	}
	return fmt.Sprint(len(got.Items))
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
