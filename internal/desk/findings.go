package desk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// find puts together what wants a person, the most urgent first.
func (l *look) find() {
	found := slices.Clone(l.found)
	order := make(map[string]int)
	for i, e := range entries() {
		order[e.alarm] = i
		for _, f := range l.seen(e) {
			f.Alarm = e.alarm
			f.Fix = cmp.Or(f.Fix, e.command(l.desk.Flags))
			f.Left = cmp.Or(f.Left, l.leftOf(e.loses))
			found = append(found, f)
		}
	}
	for i, f := range found { // those of the plant come without
		if at, known := order[f.Alarm]; known && f.Left == "" {
			found[i].Left = l.leftOf(entries()[at].loses)
		}
	}
	for _, a := range l.alarms {
		i, known := order[a.Name]
		at := slices.IndexFunc(found, func(f Finding) bool { return f.Alarm == a.Name })
		switch {
		case at >= 0:
			found[at].Since = a.Since
		case known:
			e := entries()[i]
			found = append(found, Finding{Alarm: a.Name, What: "the alarm rings", Fix: e.command(l.desk.Flags), Left: l.leftOf(e.loses), Since: a.Since})
		default:
			found = append(found, Finding{Alarm: a.Name, What: "the alarm rings, which this release does not know", Since: a.Since})
			order[a.Name] = len(order)
		}
	}
	if l.ledger != nil && l.ledger.broken > 0 { // no alarm tells of it
		order[""] = len(order)
		found = append(found, Finding{What: ledger.Counted(int64(l.ledger.broken), "group") + ": the books do not balance", Fix: "awsmp ledger" + l.desk.Flags})
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(order[a.Alarm], order[b.Alarm]) })
	l.status.Findings = append(l.status.Findings, found...)
}

// seen is what there is of an alarm beside its ringing.
func (l *look) seen(e entry) (found []Finding) {
	note := func(f Finding, ok bool) {
		if ok {
			found = append(found, f)
		}
	}
	note(l.inQueue(e))
	note(l.inStages(e))
	if e.metric != "" && (e.alarm != "dry-run-submitted" || l.desk.DryRun || l.ledger != nil) {
		note(l.inNumbers(e))
	}
	switch e.alarm {
	case "submitter-did-not-run":
		note(l.noNode(false))
	case "submitter-errors":
		note(l.overdueRecords())
	case "discoverer-did-not-run":
		note(l.noNode(true))
	case "work-age":
		note(l.overdueRows())
	case "submission-paused":
		said := slices.ContainsFunc(l.found, func(f Finding) bool { return f.Alarm == e.alarm })
		note(Finding{What: "nothing is sent; " + l.waitingText(false) + " waiting"}, l.desk.Paused && !said)
	case "usage-aggregation-expired":
		note(l.outOfTime(true))
	case "submission-expiry-did-not-run":
		note(l.outOfTime(false))
	case "deprovision-cleanup-did-not-run":
		note(l.openWindows())
	}
	return found
}

// inQueue finds messages that wait for too long, or failed too often.
func (l *look) inQueue(e entry) (Finding, bool) {
	at := slices.IndexFunc(l.status.Queues, func(q Queue) bool { return e.queue != "" && q.Name == e.queue })
	if at < 0 {
		return Finding{}, false
	}
	q := l.status.Queues[at]
	messages := ledger.Counted(int64(q.Visible+q.InFlight), "message")
	oldest, _ := time.ParseDuration(q.Oldest)
	switch {
	case q.Visible+q.InFlight == 0:
	case q.Dead:
		what := fmt.Sprintf("%s in %s", messages, q.Name)
		if oldest > 0 {
			what += ", the oldest of " + Brief(oldest) + " ago"
		}
		return Finding{What: what}, true
	case e.age > 0 && oldest >= e.age:
		return Finding{What: fmt.Sprintf("%s in %s, the oldest for %s", messages, q.Name, Brief(oldest))}, true
	}
	return Finding{}, false
}

// inStages finds a stage that fails, or has not run for too long.
func (l *look) inStages(e entry) (Finding, bool) {
	for _, s := range l.status.Stages {
		if !slices.Contains(e.stage, s.Name) {
			continue
		}
		switch {
		case e.silent > 0 && !s.LastAt.IsZero() && l.now.Sub(s.LastAt) > e.silent:
			return Finding{What: fmt.Sprintf("%s has not run for %s", s.Name, Brief(l.now.Sub(s.LastAt)))}, true
		case e.silent == 0 && s.Error != "" && (l.status.Node != "" || s.Failures >= 2 || s.Failures == s.Runs):
			line, _, _ := strings.Cut(s.Error, "\n")
			return Finding{What: fmt.Sprintf("%s failed: %s", s.Name, line)}, true
		}
	}
	return Finding{}, false
}

// inNumbers finds what the books or, without them, the metrics tell.
func (l *look) inNumbers(e entry) (Finding, bool) {
	if l.ledger == nil || e.in == nil {
		return l.inMetrics(e)
	}
	var sum caused
	for c, of := range l.ledger.causes {
		if e.in(c) {
			sum.Items, sum.Units = sum.Items+of.Items, sum.Units+of.Units
			if of.first != 0 && (sum.first == 0 || of.first < sum.first) {
				sum.first = of.first
			}
		}
	}
	if sum.Items <= 0 && sum.Units <= 0 {
		return Finding{}, false
	}
	f := Finding{What: fmt.Sprintf("%s, %s: %s", ledger.Counted(int64(sum.Items), "item"), ledger.Counted(sum.Units, "unit"), e.said), Units: sum.Units}
	if sum.first != 0 && e.alarm != "usage-late" {
		f.Left = l.left(l.desk.Rules.Deadline(sum.first))
	}
	return f, true
}

