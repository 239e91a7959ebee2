package demo

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/aws/smithy-go"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/simulator"
)

// story tells in plain words what happens. It says nothing where nothing does.
type story struct {
	tell    func(at time.Time, text string)
	world   *world
	trouble string // of the last run, so that a long one is told once
}

func (s *story) say(at time.Time, format string, args ...any) {
	if s.tell != nil {
		s.tell(at, fmt.Sprintf(format, args...))
	}
}

// instant tells what the stages that were due at t did.
func (s *story) instant(t time.Time) {
	runs := s.world.runs
	s.world.runs = nil
	seen := s.world.store.take()
	s.discovery(t, seen)
	for _, run := range runs {
		switch report := run.Report.(type) {
		case pipeline.Submission:
			s.submission(t, run, report, seen)
		default:
			if run.Err != nil {
				s.say(t, "the stage %s failed: %v; its work is found again", run.Stage, run.Err)
			}
		}
		if r, ok := run.Report.(lifecycle.Finalized); ok && r.Ended > 0 {
			s.say(t, "%s closed for good", ledger.Counted(int64(r.Ended), "license"))
		}
	}
	for _, o := range sorted(seen.verdicts) {
		if o.status == metering.SubmissionExpired {
			a := seen.verdicts[o]
			e := ledger.Explain(ledger.Expired, cmp.Or(o.reason, string(o.status)))
			s.say(t, "expired: %s, %s: %s", ledger.Counted(int64(a.Items), "record"), ledger.Counted(a.Units, "unit"), e.What)
		}
	}
}

// discovery tells what became of rows.
func (s *story) discovery(t time.Time, seen tally) {
	if seen.repaired > 0 {
		s.say(t, "misfiled: %s stood under another hour than its own and was put right", ledger.Counted(int64(seen.repaired), "row"))
	}
	if seen.records > 0 {
		s.say(t, "%s became %s (%s from %s)", hoursText(seen.hours, t), ledger.Counted(int64(seen.records), "record"),
			ledger.Counted(seen.committed.Units, "unit"), ledger.Counted(int64(seen.committed.Items), "row"))
	}
	for _, o := range sorted(seen.rows) {
		a := seen.rows[o]
		rows, units := ledger.Counted(int64(a.Items), "row"), ledger.Counted(a.Units, "unit")
		if a.Units == 0 {
			units = "no units" // or none that can be counted
		}
		switch o.status {
		case metering.LateUsage:
			if e := ledger.Explain(ledger.Late, o.reason); e.Code == ledger.CodeGrewLate {
				s.say(t, "late: %s by %s after the hour was committed", strings.ToLower(o.reason[:1])+strings.TrimSuffix(o.reason[1:], " after its hour was committed"), units)
			} else {
				s.say(t, "late: %s, %s, arrived after the hour was committed", rows, units)
			}
		case metering.RejectedClientSide:
			s.say(t, "rejected: %s, %s: %s", rows, units, ledger.Explain(ledger.Rejected, o.reason).What)
		default:
			s.say(t, "expired: %s, %s: %s", rows, units, ledger.Explain(ledger.Expired, string(o.status)).What)
		}
	}
}

// submission tells what came of a run of calls.
func (s *story) submission(t time.Time, run node.Event, report pipeline.Submission, seen tally) {
	if report.Rejected > 0 {
		s.say(t, "rejected: %s before any call", ledger.Counted(int64(report.Rejected), "record"))
	}
	var parts []string
	if v := verdicts(seen, report.Calls); v != "" {
		parts = append(parts, v)
	}
	if report.Throttled > 0 {
		parts = append(parts, fmt.Sprintf("%d throttled, so the pace was halved and the call repeated", report.Throttled))
	}
	if report.Unprocessed > 0 {
		parts = append(parts, fmt.Sprintf("%s left unprocessed, to be sent again", ledger.Counted(int64(report.Unprocessed), "record")))
	}
	if report.InDoubt > 0 {
		parts = append(parts, fmt.Sprintf("%s in doubt: an earlier call may have been billed", ledger.Counted(int64(report.InDoubt), "record")))
	}
	before := s.trouble
	s.trouble = ""
	if run.Err != nil {
		if s.trouble = trouble(run.Err); s.trouble == before && len(parts) == 0 {
			return
		}
		_, waiting := s.world.store.inFlight()
		parts = append(parts, s.trouble+"; "+waits(waiting))
	}
	if len(parts) == 0 && report.Calls > 0 {
		parts = append(parts, "nothing billed")
	}
	if len(parts) > 0 {
		s.say(t, "%s: %s", ledger.Counted(int64(report.Calls), "call"), strings.Join(parts, "; "))
	}
}

func waits(records int) string {
	if records == 1 {
		return "1 record waits for the next run"
	}
	return ledger.Thousands(int64(records)) + " records wait for the next run"
}

