package dynamodb

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/metering"
)

// Survey is a table before it is read as a whole: how large it is, what that costs, and which table it is.
type Survey struct {
	ScanPrice
	ID     string // another one where the table was deleted and made anew
	Region string
}

// Surveys are those of the usage table and the aggregated-usage table, in this order. A place without a usage table has the latter alone.
func (l *Ledger) Surveys(ctx context.Context) ([]Survey, error) {
	var list []Survey
	for _, t := range l.tables() {
		out, err := t.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &t.name})
		if err != nil {
			return nil, t.wrap("read the size of the table", err)
		}
		d := out.Table
		s := Survey{ScanPrice: ScanPrice{Table: t.name, Items: aws.ToInt64(d.ItemCount), Bytes: aws.ToInt64(d.TableSizeBytes)}}
		s.Units, s.Dollars = float64(s.Bytes)/readUnitBytes, DollarsOf(float64(s.Bytes)/readUnitBytes)
		created := ""
		if d.CreationDateTime != nil {
			created = d.CreationDateTime.UTC().Format("20060102T150405")
		}
		s.ID = strings.Join([]string{aws.ToString(d.TableArn), aws.ToString(d.TableId), created}, " ")
		if name, err := arn.Parse(aws.ToString(d.TableArn)); err == nil {
			s.Region = name.Region
		}
		list = append(list, s)
	}
	return list, nil
}

// DollarsOf is what read request units cost on demand, at the price of us-east-1.
func DollarsOf(units float64) float64 { return units / 1e6 * dollarsPerMillionRead }

// Part is a page of one segment of a table.
type Part[T any] struct {
	Items []T
	Next  string  // after which the segment goes on; empty at its end
	Units float64 // read units that the page took
}

// ScanRows reads one page of a segment of the usage table, after the place where an earlier page ended; empty begins. The rows have only
// what a ledger asks for, and are read with eventual consistency, which halves the price. A place without a usage table has no rows.
func (l *Ledger) ScanRows(ctx context.Context, segment, segments int, after string) (Part[metering.Row], error) {
	if l.Rows == nil {
		return Part[metering.Row]{}, nil
	}
	return scanPart(ctx, l.Rows.table, segment, segments, after, rowAttributes(), copiedRow)
}

// ScanRecords reads one page of a segment of the aggregated-usage table, likewise.
func (l *Ledger) ScanRecords(ctx context.Context, segment, segments int, after string) (Part[metering.Record], error) {
	return scanPart(ctx, l.Records.table, segment, segments, after, recordAttributes(), copiedRecord)
}

// QueryRows reads one page of a license's rows with what a ledger asks for, consistently.
func (l *Ledger) QueryRows(ctx context.Context, license, after string) (Part[metering.Row], error) {
	if l.Rows == nil {
		return Part[metering.Row]{}, nil
	}
	return queryPart(ctx, l.Rows.table, license, after, rowAttributes(), copiedRow)
}

// QueryRecords reads one page of a license's records, likewise.
func (l *Ledger) QueryRecords(ctx context.Context, license, after string) (Part[metering.Record], error) {
	return queryPart(ctx, l.Records.table, license, after, recordAttributes(), copiedRecord)
}

func rowAttributes() []string {
	return []string{
		metering.AttrAccount, metering.AttrDimension, metering.AttrQuantity, metering.AttrPending, metering.AttrStatus, metering.AttrStatusReason,
		metering.AttrCreatedAt, metering.AttrUpdatedAt,
	}
}

func copiedRow(item raw) metering.Row {
	row := rowOf(item)
	if key, reason := metering.ParseRowKey(row.SortKey); reason == "" { // it is not read: the key says it too
		row.Timestamp = key.Second.String()
	}
	return row
}

func recordAttributes() []string {
	return []string{
		metering.AttrAccount, metering.AttrDimension, metering.AttrQuantity, metering.AttrManifest, metering.AttrPending, metering.AttrSentQuantity,
		metering.AttrStatus, metering.AttrStatusReason, metering.AttrBilledQuantity, metering.AttrCreatedAt, metering.AttrUpdatedAt,
	}
}

func copiedRecord(item raw) metering.Record {
	record := recordOf(item)
	if g, reason := record.Group(); reason == "" {
		record.HourBucket = g.Hour.String()
	}
	return record
}

// projection names the keys and attributes that are read.
func (t *table) projection(attributes []string) (expression *string, names map[string]string) {
	names = map[string]string{"#license": metering.AttrLicense, "#key": t.sortKey}
	wanted := []string{"#license", "#key"}
	for _, name := range attributes {
		names["#"+name] = name
		wanted = append(wanted, "#"+name)
	}
	return aws.String(strings.Join(wanted, ", ")), names
}

func (o Options) pageLimit() *int32 {
	if o.PageLimit > 0 {
		return &o.PageLimit
	}
	return nil
}

const copying = "copy the table"

func scanPart[T any](ctx context.Context, t *table, segment, segments int, after string, attributes []string, view func(raw) T) (p Part[T], err error) {
	in := &dynamodb.ScanInput{
		TableName: &t.name, Limit: t.options.pageLimit(), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		Segment: aws.Int32(int32(segment)), TotalSegments: aws.Int32(int32(segments)),
	}
	in.ProjectionExpression, in.ExpressionAttributeNames = t.projection(attributes)
	if in.ExclusiveStartKey, err = startKey(after); err != nil {
		return p, t.wrap(copying, err)
	}
	out, err := t.client.Scan(ctx, in)
	if err != nil {
		return p, t.wrap(copying, err)
	}
	return partOf(t, out.Items, out.LastEvaluatedKey, out.ConsumedCapacity, view)
}

func queryPart[T any](ctx context.Context, t *table, license, after string, attributes []string, view func(raw) T) (p Part[T], err error) {
	in := licenseQuery(license)
	in.TableName, in.Limit, in.ReturnConsumedCapacity = &t.name, t.options.pageLimit(), types.ReturnConsumedCapacityTotal
	in.ProjectionExpression, in.ExpressionAttributeNames = t.projection(attributes)
	if in.ExclusiveStartKey, err = startKey(after); err != nil {
		return p, t.wrap(copying, err)
	}
	out, err := t.client.Query(ctx, &in)
	if err != nil {
		return p, t.wrap(copying, err)
	}
	return partOf(t, out.Items, out.LastEvaluatedKey, out.ConsumedCapacity, view)
}

func partOf[T any](t *table, found []raw, last raw, used *types.ConsumedCapacity, view func(raw) T) (p Part[T], err error) {
	if used != nil {
		p.Units = aws.ToFloat64(used.CapacityUnits)
	}
	p.Items, p.Next, _, err = viewPage(t, copying, found, last, view)
	return p, err
}
