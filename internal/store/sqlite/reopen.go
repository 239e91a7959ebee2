package sqlite

import (
	"context"

	"github.com/awsmp/metering/internal/metering"
)

// ReopenRecord lets a refused record wait again where the condition holds; else the outcome carries the record that stood against it.
func (s *Store) ReopenRecord(ctx context.Context, x metering.Reopen) (metering.Outcome[metering.Record], error) {
	return s.changeRecord(ctx, x.License, x.SortKey, x.Holds, x.Apply)
}
