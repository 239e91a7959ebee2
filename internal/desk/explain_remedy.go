package desk

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// Remedy is what can be done for units that are not billed.
type Remedy struct {
	Help   bool   `json:"canHelp"`          // they can still be billed: by the command, or by themselves where there is none
	Why    string `json:"why"`              // in words
	First  string `json:"first,omitempty"`  // what has to be mended before the command helps, in words
	Fix    string `json:"fix,omitempty"`    // the command, ready to be copied; empty where nothing is to be done, or nothing can
	GiveUp string `json:"giveUp,omitempty"` // the command that gives up what stands in the way, for good
	Left   string `json:"left,omitempty"`   // until it is too late for that, as "22h40m0s"; missing where time plays no part, and where it is over
}

// addCauses says of all units that are not billed why, and what can be done.
func (d *Desk) addCauses(ctx context.Context, s *Story, of group, balance ledger.Balance, now time.Time) error {
	for c, a := range balance.Places {
		if c.Place == ledger.Billed {
			continue
		}
		e := ledger.Explain(c.Place, c.Reason)
		remedy, err := d.remedy(ctx, of, c, now)
		if err != nil {
			return err
		}
		s.Causes = append(s.Causes, StoryCause{Place: c.Place, Code: e.Code, What: e.What, Do: e.Do, Items: a.Items, Units: a.Units, Remedy: remedy})
	}
	order := ledger.Places()
	slices.SortFunc(s.Causes, func(a, b StoryCause) int {
		return cmp.Or(cmp.Compare(slices.Index(order, a.Place), slices.Index(order, b.Place)), cmp.Compare(b.Units, a.Units), cmp.Compare(a.Code, b.Code))
	})
	return nil
}

// What nothing can be done for.
const (
	overForGood = "no: its hour can no longer be billed, and nothing brings that back"
	takenByHour = "no: its hour is billed with another quantity, which stays; what is owed beyond it can be booked once in a later hour"
	askFirst    = "no: it was sent, no answer came, and it may be billed. Compare with what AWS Marketplace has billed before you book it anywhere else"
)

// remedy is what can be done for the units of one cause.
func (d *Desk) remedy(ctx context.Context, of group, c ledger.Cause, now time.Time) (Remedy, error) {
	ofRecord := of.record != nil && d.recordHolds(*of.record, c)
	switch c.Place {
	case ledger.InFlight:
		return d.inFlight(of, c, now), nil
	case ledger.Late:
		return d.carryRemedy(ctx, of)
	case ledger.InDoubt:
		if _, machine := d.Tables.(machineTables); machine {
			return Remedy{Why: askFirst + ": awsmp ledger --hour " + of.Hour.String() + d.Flags + " compares"}, nil
		}
		return Remedy{Why: askFirst}, nil
	case ledger.Expired:
		return Remedy{Why: overForGood}, nil
	case ledger.DryRun:
		if d.DryRun {
			return Remedy{Why: "no: this place is in dry run, and it would end so again. Go live first, while the hour can be billed"}, nil
		}
		return d.recordRemedy(ctx, of, metering.PromoteOf, "dryrun promote", "yes: it was never sent, and can be sent now that the place is live", now)
	case ledger.Refused:
		if c.Reason == string(metering.DuplicateRecord) {
			return Remedy{Why: takenByHour}, nil
		}
		return d.recordRemedy(ctx, of, metering.ReopenOf, "refused retry", "yes, when the buyer is active again: it is refused again otherwise, and nothing is lost by that", now)
	case ledger.Rejected:
		if c.Reason == ledger.Dropped {
			return Remedy{Why: "no: " + metering.RowDropped.Why()}, nil
		}
		if !ofRecord {
			return d.rejectedRemedy(ctx, of, c, now)
		}
		r, err := d.recordRemedy(ctx, of, metering.ReopenOf, "refused retry", "yes, when the cause is put right: it is refused again otherwise, and nothing is lost by that", now)
		if err == nil && !r.Help && of.rejectedFor(c.Reason) { // rows that came afterwards, rejected for the same
			return d.rejectedRemedy(ctx, of, c, now)
		}
		return r, err
	}
	return Remedy{Why: "no: nothing can be done about this from here"}, nil
}

// recordHolds reports whether the units of a cause are those of the record, and not of rows.
func (d *Desk) recordHolds(r metering.Record, c ledger.Cause) bool {
	return r.Pending == "" && r.Status == metering.RejectedClientSide && c.Place == ledger.Rejected && c.Reason == r.StatusReason
}

