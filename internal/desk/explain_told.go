package desk

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// told is what happened at some time; a zero time stands first.
type told struct {
	at   time.Time
	text string
}

// lastly is how things are, which stands behind all that happened.
func lastly(text string) told { return told{time.Unix(1<<40, 0), text} }

// tell is what happened to a group, in the order of time: rows, record, calls, verdict, what operators did, and how it stands now.
func (d *Desk) tell(of group, now time.Time) []string {
	var all []told
	if n := len(of.rows); n > 0 {
		all = append(all, told{text: rowsText(of)})
	} else if !d.Direct {
		all = append(all, told{text: "no rows"})
	}
	if of.record == nil {
		all = append(all, told{text: "no record: the hour was not committed" + d.visitText(of, now)})
	} else {
		all = append(all, d.tellRecord(of, now)...)
	}
	all = append(all, tellRows(of)...)
	if s := of.subscriber; s != nil {
		all = append(all, lastly(fmt.Sprintf("the license is %s%s", ledger.Shown(string(s.Status)), expiryText(*s, now))))
	}
	slices.SortStableFunc(all, func(a, b told) int { return a.at.Compare(b.at) })
	lines := make([]string, len(all))
	for i, t := range all {
		lines[i] = t.text
	}
	return lines
}

// rowsText sums the rows in a line.
func rowsText(of group) string {
	var units int64
	unknown, n := 0, len(of.rows)
	for _, r := range of.rows {
		q, known := r.Quantity.Count()
		units += q
		if !known {
			unknown++
		}
	}
	first, _ := of.Contains(of.rows[0].SortKey)
	last, _ := of.Contains(of.rows[n-1].SortKey)
	text := fmt.Sprintf("%s, %s, of %s", ledger.Counted(int64(n), "row"), ledger.Counted(units, "unit"), clockOf(first))
	if last != first {
		text += " to " + clockOf(last)
	}
	if unknown > 0 {
		text += fmt.Sprintf("; %s no number that can be counted", ledger.Counted(int64(unknown), "quantity is"))
	}
	return strings.Replace(text, "quantity iss", "quantities are", 1)
}

func clockOf(s metering.Second) string { return s.Time().UTC().Format("15:04:05") }

// visitText is when the hour's waiting rows are visited next.
func (d *Desk) visitText(of group, now time.Time) string {
	waits := slices.ContainsFunc(of.rows, func(r metering.Row) bool { return r.Pending != "" })
	switch v, ok := d.visit(of, now); {
	case !waits:
		return ""
	case !d.Rules.Billable(of.Hour, now):
		return ", and it is too late for that"
	case ok && v.stop.Why != "":
		return "; nobody looks at its rows: " + v.stop.Why
	case ok && of.zero(now):
		return fmt.Sprintf("; its rows hold nothing, and are summed last, at %s", v.at.Format("01-02 15:04 UTC"))
	case ok:
		return fmt.Sprintf("; its rows are looked at next at %s", v.at.Format("01-02 15:04 UTC"))
	}
	return ""
}

// tellRecord tells of the record. What bears no time of its own stands behind what it followed.
func (d *Desk) tellRecord(of group, now time.Time) (all []told) {
	r, at := *of.record, time.Time{}
	say := func(stamp, format string, args ...any) {
		if t, err := time.Parse(time.RFC3339, stamp); err == nil && t.After(at) {
			at = t
		}
		all = append(all, told{at, when(stamp) + fmt.Sprintf(format, args...)})
	}
	units, known := r.Quantity.Count()
	amount := ledger.Counted(units, "unit")
	if !known {
		amount = "a quantity that is no number"
	}
	m, err := r.Covers()
	switch {
	case err != nil:
		say(r.CreatedAt, "committed: %s; what it was summed from cannot be read: %v", amount, err)
	case r.Manifest == "":
		say(r.CreatedAt, "a record of %s, which a seller wrote: it was summed from no rows", amount)
	default:
		say(r.CreatedAt, "committed: a record of %s from %s", amount, ledger.Counted(int64(m.Count()), "row"))
	}
	for _, entry := range traces(r.Other, metering.AttrReopened) {
		was := entry[metering.AttrStatus]
		if reason := entry[metering.AttrStatusReason]; reason != "" {
			was += ", " + reason
		}
		say(entry["at"], "an operator let it wait again; it had ended as %s", was)
	}
	if r.SentQuantity.Whole {
		text := fmt.Sprintf("sent with %s", ledger.Counted(r.SentQuantity.N, "unit"))
		if r.SentSecond != "" {
			text += " for the time " + r.SentSecond
		}
		say("", "%s", text)
	}
	if r.Pending != "" || r.Status == "" {
		return append(all, lastly(d.verdictText(of, now)))
	}
	say(r.UpdatedAt, "%s", d.verdictText(of, now))
	return all
}

