package desk

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/docs"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// said is a plant that says what the test wants.
type said struct {
	Plant
	queues   []Queue
	stages   []Stage
	ringing  []Alarm
	counts   []Count
	troubles []Finding
	err      error
}

func (p said) Queues(context.Context) ([]Queue, error)                        { return p.queues, p.err }
func (p said) Stages(context.Context) ([]Stage, error)                        { return p.stages, nil }
func (p said) Ringing(context.Context) ([]Alarm, error)                       { return p.ringing, nil }
func (p said) Counted(context.Context, time.Time, time.Time) ([]Count, error) { return p.counts, nil }
func (p said) Troubles(context.Context) ([]Finding, error)                    { return p.troubles, nil }

// onAWS hides what the memory store knows beyond the tables.
type onAWS struct{ Tables }

const onStack = " --stack awsmp-example-metering --region us-east-1"

func stackDesk(t *testing.T, now time.Time, p Plant) (*Desk, *memory.Store) {
	t.Helper()
	store := memory.New(memory.Options{})
	return &Desk{Name: "stack awsmp-example-metering in us-east-1", Flags: onStack, Tables: onAWS{store}, Plant: p, ProductCode: "example", Now: func() time.Time { return now }}, store
}

func at(t *testing.T, text string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func statusOf(t *testing.T, d *Desk) Status {
	t.Helper()
	s, err := d.Status(t.Context(), StatusOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func alarmsOf(s Status) (names []string) {
	for _, f := range s.Findings {
		names = append(names, f.Alarm)
	}
	return names
}

func TestAlarmsAreTheRunbooks(t *testing.T) {
	t.Parallel()
	var want []string
	for line := range strings.Lines(docs.Runbook) {
		if name, is := strings.CutPrefix(strings.TrimSpace(line), "## "); is {
			want = append(want, name)
		}
	}
	if diff := cmp.Diff(want, Alarms()); diff != "" || len(want) != 40 {
		t.Errorf("alarms, against the %d of the runbook (-runbook +here):\n%s", len(want), diff)
	}
	for _, name := range Alarms() {
		a, found := Advise(name, "example")
		if !found || a.Until == "" || len(a.Money) < 10 || len(a.Look) < 10 || len(a.Do) < 10 || len(a.Over) < 10 {
			t.Errorf("the entry of %s: %+v", name, a)
		}
		if text := a.Money + a.Look + a.Do + a.Over; strings.Contains(text, "](") || strings.Contains(text, "**") || strings.Contains(text, "$M") {
			t.Errorf("the entry of %s is not plain: %s", name, text)
		}
	}
	if _, found := Advise("usage-lat", ""); found {
		t.Error("an alarm that is none has an entry")
	}
}

// Each alarm that rings is a finding with a command at the same place, and the most urgent stands in front whatever the order they come in.
func TestRingingAlarms(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	p := said{}
	for _, name := range slices.Backward(Alarms()) {
		p.ringing = append(p.ringing, Alarm{Name: name, Since: now.Add(-time.Hour)})
	}
	p.ringing = append(p.ringing, Alarm{Name: "of-another-release"})
	d, _ := stackDesk(t, now, p)
	s := statusOf(t, d)
	if diff := cmp.Diff(append(Alarms(), "of-another-release"), alarmsOf(s)); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
	for _, f := range s.Findings[:40] {
		if f.What == "" || !strings.HasPrefix(f.Fix, "awsmp ") || !strings.HasSuffix(f.Fix, onStack) || !f.Since.Equal(now.Add(-time.Hour)) {
			t.Errorf("finding %+v", f)
		}
	}
}

// What the plant finds itself comes with the command that it names, and learns from when on its alarm rings.
func TestTroublesRing(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	d, _ := stackDesk(t, now, said{
		troubles: []Finding{{Alarm: "submitter-did-not-run", What: "the rule is off", Fix: "aws events enable-rule --name x"}},
		ringing:  []Alarm{{Name: "submitter-did-not-run", Since: now}},
	})
	want := []Finding{{Alarm: "submitter-did-not-run", What: "the rule is off", Fix: "aws events enable-rule --name x", Since: now}}
	if diff := cmp.Diff(want, statusOf(t, d).Findings); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// Whatever an entry says it is seen by is seen without any alarm, and is not seen one step below that.
func TestSeenWithoutAlarms(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	hour := metering.HourOf(now)
	type sight struct{ much, little said }
	for _, e := range entries() {
		sights := make(map[string]sight)
		if e.queue != "" && e.age > 0 {
			sights["age"] = sight{said{queues: []Queue{{Name: e.queue, Visible: 1, Oldest: e.age.String()}}}, said{queues: []Queue{{Name: e.queue, Visible: 1, Oldest: (e.age - time.Second).String()}}}}
		} else if e.queue != "" {
			sights["letters"] = sight{said{queues: []Queue{{Name: e.queue, Dead: true, Visible: 1}}}, said{queues: []Queue{{Name: e.queue, Dead: true}}}}
		}
		if e.metric != "" {
			within := max(e.within, 1)
			if e.within == 0 {
				within = 24
			}
			count := func(back int) []Count {
				return []Count{{Hour: hour - metering.Hour(back), Metric: e.metric, Items: 1, Units: 5}}
			}
			sights["metric"] = sight{said{counts: count(within - 1)}, said{counts: count(within)}}
		}
		for _, stage := range e.stage {
			switch {
			case e.silent > 0:
				sights["silent "+stage] = sight{said{stages: []Stage{{Name: stage, LastAt: now.Add(-e.silent - time.Second)}}}, said{stages: []Stage{{Name: stage, LastAt: now.Add(-e.silent)}}}}
			default:
				sights["fails "+stage] = sight{said{stages: []Stage{{Name: stage, LastAt: now, Runs: 12, Failures: 2, Error: "no table\nmore"}}},
					said{stages: []Stage{{Name: stage, LastAt: now, Runs: 12, Failures: 1, Error: "no table"}}}}
			}
		}
		for name, of := range sights {
			t.Run(e.alarm+" "+name, func(t *testing.T) {
				t.Parallel()
				for _, look := range []struct {
					plant said
					want  int
				}{{of.much, 1}, {of.little, 0}} {
					d, _ := stackDesk(t, now, look.plant)
					d.DryRun = e.alarm == "dry-run-submitted"
					found := slices.DeleteFunc(statusOf(t, d).Findings, func(f Finding) bool { return f.Alarm != e.alarm })
					if len(found) != look.want {
						t.Fatalf("findings of %+v: %+v", look.plant, found)
					}
					if look.want == 1 && (found[0].What == "" || !strings.HasPrefix(found[0].Fix, "awsmp ") || strings.Contains(found[0].What, "\n")) {
						t.Errorf("finding %+v", found[0])
					}
				}
			})
		}
	}
}

// What waits for too long is seen in the tables themselves.
func TestSeenInTheTables(t *testing.T) {
	t.Parallel()
	const license, account = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "111122223333"
	now := at(t, "2026-03-10T15:20:00Z")
	group := func(hour string) metering.Group {
		h, err := metering.ParseHour(hour)
		if err != nil {
			t.Fatal(err)
		}
		return metering.Group{License: license, Account: account, Dimension: "api_calls", Hour: h}
	}
	for _, tt := range []struct {
		name    string
		rows    map[string]int64 // quantity by hour
		records map[string]int64
		change  func(*Desk)
		expiry  time.Duration // of a license's last hour, from now on
		want    []string
		left    string // of the first
	}{
		{name: "nothing"},
		{name: "fresh", rows: map[string]int64{"2026-03-10T15": 5, "2026-03-10T13": 5}, records: map[string]int64{"2026-03-10T13": 5}},
		{name: "old rows", rows: map[string]int64{"2026-03-10T12": 5, "2026-03-10T15": 1}, want: []string{"work-age"}, left: "20h40m0s"},
		{name: "old rows with a longer lock", rows: map[string]int64{"2026-03-10T12": 5}, change: func(d *Desk) { d.Rules.LockHours = 3 }},
		{name: "old zeros", rows: map[string]int64{"2026-03-09T18": 0}},
		{name: "old records", records: map[string]int64{"2026-03-10T12": 5}, want: []string{"submitter-errors"}, left: "20h40m0s"},
		{name: "paused", records: map[string]int64{"2026-03-10T12": 5}, change: func(d *Desk) { d.Paused = true }, want: []string{"submission-paused"}, left: "20h40m0s"},
		{name: "rows out of time", rows: map[string]int64{"2026-03-09T14": 5}, want: []string{"usage-aggregation-expired"}},
		{name: "records out of time", records: map[string]int64{"2026-03-09T14": 5}, want: []string{"submission-expiry-did-not-run"}},
		{name: "a last hour that nobody ends", expiry: -46 * time.Minute, want: []string{"deprovision-cleanup-did-not-run"}},
		{name: "a last hour", expiry: 10 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, store := stackDesk(t, now, said{})
			if tt.change != nil {
				tt.change(d)
			}
			for hour, quantity := range tt.rows {
				g := group(hour)
				if err := store.PutRow(t.Context(), metering.NewRow(g, g.Hour.Second(5), quantity)); err != nil {
					t.Fatal(err)
				}
			}
			for hour, quantity := range tt.records {
				if err := store.PutRecord(t.Context(), metering.NewRecord(group(hour), quantity)); err != nil {
					t.Fatal(err)
				}
			}
			if tt.expiry != 0 {
				e := metering.LicenseEvent{License: license, Account: account, At: now.Add(tt.expiry - time.Hour)}
				if _, _, err := store.ChangeSubscriber(t.Context(), e.DeprovisionedAt(now)); err != nil {
					t.Fatal(err)
				}
			}
			s := statusOf(t, d)
			if diff := cmp.Diff(tt.want, alarmsOf(s)); diff != "" {
				t.Errorf("findings (-want +got):\n%s\n%+v", diff, s.Findings)
			}
			if len(s.Findings) > 0 && s.Findings[0].Left != tt.left {
				t.Errorf("%q left, want %q", s.Findings[0].Left, tt.left)
			}
		})
	}
}

// Alarms that tell nobody stand behind what stands still, without a time that is left, and are no word of what their names are about.
func TestAlarmsThatTellNobody(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	silent := Finding{Alarm: "deprovision-work-age", Kind: KindAlarms, What: "32 alarms are without an action", Fix: "aws sns create-topic"}
	d, store := stackDesk(t, now, said{
		troubles: []Finding{silent, {Alarm: "submitter-did-not-run", What: "rule submit is off", Fix: "aws events enable-rule"}},
		ringing:  []Alarm{{Name: "deprovision-work-age", Since: now}, {Name: "usage-aggregation-expired", Since: now}},
		counts:   []Count{{Hour: metering.HourOf(now), Metric: metering.MetricSubmissionExpired, Items: 1, Units: 4}, {Hour: metering.HourOf(now), Metric: metering.MetricRowExpired, Items: 1, Units: 4}},
	})
	h := metering.HourOf(now) - 1
	g := metering.Group{License: toldLicense, Account: toldAccount, Dimension: "api_calls", Hour: h}
	if err := store.PutRow(t.Context(), metering.NewRow(g, h.Second(5), 5)); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range statusOf(t, d).Findings {
		got = append(got, strings.Join([]string{string(f.Kind), f.Alarm, f.What, f.Left}, "|"))
	}
	want := []string{
		"|deprovision-work-age|the alarm rings|22h40m0s",
		"|usage-aggregation-expired|1 row, 4 units, in the last 24 hours: out of time before it was summed|", // it goes on, as the alarm rings
		"|submitter-did-not-run|rule submit is off|",
		"alarms|deprovision-work-age|32 alarms are without an action|",
		"known|usage-submission-expired|1 record, 4 units, in the last 24 hours: out of time before AWS Marketplace said that it is billed|",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
