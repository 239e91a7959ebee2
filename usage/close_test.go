package usage_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/awsmp/metering/usage"
)

// What Close cannot settle is named, kept as JSON and sent again by another process, once.
func TestCloseAndResend(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		writes, answer error
		committed      bool
		want           error
		held           []int64
	}{
		{"the answer was lost", nil, errLine, false, nil, []int64{7, 3}},
		{"the answer was lost, then the hour committed", nil, errLine, true, nil, []int64{7, 3}},
		{"nothing arrived", errLine, nil, false, nil, []int64{7, 3}},
		{"nothing arrived, then the hour committed", errLine, nil, true, usage.ErrLate, []int64{7, 3}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var told []error
				w, l, s := setup(t, usage.Options{Outcome: func(o usage.Outcome) { told = append(told, o.Err) }})
				l.cut(nil, tt.writes, tt.answer)
				add(t, w, tagged(3, "blue"), at(tagged(7, "red"), noon.Add(-5*time.Minute)))
				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				err := w.Close(ctx)
				if d := time.Since(start); d != 10*time.Second {
					t.Errorf("Close tried for %v", d)
				}
				rows := rowErrors(t, err)
				if len(rows) != 2 || !errors.Is(rows[0], usage.ErrUnknown) || rows[0].Quantity != 7 || !rows[0].Sent || len(told) != 2 || !errors.Is(told[1], usage.ErrUnknown) {
					t.Fatalf("Close: %v; told %v", err, told)
				}
				if tt.committed {
					commit(t, s, used(1))
				}
				kept, err := json.Marshal(rows)
				if err != nil {
					t.Fatal(err)
				}
				var again []usage.Row
				if err := json.Unmarshal(kept, &again); err != nil {
					t.Fatal(err)
				}
				other := writer(t, s, usage.Options{})
				for range 2 {
					if err := other.Resend(t.Context(), again); !errors.Is(err, tt.want) {
						t.Errorf("Resend: %v, want %v", err, tt.want)
					}
				}
				wantHeld(t, s, used(1), tt.held...)
			})
		})
	}
}

func TestResendRefuses(t *testing.T) {
	t.Parallel()
	w, _, s := setup(t, usage.Options{})
	if err := w.Resend(t.Context(), []usage.Row{{License: license}}); err == nil || !strings.Contains(err.Error(), "token") {
		t.Errorf("a row without a token: %v", err)
	}
	var refusal *usage.Refusal
	if err := w.Resend(t.Context(), []usage.Row{{License: license, Account: account, Dimension: "api_calls", Time: noon, Quantity: -1, Token: "t"}}); !errors.As(err, &refusal) {
		t.Errorf("a negative row: %v", err)
	}
	wantHeld(t, s, at(used(1), noon))
}

// An unhurried table: Close waits for what is being sent, and no longer than its context allows.
func TestCloseWhileSending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l, s := setup(t, usage.Options{})
		l.before = func() { time.Sleep(5 * time.Second) }
		add(t, w, used(3))
		flushed := make(chan error, 1)
		go func() { flushed <- w.Flush(t.Context()) }()
		synctest.Wait()
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-flushed; err != nil {
			t.Error(err)
		}
		wantHeld(t, s, used(1), 3)
		for name, err := range map[string]error{
			"Add": w.Add(t.Context(), used(1)), "Flush": w.Flush(t.Context()), "Resend": w.Resend(t.Context(), nil),
			"WriteBatch": func() error { _, err := w.WriteBatch(t.Context(), "id", nil); return err }(),
		} {
			if !errors.Is(err, usage.ErrClosed) {
				t.Errorf("%s after Close: %v", name, err)
			}
		}
		if err := w.Close(t.Context()); err != nil {
			t.Errorf("a second Close: %v", err)
		}
	})
}

func TestCloseWakesAdd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, l, _ := setup(t, usage.Options{MaxRows: 1})
		l.cut(nil, errLine, nil)
		add(t, w, used(3))
		waiting := make(chan error, 1)
		go func() { waiting <- w.Add(t.Context(), at(used(4), noon.Add(-5*time.Minute))) }()
		synctest.Wait()
		start := time.Now()
		err := w.Close(t.Context())
		if d := time.Since(start); d != 30*time.Second {
			t.Errorf("without a deadline Close tried for %v", d)
		}
		if rows := rowErrors(t, err); len(rows) != 1 || rows[0].Quantity != 3 {
			t.Error(err)
		}
		if err := <-waiting; !errors.Is(err, usage.ErrClosed) {
			t.Errorf("Add: %v", err)
		}
	})
}
