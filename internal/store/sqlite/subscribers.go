package sqlite

import (
	"cmp"
	"context"
	"database/sql/driver"
	"fmt"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// PutDeprovisioning marks a license as being in its last hour, in the place of an earlier mark.
func (s *Store) PutDeprovisioning(ctx context.Context, d metering.Deprovisioning) error {
	return s.write(ctx, 1, func(tx *session) error {
		_, err := tx.exec("INSERT OR REPLACE INTO deprovisioning (license, account, expiry) VALUES (?, ?, ?)", d.License, d.Account, d.Expiry.UTC().Format(time.RFC3339Nano))
		return err
	})
}

// RemoveDeprovisioning takes the mark away, if there is one.
func (s *Store) RemoveDeprovisioning(ctx context.Context, license, account string) error {
	return s.write(ctx, 1, func(tx *session) error {
		_, err := tx.exec("DELETE FROM deprovisioning WHERE license = ? AND account = ?", license, account)
		return err
	})
}

// Deprovisioning lists the licenses in their last hour, the one that ends first at the head.
func (s *Store) Deprovisioning(ctx context.Context) ([]metering.Deprovisioning, error) {
	var list []metering.Deprovisioning
	err := s.read(ctx, func(d *decoder) error {
		list = nil
		return d.query("SELECT license, account, expiry FROM deprovisioning", nil, func(v []driver.Value) (bool, error) {
			expiry, err := time.Parse(time.RFC3339Nano, text(v[2]))
			if err != nil {
				return false, fmt.Errorf("read the end of a license's last hour: %w", err)
			}
			list = append(list, metering.Deprovisioning{License: text(v[0]), Account: text(v[1]), Expiry: expiry})
			return true, nil
		})
	})
	slices.SortFunc(list, func(a, b metering.Deprovisioning) int {
		return cmp.Or(a.Expiry.Compare(b.Expiry), cmp.Compare(a.License, b.License), cmp.Compare(a.Account, b.Account))
	})
	return list, err
}
