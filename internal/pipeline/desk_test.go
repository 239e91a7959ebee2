package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

// strikingRecords decides what becomes of the marks, by dimension.
type strikingRecords struct {
	pipeline.Records
	before func(dimension string)      // what others write at that moment
	fate   func(dimension string) bool // true: the answer is lost
	refuse string                      // a dimension whose marks fail
}

func (s strikingRecords) MarkSent(ctx context.Context, m metering.Send) (metering.Outcome[metering.Record], error) {
	g, _ := metering.ParseRecordKey(m.License, m.SortKey)
	if s.before != nil {
		s.before(g.Dimension)
	}
	if g.Dimension == s.refuse {
		return metering.Outcome[metering.Record]{}, errRefused
	}
	out, err := s.Records.MarkSent(ctx, m)
	if s.fate != nil && s.fate(g.Dimension) {
		return metering.Outcome[metering.Record]{}, errRefused
	}
	return out, err
}

// atDesk runs a submitter whose Marketplace reads all lanes and then does something at the desk.
func (b *bench) atDesk(records pipeline.Records, do func(desk pipeline.Desk, all []metering.Record)) {
	b.t.Helper()
	m := &listing{}
	m.do = func(desk pipeline.Desk) { do(desk, m.all()) }
	s := b.submitter(m)
	s.Records = records
	if _, err := s.Run(b.ctx); err != nil {
		b.t.Fatal(err)
	}
}

func dimensions(list []metering.Record) (names []string) {
	for _, r := range list {
		names = append(names, r.Dimension)
	}
	slices.Sort(names)
	return names
}

// TestMarksBeforeTheFirstCall: a record gets what it is sent with before its call. One whose mark fails holds up none of its neighbours;
// one that was changed, ended or deleted meanwhile waits for the next run.
func TestMarksBeforeTheFirstCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, d := range []string{"plain", "marked", "refused", "changed", "ended", "gone"} {
		b.putRecords(metering.NewRecord(groupOf(licenseOne, d, hour), 4))
	}
	meanwhile := func(d string) {
		r := metering.NewRecord(groupOf(licenseOne, d, hour), 4)
		switch d {
		case "reopened":
			b.putRecords(r) // refused and let wait again, while the index shows it as it was sent
		case "changed":
			r.Quantity = metering.Units(5)
			b.putRecords(r)
		case "ended":
			r.Pending, r.Status = "", metering.Success
			b.putRecords(r)
		case "gone":
			if err := b.store.DeleteRecord(b.ctx, r.License, r.SortKey); err != nil {
				t.Error(err)
			}
		}
	}
	marked := metering.NewRecord(groupOf(licenseOne, "marked", hour), 4)
	marked.SentQuantity, marked.SentSecond = metering.Units(3), hour.Start().Add(time.Minute).Format("2006-01-02T15:04:05")
	stale := marked
	g := groupOf(licenseOne, "reopened", hour)
	stale.SortKey, stale.Dimension = g.RecordKey(), g.Dimension
	b.putRecords(marked, stale)
	b.atDesk(strikingRecords{Records: b.store, before: meanwhile, refuse: "refused"}, func(desk pipeline.Desk, all []metering.Record) {
		ready, err := desk.Prepare(b.ctx, all)
		if err == nil {
			t.Error("the failed mark must be reported")
		}
		var names []string
		for _, m := range ready {
			names = append(names, m.Record.Dimension)
			u := m.Record.Usage()
			switch m.Record.Dimension {
			case "plain":
				if m.InDoubt || u.Quantity != 4 || u.Second.Time() != hour.Start() {
					t.Errorf("sent as %+v, in doubt %v", u, m.InDoubt)
				}
			case "marked": // a second call is made exactly as the first
				if !m.InDoubt || u.Quantity != 3 || u.Second.Time() != hour.Start().Add(time.Minute) {
					t.Errorf("sent as %+v", u)
				}
			}
		}
		slices.Sort(names)
		if diff := cmp.Diff([]string{"marked", "plain"}, names); diff != "" {
			t.Error(diff)
		}
	})
	if got := b.record(metering.NewRecord(groupOf(licenseOne, "plain", hour), 0)); got.SentQuantity != metering.Units(4) || got.SentSecond != "2026-03-10T14:00:00" || got.Pending == "" {
		t.Errorf("record %+v", got)
	}
	if got := b.record(metering.NewRecord(groupOf(licenseOne, "gone", hour), 0)); got.SortKey != "" {
		t.Errorf("ghost %+v", got)
	}
}

