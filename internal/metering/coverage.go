package metering

import (
	"fmt"
	"time"
)

// AggregatedReason is the reason of a row that its record has billed, or will: the record's own total and count.
func AggregatedReason(total int64, count int) string {
	return fmt.Sprintf("Aggregated total quantity %d from %d raw usage records", total, count)
}

// Covered is the rule of coverage for one row that stands in its record's manifest with quantity committed: what becomes of
// the row as the store holds it now.
//
// Equal: Aggregated, whatever it was labelled before. Greater: the difference is late (F7). Smaller, or no number: what was
// committed stays committed, and the reason names both. Nothing is written where nothing changes.
func Covered(r Row, committed int64, reason string) (label Label, changed bool) {
	label = Label{
		License: r.License, SortKey: r.SortKey,
		Marker: true, Fingerprint: r.Fingerprint(),
		Status: Aggregated, Reason: reason,
	}
	q, known := r.Quantity.Count()
	switch {
	case known && q == committed:
		label.Marker, label.Fingerprint, label.Quantity = false, "", r.Quantity
		return label, !label.Shows(r)
	case r.Pending == "":
		return label, false // only a covered quantity may be relabelled without its marker
	case known && q > committed:
		label.Status, label.LateQuantity = LateUsage, Units(q-committed)
		label.Reason = fmt.Sprintf("Grew from %d to %d after its hour was committed", committed, q)
	default:
		label.Reason = fmt.Sprintf("Aggregated with quantity %d, the row now holds %s", committed, r.quantityText())
	}
	return label, true
}

// Uncovered is the rule for a waiting row of a committed group that its manifest does not hold: a zero changes nothing and
// ends as Aggregated, any other row by its own validity as late or rejected. What an operator has dropped stays rejected.
func Uncovered(r Row, now time.Time) (Status, Reason) {
	if r.Dropped {
		return RejectedClientSide, Reason(r.StatusReason)
	}
	if reason := r.Validate(now); reason != "" {
		return RejectedClientSide, reason
	}
	if r.Quantity.N == 0 {
		return Aggregated, ""
	}
	return LateUsage, ""
}

// LateReason is the reason of a whole row that came after its hour was committed.
const LateReason = "Arrived after its hour was committed"

// ExpiredReason is the reason of a row whose hour could no longer be billed before it was ever aggregated.
const ExpiredReason = "Its hour can no longer be billed"

func (r Row) quantityText() string {
	if r.Quantity.Whole {
		return fmt.Sprint(r.Quantity.N)
	}
	if raw, ok := r.Other[AttrQuantity]; ok {
		return fmt.Sprintf("%.40v", raw)
	}
	return "none"
}