// verdictText is how a record has ended, or when it goes on.
func (d *Desk) verdictText(of group, now time.Time) string {
	r := *of.record
	switch {
	case r.Pending != "" && r.Status == metering.Success:
		return "billed, and changed afterwards by whoever wrote it; the next submission settles that"
	case r.Pending != "" && !d.Rules.Billable(of.Hour, now):
		return "it waits, and it is too late: the next sweep ends it as " + string(metering.SubmissionExpired)
	case r.Pending != "" && d.Paused:
		return "it waits, and nothing is sent: submission is paused"
	case r.Pending != "" && of.stops[metering.SubmitSchedule.Name].Why != "":
		return "it waits, and nothing is sent: " + of.stops[metering.SubmitSchedule.Name].Why
	case r.Pending != "":
		return fmt.Sprintf("it waits for the submission at %s", metering.SubmitSchedule.Next(now).Format("01-02 15:04 UTC"))
	}
	switch r.Status {
	case metering.Success:
		if r.BilledQuantity.Whole {
			return fmt.Sprintf("AWS Marketplace has billed %s%s", ledger.Counted(r.BilledQuantity.N, "unit"), idText(r))
		}
		units, _ := r.Quantity.Count()
		return fmt.Sprintf("AWS Marketplace has billed %s%s", ledger.Counted(units, "unit"), idText(r))
	case metering.DuplicateRecord:
		return "AWS Marketplace answered DuplicateRecord: another quantity is billed for this hour"
	case metering.CustomerNotSubscribed:
		return "AWS Marketplace answered CustomerNotSubscribed"
	case metering.RejectedClientSide:
		if strings.HasSuffix(r.StatusReason, "Exception") {
			return "AWS Marketplace refused it with " + r.StatusReason
		}
		return "rejected before any call: " + ledger.Shown(r.StatusReason)
	case metering.SubmissionExpired:
		if r.SentQuantity.Whole {
			return "its time ran out, and no answer ever came: it may be billed"
		}
		return "its time ran out before it was sent"
	case metering.DryRunSubmitted:
		return "a dry run ended it: it was not sent"
	case "":
		return "it neither waits nor has a status: nothing will find it"
	}
	return "it has ended as " + ledger.Shown(string(r.Status))
}

func idText(r metering.Record) string {
	if r.MeteringRecordID == "" {
		return ""
	}
	return ", record " + ledger.Shown(r.MeteringRecordID)
}

// when is a time of an item, with what separates it from what follows; empty where there is none.
func when(text string) string {
	if text == "" {
		return ""
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return ledger.Shown(text) + "  "
	}
	return at.UTC().Format("01-02 15:04:05") + "  "
}

// tellRows sums the labels of rows, and what operators did to them.
func tellRows(of group) (all []told) {
	labels := make(map[string]int)
	var order []string
	count := func(label string) {
		if labels[label] == 0 {
			order = append(order, label)
		}
		labels[label]++
	}
	for _, r := range of.rows {
		switch {
		case r.Dropped:
			count("dropped by an operator")
		case r.Pending != "":
			count("waiting")
		case r.Status == "":
			count("without marker and status")
		default:
			count(string(r.Status))
		}
		all = append(all, tellTraces(r)...)
	}
	slices.SortStableFunc(all, func(a, b told) int { return a.at.Compare(b.at) })
	const most = 10
	if len(all) > most {
		all = append(all[:most], told{all[most-1].at, fmt.Sprintf("and %s more of this kind", ledger.Thousands(int64(len(all)-most)))})
	}
	var parts []string
	for _, label := range order {
		parts = append(parts, fmt.Sprintf("%s %s", ledger.Thousands(int64(labels[label])), label))
	}
	if len(parts) > 0 {
		all = append(all, lastly("rows: "+strings.Join(parts, ", ")))
	}
	return all
}

func tellTraces(r metering.Row) (all []told) {
	row := "the row of " + r.SortKey[strings.LastIndexByte(r.SortKey, '#')+1:]
	say := func(stamp, format string, args ...any) {
		at, _ := time.Parse(time.RFC3339, stamp)
		all = append(all, told{at, when(stamp) + fmt.Sprintf(format, args...)})
	}
	for _, entry := range traces(r.Other, metering.AttrRecalled) {
		say(entry["at"], "an operator let %s wait again; it was rejected for %s", row, entry[metering.AttrStatusReason])
	}
	for _, entry := range traces(r.Other, metering.AttrCarriedTo) {
		say(entry["at"], "an operator carried %s units of %s to %s", entry[metering.AttrQuantity], row, entry["to"])
	}
	if from, ok := r.Other[metering.AttrCarriedFrom].(string); ok {
		say(r.CreatedAt, "%s was carried here from %s", row, ledger.Shown(from))
	}
	if text, ok := r.Other[metering.AttrDroppedAt].(string); ok {
		say(text, "an operator dropped %s", row)
	}
	return all
}

// traces are the entries of a list that operators' writes leave on an item, as texts.
func traces(other metering.Item, attribute string) (entries []map[string]string) {
	list, _ := other[attribute].([]any)
	for _, v := range list {
		entry := make(map[string]string)
		of, _ := v.(map[string]any)
		for name, value := range of {
			entry[name] = fmt.Sprint(value)
		}
		entries = append(entries, entry)
	}
	return entries
}

func expiryText(s metering.Subscriber, now time.Time) string {
	switch {
	case s.Expiry.IsZero():
		return ""
	case now.Before(s.Expiry):
		return ", in its last hour until " + s.Expiry.UTC().Format("15:04:05 UTC")
	}
	return ", and its last hour ended at " + s.Expiry.UTC().Format("01-02 15:04:05 UTC")
}
