// Package sqlitetest makes store files that the present release does not write.
package sqlitetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	_ "modernc.org/sqlite" // the driver

	"github.com/awsmp/metering/internal/store/sqlite"
)

// back undoes what follows the first version of the file.
const back = `
DROP VIEW customer_profile; DROP VIEW subscribers; DROP TABLE profile; DROP TABLE subscriber;
CREATE TABLE deprovisioning (
	license TEXT NOT NULL,
	account TEXT NOT NULL,
	expiry  TEXT NOT NULL,
	PRIMARY KEY (license, account)
) WITHOUT ROWID;
PRAGMA user_version = 1`

// FirstVersion makes an empty store of the first version at path.
func FirstVersion(ctx context.Context, path string) error {
	s, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	_, err = db.ExecContext(ctx, back)
	return errors.Join(err, db.Close())
}

// Version is the version of a store.
func Version(ctx context.Context, path string) (n int, err error) {
	db, err := sql.Open("sqlite", path)
	if err != nil {
		return 0, fmt.Errorf("open the store: %w", err)
	}
	err = db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&n)
	return n, errors.Join(err, db.Close())
}
