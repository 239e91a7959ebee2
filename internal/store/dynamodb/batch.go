package dynamodb

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
)

const (
	batchSize     = 25 // Amazon DynamoDB API reference, BatchWriteItem
	batchAttempts = 8
	batchBackoff  = 50 * time.Millisecond
	batchBackoffs = 3 * time.Second
)

// PutRows writes rows as PutRow does, 25 a request. All are checked before the first is sent; where one cannot be stored none is
// written. A failure on the way leaves the others as they are, written or not: the same call again is safe. Of two rows with one
// key the later stays.
func (r *Rows) PutRows(ctx context.Context, rows []metering.Row) error {
	type place struct{ license, sortKey string }
	at := make(map[place]int, len(rows))
	writes := make([]types.WriteRequest, 0, len(rows))
	for i := range rows {
		item, err := r.check(&rows[i])
		if err != nil {
			return err
		}
		write := types.WriteRequest{PutRequest: &types.PutRequest{Item: item}}
		key := place{rows[i].License, rows[i].SortKey}
		if n, twice := at[key]; twice { // a request may name a key only once
			writes[n] = write
			continue
		}
		at[key], writes = len(writes), append(writes, write)
	}
	batches := slices.Collect(slices.Chunk(writes, batchSize))
	var mu sync.Mutex
	var failed error
	each(len(batches), r.table.options.workers(), func(i int) {
		if err := r.table.write(ctx, "put rows", batches[i]); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed = err
		}
	})
	return failed
}

// write sends one batch, and again what the service left: it takes as much as its throughput allows.
func (t *table) write(ctx context.Context, operation string, left []types.WriteRequest) error {
	for attempt := 0; ; attempt++ {
		for range left {
			if err := t.pace(ctx); err != nil {
				return err
			}
		}
		out, err := t.client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{t.name: left}})
		if err != nil {
			return t.wrap(operation, err)
		}
		if left = out.UnprocessedItems[t.name]; len(left) == 0 {
			return nil
		}
		if attempt+1 == batchAttempts {
			return &awsapi.Error{
				Class: awsapi.Throttled, Operation: operation, Resource: t.name, Err: fmt.Errorf("%d rows were not taken in %d tries", len(left), batchAttempts),
				Hint: "the same again, later or slower: rows that are written already stay as they are",
			}
		}
		if err := t.options.sleep(ctx, jitter(min(batchBackoff<<attempt, batchBackoffs))); err != nil {
			return t.wrap(operation, err)
		}
	}
}
