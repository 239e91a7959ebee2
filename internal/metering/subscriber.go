package metering

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Attribute names of the subscribers table.
const (
	AttrProductCode          = "productCode"
	AttrAgreement            = "agreementId"
	AttrAgreementStatus      = "agreementStatus"
	AttrAgreementStatusAt    = "agreementStatusAt"
	AttrAgreementStart       = "agreementStartTime"
	AttrAgreementEnd         = "agreementEndTime"
	AttrAgreementEndedAt     = "agreementEndedAt"
	AttrAgreementAmendedAt   = "agreementAmendedAt"
	AttrSubscriptionStatus   = "subscriptionStatus"
	AttrSubscriptionStatusAt = "subscriptionStatusAt"
	AttrLicenseUpdatedAt     = "licenseUpdatedAt"
	AttrDeprovisionedAt      = "licenseDeprovisionedAt"
	AttrDeprovisioningFlag   = "deprovisioningPendingFlag"
	AttrDeprovisioningExpiry = "deprovisioningExpiry"
	AttrRegisteredRegions    = "registeredRegions"
)

// DeprovisioningFlag is the one value of the flag that a license in its last hour bears, and with it an entry in the sparse index.
const DeprovisioningFlag = "1"

// Indexes of the subscribers table.
const (
	AccountIndex        = "customerAWSAccountId-index"
	AgreementIndex      = "agreementId-index"
	DeprovisioningIndex = "deprovisioning-pending-index"
)

// LifecycleStatus is where an agreement or a license stands. Empty means that no event has told.
type LifecycleStatus string

// The statuses. An agreement is active or inactive; a license is all three, in this order.
const (
	LifecycleActive         LifecycleStatus = "active"
	LifecycleDeprovisioning LifecycleStatus = "deprovisioning"
	LifecycleInactive       LifecycleStatus = "inactive"
)

// Subscriber is what is known of a license and the account that holds it: identifiers, statuses, and nothing about a person. All
// times are those of Marketplace events, in UTC and to the second; zero where there was none.
//
// It is a function of the events alone, whatever order they arrive in and how often: each status is set by the latest event that speaks
// of it, at equal times Deprovisioned beats Updated and Ended beats Updated. One thing is left to the order: what is known of an agreement goes
// when the license leaves it, and does not come back with the license.
type Subscriber struct {
	License, Account  string
	ProductCode       string
	Agreement         string
	AgreementStatus   LifecycleStatus
	AgreementStatusAt time.Time // of the event that set it
	AgreementStart    time.Time // as the last amendment says
	AgreementEnd      time.Time
	AgreementAmended  time.Time // of the amendment
	AgreementEnded    time.Time // of the latest Ended, also one that a newer License Updated has overruled: for others it may be the newest
	Status            LifecycleStatus
	StatusAt          time.Time   // of the event that set it; of the first Deprovisioned of several
	Updated           time.Time   // of the latest License Updated
	Deprovisioned     []time.Time // of each License Deprovisioned since then, in order
	Expiry            time.Time   // end of the last hour; set only while deprovisioning
	Regions           []string    // in which the buyer has registered, in order
	CreatedAt         string
	UpdatedAt         string
	Other             Item
}

// SubscriberFromItem reads an item of the subscribers table. Sets are lists of text.
func SubscriberFromItem(item Item) Subscriber {
	r := newReader(item)
	s := Subscriber{
		License: r.text(AttrLicense), Account: r.text(AttrAccount), ProductCode: r.text(AttrProductCode), Agreement: r.text(AttrAgreement),
		AgreementStatus: LifecycleStatus(r.text(AttrAgreementStatus)), AgreementStatusAt: r.time(AttrAgreementStatusAt),
		AgreementStart: r.time(AttrAgreementStart), AgreementEnd: r.time(AttrAgreementEnd), AgreementAmended: r.time(AttrAgreementAmendedAt),
		AgreementEnded: r.time(AttrAgreementEndedAt),
		Status:         LifecycleStatus(r.text(AttrSubscriptionStatus)), StatusAt: r.time(AttrSubscriptionStatusAt),
		Updated: r.time(AttrLicenseUpdatedAt), Deprovisioned: r.times(AttrDeprovisionedAt), Regions: r.texts(AttrRegisteredRegions),
		CreatedAt: r.text(AttrCreatedAt), UpdatedAt: r.text(AttrUpdatedAt),
	}
	if r.rest[AttrDeprovisioningFlag] == DeprovisioningFlag {
		if s.Expiry = r.time(AttrDeprovisioningExpiry); !s.Expiry.IsZero() {
			delete(r.rest, AttrDeprovisioningFlag)
		}
	}
	slices.Sort(s.Regions)
	s.Other = r.other()
	return s
}

