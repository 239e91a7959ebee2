package desk

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// stoppable is a plant of which some schedules do not run.
type stoppable struct {
	said
	stops map[string]Stop
}

func (s stoppable) Stopped(context.Context) (map[string]Stop, error) { return s.stops, nil }

// What waits is told by whom it is moved on and when, and that nobody does where nobody does; and it has the time that is left of its license's last hour
// where that is less.
func TestExplainWhatComesNext(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	submitOff := stoppable{stops: map[string]Stop{metering.SubmitSchedule.Name: {"rule submit is off", "aws events enable-rule"}}}
	for _, tt := range []struct {
		name     string
		hour     string
		units    int64
		record   bool
		lock     int
		plant    Plant
		paused   bool
		machine  bool
		silent   string
		leaves   time.Duration // the license's last hour ends then, from now on
		inactive bool
		why      string
		fix      string
		told     string // a part of what is told
		left     string
		help     bool
	}{
		{name: "a visit", hour: "2026-03-10T14", units: 5, plant: said{}, why: "not needed: the visit at 03-10 15:35 UTC sums it", told: "looked at next at 03-10 15:35", left: "22h40m0s", help: true},
		{name: "no node", hour: "2026-03-10T14", units: 5, machine: true, why: "yes, when it goes on: no node runs here", fix: "awsmp dev --data x",
			told: "nobody looks at its rows: no node runs here", left: "22h40m0s", help: true},
		{name: "a node that says nothing", hour: "2026-03-10T14", units: 5, machine: true, silent: "http://127.0.0.1:1", why: "yes, when it goes on: the node at http://127.0.0.1:1 does not answer",
			fix: "awsmp dev --data x", told: "nobody looks at its rows: the node at http://127.0.0.1:1 does not answer", left: "22h40m0s", help: true},
		{name: "no node for a record", hour: "2026-03-10T14", units: 5, record: true, machine: true, why: "yes, when it goes on: no node runs here", fix: "awsmp dev --data x",
			told: "it waits, and nothing is sent: no node runs here", left: "22h40m0s", help: true},
		{name: "paused", hour: "2026-03-10T14", units: 5, plant: said{}, paused: true, why: "yes: the visit at 03-10 15:35 UTC sums it, and it is sent when submission is no longer paused",
			fix: "awsmp explain submission-paused", told: "03-10 15:35", left: "22h40m0s", help: true},
		{name: "the submit rule is off", hour: "2026-03-10T14", units: 5, plant: submitOff, why: "yes: the visit at 03-10 15:35 UTC sums it, and then nothing is sent: rule submit is off",
			fix: "aws events enable-rule", told: "03-10 15:35", left: "22h40m0s", help: true},
		{name: "the submit rule is off, for a record", hour: "2026-03-10T14", units: 5, record: true, plant: submitOff, why: "yes, when it goes on: rule submit is off",
			fix: "aws events enable-rule", told: "nothing is sent: rule submit is off", left: "22h40m0s", help: true},
		{name: "the rule of other hours is off", hour: "2026-03-10T14", units: 5, plant: stoppable{stops: map[string]Stop{MeterAt(2): {"off", "x"}}},
			why: "not needed: the visit at 03-10 15:35 UTC sums it", told: "03-10 15:35", left: "22h40m0s", help: true},
		{name: "the rule of its hour is off", hour: "2026-03-10T14", units: 5, plant: stoppable{stops: map[string]Stop{MeterAt(1): {"off", "x"}}},
			why: "yes, when it goes on: off", fix: "x", told: "nobody looks at its rows: off", left: "22h40m0s", help: true},
		{name: "locked", hour: "2026-03-10T14", units: 5, lock: 3, plant: said{}, why: "not needed: the visit at 03-10 17:05 UTC sums it", told: "03-10 17:05", left: "22h40m0s", help: true},
		{name: "locked and leaving", hour: "2026-03-10T14", units: 5, lock: 3, plant: said{}, leaves: 40 * time.Minute, why: "not needed: the visit at 03-10 15:21 UTC sums it",
			told: "03-10 15:21", left: "40m0s", help: true},
		{name: "the hour in progress of a license that leaves", hour: "2026-03-10T15", units: 5, plant: said{}, leaves: 30 * time.Minute, why: "not needed: the visit at 03-10 15:41 UTC sums it",
			told: "03-10 15:41", left: "30m0s", help: true},
		{name: "zero", hour: "2026-03-10T14", plant: said{}, why: "not needed: it is zero, and is summed at the last moment, by the visit at 03-11 13:05 UTC, for more may still come",
			told: "its rows hold nothing, and are summed last, at 03-11 13:05", left: "22h40m0s", help: true},
		{name: "zero and leaving", hour: "2026-03-10T14", plant: said{}, leaves: 30 * time.Minute,
			why: "not needed: it is zero, and is summed at the last moment, by the visit at 03-10 15:41 UTC, for more may still come", told: "15:41", left: "30m0s", help: true},
		{name: "ended", hour: "2026-03-10T14", units: 5, plant: said{}, leaves: -time.Hour, inactive: true,
			why: "no: its license has ended, and what is sent is refused. A refused record can be sent once more when the buyer is active again", told: "the license is inactive"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store := memory.New(memory.Options{})
			d := &Desk{Name: "x", Tables: onAWS{store}, Plant: tt.plant, Paused: tt.paused, Silent: tt.silent, ProductCode: "example", Rules: metering.Rules{LockHours: tt.lock}, Now: func() time.Time { return now }}
			if tt.machine {
				d.Tables = onMachine{store}
			}
			h, err := metering.ParseHour(tt.hour)
			if err != nil {
				t.Fatal(err)
			}
			g := metering.Group{License: toldLicense, Account: toldAccount, Dimension: "api_calls", Hour: h}
			if tt.record {
				err = store.PutRecord(t.Context(), metering.NewRecord(g, tt.units))
			} else {
				err = store.PutRow(t.Context(), metering.NewRow(g, h.Second(5), tt.units))
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.leaves != 0 {
				e := metering.LicenseEvent{License: toldLicense, Account: toldAccount, At: now.Add(tt.leaves - time.Hour)}
				if _, _, err := store.ChangeSubscriber(t.Context(), e.DeprovisionedAt(e.At)); err != nil {
					t.Fatal(err)
				}
			}
			if tt.inactive {
				if _, _, err := store.ChangeSubscriber(t.Context(), metering.FinalizeAt(toldLicense, toldAccount, now)); err != nil {
					t.Fatal(err)
				}
			}
			s, err := d.Explain(t.Context(), g)
			if err != nil || len(s.Causes) != 1 {
				t.Fatalf("%+v, %v", s, err)
			}
			c := s.Causes[0]
			if c.Why != tt.why || c.Fix != tt.fix || c.Left != tt.left || c.Help != tt.help || s.Left != tt.left || s.Ended != tt.inactive || s.LastHour != (tt.leaves > 0) {
				t.Errorf("cause %+v of %+v", c, s)
			}
			if !strings.Contains(strings.Join(s.Told, "\n"), tt.told) {
				t.Errorf("told %q", s.Told)
			}
		})
	}
}

