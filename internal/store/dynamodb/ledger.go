package dynamodb

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/awsmp/metering/internal/metering"
)

// What a scan costs (Amazon DynamoDB pricing, on-demand, us-east-1: $0.125 per million read request units; a unit is one strongly
// or two eventually consistent reads of 4 KB).
const (
	readUnitBytes         = 2 * 4096
	dollarsPerMillionRead = 0.125
)

// DefaultScanUnits is how many read units a second a scan takes: a sixth of what one partition serves, so that the stages go on.
const DefaultScanUnits = 500

// ScanPrice is what a scan of a table is about to cost.
type ScanPrice struct {
	Table   string
	Items   int64   // as the service counts them, about every six hours
	Bytes   int64   // likewise
	Units   float64 // read request units
	Dollars float64 // on-demand, at the price of us-east-1
}

// String is the price in words.
func (p ScanPrice) String() string {
	return fmt.Sprintf("a scan of table %s: %d items, %.1f MB, %.0f read units, about $%.4f on demand in us-east-1",
		p.Table, p.Items, float64(p.Bytes)/1e6, p.Units, p.Dollars)
}

// Ledger is what an operator's command reads both usage tables through. It alone can scan; no stage uses it.
type Ledger struct {
	*Rows
	*Records
	// Announce is told the price of each scan before it begins; an error ends it there. Nil tells nobody.
	Announce func(ScanPrice) error
	// ScanUnits is how many read units a second a scan takes; 0 means DefaultScanUnits.
	ScanUnits int
}

// Licenses are the licenses that either usage table holds items of, in order. It scans both tables, since a table has no list of its
// partition keys, and holds the licenses in memory.
func (l *Ledger) Licenses(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		tables := l.tables()
		for _, t := range tables {
			if err := l.announce(ctx, t); err != nil {
				yield("", err)
				return
			}
		}
		found := make([]map[string]bool, len(tables))
		all, ctx := errgroup.WithContext(ctx)
		for i, t := range tables {
			found[i] = make(map[string]bool)
			all.Go(func() error {
				for license, err := range l.scan(ctx, t) {
					if err != nil {
						return err
					}
					found[i][license] = true
				}
				return nil
			})
		}
		if err := all.Wait(); err != nil {
			yield("", err)
			return
		}
		either := make(map[string]bool)
		for _, in := range found {
			maps.Copy(either, in)
		}
		for _, license := range slices.Sorted(maps.Keys(either)) {
			if !yield(license, nil) {
				return
			}
		}
	}
}

func (l *Ledger) tables() (list []*table) {
	if l.Rows != nil {
		list = append(list, l.Rows.table)
	}
	if l.Records != nil {
		list = append(list, l.Records.table)
	}
	return list
}

func (l *Ledger) announce(ctx context.Context, t *table) error {
	if l.Announce == nil {
		return nil
	}
	out, err := t.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &t.name})
	if err != nil {
		return t.wrap("read the size of the table", err)
	}
	p := ScanPrice{Table: t.name, Items: aws.ToInt64(out.Table.ItemCount), Bytes: aws.ToInt64(out.Table.TableSizeBytes)}
	p.Units = float64(p.Bytes) / readUnitBytes
	p.Dollars = p.Units / 1e6 * dollarsPerMillionRead
	if err := l.Announce(p); err != nil {
		return fmt.Errorf("scan table %s: %w", t.name, err)
	}
	return nil
}

// pace is that of a scan.
func (l *Ledger) pace() *rate.Limiter {
	units := l.ScanUnits
	if units <= 0 {
		units = DefaultScanUnits
	}
	return rate.NewLimiter(rate.Limit(units), units)
}

// scan reads the partition keys of a table, page by page, at its pace.
func (l *Ledger) scan(ctx context.Context, t *table) iter.Seq2[string, error] {
	return scanPages(ctx, t, "scan the table for licenses", dynamodb.ScanInput{
		TableName:                &t.name,
		ProjectionExpression:     aws.String("#license"),
		ExpressionAttributeNames: map[string]string{"#license": metering.AttrLicense},
		ReturnConsumedCapacity:   types.ReturnConsumedCapacityTotal,
	}, l.pace(), func(item raw) string {
		license, _ := valueOf(item[metering.AttrLicense]).(string)
		return license
	})
}
