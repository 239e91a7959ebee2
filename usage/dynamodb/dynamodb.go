// Package dynamodb writes usage into the tables of a metering stack in AWS, from any number of processes.
//
// The caller needs the IAM actions dynamodb:UpdateItem and dynamodb:GetItem on the usage table and dynamodb:GetItem on the
// aggregated-usage table. Usage of one product is written in one Region only: the Marketplace tells records apart per Region.
package dynamodb

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/time/rate"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	store "github.com/awsmp/metering/internal/store/dynamodb"
	"github.com/awsmp/metering/usage"
)

// Tables are the names of the two tables that a writer needs.
type Tables struct {
	Usage           string // rows are written to it
	AggregatedUsage string // it tells whether an hour has been metered
}

// TablesOf are the tables of a product's stack, as its template names them.
func TablesOf(productCode string) Tables {
	return Tables{Usage: "awsmp-" + productCode + "-usage", AggregatedUsage: "awsmp-" + productCode + "-aggregated-usage"}
}

// Options are the settings of a Table. The zero value works.
type Options struct {
	// WritesPerSecond is the most rows that this process writes a second; 0 is as fast as the service takes them. All processes of a
	// product and Region together should stay below a few hundred: rows that wait share one partition of an index, which takes 1,000
	// writes a second, and each row is written to it and taken out again (Amazon DynamoDB developer guide, partition key design).
	WritesPerSecond int
	// Parallel is how many rows are written at once; 0 means 8.
	Parallel int
}

// Table is the usage table of one product in one Region. It is a usage.Table, and safe for concurrent use. There is nothing to close.
type Table struct {
	rows    *store.Rows
	records *store.Records
}

var _ usage.Table = (*Table)(nil)

// Open makes a Table of a product's stack with settings and credentials from where the AWS SDK looks for them: the environment, the
// shared files, the role. An empty region is the one found there. Nothing is called yet: a wrong name or missing permission shows
// in the error of the first Flush, WriteBatch or Close. A program that starts should Flush once.
func Open(ctx context.Context, productCode, region string, o Options) (*Table, error) {
	if productCode == "" {
		return nil, errors.New("open the usage table: no product code. Try: the code on the product's page in the AWS Marketplace Management Portal")
	}
	cfg, err := awsapi.Config(ctx, region)
	if err != nil {
		return nil, fmt.Errorf("open the usage table: %w", err)
	}
	return New(dynamodb.NewFromConfig(cfg), TablesOf(productCode), o), nil
}

// New makes a Table with a client of the caller's own, whose Region is that of the tables. The client should try a call a few times:
// the writer tries again too, in a longer rhythm.
func New(client *dynamodb.Client, tables Tables, o Options) *Table {
	options := store.Options{Workers: o.Parallel}
	if o.WritesPerSecond > 0 {
		options.Writes = rate.NewLimiter(rate.Limit(o.WritesPerSecond), max(1, o.WritesPerSecond/10))
	}
	return &Table{rows: store.NewRows(client, tables.Usage, options), records: store.NewRecords(client, tables.AggregatedUsage, options)}
}

// Record reads a group's record, for usage.Writer.
func (t *Table) Record(ctx context.Context, g metering.Group) (*metering.Record, error) {
	return t.records.Record(ctx, g)
}

// Row reads a row, for usage.Writer.
func (t *Table) Row(ctx context.Context, license, sortKey string) (*metering.Row, error) {
	return t.rows.Row(ctx, license, sortKey)
}

// FlushRows applies flushes, for usage.Writer.
func (t *Table) FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed {
	return t.rows.FlushRows(ctx, flushes)
}
