package node_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aws/smithy-go"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// TestF13VerdictsAreWrittenAsTheyCome: a run that ended early lost every verdict it had, and billed usage was called expired. Throttled
// from the fourth call on, 75 of 175 records are Success when the run fails; the next run bills the rest.
func TestF13VerdictsAreWrittenAsTheyCome(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	records := many("2026-03-10T14", 175, 2)
	w.putRecords(records...)
	// One call at a time, so that "from the fourth on" is exact.
	calls, throttled := 0, true
	w.serial(func(metering.Call) error {
		if calls++; throttled && calls > 3 {
			return &smithy.GenericAPIError{Code: "ThrottlingException", Message: "slow down"}
		}
		return nil
	})
	w.submitFails()
	if billed, waiting := w.count(records, metering.Success); billed != 75 || waiting != 100 {
		t.Errorf("%d billed and %d waiting, want 75 and 100", billed, waiting)
	}
	w.books()
	throttled = false
	w.submit()
	if billed, _ := w.count(records, metering.Success); billed != 175 {
		t.Errorf("%d billed, want 175", billed)
	}
	w.wantPlace(ledger.Billed, 350)
}

// serial sends through one call at a time, with something before each.
func (w *world) serial(before func(c metering.Call) error) {
	client := marketplace.New(marketplace.Options{
		Region: "us-east-1", Endpoint: "http://simulator.invalid", HTTPClient: w.sim.Client(), ProductCode: simulator.DefaultProductCode,
	})
	w.Submit.Marketplace = marketplace.NewSender(interposedAPI{client, before, nil},
		marketplace.Settings{Now: w.clock.Now, Sleep: w.clock.Sleep, InFlight: 1})
}

// TestF14Case13ServiceFaultsRejectNothing, and cases 9 and 13: faults of the service, of access and of the network were taken for poison, and
// a whole run rejected. Each leaves every record pending with its quantity, fails the run after few calls, and the run after it bills.
func TestF14Case13ServiceFaultsRejectNothing(t *testing.T) {
	t.Parallel()
	exception := func(code string) error { return &smithy.GenericAPIError{Code: code, Message: "no"} }
	faults := map[string]error{"network": fmt.Errorf("dial: %w", errStruck)}
	for _, code := range []string{
		"InternalServiceErrorException", "AccessDeniedException", "ExpiredTokenException", "UnrecognizedClientException", "DisabledApiException",
		"ServiceUnavailableException", "InternalFailure", "InvalidProductCodeException", "SomethingNewException",
	} {
		faults[code] = exception(code)
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon)
			records := many("2026-03-10T14", 60, 10)
			w.putRecords(records...)
			calls, failing := 0, true
			w.serial(func(c metering.Call) error {
				for _, u := range c.Records {
					if u.Quantity != 10 {
						t.Errorf("quantity %d sent, want 10 at every attempt", u.Quantity)
					}
				}
				if calls++; failing {
					return fault
				}
				return nil
			})
			for range 3 {
				w.submitFails()
			}
			if _, waiting := w.count(records, ""); waiting != 60 || calls > 3*3 {
				t.Errorf("%d waiting after %d calls", waiting, calls)
			}
			w.wantMetric(metering.MetricException, 0, 0)
			w.wantPlace(ledger.InFlight, 600)
			failing = false
			w.submit()
			w.wantPlace(ledger.Billed, 600)
		})
	}
}

// TestCase09TwentySixDimensions: no split above 25, and the marker was cleared before the call was confirmed. 26 records go as 25 and
// 1; the first call fails with 500: its records still wait, and all are billed by the next run.
func TestCase09TwentySixDimensions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	var rows []metering.Row
	for i := range 26 {
		rows = append(rows, row(licenseOne, buyerOne, fmt.Sprintf("dim_%02d", i), "2026-03-10T14:00:00", 1))
	}
	w.put(rows...)
	w.meter()
	failing := true
	w.serial(func(metering.Call) error {
		if failing {
			return &smithy.GenericAPIError{Code: "InternalServiceErrorException"}
		}
		return nil
	})
	w.submitFails()
	failing = false
	waiting := 0
	for _, r := range rows {
		if got := w.record(r); got.Pending != "" && got.Status == "" {
			waiting++
		}
	}
	if waiting != 26 {
		t.Errorf("%d records wait, want those of the failed call and the one that was never called", waiting)
	}
	w.books()
	w.submit()
	w.wantPlace(ledger.Billed, 26)
	for _, c := range w.sim.Calls() {
		if c.Records > 25 {
			t.Errorf("a call of %d records", c.Records)
		}
	}
}

