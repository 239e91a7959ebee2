package metering

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Row is one raw usage row. Attributes of the wrong type and attributes that the pipeline does not know stand in Other
// as they were read.
type Row struct {
	License, SortKey   string
	Account, Dimension string
	Timestamp          string
	Quantity           Quantity
	Allocations        []Allocation
	CustomerIdentifier string
	Pending            string // meteringPending: the bucket the row is found under, while it waits
	Status             Status
	StatusReason       string
	LateQuantity       Quantity
	Dropped            bool     // an operator's word: stays rejected, is not folded
	Flushes            []string // tokens of the writer's flushes that it has taken
	CreatedAt          string
	UpdatedAt          string
	Other              Item
}

// NewRow is a group's row at s as a writer that keeps the contract writes it: waiting, under the hour of its second.
func NewRow(g Group, s Second, quantity int64) Row {
	return Row{
		License: g.License, SortKey: g.RowKey(s), Account: g.Account, Dimension: g.Dimension, Timestamp: s.String(),
		Quantity: Units(quantity), Pending: s.Hour().String(),
	}
}

// RowFromItem reads an item of the usage table.
func RowFromItem(item Item) Row {
	r := newReader(item)
	row := Row{
		License: r.text(AttrLicense), SortKey: r.text(AttrRowKey),
		Account: r.text(AttrAccount), Dimension: r.text(AttrDimension), Timestamp: r.text(AttrTimestamp),
		Quantity: r.quantity(AttrQuantity), Allocations: r.allocations(), CustomerIdentifier: r.text(AttrCustomerIdentifier),
		Pending: r.text(AttrPending),
		Status:  Status(r.text(AttrStatus)), StatusReason: r.text(AttrStatusReason), LateQuantity: r.quantity(AttrLateQuantity),
		Dropped: r.flag(AttrDropped), Flushes: r.texts(AttrFlushes), CreatedAt: r.text(AttrCreatedAt), UpdatedAt: r.text(AttrUpdatedAt),
	}
	row.Other = r.other()
	return row
}

// Item writes the row as an item of the usage table; RowFromItem reads it back without loss.
func (r Row) Item() Item {
	w := newWriter(r.Other)
	w.text(AttrLicense, r.License)
	w.text(AttrRowKey, r.SortKey)
	w.text(AttrAccount, r.Account)
	w.text(AttrDimension, r.Dimension)
	w.text(AttrTimestamp, r.Timestamp)
	w.quantity(AttrQuantity, r.Quantity)
	w.allocations(r.Allocations)
	w.text(AttrCustomerIdentifier, r.CustomerIdentifier)
	w.text(AttrPending, r.Pending)
	w.text(AttrStatus, string(r.Status))
	w.text(AttrStatusReason, r.StatusReason)
	w.quantity(AttrLateQuantity, r.LateQuantity)
	if r.Dropped {
		w[AttrDropped] = true
	}
	w.texts(AttrFlushes, r.Flushes)
	w.text(AttrCreatedAt, r.CreatedAt)
	w.text(AttrUpdatedAt, r.UpdatedAt)
	return Item(w)
}

// Fingerprint stands for everything that a verdict on the row rests on: its identity, quantity and allocations as they
// were read. A label whose fingerprint no longer fits is not written, so a row that its seller has just mended is never
// stamped with the old fault. So is one that an operator has let wait again, though nothing of it was changed: how often that was
// done counts too. A row that never was has the fingerprint that releases without recalls give it.
func (r Row) Fingerprint() string { return r.fingerprint().String() }

func (r Row) fingerprint() *fingerprint {
	f := newFingerprint()
	f.text(r.Account, r.Dimension, r.Timestamp, r.CustomerIdentifier)
	f.quantity(r.Quantity)
	f.allocations(r.Allocations)
	f.raw(r.Other, AttrAccount, AttrDimension, AttrTimestamp, AttrCustomerIdentifier, AttrQuantity, AttrAllocations)
	if trace, _ := traceOf(r.Other, AttrRecalled); len(trace) > 0 {
		f.text(AttrRecalled, strconv.Itoa(len(trace)))
	}
	return f
}

// Label is one conditional write of a status on a row.
type Label struct {
	License, SortKey string

	// The condition: the row exists and, with Marker, still waits; it holds the quantity, or where Fingerprint is
	// set everything that was judged, exactly as read.
	Marker      bool
	Quantity    Quantity
	Fingerprint string

	// The effect: the marker goes, the status and its reason stand, LateQuantity is set or removed.
	Status       Status
	Reason       string
	LateQuantity Quantity
	At           time.Time // becomes updatedAt, and createdAt where there is none
}

