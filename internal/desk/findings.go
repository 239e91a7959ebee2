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

// find puts together what wants a person, the most urgent first, and behind it what tells nobody and what is only to be known.
func (l *look) find() {
	found := slices.Clone(l.found)
	order := make(map[string]int)
	for i, e := range entries() {
		order[e.alarm] = i
		for _, f := range l.seen(e) {
			f.Alarm = e.alarm
			f.Fix = cmp.Or(f.Fix, e.command(l.desk.Flags))
			if f.Kind == "" {
				f.Left = cmp.Or(f.Left, l.leftOf(e.loses))
			}
			found = append(found, f)
		}
	}
	for i, f := range found { // those of the plant come without
		if at, known := order[f.Alarm]; known && f.Left == "" && f.Kind == "" {
			found[i].Left = l.leftOf(entries()[at].loses)
		}
	}
	for _, a := range l.alarms {
		i, known := order[a.Name]
		of := func(kind Kind) int {
			return slices.IndexFunc(found, func(f Finding) bool { return f.Alarm == a.Name && f.Kind == kind })
		}
		at := of("")
		if at < 0 {
			if at = of(KindKnown); at >= 0 { // whatever lost it may go on
				found[at].Kind, found[at].Fix = "", entries()[i].command(l.desk.Flags)
			}
		}
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
	kinds := []Kind{"", KindAlarms, KindKnown}
	slices.SortStableFunc(found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)), cmp.Compare(a.soon(), b.soon()), cmp.Compare(order[a.Alarm], order[b.Alarm]))
	})
	l.status.Findings = append(l.status.Findings, found...)
}

// soonLost is how little time makes a finding more urgent than any other: that of a license's last hour.
const soonLost = time.Hour

// soon is the time that is left where it is so little that it decides, and otherwise the same for all.
func (f Finding) soon() time.Duration {
	if left, err := time.ParseDuration(f.Left); err == nil && f.Kind == "" && left <= soonLost {
		return left
	}
	return soonLost + 1
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
		found = append(found, l.inNumbers(e)...)
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
			return Finding{What: fmt.Sprintf("%s failed: %s", s.Name, Cause(s.Error))}, true
		}
	}
	return Finding{}, false
}

// inNumbers finds what the books or, without them, the metrics tell: what can still be put right, and what is only to be known.
func (l *look) inNumbers(e entry) (found []Finding) {
	if l.ledger == nil || e.in == nil {
		if f, is := l.inMetrics(e); is {
			return []Finding{f}
		}
		return nil
	}
	open, over := sumOf(l.ledger.open, e.in), sumOf(l.ledger.over, e.in)
	if e.final {
		over.add(open)
		open = caused{}
	}
	if open.groups > 0 {
		f := Finding{What: open.text(e), Units: open.Units}
		if !open.first.IsZero() {
			f.Left = l.left(open.first)
		}
		found = append(found, f)
	}
	if over.groups > 0 {
		found = append(found, Finding{
			What: over.text(e) + fmt.Sprintf("; of hours of the last %d days that can no longer be billed", booksRecent/24), Fix: "awsmp ledger" + l.desk.Flags,
			Units: over.Units, Kind: KindKnown,
		})
	}
	return found
}

func sumOf(causes map[ledger.Cause]*caused, in func(ledger.Cause) bool) (sum caused) {
	for c, of := range causes {
		if in(c) {
			sum.add(*of)
		}
	}
	return sum
}

// text says how much there is, by what an entry counts.
func (c caused) text(e entry) string {
	much := ledger.Counted(int64(c.groups), "record")
	switch e.noun {
	case "row":
		much = ledger.Counted(int64(c.Items), "row")
	case "group": // of rows, that are rejected together
		much = ledger.Counted(int64(c.Items), "row") + " of " + ledger.Counted(int64(c.groups), "group")
	}
	return fmt.Sprintf("%s, %s: %s", much, ledger.Counted(c.Units, "unit"), e.said)
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
	f := Finding{What: fmt.Sprintf("%s in the last %d hours: %s", text, within, e.said), Units: units}
	if e.final {
		f.Kind = KindKnown
	}
	return f, true
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
			if what == losesRows {
				note(w.rowsLost, !w.rowsLost.IsZero())
			} else {
				note(w.recordsLost, !w.recordsLost.IsZero())
			}
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
	what := "no node runs here"
	if l.desk.Silent != "" {
		what = "the node at " + l.desk.Silent + " does not answer"
	}
	return Finding{What: what + "; " + l.waitingText(rows) + " waiting", Fix: tables.StartCommand()}, true
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