// rejectedFor reports whether rows were rejected for a reason.
func (g group) rejectedFor(reason string) bool {
	return slices.ContainsFunc(g.rows, func(r metering.Row) bool {
		return r.Pending == "" && r.Status == metering.RejectedClientSide && r.StatusReason == reason
	})
}

// command is a command of awsmp for one group at this place.
func (d *Desk) command(name string, g metering.Group) string {
	return "awsmp " + name + " --license " + Word(g.License) + " --account " + Word(g.Account) + " --dimension " + Word(g.Dimension) +
		" --hour " + g.Hour.String() + d.Flags
}

// recordRemedy asks the very stage that would send the record once more, which looks at the sale's other record too.
func (d *Desk) recordRemedy(ctx context.Context, of group, by reopenRule, name, yes string, now time.Time) (Remedy, error) {
	dry, err := d.retrier(by).Run(ctx, pipeline.Retry{License: of.License, Account: of.Account, Dimension: of.Dimension, Hour: &of.Hour, DryRun: true})
	switch {
	case err != nil:
		return Remedy{}, fmt.Errorf("ask whether it can be sent once more: %w", err)
	case len(dry.Reopened) > 0:
		return Remedy{Help: true, Why: yes, Fix: d.command(name, of.Group), Left: d.until(of, now)}, nil
	case len(dry.Skipped) > 0:
		return Remedy{Why: "no: " + dry.Skipped[0].Why}, nil
	}
	return Remedy{Why: "no: the record is gone"}, nil
}

// inFlight says when units that wait go on.
func (d *Desk) inFlight(of group, c ledger.Cause, now time.Time) Remedy {
	left, submit := d.until(of, now), of.stops[metering.SubmitSchedule.Name]
	switch e := endOf(of.subscriber, now); {
	case !d.Rules.Billable(of.Hour, now):
		return Remedy{Why: overForGood + "; the next sweep gives it that name"}
	case e.over:
		return Remedy{Why: "no: its license has ended, and what is sent is refused. A refused record can be sent once more when the buyer is active again"}
	case c.Reason == ledger.Misfiled:
		return Remedy{Help: true, Why: "a row waits under another hour than its own. The discoverer corrects that when it visits the hour that the row waits under; set " +
			metering.AttrPending + " to " + of.Hour.String() + " where that may be too late", Left: left}
	case of.record != nil && of.record.Pending != "" && d.Paused:
		return Remedy{Help: true, Why: "yes, by itself, when submission is no longer paused", Fix: "awsmp explain submission-paused" + d.Flags, Left: left}
	case of.record != nil && of.record.Pending != "" && submit.Why != "":
		return stopped(submit, left)
	case of.record != nil && of.record.Pending != "":
		return Remedy{Help: true, Why: "not needed: the submission at " + metering.SubmitSchedule.Next(now).Format("15:04 UTC") + " takes it", Left: left}
	}
	v, ok := d.visit(of, now)
	at := v.at.Format("01-02 15:04 UTC")
	switch {
	case ok && v.stop.Why != "":
		return stopped(v.stop, left)
	case of.record != nil:
		return Remedy{Help: true, Why: "not needed yet: the next visit says whether these rows are late; then they can be carried", Left: left}
	case !ok:
		return Remedy{Why: "no: nothing visits it in the time that is left"}
	case d.Paused:
		return Remedy{Help: true, Why: "yes: the visit at " + at + " sums it, and it is sent when submission is no longer paused", Fix: "awsmp explain submission-paused" + d.Flags, Left: left}
	case submit.Why != "":
		return Remedy{Help: true, Why: "yes: the visit at " + at + " sums it, and then nothing is sent: " + submit.Why, Fix: submit.Fix, Left: left}
	case of.zero(now):
		return Remedy{Help: true, Why: "not needed: it is zero, and is summed at the last moment, by the visit at " + at + ", for more may still come", Left: left}
	}
	return Remedy{Help: true, Why: "not needed: the visit at " + at + " sums it", Left: left}
}

// stopped is the remedy for what nothing moves on.
func stopped(s Stop, left string) Remedy {
	return Remedy{Help: true, Why: "yes, when it goes on: " + s.Why, Fix: s.Fix, Left: left}
}

// which selects the group alone.
func (g group) which() Which {
	return Which{License: g.License, Account: g.Account, Dimension: g.Dimension, Hour: &g.Hour}
}

