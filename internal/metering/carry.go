package metering

import (
	"slices"
	"time"
)

// The traces of carried usage on its rows. A source keeps a list of where its units went; a target names the row that they are from. A seller
// may write either row anew, so what was carried is remembered by the record (AttrCarried), which only the pipeline writes.
const (
	AttrCarriedTo   = "carriedTo"
	AttrCarriedFrom = "carriedFrom"
)

// attrCarriedTo is the target's sort key, in an entry of the source's trace.
const attrCarriedTo = "to"

// CarryOf is the write that books the late units of a row anew, at target, which is a second of the current hour, or why they may not be.
// Record is that of the row's own group.
//
// What is late is what the record neither holds nor says to have been carried, and nothing else is touched: the source keeps its committed
// quantity. Both rows and the record change in one transaction, on the condition that source and record are as they were judged and that
// nothing stands at the target. So the units are at every moment in one row and never in two, however often the write is sent and
// whoever else sends one; and a source that its seller puts once more, as it was, has nothing that could be carried again.
//
// What the rule cannot see is asked of TargetObstacle.
func CarryOf(r Row, record *Record, rules Rules, target Second, now time.Time) (Carry, RowObstacle) {
	key, o := lateObstacle(r, record)
	if o != "" {
		return Carry{}, o
	}
	switch {
	case key.Second.Hour() >= HourOf(now):
		return Carry{}, RowNotYet
	case target.Hour() != HourOf(now), !rules.Billable(target.Hour(), now):
		return Carry{}, RowTarget
	}
	trace, ours := traceOf(r.Other, AttrCarriedTo)
	list, kept := record.Carried()
	if !ours || !kept {
		return Carry{}, RowForeign
	}
	manifest, err := record.Covers()
	if err != nil {
		return Carry{}, RowManifest
	}
	committed, covered := manifest.Quantity(key.Second)
	held, known := r.Quantity.Count()
	_, odd := r.Other[AttrAllocations]
	already := carriedAlready(list, key.Second, r)
	switch {
	case !known:
		return Carry{}, RowFault
	case held <= committed:
		return Carry{}, RowCovered
	case held-committed <= already:
		return Carry{}, RowCarried
	case (covered || already > 0) && (odd || len(r.Allocations) > 0):
		return Carry{}, RowTagged
	case held-committed-already > MaxQuantity:
		return Carry{}, RowTooMuch
	case !covered && r.Validate(now) != "":
		return Carry{}, RowFault
	}
	total, _ := record.Quantity.Count()
	x := Carry{
		License: r.License, SortKey: r.SortKey, Fingerprint: r.Fingerprint(), Times: len(trace),
		Manifest: record.Manifest, Listed: len(list), Flushes: len(r.Flushes),
		Keeps: committed, Covered: covered, Reason: AggregatedReason(total, manifest.Count()),
		Quantity: held - committed - already, Target: target, At: now,
	}
	if !covered {
		x.Allocations = r.Allocated()
	}
	if ttl, ok := quantityOf(r.Other[AttrTTL]); ok {
		x.TTL = Units(ttl.N + int64(target-key.Second))
	}
	if reason := x.Row().Validate(now); reason == TimestampInFuture {
		return Carry{}, RowTarget
	} else if reason != "" {
		return Carry{}, RowFault
	}
	return x, ""
}

// lateObstacle is what stands against handling a row as a late one.
func lateObstacle(r Row, record *Record) (RowKey, RowObstacle) {
	switch {
	case r.Pending != "":
		return RowKey{}, RowWaiting
	case r.Status != LateUsage:
		return RowKey{}, RowNotLate
	case r.Dropped:
		return RowKey{}, RowDropped
	case LegacyLicense(r.License):
		return RowKey{}, RowLegacy
	}
	key, reason := ParseRowKey(r.SortKey)
	switch {
	case reason != "":
		return RowKey{}, RowFault
	case record == nil || record.License != r.License || record.SortKey != key.Group(r.License).RecordKey():
		return RowKey{}, RowNoRecord
	}
	return key, ""
}

// TargetObstacle is what stands against booking usage in the current hour. Current is the record of that hour in the source's license, account
// and dimension, and subscriber what is known of the license; nil where there is none. In a license's last hour there has to be time for a
// flush that takes the current hour, and for a submission after it.
//
// What changes between this look and the write costs nothing: usage that comes after its hour was committed is late again, and
// what is sent for a license that has ended is refused. Both are in the books under these names.
func TargetObstacle(current *Record, subscriber *Subscriber, rules Rules, now time.Time) RowObstacle {
	switch {
	case current != nil:
		return RowCommitted
	case subscriber == nil:
		return ""
	case subscriber.Status == LifecycleInactive, !subscriber.Expiry.IsZero() && !rules.flushedInTime(HourOf(now), subscriber.Expiry, now):
		return RowEnded
	}
	return ""
}

