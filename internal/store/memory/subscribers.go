package memory

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// Subscriber reads a subscriber as it stands; nil where there is none.
func (s *Store) Subscriber(ctx context.Context, license, account string) (*metering.Subscriber, error) {
	return one(ctx, s, func() *metering.Subscriber { return s.subscribers[place{license, account}] }, cloneSubscriber)
}

// ChangeSubscriber makes a change of a subscriber, on what stands there. It returns the subscriber after it, and whether there was
// anything to write; the zero Subscriber where there is none.
func (s *Store) ChangeSubscriber(ctx context.Context, c metering.SubscriberChange) (after metering.Subscriber, changed bool, err error) {
	if err := store.CheckSubscriber(c.License, c.Account); err != nil {
		return after, false, err
	}
	err = s.write(ctx, func() error {
		at := place{c.License, c.Account}
		if after, changed = c.Apply(s.subscribers[at]); changed {
			after = store.NormalSubscriber(after)
			s.setSubscriber(at, after)
		}
		after = cloneSubscriber(&after)
		return nil
	})
	return after, changed, err
}

// setSubscriber keeps the index of the licenses in their last hour along.
func (s *Store) setSubscriber(at place, sub metering.Subscriber) {
	s.subscribers[at] = &sub
	if sub.Expiry.IsZero() {
		delete(s.deprovisioning, at)
	} else {
		s.deprovisioning[at] = &sub
	}
}

// AgreementSubscribers are the licenses of an agreement, in the order of license and account.
func (s *Store) AgreementSubscribers(ctx context.Context, agreement string) iter.Seq2[metering.Subscriber, error] {
	return store.Pages(ctx, func(_ context.Context, _ place) (list []metering.Subscriber, next place, more bool, err error) {
		s.queries.Add(1)
		s.mu.RLock()
		defer s.mu.RUnlock()
		for _, sub := range s.subscribers {
			if agreement != "" && sub.Agreement == agreement {
				list = append(list, cloneSubscriber(sub))
			}
		}
		s.itemsRead.Add(int64(len(list)))
		slices.SortFunc(list, func(a, b metering.Subscriber) int {
			return cmp.Or(cmp.Compare(a.License, b.License), cmp.Compare(a.Account, b.Account))
		})
		return list, place{}, false, nil
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
	for _, sub := range s.deprovisioning {
		list = append(list, metering.Deprovisioning{License: sub.License, Account: sub.Account, Expiry: sub.Expiry})
	}
	s.mu.RUnlock()
	s.itemsRead.Add(int64(len(list)))
	slices.SortFunc(list, store.EndsFirst)
	return list, nil
}
