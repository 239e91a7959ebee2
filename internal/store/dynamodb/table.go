package dynamodb

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// The longest keys, in bytes (Amazon DynamoDB developer guide, quotas: partition keys and sort keys).
const (
	maxPartitionKey = 2048
	maxSortKey      = 1024
)

// rounds is how often a write is tried again because the item that was judged changed under it.
const rounds = 10

// table is one table whose partition key is the license.
type table struct {
	client  *dynamodb.Client
	name    string
	sortKey string
	options Options
}

func (t *table) key(license, sortKey string) raw {
	return raw{metering.AttrLicense: text(license), t.sortKey: text(sortKey)}
}

// wrap makes an error of the service ours. One about an item's size is metering.ErrTooLarge too.
func (t *table) wrap(operation string, err error) error {
	if err = awsapi.Wrap(operation, t.name, err); awsapi.ClassOf(err) == awsapi.TooLarge {
		return fmt.Errorf("%w (%w)", metering.ErrTooLarge, err)
	}
	return err
}

// checkKey refuses a key that no table takes, before the service says so in its own words.
func (t *table) checkKey(operation, license, sortKey string) error {
	problem := func(what string, size, most int) error {
		return &awsapi.Error{
			Class: awsapi.Invalid, Operation: operation, Resource: t.name,
			Err:  fmt.Errorf("%s %.80q… has %d bytes, more than the %d that a table takes", what, sortKey, size, most),
			Hint: "a shorter dimension: account, dimension and time are the key",
		}
	}
	switch {
	case len(sortKey) > maxSortKey:
		return problem("the sort key", len(sortKey), maxSortKey)
	case len(license) > maxPartitionKey:
		return problem("the licenseArn of", len(license), maxPartitionKey)
	}
	return nil
}

// pace waits for a write's turn.
func (t *table) pace(ctx context.Context) error {
	if t.options.Writes == nil {
		return nil
	}
	if err := t.options.Writes.Wait(ctx); err != nil {
		if ctx.Err() == nil { // its turn would come after the deadline
			return &awsapi.Error{Class: awsapi.Ended, Operation: "wait for a write's turn", Resource: t.name, Err: errors.Join(context.DeadlineExceeded, err)}
		}
		return awsapi.Wrap("wait for a write's turn", t.name, err)
	}
	return nil
}

// get reads one item as it stands; nil where there is none.
func (t *table) get(ctx context.Context, operation, license, sortKey string) (raw, error) {
	out, err := t.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &t.name, Key: t.key(license, sortKey), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return nil, t.wrap(operation, err)
	}
	return out.Item, nil
}

// put writes an item, where absent is set only if there is none. What stands against it is returned: nil where nothing does any more.
func (t *table) put(ctx context.Context, operation string, item raw, absent bool) (done bool, old raw, err error) {
	if err := t.pace(ctx); err != nil {
		return false, nil, err
	}
	in := &dynamodb.PutItemInput{TableName: &t.name, Item: item}
	if absent {
		in.ConditionExpression = aws.String("attribute_not_exists(#key)")
		in.ExpressionAttributeNames = map[string]string{"#key": t.sortKey}
		in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	}
	_, err = t.client.PutItem(ctx, in)
	if err == nil {
		return true, nil, nil
	}
	old, err = t.against(ctx, operation, item, err)
	return false, old, err
}

func (t *table) delete(ctx context.Context, operation, license, sortKey string) error {
	if err := t.pace(ctx); err != nil {
		return err
	}
	_, err := t.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &t.name, Key: t.key(license, sortKey)})
	return t.wrap(operation, err)
}

// update makes one change; done is false where its condition does not hold, and then item is what stands against it, nil where
// there is none. Of a change that was made, item is the whole of it if back asks for that.
func (t *table) update(ctx context.Context, operation string, key raw, c *change, back types.ReturnValue) (done bool, item raw, err error) {
	if err := t.pace(ctx); err != nil {
		return false, nil, err
	}
	in := t.updateInput(key, c)
	in.ReturnValues = back
	if in.ConditionExpression != nil {
		in.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	}
	out, err := t.client.UpdateItem(ctx, in)
	if err == nil {
		return true, out.Attributes, nil
	}
	item, err = t.against(ctx, operation, key, err)
	return false, item, err
}

// try makes one change as update does, and does not ask what stands against it.
func (t *table) try(ctx context.Context, operation string, key raw, c *change) (done bool, err error) {
	if err := t.pace(ctx); err != nil {
		return false, err
	}
	_, err = t.client.UpdateItem(ctx, t.updateInput(key, c))
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		return false, nil
	}
	return err == nil, t.wrap(operation, err)
}

