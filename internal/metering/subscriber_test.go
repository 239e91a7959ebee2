package metering_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
)

const (
	aLicense = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	aBuyer   = "111122223333"
)

// clock is a time of the day that the tables speak of.
func clock(hour, minute, second int) time.Time {
	return time.Date(2026, 3, 10, hour, minute, second, 0, time.UTC)
}

var visited = clock(15, 0, 0)

func updated(at time.Time, agreement string) metering.SubscriberChange {
	return licenseEvent(at, agreement).UpdatedAt(visited)
}

func deprovisioned(at time.Time, agreement string) metering.SubscriberChange {
	return licenseEvent(at, agreement).DeprovisionedAt(visited)
}

func licenseEvent(at time.Time, agreement string) metering.LicenseEvent {
	e := metering.LicenseEvent{License: aLicense, Account: aBuyer, Agreement: agreement, At: at}
	if agreement != "" {
		e.ProductCode = "product-of-" + agreement
	}
	return e
}

func ended(at time.Time, agreement string) metering.SubscriberChange {
	return metering.AgreementEvent{Agreement: agreement, At: at}.EndedAt(aLicense, aBuyer, visited)
}

func amended(at time.Time, agreement string, end time.Time) metering.SubscriberChange {
	return metering.AgreementEvent{Agreement: agreement, Start: clock(0, 0, 0), End: end, At: at}.AmendedAt(aLicense, aBuyer, visited)
}

func finalized(now time.Time) metering.SubscriberChange {
	return metering.FinalizeAt(aLicense, aBuyer, now)
}

func registered(region string) metering.SubscriberChange {
	return metering.Registered(aLicense, aBuyer, "product-of-agmt-1", region, visited)
}

// after applies changes one after the other; nil where no subscriber came of them.
func after(changes ...metering.SubscriberChange) (s *metering.Subscriber) {
	for _, c := range changes {
		s = then(s, c)
	}
	return s
}

// then is the subscriber after one more change; the same where there is nothing to write.
func then(s *metering.Subscriber, c metering.SubscriberChange) *metering.Subscriber {
	if next, changed := c.Apply(s); changed {
		return &next
	}
	return s
}

// plain is a subscriber as its item, without keys and audit times.
func plain(s *metering.Subscriber) metering.Item {
	if s == nil {
		return nil
	}
	i := s.Item()
	for _, name := range []string{metering.AttrLicense, metering.AttrAccount, metering.AttrCreatedAt, metering.AttrUpdatedAt} {
		delete(i, name)
	}
	return i
}

type changes = []metering.SubscriberChange

