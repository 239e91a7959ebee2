package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// afterwards is a ledger at a time of an hour in which one row waits for its seller, one was given up, and one was refused.
func afterwards(t *testing.T, now time.Time) ledger.Sheet {
	t.Helper()
	s := memory.New(memory.Options{})
	rejected := func(minute int, quantity int64, dropped bool) {
		r := withRow(at(minute, quantity, metering.RejectedClientSide), func(r *metering.Row) { r.StatusReason = string(metering.NegativeQuantity) })
		if dropped {
			x, obstacle := metering.DropOf(r, nil, group.Hour.End())
			if obstacle != "" {
				t.Fatal(obstacle)
			}
			r = x.Apply(r)
		}
		if err := s.PutRow(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	rejected(1, 5, false)
	rejected(2, 2_147_483_640, true)
	for dimension, ended := range map[string]metering.Record{
		"refused": {Status: metering.CustomerNotSubscribed}, "undefined": {Status: metering.RejectedClientSide, StatusReason: metering.ExceptionDimension},
		"dry": {Status: metering.DryRunSubmitted}, "twice": {Status: metering.DuplicateRecord},
	} {
		g := group
		g.Dimension = dimension
		r := metering.Record{License: g.License, SortKey: g.RecordKey(), Account: g.Account, Dimension: dimension, HourBucket: g.Hour.String(),
			Quantity: metering.Units(7), Status: ended.Status, StatusReason: ended.StatusReason}
		if err := s.PutRecord(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	r, err := ledger.Compute(t.Context(), s, ledger.Scope{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return ledger.Sheet{Report: r}
}

// What is dropped is named so and offers nothing; what is rejected or refused offers what it needs time for only while there is time.
func TestNothingIsOfferedThatIsGone(t *testing.T) {
	t.Parallel()
	const mended = "Usage cannot be taken back by metering."
	byCode := func(s ledger.Sheet) map[string]ledger.DocumentCause {
		causes := make(map[string]ledger.DocumentCause)
		for _, p := range s.Document().Places {
			for _, c := range p.Causes {
				causes[c.Code] = c
			}
		}
		return causes
	}
	text := func(s ledger.Sheet) string {
		var b strings.Builder
		if err := s.WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	open, over := afterwards(t, group.Hour.End().Add(time.Hour)), afterwards(t, group.Hour.End().Add(30*time.Hour))
	for code, c := range byCode(open) {
		if helps := strings.Contains(c.Do, "awsmp "); helps == (code == ledger.CodeDropped || code == string(metering.DuplicateRecord)) || c.Over {
			t.Errorf("in time, %s: %q", code, c.Do)
		}
	}
	causes := byCode(over)
	for code, c := range causes {
		known := code == ledger.CodeDropped || code == string(metering.DuplicateRecord)
		if strings.Contains(c.Do, "awsmp ") || strings.Contains(c.Do, "Mend") || c.Over == known || known == strings.Contains(c.Do, "can no longer be billed") {
			t.Errorf("afterwards, %s, over %t: %q", code, c.Over, c.Do)
		}
	}
	if len(causes) != 6 || causes[ledger.CodeDropped].Units != 2_147_483_640 || !strings.HasPrefix(causes["NegativeQuantity"].Do, mended+" Their hours") ||
		!strings.HasPrefix(causes[metering.ExceptionDimension].Do, "Define the dimension in the AWS Marketplace Management Portal (names are case-sensitive). Their") {
		t.Errorf("causes %+v", causes)
	}
	if s := text(open); strings.Contains(s, "for good\n") || !strings.Contains(s, "2,147,483,640  rejected: Dropped\n") {
		t.Errorf("in time:\n%s", s)
	}
	if s := text(over); !strings.Contains(s, "rejected: NegativeQuantity, for good\n") || !strings.Contains(s, "refused: CustomerNotSubscribed, for good\n") {
		t.Errorf("afterwards:\n%s", s)
	}
	// Figures stand under each other however long they are.
	column := 0
	for line := range strings.Lines(text(open)) {
		at := strings.Index(line, "  rejected: ")
		if at < 0 {
			at = strings.Index(line, "  refused: ")
		}
		if at < 0 {
			continue
		}
		if column == 0 {
			column = at
		}
		if at != column || line[at-1] == ' ' {
			t.Errorf("the figure of %q does not end in column %d", line, column)
		}
	}
	if column == 0 {
		t.Error("no figures")
	}
}

// Every cause has advice that needs no command and no time, once its hour is over: each reason of a row and each exception.
func TestAdviceForWhatIsOver(t *testing.T) {
	t.Parallel()
	for _, c := range []ledger.Cause{
		{Place: ledger.Rejected, Reason: string(metering.MalformedSortKey)}, {Place: ledger.Rejected, Reason: string(metering.MissingLegacyIdentifier)},
		{Place: ledger.Rejected, Reason: string(metering.MissingQuantity)}, {Place: ledger.Rejected, Reason: string(metering.InvalidCustomerAWSAccountID)},
		{Place: ledger.Rejected, Reason: metering.ExceptionTimestamp}, {Place: ledger.Rejected, Reason: metering.ExceptionLicense},
		{Place: ledger.Rejected, Reason: metering.ExceptionIdentifier}, {Place: ledger.Refused, Reason: string(metering.CustomerNotSubscribed)},
		{Place: ledger.DryRun, Reason: string(metering.DryRunSubmitted)},
	} {
		c.Over = true
		do := c.Explain().Do
		for _, gone := range []string{"awsmp ", "Mend", "while", "Write the row anew", "When ", ";.", ",.", "  "} {
			if strings.Contains(do, gone) {
				t.Errorf("%s offers %q: %s", c.Reason, gone, do)
			}
		}
		t.Logf("%s: %s", c.Reason, do)
	}
}