// TestF15RetryOfTheUnprocessedFails: the one retry of unprocessed records stood outside any guard, and its error lost the verdicts of all
// others. Record 2 of 3 is left unprocessed and its retry answered with 500: the others are billed, it waits, and is billed next.
func TestF15RetryOfTheUnprocessedFails(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	records := many("2026-03-10T14", 3, 1)
	w.putRecords(records...)
	w.sim.Inject(simulator.Fault{Kind: simulator.Unprocessed, Times: 1, Match: func(r simulator.Record) bool { return r.Dimension == records[1].Dimension }})
	calls := 0
	w.serial(func(metering.Call) error {
		if calls++; calls == 2 {
			return &smithy.GenericAPIError{Code: "InternalServiceErrorException"}
		}
		return nil
	})
	w.submitFails()
	w.wantRecord(records[0], metering.Success, "")
	w.wantRecord(records[1], "", "")
	w.wantRecord(records[2], metering.Success, "")
	w.books()
	w.submit()
	w.wantPlace(ledger.Billed, 3)
}

// TestF39Case07UnprocessedLeftoversAreNoError, and case 7: leftovers failed the run, so that it was repeated at once, or were dropped. Record 2 of
// 3 is left unprocessed on call and retry: the run reports it, a metric counts it with its units, and the next run sends it with the
// same Timestamp.
func TestF39Case07UnprocessedLeftoversAreNoError(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	records := many("2026-03-10T14", 3, 4)
	w.putRecords(records...)
	var mu sync.Mutex
	var stamps []metering.Second
	w.interpose(func(c metering.Call) error {
		mu.Lock()
		defer mu.Unlock()
		for _, u := range c.Records {
			if u.Dimension == records[1].Dimension {
				stamps = append(stamps, u.Second)
			}
		}
		return nil
	}, nil)
	w.sim.Inject(simulator.Fault{Kind: simulator.Unprocessed, Times: 2, Match: func(r simulator.Record) bool { return r.Dimension == records[1].Dimension }})
	if s := w.submit(); s.Unprocessed != 1 || s.UnprocessedUnits != 4 {
		t.Errorf("reported %+v", s)
	}
	w.wantMetric(metering.MetricUnprocessed, 1, 4)
	w.wantRecord(records[0], metering.Success, "")
	w.wantRecord(records[1], "", "")
	w.clock.MoveTo(at("2026-03-10T17:00:00"))
	w.submit()
	w.wantRecord(records[1], metering.Success, "")
	if want := metering.Second(at("2026-03-10T14:00:00").Unix()); len(stamps) != 3 || stamps[0] != want || stamps[1] != want || stamps[2] != want {
		t.Errorf("sent with %v, want 14:00:00 three times", stamps)
	}
	w.wantPlace(ledger.Billed, 12)
}

// TestF16EveryRunMakesProgress: a backlog larger than one run's time was begun anew by each run and never written back. 600 records
// with time for about ten calls a run are billed within three runs, oldest hour first, none left marked as sent without a call.
func TestF16EveryRunMakesProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, withPace(func(s *marketplace.Settings) { s.Limit = time.Second }))
	older, newer := many("2026-03-10T13", 300, 1), many("2026-03-10T14", 300, 1)
	w.putRecords(newer...)
	w.putRecords(older...)
	before := 0
	for run := 1; run <= 4; run++ {
		w.submit()
		first, _ := w.count(older, metering.Success)
		second, _ := w.count(newer, metering.Success)
		if done := first + second; done == 600 {
			break
		} else if done <= before || run == 4 {
			t.Fatalf("run %d: %d of 600 billed, %d before", run, done, before)
		} else if second > 0 && first < 300-4*25 { // four calls are prepared ahead and may overtake each other
			t.Errorf("run %d: %d of the newer hour before all of the older one (%d)", run, second, first)
		} else {
			before = done
		}
	}
	w.wantPlace(ledger.Billed, 600)
}

// TestF17ThePaceHoldsTheQuota: calls went out as fast as they came and were throttled. 1,000 records make 40 calls, never more than ten in
// any second, though each takes 300 ms.
func TestF17ThePaceHoldsTheQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.sim.Inject(simulator.Fault{Kind: simulator.Latency, Latency: 300 * time.Millisecond})
	w.putRecords(many("2026-03-10T14", 1000, 1)...)
	w.submit()
	stats := w.sim.Stats()
	if stats.BusiestSecond > simulator.DefaultCallsPerSecond || stats.Throttled > 0 || stats.Calls != 40 {
		t.Errorf("%d calls, %d in the busiest second, %d throttled", stats.Calls, stats.BusiestSecond, stats.Throttled)
	}
	w.wantPlace(ledger.Billed, 1000)
}

// TestCase14EachHourKeepsItsTime: usage too old was sent under the time of its sending. Rows of two hours, sent at 17:05, are two records
// at 13:00 and 14:00.
func TestCase14EachHourKeepsItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-03-10T17:00:00"))
	first, second := usage("2026-03-10T13:30:00", 1), usage("2026-03-10T14:30:00", 2)
	w.put(first, second)
	w.until(at("2026-03-10T17:09:00"))
	for i, b := range w.sim.Ledger() {
		want := at("2026-03-10T13:00:00").Add(time.Duration(i) * time.Hour)
		if !b.Timestamp.Equal(want) || b.Quantity != int64(i+1) {
			t.Errorf("billed %d at %v, want %d at %v", b.Quantity, b.Timestamp, i+1, want)
		}
	}
	w.wantPlace(ledger.Billed, 3)
}

