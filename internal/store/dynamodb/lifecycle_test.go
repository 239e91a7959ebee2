package dynamodb_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/awsmp/metering/internal/awsapi"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/standin"
	"github.com/awsmp/metering/internal/store/dynamodb"
)

// closing puts a license into its last hour, past the proxy.
func (w *world) closing(t *testing.T, d metering.Deprovisioning) {
	t.Helper()
	e := metering.LicenseEvent{License: d.License, Account: d.Account, At: d.Expiry.Add(-metering.DeprovisionWindow)}
	_, changed, err := dynamodb.NewSubscribers(w.direct, w.subscribersTable).ChangeSubscriber(t.Context(), e.DeprovisionedAt(now()))
	if check(t, err); !changed {
		t.Fatalf("%+v changes nothing", d)
	}
}

// subscriberOf is the subscriber that an item is read as, its sets as lists.
func subscriberOf(item map[string]types.AttributeValue) *metering.Subscriber {
	read := make(metering.Item)
	for name, v := range item {
		switch v := shown(v).(type) {
		case []string:
			list := make([]any, len(v))
			for i, s := range v {
				list[i] = s
			}
			read[name] = list
		default:
			read[name] = v
		}
	}
	for name, v := range subscriberKey() {
		read[name] = shown(v)
	}
	s := metering.SubscriberFromItem(read)
	return &s
}

func subscriberKey() map[string]types.AttributeValue {
	return map[string]types.AttributeValue{metering.AttrLicense: text(license), metering.AttrAccount: text(buyer)}
}

// item is what stands in a table under the one license and account, as the service holds it.
func (w *world) item(t *testing.T, table string) map[string]types.AttributeValue {
	t.Helper()
	out, err := w.direct.GetItem(t.Context(), &sdk.GetItemInput{TableName: &table, Key: subscriberKey(), ConsistentRead: aws.Bool(true)})
	check(t, err)
	return out.Item
}

func (w *world) putItem(t *testing.T, table string, attributes map[string]types.AttributeValue) {
	t.Helper()
	item := subscriberKey()
	maps.Copy(item, attributes)
	_, err := w.direct.PutItem(t.Context(), &sdk.PutItemInput{TableName: &table, Item: item})
	check(t, err)
}

func set(texts ...string) types.AttributeValue { return &types.AttributeValueMemberSS{Value: texts} }

// shown is an attribute in a form that can be compared; a set has no order.
func shown(v types.AttributeValue) any {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return v.Value
	case *types.AttributeValueMemberSS:
		return slices.Sorted(slices.Values(v.Value))
	case *types.AttributeValueMemberN:
		return "number " + v.Value
	case *types.AttributeValueMemberM:
		m := make(map[string]any)
		for name, e := range v.Value {
			m[name] = shown(e)
		}
		return m
	}
	return v
}

func registered(region string) metering.SubscriberChange {
	return metering.Registered(license, buyer, "prod-a", region, now())
}

// F1: a registration is one UpdateItem that the service takes, and the subscriber is there: a new one, one from another Region, and one
// of which the events have told already, whose statuses and unknown attributes stay.
func TestF1RegistrationWritesASubscriber(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		register := func(region string, changes bool) {
			t.Helper()
			w.proxy.Forget()
			_, changed, err := w.subscribers.ChangeSubscriber(t.Context(), registered(region))
			if check(t, err); changed != changes {
				t.Errorf("%s: changed %v, want %v", region, changed, changes)
			}
			want := []string{"GetItem", "UpdateItem"}
			if !changes {
				want = want[:1]
			}
			same(t, "calls", want, w.operations())
		}
		register("us-east-1", true)
		register("us-east-1", false)
		register("eu-west-1", true)
		first := map[string]any{
			metering.AttrLicense: license, metering.AttrAccount: buyer, metering.AttrProductCode: "prod-a",
			metering.AttrRegisteredRegions: []string{"eu-west-1", "us-east-1"}, metering.AttrCreatedAt: "2026-03-10T15:20:00Z", metering.AttrUpdatedAt: "2026-03-10T15:20:00Z",
		}
		same(t, "a new subscriber", shown(&types.AttributeValueMemberM{Value: w.item(t, w.subscribersTable)}), any(first))

		known := map[string]types.AttributeValue{
			metering.AttrAgreement: text("agmt-a"), metering.AttrAgreementStatus: text("active"), metering.AttrAgreementStatusAt: text("2026-03-10T14:00:00Z"),
			metering.AttrSubscriptionStatus: text("deprovisioning"), metering.AttrSubscriptionStatusAt: text("2026-03-10T14:30:00Z"),
			metering.AttrLicenseUpdatedAt: text("2026-03-10T14:00:00Z"), metering.AttrDeprovisionedAt: set("2026-03-10T14:40:00Z", "2026-03-10T14:30:00Z"),
			metering.AttrDeprovisioningFlag: text("1"), metering.AttrDeprovisioningExpiry: text("2026-03-10T15:30:00Z"),
			metering.AttrCreatedAt: text("2026-03-01T00:00:00Z"), metering.AttrUpdatedAt: text("2026-03-01T00:00:00Z"),
			"tier": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"name": text("gold")}}, "seats": &types.AttributeValueMemberNS{Value: []string{"1", "2"}},
		}
		w.putItem(t, w.subscribersTable, known)
		register("us-east-1", true)
		register("eu-west-1", true)
		want := subscriberKey()
		maps.Copy(want, known)
		want[metering.AttrProductCode], want[metering.AttrRegisteredRegions], want[metering.AttrUpdatedAt] = text("prod-a"), set("us-east-1", "eu-west-1"), text("2026-03-10T15:20:00Z")
		got := w.item(t, w.subscribersTable)
		for name := range want {
			if name != "seats" {
				same(t, name, shown(want[name]), shown(got[name]))
			}
		}
		if seats, ok := got["seats"].(*types.AttributeValueMemberNS); !ok || len(seats.Value) != 2 || len(got) != len(want) {
			t.Errorf("%d attributes, want %d; seats %v", len(got), len(want), got["seats"])
		}
	})
}

