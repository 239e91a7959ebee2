package dynamodb

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store"
)

// Profiles is the customer-profile table. It is safe for concurrent use.
type Profiles struct{ table *table }

// NewProfiles is the customer-profile table of that name, in the client's Region.
func NewProfiles(client *dynamodb.Client, name string) *Profiles {
	return &Profiles{&table{client: client, name: name, sortKey: metering.AttrAccount}}
}

// Profile reads a profile consistently; nil where there is none.
func (p *Profiles) Profile(ctx context.Context, license, account string) (*metering.Profile, error) {
	item, err := p.table.get(ctx, "read profile", license, account)
	if err != nil || item == nil {
		return nil, err
	}
	profile := store.ProfileOf(itemOf(item))
	return &profile, nil
}

// SaveProfile adds to a profile, which is made where there is none. It is one UpdateItem that reads nothing, so that who may save a
// profile need not be allowed to see any: first for a profile that is not there yet, then for one that is. Nothing that it fails with
// holds a field's value.
func (p *Profiles) SaveProfile(ctx context.Context, c metering.ProfileChange) error {
	const operation = "save profile"
	if err := store.CheckProfile(c); err != nil {
		return &awsapi.Error{Class: awsapi.Invalid, Operation: operation, Resource: p.table.name, Err: err}
	}
	key := p.table.key(c.License, c.Account)
	for range rounds {
		for _, change := range []*change{first(c), further(c)} {
			if done, err := p.table.try(ctx, operation, key, change); done || err != nil {
				return withoutValues(err, c.Fields)
			}
		}
	}
	return p.table.restless(operation)
}

// first sets all fields at once where there are none. What stands in their place and is no map is nobody's.
func first(c metering.ProfileChange) *change {
	u := profileChange(c)
	u.absentOr(metering.AttrRegistrationData, "NOT "+u.isType(metering.AttrRegistrationData, "M"))
	fields := make(raw, len(c.Fields))
	for name, v := range c.Fields {
		fields[name] = text(v)
	}
	u.set(metering.AttrRegistrationData, &types.AttributeValueMemberM{Value: fields})
	return u
}

// further sets each field among those that are there.
func further(c metering.ProfileChange) *change {
	u := profileChange(c)
	u.need(u.isType(metering.AttrRegistrationData, "M"))
	for name, v := range c.Fields {
		u.sets = append(u.sets, u.name(metering.AttrRegistrationData)+"."+u.name(name)+" = "+u.value(text(v)))
	}
	return u
}

func profileChange(c metering.ProfileChange) *change {
	u := newChange()
	u.setText(metering.AttrProductCode, c.ProductCode)
	if c.CustomerIdentifier != "" {
		u.set(metering.AttrCustomerIdentifier, text(c.CustomerIdentifier))
	}
	for name, v := range c.Copies() {
		u.set(name, text(v))
	}
	u.stamp(c.At)
	return u
}

// withoutValues keeps what a buyer has typed out of an error, should the service repeat it.
func withoutValues(err error, fields map[string]string) error {
	var known *awsapi.Error
	if !errors.As(err, &known) {
		return err
	}
	for _, v := range fields {
		if v != "" && strings.Contains(known.Err.Error(), v) { // all else is ours
			return &awsapi.Error{
				Class: known.Class, Operation: known.Operation, Resource: known.Resource, Hint: known.Hint,
				Err: errors.New("refused; the service's words repeat a field's value"),
			}
		}
	}
	return err
}
