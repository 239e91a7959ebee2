package marketplace_test

import (
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

// rejected are the dimensions that a run rejected, with the reason.
func (d *desk) rejected() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[string]string{}
	for _, v := range d.verdicts {
		if v.Status == metering.RejectedClientSide {
			out[v.Record.Dimension] = v.Reason
		}
	}
	return out
}

// Case 10, F24: one bad record of 25 costs at most 1 + 2·⌈log2 25⌉ calls, and nobody else its place.
func TestOnePoisonousRecordIsIsolated(t *testing.T) {
	t.Parallel()
	exceptions := []string{
		"InvalidUsageDimensionException", "TimestampOutOfBoundsException", "InvalidTagException", "InvalidUsageAllocationsException",
		"InvalidLicenseException", "InvalidCustomerIdentifierException", "ValidationException", "SerializationException",
	}
	for position := range metering.MaxCallRecords {
		code := exceptions[position%len(exceptions)]
		t.Run(fmt.Sprint(code, " at ", position), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin(t)
				pending := records(25)
				for i := range pending { // licenses of their own, or all would share the suspicion
					pending[i] = recordOf(metering.Group{License: fmt.Sprintf("%s%02d", licenseA, i), Account: buyer, Dimension: pending[i].Dimension}, 1)
				}
				bad := pending[position].Dimension
				books := deskOf(pending...)
				service := &api{answer: poisoned(code, bad)}
				report, err := send(t, service, books, laneOf(pending...))
				if err != nil || report.Settled != 25 || report.Calls > 11 {
					t.Errorf("report %+v, error %v", report, err)
				}
				if diff := cmp.Diff(map[string]string{bad: code}, books.rejected()); diff != "" {
					t.Error(diff)
				}
				if n := books.statuses()[metering.Success]; n != 24 {
					t.Errorf("%d billed, want 24", n)
				}
			})
		})
	}
}

// Case 11: a lone poisonous record is terminal after one run, and later runs make no call.
func TestPoisonIsTerminal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		bad := record("Api_Calls", 1)
		books := deskOf(bad)
		service := &api{answer: poisoned("InvalidUsageDimensionException", bad.Dimension)}
		for range 3 {
			if _, err := send(t, service, books, laneOf(books.pending()...)); err != nil {
				t.Fatal(err)
			}
		}
		if got := books.of(bad); got.Status != metering.RejectedClientSide || got.StatusReason != "InvalidUsageDimensionException" || len(service.calls) != 1 {
			t.Errorf("status %s (%s) after %d calls", got.Status, got.StatusReason, len(service.calls))
		}
	})
}

// many are n records of one dimension, each of a license of its own.
func many(dimension string, n int) []metering.Record {
	out := make([]metering.Record, n)
	for i := range out {
		out[i] = recordOf(metering.Group{License: fmt.Sprintf("%s%04d", licenseA, i), Account: buyer, Dimension: dimension}, 1)
	}
	return out
}

// What shares a refused dimension goes last, in calls of its own, and costs a call a record, not two.
func TestSuspectsGoLast(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := begin(t)
		bad, good := many("undefined", 51), records(500)
		pending := append([]metering.Record{bad[0]}, good...)
		pending = slices.Insert(pending, 400, bad[1:]...)
		books := deskOf(pending...)
		service := &api{latency: 50 * time.Millisecond, answer: poisoned("InvalidUsageDimensionException", "undefined")}
		report, err := send(t, service, books, laneOf(pending...))
		if err != nil || report.Settled != 551 || report.Left != 0 {
			t.Fatalf("report %+v, error %v", report, err)
		}
		// 21 calls for the good, at most 10 more for the first bad one, then two calls of 25 refused whole and 50 alone.
		if report.Calls > 21+10+2+50 {
			t.Errorf("%d calls", report.Calls)
		}
		mixed := 0
		for _, c := range service.calls {
			if i := slices.IndexFunc(c.Records, func(u metering.UsageRecord) bool {
				return u.Dimension != c.Records[0].Dimension && u.Dimension == "undefined" || c.Records[0].Dimension == "undefined" && u.Dimension != "undefined"
			}); i >= 0 {
				mixed++
			}
		}
		if mixed > 5 {
			t.Errorf("%d calls held both, want those of the first isolation", mixed)
		}
		for i, v := range books.verdicts {
			if v.Status == metering.Success && books.settled[i].Sub(start) > 5*time.Second {
				t.Errorf("%s was billed after %v: it waited for the bad ones", v.Record.Dimension, books.settled[i].Sub(start))
			}
		}
		for dimension, n := range books.prepared {
			if want := map[bool]int{true: 51, false: 1}[dimension == "undefined"]; n != want {
				t.Errorf("%s was prepared %d times, want %d", dimension, n, want)
			}
		}
	})
}

