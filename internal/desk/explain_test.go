package desk

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

const (
	toldLicense = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	toldAccount = "111122223333"
)

// reasons are those that rows, and records, can end with.
func rowReasons() []string {
	return []string{
		string(metering.MalformedSortKey), string(metering.SortKeyMismatch), string(metering.MalformedTimestamp), string(metering.MissingQuantity),
		string(metering.NonNumericQuantity), string(metering.NonIntegerQuantity), string(metering.NegativeQuantity), string(metering.QuantityOutOfRange),
		string(metering.MissingDimension), string(metering.DimensionTooLong), string(metering.TimestampInFuture), string(metering.InvalidLicenseArn),
		string(metering.MissingCustomerAWSAccountID), string(metering.InvalidCustomerAWSAccountID), string(metering.MissingLegacyIdentifier),
		string(metering.ConflictingIdentifier), string(metering.DuplicateIdentity), string(metering.MixedIdentitySchemes), string(metering.MalformedAllocations),
		string(metering.NegativeOrNonIntegerAllocation), string(metering.TooManyTags), string(metering.MissingTagKeyOrValue), string(metering.InvalidTag),
		string(metering.TooManyAllocations), string(metering.MixedAllocatedAndUnallocated), string(metering.AllocationSumMismatch), string(metering.RecordTooLarge),
	}
}

func recordReasons() []string {
	return append(rowReasons(), metering.ExceptionDimension, metering.ExceptionTimestamp, metering.ExceptionTag, metering.ExceptionAllocations,
		metering.ExceptionLicense, metering.ExceptionIdentifier, metering.ExceptionValidation, metering.ExceptionSerialization, metering.ExceptionTooLarge,
		"SomethingNewException")
}

// ended is a way in which a row, or a record, can stand in its table.
type ended struct {
	status metering.Status
	reason string
}

func rowEnds() []ended {
	ends := []ended{{"pending", ""}, {"misfiled", ""}, {"dropped", string(metering.NegativeQuantity)}, {metering.Aggregated, "Aggregated"}, {metering.LateUsage, metering.LateReason},
		{metering.LateUsage, "Grew from 3 to 5"}, {metering.AggregationExpired, metering.ExpiredReason}, {"", ""}}
	for _, reason := range rowReasons() {
		ends = append(ends, ended{metering.RejectedClientSide, reason})
	}
	return ends
}

func recordEnds() []ended {
	ends := []ended{{"none", ""}, {"pending", ""}, {"sent", ""}, {metering.Success, ""}, {"billed less", ""}, {metering.DuplicateRecord, ""}, {metering.CustomerNotSubscribed, ""},
		{metering.SubmissionExpired, ""}, {"in doubt", metering.VerdictUnknown}, {metering.DryRunSubmitted, ""}, {"", ""}}
	for _, reason := range recordReasons() {
		ends = append(ends, ended{metering.RejectedClientSide, reason})
	}
	return ends
}

// toldRow is a row of 5 units that stands so.
func toldRow(g metering.Group, e ended) metering.Row {
	r := metering.NewRow(g, g.Hour.Second(300), 5)
	switch e.status {
	case "pending":
		return r
	case "misfiled":
		r.Pending = (g.Hour + 3).String()
		return r
	case "dropped":
		r.Dropped, e.status = true, metering.RejectedClientSide
	case metering.RejectedClientSide:
		switch e.reason { // those that are still wrong
		case string(metering.NegativeQuantity):
			r.Quantity = metering.Units(-5)
		case string(metering.MissingQuantity):
			r.Quantity = metering.Quantity{}
		}
	}
	r.Pending, r.Status, r.StatusReason = "", e.status, e.reason
	return r
}

// toldRecord is a record of 7 units, without a manifest, that stands so; false where there is to be none.
func toldRecord(g metering.Group, e ended) (metering.Record, bool) {
	r := metering.NewRecord(g, 7)
	switch e.status {
	case "none":
		return r, false
	case "pending":
		return r, true
	case "sent":
		r.SentQuantity, r.SentSecond = metering.Units(7), g.Hour.Second(0).String()
		return r, true
	case "billed less":
		e.status, r.BilledQuantity = metering.Success, metering.Units(4)
	case "in doubt":
		e.status, r.SentQuantity = metering.SubmissionExpired, metering.Units(7)
	case metering.Success, metering.CustomerNotSubscribed, metering.DuplicateRecord:
		r.SentQuantity = metering.Units(7)
	}
	r.Pending, r.Status, r.StatusReason = "", e.status, e.reason
	return r, true
}