// inMetrics finds what was counted lately.
func (l *look) inMetrics(e entry) (Finding, bool) {
	within := cmp.Or(e.within, 24)
	from := metering.HourOf(l.now) - metering.Hour(within) + 1
	var items, units int64
	for _, c := range l.counts {
		if c.Metric == e.metric && c.Hour >= from {
			items, units = items+c.Items, units+c.Units
		}
	}
	if items == 0 {
		return Finding{}, false
	}
	text := ledger.Counted(items, e.noun)
	if units > 0 {
		text += ", " + ledger.Counted(units, "unit") + ","
	}
	return Finding{What: fmt.Sprintf("%s in the last %d hours: %s", text, within, e.said), Units: units}, true
}

// leftOf is the time until the first of what runs out is lost; empty where nothing does.
func (l *look) leftOf(what loses) string {
	var first time.Time
	note := func(at time.Time, there bool) {
		if there && at.After(l.now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	switch what {
	case losesRefused:
		note(l.status.Refused.FirstLostAt, l.status.Refused.Records > 0)
	case losesRows, losesRecords:
		for _, w := range l.status.Waiting {
			note(w.LostAt, what == losesRows && w.Rows > 0 || what == losesRecords && w.Records > 0)
		}
	}
	if first.IsZero() {
		return ""
	}
	return l.left(first)
}

// noNode finds usage on a machine on which nothing runs.
func (l *look) noNode(rows bool) (Finding, bool) {
	tables, machine := l.desk.Tables.(machineTables)
	if !machine || l.desk.Plant != nil || l.count(rows) == 0 {
		return Finding{}, false
	}
	return Finding{What: "no node runs here; " + l.waitingText(rows) + " waiting", Fix: tables.StartCommand()}, true
}

func (l *look) count(rows bool) (n int64) {
	for _, w := range l.status.Waiting {
		if rows {
			n += int64(w.Rows)
		} else {
			n += int64(w.Records)
		}
	}
	return n
}

func (l *look) waitingText(rows bool) string {
	if rows {
		return ledger.Counted(l.count(rows), "row")
	}
	return ledger.Counted(l.count(rows), "record")
}

// overdueRows finds hours that should have been summed by now. Hours of zeros wait for a day.
func (l *look) overdueRows() (Finding, bool) {
	return l.overdueHours(func(w Waiting) bool { return w.Rows > 0 && !w.zeros }, "row", "should have been summed by now")
}

// overdueRecords finds hours that should have been sent by now.
func (l *look) overdueRecords() (Finding, bool) {
	if l.desk.Paused {
		return Finding{}, false
	}
	return l.overdueHours(func(w Waiting) bool { return w.Records > 0 }, "record", "should have been sent by now")
}

func (l *look) overdueHours(late func(Waiting) bool, noun, what string) (Finding, bool) {
	if _, machine := l.desk.Tables.(machineTables); machine && l.desk.Plant == nil {
		return Finding{}, false // said already: nothing runs
	}
	var items int
	var oldest string
	for _, w := range l.status.Waiting {
		h, err := metering.ParseHour(w.Bucket)
		if err != nil || !late(w) || !l.overdue(h) || !l.desk.Rules.Billable(h, l.now) {
			continue
		}
		oldest = cmp.Or(oldest, w.Bucket)
		if noun == "row" {
			items += w.Rows
		} else {
			items += w.Records
		}
	}
	return Finding{What: fmt.Sprintf("%s, the oldest of %s, %s", ledger.Counted(int64(items), noun), oldest, what)}, items > 0
}

// outOfTimeFor is how long an hour has been past billing when the sweeps must have ended what waits in it.
const outOfTimeFor = 30 * time.Minute

// outOfTime finds what waits although nothing can be done for it any more.
func (l *look) outOfTime(rows bool) (Finding, bool) {
	var items, units int64
	for _, w := range l.status.Waiting {
		n := w.Records
		if rows {
			n = w.Rows
		}
		if w.LostAt.IsZero() || n == 0 || l.now.Sub(w.LostAt) < outOfTimeFor {
			continue
		}
		items, units = items+int64(n), units+w.Units
	}
	noun := "record"
	if rows {
		noun = "row"
	}
	return Finding{What: ledger.Counted(items, noun) + " of hours that can no longer be billed still wait for a name"}, items > 0
}

// openWindows finds licenses whose last hour is over, and that still read as if it was not.
func (l *look) openWindows() (Finding, bool) {
	n := 0
	for _, w := range l.status.Windows {
		if l.now.Sub(w.Expiry) > 45*time.Minute {
			n++
		}
	}
	return Finding{What: ledger.Counted(int64(n), "license") + " whose last hour is over and still reads deprovisioning"}, n > 0
}

// Brief is a duration as a person reads it: to the minute from one minute on, in days from two on.
func Brief(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + Brief(-d)
	case d >= 48*time.Hour:
		return ledger.Counted(int64(d/(24*time.Hour)), "day")
	case d >= time.Minute:
		return strings.TrimSuffix(d.Truncate(time.Minute).String(), "0s")
	}
	return d.Round(time.Second).String()
}