// Item writes the subscriber as an item of the subscribers table; SubscriberFromItem reads it back without loss.
func (s Subscriber) Item() Item {
	w := newWriter(s.Other)
	w.text(AttrLicense, s.License)
	w.text(AttrAccount, s.Account)
	w.text(AttrProductCode, s.ProductCode)
	w.text(AttrAgreement, s.Agreement)
	w.text(AttrAgreementStatus, string(s.AgreementStatus))
	w.time(AttrAgreementStatusAt, s.AgreementStatusAt)
	w.time(AttrAgreementStart, s.AgreementStart)
	w.time(AttrAgreementEnd, s.AgreementEnd)
	w.time(AttrAgreementAmendedAt, s.AgreementAmended)
	w.time(AttrAgreementEndedAt, s.AgreementEnded)
	w.text(AttrSubscriptionStatus, string(s.Status))
	w.time(AttrSubscriptionStatusAt, s.StatusAt)
	w.time(AttrLicenseUpdatedAt, s.Updated)
	w.times(AttrDeprovisionedAt, s.Deprovisioned)
	if !s.Expiry.IsZero() {
		w[AttrDeprovisioningFlag] = DeprovisioningFlag
		w.time(AttrDeprovisioningExpiry, s.Expiry)
	}
	w.texts(AttrRegisteredRegions, s.Regions)
	w.text(AttrCreatedAt, s.CreatedAt)
	w.text(AttrUpdatedAt, s.UpdatedAt)
	return Item(w)
}

// SubscriberChange is one change of a subscriber, which is made where there is none. A store applies it to what it holds and writes the
// outcome only while that is unchanged.
type SubscriberChange struct {
	License, Account string
	At               time.Time // when it is made: for the audit times
	change           func(s *Subscriber)
	existing         bool // makes no subscriber
}

// Apply is the subscriber after the change, and whether there is anything to write. Old is nil where there is none.
func (c SubscriberChange) Apply(old *Subscriber) (Subscriber, bool) {
	if old == nil && c.existing {
		return Subscriber{}, false
	}
	before := Subscriber{License: c.License, Account: c.Account}
	if old != nil {
		before = *old
	}
	s := before
	s.Deprovisioned, s.Regions, s.Other = slices.Clone(s.Deprovisioned), slices.Clone(s.Regions), maps.Clone(s.Other)
	c.change(&s)
	if old != nil && reflect.DeepEqual(before.Item(), s.Item()) {
		return before, false
	}
	s.CreatedAt, s.UpdatedAt = stamp(s.CreatedAt, c.At)
	return s, true
}

// Joining is the same change, which sets joined as soon as it makes the license one of another agreement than before. A store whose first
// answer was lost applies it again, on what it has itself written: joined stays set.
func (c SubscriberChange) Joining(joined *bool) SubscriberChange {
	change := c.change
	c.change = func(s *Subscriber) {
		before := s.Agreement
		change(s)
		*joined = *joined || s.Agreement != before
	}
	return c
}

// LicenseEvent is what License Updated and License Deprovisioned say.
type LicenseEvent struct {
	License, Account       string
	Agreement, ProductCode string // empty where the event does not tell
	At                     time.Time
}

// UpdatedAt is the change that License Updated asks for. One that is newer than every Deprovisioned ends the last hour, or makes an ended
// license active again (F30).
func (e LicenseEvent) UpdatedAt(now time.Time) SubscriberChange {
	e.At = wholeSecond(e.At)
	return SubscriberChange{License: e.License, Account: e.Account, At: now, change: func(s *Subscriber) {
		s.name(e, s.Updated)
		if e.At.Before(s.Updated) {
			return
		}
		s.Updated = e.At
		s.settleAgreement()
		s.settle()
	}}
}

// DeprovisionedAt is the change that License Deprovisioned asks for: the last hour begins. While it lasts, its end only moves earlier; a
// repeat after it changes nothing.
func (e LicenseEvent) DeprovisionedAt(now time.Time) SubscriberChange {
	e.At = wholeSecond(e.At)
	return SubscriberChange{License: e.License, Account: e.Account, At: now, change: func(s *Subscriber) {
		var latest time.Time
		if n := len(s.Deprovisioned); n > 0 {
			latest = s.Deprovisioned[n-1]
		}
		if s.Updated.IsZero() {
			s.name(e, latest)
		} else {
			s.fillIn(e)
		}
		if e.At.Before(s.Updated) {
			return
		}
		s.Deprovisioned = append(s.Deprovisioned, e.At)
		s.settle()
	}}
}

// name takes over which agreement and product a license event tells of, where it is none older than the latest of its kind; of two at once,
// any that is always the same. License Updated alone moves a license from one agreement to another: Deprovisioned tells of them only
// until the first Updated, and fills in what that left out.
func (s *Subscriber) name(e LicenseEvent, latest time.Time) {
	if cmp.Or(e.At.Compare(latest), cmp.Compare(e.Agreement, s.Agreement), cmp.Compare(e.ProductCode, s.ProductCode)) <= 0 {
		s.fillIn(e)
		return
	}
	s.ProductCode = cmp.Or(e.ProductCode, s.ProductCode)
	s.join(cmp.Or(e.Agreement, s.Agreement))
}

func (s *Subscriber) fillIn(e LicenseEvent) {
	s.ProductCode = cmp.Or(s.ProductCode, e.ProductCode)
	s.join(cmp.Or(s.Agreement, e.Agreement))
}

