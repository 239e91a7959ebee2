package verify

import (
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// rowCases are those of rows that nothing is wrong with, and of rows that come too late.
func (p *plan) rowCases() []*Case {
	return []*Case{
		p.happyPath(), p.taggedRows(), p.zeroWaits(), p.zeroAtLast(), p.wrongBucket(), p.wrongBucketEarly(), p.ageOut(), p.lateRow(), p.grownRow(),
	}
}

// happyPath is usage of several seconds, of two licenses.
func (p *plan) happyPath() *Case {
	one, two := p.group("happy-path"), p.groupOf(licenseTwo, "happy-path", p.hour)
	first, second := rowsOf(one, 5, 7, 3), rowsOf(two, 10, 20)
	wants := append(aggregated(first), aggregated(second)...)
	wants = append(wants, want{at: groupRecord(one), ends: p.verdict(), units: 15}, want{at: groupRecord(two), ends: p.verdict(), units: 30})
	c := &Case{Name: "happy-path", What: "rows of several seconds, of two licenses, are summed by the hour and sent"}
	return p.ofRows(c, true, step{rows: append(first, second...), wants: wants, wait: p.billed(p.hour)})
}

func (p *plan) taggedRows() *Case {
	g := p.group("tagged-rows")
	rows := rowsOf(g, 6, 1)
	team := func(name string, n int64) metering.Allocation {
		return metering.Allocation{Quantity: n, Tags: []metering.Tag{{Key: "team", Value: name}}}
	}
	rows[0].Allocations, rows[1].Allocations = []metering.Allocation{team("red", 4), team("blue", 2)}, []metering.Allocation{team("red", 1)}
	c := &Case{Name: "tagged-rows", What: "allocations of the same tags are added up"}
	return p.ofRows(c, true, step{
		rows: rows, wait: p.billed(p.hour),
		wants: append(aggregated(rows), want{at: groupRecord(g), ends: p.verdict(), units: 7, sets: 2}),
	})
}

// sendTime is how long it takes from a run of the meter until the record is sent, with a run of the submitter to spare.
const sendTime = 11 * time.Minute

// zeroHold is how long an hour of zeros is watched when other usage of the same hour has been summed.
const zeroHold = time.Minute

func (p *plan) zeroWaits() *Case {
	zero, other := p.group("zero-waits"), p.group("zero-waits-witness")
	c := &Case{Name: "zero-waits", What: "an hour of zeros is not sent early: later usage of the hour would be refused"}
	if p.Rules.ZeroEdge(p.hour, p.now.Add(time.Hour)) {
		c.Why = "hours of zeros are summed now: it is the last hour in which they can be"
		return c
	}
	rows, witness := rowsOf(zero, 0, 0), rowsOf(other, 1)
	waits := []want{
		{at: rowPlace(rows[0]), waits: p.hour}, {at: rowPlace(rows[1]), waits: p.hour}, {at: groupRecord(zero), none: true},
	}
	return p.ofRows(c, false,
		step{rows: append(rows, witness...), wants: aggregated(witness), wait: p.metered(p.hour)},
		step{wants: waits, hold: zeroHold, wait: func(now time.Time) wait {
			return wait{"a minute to pass", now.Add(zeroHold), now.Add(zeroHold + handled)}
		}},
	)
}

// zeroAtLast is an hour of zeros at the oldest processed edge.
func (p *plan) zeroAtLast() *Case {
	c := &Case{Name: "zero-at-last", What: "an hour of zeros is sent as 0 before it can no longer be billed"}
	h, t, ok := p.oldestZeros()
	if !ok {
		c.Why = "hours of zeros of the month before are summed at 05:50 UTC on the 1st, and this month has none yet that is old enough"
		return c
	}
	g := p.groupOf(licenseOne, c.Name, h)
	rows := rowsOf(g, 0)
	return p.ofRows(c, true, step{
		rows: rows, wants: append(aggregated(rows), want{at: groupRecord(g), ends: p.verdict(), zero: true}),
		wait: func(time.Time) wait {
			return wait{metering.MeterSchedule.Name + " and " + metering.SubmitSchedule.Name, t, sentBy(t.Add(metering.MeterSchedule.Every + handled))}
		},
	})
}

// oldestZeros is the hour whose zeros are summed by the meter's next run, or by the one after that where the next run is the last that could sum them, and
// that run.
func (p *plan) oldestZeros() (metering.Hour, time.Time, bool) {
	t := metering.MeterSchedule.Next(p.now)
	oldest := func() metering.Hour { return metering.HourOf(t) - metering.MaxOffset }
	if !p.Rules.Billable(oldest(), t.Add(sendTime)) {
		t = metering.MeterSchedule.Next(t)
	}
	h := oldest()
	return h, t, p.Rules.ZeroEdge(h, t) && p.Rules.Visitable(h, t) && p.Rules.Billable(h, t.Add(sendTime))
}

func (p *plan) wrongBucket() *Case {
	g := p.group("wrong-bucket")
	row := rowsOf(g, 4)[0]
	wrong := p.hour - 1
	if !p.Rules.Visitable(wrong, p.now) {
		wrong = p.hour + 1
	}
	row.Pending = wrong.String()
	c := &Case{Name: "wrong-bucket", What: "a row whose meteringPending is not its hour is summed with its hour all the same"}
	wants := append(aggregated([]metering.Row{row}), want{at: groupRecord(g), ends: p.verdict(), units: 4})
	return p.ofRows(c, true, step{rows: []metering.Row{row}, wants: wants, wait: func(now time.Time) wait {
		w, own := p.billed(wrong)(now), p.billed(p.hour)(now) // found under the wrong one, it may still be too early for its own
		if own.latest.After(w.latest) {
			return own
		}
		return w
	}})
}

// wrongBucketEarly is a row of an hour that is not over, under one that is: it is put where it will be found.
func (p *plan) wrongBucketEarly() *Case {
	own := metering.HourOf(p.now) + 2
	g := p.groupOf(licenseOne, "wrong-bucket-early", own)
	row := rowsOf(g, 4)[0]
	row.Pending = p.hour.String()
	c := &Case{Name: "wrong-bucket-early", What: "a row of an hour to come that waits under one that is over is put under its own"}
	return p.ofRows(c, false, step{
		rows: []metering.Row{row}, wants: []want{{at: rowPlace(row), waits: own}, {at: groupRecord(g), none: true}}, wait: p.metered(p.hour),
	})
}

func (p *plan) ageOut() *Case {
	g := p.groupOf(licenseOne, "age-out", p.past())
	rows := rowsOf(g, 9)
	c := &Case{Name: "age-out", What: "a row that can no longer be billed is ended and named"}
	return p.ofRows(c, false, step{
		rows: rows, wait: p.metered(g.Hour),
		wants: []want{{at: rowPlace(rows[0]), ends: []end{{metering.AggregationExpired, metering.ExpiredReason}}}, {at: groupRecord(g), none: true}},
	})
}

func (p *plan) lateRow() *Case {
	g := p.group("late-row")
	rows := rowsOf(g, 2, 3)
	c := &Case{Name: "late-row", What: "a row that comes after its hour was summed is late, and not lost"}
	return p.ofRows(c, false,
		step{rows: rows[:1], wants: aggregated(rows[:1]), wait: p.metered(p.hour)},
		step{rows: rows[1:], wait: p.metered(p.hour), wants: append(aggregated(rows[:1]),
			want{at: rowPlace(rows[1]), ends: []end{{metering.LateUsage, metering.LateReason}}})},
	)
}

func (p *plan) grownRow() *Case {
	g := p.group("grown-row")
	rows := rowsOf(g, 2)
	grown := rowsOf(g, 9)
	c := &Case{Name: "grown-row", What: "of a row that grows after its hour was summed, what it grew by is late"}
	return p.ofRows(c, false,
		step{rows: rows, wants: aggregated(rows), wait: p.metered(p.hour)},
		step{rows: grown, wait: p.metered(p.hour), wants: []want{{at: rowPlace(grown[0]), ends: []end{{metering.LateUsage, "Grew from 2 to 9"}}, units: 7}}},
	)
}
