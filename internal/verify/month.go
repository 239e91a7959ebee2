package verify

import (
	"fmt"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// soon is the least time between the writing of an item and the run that has to see it.
const soon = time.Minute

// monthRows are rows of the month before. They are billed on the 1st until 06:00 UTC, and afterwards named and never billed.
func (p *plan) monthRows() *Case {
	c := &Case{Name: "month-boundary", What: "a row of the month before"}
	if h, ok := p.graceHour(); ok {
		g := p.groupOf(licenseOne, c.Name, h)
		rows := rowsOf(g, 6)
		c.What += fmt.Sprintf(" (%v) is billed: it is the 1st, before 06:00 UTC", h)
		return p.ofRows(c, true, step{rows: rows, wait: p.billed(h), wants: append(aggregated(rows), want{at: groupRecord(g), ends: p.verdict(), units: 6})})
	}
	h, t, ok := p.sweptHour(metering.AgeoutSchedule)
	if !ok {
		c.Why = "no hour of the month before is looked at in the next half hour"
		return c
	}
	g := p.groupOf(licenseOne, c.Name, h)
	rows := rowsOf(g, 6)
	c.What += fmt.Sprintf(" (%v) is named, and never billed", h)
	return p.ofRows(c, false, step{rows: rows, wait: at(metering.AgeoutSchedule, t), wants: []want{
		{at: rowPlace(rows[0]), ends: []end{{metering.AggregationExpired, metering.ExpiredReason}}}, {at: groupRecord(g), none: true},
	}})
}

// monthRecord is a record of the month before.
func (p *plan) monthRecord() *Case {
	c := &Case{Name: "month-boundary-record", What: "a record of the month before"}
	if h, ok := p.graceHour(); ok {
		record := metering.NewRecord(p.groupOf(licenseOne, c.Name, h), 6)
		c.What += fmt.Sprintf(" (%v) is billed: it is the 1st, before 06:00 UTC", h)
		return p.ofRecords(c, true, step{records: []metering.Record{record}, wait: submitted, wants: []want{{at: recordPlace(record), ends: p.verdict(), units: 6}}})
	}
	h, t, ok := p.sweptHour(metering.ExpireSchedule)
	if !ok {
		c.Why = "no hour of the month before is looked at in the next minutes"
		return c
	}
	record := metering.NewRecord(p.groupOf(licenseOne, c.Name, h), 6)
	c.What += fmt.Sprintf(" (%v) is named, and never billed", h)
	return p.ofRecords(c, false, step{records: []metering.Record{record}, wait: at(metering.ExpireSchedule, t), wants: []want{
		{at: recordPlace(record), ends: []end{{metering.SubmissionExpired, ""}}, units: 6},
	}})
}

// graceHour is the newest hour of the month before that can still be metered and sent, if there is one.
func (p *plan) graceHour() (metering.Hour, bool) {
	next := metering.MeterSchedule.Next(p.now)
	for h := metering.HourOf(p.now); h > metering.HourOf(p.now)-48; h-- {
		if h.Start().Month() != p.now.UTC().Month() && p.Rules.Visitable(h, next) && p.Rules.Billable(h, sentBy(next.Add(handled))) {
			return h, true
		}
	}
	return 0, false
}

// sweptHour is an hour of the month before that one of the next two runs of a sweep looks at, and that run: older hours than three days are
// looked at once a day, a slice of them at each run.
func (p *plan) sweptHour(s metering.Schedule) (metering.Hour, time.Time, bool) {
	t := s.Next(p.now)
	if t.Sub(p.now) < soon {
		t = s.Next(t)
	}
	for h := range p.Rules.SweepHours(t) {
		if month := h.Start().Month(); month != t.UTC().Month() {
			return h, t, true
		}
	}
	return 0, time.Time{}, false
}