// A call full of one undefined dimension: once the first is isolated, the others leave the bisection.
func TestACallFullOfSuspects(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		pending := many("undefined", 25)
		books := deskOf(pending...)
		service := &api{answer: poisoned("InvalidUsageDimensionException", "undefined")}
		report, err := send(t, service, books, laneOf(pending...))
		if err != nil || report.Settled != 25 || len(books.rejected()) != 1 {
			t.Fatalf("report %+v, error %v", report, err)
		}
		if report.Calls > 6+1+24 { // the seed needed 49
			t.Errorf("%d calls", report.Calls)
		}
		if books.prepared["undefined"] != 25 {
			t.Errorf("prepared %d times, want once each", books.prepared["undefined"])
		}
	})
}

func TestSuspectedLicensesAndIdentifiers(t *testing.T) {
	t.Parallel()
	tests := []struct {
		code string
		of   func(dimension string) metering.Record
	}{
		{"InvalidLicenseException", func(d string) metering.Record { return record(d, 1) }},
		{"InvalidCustomerIdentifierException", func(d string) metering.Record { return legacy("cust-9", d, 1) }},
	}
	for _, test := range tests {
		t.Run(test.code, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin(t)
				var pending []metering.Record
				for i := range 60 {
					pending = append(pending, test.of(fmt.Sprint("d", i)))
				}
				books := deskOf(pending...)
				var refused []string
				for _, r := range pending {
					refused = append(refused, r.Dimension)
				}
				service := &api{answer: poisoned(test.code, refused...)}
				report, err := send(t, service, books, laneOf(pending...))
				if err != nil || len(books.rejected()) != 60 {
					t.Fatalf("report %+v, error %v, rejected %d", report, err, len(books.rejected()))
				}
				if report.Calls > 90 {
					t.Errorf("%d calls for 60 records", report.Calls)
				}
			})
		})
	}
}

// A suspected dimension that has been defined meanwhile is billed in whole calls.
func TestSuspectsThatTurnOutWell(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		pending := append(many("undefined", 1), records(24)...)
		later := many("undefined", 51)[1:]
		books := deskOf(append(slices.Clone(pending), later...)...)
		singles := 0
		service := &api{answer: func(_ int, c metering.Call) (metering.Answer, error) {
			if singles > 0 {
				return metering.Answer{}, nil
			}
			answer, err := poisoned("InvalidUsageDimensionException", "undefined")(0, c)
			if err != nil && len(c.Records) == 1 {
				singles++
			}
			return answer, err
		}}
		slow := func(yield func(metering.Record, error) bool) {
			time.Sleep(10 * time.Second)
			laneOf(later...)(yield)
		}
		report, err := send(t, service, books, laneOf(pending...), slow)
		if err != nil || report.Settled != 75 || len(books.rejected()) != 1 || report.Calls > 13 {
			t.Errorf("report %+v, error %v, rejected %v", report, err, books.rejected())
		}
	})
}

// The records kept for the end of the run are bounded; those beyond stay pending.
func TestSuspectsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		large := func(i int) metering.Record {
			r := record("undefined", 0)
			r.Account = fmt.Sprintf("%012d", i)
			r.SortKey = metering.Group{Account: r.Account, Dimension: r.Dimension, Hour: metering.HourOf(time.Now()) - 1}.RecordKey()
			r.Allocations = allocations(400_000)
			return r
		}
		first := large(0)
		endless := func(yield func(metering.Record, error) bool) {
			time.Sleep(10 * time.Second)
			for i := range 60 {
				if !yield(large(i+1), nil) {
					return
				}
			}
		}
		books := deskOf(first)
		service := &api{answer: poisoned("InvalidUsageDimensionException", "undefined")}
		report, err := send(t, service, books, laneOf(first), endless)
		kept := (16 << 20) / first.WireSize()
		if err != nil || report.Settled != 1+kept || report.Left != 60-kept {
			t.Errorf("report %+v, error %v, want %d kept", report, err, kept)
		}
	})
}

// allocations are about size bytes of them.
func allocations(size int) []metering.Allocation {
	var out []metering.Allocation
	for i := 0; size > 0; i++ {
		a := metering.Allocation{Tags: []metering.Tag{{Key: "team", Value: fmt.Sprintf("%0200d", i)}}}
		out, size = append(out, a), size-280
	}
	return out
}

