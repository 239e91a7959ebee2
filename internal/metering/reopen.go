package metering

import "time"

// AttrReopened is a record's trace of its reopenings: a list of what it ended with and when it was let wait again. No other rule reads
// it, so it stands among the attributes that are kept as they are.
const AttrReopened = "reopened"

// Obstacle is why a record may not be sent once more. Empty means that it may.
type Obstacle string

// The obstacles.
const (
	ObstacleWaiting Obstacle = "Waiting"
	ObstacleBilled  Obstacle = "Billed"
	ObstacleTaken   Obstacle = "HourTaken"
	ObstacleDoubt   Obstacle = "InDoubt"
	ObstacleOver    Obstacle = "HourOver"
	ObstacleDryRun  Obstacle = "DryRun"
	ObstacleRefused Obstacle = "Refused"
	ObstacleTwin    Obstacle = "SecondOfASale"
	ObstacleLegacy  Obstacle = "ByIdentifier"
	ObstacleFault   Obstacle = "OwnFault"
	ObstacleForeign Obstacle = "NotOurs"
	ObstacleChanged Obstacle = "Changed" // found by the write, not by the rule
)

// Obstacles lists every obstacle once, in the order in which they are shown.
func Obstacles() []Obstacle {
	return []Obstacle{
		ObstacleOver, ObstacleDoubt, ObstacleTwin, ObstacleLegacy, ObstacleFault, ObstacleTaken, ObstacleDryRun, ObstacleRefused, ObstacleForeign, ObstacleChanged,
		ObstacleWaiting, ObstacleBilled,
	}
}

// Why is the obstacle in words.
func (o Obstacle) Why() string {
	switch o {
	case ObstacleWaiting:
		return "waiting already: the next submission takes it"
	case ObstacleBilled:
		return "billed"
	case ObstacleTaken:
		return "refused as a duplicate: its hour is billed with another quantity, which stays"
	case ObstacleDoubt:
		return "in doubt: it was sent, no answer came, and it may be billed; ask AWS first"
	case ObstacleOver:
		return "too late: its hour can no longer be billed"
	case ObstacleDryRun:
		return "ended by a dry run: it was never sent, and never refused"
	case ObstacleRefused:
		return "refused by the service, and ended by no dry run: to send it once more is a retry"
	case ObstacleTwin:
		return "its sale goes by another record: sent as well, it would be billed twice"
	case ObstacleLegacy:
		return "metered by customer identifier: its sale may have been billed by license since, which cannot be seen here; meter it anew in the current hour if it was not"
	case ObstacleFault:
		return "rejected for what it holds: the same again would be rejected again"
	case ObstacleForeign:
		return "not as the pipeline ends a record: look at it in the table"
	case ObstacleChanged:
		return "changed while it was looked at: ask again"
	}
	return string(o)
}

// ReopenOf is the write that lets a refused record be sent once more, or why it may not be: a refusal for the buyer's standing or the
// product's settings is worth a second try when these have been put right (F21, F34), inside the window.
//
// The record itself is billed no second time. A refusal stores nothing at the service: CustomerNotSubscribed is "not honoured", an
// exception processes nothing of its call (AWS Marketplace Metering API reference, BatchMeterUsage), so the record's hour is free. It is not
// in doubt either: a record that an unanswered call may have billed is never ended by a refusal. And should another run's call get through
// all the same, the record goes out as that one did, with its quantity and in its hour, which is answered Success and billed no second time.
//
// Its sale is another matter (F32): where a product goes over to licenses, the same usage may have been metered under the other identity
// scheme since. To the service these are two sales, and the submitter compares those of one run only. So a record under a customer
// identifier is never reopened: its sale may be billed under any license, and nothing here leads to which. One under a license is, unless
// the record that SaleTaken is asked about stands against it.
func ReopenOf(r Record, rules Rules, now time.Time) (Reopen, Obstacle) {
	return reopenIf(endObstacle(r), r, rules, now)
}

// reopenIf lets a record wait again that nothing stands against but perhaps its time and what it holds.
func reopenIf(o Obstacle, r Record, rules Rules, now time.Time) (Reopen, Obstacle) {
	if o != "" {
		return Reopen{}, o
	}
	trace, ours := traceOf(r.Other, AttrReopened)
	g, reason := r.Group()
	switch {
	case !ours:
		return Reopen{}, ObstacleForeign
	case reason != "":
		return Reopen{}, ObstacleFault
	case !rules.Billable(g.Hour, now):
		return Reopen{}, ObstacleOver
	}
	x := Reopen{
		License: r.License, SortKey: r.SortKey, Fingerprint: r.Fingerprint(), Status: r.Status, Reason: r.StatusReason, Times: len(trace),
		Hour: g.Hour, At: now,
	}
	if x.Apply(r).Validate() != "" { // the submitter would reject it, and it had better keep the name that it has
		return Reopen{}, ObstacleFault
	}
	return x, ""
}