// verdicts are the Marketplace's words on records; how they expired is told on lines of its own.
func verdicts(seen tally, calls int) string {
	var parts []string
	how := ""
	if calls > 1 {
		how = ", found by taking the refused call apart"
	}
	for _, o := range sorted(seen.verdicts) {
		a := seen.verdicts[o]
		n, units := ledger.Thousands(int64(a.Items)), ledger.Counted(a.Units, "unit")
		switch o.status {
		case metering.Success:
			parts = slices.Insert(parts, 0, fmt.Sprintf("%s billed (%s)", ledger.Counted(int64(a.Items), "record"), units))
		case metering.SubmissionExpired:
		case metering.RejectedClientSide:
			parts = append(parts, fmt.Sprintf("%s rejected (%s)%s: %s", n, units, how, ledger.Explain(ledger.Rejected, o.reason).What))
		default:
			parts = append(parts, fmt.Sprintf("%s refused (%s): %s", n, units, ledger.Explain(ledger.Refused, string(o.status)).What))
		}
	}
	return strings.Join(parts, ", ")
}

// trouble says what an error of a run means.
func trouble(err error) string {
	kind, exception := marketplace.Classify(err)
	var refused smithy.APIError
	switch {
	case kind == marketplace.Throttled:
		return "the Marketplace throttled for 30 s on end and the run was given up"
	case errors.As(err, &refused):
		return fmt.Sprintf("the Marketplace is down (%s)", exception)
	case errors.Is(err, simulator.ErrConnection):
		return "no answer came, so the records may be billed or not and will be sent again exactly as they were"
	}
	return err.Error()
}

// event tells of an event of the script.
func (s *story) event(e event, at time.Time) {
	until := clock(e.until, at)
	texts := map[Event][2]string{
		Throttle:           {"the Marketplace throttles every call until " + until, ""},
		Outage:             {"the Marketplace goes down until " + until, "the Marketplace is back"},
		LostReplies:        {"until " + until + " the Marketplace takes calls, but its answers get lost", ""},
		Unprocessed:        {"until " + until + " the Marketplace leaves records unprocessed", ""},
		Deprovision:        {fmt.Sprintf("license %s is deprovisioned: its usage is taken until %s", ledger.Short(e.license), clock(e.from.Add(metering.DeprovisionWindow), at)), ""},
		Subscribe:          {fmt.Sprintf("account %s subscribes: license %s is active from now on", ledger.Shown(e.account), ledger.Short(e.license)), ""},
		Suspend:            {fmt.Sprintf("account %s is suspended", ledger.Shown(e.account)), fmt.Sprintf("account %s is active again", ledger.Shown(e.account))},
		UndefinedDimension: {fmt.Sprintf("the product has no dimension %q", e.dimension), fmt.Sprintf("the dimension %q is defined", e.dimension)},
	}
	text := texts[e.Event][0]
	if e.ends {
		text = texts[e.Event][1]
	}
	if text != "" {
		s.say(at, "— %s", text)
	}
}

// months tells when a month ends and when it closes, on the way from one instant to the next.
func (s *story) months(from, to time.Time) {
	for month := firstOf(from); !month.After(to); month = firstOf(month.AddDate(0, 1, 0)) {
		for _, mark := range []struct {
			after time.Duration
			text  string
		}{
			{0, "— %s is over: its hours can be billed until 06:00"},
			{6 * time.Hour, "— %s is closed: what is not billed by now never will be"},
		} {
			if at := month.Add(mark.after); at.After(from) && !at.After(to) {
				s.say(at, mark.text, month.AddDate(0, -1, 0).Month())
			}
		}
	}
}

func firstOf(t time.Time) time.Time {
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
}

// end tells what still waits when the play is over.
func (s *story) end(t time.Time) {
	rows, records := s.world.store.inFlight()
	if rows > 0 {
		s.say(t, "the play ends here with %s that no visit has ended", ledger.Counted(int64(rows), "row"))
	}
	if records > 0 {
		s.say(t, "the play ends here with %s that no visit has ended", ledger.Counted(int64(records), "record"))
	}
	if visible, taken := s.world.node.DeadLetters.Len(); visible+taken > 0 {
		s.say(t, "set aside after too many failures: %s", ledger.Counted(int64(visible+taken), "message"))
	}
}

func hoursText(hours map[metering.Hour]bool, now time.Time) string {
	list := slices.Sorted(maps.Keys(hours))
	first, last := clock(list[0].Start(), now), clock(list[len(list)-1].Start(), now)
	if len(list) == 1 {
		return "usage of " + first
	}
	return fmt.Sprintf("usage of %d hours, %s to %s,", len(list), first, last)
}

// clock is a time as said at another: with its day where that is not today, with seconds where there are any.
func clock(t, now time.Time) string {
	layout := "15:04"
	if t.Second() != 0 {
		layout = "15:04:05"
	}
	if t.Truncate(24*time.Hour) != now.Truncate(24*time.Hour) {
		layout = "01-02 " + layout
	}
	return t.Format(layout)
}

func sorted(sums map[outcome]ledger.Amount) []outcome {
	return slices.SortedFunc(maps.Keys(sums), func(a, b outcome) int {
		return cmp.Or(strings.Compare(string(a.status), string(b.status)), strings.Compare(a.reason, b.reason))
	})
}
