package marketplace_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
)

func send(t *testing.T, service *api, books *desk, lanes ...lane) (metering.SendReport, error) {
	t.Helper()
	return marketplace.NewSender(service, marketplace.Settings{}).Send(t.Context(), lanes, books)
}

// Case 9: 26 records make calls of 25 and 1; a call that the service failed leaves its records pending.
func TestCallsOfTwentyFive(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		t.Run(fmt.Sprintf("first call fails %v", fails), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin(t)
				pending := records(26)
				books := deskOf(pending...)
				service := &api{answer: func(n int, _ metering.Call) (metering.Answer, error) {
					if fails && n == 0 {
						return metering.Answer{}, exception("InternalServiceErrorException")
					}
					return metering.Answer{}, nil
				}}
				report, err := send(t, service, books, laneOf(pending...))
				if fails {
					if err == nil || len(books.pending()) != 26 || len(service.sizes()) != 1 {
						t.Fatalf("error %v, %d pending, calls %v; want an error and nothing else", err, len(books.pending()), service.sizes())
					}
					return
				}
				sizes := service.sizes()
				slices.Sort(sizes)
				if err != nil || report.Settled != 26 || !slices.Equal(sizes, []int{1, 25}) {
					t.Fatalf("report %+v, error %v, calls %v", report, err, sizes)
				}
			})
		})
	}
}

func TestLanesAndSchemesShareNoCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		closing := []metering.Record{record("x", 1), legacy("cust-1", "x", 2), record("y", 3)}
		rest := []metering.Record{record("z", 4), legacy("cust-1", "z", 5)}
		service := &api{}
		if _, err := send(t, service, deskOf(slices.Concat(closing, rest)...), laneOf(closing...), laneOf(rest...)); err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, c := range service.calls {
			line := fmt.Sprint("legacy ", c.Legacy, ":")
			for _, u := range c.Records {
				line += " " + u.Dimension
			}
			got[line] = true
		}
		want := map[string]bool{"legacy false: x y": true, "legacy true: x": true, "legacy false: z": true, "legacy true: z": true}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

// F13: what a call has billed is written while later calls are still under way.
func TestVerdictsAreSettledAsEachCallAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := begin(t)
		pending := records(75)
		books := deskOf(pending...)
		service := &api{answer: func(n int, _ metering.Call) (metering.Answer, error) {
			if n == 1 {
				time.Sleep(20 * time.Second)
				return metering.Answer{}, exception("InternalServiceErrorException")
			}
			return metering.Answer{}, nil
		}}
		report, err := send(t, service, books, laneOf(pending...))
		if err == nil || report.Settled != 50 || len(books.pending()) != 25 {
			t.Fatalf("report %+v, error %v", report, err)
		}
		for _, at := range books.settled {
			if at.Sub(start) > time.Second {
				t.Errorf("settled after %v, although the call had answered at once", at.Sub(start))
			}
		}
	})
}

// F14: a fault of the service, the credentials or the settings is no record's. (The seed's answer was 49 calls and 25
// rejections.)
func TestOtherExceptionsRejectNothingAndEndTheRun(t *testing.T) {
	t.Parallel()
	failures := []error{
		exception("InternalServiceErrorException"), exception("AccessDeniedException"), exception("ExpiredTokenException"),
		exception("UnrecognizedClientException"), exception("DisabledApiException"), exception("InvalidProductCodeException"),
		exception("ServiceUnavailableException"), exception("InternalFailure"), exception("CustomerNotEntitledException"),
		exception("SomethingNewException"), errors.New("connection reset by peer"), context.DeadlineExceeded,
	}
	for _, failure := range failures {
		t.Run(failure.Error(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin(t)
				pending := records(1000)
				books := deskOf(pending...)
				service := &api{latency: 200 * time.Millisecond, answer: func(n int, _ metering.Call) (metering.Answer, error) {
					if n >= 3 {
						return metering.Answer{}, failure
					}
					return metering.Answer{}, nil
				}}
				report, err := send(t, service, books, laneOf(pending...))
				if !errors.Is(err, failure) {
					t.Errorf("error %v, want %v", err, failure)
				}
				if report.Calls > 6 {
					t.Errorf("%d calls, want the run to end at the fourth and those under way", report.Calls)
				}
				want := map[metering.Status]int{metering.Success: 75, "": 925}
				if diff := cmp.Diff(want, books.statuses()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func leaveUnprocessed(c metering.Call, dimension string) metering.Answer {
	answer := billed(c)
	for i, res := range answer.Results {
		if res.Usage.Dimension == dimension {
			return metering.Answer{Results: slices.Delete(answer.Results, i, i+1), Unprocessed: []metering.UsageRecord{res.Usage}}
		}
	}
	return answer
}

// Case 7, F15: what the service leaves unprocessed is sent once more after a pause; an error there costs nobody a verdict.
func TestUnprocessedRecordsAreSentOnceMore(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		second func(metering.Call) (metering.Answer, error)
		fails  bool
		want   metering.SendReport
	}{
		{
			"then billed", func(metering.Call) (metering.Answer, error) { return metering.Answer{}, nil }, false,
			metering.SendReport{Calls: 2, Settled: 3},
		},
		{
			"then unprocessed again", func(c metering.Call) (metering.Answer, error) { return leaveUnprocessed(c, "d1"), nil }, false,
			metering.SendReport{Calls: 2, Settled: 2, Unprocessed: 1, UnprocessedUnits: 2},
		},
		{
			"then an error", func(metering.Call) (metering.Answer, error) {
				return metering.Answer{}, exception("InternalServiceErrorException")
			}, true,
			metering.SendReport{Calls: 2, Settled: 2},
		},
		{
			"then refused", func(metering.Call) (metering.Answer, error) {
				return metering.Answer{}, exception("InvalidTagException")
			}, false,
			metering.SendReport{Calls: 2, Settled: 3},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin(t)
				pending := records(3)
				books := deskOf(pending...)
				service := &api{answer: func(n int, c metering.Call) (metering.Answer, error) {
					if n == 0 {
						return leaveUnprocessed(c, "d1"), nil
					}
					return test.second(c)
				}}
				report, err := send(t, service, books, laneOf(pending...))
				if (err != nil) != test.fails {
					t.Errorf("error %v", err)
				}
				if diff := cmp.Diff(test.want, report); diff != "" {
					t.Error(diff)
				}
				if gap := service.started[1].Sub(service.started[0]); gap < 2*time.Second {
					t.Errorf("sent again after %v: into the same trouble", gap)
				}
				if diff := cmp.Diff(service.calls[0].Records[1:2], service.calls[1].Records); diff != "" {
					t.Errorf("second call is not the same record: %s", diff)
				}
				if books.prepared["d1"] != 1 {
					t.Errorf("prepared %d times", books.prepared["d1"])
				}
			})
		})
	}
}

// F33: a result that speaks of none of our records proves nothing about any.
func TestUnmatchedResultsLeaveTheirRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		pending := records(3)
		books := deskOf(pending...)
		service := &api{answer: func(_ int, c metering.Call) (metering.Answer, error) {
			answer := billed(c)
			answer.Results[0].Usage.Account = ""
			return answer, nil
		}}
		report, err := send(t, service, books, laneOf(pending...))
		want := metering.SendReport{Calls: 1, Settled: 2, Unmatched: 1}
		if diff := cmp.Diff(want, report); diff != "" || err != nil || len(books.pending()) != 1 {
			t.Errorf("error %v, %d pending, %s", err, len(books.pending()), diff)
		}
	})
}