// flushedInTime reports whether an hour is flushed and submitted, by the timetable, between now and the end of a license's last hour.
func (r Rules) flushedInTime(h Hour, expiry, now time.Time) bool {
	for flush := FlushSchedule.Next(now); flush.Before(expiry); flush = FlushSchedule.Next(flush) {
		if slices.Contains(r.FlushHours(expiry, flush), h) {
			return SubmitSchedule.Next(flush).Before(expiry)
		}
	}
	return false
}

// Carry is one transaction that books late units of a row, the source, in a new one, the target, and notes it in the record of the source's
// hour.
type Carry struct {
	License, SortKey string // of the source

	// Token is this write's own: by it an operator's command knows what it has done itself from what another did in the same second. Its
	// caller sets it.
	Token string

	// The condition: the source is late and exactly as it was judged, so is what its hour's record says of it, and nothing stands at the target.
	Fingerprint string
	Times       int    // entries in the source's trace
	Manifest    string // of the record
	Listed      int    // entries in the record's list
	Flushes     int    // that the source has taken

	// The effect on the source: it ends as Aggregated with what its hour's record holds of it. Where that is nothing, its allocations go
	// with its units.
	Keeps   int64
	Covered bool
	Reason  string

	// The target: a row that waits under its hour.
	Target      Second
	Quantity    int64
	Allocations []Allocation
	TTL         Quantity // as long after the target's second as the source's lies after its own

	At time.Time
}

// TargetKey is the target's sort key.
func (x Carry) TargetKey() string {
	key, _ := ParseRowKey(x.SortKey)
	return key.Group(x.License).RowKey(x.Target)
}

// Row is the target.
func (x Carry) Row() Row {
	key, _ := ParseRowKey(x.SortKey)
	r := NewRow(key.Group(x.License), x.Target, x.Quantity)
	r.Allocations = slices.Clone(x.Allocations)
	r.Other = Item{AttrCarriedFrom: x.SortKey}
	if x.TTL.Whole {
		r.Other[AttrTTL] = number(x.TTL.N)
	}
	r.CreatedAt, r.UpdatedAt = stamp("", x.At)
	return r
}

// Holds reports whether the source may be carried from.
func (x Carry) Holds(r Row) bool {
	trace, ours := traceOf(r.Other, AttrCarriedTo)
	return r.Pending == "" && r.Status == LateUsage && !r.Dropped && ours && len(trace) == x.Times && r.Fingerprint() == x.Fingerprint
}

// RecordKey is the sort key of the record of the source's hour.
func (x Carry) RecordKey() string {
	key, _ := ParseRowKey(x.SortKey)
	return key.Group(x.License).RecordKey()
}

// HoldsOf reports whether the record says of the source what it said when it was judged.
func (x Carry) HoldsOf(r Record) bool {
	list, kept := r.Carried()
	_, odd := r.Other[AttrManifest]
	return kept && len(list) == x.Listed && !odd && r.Manifest == x.Manifest
}

// Shows reports whether the record tells of this very write, whatever became of the rows since: one whose answer was lost.
func (x Carry) Shows(r Record) bool {
	list, _ := r.Carried()
	key, _ := ParseRowKey(x.SortKey)
	return x.Listed < len(list) && list[x.Listed] == x.entry(key.Second)
}

func (x Carry) entry(s Second) CarriedUnits {
	return CarriedUnits{Second: s, Quantity: x.Quantity, To: x.TargetKey(), Lapses: x.TTL.Whole, at: traceTime(x.At), token: x.Token, flushes: x.Flushes}
}

// Note is the record after the carrying.
func (x Carry) Note(r Record) Record {
	key, _ := ParseRowKey(x.SortKey)
	r.Other = tracing(r.Other, AttrCarried, x.entry(key.Second).item())
	return r.Stamped(x.At)
}

// Apply is the source after the carrying.
func (x Carry) Apply(r Row) Row {
	entry := newWriter(nil)
	entry.text(attrTracedAt, traceTime(x.At))
	entry.text(attrCarriedTo, x.TargetKey())
	entry.quantity(AttrQuantity, Units(x.Quantity))
	entry.text(attrToken, x.Token)
	r.Other = tracing(r.Other, AttrCarriedTo, entry)
	r.Quantity = Units(x.Keeps)
	if !x.Covered {
		r.Allocations = nil
		delete(r.Other, AttrAllocations)
	}
	r.Status, r.StatusReason, r.LateQuantity = Aggregated, x.Reason, Quantity{}
	r.CreatedAt, r.UpdatedAt = stamp(r.CreatedAt, x.At)
	return r
}