// join makes the subscriber one of an agreement. What was known of the one before does not speak of this one.
func (s *Subscriber) join(agreement string) {
	if agreement == s.Agreement {
		return
	}
	s.Agreement = agreement
	s.AgreementStart, s.AgreementEnd, s.AgreementAmended, s.AgreementEnded = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	s.settleAgreement()
}

// settleAgreement makes the agreement's status what the events say. Updated speaks of whichever agreement the license is of: it has named
// it, or none.
func (s *Subscriber) settleAgreement() {
	switch {
	case !s.AgreementEnded.IsZero() && !s.AgreementEnded.Before(s.Updated):
		s.AgreementStatus, s.AgreementStatusAt = LifecycleInactive, s.AgreementEnded
	case !s.Updated.IsZero():
		s.AgreementStatus, s.AgreementStatusAt = LifecycleActive, s.Updated
	default:
		s.AgreementStatus, s.AgreementStatusAt = "", time.Time{}
	}
}

// settle makes the license's status what the events say.
func (s *Subscriber) settle() {
	s.Deprovisioned = slices.DeleteFunc(s.Deprovisioned, func(at time.Time) bool { return at.Before(s.Updated) })
	slices.SortFunc(s.Deprovisioned, time.Time.Compare)
	s.Deprovisioned = slices.CompactFunc(s.Deprovisioned, time.Time.Equal)
	s.unmark()
	if len(s.Deprovisioned) == 0 {
		s.Deprovisioned, s.Status, s.StatusAt = nil, LifecycleActive, s.Updated
		return
	}
	first := s.Deprovisioned[0]
	if s.Status == LifecycleInactive && !first.After(s.StatusAt) { // the hour that it opened is over, and so is any earlier one
		s.StatusAt = first
		return
	}
	s.Status, s.StatusAt, s.Expiry = LifecycleDeprovisioning, first, first.Add(DeprovisionWindow)
}

// unmark takes the marks of the last hour away, those that cannot be read too.
func (s *Subscriber) unmark() {
	s.Expiry = time.Time{}
	delete(s.Other, AttrDeprovisioningFlag)
	delete(s.Other, AttrDeprovisioningExpiry)
	if len(s.Other) == 0 {
		s.Other = nil
	}
}

// FinalizeAt ends the last hour of a license for which it is over at now. Any other is left as it is (F31).
func FinalizeAt(license, account string, now time.Time) SubscriberChange {
	return SubscriberChange{License: license, Account: account, At: now, existing: true, change: func(s *Subscriber) {
		if !s.Expiry.IsZero() && !s.Expiry.After(now) {
			s.Status = LifecycleInactive
			s.unmark()
		}
	}}
}

// AgreementEvent is what Purchase Agreement Ended and Amended say. It concerns every license of the agreement.
type AgreementEvent struct {
	Agreement  string
	Start, End time.Time // of the agreement, zero where the event does not tell
	At         time.Time
}

// EndedAt is the change of one license's subscriber that Ended asks for. It moves no money: the license's own status stays.
func (e AgreementEvent) EndedAt(license, account string, now time.Time) SubscriberChange {
	e.At = wholeSecond(e.At)
	return e.of(license, account, now, func(s *Subscriber) {
		if e.At.After(s.AgreementEnded) {
			s.AgreementEnded = e.At
			s.settleAgreement()
		}
	})
}

// AmendedAt is the change of one license's subscriber that Amended asks for: the agreement's times.
func (e AgreementEvent) AmendedAt(license, account string, now time.Time) SubscriberChange {
	e.At, e.Start, e.End = wholeSecond(e.At), wholeSecond(e.Start), wholeSecond(e.End)
	return e.of(license, account, now, func(s *Subscriber) {
		if e.Amends(AgreementEvent{Start: s.AgreementStart, End: s.AgreementEnd, At: s.AgreementAmended}) {
			s.AgreementStart, s.AgreementEnd, s.AgreementAmended = e.Start, e.End, e.At
		}
	})
}

// Amends reports whether Amended overrules another Amended of the agreement: the later one does, and of two at once always the same.
func (e AgreementEvent) Amends(other AgreementEvent) bool {
	return cmp.Or(e.At.Compare(other.At), e.End.Compare(other.End), e.Start.Compare(other.Start)) > 0
}

func (e AgreementEvent) of(license, account string, now time.Time, change func(*Subscriber)) SubscriberChange {
	return SubscriberChange{License: license, Account: account, At: now, existing: true, change: func(s *Subscriber) {
		if s.Agreement == e.Agreement { // an index may show one that has long moved on
			change(s)
		}
	}}
}

// Registered is the change that a buyer's registration in a Region asks for. Registering again changes nothing.
func Registered(license, account, productCode, region string, now time.Time) SubscriberChange {
	return SubscriberChange{License: license, Account: account, At: now, change: func(s *Subscriber) {
		s.ProductCode = cmp.Or(s.ProductCode, productCode)
		if at, found := slices.BinarySearch(s.Regions, region); !found {
			s.Regions = slices.Insert(s.Regions, at, region)
		}
	}}
}

func wholeSecond(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Second)
}