// Each attribute that a change may rest on is changed by another between the read and the write: the change is made on what stands
// there then, and what the other has written is not undone.
func TestSubscriberChangedMeanwhile(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return now().Add(time.Duration(minute) * time.Minute) }
	stamp := func(minute int) types.AttributeValue { return text(at(minute).Format(time.RFC3339)) }
	base := map[string]types.AttributeValue{
		metering.AttrAgreement: text("agmt-a"), metering.AttrAgreementStatus: text("active"), metering.AttrAgreementStatusAt: stamp(0),
		metering.AttrAgreementAmendedAt: stamp(0), metering.AttrAgreementEndedAt: stamp(-1), metering.AttrAgreementEnd: stamp(900), metering.AttrAgreementStart: stamp(1),
		metering.AttrSubscriptionStatus: text("deprovisioning"), metering.AttrSubscriptionStatusAt: stamp(5), metering.AttrLicenseUpdatedAt: stamp(0),
		metering.AttrDeprovisionedAt: set(at(5).Format(time.RFC3339)), metering.AttrDeprovisioningFlag: text("1"), metering.AttrDeprovisioningExpiry: stamp(65),
		metering.AttrRegisteredRegions: set("us-east-1"), metering.AttrCreatedAt: stamp(-900), metering.AttrUpdatedAt: stamp(-900), metering.AttrProductCode: text("prod-a"),
		"note": text("of nobody"),
	}
	ended := metering.AgreementEvent{Agreement: "agmt-a", At: at(7)}.EndedAt(license, buyer, now())
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		for name, after := range map[string]types.AttributeValue{
			metering.AttrAgreement: text("agmt-b"), metering.AttrAgreementStatus: text("inactive"), metering.AttrAgreementStatusAt: stamp(8),
			metering.AttrAgreementAmendedAt: stamp(9), metering.AttrAgreementEndedAt: stamp(8), metering.AttrAgreementEnd: nil, metering.AttrAgreementStart: stamp(2),
			metering.AttrSubscriptionStatus: text("active"), metering.AttrSubscriptionStatusAt: stamp(6), metering.AttrLicenseUpdatedAt: stamp(1),
			metering.AttrDeprovisionedAt: set(at(5).Format(time.RFC3339), at(6).Format(time.RFC3339)), metering.AttrDeprovisioningFlag: nil,
			metering.AttrDeprovisioningExpiry: stamp(64), metering.AttrRegisteredRegions: set("us-east-1", "eu-west-1"),
			metering.AttrCreatedAt: nil, metering.AttrUpdatedAt: stamp(-1), metering.AttrProductCode: text("prod-b"), "note": nil,
		} {
			w.putItem(t, w.subscribersTable, base)
			meanwhile := maps.Clone(base)
			if meanwhile[name] = after; after == nil {
				delete(meanwhile, name)
			}
			updates := 0
			w.proxy.Intercept(func(c standin.Call) standin.Action {
				if c.Operation == "UpdateItem" {
					if updates++; updates == 1 {
						w.putItem(t, w.subscribersTable, meanwhile)
					}
				}
				return standin.Action{}
			})
			got, changed, err := w.subscribers.ChangeSubscriber(t.Context(), ended)
			check(t, err)
			w.proxy.Intercept(nil)

			stands := w.item(t, w.subscribersTable)
			want, changes := ended.Apply(subscriberOf(meanwhile))
			if changed != changes {
				t.Errorf("%s: changed %v, want %v", name, changed, changes)
			}
			same(t, name+": answered", want, got)
			same(t, name+": stands", &want, subscriberOf(stands))
			if tries := map[bool]int{true: 1, false: 2}[name == "note"]; changes && updates != tries {
				t.Errorf("%s: written in %d tries, want %d", name, updates, tries)
			}
		}
	})
}

