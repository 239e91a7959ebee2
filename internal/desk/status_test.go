package desk

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// onMachine are tables on this machine.
type onMachine struct{ *memory.Store }

func (onMachine) StorePath() string                             { return "x/usage.db" }
func (onMachine) Offset(context.Context) (time.Duration, error) { return time.Minute, nil }
func (onMachine) StartCommand() string                          { return "awsmp dev --data x" }

// A day with something in every place, drawn in each style.
func TestPicture(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	hour := metering.HourOf(now)
	s := Status{Now: now}
	for h := hour - picturedHours; h <= hour; h++ {
		of := HourFates{Hour: h.String(), Units: map[ledger.Place]int64{}}
		switch back := int64(hour - h); {
		case back == 0:
			of.Units[ledger.InFlight] = 40
		case back == 1:
			of.Unknown = true
		case back == 5:
			of.Units[ledger.Rejected] = 1
		case back == 6:
			of.Units[ledger.Late] = 1_000
		case back > 6:
			of.Units[ledger.Billed] = 1_000 * (25 - back)
		}
		s.Hours = append(s.Hours, of)
	}
	const hours = "                18    00    06    12\n\n"
	for _, tt := range []struct {
		style Style
		want  string
	}{
		{Style{}, "Units of the last 24 hours, by the hour of usage:\n" +
			"  billed     ▁▁▂▂▃▃▄▄▄▅▅▆▆▇▇███·······  171,000\n" +
			"  rejected   ···················▁·····  1\n" +
			"  late       ··················▁······  1,000\n" +
			"  in flight  ·······················?▁  40 and rows whose units are not known (?)\n" +
			hours},
		{Style{ASCII: true}, "Units of the last 24 hours, by the hour of usage:\n" +
			"  billed     ..::--===++**%%###         171,000\n" +
			"  rejected                      .       1\n" +
			"  late                         .        1,000\n" +
			"  in flight                         ?.  40 and rows whose units are not known (?)\n" +
			hours},
	} {
		var b strings.Builder
		s.WritePicture(&b, tt.style)
		if diff := cmp.Diff(tt.want, b.String()); diff != "" {
			t.Errorf("style %+v (-want +got):\n%s", tt.style, diff)
		}
	}
	var plain, coloured strings.Builder
	s.WritePicture(&plain, Style{})
	s.WritePicture(&coloured, Style{Colour: true})
	text := coloured.String()
	if !strings.Contains(text, "\x1b[32m▁▁▂") || strings.Count(text, "\x1b[0m") != 4 {
		t.Errorf("in colours: %q", text)
	}
	for _, sgr := range []string{"\x1b[0m", "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[36m"} {
		text = strings.ReplaceAll(text, sgr, "")
	}
	if text != plain.String() {
		t.Errorf("without its colours: %q", text)
	}
	var none strings.Builder
	Status{}.WritePicture(&none, Style{})
	if none.String() != "" {
		t.Errorf("of nothing: %q", none.String())
	}
}