// TestMarkWhoseReplyIsLost: the mark was written and its answer lost. The record is not sent by this run; the next finds it marked and
// sends it so.
func TestMarkWhoseReplyIsLost(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.putRecords(metering.NewRecord(groupOf(licenseOne, apiCalls, hour), 4))
	lost := strikingRecords{Records: b.store, fate: func(string) bool { return true }}
	b.atDesk(lost, func(desk pipeline.Desk, all []metering.Record) {
		if ready, err := desk.Prepare(b.ctx, all); err == nil || len(ready) > 0 {
			t.Errorf("ready %+v, %v", ready, err)
		}
	})
	b.atDesk(b.store, func(desk pipeline.Desk, all []metering.Record) {
		ready, err := desk.Prepare(b.ctx, all)
		if err != nil || len(ready) != 1 || ready[0].Record.SentQuantity != metering.Units(4) || !ready[0].InDoubt {
			t.Errorf("ready %+v, %v", ready, err)
		}
	})
}

// TestMarkThatMeetsItself: the answer to the mark is lost on the way, and the store's client, which tries again by itself, meets its own
// write. Or another run has marked the record a moment ago. A run that left it to the next one would, in the last minutes of its hour, leave
// it unsent for ever; so it is sent, in doubt. A record that has changed beside its mark waits for the next run.
func TestMarkThatMeetsItself(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.putRecords(metering.NewRecord(groupOf(licenseOne, "same", hour), 4), metering.NewRecord(groupOf(licenseOne, "changed", hour), 4))
	meanwhile := func(d string) {
		r := metering.NewRecord(groupOf(licenseOne, d, hour), 4)
		r.SentQuantity, r.SentSecond = metering.Units(4), hour.Second(0).String()
		if d == "changed" {
			r.Allocations = []metering.Allocation{{Quantity: 4}}
		}
		b.putRecords(r)
	}
	b.atDesk(strikingRecords{Records: b.store, before: meanwhile}, func(desk pipeline.Desk, all []metering.Record) {
		ready, err := desk.Prepare(b.ctx, all)
		if err != nil || len(ready) != 1 || ready[0].Record.Dimension != "same" || !ready[0].InDoubt || ready[0].Record.SentQuantity != metering.Units(4) {
			t.Errorf("ready %+v, %v", ready, err)
		}
	})
}

// TestSendableIsAskedAtEveryCall: an hour lapses between the reading of its record and the call.
func TestSendableIsAskedAtEveryCall(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.now = hour.Start().Add(24*time.Hour - time.Minute)
	b.putRecords(metering.NewRecord(groupOf(licenseOne, "dying", hour), 1), metering.NewRecord(groupOf(licenseOne, "living", hour+1), 1))
	b.atDesk(b.store, func(desk pipeline.Desk, all []metering.Record) {
		if got := dimensions(desk.Sendable(all)); len(got) != 2 {
			t.Errorf("before: %v", got)
		}
		b.now = b.now.Add(50 * time.Second)
		if diff := cmp.Diff([]string{"living"}, dimensions(desk.Sendable(all))); diff != "" {
			t.Error(diff)
		}
	})
}

