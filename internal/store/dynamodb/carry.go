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

// CarryRow books late units anew, in one transaction of both rows and of the record of the source's hour, where the condition holds. Else the
// outcome carries the source that stood against it; where the carry holds on that, the target's second is taken. It carries none where
// there is no source, or the record is not as it was judged. A carry that the record shows already is done, so that an answer that was lost
// is known by what it left.
func (l *Ledger) CarryRow(ctx context.Context, x metering.Carry) (out metering.Outcome[metering.Row], err error) {
	const operation = "carry late usage"
	for round := range rounds {
		record, err := l.Records.table.get(ctx, operation, x.License, x.RecordKey())
		if err != nil || record == nil {
			return out, err
		}
		if x.Shows(recordOf(record)) {
			return metering.Outcome[metering.Row]{Done: true}, nil
		}
		item, err := l.Rows.table.get(ctx, operation, x.License, x.SortKey)
		if err != nil || item == nil || !x.HoldsOf(recordOf(record)) {
			return out, err
		}
		source := rowOf(item)
		if !x.Holds(source) {
			return metering.Outcome[metering.Row]{Old: &source}, nil
		}
		met, err := l.carry(ctx, operation, x, item, record, round)
		switch {
		case err != nil:
			return l.answerLost(ctx, x, err)
		case met == "":
			return metering.Outcome[metering.Row]{Done: true}, nil
		case met == targetTaken:
			return metering.Outcome[metering.Row]{Old: &source}, nil
		case met == conflict:
			if err := l.Rows.table.options.sleep(ctx, jitter(conflictPause<<round)); err != nil {
				return out, l.Rows.table.wrap(operation, err)
			}
		}
	}
	return out, l.Rows.table.restless(operation)
}

// answerLost asks the record whether a transaction without an answer was made. Where it was not, its error stays: it may still come to be,
// once, and then shows.
func (l *Ledger) answerLost(ctx context.Context, x metering.Carry, lost error) (metering.Outcome[metering.Row], error) {
	if class := awsapi.ClassOf(lost); class == awsapi.Unavailable || class == awsapi.Unknown {
		record, err := l.Records.table.get(ctx, "carry late usage", x.License, x.RecordKey())
		if err == nil && record != nil && x.Shows(recordOf(record)) {
			return metering.Outcome[metering.Row]{Done: true}, nil
		}
	}
	return metering.Outcome[metering.Row]{}, lost
}

// obstruction is what a transaction met. Nothing of it was written.
type obstruction string

const (
	judgedChanged obstruction = "the source or its record has changed"
	targetTaken   obstruction = "there is a row at the target"
	conflict      obstruction = "another transaction is about its items"
)

// carry is one try: the source as it was read becomes what is left of it, the target is put where nothing is, and the record as it was read
// notes it.
func (l *Ledger) carry(ctx context.Context, operation string, x metering.Carry, item, record raw, round int) (obstruction, error) {
	rows, records := l.Rows.table, l.Records.table
	source, target, noted := x.Apply(rowOf(item)), x.Row(), x.Note(recordOf(record))
	if err := errors.Join(store.CheckRow(&source), store.CheckRecord(&noted)); err != nil {
		return "", err
	}
	put, err := l.Rows.check(&target)
	if err != nil {
		return "", err
	}
	c := l.Rows.asJudged(item, func(c *change) {
		c.grown(metering.AttrCarriedTo, x.Times)
		c.become(item, rawRow(&source), metering.AttrQuantity, metering.AttrAllocations, metering.AttrStatus, metering.AttrStatusReason,
			metering.AttrLateQuantity, metering.AttrCarriedTo)
		c.stamp(x.At)
	})
	note := records.existing()
	note.unchanged(record, metering.AttrManifest)
	note.grown(metering.AttrCarried, x.Listed)
	note.become(record, rawOf(noted.Item()), metering.AttrCarried)
	note.stamp(x.At)
	for _, t := range []*table{rows, rows, records} {
		if err := t.pace(ctx); err != nil {
			return "", err
		}
	}
	_, err = rows.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{
		// The SDK's own tries are one transaction with the first. A later round is another one: it may have read other attributes.
		ClientRequestToken: aws.String(tokenOf(x, round)),
		TransactItems: []types.TransactWriteItem{
			c.inTransaction(rows, x.License, x.SortKey),
			note.inTransaction(records, x.License, x.RecordKey()),
			{Put: &types.Put{
				TableName: &rows.name, Item: put, ConditionExpression: aws.String("attribute_not_exists(#key)"),
				ExpressionAttributeNames: map[string]string{"#key": rows.sortKey},
			}},
		},
	})
	return rows.obstruction(operation, err)
}

func (c *change) inTransaction(t *table, license, sortKey string) types.TransactWriteItem {
	return types.TransactWriteItem{Update: &types.Update{
		TableName: &t.name, Key: t.key(license, sortKey), UpdateExpression: aws.String(c.update()),
		ConditionExpression: aws.String(c.condition()), ExpressionAttributeNames: c.names, ExpressionAttributeValues: c.values,
	}}
}

// obstruction tells the reasons of a transaction that was cancelled apart (Amazon DynamoDB API reference, TransactWriteItems): they come in
// the order of its items. The source's and the record's decide, since a transaction that was made has changed them and taken the target.
func (t *table) obstruction(operation string, err error) (obstruction, error) {
	var cancelled *types.TransactionCanceledException
	if !errors.As(err, &cancelled) {
		return "", t.wrap(operation, err)
	}
	var codes [3]string
	for i := range min(len(codes), len(cancelled.CancellationReasons)) {
		codes[i] = aws.ToString(cancelled.CancellationReasons[i].Code)
	}
	const failed = "ConditionalCheckFailed"
	switch {
	case codes[0] == failed, codes[1] == failed:
		return judgedChanged, nil
	case codes[2] == failed:
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
	return "", &awsapi.Error{Class: class, Operation: operation, Resource: t.name, Err: err}
}

// tokenOf names a transaction, in the 36 characters that a token has at most.
func tokenOf(x metering.Carry, round int) string {
	h := sha256.New()
	for _, part := range []string{
		x.License, x.SortKey, x.Token, x.TargetKey(), x.Fingerprint, strconv.Itoa(x.Times), strconv.Itoa(x.Listed), x.At.UTC().Format(time.RFC3339Nano), strconv.Itoa(round),
	} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil))[:36]
}