// Two who make the subscriber at once: the second finds the first's.
func TestSubscriberMadeMeanwhile(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		direct := dynamodb.NewSubscribers(w.direct, w.subscribersTable)
		first := true
		w.proxy.Intercept(func(c standin.Call) standin.Action {
			if c.Operation == "UpdateItem" && first {
				first = false
				if _, _, err := direct.ChangeSubscriber(t.Context(), registered("eu-west-1")); err != nil {
					t.Error(err)
				}
			}
			return standin.Action{}
		})
		got, changed, err := w.subscribers.ChangeSubscriber(t.Context(), registered("us-east-1"))
		if check(t, err); !changed {
			t.Error("nothing was changed")
		}
		same(t, "Regions", []string{"eu-west-1", "us-east-1"}, got.Regions)
	})
}

// A subscriber that never stands still is an error that may pass.
func TestSubscriberNeverStandsStill(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Moto(t), dynamodb.Options{})
	region := 'a'
	w.proxy.Intercept(func(c standin.Call) standin.Action {
		if c.Operation == "UpdateItem" {
			region++
			w.putItem(t, w.subscribersTable, map[string]types.AttributeValue{metering.AttrRegisteredRegions: set(string(region))})
		}
		return standin.Action{}
	})
	_, changed, err := w.subscribers.ChangeSubscriber(t.Context(), registered("us-east-1"))
	wantClass(t, "ChangeSubscriber", awsapi.Unavailable, err, "changes faster")
	if changed {
		t.Error("it says that something was changed")
	}
}

// The answer to a write is lost, and the change is asked for again: it is made once. What the SDK repeats by itself finds its own work.
func TestSubscriberAnswerLost(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		var want *metering.Subscriber
		for name, c := range map[string]metering.SubscriberChange{
			"registered": registered("us-east-1"), "in another Region": registered("eu-west-1"),
			"deprovisioned": metering.LicenseEvent{License: license, Account: buyer, At: now()}.DeprovisionedAt(now()),
		} {
			after, changed := c.Apply(want)
			if !changed {
				t.Fatal("there is nothing to do")
			}
			want = &after
			w.proxy.Intercept(func(c standin.Call) standin.Action { return standin.Action{Drop: c.Operation == "UpdateItem"} })
			_, changed, err := w.subscribers.ChangeSubscriber(t.Context(), c)
			wantClass(t, name, awsapi.Unavailable, err)
			if changed {
				t.Errorf("%s: it says that something was changed", name)
			}
			w.proxy.Intercept(nil)
			got, changed, err := w.subscribers.ChangeSubscriber(t.Context(), c)
			if check(t, err); changed {
				t.Errorf("%s again: something was changed", name)
			}
			same(t, name+", again", want, &got)
		}
		lost := true
		w.proxy.Intercept(func(c standin.Call) standin.Action {
			if c.Operation != "UpdateItem" || !lost {
				return standin.Action{}
			}
			lost = false
			return standin.Action{Drop: true}
		})
		cfg := standin.Config(w.proxy.URL)
		tries := dynamodb.NewSubscribers(sdk.NewFromConfig(cfg), w.subscribersTable)
		c := registered("ap-south-1")
		after, _ := c.Apply(want)
		got, _, err := tries.ChangeSubscriber(t.Context(), c)
		check(t, err)
		same(t, "tried again by the SDK", after, got)
	})
}