// TestLaterSecondOfABuyersFirstHour: a record is moved to its first row with a quantity, once, and never back; one without a manifest, or
// that starts with the hour, has no later second.
func TestLaterSecondOfABuyersFirstHour(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		manifest string
		want     string
	}{
		"starts later":      {"v1 3 9 600:0 5:4 1:5", "2026-03-10T14:10:05"},
		"starts with it":    {"v1 1 9 0:9", ""},
		"zeros only":        {"v1 1 0 600:0", ""},
		"direct-submit":     {"", ""},
		"manifest damaged":  {"v1 1 8 600:9", ""},
		"manifest of later": {"v2 600:9", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			r := metering.NewRecord(groupOf(licenseOne, apiCalls, hour), 9)
			r.Manifest = c.manifest
			b.putRecords(r)
			b.atDesk(b.store, func(desk pipeline.Desk, all []metering.Record) {
				ready, err := desk.Prepare(b.ctx, all)
				if err != nil || len(ready) != 1 {
					t.Fatalf("%+v, %v", ready, err)
				}
				moved, ok, err := desk.Later(b.ctx, ready[0].Record)
				if err != nil || ok != (c.want != "") {
					t.Fatalf("moved %v, %v", ok, err)
				}
				if !ok {
					return
				}
				if got := b.record(r).SentSecond; moved.SentSecond != c.want || got != c.want {
					t.Errorf("second %s, stored %s", moved.SentSecond, got)
				}
				if _, again, _ := desk.Later(b.ctx, moved); again {
					t.Error("moved twice")
				}
			})
		})
	}
}

