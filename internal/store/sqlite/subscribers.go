package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"iter"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

const (
	getSubscriber = "SELECT license, account, attributes FROM subscriber WHERE license = ? AND account = ?"
	putSubscriber = "INSERT OR REPLACE INTO subscriber (license, account, attributes) VALUES (?, ?, ?)"
)

// Subscriber reads a subscriber as it stands; nil where there is none.
func (s *Store) Subscriber(ctx context.Context, license, account string) (sub *metering.Subscriber, err error) {
	err = s.read(ctx, func(d *decoder) error {
		sub, err = d.subscriber(license, account)
		return err
	})
	return sub, err
}

// ChangeSubscriber makes a change of a subscriber, on what stands there. It returns the subscriber after it, and whether there was
// anything to write; the zero Subscriber where there is none.
func (s *Store) ChangeSubscriber(ctx context.Context, c metering.SubscriberChange) (after metering.Subscriber, changed bool, err error) {
	if err := store.CheckSubscriber(c.License, c.Account); err != nil {
		return after, false, err
	}
	err = s.write(ctx, 1, func(tx *session) error {
		old, err := tx.subscriber(c.License, c.Account)
		if err != nil {
			return refused(err)
		}
		if after, changed = c.Apply(old); !changed {
			return nil
		}
		after = store.NormalSubscriber(after)
		return tx.putItem(putSubscriber, after.Item())
	})
	if err != nil {
		return metering.Subscriber{}, false, err
	}
	return after, changed, nil
}

func (c *conn) subscriber(license, account string) (*metering.Subscriber, error) {
	item, err := c.item(getSubscriber, license, account)
	if err != nil || item == nil {
		return nil, err
	}
	sub := metering.SubscriberFromItem(item)
	return &sub, nil
}

// subscriberOf reads the columns license, account and attributes.
func subscriberOf(v []driver.Value) (metering.Subscriber, error) {
	item, err := itemOf(v)
	return metering.SubscriberFromItem(item), err
}

// AgreementSubscribers are the licenses of an agreement, in the order of license and account.
func (s *Store) AgreementSubscribers(ctx context.Context, agreement string) iter.Seq2[metering.Subscriber, error] {
	return pages(ctx, s, func(d *decoder, p *page[metering.Subscriber], after place) error {
		return d.query("SELECT license, account, attributes FROM subscriber WHERE agreement = ? AND (license, account) > (?, ?) ORDER BY license, account",
			[]any{agreement, after.prefix, text(after.tail)}, func(v []driver.Value) (bool, error) {
				sub, err := subscriberOf(v)
				return p.add(sub, place{prefix: sub.License, tail: sub.Account}, 200+len(text(v[2]))), err
			})
	})
}

// Deprovisioning lists the licenses in their last hour, the one that ends first at the head. Where an end is no time, the others are
// listed all the same, beside an error.
func (s *Store) Deprovisioning(ctx context.Context) ([]metering.Deprovisioning, error) {
	var list []metering.Deprovisioning
	var odd []error
	err := s.read(ctx, func(d *decoder) error {
		list, odd = nil, nil
		return d.query("SELECT license, account, attributes FROM subscriber WHERE expiry IS NOT NULL ORDER BY expiry, license, account", nil,
			func(v []driver.Value) (bool, error) {
				sub, err := subscriberOf(v)
				if err == nil && sub.Expiry.IsZero() {
					err = fmt.Errorf("the last hour of license %s ends at no time", metering.Masked(text(v[0])))
				}
				if err != nil {
					odd = append(odd, err)
					return true, nil
				}
				list = append(list, metering.Deprovisioning{License: sub.License, Account: sub.Account, Expiry: sub.Expiry})
				return true, nil
			})
	})
	return list, errors.Join(err, errors.Join(odd...))
}