// On a machine the books are recomputed, and what is put right is no finding any more.
func TestStatusOfAMachine(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	store := memory.New(memory.Options{})
	d := &Desk{Name: "folder x", Flags: " --store x", Tables: onMachine{store}, ProductCode: "example", Now: func() time.Time { return now }}
	s := statusOf(t, d)
	if len(s.Findings) != 0 || len(s.Gaps) != 0 || s.Store != "x/usage.db" || s.Offset != "1m0s" || s.Month.By != ByHour || len(s.Hours) != picturedHours+1 {
		t.Errorf("status of nothing: %+v", s)
	}

	group := func(dimension, hour string) metering.Group {
		h, err := metering.ParseHour(hour)
		if err != nil {
			t.Fatal(err)
		}
		return metering.Group{License: toldLicense, Account: toldAccount, Dimension: dimension, Hour: h}
	}
	put := func(g metering.Group, second int, change func(*metering.Row)) {
		r := metering.NewRow(g, g.Hour.Second(second), 5)
		change(&r)
		if err := store.PutRow(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	end := func(status metering.Status, reason string) func(*metering.Row) {
		return func(r *metering.Row) { r.Pending, r.Status, r.StatusReason = "", status, reason }
	}
	putRecord := func(g metering.Group, e ended) {
		r, _ := toldRecord(g, e)
		if err := store.PutRecord(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	put(group("waits", "2026-03-10T14"), 5, func(*metering.Row) {})
	put(group("wrong", "2026-03-10T13"), 5, end(metering.RejectedClientSide, string(metering.NegativeQuantity)))
	put(group("late", "2026-03-10T12"), 5, end(metering.LateUsage, metering.LateReason))
	putRecord(group("late", "2026-03-10T12"), ended{metering.Success, ""})
	putRecord(group("refused", "2026-03-10T11"), ended{metering.CustomerNotSubscribed, ""})
	putRecord(group("lost", "2026-03-09T11"), ended{metering.SubmissionExpired, ""})
	putRecord(group("older", "2026-02-27T11"), ended{metering.SubmissionExpired, ""}) // no news any more, and not of this month
	s = statusOf(t, d)
	want := []Finding{
		{Alarm: "discoverer-did-not-run", What: "no node runs here; 1 row waiting", Fix: "awsmp dev --data x", Left: "22h40m0s"},
		{Alarm: "usage-record-rejected", What: "1 row of 1 group, 5 units: rejected for what it holds, and not billed", Fix: "awsmp rejected list --store x", Left: "21h40m0s", Units: 5},
		{Alarm: "customer-not-subscribed", What: "1 record, 7 units: refused, for the buyer has no active subscription", Fix: "awsmp refused list --store x", Left: "19h40m0s", Units: 7},
		{Alarm: "usage-late", What: "1 row, 5 units: late, for it came or grew after its hour was summed", Fix: "awsmp late list --store x", Units: 5},
		{Alarm: "usage-submission-expired", What: "1 record, 7 units: out of time before AWS Marketplace said that it is billed; of hours of the last 4 days that can no longer be billed",
			Fix: "awsmp ledger --store x", Units: 7, Kind: KindKnown},
	}
	if diff := cmp.Diff(want, s.Findings); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	places := map[ledger.Place]ledger.Amount{
		ledger.Billed: {Items: 1, Units: 7}, ledger.Refused: {Items: 1, Units: 7}, ledger.Rejected: {Items: 1, Units: 5}, ledger.Late: {Items: 1, Units: 5},
		ledger.Expired: {Items: 1, Units: 7}, ledger.InDoubt: {}, ledger.DryRun: {}, ledger.InFlight: {Items: 1, Units: 5},
	}
	if diff := cmp.Diff(places, s.Month.Places); diff != "" {
		t.Errorf("this month (-want +got):\n%s", diff)
	}
	places[ledger.Expired] = ledger.Amount{}
	if diff := cmp.Diff(places, s.Today.Places); diff != "" {
		t.Errorf("today (-want +got):\n%s", diff)
	}
	if s.Refused.Records != 1 || s.Refused.Units != 7 || s.Refused.Left != "19h40m0s" {
		t.Errorf("refused %+v", s.Refused)
	}

	for _, put := range []func() error{
		func() error { _, err := d.RetryRefused(t.Context(), Which{License: toldLicense}, false); return err },
		func() error { _, err := d.CarryLate(t.Context(), Which{License: toldLicense}, 0, false); return err },
		func() error {
			_, err := d.DropRow(t.Context(), toldLicense, group("wrong", "2026-03-10T13").RowKey(group("wrong", "2026-03-10T13").Hour.Second(5)), false)
			return err
		},
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
	}
	if got := alarmsOf(statusOf(t, d)); !cmp.Equal(got, []string{"submitter-did-not-run", "discoverer-did-not-run", "usage-submission-expired"}) {
		t.Errorf("findings afterwards: %v", got)
	}
}

// Books that do not balance are told, though no alarm rings for them.
func TestStatusOfBrokenBooks(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	store := memory.New(memory.Options{})
	h, _ := metering.ParseHour("2026-03-10T14")
	r := metering.NewRow(metering.Group{License: toldLicense, Account: toldAccount, Dimension: "api_calls", Hour: h}, h.Second(5), 5)
	r.Pending = "" // found by nothing
	if err := store.PutRow(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	d := &Desk{Name: "folder x", Flags: " --store x", Tables: onMachine{store}, ProductCode: "example", Now: func() time.Time { return now }}
	want := []Finding{{What: "1 group: the books do not balance", Fix: "awsmp ledger --store x"}}
	if diff := cmp.Diff(want, statusOf(t, d).Findings); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// A store with too much to read in the time that somebody waits says so, and the rest is shown.
func TestStatusGivesUpOnBooks(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	store := memory.New(memory.Options{})
	h, _ := metering.ParseHour("2026-03-10T14")
	g := metering.Group{License: toldLicense, Account: toldAccount, Dimension: "api_calls", Hour: h}
	if err := store.PutRow(t.Context(), metering.NewRow(g, h.Second(5), 5)); err != nil {
		t.Fatal(err)
	}
	d := &Desk{Name: "folder x", Flags: " --store x", Tables: slow{onMachine{store}}, ProductCode: "example", Now: func() time.Time { return now }}
	s, err := d.Status(t.Context(), StatusOptions{Patience: time.Nanosecond})
	if err != nil || s.Month.By != "" || len(s.Waiting) != 1 || len(s.Gaps) != 1 || !strings.HasSuffix(s.Gaps[0], "awsmp ledger --store x recomputes them") {
		t.Errorf("status %+v, %v", s, err)
	}
}

// slow are tables whose licenses take as long as the caller waits.
type slow struct{ onMachine }

func (s slow) LicenseRows(ctx context.Context, _ string) iter.Seq2[metering.Row, error] {
	return func(yield func(metering.Row, error) bool) {
		<-ctx.Done()
		yield(metering.Row{}, ctx.Err())
	}
}

// On AWS units are counted by the metrics, and rows that wait have no units.
func TestStatusOfAStack(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	hour := metering.HourOf(now)
	d, store := stackDesk(t, now, said{counts: []Count{
		{Hour: hour - 1, Metric: metering.MetricBilled, Items: 2, Units: 10}, {Hour: hour - 200, Metric: metering.MetricBilled, Items: 1, Units: 100},
		{Hour: hour, Metric: metering.MetricRegistered, Items: 1},
	}})
	g := metering.Group{License: toldLicense, Account: toldAccount, Dimension: "api_calls", Hour: hour - 1}
	for second := range 3 {
		if err := store.PutRow(t.Context(), metering.NewRow(g, g.Hour.Second(second), 5)); err != nil {
			t.Fatal(err)
		}
	}
	g.Dimension = "storage"
	if err := store.PutRecord(t.Context(), metering.NewRecord(g, 7)); err != nil {
		t.Fatal(err)
	}
	s, err := d.Status(t.Context(), StatusOptions{Entries: 2})
	if err != nil {
		t.Fatal(err)
	}
	waiting := []Waiting{{Bucket: "2026-03-10T14", Rows: 2, Records: 1, Units: 7, Over: true, NoUnits: true, LostAt: at(t, "2026-03-11T14:00:00Z"), LostIn: "22h40m0s"}}
	if diff := cmp.Diff(waiting, s.Waiting, cmpopts.IgnoreUnexported(Waiting{})); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	if s.Today.By != ByCount || s.Today.Places[ledger.Billed].Units != 10 || s.Month.Places[ledger.Billed].Units != 110 || s.Today.Places[ledger.InFlight].Units != 7 {
		t.Errorf("today %+v, month %+v", s.Today, s.Month)
	}
	if last := s.Hours[len(s.Hours)-2]; last.Units[ledger.Billed] != 10 || last.Units[ledger.InFlight] != 7 || !last.Unknown {
		t.Errorf("the hour before: %+v", last)
	}
	if !s.Refused.Uncounted || s.Store != "" {
		t.Errorf("status %+v", s)
	}
}

// A part that cannot be looked at is named, and costs no other; where nothing can, that is the error.
func TestStatusWithGaps(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	denied := errors.New("read the queue: denied")
	d, _ := stackDesk(t, now, said{err: denied, ringing: []Alarm{{Name: "work-age"}}})
	s := statusOf(t, d)
	if diff := cmp.Diff([]string{"queues: read the queue: denied"}, s.Gaps); diff != "" || len(s.Findings) != 1 {
		t.Errorf("gaps (-want +got):\n%s\n%+v", diff, s.Findings)
	}
	d.Plant, d.Tables = nil, denying{d.Tables, denied}
	if _, err := d.Status(t.Context(), StatusOptions{}); !errors.Is(err, denied) {
		t.Errorf("with nothing to look at: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := d.Status(ctx, StatusOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// denying are tables that nobody may read.
type denying struct {
	Tables
	err error
}

func (d denying) PendingRows(context.Context, metering.Hour, string) iter.Seq2[metering.PendingRow, error] {
	return func(yield func(metering.PendingRow, error) bool) { yield(metering.PendingRow{}, d.err) }
}

func (d denying) Deprovisioning(context.Context) ([]metering.Deprovisioning, error) {
	return nil, d.err
}
