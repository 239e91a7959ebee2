package sqlite

import (
	"context"
	"maps"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

const (
	getProfile = "SELECT license, account, attributes FROM profile WHERE license = ? AND account = ?"
	putProfile = "INSERT OR REPLACE INTO profile (license, account, attributes) VALUES (?, ?, ?)"
)

// SaveProfile adds to a profile, which is made where there is none.
func (s *Store) SaveProfile(ctx context.Context, c metering.ProfileChange) error {
	if err := store.CheckProfile(c); err != nil {
		return err
	}
	return s.write(ctx, 1, func(tx *session) error {
		item, err := tx.item(getProfile, c.License, c.Account)
		if err != nil {
			return refused(err)
		}
		var old *metering.Profile
		if item != nil {
			p := store.ProfileOf(item)
			old = &p
		} else {
			item = metering.Item{}
		}
		maps.Copy(item, store.ProfileItem(c.Apply(old))) // attributes that nobody knows stay
		return tx.putItem(putProfile, item)
	})
}

// Profile reads a profile as it stands; nil where there is none.
func (s *Store) Profile(ctx context.Context, license, account string) (p *metering.Profile, err error) {
	err = s.read(ctx, func(d *decoder) error {
		item, err := d.item(getProfile, license, account)
		if item != nil {
			found := store.ProfileOf(item)
			p = &found
		}
		return err
	})
	return p, err
}