// Whatever status and reason rows and record have, each unit that is not billed has a cause in words, an answer to whether it can still be billed, and a command or
// the word that nothing can be done. A command that is named does what it is named for, and where none is, none of them would.
func TestExplainEverything(t *testing.T) {
	t.Parallel()
	for _, now := range []string{"2026-03-10T15:20:00Z", "2026-03-11T15:20:00Z"} { // while the hour can be billed, and when it cannot
		for _, row := range rowEnds() {
			t.Run(fmt.Sprintf("%s %s %s", now, row.status, row.reason), func(t *testing.T) {
				t.Parallel()
				for _, record := range recordEnds() {
					explainOne(t, at(t, now), toldLicense, row, record)
					explainOne(t, at(t, now), "example", row, record) // of the old kind: its sale may go by a license since
				}
			})
		}
	}
}

func explainOne(t *testing.T, now time.Time, license string, row, record ended) {
	t.Helper()
	h, err := metering.ParseHour("2026-03-10T14")
	if err != nil {
		t.Fatal(err)
	}
	g := metering.Group{License: license, Account: toldAccount, Dimension: "api_calls", Hour: h}
	identifier := ""
	if metering.LegacyLicense(license) {
		identifier = "customer-1"
	}
	made := func() *Desk {
		store := memory.New(memory.Options{})
		r := toldRow(g, row)
		r.CustomerIdentifier = identifier
		if err := store.PutRow(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if r, there := toldRecord(g, record); there {
			r.CustomerIdentifier = identifier
			if err := store.PutRecord(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
		return &Desk{Name: "test", Tables: store, ProductCode: "example", Flags: " --store x", Now: func() time.Time { return now }}
	}
	d := made()
	s, err := d.Explain(t.Context(), g)
	if err != nil {
		t.Fatalf("record %v: %v", record, err)
	}
	var named int64
	for _, c := range s.Causes {
		named += c.Units
		where := fmt.Sprintf("record %v: cause %+v", record, c)
		if c.What == "" || c.Code == "" || c.Why == "" || c.Do == "" || c.Place == ledger.Billed {
			t.Errorf("%s lacks words", where)
		}
		if no := strings.HasPrefix(c.Why, "no: "); no == c.Help {
			t.Errorf("%s says no and yes", where)
		}
		if c.Fix != "" && (!c.Help || !strings.HasPrefix(c.Fix, "awsmp ") || !strings.Contains(c.Fix, " --store x")) {
			t.Errorf("%s has no such command", where)
		}
		if c.Left != "" && now.Day() == 11 {
			t.Errorf("%s has time left", where)
		}
		if c.First != "" {
			mended := made()
			mend(t, mended, g)
			if !works(t, mended, g, c) {
				t.Errorf("%s: the command does nothing when the row is mended", where)
			}
			if c.GiveUp == "" {
				t.Errorf("%s cannot be given up", where)
			}
			c.Fix = c.GiveUp
		}
		if c.Fix != "" && !works(t, made(), g, c) {
			t.Errorf("%s: the command does nothing", where)
		}
		if c.Fix == "" && c.Place != ledger.InFlight {
			if word := anyHelps(t, made(), g, c.Place, c.Code == row.reason, c.Code == record.reason || c.Place == ledger.Refused); word != "" {
				t.Errorf("%s: %s would help", where, word)
			}
		}
	}
	if s.Balance.Balanced && named+s.Balance.Places[ledger.Billed].Units != s.Balance.Written.Units {
		t.Errorf("record %v: %d units have a cause, of %+v", record, named, s.Balance)
	}
	if !s.Balance.Balanced && len(s.Balance.Findings) == 0 {
		t.Errorf("record %v: an imbalance without a word: %+v", record, s.Balance)
	}
	if len(s.Told) == 0 || slices.Contains(s.Told, "") {
		t.Errorf("record %v: told %q", record, s.Told)
	}
}

// mend gives the group's row a quantity by hand.
func mend(t *testing.T, d *Desk, g metering.Group) {
	t.Helper()
	r, err := d.Tables.Row(t.Context(), g.License, g.RowKey(g.Hour.Second(300)))
	if err != nil || r == nil {
		t.Fatalf("row %v, %v", r, err)
	}
	r.Quantity = metering.Units(5)
	if err := d.Tables.(*memory.Store).PutRow(t.Context(), *r); err != nil {
		t.Fatal(err)
	}
}

// works runs the command of a remedy on the desk.
func works(t *testing.T, d *Desk, g metering.Group, c StoryCause) bool {
	t.Helper()
	ctx, which := t.Context(), group{Group: g}.which()
	word := strings.Join(strings.Fields(c.Fix)[1:3], " ")
	switch word {
	case "refused retry":
		done, err := d.RetryRefused(ctx, which, false)
		return err == nil && len(done.Reopened) == 1
	case "dryrun promote":
		done, err := d.Promote(ctx, which, false)
		return err == nil && done.Records == 1
	case "rejected retry":
		done, err := d.RetryRejected(ctx, which, false)
		return err == nil && done.Rows == 1
	case "rejected drop":
		done, err := d.DropAtFault(ctx, g, false)
		return err == nil && done.Rows == 1
	case "late carry":
		done, err := d.CarryLate(ctx, which, 0, false)
		return err == nil && done.Rows == 1
	case "explain submission-paused":
		return d.Paused
	}
	t.Errorf("the command of %+v is none that is known", c)
	return true
}

// anyHelps is a command that would bring units of a place back, which are those of rows or of the record.
func anyHelps(t *testing.T, d *Desk, g metering.Group, p ledger.Place, ofRow, ofRecord bool) string {
	t.Helper()
	ctx, which := t.Context(), group{Group: g}.which()
	if ofRecord && (p == ledger.Refused || p == ledger.Rejected) {
		if done, err := d.RetryRefused(ctx, which, true); err != nil || len(done.Reopened) > 0 {
			return "refused retry"
		}
	}
	if ofRow && p == ledger.Rejected {
		if done, err := d.RetryRejected(ctx, which, true); err != nil || done.Rows > 0 {
			return "rejected retry"
		}
	}
	if p == ledger.Late {
		if done, err := d.CarryLate(ctx, which, 0, true); err != nil || done.Rows > 0 {
			return "late carry"
		}
	}
	if p == ledger.DryRun {
		if done, err := d.Promote(ctx, which, true); err != nil || done.Records > 0 {
			return "dryrun promote"
		}
	}
	return ""
}

// A story whole: a group that was committed, refused, let wait again, billed, and met by a late row.
func TestExplainTells(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T16:40:00Z")
	store := memory.New(memory.Options{})
	h, _ := metering.ParseHour("2026-03-10T14")
	g := metering.Group{License: toldLicense, Account: toldAccount, Dimension: "api_calls", Hour: h}
	fold := metering.NewFold(g, now)
	for _, second := range []int{59, 659} {
		r := metering.NewRow(g, h.Second(second), 6)
		fold.Add(r)
		r.Pending, r.Status, r.StatusReason = "", metering.Aggregated, metering.AggregatedReason(12, 2)
		if err := store.PutRow(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	record, reason := fold.Record()
	if reason != "" {
		t.Fatal(reason)
	}
	record.Pending, record.Status, record.StatusReason = "", metering.CustomerNotSubscribed, ""
	record = record.Stamped(at(t, "2026-03-10T15:05:02Z"))
	reopen, o := metering.ReopenOf(record, metering.Rules{}, at(t, "2026-03-10T15:30:00Z"))
	if o != "" {
		t.Fatal(o)
	}
	record = reopen.Apply(record)
	record.Pending, record.Status, record.MeteringRecordID = "", metering.Success, "r-1"
	record.SentQuantity, record.SentSecond = metering.Units(12), h.Second(0).String()
	if err := store.PutRecord(t.Context(), record.Stamped(at(t, "2026-03-10T15:33:01Z"))); err != nil {
		t.Fatal(err)
	}
	late := metering.NewRow(g, h.Second(1200), 3)
	late.Pending, late.Status, late.StatusReason, late.LateQuantity = "", metering.LateUsage, metering.LateReason, metering.Units(3)
	if err := store.PutRow(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	d := &Desk{Name: "test", Tables: store, ProductCode: "example", Now: func() time.Time { return now }}
	s, err := d.Explain(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"3 rows, 15 units, of 14:00:59 to 14:20:00",
		"03-10 15:05:02  committed: a record of 12 units from 2 rows",
		"03-10 15:30:00  an operator let it wait again; it had ended as CustomerNotSubscribed",
		"sent with 12 units for the time 2026-03-10T14:00:00",
		"03-10 15:33:01  AWS Marketplace has billed 12 units, record r-1",
		"rows: 2 Aggregated, 1 LateUsage",
	}
	if diff := cmp.Diff(want, s.Told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	causes := []StoryCause{{
		Place: ledger.Late, Code: ledger.CodeArrivedLate, What: "the row arrived after its hour was committed", Do: s.Causes[0].Do, Items: 1, Units: 3,
		Remedy: Remedy{Help: true, Why: "not under its own hour, which is committed; it can be carried into the current hour, once",
			Fix: "awsmp late carry --license " + toldLicense + " --account 111122223333 --dimension api_calls --hour 2026-03-10T14"},
	}}
	if diff := cmp.Diff(causes, s.Causes); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
	if !s.Balance.Balanced || s.Balance.Written.Units != 15 || s.Left != "21h20m0s" {
		t.Errorf("balance %+v, %s left", s.Balance, s.Left)
	}
	// When it is carried, the story goes on.
	if done, err := d.CarryLate(t.Context(), group{Group: g}.which(), 0, false); err != nil || done.Rows != 1 {
		t.Fatalf("carried %+v, %v", done, err)
	}
	if s, err = d.Explain(t.Context(), g); err != nil || len(s.Causes) != 0 || !strings.HasPrefix(s.Told[len(s.Told)-2], "03-10 16:40:00  an operator carried 3 units of the row of 2026-03-10T14:20:00 to ") {
		t.Errorf("after the carry: %+v, %v", s, err)
	}
}