// TestSubscriberRules: each rule by an example.
func TestSubscriberRules(t *testing.T) {
	t.Parallel()
	active := metering.Item{
		"productCode": "product-of-agmt-1", "agreementId": "agmt-1", "agreementStatus": "active", "agreementStatusAt": "2026-03-10T12:00:00Z",
		"subscriptionStatus": "active", "subscriptionStatusAt": "2026-03-10T12:00:00Z", "licenseUpdatedAt": "2026-03-10T12:00:00Z",
	}
	with := func(base metering.Item, pairs ...any) metering.Item {
		i := metering.Item{}
		for name, v := range base {
			i[name] = v
		}
		for n := 0; n < len(pairs); n += 2 {
			if i[pairs[n].(string)] = pairs[n+1]; pairs[n+1] == nil {
				delete(i, pairs[n].(string))
			}
		}
		return i
	}
	lastHour := with(active,
		"subscriptionStatus", "deprovisioning", "subscriptionStatusAt", "2026-03-10T13:00:00Z", "licenseDeprovisionedAt", []any{"2026-03-10T13:00:00Z"},
		"deprovisioningPendingFlag", "1", "deprovisioningExpiry", "2026-03-10T14:00:00Z")
	over := with(lastHour, "subscriptionStatus", "inactive", "deprovisioningPendingFlag", nil, "deprovisioningExpiry", nil)
	noon, one := clock(12, 0, 0), clock(13, 0, 0)
	up, down := updated(noon, "agmt-1"), deprovisioned(one, "agmt-1")

	for name, tt := range map[string]struct {
		changes changes
		want    metering.Item
	}{
		"Updated makes a subscriber":      {changes{up}, active},
		"a repeat changes nothing":        {changes{up, up}, active},
		"a newer one moves the times":     {changes{up, updated(clock(12, 30, 0), "agmt-1")}, with(active, "agreementStatusAt", "2026-03-10T12:30:00Z", "subscriptionStatusAt", "2026-03-10T12:30:00Z", "licenseUpdatedAt", "2026-03-10T12:30:00Z")},
		"an older one never wins":         {changes{up, updated(clock(11, 0, 0), "agmt-0")}, active},
		"fractions of a second are cut":   {changes{updated(noon.Add(999*time.Millisecond), "agmt-1")}, active},
		"Deprovisioned opens the hour":    {changes{up, down}, lastHour},
		"its repeat changes nothing":      {changes{up, down, down}, lastHour},
		"before Updated, the same":        {changes{down, up}, lastHour},
		"at equal times it beats Updated": {changes{down, updated(one, "agmt-1")}, with(lastHour, "licenseUpdatedAt", "2026-03-10T13:00:00Z", "agreementStatusAt", "2026-03-10T13:00:00Z")},
		"and the other way round":         {changes{updated(one, "agmt-1"), down}, with(lastHour, "licenseUpdatedAt", "2026-03-10T13:00:00Z", "agreementStatusAt", "2026-03-10T13:00:00Z")},
		"one before Updated is stale":     {changes{up, deprovisioned(clock(11, 59, 59), "agmt-1")}, active},
		"the expiry moves earlier": {
			changes{up, down, deprovisioned(clock(12, 30, 0), "agmt-1")},
			with(lastHour, "subscriptionStatusAt", "2026-03-10T12:30:00Z", "deprovisioningExpiry", "2026-03-10T13:30:00Z", "licenseDeprovisionedAt", []any{"2026-03-10T12:30:00Z", "2026-03-10T13:00:00Z"}),
		},
		"the expiry never moves later": {
			changes{up, down, deprovisioned(clock(13, 30, 0), "agmt-1")},
			with(lastHour, "licenseDeprovisionedAt", []any{"2026-03-10T13:00:00Z", "2026-03-10T13:30:00Z"}),
		},
		"the finalizer ends it":                                {changes{up, down, finalized(clock(14, 0, 0))}, over},
		"not a second too early (F31)":                         {changes{up, down, finalized(clock(13, 59, 59))}, lastHour},
		"ended, Deprovisioned again (F30)":                     {changes{up, down, finalized(clock(14, 0, 0)), down}, over},
		"ended, a stale Updated again (F30)":                   {changes{up, down, finalized(clock(14, 0, 0)), up}, over},
		"ended, an earlier Deprovisioned":                      {changes{up, down, finalized(clock(14, 0, 0)), deprovisioned(clock(12, 30, 0), "agmt-1")}, with(over, "subscriptionStatusAt", "2026-03-10T12:30:00Z", "licenseDeprovisionedAt", []any{"2026-03-10T12:30:00Z", "2026-03-10T13:00:00Z"})},
		"a newer Updated ends the last hour":                   {changes{up, down, updated(clock(13, 10, 0), "agmt-1")}, with(active, "agreementStatusAt", "2026-03-10T13:10:00Z", "subscriptionStatusAt", "2026-03-10T13:10:00Z", "licenseUpdatedAt", "2026-03-10T13:10:00Z")},
		"or revives what has ended (F30)":                      {changes{up, down, finalized(clock(14, 0, 0)), updated(clock(13, 10, 0), "agmt-1")}, with(active, "agreementStatusAt", "2026-03-10T13:10:00Z", "subscriptionStatusAt", "2026-03-10T13:10:00Z", "licenseUpdatedAt", "2026-03-10T13:10:00Z")},
		"the finalizer finds nobody":                           {changes{finalized(clock(14, 0, 0))}, nil},
		"and leaves who is active":                             {changes{up, finalized(clock(14, 0, 0))}, active},
		"Ended changes the agreement alone":                    {changes{up, down, ended(one, "agmt-1")}, with(lastHour, "agreementStatus", "inactive", "agreementStatusAt", "2026-03-10T13:00:00Z", "agreementEndedAt", "2026-03-10T13:00:00Z")},
		"at equal times Ended beats Updated":                   {changes{up, ended(noon, "agmt-1"), up}, with(active, "agreementStatus", "inactive", "agreementEndedAt", "2026-03-10T12:00:00Z")},
		"a stale Ended never wins, and is kept":                {changes{up, ended(clock(11, 59, 59), "agmt-1")}, with(active, "agreementEndedAt", "2026-03-10T11:59:59Z")},
		"as is one that Updated overrules":                     {changes{updated(clock(11, 0, 0), "agmt-1"), ended(clock(11, 59, 59), "agmt-1"), up}, with(active, "agreementEndedAt", "2026-03-10T11:59:59Z")},
		"the latest Ended is kept":                             {changes{up, ended(one, "agmt-1"), ended(noon, "agmt-1")}, with(active, "agreementStatus", "inactive", "agreementStatusAt", "2026-03-10T13:00:00Z", "agreementEndedAt", "2026-03-10T13:00:00Z")},
		"Ended of another agreement":                           {changes{up, ended(one, "agmt-2")}, active},
		"Ended makes no subscriber":                            {changes{ended(one, "agmt-1")}, nil},
		"Amended tells the agreement's times":                  {changes{up, amended(one, "agmt-1", clock(23, 0, 0))}, with(active, "agreementAmendedAt", "2026-03-10T13:00:00Z", "agreementStartTime", "2026-03-10T00:00:00Z", "agreementEndTime", "2026-03-10T23:00:00Z")},
		"an older Amended never wins":                          {changes{up, amended(one, "agmt-1", clock(23, 0, 0)), amended(noon, "agmt-1", clock(22, 0, 0))}, with(active, "agreementAmendedAt", "2026-03-10T13:00:00Z", "agreementStartTime", "2026-03-10T00:00:00Z", "agreementEndTime", "2026-03-10T23:00:00Z")},
		"another agreement knows nothing of this":              {changes{up, amended(one, "agmt-1", clock(23, 0, 0)), ended(one, "agmt-1"), updated(one, "agmt-2")}, with(active, "agreementId", "agmt-2", "productCode", "product-of-agmt-2", "agreementStatusAt", "2026-03-10T13:00:00Z", "subscriptionStatusAt", "2026-03-10T13:00:00Z", "licenseUpdatedAt", "2026-03-10T13:00:00Z")},
		"Deprovisioned names the agreement until Updated does": {changes{deprovisioned(one, "agmt-2"), up}, lastHour},
		"and moves no license to another":                      {changes{up, deprovisioned(one, "agmt-2")}, lastHour},
		"of several before Updated, the latest names it": {
			changes{deprovisioned(one, "agmt-2"), deprovisioned(noon, "agmt-1"), deprovisioned(one, "agmt-1")},
			with(lastHour, "agreementId", "agmt-2", "productCode", "product-of-agmt-2", "agreementStatus", nil, "agreementStatusAt", nil,
				"licenseUpdatedAt", nil, "subscriptionStatusAt", "2026-03-10T12:00:00Z", "deprovisioningExpiry", "2026-03-10T13:00:00Z",
				"licenseDeprovisionedAt", []any{"2026-03-10T12:00:00Z", "2026-03-10T13:00:00Z"}),
		},
		"Updated that names no agreement speaks of the one that is known": {changes{deprovisioned(one, "agmt-1"), updated(noon, "")}, lastHour},
		"or of the one that is filled in":                                 {changes{updated(noon, ""), deprovisioned(one, "agmt-1")}, lastHour},
		"even by an event too old to tell more":                           {changes{updated(noon, ""), deprovisioned(clock(11, 0, 0), "agmt-1")}, active},
		"an hour after a revival that was told late is an hour of its own": {
			changes{up, down, finalized(clock(14, 0, 0)), deprovisioned(clock(14, 20, 0), "agmt-1"), updated(clock(14, 10, 0), "agmt-1")},
			with(lastHour, "agreementStatusAt", "2026-03-10T14:10:00Z", "licenseUpdatedAt", "2026-03-10T14:10:00Z", "subscriptionStatusAt", "2026-03-10T14:20:00Z",
				"licenseDeprovisionedAt", []any{"2026-03-10T14:20:00Z"}, "deprovisioningExpiry", "2026-03-10T15:20:00Z"),
		},
		"an agreement known late is filled in": {changes{deprovisioned(one, ""), up}, lastHour},
		"registered before any event":          {changes{registered("us-east-1")}, metering.Item{"productCode": "product-of-agmt-1", "registeredRegions": []any{"us-east-1"}}},
		"registered in two Regions, again": {
			changes{registered("us-east-1"), registered("eu-west-1"), registered("us-east-1")},
			metering.Item{"productCode": "product-of-agmt-1", "registeredRegions": []any{"eu-west-1", "us-east-1"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, plain(after(tt.changes...))); diff != "" {
				t.Errorf("subscriber (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCase52EitherOrderIsOneRow: an update-only handler dropped the event that came before the row. License Updated and registration
// make the same row, whichever comes first.
func TestCase52EitherOrderIsOneRow(t *testing.T) {
	t.Parallel()
	up, in := updated(clock(12, 0, 0), "agmt-1"), registered("us-east-1")
	want := metering.Item{
		"productCode": "product-of-agmt-1", "agreementId": "agmt-1", "agreementStatus": "active", "agreementStatusAt": "2026-03-10T12:00:00Z",
		"subscriptionStatus": "active", "subscriptionStatusAt": "2026-03-10T12:00:00Z", "licenseUpdatedAt": "2026-03-10T12:00:00Z",
		"registeredRegions": []any{"us-east-1"},
	}
	for _, order := range []changes{{up, in}, {in, up}} {
		if diff := cmp.Diff(want, plain(after(order...))); diff != "" {
			t.Errorf("subscriber (-want +got):\n%s", diff)
		}
	}
}

// TestTwoAtOnceAreAlwaysOne: of two License Updated of one second, the same agreement and product win in either order.
func TestTwoAtOnceAreAlwaysOne(t *testing.T) {
	t.Parallel()
	one, two := licenseEvent(clock(12, 0, 0), "agmt-1"), licenseEvent(clock(12, 0, 0), "agmt-2")
	one.ProductCode, two.ProductCode = "prod-9", "prod-8"
	a := after(one.UpdatedAt(visited), two.UpdatedAt(visited))
	b := after(two.UpdatedAt(visited), one.UpdatedAt(visited))
	if diff := cmp.Diff(a, b); diff != "" || a.Agreement != "agmt-2" || a.ProductCode != "prod-8" {
		t.Errorf("%s of %s\n%s", a.ProductCode, a.Agreement, diff)
	}
}

// TestSubscriberKeepsWhatItDoesNotKnow: attributes of others stay through every change, and marks that cannot be read go with the
// last hour that they stood for.
func TestSubscriberKeepsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	old := metering.SubscriberFromItem(metering.Item{
		"licenseArn": aLicense, "customerAWSAccountId": aBuyer, "plan": "gold", "seats": true, "createdAt": "2026-01-01T00:00:00Z",
		"deprovisioningPendingFlag": "yes", "deprovisioningExpiry": "soon",
	})
	if !old.Expiry.IsZero() {
		t.Errorf("an expiry was read: %s", old.Expiry)
	}
	s, changed := updated(clock(12, 0, 0), "agmt-1").Apply(&old)
	if !changed {
		t.Fatal("nothing changed")
	}
	if diff := cmp.Diff(metering.Item{"plan": "gold", "seats": true}, s.Other); diff != "" {
		t.Errorf("others (-want +got):\n%s", diff)
	}
	if s.CreatedAt != "2026-01-01T00:00:00Z" || s.UpdatedAt == "" {
		t.Errorf("created %s, updated %s", s.CreatedAt, s.UpdatedAt)
	}
	if old.Other["deprovisioningPendingFlag"] != "yes" {
		t.Error("the change reached into what it was given")
	}
}

// TestSubscriberReadsOddItems: an item of whatever content is read and written back unchanged.
func TestSubscriberReadsOddItems(t *testing.T) {
	t.Parallel()
	for _, item := range []metering.Item{
		{"licenseArn": "", "registeredRegions": []any{}, "licenseDeprovisionedAt": []any{"never"}},
		{"licenseUpdatedAt": "yesterday", "subscriptionStatus": true, "registeredRegions": "us-east-1"},
		{"deprovisioningPendingFlag": "1"},
		{"deprovisioningPendingFlag": "1", "deprovisioningExpiry": ""},
		{"deprovisioningExpiry": "2026-03-10T14:00:00Z"},
		{"licenseDeprovisionedAt": []any{"2026-03-10T13:00:00Z", nil}},
		{"licenseUpdatedAt": "0001-01-01T00:00:00Z", "agreementEndedAt": "9999-12-31T23:59:59-01:00", "agreementStatusAt": "0000-01-01T00:00:00+01:00"},
		{"licenseDeprovisionedAt": []any{"2026-03-10T13:00:00Z", "0001-01-01T00:00:00Z"}},
	} {
		if diff := cmp.Diff(item, metering.SubscriberFromItem(item).Item()); diff != "" {
			t.Errorf("read and written (-want +got):\n%s", diff)
		}
	}
}

// TestSubscriberReadsTimesToTheSecond: what was read is what is read when it has been written.
func TestSubscriberReadsTimesToTheSecond(t *testing.T) {
	t.Parallel()
	s := metering.SubscriberFromItem(metering.Item{
		"licenseUpdatedAt": "2026-03-10T14:00:00.25+01:00", "licenseDeprovisionedAt": []any{"2026-03-10T13:00:00.5Z"},
	})
	if !s.Updated.Equal(clock(13, 0, 0)) || len(s.Deprovisioned) != 1 || !s.Deprovisioned[0].Equal(clock(13, 0, 0)) {
		t.Errorf("updated %s, deprovisioned %s", s.Updated, s.Deprovisioned)
	}
	if diff := cmp.Diff(s, metering.SubscriberFromItem(s.Item())); diff != "" {
		t.Error(diff)
	}
}