// Holds reports whether the label's condition is true of the row.
func (l Label) Holds(r Row) bool {
	if l.Marker && r.Pending == "" {
		return false
	}
	if l.Fingerprint != "" {
		return r.Fingerprint() == l.Fingerprint
	}
	return r.Quantity == l.Quantity && l.Quantity.Whole
}

// Shows reports whether the row already carries the label: a write whose answer was lost.
func (l Label) Shows(r Row) bool {
	return r.Pending == "" && r.Status == l.Status && r.StatusReason == l.Reason && r.LateQuantity == l.LateQuantity
}

// Apply is the row after the label.
func (l Label) Apply(r Row) Row {
	r.Pending, r.Status, r.StatusReason, r.LateQuantity = "", l.Status, l.Reason, l.LateQuantity
	r.CreatedAt, r.UpdatedAt = stamp(r.CreatedAt, l.At)
	return r
}

// stamp gives an item's audit times: set once, and at every write. No rule reads them.
func stamp(createdAt string, at time.Time) (created, updated string) {
	updated = at.UTC().Format(time.RFC3339)
	if createdAt == "" {
		createdAt = updated
	}
	return createdAt, updated
}

// Validate says whether the row may take part in its group's sum at now. The first thing found wrong is the reason.
func (r Row) Validate(now time.Time) Reason {
	key, reason := ParseRowKey(r.SortKey)
	if reason == "" {
		reason = keyReason(r.SortKey)
	}
	if reason != "" {
		return reason
	}
	if reason = identityReason(r.License, r.CustomerIdentifier, r.Other[AttrCustomerIdentifier]); reason != "" {
		return reason
	}
	if reason = segmentReason(key, r); reason != "" {
		return reason
	}
	if reason = accountReason(r.Account); reason != "" {
		return reason
	}
	if reason = dimensionReason(key.Group(r.License)); reason != "" {
		return reason
	}
	if Future(key.Second, now) {
		return TimestampInFuture
	}
	raw, present := r.Other[AttrQuantity]
	if reason = quantityReason(r.Quantity, raw, present); reason != "" {
		return reason
	}
	return allocationReason(r.Allocations, r.Other, r.Quantity.N)
}

// keyReason refuses a key that is no UTF-8 text. Tables, queues and the API are spoken to in JSON, which makes another key of it: on one machine
// such a row would never be found again, and on AWS two dimensions could become one.
func keyReason(sortKey string) Reason {
	if !utf8.ValidString(sortKey) {
		return MalformedSortKey
	}
	return ""
}

// segmentReason compares the key's segments with the attributes of the same name.
func segmentReason(key RowKey, r Row) Reason {
	switch {
	case r.Dimension == "" || key.Dimension == "":
		return MissingDimension
	case r.Account == "" || key.Account == "":
		return MissingCustomerAWSAccountID
	case r.Dimension != key.Dimension || r.Account != key.Account:
		return SortKeyMismatch
	}
	at, err := ParseSecond(r.Timestamp)
	if err != nil {
		return MalformedTimestamp
	}
	if at != key.Second {
		return SortKeyMismatch
	}
	return ""
}

// ValidAccount reports whether a text has the form of an AWS account's id: twelve digits (AWS Account Management reference). The metering
// API's own pattern admits any number of digits, but a spreadsheet that dropped a leading zero would then bill nobody.
func ValidAccount(account string) bool {
	return len(account) == 12 && strings.Trim(account, "0123456789") == ""
}

func accountReason(account string) Reason {
	switch {
	case account == "":
		return MissingCustomerAWSAccountID
	case !ValidAccount(account):
		return InvalidCustomerAWSAccountID
	}
	return ""
}

func dimensionReason(g Group) Reason {
	switch {
	case g.Dimension == "":
		return MissingDimension
	case utf8.RuneCountInString(g.Dimension) > 255, len(g.RowKey(0)) > maxSortKey:
		return DimensionTooLong
	}
	return ""
}

// allocationReason checks an item's allocations, whether the typed form holds them or not.
func allocationReason(typed []Allocation, other Item, quantity int64) Reason {
	list, reason := allocationsOf(typed, other)
	if reason != "" {
		return reason
	}
	return checkAllocations(list, quantity)
}

// Allocated are the row's allocations as the pipeline reads them, whether the typed form holds them or not; none where they are malformed.
func (r Row) Allocated() []Allocation {
	list, _ := allocationsOf(r.Allocations, r.Other)
	return list
}

func allocationsOf(typed []Allocation, other Item) ([]Allocation, Reason) {
	if raw, ok := other[AttrAllocations]; ok {
		return parseAllocations(raw)
	}
	return typed, ""
}
