package dynamodb

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// conflictPause is the longest wait before the second try of a transaction that met another one on its items; it doubles from try to try.
const conflictPause = 50 * time.Millisecond

// CarryRow books late units anew, in one transaction of both rows, where the condition holds. Else the outcome carries the source that stood
// against it; where the carry holds on that, the target's second is taken. A carry that the source shows already is done, so that an answer
// that was lost is known by what it left.
func (r *Rows) CarryRow(ctx context.Context, x metering.Carry) (out metering.Outcome[metering.Row], err error) {
	const operation = "carry late usage"
	for round := range rounds {
		item, err := r.table.get(ctx, operation, x.License, x.SortKey)
		if err != nil || item == nil {
			return out, err
		}
		source := rowOf(item)
		switch {
		case x.Shows(source):
			return metering.Outcome[metering.Row]{Done: true}, nil
		case !x.Holds(source):
			return metering.Outcome[metering.Row]{Old: &source}, nil
		}
		met, err := r.carry(ctx, operation, x, item, round)
		switch {
		case err != nil:
			return r.answerLost(ctx, x, err)
		case met == "":
			return metering.Outcome[metering.Row]{Done: true}, nil
		case met == targetTaken:
			return metering.Outcome[metering.Row]{Old: &source}, nil
		case met == conflict:
			if err := r.table.options.sleep(ctx, jitter(conflictPause<<round)); err != nil {
				return out, r.table.wrap(operation, err)
			}
		}
	}
	return out, r.table.restless(operation)
}

// answerLost asks the source whether a transaction without an answer was made. Where it was not, its error stays: it may still come to be,
// once, and then shows.
func (r *Rows) answerLost(ctx context.Context, x metering.Carry, lost error) (metering.Outcome[metering.Row], error) {
	if class := awsapi.ClassOf(lost); class == awsapi.Unavailable || class == awsapi.Unknown {
		if source, err := r.Row(ctx, x.License, x.SortKey); err == nil && source != nil && x.Shows(*source) {
			return metering.Outcome[metering.Row]{Done: true}, nil
		}
	}
	return metering.Outcome[metering.Row]{}, lost
}

// obstruction is what a transaction met. Nothing of it was written.
type obstruction string

const (
	sourceChanged obstruction = "the source has changed"
	targetTaken   obstruction = "there is a row at the target"
	conflict      obstruction = "another transaction is about its items"
)

// carry is one try: the source as it was read becomes what is left of it, and the target is put where nothing is.
func (r *Rows) carry(ctx context.Context, operation string, x metering.Carry, item raw, round int) (obstruction, error) {
	source, target := x.Apply(rowOf(item)), x.Row()
	if err := store.CheckRow(&source); err != nil {
		return "", err
	}
	put, err := r.check(&target)
	if err != nil {
		return "", err
	}
	c := r.asJudged(item, func(c *change) {
		c.grown(metering.AttrCarriedTo, x.Times)
		c.become(item, rawRow(&source), metering.AttrQuantity, metering.AttrAllocations, metering.AttrStatus, metering.AttrStatusReason,
			metering.AttrLateQuantity, metering.AttrCarriedTo)
		c.stamp(x.At)
	})
	for range 2 {
		if err := r.table.pace(ctx); err != nil {
			return "", err
		}
	}
	_, err = r.table.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
		// The SDK's own tries are one transaction with the first. A later round is another one: it may have read other attributes.
		ClientRequestToken: aws.String(tokenOf(x, round)),
		TransactItems: []types.TransactWriteItem{
			{Update: &types.Update{
				TableName: &r.table.name, Key: r.table.key(x.License, x.SortKey), UpdateExpression: aws.String(c.update()),
				ConditionExpression: aws.String(c.condition()), ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values,
			}},
			{Put: &types.Put{
				TableName: &r.table.name, Item: put, ConditionExpression: aws.String("attribute_not_exists(#key)"),
				ExpressionAttributeNames: map[string]string{"#key": r.table.sortKey},
			}},
		},
	})
	return r.obstruction(operation, err)
}

// obstruction tells the reasons of a transaction that was cancelled apart (Amazon DynamoDB API reference, TransactWriteItems): they come in
// the order of its items. The source's decides, since a transaction that was made has changed the source and taken the target.
func (r *Rows) obstruction(operation string, err error) (obstruction, error) {
	var cancelled *types.TransactionCanceledException
	if !errors.As(err, &cancelled) {
		return "", r.table.wrap(operation, err)
	}
	var codes [2]string
	for i := range min(len(codes), len(cancelled.CancellationReasons)) {
		codes[i] = aws.ToString(cancelled.CancellationReasons[i].Code)
	}
	const failed = "ConditionalCheckFailed"
	switch {
	case codes[0] == failed:
		return sourceChanged, nil
	case codes[1] == failed:
		return targetTaken, nil
	}
	class := awsapi.Invalid
	for i, code := range codes {
		switch code {
		case "TransactionConflict":
			return conflict, nil
		case "ThrottlingError", "ProvisionedThroughputExceeded":
			class = awsapi.Throttled
		case "ItemCollectionSizeLimitExceeded", "ValidationError":
			err = fmt.Errorf("%s: %w", aws.ToString(cancelled.CancellationReasons[i].Message), err)
		}
	}
	return "", &awsapi.Error{Class: class, Operation: operation, Resource: r.table.name, Err: err}
}

// tokenOf names a transaction, in the 36 characters that a token has at most.
func tokenOf(x metering.Carry, round int) string {
	h := sha256.New()
	for _, part := range []string{
		x.License, x.SortKey, x.TargetKey(), x.Fingerprint, strconv.Itoa(x.Times), x.At.UTC().Format(time.RFC3339Nano), strconv.Itoa(round),
	} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))[:36]
}
