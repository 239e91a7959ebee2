package memory

import (
	"cmp"
	"context"
	"slices"

	"github.com/awsmp/metering/internal/metering"
)

// PutDeprovisioning marks a license as being in its last hour, in the place of an earlier mark.
func (s *Store) PutDeprovisioning(ctx context.Context, d metering.Deprovisioning) error {
	return s.write(ctx, func() error {
		s.deprovisioning[place{d.License, d.Account}] = d
		return nil
	})
}

// RemoveDeprovisioning takes the mark away, if there is one.
func (s *Store) RemoveDeprovisioning(ctx context.Context, license, account string) error {
	return s.write(ctx, func() error {
		delete(s.deprovisioning, place{license, account})
		return nil
	})
}

// Deprovisioning lists the licenses in their last hour, the one that ends first at the head.
func (s *Store) Deprovisioning(ctx context.Context) ([]metering.Deprovisioning, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.queries.Add(1)
	s.mu.RLock()
	list := make([]metering.Deprovisioning, 0, len(s.deprovisioning))
	for _, d := range s.deprovisioning {
		list = append(list, d)
	}
	s.mu.RUnlock()
	s.itemsRead.Add(int64(len(list)))
	slices.SortFunc(list, func(a, b metering.Deprovisioning) int {
		return cmp.Or(a.Expiry.Compare(b.Expiry), cmp.Compare(a.License, b.License), cmp.Compare(a.Account, b.Account))
	})
	return list, nil
}