// TestWhoMayOverwriteWhom: a verdict meets every state that its record may be in by now. Success is written whenever the record holds
// what was sent and is not Success yet; every other verdict only while it waits (F19, F26).
func TestWhoMayOverwriteWhom(t *testing.T) {
	t.Parallel()
	states := map[string]func(*metering.Record){
		"waits":     func(*metering.Record) {},
		"expired":   func(r *metering.Record) { r.Pending, r.Status = "", metering.SubmissionExpired },
		"rejected":  func(r *metering.Record) { r.Pending, r.Status = "", metering.RejectedClientSide },
		"duplicate": func(r *metering.Record) { r.Pending, r.Status = "", metering.DuplicateRecord },
		"billed":    func(r *metering.Record) { r.Pending, r.Status, r.MeteringRecordID = "", metering.Success, "first" },
		"changed": func(r *metering.Record) {
			r.Quantity, r.SentQuantity, r.SentSecond = metering.Units(9), metering.Quantity{}, ""
		},
		"no quantity": func(r *metering.Record) { r.Quantity = metering.Quantity{} },
		"changed, end": func(r *metering.Record) {
			r.Quantity, r.Pending, r.Status = metering.Units(9), "", metering.SubmissionExpired
		},
	}
	type outcome struct {
		Status metering.Status
		ID     string
		Billed metering.Quantity
		Waits  bool
	}
	for verdict, want := range map[metering.Status]map[string]outcome{
		metering.Success: {
			"waits": {metering.Success, "id", metering.Quantity{}, false}, "expired": {metering.Success, "id", metering.Quantity{}, false},
			"rejected": {metering.Success, "id", metering.Quantity{}, false}, "duplicate": {metering.Success, "id", metering.Quantity{}, false},
			"billed": {metering.Success, "first", metering.Quantity{}, false}, "changed": {metering.Success, "id", metering.Units(4), false},
			"no quantity": {metering.Success, "id", metering.Units(4), false}, "changed, end": {metering.Success, "id", metering.Units(4), false},
		},
		metering.CustomerNotSubscribed: {
			"waits": {metering.CustomerNotSubscribed, "id", metering.Quantity{}, false}, "expired": {metering.SubmissionExpired, "", metering.Quantity{}, false},
			"rejected": {metering.RejectedClientSide, "", metering.Quantity{}, false}, "duplicate": {metering.DuplicateRecord, "", metering.Quantity{}, false},
			"billed": {metering.Success, "first", metering.Quantity{}, false}, "changed": {"", "", metering.Quantity{}, true},
			"no quantity": {"", "", metering.Quantity{}, true}, "changed, end": {metering.SubmissionExpired, "", metering.Quantity{}, false},
		},
	} {
		for name, change := range states {
			t.Run(fmt.Sprintf("%s/%s", verdict, name), func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				r := metering.NewRecord(groupOf(licenseOne, apiCalls, hour), 4)
				b.putRecords(r)
				b.atDesk(b.store, func(desk pipeline.Desk, all []metering.Record) {
					ready, err := desk.Prepare(b.ctx, all)
					if err != nil || len(ready) != 1 {
						t.Fatalf("%+v, %v", ready, err)
					}
					now := b.record(r)
					change(&now)
					b.putRecords(now)
					if err := desk.Settle(b.ctx, []metering.Verdict{{Record: ready[0].Record, Sent: ready[0].Record.Usage(), Status: verdict, RecordID: "id"}}); err != nil {
						t.Fatal(err)
					}
				})
				got := b.record(r)
				if diff := cmp.Diff(want[name], outcome{got.Status, got.MeteringRecordID, got.BilledQuantity, got.Pending != ""}); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// TestVerdictThatCannotBeWritten: one verdict of three cannot be written. The others are, and the error is reported.
func TestVerdictThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, d := range []string{"a", "b", "c"} {
		b.putRecords(metering.NewRecord(groupOf(licenseOne, d, hour), 4))
	}
	b.atDesk(refusingFinish{b.store, "b"}, func(desk pipeline.Desk, all []metering.Record) {
		ready, err := desk.Prepare(b.ctx, all)
		if err != nil {
			t.Fatal(err)
		}
		var verdicts []metering.Verdict
		for _, m := range ready {
			r := m.Record
			verdicts = append(verdicts, metering.Verdict{Record: r, Sent: r.Usage(), Status: metering.Success, RecordID: "id"})
		}
		if err := desk.Settle(b.ctx, verdicts); err == nil {
			t.Error("the lost verdict must be reported")
		}
	})
	for d, want := range map[string]metering.Status{"a": metering.Success, "b": "", "c": metering.Success} {
		if got := b.record(metering.NewRecord(groupOf(licenseOne, d, hour), 0)); got.Status != want {
			t.Errorf("%s: %s", d, got.Status)
		}
	}
}

// refusingFinish cannot finish records of one dimension.
type refusingFinish struct {
	pipeline.Records
	dimension string
}

func (r refusingFinish) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	if g, _ := metering.ParseRecordKey(f.License, f.SortKey); g.Dimension == r.dimension {
		return metering.Outcome[metering.Record]{}, errRefused
	}
	return r.Records.FinishRecord(ctx, f)
}

// metered keeps every measure, and says whether one came after the first verdict was written.
type metered struct {
	pipeline.Records
	list    []metering.Measure
	written atomic.Bool
	late    bool
}

func (m *metered) Emit(measure metering.Measure) {
	m.list, m.late = append(m.list, measure), m.late || m.written.Load()
}

func (m *metered) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	m.written.Store(true)
	return m.Records.FinishRecord(ctx, f)
}

// F44: the verdicts of a call are counted in one measure a metric and cause, and before any of them is written.
func TestVerdictsOfACallAreCountedTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fates := map[string]metering.Status{
		"a": metering.Success, "b": metering.Success, "c": metering.Success, "d": metering.DuplicateRecord, "e": metering.CustomerNotSubscribed, "f": metering.DuplicateRecord,
	}
	for d := range fates {
		b.putRecords(metering.NewRecord(groupOf(licenseOne, d, hour), 4))
	}
	counted := &metered{Records: b.store}
	s := b.submitter(&listing{do: func(desk pipeline.Desk) {
		var verdicts []metering.Verdict
		for d, status := range fates {
			r := b.record(metering.NewRecord(groupOf(licenseOne, d, hour), 4))
			verdicts = append(verdicts, metering.Verdict{Record: r, Sent: r.Usage(), Status: status, RecordID: "id"})
		}
		if err := desk.Settle(b.ctx, verdicts); err != nil {
			t.Error(err)
		}
	}})
	s.Records, s.Metrics = counted, counted
	if _, err := s.Run(b.ctx); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(counted.list, func(a, b metering.Measure) int { return strings.Compare(string(a.Metric), string(b.Metric)) })
	want := []metering.Measure{
		{Metric: metering.MetricNotSubscribed, Items: 1, Units: 4}, {Metric: metering.MetricDuplicate, Items: 2, Units: 8}, {Metric: metering.MetricBilled, Items: 3, Units: 12},
	}
	if diff := cmp.Diff(want, counted.list); diff != "" || counted.late {
		t.Errorf("counted after a write: %v; measures (-want +got):\n%s", counted.late, diff)
	}
}
