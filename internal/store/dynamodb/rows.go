package dynamodb

import (
	"context"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// Rows is the usage table. It is safe for concurrent use.
type Rows struct{ table *table }

// NewRows is the usage table of that name, in the client's Region.
func NewRows(client *dynamodb.Client, name string, o Options) *Rows {
	return &Rows{&table{client: client, name: name, sortKey: metering.AttrRowKey, options: o}}
}

func rowOf(r raw) metering.Row { return metering.RowFromItem(itemOf(r)) }

// oldRow is what stood against a write.
func oldRow(r raw) *metering.Row {
	if r == nil {
		return nil
	}
	row := rowOf(r)
	return &row
}

// PutRow writes a row as its seller does: without condition, in the place of whatever stood there. It fails with
// metering.ErrTooLarge where the row exceeds 400 KB.
func (r *Rows) PutRow(ctx context.Context, row metering.Row) error {
	item, err := r.check(&row)
	if err != nil {
		return err
	}
	_, _, err = r.table.put(ctx, "put row", item, false)
	return err
}

// check is the row as it is stored, or why no table can hold it.
func (r *Rows) check(row *metering.Row) (raw, error) {
	if err := store.CheckRow(row); err != nil {
		return nil, err
	}
	return rawRow(row), r.table.checkKey("put row", row.License, row.SortKey)
}

// Row reads a row consistently; nil where there is none.
func (r *Rows) Row(ctx context.Context, license, sortKey string) (*metering.Row, error) {
	item, err := r.table.get(ctx, "read row", license, sortKey)
	if err != nil || item == nil {
		return nil, err
	}
	return oldRow(item), nil
}

// DeleteRow removes a row, if there is one.
func (r *Rows) DeleteRow(ctx context.Context, license, sortKey string) error {
	return r.table.delete(ctx, "delete row", license, sortKey)
}

// PendingRows reads the pending index under one bucket, in the order of the licenses: of every license, or of the one named. The
// index may lag behind the table.
func (r *Rows) PendingRows(ctx context.Context, hour metering.Hour, license string) iter.Seq2[metering.PendingRow, error] {
	return query(ctx, r.table, "read pending rows", pendingQuery(hour, license), func(item raw) metering.PendingRow {
		row := rowOf(item)
		return metering.PendingRow{License: row.License, SortKey: row.SortKey, Bucket: row.Pending, Account: row.Account, Dimension: row.Dimension}
	})
}

// pendingQuery is one bucket of a pending index.
func pendingQuery(hour metering.Hour, license string) dynamodb.QueryInput {
	in := dynamodb.QueryInput{
		IndexName:                 aws.String(metering.PendingIndex),
		KeyConditionExpression:    aws.String("#bucket = :bucket"),
		ExpressionAttributeNames:  map[string]string{"#bucket": metering.AttrPending},
		ExpressionAttributeValues: raw{":bucket": text(hour.String())},
	}
	if license != "" {
		in.KeyConditionExpression = aws.String("#bucket = :bucket AND #license = :license")
		in.ExpressionAttributeNames["#license"] = metering.AttrLicense
		in.ExpressionAttributeValues[":license"] = text(license)
	}
	return in
}

// GroupRows reads the rows whose key begins with the group's prefix, consistently, in the order of their keys.
func (r *Rows) GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error] {
	return query(ctx, r.table, "read a group's rows", dynamodb.QueryInput{
		ConsistentRead:            aws.Bool(true),
		KeyConditionExpression:    aws.String("#license = :license AND begins_with(#key, :prefix)"),
		ExpressionAttributeNames:  map[string]string{"#license": metering.AttrLicense, "#key": metering.AttrRowKey},
		ExpressionAttributeValues: raw{":license": text(g.License), ":prefix": text(g.RowPrefix())},
	}, rowOf)
}

// LicenseRows are all rows of a license, read consistently, in the order of their keys.
func (r *Rows) LicenseRows(ctx context.Context, license string) iter.Seq2[metering.Row, error] {
	return query(ctx, r.table, "read a license's rows", licenseQuery(license), rowOf)
}

func licenseQuery(license string) dynamodb.QueryInput {
	return dynamodb.QueryInput{
		ConsistentRead:            aws.Bool(true),
		KeyConditionExpression:    aws.String("#license = :license"),
		ExpressionAttributeNames:  map[string]string{"#license": metering.AttrLicense},
		ExpressionAttributeValues: raw{":license": text(license)},
	}
}