// endObstacle is what the way in which a record has ended has against another try.
func endObstacle(r Record) Obstacle {
	o := statusObstacle(r)
	if o == "" && LegacyLicense(r.License) {
		return ObstacleLegacy
	}
	return o
}

func statusObstacle(r Record) Obstacle {
	if r.Pending != "" {
		return ObstacleWaiting
	}
	if _, odd := r.Other[AttrBilledQuantity]; odd || r.BilledQuantity.Whole {
		return ObstacleBilled // something of it at least
	}
	switch r.Status {
	case CustomerNotSubscribed:
		return ""
	case RejectedClientSide:
		return reasonObstacle(r.StatusReason)
	case Success:
		return ObstacleBilled
	case DuplicateRecord:
		return ObstacleTaken
	case SubmissionExpired:
		if r.SentQuantity.Whole {
			return ObstacleDoubt
		}
		return ObstacleOver
	case DryRunSubmitted:
		if r.SentQuantity.Whole { // before its stage was switched to dry runs
			return ObstacleDoubt
		}
		return ObstacleDryRun
	}
	return ObstacleForeign
}

// reasonObstacle is what the reason of a rejection has against another try. Of the exceptions that can be one record's fault these four are
// about what stands at the service, and can be put right there; all other reasons are about the record, which is sent as it is.
func reasonObstacle(reason string) Obstacle {
	switch reason {
	case ExceptionDimension, ExceptionLicense, ExceptionTimestamp, ExceptionIdentifier:
		return ""
	case string(MixedIdentitySchemes), string(DuplicateIdentity):
		return ObstacleTwin // the twin has ended by now: the submitter, which compares those of one run, would see none
	}
	return ObstacleFault
}

// SaleTaken reports whether a sale is billed, perhaps billed or about to be billed by this record of it, so that a second one under another
// identity must not be sent. Only a refusal, or never having been sent, says that it is not.
func SaleTaken(r Record) bool {
	switch o := statusObstacle(r); {
	case o == "", o == ObstacleDryRun:
		return false
	case o == ObstacleOver: // not sent while there was time
		return false
	case r.Status == RejectedClientSide: // before any call, or by one that billed nothing; but the sale of a second identifier goes by the first
		return o == ObstacleTwin && r.StatusReason != string(MixedIdentitySchemes)
	}
	return true
}

// Reopen is one conditional write that lets a refused record wait again.
type Reopen struct {
	License, SortKey string
	Token            string // this write's own, as that of a Carry

	// The condition: the record is exactly as it was judged.
	Fingerprint string
	Status      Status
	Reason      string
	Times       int // how often it was reopened before

	// The effect: it waits under its hour, unsent. The mark of the call that was refused goes, or the next run would hold the
	// record to be in doubt.
	Hour Hour
	At   time.Time
}

// Holds reports whether the record may be reopened.
func (x Reopen) Holds(r Record) bool {
	o := endObstacle(r)
	if x.Status == DryRunSubmitted {
		o = promoteObstacle(r)
	}
	trace, ours := traceOf(r.Other, AttrReopened)
	return o == "" && ours && len(trace) == x.Times && r.Status == x.Status && r.StatusReason == x.Reason && r.Fingerprint() == x.Fingerprint
}

// Shows reports whether the record was already reopened by this very write, whatever became of it since: a write whose answer was lost.
func (x Reopen) Shows(r Record) bool {
	entry := traced(r.Other, AttrReopened, x.Times)
	return entry[attrTracedAt] == traceTime(x.At) && entry[AttrStatus] == string(x.Status) && tokenOf(entry) == x.Token
}

// Apply is the record after the reopening.
func (x Reopen) Apply(r Record) Record {
	entry := newWriter(nil)
	entry.text(attrTracedAt, traceTime(x.At))
	entry.text(AttrStatus, string(r.Status))
	entry.text(AttrStatusReason, r.StatusReason)
	entry.text(AttrRecordID, r.MeteringRecordID)
	entry.text(attrToken, x.Token)
	r.Other = tracing(r.Other, AttrReopened, entry)
	r.Pending, r.Status, r.StatusReason, r.MeteringRecordID = x.Hour.String(), "", "", ""
	r.SentQuantity, r.SentSecond = Quantity{}, ""
	return r.Stamped(x.At)
}
