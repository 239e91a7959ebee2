package usage_test

import (
	"errors"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/usage"
)

// A batch is sent again when more of it has come to pass. What belongs to one row, and what excludes what, is as it was at first: an
// answer of "nothing was written" stays true, and nothing is added twice.
func TestBatchOverTime(t *testing.T) {
	t.Parallel()
	at := func(clock string) time.Time {
		moment, err := time.Parse(time.RFC3339, "2026-03-10T"+clock+"Z")
		if err != nil {
			t.Fatal(err)
		}
		return moment
	}
	plain := func(clock string, quantity int64) usage.Event {
		return usage.Event{
			License: "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Account: "111122223333",
			Dimension: "api_calls", Time: at(clock), Quantity: quantity,
		}
	}
	tagged := func(clock string, quantity int64) usage.Event {
		e := plain(clock, quantity)
		e.Allocations = []usage.Allocation{{Quantity: quantity, Tags: []usage.Tag{{Key: "team", Value: "blue"}}}}
		return e
	}
	of := func(customer string, e usage.Event) usage.Event {
		e.License, e.CustomerIdentifier = "plain-product", customer
		return e
	}
	const mixed, conflict, future = "MixedAllocatedAndUnallocated", "ConflictingIdentifier", "TimestampInFuture"
	for _, tt := range []struct {
		name         string
		events       []usage.Event
		first, again []usage.Reason // empty: written
		sum          int64
	}{
		{"tagged usage to come keeps untagged usage out at once", []usage.Event{tagged("15:40:00", 5), plain("15:01:00", 7)},
			[]usage.Reason{future, mixed}, []usage.Reason{"", mixed}, 5},
		{"another customer's usage to come, too", []usage.Event{of("c-1", plain("15:40:00", 5)), of("c-2", plain("15:01:00", 7))},
			[]usage.Reason{future, conflict}, []usage.Reason{"", conflict}, 5},
		{"the events of one row have one fate", []usage.Event{plain("15:25:10", 5), plain("15:25:50", 7), plain("15:01:00", 1)},
			[]usage.Reason{future, future, ""}, []usage.Reason{"", "", ""}, 13},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			store, now := memory.New(memory.Options{}), at("15:20:30")
			w, err := usage.NewWriter(store, usage.Options{Now: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close(t.Context())
			for i, want := range [][]usage.Reason{tt.first, tt.again, tt.again} {
				errs, err := w.WriteBatch(t.Context(), "id", tt.events)
				if err != nil {
					t.Fatal(err)
				}
				for j, err := range errs {
					var refusal *usage.Refusal
					if errors.As(err, &refusal) != (want[j] != "") || refusal != nil && refusal.Reason != want[j] {
						t.Errorf("sent %d times, event %d: %v, want %q", i+1, j, err, want[j])
					}
				}
				now = now.Add(25 * time.Minute)
			}
			if sum := sumOf(t, store); sum != tt.sum {
				t.Errorf("the rows hold %d, want %d", sum, tt.sum)
			}
		})
	}
}

// What was sent may stand in its row by the clock of the process that sent it: who sends it again does not judge its time.
func TestResendLeavesTheTimeOut(t *testing.T) {
	t.Parallel()
	store, now := memory.New(memory.Options{}), time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)
	w, err := usage.NewWriter(store, usage.Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(t.Context())
	row := usage.Row{
		License: "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", Account: "111122223333",
		Dimension: "api_calls", Time: now.Add(6*time.Minute - time.Second), Quantity: 3, Token: "token", Sent: true,
	}
	if err := w.Resend(t.Context(), []usage.Row{row}); err != nil {
		t.Errorf("sent before: %v", err)
	}
	row.Token, row.Sent = "another", false
	var refusal *usage.Refusal
	if err := w.Resend(t.Context(), []usage.Row{row}); !errors.As(err, &refusal) || refusal.Reason != usage.Reason(metering.TimestampInFuture) {
		t.Errorf("never sent: %v", err)
	}
	if sum := sumOf(t, store); sum != 3 {
		t.Errorf("the rows hold %d, want 3", sum)
	}
}

func sumOf(t *testing.T, store *memory.Store) (sum int64) {
	t.Helper()
	for license, err := range store.Licenses(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		for row, err := range store.LicenseRows(t.Context(), license) {
			if err != nil {
				t.Fatal(err)
			}
			sum += row.Quantity.N
		}
	}
	return sum
}
