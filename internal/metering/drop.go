package metering

import (
	"maps"
	"time"
)

// AttrDroppedAt is when an operator dropped a row. No rule reads it.
const AttrDroppedAt = "droppedAt"

// DropOf is the write that takes a rejected row out of every later sum of its group, or why it may not be: the row is wrong for good, or its
// usage is booked elsewhere, and it would have its whole hour rejected again and again (F9). It stays rejected, and the ledger goes on
// to count it so.
func DropOf(r Row, now time.Time) (Drop, RowObstacle) {
	if o := rejectedObstacle(r); o != "" {
		return Drop{}, o
	}
	return Drop{License: r.License, SortKey: r.SortKey, Fingerprint: r.Fingerprint(), Reason: r.StatusReason, At: now}, ""
}

// Drop is one conditional write that drops a rejected row.
type Drop struct {
	License, SortKey string

	// The condition: the row is exactly as it was judged.
	Fingerprint string
	Reason      string

	At time.Time // becomes droppedAt
}

// Holds reports whether the row may be dropped.
func (x Drop) Holds(r Row) bool {
	return rejectedObstacle(r) == "" && r.StatusReason == x.Reason && r.Fingerprint() == x.Fingerprint
}

// Shows reports whether the row is dropped already, by this write or by another one: there is nothing left to do.
func (x Drop) Shows(r Row) bool {
	return r.Dropped && r.Pending == "" && r.Status == RejectedClientSide
}

// Apply is the row after the drop.
func (x Drop) Apply(r Row) Row {
	other := make(Item, len(r.Other)+1)
	maps.Copy(other, r.Other)
	delete(other, AttrDropped) // of another type than ours
	other[AttrDroppedAt] = traceTime(x.At)
	r.Other, r.Dropped = other, true
	r.CreatedAt, r.UpdatedAt = stamp(r.CreatedAt, x.At)
	return r
}