// What an operator gave up comes back by nothing, and is told apart from what it was rejected with; all that happened is told in the order of time.
func TestExplainAfterADrop(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	store := memory.New(memory.Options{})
	d := &Desk{Name: "x", Tables: store, ProductCode: "example", Now: func() time.Time { return now }}
	g := metering.Group{License: toldLicense, Account: toldAccount, Dimension: "api_calls", Hour: metering.HourOf(now) - 2}
	wrong := toldRow(g, ended{metering.RejectedClientSide, string(metering.NegativeQuantity)})
	right := metering.NewRow(g, g.Hour.Second(400), 7)
	right.Pending, right.Status, right.StatusReason = "", metering.RejectedClientSide, string(metering.NegativeQuantity)
	for _, r := range []metering.Row{wrong, right} {
		if err := store.PutRow(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.DropAtFault(t.Context(), g, false); err != nil {
		t.Fatal(err)
	}
	s, err := d.Explain(t.Context(), g)
	if err != nil || len(s.Causes) != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	for _, c := range s.Causes {
		if dropped := c.Code == ledger.Dropped; dropped == c.Help || dropped && c.Fix != "" || !dropped && !strings.HasPrefix(c.Fix, "awsmp rejected retry ") {
			t.Errorf("cause %+v", c)
		}
	}
	fold := metering.NewFold(g, now)
	right.Status = metering.Status("")
	right.Pending = g.Hour.String()
	fold.Add(right)
	record, reason := fold.Record()
	if reason != "" {
		t.Fatal(reason)
	}
	record.Pending, record.Status = "", metering.Success
	record = record.Stamped(at(t, "2026-03-10T15:50:00Z"))
	if err := store.PutRecord(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	if s, err = d.Explain(t.Context(), g); err != nil {
		t.Fatal(err)
	}
	dropped := slices.IndexFunc(s.Told, func(line string) bool {
		return strings.HasPrefix(line, "03-10 15:20:00  an operator dropped the row of ")
	})
	committed := slices.IndexFunc(s.Told, func(line string) bool { return strings.HasPrefix(line, "03-10 15:50:00  committed: ") })
	if dropped < 0 || committed < dropped {
		t.Errorf("told %q", s.Told)
	}
}

// A row cannot be mended in the store of one machine; elsewhere that comes before it is given up.
func TestExplainNamesWhatCanBeDoneHere(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	store := memory.New(memory.Options{})
	g := metering.Group{License: toldLicense, Account: toldAccount, Dimension: "api_calls", Hour: metering.HourOf(now) - 2}
	if err := store.PutRow(t.Context(), toldRow(g, ended{metering.RejectedClientSide, string(metering.NegativeQuantity)})); err != nil {
		t.Fatal(err)
	}
	doubt := g
	doubt.Dimension = "doubt"
	r, _ := toldRecord(doubt, ended{"in doubt", metering.VerdictUnknown})
	if err := store.PutRecord(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, machine := range []bool{true, false} {
		d := &Desk{Name: "x", Tables: onAWS{store}, Plant: said{}, ProductCode: "example", Now: func() time.Time { return now }}
		if machine {
			d.Tables, d.Plant = onMachine{store}, nil
		}
		s, err := d.Explain(t.Context(), g)
		if err != nil || len(s.Causes) != 1 {
			t.Fatalf("%+v, %v", s, err)
		}
		c := s.Causes[0]
		if machine && (c.First != "" || c.GiveUp != "" || !strings.HasPrefix(c.Fix, "awsmp rejected drop ") || !strings.Contains(c.Why, "a row cannot be mended in the store of one machine")) {
			t.Errorf("on a machine %+v", c)
		}
		if !machine && (c.First != "mend "+g.RowKey(g.Hour.Second(300))+" (NegativeQuantity)" || !strings.HasPrefix(c.Fix, "awsmp rejected retry ") || !strings.HasPrefix(c.GiveUp, "awsmp rejected drop ")) {
			t.Errorf("on AWS %+v", c)
		}
		if s, err = d.Explain(t.Context(), doubt); err != nil || len(s.Causes) != 1 || strings.Contains(s.Causes[0].Why, "awsmp ledger --hour 2026-03-10T13") != machine {
			t.Errorf("in doubt: %+v, %v", s, err)
		}
	}
}