// A profile is saved without a read, and the service is not asked to hand out what stands there: whoever may save need not be allowed to see.
func TestProfileIsSavedWithoutARead(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		c := metering.ProfileChange{License: license, Account: buyer, ProductCode: "prod-a", Fields: map[string]string{"companyName": "Example Corp", "contactName": "Ada Example"}, Promoted: []string{"companyName"}, At: now()}
		for _, updates := range []int{1, 2} {
			w.proxy.Forget()
			check(t, w.profiles.SaveProfile(t.Context(), c))
			same(t, "calls", slices.Repeat([]string{"UpdateItem"}, updates), w.operations())
			for _, call := range w.proxy.Calls() {
				if strings.Contains(string(call.Body), "ALL_OLD") {
					t.Errorf("it asks for what stands there: %s", call.Body)
				}
			}
		}
		w.proxy.Intercept(func(standin.Call) standin.Action { return standin.Action{Drop: true} })
		wantClass(t, "its answer lost", awsapi.Unavailable, w.profiles.SaveProfile(t.Context(), c))
		w.proxy.Intercept(nil)
		check(t, w.profiles.SaveProfile(t.Context(), c))
		p, err := w.profiles.Profile(t.Context(), license, buyer)
		check(t, err)
		want := c.Apply(nil)
		same(t, "profile", &want, p)

		out, err := w.direct.Query(t.Context(), &sdk.QueryInput{
			TableName: &w.profileTable, IndexName: aws.String("companyName-index"), KeyConditionExpression: aws.String("companyName = :c"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":c": text("Example Corp")},
		})
		check(t, err)
		if len(out.Items) != 1 || len(out.Items[0]) != 3 {
			t.Errorf("by the promoted field: %v", out.Items)
		}
	})
}

// Attributes of the seller's own stay, in the profile and among its fields; one that keeps the fields from their place gives way.
func TestProfileOfTheSellersOwn(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, url string) {
		w := newWorld(t, url, dynamodb.Options{})
		three := &types.AttributeValueMemberN{Value: "3"}
		c := metering.ProfileChange{License: license, Account: buyer, ProductCode: "prod-a", Fields: map[string]string{"contactName": "Ada Example"}, At: now()}
		for name, data := range map[string]types.AttributeValue{
			"none": nil, "nothing": &types.AttributeValueMemberNULL{Value: true}, "text": text("none"),
			"fields": &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{"seats": three, "contactName": text("Bo")}},
		} {
			item := map[string]types.AttributeValue{"score": three, "owner": text("sales")}
			if data != nil {
				item[metering.AttrRegistrationData] = data
			}
			w.putItem(t, w.profileTable, item)
			check(t, w.profiles.SaveProfile(t.Context(), c))
			fields := map[string]any{"contactName": "Ada Example"}
			if name == "fields" {
				fields["seats"] = "number 3"
			}
			got := shown(&types.AttributeValueMemberM{Value: w.item(t, w.profileTable)})
			same(t, name, any(map[string]any{
				metering.AttrLicense: license, metering.AttrAccount: buyer, metering.AttrProductCode: "prod-a", "score": "number 3", "owner": "sales",
				metering.AttrRegistrationData: fields, metering.AttrCreatedAt: "2026-03-10T15:20:00Z", metering.AttrUpdatedAt: "2026-03-10T15:20:00Z",
			}), got)
		}
	})
}

// No error of a profile holds what a buyer has typed, whatever the service says.
func TestProfileErrorsHoldNoValue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, standin.Dynalite(t), dynamodb.Options{})
	const secret = "Ada Example"
	c := metering.ProfileChange{License: license, Account: buyer, ProductCode: "prod-a", Fields: map[string]string{"contactName": secret}, At: now()}
	for name, tt := range map[string]struct {
		action standin.Action
		class  awsapi.Class
		says   string
	}{
		"refused": {standin.Exception(400, "com.amazon.coral.validate#ValidationException", "One or more parameter values were invalid: "+secret), awsapi.Invalid, "repeat a field's value"},
		"large":   {standin.Exception(400, "com.amazon.coral.validate#ValidationException", "Item size to update has exceeded the maximum allowed size: "+secret), awsapi.TooLarge, "repeat a field's value"},
		"denied":  {standin.Exception(400, "com.amazon.coral.service#AccessDeniedException", "User: r is not authorized to perform: dynamodb:UpdateItem"), awsapi.Denied, "dynamodb:UpdateItem on " + w.profileTable},
		"gone":    {standin.Action{Drop: true}, awsapi.Unavailable, "save profile"},
	} {
		w.proxy.Intercept(func(standin.Call) standin.Action { return tt.action })
		err := w.profiles.SaveProfile(t.Context(), c)
		wantClass(t, name, tt.class, err, tt.says, w.profileTable)
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), secret) || strings.Contains(e.Error(), "Ada") {
				t.Errorf("%s: %v", name, e)
			}
		}
	}
}
