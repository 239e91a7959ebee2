package verify_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/verify"
	"github.com/awsmp/metering/simulator"
)

var buyer = &verify.Buyer{License: realLicense, Account: realAccount, Dimension: seats}

// page is a registration page that answers as it should.
func page(t *testing.T, status int) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	t.Cleanup(server.Close)
	return server.URL
}

// TestDryRun runs every case against the real stages.
func TestDryRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, dryRun)
	s := w.settings()
	s.Page = page(t, http.StatusOK)
	report := w.do(s)
	if diff := cmp.Diff([]string{"undefined-dimension", "billed-unit"}, names(report, verify.Skipped)); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	if !report.Passed() {
		t.Errorf("failed: %v; left %d", names(report, verify.Failed), report.Left)
	}
	b := report.Books
	if want := (ledger.Amount{Items: 1, Units: 10}); b.Places[ledger.Late] != want || b.Places[ledger.InFlight].Units != 4 || b.Places[ledger.Billed].Units != 0 {
		t.Errorf("books: %+v", b)
	}
	if n := len(w.sim.Ledger()); n != 0 {
		t.Errorf("a dry run has billed %d hours", n)
	}
	w.empty()
	for _, want := range []string{"wrote 69 rows and 31 records", "for meter at 15:35, by 15:53 at the latest", "skipped billed-unit: a dry run"} {
		if !slices.ContainsFunc(w.told, func(line string) bool { return strings.Contains(line, want) }) {
			t.Errorf("nothing told %q:\n%s", want, strings.Join(w.told, "\n"))
		}
	}
}

// TestLive: invented licenses are refused, and a buyer's one unit is billed and stays.
func TestLive(t *testing.T) {
	t.Parallel()
	for name, who := range map[string]*verify.Buyer{"invented": nil, "invented, and every dimension is one": nil, "buyer": buyer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldWith(t, afternoon, func(o *simulator.Options) {
				if strings.HasSuffix(name, "dimension is one") {
					o.Dimensions = nil // then it is the licenses that are refused
				}
			}, nil)
			s := w.settings()
			s.Buyer, s.Page = who, page(t, http.StatusOK)
			report := w.do(s)
			if !report.Passed() {
				t.Errorf("failed: %v", failures(report))
			}
			if who == nil {
				if diff := cmp.Diff([]string{"undefined-dimension", "billed-unit"}, names(report, verify.Skipped)); diff != "" {
					t.Errorf("skipped (-want +got):\n%s", diff)
				}
				w.empty()
				return
			}
			if skipped := names(report, verify.Skipped); len(skipped) > 0 {
				t.Errorf("skipped: %v", skipped)
			}
			sold := w.sim.Ledger()
			if len(sold) != 1 || sold[0].Quantity != 1 || sold[0].LicenseARN != realLicense {
				t.Errorf("billed: %+v, want one unit of the buyer", sold)
			}
			if c := report.Cases[slices.IndexFunc(report.Cases, func(c verify.Case) bool { return c.Name == "billed-unit" })]; c.Kept == nil || c.Kept.License != realLicense || c.Kept.Dimension != seats {
				t.Errorf("kept: %+v", c.Kept)
			}
			books, err := ledger.Compute(t.Context(), w.store, ledger.Scope{})
			if err != nil || !books.Balanced() || books.Total.Written != (ledger.Amount{Items: 1, Units: 1}) || books.Total.Place(ledger.Billed).Units != 1 {
				t.Errorf("what stays: %+v, %v, want the one unit", books.Total, err)
			}
			if left, err := verify.Leftovers(t.Context(), s.Target, []string{realLicense}); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v; what is billed is no leftover", left, err)
			}
		})
	}
}

func failures(r verify.Report) (list []string) {
	for _, c := range r.Cases {
		if c.Result != verify.Passed && c.Result != verify.Skipped {
			list = append(list, c.Name+": expected "+c.Expected+", found "+c.Found)
		}
	}
	return list
}

