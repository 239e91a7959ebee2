package dynamodb

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// scanSegments is in how many parts a whole table is read at once.
const scanSegments = 4

// EndedRows are the rows of a license that have ended with a status, read consistently, in the order of their keys.
func (r *Rows) EndedRows(ctx context.Context, license string, status metering.Status) iter.Seq2[metering.Row, error] {
	return ended(ctx, r.table, license, status, rowOf)
}

// EndedRecords are the records of a license that have ended with a status, likewise.
func (r *Records) EndedRecords(ctx context.Context, license string, status metering.Status) iter.Seq2[metering.Record, error] {
	return ended(ctx, r.table, license, status, recordOf)
}

func ended[T any](ctx context.Context, t *table, license string, status metering.Status, view func(raw) T) iter.Seq2[T, error] {
	const operation = "read what has ended"
	if license == "" {
		return func(yield func(T, error) bool) {
			var none T
			yield(none, &awsapi.Error{Class: awsapi.Invalid, Operation: operation, Resource: t.name, Err: errors.New("of which license?")})
		}
	}
	in := licenseQuery(license)
	in.FilterExpression = aws.String(endedFilter)
	in.ExpressionAttributeNames["#status"], in.ExpressionAttributeNames["#pending"] = metering.AttrStatus, metering.AttrPending
	in.ExpressionAttributeValues[":status"] = text(string(status))
	return query(ctx, t, operation, in, view)
}

// endedFilter is store.RowEnded and store.RecordEnded. What waits has a marker: the index takes no empty one.
const endedFilter = "#status = :status AND attribute_not_exists(#pending)"

// EndedRows are the rows of a license that have ended with a status, in the order of their keys; with no license those of all, in no order.
// That reads the whole table, in parts at once and at its pace, after its price was announced.
func (l *Ledger) EndedRows(ctx context.Context, license string, status metering.Status) iter.Seq2[metering.Row, error] {
	switch {
	case l.Rows == nil: // sellers write records themselves
		return func(func(metering.Row, error) bool) {}
	case license != "":
		return l.Rows.EndedRows(ctx, license, status)
	}
	return scanEnded(ctx, l, l.Rows.table, status, rowOf)
}

// EndedRecords are the records of a license that have ended with a status, likewise.
func (l *Ledger) EndedRecords(ctx context.Context, license string, status metering.Status) iter.Seq2[metering.Record, error] {
	if license != "" {
		return l.Records.EndedRecords(ctx, license, status)
	}
	return scanEnded(ctx, l, l.Records.table, status, recordOf)
}

// scanEnded reads a whole table. The parts share one pace and hand over one item at a time, so that memory holds a page of each at most; who
// stops reading stops them.
func scanEnded[T any](ctx context.Context, l *Ledger, t *table, status metering.Status, view func(raw) T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if err := l.announce(ctx, t); err != nil {
			yield(none, err)
			return
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		parts, ctx := errgroup.WithContext(ctx)
		found, failed := make(chan T), make(chan error, 1)
		pace := l.pace()
		for segment := range int32(scanSegments) {
			parts.Go(func() error {
				for item, err := range endedPart(ctx, t, segment, pace, status, view) {
					if err != nil {
						return err
					}
					select {
					case found <- item:
					case <-ctx.Done():
						return ctx.Err()
					}
				}
				return nil
			})
		}
		go func() {
			failed <- parts.Wait()
			close(found)
		}()
		for item := range found {
			if !yield(item, nil) {
				stop()
				for range found { // until the parts have ended
				}
				return
			}
		}
		if err := <-failed; err != nil {
			yield(none, err)
		}
	}
}

func endedPart[T any](ctx context.Context, t *table, segment int32, pace *rate.Limiter, status metering.Status, view func(raw) T) iter.Seq2[T, error] {
	const operation = "scan the table for what has ended"
	in := dynamodb.ScanInput{
		TableName: &t.name, Segment: &segment, TotalSegments: aws.Int32(scanSegments), FilterExpression: aws.String(endedFilter),
		ExpressionAttributeNames:  map[string]string{"#status": metering.AttrStatus, "#pending": metering.AttrPending},
		ExpressionAttributeValues: raw{":status": text(string(status))},
		ReturnConsumedCapacity:    types.ReturnConsumedCapacityTotal,
	}
	return scanPages(ctx, t, operation, in, pace, view)
}

// scanPages reads a scan page by page, at its pace.
func scanPages[T any](ctx context.Context, t *table, operation string, in dynamodb.ScanInput, pace *rate.Limiter, view func(raw) T) iter.Seq2[T, error] {
	if t.options.PageLimit > 0 {
		in.Limit = &t.options.PageLimit
	}
	return store.Pages(ctx, func(ctx context.Context, cursor string) ([]T, string, bool, error) {
		page := in
		var err error
		if page.ExclusiveStartKey, err = startKey(cursor); err != nil {
			return nil, "", false, t.wrap(operation, err)
		}
		out, err := t.client.Scan(ctx, &page)
		if err != nil {
			return nil, "", false, t.wrap(operation, err)
		}
		if out.ConsumedCapacity != nil && len(out.LastEvaluatedKey) > 0 {
			if err := pace.WaitN(ctx, min(pace.Burst(), 1+int(aws.ToFloat64(out.ConsumedCapacity.CapacityUnits)))); err != nil {
				return nil, "", false, t.wrap(operation, err)
			}
		}
		return viewPage(t, operation, out.Items, out.LastEvaluatedKey, view)
	})
}

// Accounts are the accounts that either usage table holds items of under a license, in order: one query of one item for each account and table.
func (l *Ledger) Accounts(ctx context.Context, license string) ([]string, error) {
	var accounts []string
	for _, t := range l.tables() {
		found, err := store.Accounts(func(from string) (string, bool, error) { return t.next(ctx, license, from) })
		if err != nil {
			return nil, err
		}
		accounts = append(accounts, found...)
	}
	slices.Sort(accounts)
	return slices.Compact(accounts), nil
}

// next is the first sort key of a license at from or after it, and whether there is one.
func (t *table) next(ctx context.Context, license, from string) (string, bool, error) {
	const operation = "look for accounts"
	in := licenseQuery(license)
	in.TableName, in.Limit = &t.name, aws.Int32(1)
	in.ProjectionExpression = aws.String("#key")
	in.ExpressionAttributeNames["#key"] = t.sortKey
	if from != "" {
		in.KeyConditionExpression = aws.String(*in.KeyConditionExpression + " AND #key >= :from")
		in.ExpressionAttributeValues[":from"] = text(from)
	}
	out, err := t.client.Query(ctx, &in)
	if err != nil || len(out.Items) == 0 {
		return "", false, t.wrap(operation, err)
	}
	key, _ := valueOf(out.Items[0][t.sortKey]).(string)
	return key, true, nil
}
