package metering

import (
	"maps"
	"slices"
	"time"
)

// AttrRecalled is a row's trace of its recalls: a list of what it had ended with and when it was let wait again. It stands
// among the attributes that are kept as they are; of the other rules only the row's fingerprint reads it.
const AttrRecalled = "recalled"

// RecallOf is the write that lets a rejected row wait again, or why it may not: it has been mended in its place, or what it was rejected for
// lay with another row of its group, and its hour can still be billed (F8).
//
// Nothing is billed twice by it, whether the group has a record by now or not, so the rule does not ask. Without one the next visit folds the
// whole group, this row among its rejected and waiting ones, and the commit happens once. With one the rule of coverage decides: a row that
// the manifest holds ends as Aggregated, any other as LateUsage, which can be carried.
//
// One sale by two identity schemes is another matter (F32). A row under a customer identifier is not recalled, as its sale may be billed
// under any license since, and nothing here leads to which. Of one under a license its caller has to ask whether the record of the
// same sale by identifier stands against it (SaleTaken), as before a retry.
func RecallOf(r Row, rules Rules, now time.Time) (Recall, RowObstacle) {
	if o := rejectedObstacle(r); o != "" {
		return Recall{}, o
	}
	trace, ours := traceOf(r.Other, AttrRecalled)
	if !ours {
		return Recall{}, RowForeign
	}
	if LegacyLicense(r.License) {
		return Recall{}, RowLegacy
	}
	key, reason := ParseRowKey(r.SortKey)
	if reason == "" && !rules.Billable(key.Second.Hour(), now) {
		return Recall{}, RowOver
	}
	if reason != "" || r.Validate(now) != "" {
		return Recall{}, RowFault
	}
	return Recall{
		License: r.License, SortKey: r.SortKey, Fingerprint: r.Fingerprint(), Reason: r.StatusReason, Times: len(trace),
		Hour: key.Second.Hour(), At: now,
	}, ""
}

// rejectedObstacle is what stands against handling a row as a rejected one.
func rejectedObstacle(r Row) RowObstacle {
	switch {
	case r.Pending != "":
		return RowWaiting
	case r.Status != RejectedClientSide:
		return RowNotRejected
	case r.Dropped:
		return RowDropped
	}
	return ""
}

// Recall is one conditional write that lets a rejected row wait again.
type Recall struct {
	License, SortKey string
	Token            string // this write's own, as that of a Carry

	// The condition: the row is exactly as it was judged.
	Fingerprint string
	Reason      string
	Times       int // how often it was recalled before

	// The effect: it waits under its hour, with no status.
	Hour Hour
	At   time.Time
}

// Holds reports whether the row may be recalled.
func (x Recall) Holds(r Row) bool {
	trace, ours := traceOf(r.Other, AttrRecalled)
	return rejectedObstacle(r) == "" && ours && len(trace) == x.Times && r.StatusReason == x.Reason && r.Fingerprint() == x.Fingerprint
}

// Shows reports whether the row was already recalled by this very write, whatever became of it since: a write whose answer was lost.
func (x Recall) Shows(r Row) bool {
	entry := traced(r.Other, AttrRecalled, x.Times)
	return entry[attrTracedAt] == traceTime(x.At) && tokenOf(entry) == x.Token
}

// Apply is the row after the recall.
func (x Recall) Apply(r Row) Row {
	entry := newWriter(nil)
	entry.text(attrTracedAt, traceTime(x.At))
	entry.text(AttrStatus, string(r.Status))
	entry.text(AttrStatusReason, r.StatusReason)
	entry.text(attrToken, x.Token)
	r.Other = tracing(r.Other, AttrRecalled, entry)
	r.Pending, r.Status, r.StatusReason = x.Hour.String(), "", ""
	r.CreatedAt, r.UpdatedAt = stamp(r.CreatedAt, x.At)
	return r
}

// attrTracedAt is when, in an entry of a trace; the rest of an entry bears the names that the item's own attributes have.
const attrTracedAt = "at"

// attrToken is the token of the write that an entry is of.
const attrToken = "token"

func tokenOf(entry map[string]any) string {
	token, _ := entry[attrToken].(string)
	return token
}

func traceTime(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// traceOf is the list that an item keeps of what an operator did to it, and whether it is one.
func traceOf(other Item, attribute string) (trace []any, ours bool) {
	v, there := other[attribute]
	trace, ours = v.([]any)
	return trace, ours || !there
}

// traced is an entry of a trace, nil where there is none.
func traced(other Item, attribute string, i int) map[string]any {
	trace, _ := traceOf(other, attribute)
	if i < 0 || i >= len(trace) {
		return nil
	}
	entry, _ := trace[i].(map[string]any)
	return entry
}

// tracing are the attributes with one more entry in the trace.
func tracing(other Item, attribute string, entry writer) Item {
	trace, _ := traceOf(other, attribute)
	out := make(Item, len(other)+1)
	maps.Copy(out, other)
	out[attribute] = append(slices.Clone(trace), map[string]any(entry))
	return out
}
