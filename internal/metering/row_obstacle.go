package metering

// RowObstacle is why a row may not be recalled, dropped or carried. Empty means that it may.
type RowObstacle string

// The obstacles.
const (
	RowWaiting     RowObstacle = "Waiting"
	RowNotRejected RowObstacle = "NotRejected"
	RowDropped     RowObstacle = "Dropped"
	RowFault       RowObstacle = "StillWrong"
	RowOver        RowObstacle = "HourOver"
	RowLegacy      RowObstacle = "ByIdentifier"
	RowNotLate     RowObstacle = "NotLate"
	RowCovered     RowObstacle = "Covered"
	RowTagged      RowObstacle = "GrownWithAllocations"
	RowNoRecord    RowObstacle = "NoRecord"
	RowManifest    RowObstacle = "ManifestUnreadable"
	RowNotYet      RowObstacle = "HourNotOver"
	RowCarried     RowObstacle = "CarriedAlready"
	RowTwin        RowObstacle = "SecondOfASale"
	RowFull        RowObstacle = "NoRoomForItsTrace" // found by the write
	RowTarget      RowObstacle = "NotTheCurrentHour"
	RowTooMuch     RowObstacle = "QuantityOutOfRange"
	RowCommitted   RowObstacle = "CurrentHourCommitted"
	RowEnded       RowObstacle = "LicenseEnded"
	RowForeign     RowObstacle = "NotOurs"
	RowChanged     RowObstacle = "Changed"     // found by the write, not by the rule
	RowTaken       RowObstacle = "TargetTaken" // likewise
)

// RowObstacles lists every obstacle once, in the order in which they are shown.
func RowObstacles() []RowObstacle {
	return []RowObstacle{
		RowOver, RowEnded, RowCommitted, RowTwin, RowLegacy, RowTagged, RowTooMuch, RowFull, RowFault, RowManifest, RowNoRecord, RowForeign, RowTarget, RowTaken,
		RowChanged, RowNotYet, RowCarried, RowCovered, RowDropped, RowWaiting, RowNotRejected, RowNotLate,
	}
}

// Why is the obstacle in words.
func (o RowObstacle) Why() string {
	switch o {
	case RowWaiting:
		return "waiting already: the next visit of its hour takes it"
	case RowNotRejected:
		return "not rejected"
	case RowDropped:
		return "dropped by an operator: it stays out of every sum"
	case RowFault:
		return "still wrong by itself: mend it first, it would be rejected again"
	case RowOver:
		return "too late: its hour can no longer be billed"
	case RowLegacy:
		return "metered by customer identifier: its sale may have been billed by license since, which cannot be seen here; meter it anew in the current hour if it was not"
	case RowNotLate:
		return "not late"
	case RowCovered:
		return "all of it stands in its hour's record: nothing of it is late, and the next visit of its hour labels it anew"
	case RowTagged:
		return "it grew after its hour was committed and has allocations: which of them are late cannot be told"
	case RowNoRecord:
		return "its hour has no record: it is not late, the next visit of its hour takes it"
	case RowManifest:
		return "what its hour's record was summed from cannot be read, so what is late or billed of it cannot be told: bring the record back from a backup"
	case RowNotYet:
		return "its own hour is not over: there is no later one that it could be booked in"
	case RowTarget:
		return "usage is carried into the current hour, at a second that has been, and into no other"
	case RowTooMuch:
		return "more than one record can hold: book it in parts"
	case RowCommitted:
		return "the current hour is committed already: booked there, it would be late again"
	case RowCarried:
		return "what is late of it was carried already, as its hour's record says; the row was written again"
	case RowTwin:
		return ObstacleTwin.Why()
	case RowFull:
		return "its trace, which it and its hour's record keep, has no room left in them: book it anew by hand"
	case RowEnded:
		return "its license has ended, or ends before the current hour could be flushed and sent: it can no longer be billed"
	case RowForeign:
		return "not as the pipeline leaves a row: look at it in the table"
	case RowChanged:
		return "changed while it was looked at: ask again"
	case RowTaken:
		return "the second that it was to be booked at has been taken: ask again"
	}
	return string(o)
}