// TestDirect: a stack without a usage table runs its subset.
func TestDirect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, nil)
	s := w.settings()
	s.Rows, s.Buyer = nil, buyer
	report := w.do(s)
	if !report.Passed() {
		t.Errorf("failed: %v", failures(report))
	}
	for _, c := range report.Cases {
		ofRows := strings.HasPrefix(c.Name, "rejected-") || slices.Contains([]string{
			"happy-path", "tagged-rows", "zero-waits", "zero-at-last", "wrong-bucket", "wrong-bucket-early", "age-out", "late-row", "grown-row", "month-boundary", "registration-page",
		}, c.Name)
		if want := map[bool]verify.Result{true: verify.Skipped, false: verify.Passed}[ofRows]; c.Result != want {
			t.Errorf("%s is %s, want %s", c.Name, c.Result, want)
		}
	}
}

// TestWhenever runs all cases at instants at which hours, days and months turn: none may fail for the time at which it begins.
func TestWhenever(t *testing.T) {
	t.Parallel()
	for _, begin := range []struct {
		at    string
		locks []int
	}{
		{"2026-03-10T15:00:00", []int{1, 6}}, {"2026-03-10T15:04:59", []int{1}}, {"2026-03-10T15:05:00", []int{1}}, {"2026-03-10T15:34:59", []int{1}},
		{"2026-03-10T15:49:30", []int{1}}, {"2026-03-10T15:50:00", []int{1}}, {"2026-03-10T15:59:59", []int{1, 20}}, {"2026-03-10T23:49:58", []int{1}},
		{"2026-03-31T23:20:00", []int{1}}, {"2026-03-31T23:58:00", []int{1, 20}}, {"2026-04-01T00:00:00", []int{1}}, {"2026-04-01T00:20:00", []int{1, 6}},
		{"2026-04-01T02:40:00", []int{1, 20}}, {"2026-04-01T03:01:00", []int{1}}, {"2026-04-01T05:10:00", []int{1, 6}}, {"2026-04-01T05:36:00", []int{1, 6}},
		{"2026-04-01T05:52:00", []int{1, 6}}, {"2026-04-01T05:59:50", []int{1}}, {"2026-04-01T06:00:00", []int{1}}, {"2026-04-01T06:12:00", []int{1, 6}},
		{"2026-04-01T23:52:00", []int{1}}, {"2026-04-02T00:10:00", []int{1}}, {"2026-04-03T10:00:00", []int{1}}, {"2026-04-05T00:00:01", []int{1}},
	} {
		for _, lock := range begin.locks {
			t.Run(fmt.Sprintf("%s lock %d", begin.at, lock), func(t *testing.T) {
				t.Parallel()
				now, err := time.Parse("2006-01-02T15:04:05", begin.at)
				if err != nil {
					t.Fatal(err)
				}
				w := newWorld(t, now, func(c *node.Config) { c.DryRun, c.Rules = true, metering.Rules{LockHours: lock} })
				report := w.do(w.settings())
				if !report.Passed() {
					t.Errorf("failed: %v", strings.Join(failures(report), "\n"))
				}
				t.Logf("took %v, skipped %v", report.Ended.Sub(report.Begun), names(report, verify.Skipped))
				w.empty()
			})
		}
	}
}

// TestInterrupted: whatever ends a run, it takes away what it wrote.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	for _, at := range []int{1, 2, 8, 17} {
		w := newWorld(t, afternoon, dryRun)
		ctx, cancel := context.WithCancel(t.Context())
		w.sleeps = func(n int) {
			if n == at {
				cancel()
			}
		}
		report, err := verify.Do(ctx, w.settings())
		if !errors.Is(err, context.Canceled) || report.Passed() || report.Deleted == 0 || report.Left != 0 {
			t.Errorf("interrupted at sleep %d: %v, passed %v, deleted %d, left %d", at, err, report.Passed(), report.Deleted, report.Left)
		}
		if !report.Books.Balanced {
			t.Errorf("the books of an interrupted run: %+v", report.Books)
		}
		w.empty()
		cancel()
	}
}
