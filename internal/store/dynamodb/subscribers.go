package dynamodb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
)

// What marks a license that is in its last hour: the flag, always "1", and the end, as 2006-01-02T15:04:05Z, so that the index sorts
// by time. Both go when the license is finished, and with them its entry in the index.
const (
	attrFlag   = "deprovisioningPendingFlag"
	attrExpiry = "deprovisioningExpiry"
	flagged    = "1"
)

// Subscribers is the subscribers table, as far as the pipeline asks for it. It is safe for concurrent use.
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
		IndexName:                 aws.String(deprovisioningIndex),
		KeyConditionExpression:    aws.String("#flag = :flag"),
		ExpressionAttributeNames:  map[string]string{"#flag": attrFlag},
		ExpressionAttributeValues: raw{":flag": text(flagged)},
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
	slices.SortFunc(list, func(a, b metering.Deprovisioning) int {
		return cmp.Or(a.Expiry.Compare(b.Expiry), cmp.Compare(a.License, b.License), cmp.Compare(a.Account, b.Account))
	})
	if len(odd) > 0 {
		failed = errors.Join(failed, &awsapi.Error{
			Class: awsapi.Invalid, Operation: operation, Resource: s.table.name, Err: some(odd),
			Hint: "give the item a " + attrExpiry + " like 2026-03-10T15:20:00Z",
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
	expiry, _ := item[attrExpiry].(string)
	if d.Expiry, err = time.Parse(time.RFC3339, expiry); err != nil {
		return d, fmt.Errorf("the last hour of license %s ends at no time: %.40q", metering.Masked(d.License), expiry)
	}
	return d, nil
}

// PutDeprovisioning marks a license as being in its last hour, in the place of an earlier mark. The end is kept to the second.
func (s *Subscribers) PutDeprovisioning(ctx context.Context, d metering.Deprovisioning) error {
	c := newChange()
	c.set(attrFlag, text(flagged))
	c.set(attrExpiry, text(d.Expiry.UTC().Format(time.RFC3339)))
	return s.mark(ctx, "mark a license's last hour", d.License, d.Account, c)
}

// RemoveDeprovisioning takes the mark away, if there is one. The subscriber stays.
func (s *Subscribers) RemoveDeprovisioning(ctx context.Context, license, account string) error {
	c := s.table.existing()
	c.remove(attrFlag)
	c.remove(attrExpiry)
	return s.mark(ctx, "end a license's last hour", license, account, c)
}

func (s *Subscribers) mark(ctx context.Context, operation, license, account string, c *change) error {
	if license == "" || account == "" {
		return &awsapi.Error{Class: awsapi.Invalid, Operation: operation, Resource: s.table.name, Err: errors.New("a subscriber needs a licenseArn and an account")}
	}
	_, _, err := s.table.update(ctx, operation, s.table.key(license, account), c, "")
	return err
}
