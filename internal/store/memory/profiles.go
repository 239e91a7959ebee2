package memory

import (
	"context"
	"maps"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// SaveProfile adds to a profile, which is made where there is none.
func (s *Store) SaveProfile(ctx context.Context, c metering.ProfileChange) error {
	if err := store.CheckProfile(c); err != nil {
		return err
	}
	return s.write(ctx, func() error {
		at := place{c.License, c.Account}
		p := c.Apply(s.profiles[at])
		s.profiles[at] = &p
		return nil
	})
}

// Profile reads a profile as it stands; nil where there is none.
func (s *Store) Profile(ctx context.Context, license, account string) (*metering.Profile, error) {
	return one(ctx, s, func() *metering.Profile { return s.profiles[place{license, account}] }, func(p *metering.Profile) metering.Profile {
		c := *p
		c.Fields, c.Promoted = maps.Clone(p.Fields), maps.Clone(p.Promoted)
		return c
	})
}
