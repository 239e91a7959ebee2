package metering

import (
	"errors"
	"time"
)

// Record is the aggregated usage of a group: what is, or was, submitted. Attributes of the wrong type and attributes
// that the pipeline does not know stand in Other as they were read.
type Record struct {
	License, SortKey   string
	Account, Dimension string
	HourBucket         string
	Quantity           Quantity
	Allocations        []Allocation
	CustomerIdentifier string
	Manifest           string // empty in records that a seller wrote directly
	Pending            string
	SentQuantity       Quantity // set before the first call: from then on the record may be billed
	SentSecond         string   // the Timestamp that it was sent with
	Status             Status
	StatusReason       string
	MeteringRecordID   string
	BilledQuantity     Quantity // where it differs from Quantity
	CreatedAt          string
	UpdatedAt          string
	TTL                Quantity // Unix seconds
	Other              Item
}

// NewRecord is a group's record, waiting to be sent, with no allocations and no manifest.
func NewRecord(g Group, quantity int64) Record {
	hour := g.Hour.String()
	return Record{
		License: g.License, SortKey: g.RecordKey(), Account: g.Account, Dimension: g.Dimension, HourBucket: hour, Pending: hour,
		Quantity: Units(quantity),
	}
}

// RecordFromItem reads an item of the aggregated-usage table.
func RecordFromItem(item Item) Record {
	r := newReader(item)
	rec := Record{
		License: r.text(AttrLicense), SortKey: r.text(AttrRecordKey),
		Account: r.text(AttrAccount), Dimension: r.text(AttrDimension), HourBucket: r.text(AttrHour),
		Quantity: r.quantity(AttrQuantity), Allocations: r.allocations(), CustomerIdentifier: r.text(AttrCustomerIdentifier),
		Manifest: r.text(AttrManifest), Pending: r.text(AttrPending),
		SentQuantity: r.quantity(AttrSentQuantity), SentSecond: r.text(AttrSentSecond),
		Status: Status(r.text(AttrStatus)), StatusReason: r.text(AttrStatusReason),
		MeteringRecordID: r.text(AttrRecordID), BilledQuantity: r.quantity(AttrBilledQuantity),
		CreatedAt: r.text(AttrCreatedAt), UpdatedAt: r.text(AttrUpdatedAt), TTL: r.quantity(AttrTTL),
	}
	rec.Other = r.other()
	return rec
}

// Item writes the record as an item of the aggregated-usage table; RecordFromItem reads it back without loss.
func (r Record) Item() Item {
	w := newWriter(r.Other)
	w.text(AttrLicense, r.License)
	w.text(AttrRecordKey, r.SortKey)
	w.text(AttrAccount, r.Account)
	w.text(AttrDimension, r.Dimension)
	w.text(AttrHour, r.HourBucket)
	w.quantity(AttrQuantity, r.Quantity)
	w.allocations(r.Allocations)
	w.text(AttrCustomerIdentifier, r.CustomerIdentifier)
	w.text(AttrManifest, r.Manifest)
	w.text(AttrPending, r.Pending)
	w.quantity(AttrSentQuantity, r.SentQuantity)
	w.text(AttrSentSecond, r.SentSecond)
	w.text(AttrStatus, string(r.Status))
	w.text(AttrStatusReason, r.StatusReason)
	w.text(AttrRecordID, r.MeteringRecordID)
	w.quantity(AttrBilledQuantity, r.BilledQuantity)
	w.text(AttrCreatedAt, r.CreatedAt)
	w.text(AttrUpdatedAt, r.UpdatedAt)
	w.quantity(AttrTTL, r.TTL)
	return Item(w)
}

// Stamped is the record with its audit times as of a write at at.
func (r Record) Stamped(at time.Time) Record {
	r.CreatedAt, r.UpdatedAt = stamp(r.CreatedAt, at)
	return r
}

// Covers is the record's manifest: empty where there is none, as in records that a seller wrote directly. One that cannot be
// read, or has another form than this release knows, is an error: without it no row of the group may be labelled.
func (r Record) Covers() (Manifest, error) {
	if _, other := r.Other[AttrManifest]; other {
		return Manifest{}, errors.New("read manifest: it is no text")
	}
	if r.Manifest == "" {
		return Manifest{}, nil
	}
	return ParseManifest(r.Manifest)
}

// Group is the group that the record's key names, or why it names none.
func (r Record) Group() (Group, Reason) { return ParseRecordKey(r.License, r.SortKey) }

