package desk

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// Usage of a license in its last hour is lost when that ends, whatever its own hour: what waits says so, and it comes first. What is sent of a license that
// has ended is refused, and has no time left.
func TestStatusInALastHour(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	hour := metering.HourOf(now)
	for _, tt := range []struct {
		name   string
		expiry time.Duration // from now on
		final  bool          // the license is inactive
		want   Waiting
		alarms []string
		left   string
	}{
		{"leaving", 40 * time.Minute, false, Waiting{LostIn: "40m0s", LastHour: true}, []string{"discoverer-did-not-run", "customer-not-subscribed"}, "40m0s"},
		{"just over", -time.Minute, false, Waiting{LostIn: "22h40m0s", Ended: 1}, []string{"discoverer-did-not-run", "customer-not-subscribed"}, ""},
		{"inactive", -time.Hour, true, Waiting{LostIn: "22h40m0s", Ended: 1}, []string{"discoverer-did-not-run", "customer-not-subscribed"}, ""},
	} {
		for _, machine := range []bool{true, false} {
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				store := memory.New(memory.Options{})
				d := &Desk{Name: "x", Flags: " --store x", Tables: onMachine{store}, ProductCode: "example", Now: func() time.Time { return now }}
				if !machine {
					d.Tables = onAWS{store}
				}
				e := metering.LicenseEvent{License: toldLicense, Account: toldAccount, At: now.Add(tt.expiry - time.Hour)}
				if _, _, err := store.ChangeSubscriber(t.Context(), e.DeprovisionedAt(e.At)); err != nil {
					t.Fatal(err)
				}
				if tt.final {
					if _, _, err := store.ChangeSubscriber(t.Context(), metering.FinalizeAt(toldLicense, toldAccount, now)); err != nil {
						t.Fatal(err)
					}
				}
				g := metering.Group{License: toldLicense, Account: toldAccount, Dimension: "api_calls", Hour: hour - 1}
				if err := store.PutRow(t.Context(), metering.NewRow(g, g.Hour.Second(5), 5)); err != nil {
					t.Fatal(err)
				}
				other := metering.Group{License: toldLicense[:len(toldLicense)-1] + "b", Account: toldAccount, Dimension: "api_calls", Hour: hour - 4}
				r, _ := toldRecord(other, ended{metering.CustomerNotSubscribed, ""})
				if err := store.PutRecord(t.Context(), r); err != nil {
					t.Fatal(err)
				}
				s := statusOf(t, d)
				if len(s.Waiting) != 1 || s.Waiting[0].LostIn != tt.want.LostIn || s.Waiting[0].LastHour != tt.want.LastHour || s.Waiting[0].Ended != tt.want.Ended {
					t.Errorf("waiting %+v", s.Waiting)
				}
				if !machine {
					return
				}
				if diff := cmp.Diff(tt.alarms, alarmsOf(s)); diff != "" || len(s.Findings) > 0 && s.Findings[0].Left != tt.left {
					t.Errorf("findings (-want +got):\n%s\n%+v", diff, s.Findings)
				}
			})
		}
	}
}