// carryRemedy asks the very operation that would carry the rows.
func (d *Desk) carryRemedy(ctx context.Context, of group) (Remedy, error) {
	dry, err := d.CarryLate(ctx, of.which(), 0, true)
	switch {
	case err != nil:
		return Remedy{}, fmt.Errorf("ask whether it can be carried: %w", err)
	case dry.Rows > 0:
		return Remedy{Help: true, Why: "not under its own hour, which is committed; it can be carried into the current hour, once", Fix: d.command("late carry", of.Group)}, nil
	case len(dry.Left) > 0:
		return Remedy{Why: "no: " + dry.Left[0].Why}, nil
	}
	return Remedy{Why: "no: there is no such row any more: ask again"}, nil
}

// rejectedRemedy asks the very operation that would let the rows wait again.
func (d *Desk) rejectedRemedy(ctx context.Context, of group, c ledger.Cause, now time.Time) (Remedy, error) {
	dry, err := d.RetryRejected(ctx, of.which(), true)
	if err != nil {
		return Remedy{}, fmt.Errorf("ask whether it can wait again: %w", err)
	}
	left, fits, dropped := d.until(of, now), false, true
	var first metering.RowObstacle
	for _, r := range of.rows {
		if r.Status != metering.RejectedClientSide || r.Pending != "" || r.StatusReason != c.Reason {
			continue
		}
		_, o := metering.RecallOf(r, d.Rules, now)
		fits, dropped = fits || o == "", dropped && o == metering.RowDropped
		first = cmp.Or(first, o)
	}
	retry := d.command("rejected retry", of.Group)
	switch {
	case dropped:
		return Remedy{Why: "no: " + metering.RowDropped.Why()}, nil
	case fits && len(dry.Groups) > 0 && dry.Groups[0].Late:
		return Remedy{Help: true, Why: "yes: it waits again, and ends as late, since its hour is committed; then it can be carried into the current hour", Fix: retry, Left: left}, nil
	case fits && len(dry.Groups) > 0:
		return Remedy{Help: true, Why: "yes: what it was rejected for is mended, or lay with another row", Fix: retry, Left: left}, nil
	}
	if len(dry.Refused) > 0 {
		switch n := dry.Refused[0]; n.Cause {
		case CauseAgain, string(metering.RowFault):
			return d.mend(of, n, retry, left), nil
		case CauseUnfit:
			return Remedy{Help: true, Why: "yes, when one of the rows that do not fit together is dropped, which gives up what it holds" + anew(d.mendable()) + "; the command lists them",
				Fix: retry + " --dry-run", Left: left}, nil
		default:
			return Remedy{Why: "no: " + n.Why}, nil
		}
	}
	if first != "" {
		return Remedy{Why: "no: " + first.Why()}, nil
	}
	return Remedy{Why: "no: it has changed: ask again"}, nil
}

// mendable reports whether a row can be changed where it lies. In the store of a machine it cannot: what is imported is added.
func (d *Desk) mendable() bool {
	_, machine := d.Tables.(machineTables)
	return !machine
}

func anew(mendable bool) string {
	if mendable {
		return ""
	}
	return " and can be imported anew with what it should hold, in another second of an hour that is not committed"
}

// mend is what can be done for rows of which one is wrong by itself: mend it and let all of them wait again, or give it up for the others' sake.
func (d *Desk) mend(of group, n NotRecalled, retry, left string) Remedy {
	drop := d.command("rejected drop", of.Group) + " --at-fault"
	const others = "the others of its hour come back then"
	if !d.mendable() {
		return Remedy{Help: true, Why: "yes, when the row that is wrong is dropped: a row cannot be mended in the store of one machine. That gives up what it holds" + anew(false) + "; " + others, Fix: drop, Left: left}
	}
	const most = 3
	var rows []string
	for i, r := range n.Faulty {
		if i == most {
			rows = append(rows, ledger.Counted(int64(len(n.Faulty)-most), "row")+" more, which the command lists")
			break
		}
		rows = append(rows, whole(r.Key)+" ("+string(r.Reason)+")")
	}
	first := "mend " + strings.Join(rows, ", ")
	if len(rows) == 0 {
		first = "mend the row that is wrong"
	}
	return Remedy{Help: true, Why: "yes, when the row that is wrong is mended; or when it is dropped, which gives up what it holds: " + others, First: first, Fix: retry, GiveUp: drop, Left: left}
}

// whole is a key that can be copied, unless a terminal would not show it as it is.
func whole(key string) string {
	if strings.IndexFunc(key, func(c rune) bool { return !unicode.IsPrint(c) }) >= 0 {
		return strconv.Quote(key)
	}
	return key
}
