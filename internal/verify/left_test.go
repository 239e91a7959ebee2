package verify_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/internal/verify"
)

// keeps is a store from which rows do not go.
type keeps struct{ *memory.Store }

func (keeps) DeleteRow(context.Context, string, string) error { return nil }

// TestLeft: what cannot be taken away is told, and fails the run.
func TestLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, dryRun)
	s := w.settings()
	s.Only, s.Rows = []string{"wrong-bucket-early", "age-out"}, keeps{w.store}
	report := w.do(s)
	if n := len(names(report, verify.Passed)); n != 2 || report.Left != 2 || report.Passed() {
		t.Errorf("%d passed, left %d", n, report.Left)
	}
	left, err := verify.Leftovers(t.Context(), s.Target, nil)
	if err != nil || left[s.ID] != 2 || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	s.Rows = w.store
	none, err := verify.Clean(t.Context(), s.Target, nil, w.sleep, func(id string) bool { return id == "another" })
	if err != nil || none.Deleted != 0 {
		t.Errorf("of another run: %+v, %v", none, err)
	}
	done, err := verify.Clean(t.Context(), s.Target, nil, w.sleep, func(string) bool { return true })
	if err != nil || done.Deleted != 2 || done.Left != 0 || !slices.Equal(done.Runs, []string{s.ID}) {
		t.Errorf("cleaned: %+v, %v", done, err)
	}
	w.empty()
}

// refuses is a store that rows may not be deleted from.
type refuses struct{ *memory.Store }

func (refuses) DeleteRow(context.Context, string, string) error { return errors.New("not allowed") }

// TestNotCleaned: a run that may not take away what it wrote says that something is left.
func TestNotCleaned(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, dryRun)
	s := w.settings()
	s.Only, s.Rows = []string{"age-out"}, refuses{w.store}
	report, err := verify.Do(t.Context(), s)
	if err == nil || !strings.Contains(err.Error(), "not allowed") || report.Left == 0 || report.Passed() {
		t.Errorf("%v; left %d", err, report.Left)
	}
}

// TestForeign: usage that bears no run's mark stays, also under the invented licenses.
func TestForeign(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, dryRun)
	own := metering.NewRow(metering.Group{License: verify.Licenses()[0], Account: "444455556666", Dimension: seats}, metering.HourOf(afternoon).Second(5), 3)
	if err := w.store.PutRow(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	s := w.settings()
	s.Only = []string{"late-row"}
	if report := w.do(s); !report.Passed() || report.Books.Written.Units != 5 {
		t.Errorf("%v; books %+v", failures(report), report.Books)
	}
	if _, err := verify.Clean(t.Context(), s.Target, []string{realLicense}, w.sleep, func(string) bool { return true }); err != nil {
		t.Fatal(err)
	}
	if got, err := w.store.Row(t.Context(), own.License, own.SortKey); err != nil || got == nil {
		t.Errorf("a row that is of no run is gone: %v, %v", got, err)
	}
}