// What little time is left decides the order before the runbook does.
func TestWhatEndsWithinTheHourComesFirst(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	store := memory.New(memory.Options{})
	d := &Desk{Name: "x", Flags: " --store x", Tables: onMachine{store}, ProductCode: "example", Now: func() time.Time { return now }}
	e := metering.LicenseEvent{License: toldLicense, Account: toldAccount, At: now.Add(-50 * time.Minute)}
	if _, _, err := store.ChangeSubscriber(t.Context(), e.DeprovisionedAt(e.At)); err != nil {
		t.Fatal(err)
	}
	hour := metering.HourOf(now)
	r := toldRow(metering.Group{License: toldLicense, Account: toldAccount, Dimension: "wrong", Hour: hour - 2}, ended{metering.RejectedClientSide, string(metering.NegativeQuantity)})
	other := metering.Group{License: "another", Account: toldAccount, Dimension: "waits", Hour: hour - 1}
	for _, r := range []metering.Row{r, metering.NewRow(other, other.Hour.Second(5), 5)} {
		if err := store.PutRow(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	s := statusOf(t, d)
	if len(s.Findings) != 2 || s.Findings[0].Alarm != "usage-record-rejected" || s.Findings[0].Left != "10m0s" || s.Findings[1].Left != "22h40m0s" {
		t.Errorf("findings %+v", s.Findings)
	}
}

// A dropped row wants nobody, and its hour is no deadline of the others. What nothing brings back stands behind what somebody can do something about.
func TestStatusAfterADrop(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	store := memory.New(memory.Options{})
	d := &Desk{Name: "x", Flags: " --store x", Tables: onMachine{store}, ProductCode: "example", Now: func() time.Time { return now }}
	hour := metering.HourOf(now)
	for back, how := range map[metering.Hour]ended{1: {metering.RejectedClientSide, string(metering.NegativeQuantity)}, 5: {"dropped", string(metering.NegativeQuantity)}, 30: {metering.RejectedClientSide, string(metering.NegativeQuantity)}} {
		g := metering.Group{License: toldLicense, Account: toldAccount, Dimension: "api_calls", Hour: hour - back}
		if err := store.PutRow(t.Context(), toldRow(g, how)); err != nil {
			t.Fatal(err)
		}
	}
	lost := metering.Group{License: toldLicense, Account: toldAccount, Dimension: "lost", Hour: hour - 40}
	r, _ := toldRecord(lost, ended{metering.CustomerNotSubscribed, ""})
	if err := store.PutRecord(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	s := statusOf(t, d)
	if len(s.Findings) != 3 || s.Findings[0].Left != "22h40m0s" || !strings.HasPrefix(s.Findings[0].What, "1 row of 1 group, ") || s.Findings[0].Kind != "" {
		t.Fatalf("findings %+v", s.Findings)
	}
	for i, alarm := range []string{"usage-record-rejected", "customer-not-subscribed"} {
		if f := s.Findings[i+1]; f.Alarm != alarm || f.Kind != KindKnown || f.Left != "" || f.Fix != "awsmp ledger --store x" {
			t.Errorf("only to be known: %+v", f)
		}
	}
}

// A row that grew after its hour was summed is one row, as the list of late rows has it.
func TestStatusCountsLateRows(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	store := memory.New(memory.Options{})
	d := &Desk{Name: "x", Flags: " --store x", Tables: onMachine{store}, ProductCode: "example", Now: func() time.Time { return now }}
	g := metering.Group{License: toldLicense, Account: toldAccount, Dimension: "api_calls", Hour: metering.HourOf(now) - 3}
	fold := metering.NewFold(g, now)
	row := metering.NewRow(g, g.Hour.Second(5), 5)
	fold.Add(row)
	record, reason := fold.Record()
	if reason != "" {
		t.Fatal(reason)
	}
	record.Pending, record.Status = "", metering.Success
	if err := store.PutRecord(t.Context(), record); err != nil {
		t.Fatal(err)
	}
	row.Quantity, row.LateQuantity = metering.Units(25), metering.Units(20)
	row.Pending, row.Status, row.StatusReason = "", metering.LateUsage, "Grew from 5 to 25"
	added := toldRow(g, ended{metering.LateUsage, metering.LateReason})
	for _, r := range []metering.Row{row, added} {
		if err := store.PutRow(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	s := statusOf(t, d)
	if len(s.Findings) != 1 || s.Findings[0].What != "2 rows, 25 units: late, for it came or grew after its hour was summed" {
		t.Errorf("findings %+v", s.Findings)
	}
}

// What was not looked at one by one goes by its hour: a license in its last hour among it is not seen, and nothing counts as without a time.
func TestStatusBeyondWhatIsLookedAt(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-03-10T15:20:00Z")
	store := memory.New(memory.Options{})
	d := &Desk{Name: "x", Flags: " --store x", Tables: onMachine{store}, ProductCode: "example", Now: func() time.Time { return now }}
	hour := metering.HourOf(now)
	for back := range 6 {
		g := metering.Group{License: toldLicense, Account: toldAccount, Dimension: "api_calls", Hour: hour - 1 - metering.Hour(back)}
		for second := range 3 {
			if err := store.PutRow(t.Context(), metering.NewRow(g, g.Hour.Second(second), 5)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := d.Status(t.Context(), StatusOptions{Entries: 1})
	if err != nil || len(s.Waiting) != 6 || len(s.Findings) != 1 || s.Findings[0].Left != "17h40m0s" {
		t.Errorf("status %+v, %v", s, err)
	}
	looked := 0
	for _, w := range s.Waiting {
		looked += len(w.of)
		if w.LostIn == "" || w.Ended != 0 {
			t.Errorf("waiting %+v", w)
		}
	}
	if looked != summedMost {
		t.Errorf("%d hours were looked into, want %d", looked, summedMost)
	}
}