// Validate holds a record against everything that the API and the table ask for. Sellers who submit directly write
// records themselves, so each is checked before it can spoil a call for others.
func (r Record) Validate() Reason {
	g, reason := r.Group()
	if reason == "" {
		reason = keyReason(r.SortKey)
	}
	if reason != "" {
		return reason
	}
	if reason = identityReason(r.License, r.CustomerIdentifier, r.Other[AttrCustomerIdentifier]); reason != "" {
		return reason
	}
	switch {
	case r.Dimension == "" || g.Dimension == "":
		return MissingDimension
	case r.Account == "" || g.Account == "":
		return MissingCustomerAWSAccountID
	case r.Account != g.Account || r.Dimension != g.Dimension || r.HourBucket != g.Hour.String() || r.Pending != "" && r.Pending != r.HourBucket:
		return SortKeyMismatch
	}
	if reason = accountReason(r.Account); reason != "" {
		return reason
	}
	if reason = dimensionReason(g); reason != "" {
		return reason
	}
	raw, present := r.Other[AttrQuantity]
	if reason = quantityReason(r.Quantity, raw, present); reason != "" {
		return reason
	}
	if reason = allocationReason(r.Allocations, r.Other, r.Quantity.N); reason != "" {
		return reason
	}
	if reason = r.sentReason(g.Hour); reason != "" {
		return reason
	}
	if callEnvelope+r.Usage().wireSize() >= maxCallBytes {
		return RecordTooLarge
	}
	return ""
}

// sentReason checks the mark of a record that was sent before. A mark that came with another record's item, as where a seller makes an hour's
// record of a copy of an earlier one, would have that one sent again: the service says Success to it once more, and this one counts as billed.
func (r Record) sentReason(h Hour) Reason {
	if s, err := ParseSecond(r.SentSecond); err == nil && s.Hour() != h {
		return SortKeyMismatch
	}
	return rangeReason(r.SentQuantity.N)
}

// Fingerprint stands for everything that a verdict on the record rests on, as it was read.
func (r Record) Fingerprint() string {
	f := newFingerprint()
	f.text(r.Account, r.Dimension, r.HourBucket, r.CustomerIdentifier, r.Pending, r.SentSecond)
	f.quantity(r.Quantity)
	f.quantity(r.SentQuantity)
	f.allocations(r.Allocations)
	f.raw(r.Other, AttrAccount, AttrDimension, AttrHour, AttrCustomerIdentifier, AttrPending, AttrQuantity, AttrAllocations,
		AttrSentQuantity, AttrSentSecond)
	return f.String()
}

// Send is the conditional write before a record's first call with this quantity and second: from then on an answer that
// never comes leaves the record in doubt, not unsent.
type Send struct {
	License, SortKey string
	Fingerprint      string // as read: pending, and nothing that is sent has changed
	Quantity         int64
	Second           Second
	At               time.Time
}

// Holds reports whether the record may be marked as sent.
func (s Send) Holds(r Record) bool { return r.Pending != "" && r.Fingerprint() == s.Fingerprint }

// Shows reports whether the record already carries the mark: a write whose answer was lost.
func (s Send) Shows(r Record) bool {
	return r.Pending != "" && r.SentQuantity == Units(s.Quantity) && r.SentSecond == s.Second.String()
}

// Apply is the record after the mark.
func (s Send) Apply(r Record) Record {
	r.SentQuantity, r.SentSecond = Units(s.Quantity), s.Second.String()
	return r.Stamped(s.At)
}

// Finish is one conditional write that ends a record's wait.
type Finish struct {
	License, SortKey string

	// The condition: the record exists and, with Pending, still waits; with Unbilled it is not Success; it holds
	// the quantity, or where Fingerprint is set everything that was judged, exactly as read.
	Pending     bool
	Unbilled    bool
	Quantity    Quantity
	Fingerprint string

	// The effect.
	Status           Status
	Reason           string
	MeteringRecordID string
	BilledQuantity   Quantity
	TTL              Quantity
	At               time.Time
}

// Holds reports whether the finish's condition is true of the record.
func (f Finish) Holds(r Record) bool {
	if f.Pending && r.Pending == "" || f.Unbilled && r.Status == Success {
		return false
	}
	if f.Fingerprint != "" {
		return r.Fingerprint() == f.Fingerprint
	}
	return r.Quantity == f.Quantity && f.Quantity.Whole
}

// Shows reports whether the record already ended this way: a write whose answer was lost.
func (f Finish) Shows(r Record) bool {
	return r.Pending == "" && r.Status == f.Status && r.StatusReason == f.Reason && r.BilledQuantity == f.BilledQuantity
}

// Apply is the record after the finish.
func (f Finish) Apply(r Record) Record {
	r.Pending, r.Status, r.StatusReason = "", f.Status, f.Reason
	if f.MeteringRecordID != "" {
		r.MeteringRecordID = f.MeteringRecordID
	}
	r.BilledQuantity = f.BilledQuantity
	if f.TTL.Whole {
		r.TTL = f.TTL
	}
	return r.Stamped(f.At)
}
