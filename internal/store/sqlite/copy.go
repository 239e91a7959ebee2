package sqlite

import (
	"context"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// PutCopied writes rows and records that were read from another store, in the place of whatever stood there, and keeps a value under a
// name, all in one step: a page of a table, and where it ends.
func (s *Store) PutCopied(ctx context.Context, rows []metering.Row, records []metering.Record, name, value string) error {
	return s.write(ctx, len(rows)+len(records)+1, func(tx *session) error {
		for _, r := range rows {
			if err := tx.putRow(store.NormalRow(r)); err != nil {
				return err
			}
		}
		for _, r := range records {
			if err := tx.putRecord(store.NormalRecord(r)); err != nil {
				return err
			}
		}
		_, err := tx.exec("INSERT OR REPLACE INTO setting (name, value) VALUES (?, ?)", name, value)
		return err
	})
}
