package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// Subscribers is the subscribers table. It is safe for concurrent use.
type Subscribers struct{ table *table }

// NewSubscribers is the subscribers table of that name. The table is in one Region for all: the client may be of another one than
// those of the usage tables.
func NewSubscribers(client *dynamodb.Client, name string) *Subscribers {
	return &Subscribers{&table{client: client, name: name, sortKey: metering.AttrAccount}}
}

// Deprovisioning lists the licenses in their last hour, the one that ends first at the head. It reads the index that holds no others
// (F43). The index may lag behind the table.
//
// A list and an error may come together: what could be read is in the list and is right, and the error says what is missing from it.
// That is a license whose end is no time, which takes no other's last hour away, or what stood behind a page that could not be read.
func (s *Subscribers) Deprovisioning(ctx context.Context) ([]metering.Deprovisioning, error) {
	const operation = "list licenses in their last hour"
	var list []metering.Deprovisioning
	var failed error
	var odd []error
	for item, err := range query(ctx, s.table, operation, dynamodb.QueryInput{
		IndexName:                 aws.String(metering.DeprovisioningIndex),
		KeyConditionExpression:    aws.String("#flag = :flag"),
		ExpressionAttributeNames:  map[string]string{"#flag": metering.AttrDeprovisioningFlag},
		ExpressionAttributeValues: raw{":flag": text(metering.DeprovisioningFlag)},
	}, itemOf) {
		if err != nil {
			failed = err
			break
		}
		if d, err := deprovisioningOf(item); err != nil {
			odd = append(odd, err)
		} else {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, store.EndsFirst)
	if len(odd) > 0 {
		failed = errors.Join(failed, &awsapi.Error{
			Class: awsapi.Invalid, Operation: operation, Resource: s.table.name, Err: some(odd),
			Hint: "give the item a " + metering.AttrDeprovisioningExpiry + " like 2026-03-10T15:20:00Z",
		})
	}
	return list, failed
}

// some names the first few of what may be many.
func some(errs []error) error {
	const most = 5
	if len(errs) == 1 {
		return errs[0]
	}
	var words []string
	for _, err := range errs[:min(len(errs), most)] {
		words = append(words, err.Error())
	}
	if n := len(errs) - most; n > 0 {
		words = append(words, fmt.Sprintf("and %d more", n))
	}
	return errors.New(strings.Join(words, "; "))
}

func deprovisioningOf(item metering.Item) (d metering.Deprovisioning, err error) {
	d.License, _ = item[metering.AttrLicense].(string)
	d.Account, _ = item[metering.AttrAccount].(string)
	expiry, _ := item[metering.AttrDeprovisioningExpiry].(string)
	if d.Expiry, err = time.Parse(time.RFC3339, expiry); err != nil {
		return d, fmt.Errorf("the last hour of license %s ends at no time: %.40q", metering.Masked(d.License), expiry)
	}
	return d, nil
}

// Subscriber reads a subscriber consistently; nil where there is none.
func (s *Subscribers) Subscriber(ctx context.Context, license, account string) (*metering.Subscriber, error) {
	item, err := s.table.get(ctx, "read subscriber", license, account)
	if err != nil {
		return nil, err
	}
	return oldSubscriber(item), nil
}

// AgreementSubscribers reads the licenses of an agreement from an index, all pages, in no order. The index may lag behind the table.
func (s *Subscribers) AgreementSubscribers(ctx context.Context, agreement string) iter.Seq2[metering.Subscriber, error] {
	if agreement == "" { // which is no index key
		return func(func(metering.Subscriber, error) bool) {}
	}
	return query(ctx, s.table, "read an agreement's subscribers", dynamodb.QueryInput{
		IndexName:                 aws.String(metering.AgreementIndex),
		KeyConditionExpression:    aws.String("#agreement = :agreement"),
		ExpressionAttributeNames:  map[string]string{"#agreement": metering.AttrAgreement},
		ExpressionAttributeValues: raw{":agreement": text(agreement)},
	}, subscriberOf)
}

// ChangeSubscriber makes a change of a subscriber, on what stands there at that moment. It returns the subscriber after it, and whether
// there was anything to write; the zero Subscriber where there is none.
//
// The write is one UpdateItem on the condition that all that the change has seen still is as it was read: what another has changed
// meanwhile is judged anew. So a change whose answer was lost may be asked for again.
func (s *Subscribers) ChangeSubscriber(ctx context.Context, c metering.SubscriberChange) (metering.Subscriber, bool, error) {
	const operation = "change subscriber"
	if err := store.CheckSubscriber(c.License, c.Account); err != nil {
		return metering.Subscriber{}, false, &awsapi.Error{Class: awsapi.Invalid, Operation: operation, Resource: s.table.name, Err: err}
	}
	stands, err := s.table.get(ctx, operation, c.License, c.Account)
	for range rounds {
		if err != nil {
			return metering.Subscriber{}, false, err
		}
		after, changed := c.Apply(oldSubscriber(stands))
		if !changed {
			return after, false, nil
		}
		done, item, failed := s.table.update(ctx, operation, s.table.key(c.License, c.Account), s.becomes(stands, after), types.ReturnValueAllNew)
		if done {
			return subscriberOf(item), true, nil
		}
		stands, err = item, failed
	}
	if err == nil {
		err = s.table.restless(operation)
	}
	return metering.Subscriber{}, false, err
}

// subscriberAttributes are those that a change may rest on or write, but for the keys.
func subscriberAttributes() []string {
	return []string{
		metering.AttrProductCode, metering.AttrAgreement, metering.AttrAgreementStatus, metering.AttrAgreementStatusAt,
		metering.AttrAgreementStart, metering.AttrAgreementEnd, metering.AttrAgreementAmendedAt, metering.AttrAgreementEndedAt,
		metering.AttrSubscriptionStatus, metering.AttrSubscriptionStatusAt, metering.AttrLicenseUpdatedAt, metering.AttrDeprovisionedAt,
		metering.AttrDeprovisioningFlag, metering.AttrDeprovisioningExpiry, metering.AttrRegisteredRegions,
		metering.AttrCreatedAt, metering.AttrUpdatedAt,
	}
}

// becomes makes another subscriber of the item that was read, nil where there was none: it writes what differs, and asks that all
// else stands as it was. Attributes that nobody here knows it neither looks at nor touches.
func (s *Subscribers) becomes(old raw, after metering.Subscriber) *change {
	c := newChange()
	if old == nil {
		c.absent(s.table.sortKey)
	} else {
		c.exists(s.table.sortKey)
		c.unchanged(old, subscriberAttributes()...)
	}
	before, item := subscriberItem(old), after.Item()
	for _, name := range subscriberAttributes() {
		v, stays := item[name]
		switch {
		case !stays && old[name] != nil:
			c.remove(name)
		case stays && !metering.SameValue(before[name], v):
			c.set(name, subscriberValue(name, v))
		}
	}
	return c
}

// subscriberItem reads an item, its sets as the lists that a subscriber knows.
func subscriberItem(r raw) metering.Item {
	item := itemOf(r)
	asList(item, metering.AttrDeprovisionedAt)
	asList(item, metering.AttrRegisteredRegions)
	return item
}

// subscriberValue is an attribute as it is stored: a list of texts as a set.
func subscriberValue(name string, v any) types.AttributeValue {
	list, ok := v.([]any)
	if !ok || name != metering.AttrDeprovisionedAt && name != metering.AttrRegisteredRegions {
		return attribute(v)
	}
	texts := make([]string, len(list))
	for i, e := range list {
		texts[i], _ = e.(string)
	}
	return setOf(texts)
}

func subscriberOf(r raw) metering.Subscriber { return metering.SubscriberFromItem(subscriberItem(r)) }

func oldSubscriber(r raw) *metering.Subscriber {
	if r == nil {
		return nil
	}
	sub := subscriberOf(r)
	return &sub
}
