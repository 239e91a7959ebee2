package stack

import (
	"context"
	"iter"

	"github.com/awsmp/metering/internal/desk"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

// tables are what the desk reads and changes.
type tables struct {
	*dynamodb.Ledger
	*dynamodb.Subscribers
}

func (s *Stack) deskTables() desk.Tables {
	all := tables{s.Ledger, s.Subscribers}
	if s.Rows == nil {
		return withoutRows{all}
	}
	return all
}

// withoutRows are the tables of a direct-submit stack, which has no usage table: there are no rows, and no row that could be changed.
type withoutRows struct{ tables }

func none[T any](func(T, error) bool) {}

func (withoutRows) PendingRows(context.Context, metering.Hour, string) iter.Seq2[metering.PendingRow, error] {
	return none[metering.PendingRow]
}

func (withoutRows) GroupRows(context.Context, metering.Group) iter.Seq2[metering.Row, error] {
	return none[metering.Row]
}

func (withoutRows) LicenseRows(context.Context, string) iter.Seq2[metering.Row, error] {
	return none[metering.Row]
}

func (withoutRows) Row(context.Context, string, string) (*metering.Row, error) { return nil, nil }

func (withoutRows) LabelRows(_ context.Context, labels []metering.Label) []metering.Labelled {
	return make([]metering.Labelled, len(labels))
}

func (withoutRows) RebucketRow(context.Context, metering.Rebucket) (metering.Outcome[metering.Row], error) {
	return metering.Outcome[metering.Row]{}, nil
}

func (withoutRows) RecallRow(context.Context, metering.Recall) (metering.Outcome[metering.Row], error) {
	return metering.Outcome[metering.Row]{}, nil
}

func (withoutRows) DropRow(context.Context, metering.Drop) (metering.Outcome[metering.Row], error) {
	return metering.Outcome[metering.Row]{}, nil
}

func (withoutRows) CarryRow(context.Context, metering.Carry) (metering.Outcome[metering.Row], error) {
	return metering.Outcome[metering.Row]{}, nil
}