func (t *table) updateInput(key raw, c *change) *dynamodb.UpdateItemInput {
	in := &dynamodb.UpdateItemInput{
		TableName: &t.name, Key: key, UpdateExpression: aws.String(c.update()),
		ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values,
	}
	if len(c.values) == 0 { // a map without entries is refused
		in.ExpressionAttributeValues = nil
	}
	if len(c.where) > 0 {
		in.ConditionExpression = aws.String(c.condition())
	}
	return in
}

// against is the item that a write's condition failed on. It comes with the failure; where it does not, there was none, or the
// service does not hand it out, as some stand-ins: only then it is read.
func (t *table) against(ctx context.Context, operation string, key raw, err error) (raw, error) {
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) {
		return nil, t.wrap(operation, err)
	}
	if len(failed.Item) > 0 {
		return failed.Item, nil
	}
	license, _ := valueOf(key[metering.AttrLicense]).(string)
	sortKey, _ := valueOf(key[t.sortKey]).(string)
	return t.get(ctx, operation, license, sortKey)
}

// conditional makes a change of an item that is there, on a condition. Quick says the condition in an expression; nil where that cannot
// be. Where it does not hold, or cannot be said, judge looks at the item as it was read and makes a change that asks for all that it
// judged to be unchanged, or refuses. Old is what was refused; nil where there is no item.
func (t *table) conditional(ctx context.Context, operation, license, sortKey string, quick *change, judge func(raw) (*change, bool)) (done bool, old raw, err error) {
	key := t.key(license, sortKey)
	if quick != nil {
		done, old, err = t.update(ctx, operation, key, quick, "")
	} else {
		old, err = t.get(ctx, operation, license, sortKey)
	}
	for range rounds {
		if err != nil || done || old == nil {
			return done, nil, err
		}
		c, ok := judge(old)
		if !ok {
			return false, old, nil
		}
		done, old, err = t.update(ctx, operation, key, c, "")
	}
	if err != nil || done || old == nil {
		return done, nil, err
	}
	return false, nil, t.restless(operation)
}

// restless is the error of a write that found another item at each try.
func (t *table) restless(operation string) error {
	return &awsapi.Error{Class: awsapi.Unavailable, Operation: operation, Resource: t.name, Err: errors.New("the item changes faster than it can be written")}
}

// query reads all pages of a query. Only a page without a last key ends it (cases 39 and 41).
func query[T any](ctx context.Context, t *table, operation string, in dynamodb.QueryInput, view func(raw) T) iter.Seq2[T, error] {
	in.TableName = &t.name
	if t.options.PageLimit > 0 {
		in.Limit = &t.options.PageLimit
	}
	return store.Pages(ctx, func(ctx context.Context, cursor string) ([]T, string, bool, error) {
		page := in
		var err error
		if page.ExclusiveStartKey, err = startKey(cursor); err != nil {
			return nil, "", false, t.wrap(operation, err)
		}
		out, err := t.client.Query(ctx, &page)
		if err != nil {
			return nil, "", false, t.wrap(operation, err)
		}
		return viewPage(t, operation, out.Items, out.LastEvaluatedKey, view)
	})
}

func viewPage[T any](t *table, operation string, found []raw, last raw, view func(raw) T) ([]T, string, bool, error) {
	items := make([]T, len(found))
	for i, r := range found {
		items[i] = view(r)
	}
	if len(last) == 0 {
		return items, "", false, nil
	}
	cursor, err := cursorOf(last)
	return items, cursor, true, t.wrap(operation, err)
}

// cursorOf writes a page's last key as text, the same for the same key. All keys of these tables are text.
func cursorOf(last raw) (string, error) {
	names := make(map[string]string, len(last))
	for name, v := range last {
		s, ok := v.(*types.AttributeValueMemberS)
		if !ok {
			return "", fmt.Errorf("read the last key of a page: %s is no text", name)
		}
		names[name] = s.Value
	}
	cursor, err := json.Marshal(names)
	return string(cursor), err
}

func startKey(cursor string) (raw, error) {
	if cursor == "" {
		return nil, nil
	}
	var names map[string]string
	if err := json.Unmarshal([]byte(cursor), &names); err != nil {
		return nil, fmt.Errorf("read cursor: %w", err)
	}
	start := make(raw, len(names))
	for name, s := range names {
		start[name] = text(s)
	}
	return start, nil
}