func TestTheDeskDecidesWhatIsSent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		pending := records(5)
		books := deskOf(pending...)
		books.drop = func(r metering.Record) bool { return r.Dimension == "d1" }
		books.late = func(r metering.Record) bool { return r.Dimension == "d3" }
		service := &api{}
		report, err := send(t, service, books, laneOf(pending...))
		if err != nil || report.Settled != 3 || !slices.Equal(service.sizes(), []int{3}) {
			t.Fatalf("report %+v, error %v, calls %v", report, err, service.sizes())
		}
		books.late = func(metering.Record) bool { return true }
		if report, err = send(t, service, books, laneOf(books.pending()...)); err != nil || report.Calls != 0 {
			t.Errorf("report %+v, error %v: nothing was left to send", report, err)
		}
	})
}

// What of a lane cannot be read keeps neither the rest of the lane nor the other lanes from being sent.
func TestAFailingLaneDoesNotStopTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		pending, broken := records(6), errors.New("index unreadable")
		books := deskOf(pending...)
		bad := func(yield func(metering.Record, error) bool) {
			_ = yield(pending[0], nil) && yield(metering.Record{}, broken) && yield(pending[1], nil)
		}
		report, err := send(t, &api{}, books, bad, laneOf(pending[2:]...))
		if !errors.Is(err, broken) || report.Settled != 6 {
			t.Errorf("report %+v, error %v", report, err)
		}
	})
}

func TestFailedWritesDoNotStopTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		pending, broken := records(1000), errors.New("table unreachable")
		books := deskOf(pending...)
		books.settle = func(_ context.Context, v []metering.Verdict) error {
			if v[0].Sent.Quantity > 500 {
				return broken
			}
			return nil
		}
		report, err := send(t, &api{}, books, laneOf(pending...))
		if !errors.Is(err, broken) || report.Settled != 1000 || len(books.pending()) != 500 {
			t.Errorf("report %+v, %d pending, error %v", report, len(books.pending()), err)
		}
		if n := len(err.Error()); n > 1000 {
			t.Errorf("an error of %d bytes: twenty like each other are not to be told one by one", n)
		}
	})
}

// Where marking fails, what was marked is sent, and the rest is left; the other batches go on.
func TestAFailedMarkLeavesItsRecords(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		pending := records(60)
		books := &halfMarking{desk: deskOf(pending...), err: errors.New("table throttled")}
		sender := marketplace.NewSender(&api{}, marketplace.Settings{})
		report, err := sender.Send(t.Context(), []lane{laneOf(pending...)}, books)
		want := metering.SendReport{Calls: 3, Settled: 59, Left: 1}
		if diff := cmp.Diff(want, report); diff != "" || !errors.Is(err, books.err) {
			t.Errorf("error %v, %s", err, diff)
		}
	})
}

type halfMarking struct {
	*desk
	err error
}

func (h *halfMarking) Prepare(ctx context.Context, records []metering.Record) ([]metering.Marked, error) {
	i := slices.IndexFunc(records, func(r metering.Record) bool { return r.Dimension == "d7" })
	if i < 0 {
		return h.desk.Prepare(ctx, records)
	}
	marked, err := h.desk.Prepare(ctx, slices.Delete(slices.Clone(records), i, i+1))
	return marked, errors.Join(err, h.err)
}