// F35: a buyer's first hour began before the license did. It is sent once more, with the second of its first row.
func TestTheFirstHourIsSentOnceMoreWithALaterSecond(t *testing.T) {
	t.Parallel()
	hour := metering.Second(time.Date(2026, 3, 10, 14, 0, 0, 0, time.UTC).Unix())
	tests := []struct {
		name    string
		code    string
		first   map[string]metering.Second
		accepts metering.Second // from this second on
		calls   int
		want    metering.Status
	}{
		{"license", "InvalidLicenseException", map[string]metering.Second{"d0": hour + 37*60}, hour + 37*60, 2, metering.Success},
		{"time", "TimestampOutOfBoundsException", map[string]metering.Second{"d0": hour + 37*60}, hour + 30*60, 2, metering.Success},
		{"still refused", "InvalidLicenseException", map[string]metering.Second{"d0": hour + 60}, hour + 37*60, 2, metering.RejectedClientSide},
		{"no later second", "InvalidLicenseException", map[string]metering.Second{"d0": hour}, hour + 37*60, 1, metering.RejectedClientSide},
		{"no second known", "InvalidLicenseException", nil, hour + 37*60, 1, metering.RejectedClientSide},
		{"another fault", "InvalidTagException", map[string]metering.Second{"d0": hour + 37*60}, hour + 37*60, 1, metering.RejectedClientSide},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin(t)
				one := record("d0", 10)
				books := deskOf(one)
				books.first = test.first
				service := &api{answer: func(_ int, c metering.Call) (metering.Answer, error) {
					if c.Records[0].Second < test.accepts {
						return metering.Answer{}, exception(test.code)
					}
					return metering.Answer{}, nil
				}}
				report, err := send(t, service, books, laneOf(one))
				if err != nil || report.Calls != test.calls || report.Settled != 1 {
					t.Errorf("report %+v, error %v", report, err)
				}
				if got := books.of(one); got.Status != test.want || test.want == metering.RejectedClientSide && got.StatusReason != test.code {
					t.Errorf("%s (%s), want %s", got.Status, got.StatusReason, test.want)
				}
				if len(books.laterFor) > 1 {
					t.Errorf("asked for a later second %d times", len(books.laterFor))
				}
			})
		})
	}
}

// A record that an earlier run sent may be billed, whatever is said of it now: it is not rejected, and it stays.
func TestARecordSentBeforeIsNotRejected(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"InvalidUsageDimensionException", "InvalidLicenseException"} {
		for _, found := range []string{"in the index", "when it is marked"} {
			t.Run(code+" "+found, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					begin(t)
					pending := records(30)
					books := deskOf(pending...)
					sent := pending[3]
					if found == "in the index" {
						sent = books.mark(sent, sent.Usage().Second)
						pending[3] = sent
					} else {
						books.doubt = func(r metering.Record) bool { return r.Dimension == "d3" }
					}
					service := &api{answer: poisoned(code, "d3")}
					report, err := send(t, service, books, laneOf(pending...))
					if err != nil || report.InDoubt != 1 || report.Settled != 29 || books.of(sent).Pending == "" {
						t.Errorf("report %+v, error %v, pending %q", report, err, books.of(sent).Pending)
					}
				})
			})
		}
	}
}

// A buyer who has left by the time of the resend may have been billed by the first call: the refusal does not end the record.
// DuplicateRecord does, since the same quantity again would have been a Success.
func TestARefusedResendStaysInDoubt(t *testing.T) {
	t.Parallel()
	for status, want := range map[metering.Status]metering.Status{
		metering.CustomerNotSubscribed: "", metering.DuplicateRecord: metering.DuplicateRecord, metering.Success: metering.Success,
	} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				begin(t)
				pending := records(2)
				books := deskOf(pending...)
				pending[0] = books.mark(pending[0], pending[0].Usage().Second)
				service := &api{answer: func(_ int, c metering.Call) (metering.Answer, error) {
					a := billed(c)
					for i := range a.Results {
						a.Results[i].Status = status
					}
					return a, nil
				}}
				report, err := send(t, service, books, laneOf(pending...))
				if got := books.of(pending[0]); err != nil || got.Status != want || (report.InDoubt == 1) != (want == "") {
					t.Errorf("the record sent before: status %q, report %+v, error %v", got.Status, report, err)
				}
				if got := books.of(pending[1]); got.Status != status {
					t.Errorf("the other record: status %q, want %q", got.Status, status)
				}
			})
		})
	}
}

// The same for a record that is told apart at the end of the run.
func TestASuspectSentBeforeIsNotRejected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		pending := many("undefined", 25)
		books := deskOf(pending...)
		pending[20] = books.mark(pending[20], pending[20].Usage().Second)
		service := &api{answer: poisoned("InvalidUsageDimensionException", "undefined")}
		report, err := send(t, service, books, laneOf(pending...))
		if err != nil || report.InDoubt != 1 || report.Settled != 24 || books.of(pending[20]).Pending == "" {
			t.Errorf("report %+v, error %v", report, err)
		}
	})
}

func TestAFailingServiceEndsABisection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begin(t)
		pending, broken := records(25), errors.New("connection refused")
		books := deskOf(pending...)
		service := &api{answer: func(n int, c metering.Call) (metering.Answer, error) {
			if n == 3 {
				return metering.Answer{}, broken
			}
			return poisoned("InvalidTagException", "d7")(n, c)
		}}
		report, err := send(t, service, books, laneOf(pending...))
		if !errors.Is(err, broken) || report.Calls != 4 || len(books.rejected()) != 0 || report.Settled+len(books.pending()) != 25 {
			t.Errorf("report %+v, error %v, rejected %v", report, err, books.rejected())
		}
	})
}

var _ marketplace.API = (*api)(nil)
