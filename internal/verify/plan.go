package verify

import (
	"slices"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// plan is what a run's cases are made of: the run's names, and the hours that suit them at its beginning.
type plan struct {
	Settings
	now  time.Time
	hour metering.Hour // of rows: the newest that is metered now, or the first that will be
	sent metering.Hour // of records that are written directly: the newest that is sent now
}

// open is how long an hour has to stay open for two steps of a case.
const open = 75 * time.Minute

func newPlan(s Settings, now time.Time) *plan {
	p := &plan{Settings: s, now: now}
	p.sent = newest(now, func(h metering.Hour) bool { return s.Rules.Billable(h, now.Add(open)) })
	// With a long lock there are times on the 1st at which no hour is metered that stays open: then the first one that will be.
	for t := now; p.hour == 0 && t.Before(now.Add(horizon)); t = metering.MeterSchedule.Next(t) {
		p.hour = newest(t, func(h metering.Hour) bool { return s.Rules.Visitable(h, t) && s.Rules.Visitable(h, t.Add(open)) })
	}
	return p
}

// newest is the newest complete hour at t that suits; 0 where none does.
func newest(t time.Time, suits func(metering.Hour) bool) metering.Hour {
	for offset := metering.MinOffset; offset <= metering.MaxOffset; offset++ {
		if h := metering.HourOf(t) - metering.Hour(offset); suits(h) {
			return h
		}
	}
	return 0
}

// wait is who acts next, and until when at the latest: where one run of a schedule meets an index that lags, the next sees to it.
type wait struct {
	stage        string
	next, latest time.Time
}

// words is the wait as a person reads it. Where the first run has gone by, the next one is expected to do it.
func (w wait) words(now time.Time) string {
	if w.stage == "" {
		return "the next look"
	}
	text := w.stage
	if w.next.After(now) {
		text += " at " + w.next.UTC().Format("15:04")
	}
	return text + ", by " + w.latest.UTC().Format("15:04") + " at the latest"
}

const (
	// handled is how long what a schedule has begun may take: queues, cold starts, retries.
	handled = 3 * time.Minute
	// horizon bounds the search for a run: no hour is open for longer.
	horizon = 48 * time.Hour
)

// metered is the wait for rows of an hour: by the meter while they can be billed, and afterwards by age-out.
func (p *plan) metered(h metering.Hour) func(time.Time) wait {
	return func(now time.Time) wait {
		for t := metering.MeterSchedule.Next(now); t.Before(now.Add(horizon)); t = metering.MeterSchedule.Next(t) {
			switch {
			case p.Rules.Visitable(h, t):
				return wait{metering.MeterSchedule.Name, t, t.Add(metering.MeterSchedule.Every + handled)}
			case p.Rules.Expirable(h, t):
				return wait{metering.AgeoutSchedule.Name, t, t.Add(metering.AgeoutSchedule.Every + handled)}
			}
		}
		return wait{metering.MeterSchedule.Name, now.Add(horizon), now.Add(horizon)}
	}
}

// billed is the wait for rows of an hour to be summed, and for their record to be sent.
func (p *plan) billed(h metering.Hour) func(time.Time) wait {
	return func(now time.Time) wait {
		w := p.metered(h)(now)
		return wait{w.stage + " and " + metering.SubmitSchedule.Name, w.next, sentBy(w.latest)}
	}
}

// submitted is the wait for a record to be sent.
func submitted(now time.Time) wait {
	return wait{metering.SubmitSchedule.Name, metering.SubmitSchedule.Next(now), sentBy(now)}
}

// sentBy is when a record that waits at t is sent at the latest: the second run from then on.
func sentBy(t time.Time) time.Time {
	return metering.SubmitSchedule.Next(metering.SubmitSchedule.Next(t)).Add(handled)
}

// lapsed is the wait for a record that is too old to be ended.
func lapsed(now time.Time) wait {
	next := metering.ExpireSchedule.Next(now)
	return wait{metering.ExpireSchedule.Name, next, metering.ExpireSchedule.Next(next).Add(handled)}
}

// at is a wait for one run of a schedule.
func at(s metering.Schedule, t time.Time) func(time.Time) wait {
	return func(time.Time) wait { return wait{s.Name, t, t.Add(s.Every + handled)} }
}

// past is the newest hour that can no longer be billed and is looked at by every sweep.
func (p *plan) past() metering.Hour {
	h := metering.HourOf(p.now) - metering.MaxOffset
	for !p.Rules.Expirable(h, p.now) {
		h--
	}
	return h - 1
}

// group is a group of a case under the first invented license.
func (p *plan) group(name string) metering.Group { return p.groupOf(licenseOne, name, p.hour) }

// sentGroup is one of records that are written directly.
func (p *plan) sentGroup(name string) metering.Group { return p.groupOf(licenseOne, name, p.sent) }

func (p *plan) groupOf(license, name string, h metering.Hour) metering.Group {
	return metering.Group{License: license, Account: account, Dimension: dimension(p.ID, name), Hour: h}
}

// verdict are the ways in which the record of an invented license ends when it is sent.
func (p *plan) verdict() []end {
	if p.DryRun {
		return []end{{metering.DryRunSubmitted, ""}}
	}
	return []end{ // which of these AWS Marketplace says is not documented
		{metering.CustomerNotSubscribed, ""},
		{metering.RejectedClientSide, metering.ExceptionLicense},
		{metering.RejectedClientSide, metering.ExceptionDimension},
		{metering.RejectedClientSide, metering.ExceptionIdentifier},
	}
}

// notSent is why nothing is sent, or empty.
func (p *plan) notSent() string {
	if p.Paused {
		return "submission is paused: no record is sent"
	}
	return ""
}

func rowPlace(r metering.Row) place       { return place{r.License, r.SortKey, false} }
func recordPlace(r metering.Record) place { return place{r.License, r.SortKey, true} }

func groupRecord(g metering.Group) place { return place{g.License, g.RecordKey(), true} }

// rowsOf are rows of a group a minute apart.
func rowsOf(g metering.Group, quantities ...int64) []metering.Row {
	rows := make([]metering.Row, len(quantities))
	for i, q := range quantities {
		rows[i] = metering.NewRow(g, g.Hour.Second(60*i), q)
	}
	return rows
}

// aggregated are rows that are covered by their group's record.
func aggregated(rows []metering.Row) []want {
	var sum int64
	for _, r := range rows {
		sum += r.Quantity.N
	}
	reason := metering.AggregatedReason(sum, len(rows))
	wants := make([]want, len(rows))
	for i, r := range rows {
		wants[i] = want{at: rowPlace(r), ends: []end{{metering.Aggregated, reason}}}
	}
	return wants
}

// chosen are the cases that are asked for, in order. Those that this stack cannot show are skipped, and say why.
func (p *plan) chosen(only []string) (list []*Case) {
	for _, c := range p.all() {
		if len(only) > 0 && !named(c.Name, only) {
			continue
		}
		if c.Why != "" && len(c.steps) == 0 {
			c.Result = Skipped
		}
		if len(c.steps) > 0 && c.Expected == "" {
			c.Expected = expected(c.steps[len(c.steps)-1].wants)
		}
		c.forecast(p.now, p.until())
		list = append(list, c)
	}
	return list
}

// named reports whether a name is one of those, or of a family that is.
func named(name string, only []string) bool {
	for _, o := range only {
		if name == o || strings.HasPrefix(name, o+"-") {
			return true
		}
	}
	return false
}

// until is when a run that began at the plan's time is ended; zero where nothing ends it.
func (p *plan) until() time.Time {
	if p.Timeout == 0 {
		return time.Time{}
	}
	return p.now.Add(p.Timeout)
}

// List are the cases as a run with these settings would try them if it began now. Nothing is written.
func List(s Settings) []Case {
	var list []Case
	for _, c := range newPlan(s, s.Now()).chosen(s.Only) {
		list = append(list, *c)
	}
	return list
}

// Unknown are those of the names that mean no case of any stack.
func Unknown(only []string) (unknown []string) {
	p := &plan{Settings: Settings{ID: NewID(time.Time{}, 0)}}
	for _, o := range only {
		if !slices.ContainsFunc(p.all(), func(c *Case) bool { return named(c.Name, []string{o}) }) {
			unknown = append(unknown, o)
		}
	}
	return unknown
}

// all are all cases, in the order in which they are shown.
func (p *plan) all() []*Case {
	var list []*Case
	add := func(cases ...*Case) { list = append(list, cases...) }
	add(p.rowCases()...)
	add(p.rejectedRows()...)
	add(p.monthRows())
	add(p.recordCases()...)
	add(p.rejectedRecords()...)
	add(p.monthRecord())
	add(p.marketplaceCases()...)
	add(p.registrationPage())
	return list
}

// ofRows is a case of the full pipeline.
func (p *plan) ofRows(c *Case, sends bool, steps ...step) *Case {
	switch {
	case p.Direct():
		c.Why = "direct-submit: there is no usage table"
	case sends && p.notSent() != "":
		c.Why = p.notSent()
	default:
		c.steps = steps
	}
	return c
}

// ofRecords is a case of records that are written directly.
func (p *plan) ofRecords(c *Case, sends bool, steps ...step) *Case {
	if sends && p.notSent() != "" {
		c.Why = p.notSent()
		return c
	}
	c.steps = steps
	return c
}

// Direct reports whether sellers write the records of the stack themselves.
func (t Target) Direct() bool { return t.Rows == nil }
