package desk

import (
	"fmt"
	"strings"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// tell is what happened to a group, in its order: rows, record, calls, verdict, labels, and what operators did.
func (d *Desk) tell(of group, now time.Time) (told []string) {
	say := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
	if n := len(of.rows); n > 0 {
		var units int64
		unknown := 0
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
		say("%s", strings.Replace(text, "quantity iss", "quantities are", 1))
	} else if !d.Direct {
		say("no rows")
	}
	if of.record == nil {
		say("no record: the hour was not committed%s", d.visitText(of, now))
	} else {
		told = append(told, d.tellRecord(*of.record, now)...)
	}
	told = append(told, tellRows(of)...)
	if s := of.subscriber; s != nil {
		say("the license is %s%s", ledger.Shown(string(s.Status)), expiryText(*s, now))
	}
	return told
}

func clockOf(s metering.Second) string { return s.Time().UTC().Format("15:04:05") }

// visitText is when the hour's waiting rows are visited next.
func (d *Desk) visitText(of group, now time.Time) string {
	waits := false
	for _, r := range of.rows {
		waits = waits || r.Pending != ""
	}
	switch at, ok := d.visit(of.Hour, now); {
	case !waits:
		return ""
	case !d.Rules.Billable(of.Hour, now):
		return ", and it is too late for that"
	case ok:
		return fmt.Sprintf("; its rows are looked at next at %s", at.Format("01-02 15:04 UTC"))
	}
	return ""
}

// visit is the next run of the schedule that visits an hour.
func (d *Desk) visit(h metering.Hour, now time.Time) (time.Time, bool) {
	for at := metering.MeterSchedule.Next(now); d.Rules.Billable(h, at); at = metering.MeterSchedule.Next(at) {
		if d.Rules.Visitable(h, at) {
			return at.UTC(), true
		}
	}
	return time.Time{}, false
}

func (d *Desk) tellRecord(r metering.Record, now time.Time) (told []string) {
	say := func(format string, args ...any) { told = append(told, fmt.Sprintf(format, args...)) }
	units, known := r.Quantity.Count()
	amount := ledger.Counted(units, "unit")
	if !known {
		amount = "a quantity that is no number"
	}
	m, err := r.Covers()
	switch {
	case err != nil:
		say("%scommitted: %s; what it was summed from cannot be read: %v", when(r.CreatedAt), amount, err)
	case r.Manifest == "":
		say("%sa record of %s, which a seller wrote: it was summed from no rows", when(r.CreatedAt), amount)
	default:
		say("%scommitted: a record of %s from %s", when(r.CreatedAt), amount, ledger.Counted(int64(m.Count()), "row"))
	}
	for _, entry := range traces(r.Other, metering.AttrReopened) {
		was := entry[metering.AttrStatus]
		if reason := entry[metering.AttrStatusReason]; reason != "" {
			was += ", " + reason
		}
		say("%san operator let it wait again; it had ended as %s", when(entry["at"]), was)
	}
	if r.SentQuantity.Whole {
		text := fmt.Sprintf("sent with %s", ledger.Counted(r.SentQuantity.N, "unit"))
		if r.SentSecond != "" {
			text += " for the time " + r.SentSecond
		}
		say("%s", text)
	}
	say("%s", d.verdictText(r, now))
	return told
}

// verdictText is how a record has ended, or when it goes on.
func (d *Desk) verdictText(r metering.Record, now time.Time) string {
	g, _ := r.Group()
	at := when(r.UpdatedAt)
	switch {
	case r.Pending != "" && r.Status == metering.Success:
		return at + "billed, and changed afterwards by whoever wrote it; the next submission settles that"
	case r.Pending != "" && !d.Rules.Billable(g.Hour, now):
		return "it waits, and it is too late: the next sweep ends it as " + string(metering.SubmissionExpired)
	case r.Pending != "" && d.Paused:
		return "it waits, and nothing is sent: submission is paused"
	case r.Pending != "":
		return fmt.Sprintf("it waits for the submission at %s", metering.SubmitSchedule.Next(now).Format("01-02 15:04 UTC"))
	}
	switch r.Status {
	case metering.Success:
		if r.BilledQuantity.Whole {
			return fmt.Sprintf("%sAWS Marketplace has billed %s%s", at, ledger.Counted(r.BilledQuantity.N, "unit"), idText(r))
		}
		units, _ := r.Quantity.Count()
		return fmt.Sprintf("%sAWS Marketplace has billed %s%s", at, ledger.Counted(units, "unit"), idText(r))
	case metering.DuplicateRecord:
		return at + "AWS Marketplace answered DuplicateRecord: another quantity is billed for this hour"
	case metering.CustomerNotSubscribed:
		return at + "AWS Marketplace answered CustomerNotSubscribed"
	case metering.RejectedClientSide:
		if strings.HasSuffix(r.StatusReason, "Exception") {
			return at + "AWS Marketplace refused it with " + r.StatusReason
		}
		return at + "rejected before any call: " + ledger.Shown(r.StatusReason)
	case metering.SubmissionExpired:
		if r.SentQuantity.Whole {
			return at + "its time ran out, and no answer ever came: it may be billed"
		}
		return at + "its time ran out before it was sent"
	case metering.DryRunSubmitted:
		return at + "a dry run ended it: it was not sent"
	case "":
		return "it neither waits nor has a status: nothing will find it"
	}
	return at + "it has ended as " + ledger.Shown(string(r.Status))
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
func tellRows(of group) (told []string) {
	labels := make(map[string]int)
	var order []string
	count := func(label string) {
		if labels[label] == 0 {
			order = append(order, label)
		}
		labels[label]++
	}
	var done []string
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
		done = append(done, tellTraces(r)...)
	}
	var parts []string
	for _, label := range order {
		parts = append(parts, fmt.Sprintf("%s %s", ledger.Thousands(int64(labels[label])), label))
	}
	if len(parts) > 0 {
		told = append(told, "rows: "+strings.Join(parts, ", "))
	}
	const most = 10
	if len(done) > most {
		done = append(done[:most], fmt.Sprintf("and %s more of this kind", ledger.Thousands(int64(len(done)-most))))
	}
	return append(told, done...)
}

func tellTraces(r metering.Row) (told []string) {
	at := "the row of " + r.SortKey[strings.LastIndexByte(r.SortKey, '#')+1:]
	for _, entry := range traces(r.Other, metering.AttrRecalled) {
		told = append(told, fmt.Sprintf("%san operator let %s wait again; it was rejected for %s", when(entry["at"]), at, entry[metering.AttrStatusReason]))
	}
	for _, entry := range traces(r.Other, metering.AttrCarriedTo) {
		told = append(told, fmt.Sprintf("%san operator carried %s units of %s to %s", when(entry["at"]), entry[metering.AttrQuantity], at, entry["to"]))
	}
	if from, ok := r.Other[metering.AttrCarriedFrom].(string); ok {
		told = append(told, fmt.Sprintf("%s was carried here from %s", at, ledger.Shown(from)))
	}
	if text, ok := r.Other[metering.AttrDroppedAt].(string); ok {
		told = append(told, fmt.Sprintf("%san operator dropped %s", when(text), at))
	}
	return told
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
