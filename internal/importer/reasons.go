package importer

import (
	"errors"

	"github.com/awsmp/metering/internal/intake"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/usagefile"
	"github.com/awsmp/metering/usage"
)

// Codes of lines that the store stands against, and of late ones.
const (
	codeCommitted usagefile.Code = "HourCommitted"
	codeLate      usagefile.Code = "Late"
	codeFuture                   = usagefile.Code(metering.TimestampInFuture)
)

// refusalOf is what the writer's answer means for a line.
func refusalOf(line int, err error) *usagefile.Refusal {
	if errors.Is(err, usage.ErrHourCommitted) {
		return &usagefile.Refusal{Code: codeCommitted, Line: line, Reason: "its hour is already committed, so nothing was added",
			Hint: "give it a time of the current hour in the file of refused lines; " + metering.CommittedForGood}
	}
	told, _ := errors.AsType[*usage.Refusal](err) // unknown let nothing else through
	r := &usagefile.Refusal{Code: usagefile.Code(told.Reason), Line: line, Reason: told.What, Hint: intake.Hint(metering.Reason(told.Reason))}
	switch told.Reason {
	case usage.HourClosed:
		r.Hint = "leave it out: past hours are closed for good, and to date it anew would bill it in an hour in which it was not used"
	case usage.Reason(metering.TimestampInFuture):
		r.Hint = "import the same file again when that minute has come: what was taken is not added twice"
	case usage.RowFull:
		r.Hint = "give it another minute of the same hour in the file of refused lines; next time sort the file by timestamp"
	case usage.RowDropped:
		r.Hint = "give it another minute of the same hour in the file of refused lines"
	case usage.RowTooLarge:
		r.Hint = "tag more coarsely, or give it another minute of the same hour"
	}
	return r
}

func lateLine(l line) Named {
	return Named{l.number, codeLate, "it was added, but its hour was committed before, so it is not billed",
		"do not book it again: the ledger names it as late, and it is carried from there", l.offset, l.size}
}
