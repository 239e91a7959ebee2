package metering

import (
	"maps"
	"time"
)

// AttrDroppedAt is when an operator dropped a row, and AttrDropToken by which write. No rule reads them.
const (
	AttrDroppedAt = "droppedAt"
	AttrDropToken = "dropToken"
)

// DropOf is the write that takes a rejected row out of every later sum of its group, or why it may not be: the row is wrong for good, or its
// usage is booked elsewhere, and it would have its whole hour rejected again and again (F9). It stays rejected, and the ledger goes on
// to count it so.
//
// Record is that of the row's group, nil where there is none. What it holds is billed, or will be, whatever the row says: its label is on the
// way. The write cannot ask for the record, so who drops looks for it once more afterwards: Drop.Late.
func DropOf(r Row, record *Record, now time.Time) (Drop, RowObstacle) {
	if o := rejectedObstacle(r); o != "" {
		return Drop{}, o
	}
	if o := recordObstacle(r.License, r.SortKey, record); o != "" {
		return Drop{}, o
	}
	return Drop{License: r.License, SortKey: r.SortKey, Fingerprint: r.Fingerprint(), Reason: r.StatusReason, At: now}, ""
}

// recordObstacle is what the record of a row's group has against dropping the row.
func recordObstacle(license, sortKey string, record *Record) RowObstacle {
	key, reason := ParseRowKey(sortKey)
	if reason != "" || record == nil || record.License != license || record.SortKey != key.Group(license).RecordKey() {
		return ""
	}
	manifest, err := record.Covers()
	if err != nil {
		return RowManifest
	}
	if _, covered := manifest.Quantity(key.Second); covered {
		return RowCovered
	}
	return ""
}

// Drop is one conditional write that drops a rejected row.
type Drop struct {
	License, SortKey string
	Token            string // this write's own, as that of a Carry

	// The condition: the row is exactly as it was judged.
	Fingerprint string
	Reason      string

	At time.Time // becomes droppedAt
}

// Holds reports whether the row may be dropped.
func (x Drop) Holds(r Row) bool {
	return rejectedObstacle(r) == "" && r.StatusReason == x.Reason && r.Fingerprint() == x.Fingerprint
}

// Late is what stands against a drop that was written, by the record of the row's group as it stands afterwards: one that was committed between
// the look and the write and holds the row, whose units are then billed all the same.
func (x Drop) Late(record *Record) RowObstacle { return recordObstacle(x.License, x.SortKey, record) }

// Shows reports whether the row is dropped already, by this write or by another one: there is nothing left to do.
func (x Drop) Shows(r Row) bool {
	return r.Dropped && r.Pending == "" && r.Status == RejectedClientSide
}

// Made reports whether the row was dropped by this very write: one whose answer was lost.
func (x Drop) Made(r Row) bool {
	return x.Shows(r) && x.Token != "" && r.Other[AttrDropToken] == x.Token
}

// Apply is the row after the drop.
func (x Drop) Apply(r Row) Row {
	other := make(Item, len(r.Other)+1)
	maps.Copy(other, r.Other)
	delete(other, AttrDropped) // of another type than ours
	other[AttrDroppedAt] = traceTime(x.At)
	if delete(other, AttrDropToken); x.Token != "" {
		other[AttrDropToken] = x.Token
	}
	r.Other, r.Dropped = other, true
	r.CreatedAt, r.UpdatedAt = stamp(r.CreatedAt, x.At)
	return r
}
