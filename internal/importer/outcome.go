package importer

import (
	"errors"

	"github.com/awsmp/metering/internal/usagefile"
	"github.com/awsmp/metering/usage"
)

// Amount is a number of lines and the units that they hold.
type Amount struct {
	Lines int   `json:"lines"`
	Units int64 `json:"units"`
}

func (a *Amount) add(units int64) {
	a.Lines++
	a.Units += units
}

// Outcome is what became of the lines of a file: Lines is the sum of those taken, late and refused.
type Outcome struct {
	Complete bool // every line has its fate
	Lines    int
	Taken    Amount // in the store, and in time
	Late     Amount // in the store, but their hour was committed before
	Before   Amount // of those taken and late, what an earlier run of this file had added
	Refused  Names
	Tardy    Names // the lines that are late
	Codes    map[usagefile.Code]int
	// Made and Grew are the rows that were made, and the additions to rows that were there.
	Made, Grew int

	source  *Source
	header  string
	through int // the number of the last line that has its fate
	chunks  int
}

func newOutcome(s *Source) *Outcome {
	return &Outcome{source: s, Codes: make(map[usagefile.Code]int)}
}

// Close lets go of the lists of lines.
func (o *Outcome) Close() error { return errors.Join(o.Refused.close(), o.Tardy.close()) }

// settle gives each line of a chunk its fate.
func (o *Outcome) settle(c *chunk, errs []error, t *tally) error {
	for _, l := range c.lines {
		refusal, late := l.refusal, false
		if refusal == nil {
			err := errs[l.event]
			late = errors.Is(err, usage.ErrLate)
			if err != nil && !late {
				refusal = refusalOf(l.number, err)
			}
		}
		var err error
		switch units := l.units; {
		case refusal != nil:
			o.Codes[refusal.Code]++
			err = o.Refused.add(Named{refusal.Line, refusal.Code, refusal.Reason, refusal.Hint, l.offset, l.size})
		case late:
			o.Late.add(units)
			err = o.Tardy.add(lateLine(l))
		default:
			o.Taken.add(units)
		}
		if err != nil {
			return err
		}
		if refusal == nil && t.before(l.row) {
			o.Before.add(l.units)
		}
		o.Lines++
		o.through = l.number
	}
	o.Made, o.Grew = t.made, t.grew
	return nil
}
