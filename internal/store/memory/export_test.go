package memory

import (
	"context"

	"github.com/awsmp/metering/internal/metering"
)

// PutSubscriber puts an item into the subscribers table, as no stage does.
func (s *Store) PutSubscriber(ctx context.Context, item metering.Item) error {
	return s.write(ctx, func() error {
		sub := metering.SubscriberFromItem(cloneItem(item))
		s.setSubscriber(place{sub.License, sub.Account}, sub)
		return nil
	})
}