// TestCase33CallsArePackedBySize: 25 records of about 60 KB each exceeded the size of a call. They go in several calls, each below
// 1,000,000 bytes, and a record too large for any call is refused alone.
func TestCase33CallsArePackedBySize(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	records := many("2026-03-10T14", 25, 220)
	for i := range records {
		for j := range 220 {
			a := metering.Allocation{Quantity: 1}
			for k := range 5 {
				a.Tags = append(a.Tags, metering.Tag{Key: fmt.Sprintf("key_%02d", k), Value: fmt.Sprintf("value-%05d-%05d", i, j)})
			}
			records[i].Allocations = append(records[i].Allocations, a)
		}
		if size := records[i].WireSize(); size < 45_000 {
			t.Fatalf("record of %d bytes", size)
		}
	}
	w.putRecords(records...)
	w.submit()
	if calls := w.sim.Stats().Calls; calls < 2 {
		t.Errorf("%d calls", calls)
	}
	for _, c := range w.sim.Calls() {
		if c.Bytes >= 1_000_000 || c.Records > 25 || c.Exception != "" {
			t.Errorf("call %+v", c)
		}
	}
	w.wantPlace(ledger.Billed, 25*220)
}

// TestCase49TwoRunsAtTheSameTime: a schedule fired twice. Two submitters over the same records: each is billed once, and both write the
// same verdicts.
func TestCase49TwoRunsAtTheSameTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, withSimulator(func(o *simulator.Options) { o.CallsPerSecond = 0 }))
	records := many("2026-03-10T14", 200, 3)
	w.putRecords(records...)
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			if _, err := w.Submit.Run(w.ctx); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if billed, _ := w.count(records, metering.Success); billed != 200 {
		t.Errorf("%d are Success, want 200", billed)
	}
	w.wantMetric(metering.MetricDuplicate, 0, 0)
	w.wantPlace(ledger.Billed, 600)
}

// TestReplyLostAfterAcceptance: the call was billed and its answer lost, then its write-back lost too. The record is sent again exactly
// so, the answer is Success again, and it is billed once.
func TestReplyLostAfterAcceptance(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, brittle(nil, func(o op, n int, _ string) outcome {
		if o == opFinish && n == 1 {
			return refuse
		}
		return pass
	}))
	r := sale("2026-03-10T14", 6)
	w.putRecords(r)
	w.sim.Inject(simulator.Fault{Kind: simulator.LoseReply, Times: 1})
	w.submitFails()
	w.wantRecord(r, "", "")
	w.books()
	w.submitFails() // the verdict is not written
	w.wantRecord(r, "", "")
	w.submit()
	w.wantRecord(r, metering.Success, "")
	w.wantPlace(ledger.Billed, 6)
}

// TestF38DryRunIsNamedAndGoesLive: records that a dry run ended were neither billed nor seen again. They stand as DryRunSubmitted, in the
// books as such, nothing is called; hours after the switch are billed.
func TestF38DryRunIsNamedAndGoesLive(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.Submit.DryRun = true
	dry := usage("2026-03-10T14:00:00", 5)
	w.put(dry)
	w.until(at("2026-03-10T15:40:00"))
	if got := w.record(dry); got.Status != metering.DryRunSubmitted || got.Pending != "" || got.SentQuantity.Whole {
		t.Errorf("record %+v", got)
	}
	if calls := w.sim.Stats().Calls; calls != 0 {
		t.Errorf("%d calls in a dry run", calls)
	}
	w.wantMetric(metering.MetricDryRun, 1, 5)
	w.wantPlace(ledger.DryRun, 5)

	w.Submit.DryRun = false
	live := usage("2026-03-10T15:50:00", 3)
	w.put(live)
	w.until(at("2026-03-10T16:10:00"))
	w.wantBilled(live, 3)
	w.wantBilled(dry, 0)
	w.wantPlace(ledger.DryRun, 5)
}

// TestPausedSendsNothing: submission is paused and taken up again inside the window. Each paused run is counted, so that nobody forgets it.
func TestPausedSendsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	w.Submit.Paused = true
	r := usage("2026-03-10T14:00:00", 5)
	w.put(r)
	w.until(at("2026-03-10T20:00:00"))
	if s := w.submit(); !s.Paused || w.sim.Stats().Calls != 0 {
		t.Errorf("%+v after %d calls", s, w.sim.Stats().Calls)
	}
	w.wantPlace(ledger.InFlight, 5)
	const runs = 56 + 1 // every five minutes from 15:23 to 19:58, and the one above
	w.wantMetric(metering.MetricSubmissionPaused, runs, 0)
	w.Submit.Paused = false
	w.until(at("2026-03-10T20:04:00"))
	w.wantPlace(ledger.Billed, 5)
	w.wantMetric(metering.MetricSubmissionPaused, runs, 0)
}
