package node_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/lifecycle"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/simulator"
)

const licenseThree = "arn:aws:license-manager::111122223333:license:l-cccccccccccccccccccccccccccccccc"

func (w *world) retrier() *pipeline.Retrier {
	w.t.Helper()
	records, ok := w.store.(pipeline.RefusedRecords)
	if !ok {
		w.t.Fatal("the store reopens no records")
	}
	return &pipeline.Retrier{Records: records, ProductCode: legacyPartition, Now: w.clock.Now}
}

// retry asks once more for what was refused, and returns how many records wait again.
func (w *world) retry(what pipeline.Retry) pipeline.Retried {
	w.t.Helper()
	done, err := w.retrier().Run(w.ctx, what)
	if err != nil {
		w.t.Errorf("retry: %v", err)
	}
	return done
}

func (w *world) wantRetried(done pipeline.Retried, records int, units int64) {
	w.t.Helper()
	if len(done.Reopened) != records || done.Units != units {
		w.t.Errorf("%d records with %d units reopened, want %d with %d: %+v", len(done.Reopened), done.Units, records, units, done)
	}
}

// wantSkipped holds a retry to have left some records as they are, all for one cause.
func (w *world) wantSkipped(done pipeline.Retried, o metering.Obstacle, records int, units int64) {
	w.t.Helper()
	if diff := cmp.Diff([]pipeline.Skipped{{Cause: o, Why: o.Why(), Records: records, Units: units}}, done.Skipped); diff != "" {
		w.t.Errorf("skipped (-want +got):\n%s", diff)
	}
}

// wantTrace holds a record's trace to name these ends, in order.
func (w *world) wantTrace(r metering.Record, want ...string) {
	w.t.Helper()
	var got []string
	trace, _ := r.Other[metering.AttrReopened].([]any)
	for _, e := range trace {
		entry, _ := e.(map[string]any)
		end := fmt.Sprint(entry[metering.AttrStatus])
		if reason, _ := entry[metering.AttrStatusReason].(string); reason != "" {
			end = reason
		}
		got = append(got, end)
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("trace of %s: %q, want %q", r.SortKey, got, want)
	}
}

// activate is License Updated, as it comes from the Marketplace, and what it is about.
func (w *world) activate(license, account string) {
	w.t.Helper()
	check(w.t, w.sim.PutLicense(simulator.License{ARN: license, AccountID: account}))
	event, err := lifecycle.TestEvent{Kind: lifecycle.LicenseUpdated, License: license, Account: account, Agreement: "agmt-1", ProductCode: simulator.DefaultProductCode, At: w.clock.Now()}.JSON()
	check(w.t, err)
	_, err = w.Lifecycle.Apply(w.ctx, event)
	check(w.t, err)
}

// TestF21AnActiveBuyerIsBilledAfterARetry: usage that was metered before the buyer was active, or during a short suspension, was refused at
// first sight and lost. When the buyer is active an operator asks for it once more, and it is billed once.
func TestF21AnActiveBuyerIsBilledAfterARetry(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		before, after func(w *world)
	}{
		"not yet active": {func(*world) {}, func(w *world) { w.activate(licenseThree, buyerOne) }},
		"suspended": {
			func(w *world) { w.activate(licenseThree, buyerOne); check(w.t, w.sim.SuspendAccount(buyerOne, true)) },
			func(w *world) { check(w.t, w.sim.SuspendAccount(buyerOne, false)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, afternoon, withSimulator(func(o *simulator.Options) { o.UnknownCustomer = simulator.ByStatus }))
			tt.before(w)
			first, second := row(licenseThree, buyerOne, apiCalls, "2026-03-10T14:10:00", 4), row(licenseThree, buyerOne, apiCalls, "2026-03-10T14:20:00", 5)
			stranger := row(licenseTwo, buyerTwo, apiCalls, "2026-03-10T14:20:00", 2)
			w.put(first, second, stranger)
			w.until(at("2026-03-10T15:50:00"))
			if got := w.record(first); got.Status != metering.CustomerNotSubscribed {
				t.Fatalf("record %+v", got)
			}
			w.wantPlace(ledger.Refused, 9)
			w.wantMetric(metering.MetricNotSubscribed, 1, 9)

			tt.after(w)
			w.until(at("2026-03-10T17:00:00")) // by itself nothing comes back
			w.wantPlace(ledger.Refused, 9)
			w.wantRetried(w.retry(pipeline.Retry{License: licenseThree}), 1, 9)
			w.wantPlace(ledger.InFlight, 9)
			calls := w.sim.Stats().Calls
			w.until(at("2026-03-10T17:10:00"))
			w.wantBilled(first, 9)
			w.wantPlace(ledger.Billed, 11)
			w.wantRow(first, metering.Aggregated, aggregated(9, 2))
			w.wantTrace(w.record(first), "CustomerNotSubscribed")

			again := w.retry(pipeline.Retry{License: licenseThree})
			w.wantRetried(again, 0, 0)
			w.wantSkipped(again, metering.ObstacleBilled, 1, 9)
			w.until(at("2026-03-11T18:00:00"))
			if got := w.sim.Stats().Calls - calls; got != 1 {
				t.Errorf("%d calls, want one", got)
			}
			w.wantPlace(ledger.Billed, 11)
			w.wantMetric(metering.MetricBilled, 2, 11)
			w.wantMetric(metering.MetricNotSubscribed, 1, 9)
			w.wantNoDeadLetters()
		})
	}
}

// TestF34ADefinedDimensionIsBilledAfterARetry: hours of a dimension that the product did not have were rejected, and stayed so when it was
// defined. A retry of the dimension brings them back, and leaves the other dimensions alone.
func TestF34ADefinedDimensionIsBilledAfterARetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	check(t, w.sim.UndefineDimension("storage"))
	check(t, w.sim.UndefineDimension("traffic"))
	early, late := row(licenseOne, buyerOne, "storage", "2026-03-10T13:10:00", 4), row(licenseOne, buyerOne, "storage", "2026-03-10T14:10:00", 5)
	other, good := row(licenseOne, buyerOne, "traffic", "2026-03-10T14:10:00", 7), usage("2026-03-10T14:10:00", 2)
	w.put(early, late, other, good)
	w.until(at("2026-03-10T15:50:00"))
	for _, r := range []metering.Row{early, late, other} {
		if got := w.record(r); got.Status != metering.RejectedClientSide || got.StatusReason != "InvalidUsageDimensionException" {
			t.Errorf("record %+v", got)
		}
	}
	w.wantPlace(ledger.Rejected, 16)

	check(t, w.sim.DefineDimension("storage"))
	hour := metering.HourOf(at("2026-03-10T13:00:00"))
	w.wantRetried(w.retry(pipeline.Retry{License: licenseOne, Dimension: "storage", Hour: &hour}), 1, 4)
	w.wantRetried(w.retry(pipeline.Retry{License: licenseOne, Dimension: "storage"}), 1, 5)
	w.until(at("2026-03-10T16:00:00"))
	w.wantBilled(early, 4)
	w.wantBilled(late, 5)
	w.wantBilled(other, 0)
	w.wantTrace(w.record(late), "InvalidUsageDimensionException")
	w.wantPlace(ledger.Billed, 11)
	w.wantPlace(ledger.Rejected, 7)
}

// TestRetryOutsideTheWindow: an hour that is over is not offered again, whatever has been put right; one that is over before it is sent
// ends by that name, and not as in doubt.
func TestRetryOutsideTheWindow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	check(t, w.sim.SuspendAccount(buyerOne, true))
	old, young := sale("2026-03-10T13", 4), sale("2026-03-10T14", 5)
	w.putRecords(old, young)
	w.submit()
	check(t, w.sim.SuspendAccount(buyerOne, false))
	w.clock.MoveTo(at("2026-03-11T13:00:00"))
	done := w.retry(pipeline.Retry{License: licenseOne})
	w.wantRetried(done, 1, 5)
	if done.Older != 1 || len(done.Skipped) != 0 {
		t.Errorf("one is older: %+v", done)
	}
	over := metering.HourOf(at("2026-03-10T13:00:00"))
	w.wantSkipped(w.retry(pipeline.Retry{License: licenseOne, Hour: &over}), metering.ObstacleOver, 1, 4)
	w.wantRecord(old, metering.CustomerNotSubscribed, "")
	w.wantPlace(ledger.Refused, 4)

	w.Submit.Paused = true
	w.until(at("2026-03-11T14:30:00"))
	w.wantRecord(young, metering.SubmissionExpired, "")
	w.wantPlace(ledger.Expired, 5)
	w.wantPlace(ledger.Refused, 4)
	if done = w.retry(pipeline.Retry{License: licenseOne}); done.Older != 2 || len(done.Skipped) != 0 {
		t.Errorf("both are older: %+v", done)
	}
	w.wantTrace(w.stored(young), "CustomerNotSubscribed")
}

// TestRetryInTheGraceTail: what the month end keeps billable beyond 24 hours can be retried, and no longer at 06:00.
func TestRetryInTheGraceTail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, at("2026-03-31T10:00:00"), withSimulator(func(o *simulator.Options) { o.GraceExtendsWindow = true }))
	check(t, w.sim.SuspendAccount(buyerOne, true))
	first, second := sale("2026-03-31T02", 4), sale("2026-03-31T03", 5)
	w.putRecords(first, second)
	w.submit()
	check(t, w.sim.SuspendAccount(buyerOne, false))
	w.clock.MoveTo(at("2026-04-01T04:30:00"))
	hour := metering.HourOf(at("2026-03-31T02:00:00"))
	w.wantRetried(w.retry(pipeline.Retry{License: licenseOne, Hour: &hour}), 1, 4)
	w.submit()
	w.wantRecord(first, metering.Success, "")
	w.clock.MoveTo(at("2026-04-01T06:00:00"))
	w.wantRetried(w.retry(pipeline.Retry{License: licenseOne}), 0, 0)
	w.wantRecord(second, metering.CustomerNotSubscribed, "")
	w.wantPlace(ledger.Billed, 4)
	w.wantPlace(ledger.Refused, 5)
}

// TestRetryOfASuspendedBuyer: nothing was put right, so the usage is refused again, by the same name and counted again. It can be asked for as
// often as there is time, and is billed once.
func TestRetryOfASuspendedBuyer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	check(t, w.sim.SuspendAccount(buyerOne, true))
	r := usage("2026-03-10T14:10:00", 4)
	w.put(r)
	w.until(at("2026-03-10T15:40:00"))
	for i := range 3 {
		w.wantMetric(metering.MetricNotSubscribed, int64(i+1), int64(4*(i+1)))
		w.wantPlace(ledger.Refused, 4)
		w.wantRetried(w.retry(pipeline.Retry{License: licenseOne}), 1, 4)
		w.until(w.clock.Now().Add(10 * time.Minute))
	}
	w.wantBilled(r, 0)
	check(t, w.sim.SuspendAccount(buyerOne, false))
	w.wantRetried(w.retry(pipeline.Retry{License: licenseOne}), 1, 4)
	w.until(at("2026-03-10T18:00:00"))
	w.wantBilled(r, 4)
	w.wantPlace(ledger.Billed, 4)
	w.wantTrace(w.record(r), slices.Repeat([]string{"CustomerNotSubscribed"}, 4)...)
}

// TestRetryOfUsageFromBeforeTheActivation: a license became active after the hour. Being active does not help: the service refuses the hour
// by another name.
func TestRetryOfUsageFromBeforeTheActivation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, withSimulator(func(o *simulator.Options) { o.UnknownCustomer = simulator.ByStatus }))
	r := row(licenseThree, buyerOne, apiCalls, "2026-03-10T14:10:00", 4)
	w.put(r)
	w.until(at("2026-03-10T15:40:00"))
	check(t, w.sim.PutLicense(simulator.License{ARN: licenseThree, AccountID: buyerOne, ActivatedAt: at("2026-03-10T15:00:00")}))
	w.wantRetried(w.retry(pipeline.Retry{License: licenseThree}), 1, 4)
	w.until(at("2026-03-10T16:00:00"))
	if got := w.record(r); got.Status != metering.RejectedClientSide || got.StatusReason != "InvalidLicenseException" || got.Pending != "" {
		t.Errorf("record %+v", got)
	}
	w.wantPlace(ledger.Rejected, 4)
}

// TestRetryNeverTouchesWhatMayBeBilled: a call was billed and its answer lost, and then the buyer was suspended. The refusal of the resend
// does not end the record, so a retry finds it waiting, with its mark, and after its hour in doubt; billed it is once.
func TestRetryNeverTouchesWhatMayBeBilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, withSimulator(func(o *simulator.Options) { o.ResendNeedsSubscription = true }))
	back, gone := sale("2026-03-10T13", 4), direct(licenseTwo, buyerTwo, apiCalls, "2026-03-10T13", 5)
	w.putRecords(back, gone)
	w.sim.Inject(simulator.Fault{Kind: simulator.LoseReply, Times: 2})
	w.submitFails()
	for _, account := range []string{buyerOne, buyerTwo} {
		check(t, w.sim.SuspendAccount(account, true))
	}
	w.sim.ClearFaults()
	w.submit()
	for _, license := range []string{licenseOne, licenseTwo} {
		w.wantRetried(w.retry(pipeline.Retry{License: license}), 0, 0)
	}
	w.wantSkipped(w.retry(pipeline.Retry{License: licenseOne}), metering.ObstacleWaiting, 1, 4)
	if got := w.stored(back); got.SentQuantity != metering.Units(4) {
		t.Errorf("the mark is gone: %+v", got)
	}
	check(t, w.sim.SuspendAccount(buyerOne, false))
	w.submit()
	w.wantRecord(back, metering.Success, "")
	w.until(at("2026-03-11T13:30:00"))
	w.wantRecord(gone, metering.SubmissionExpired, metering.VerdictUnknown)
	hour := metering.HourOf(at("2026-03-10T13:00:00"))
	w.wantSkipped(w.retry(pipeline.Retry{License: licenseTwo, Hour: &hour}), metering.ObstacleDoubt, 1, 5)
	w.wantRecord(gone, metering.SubmissionExpired, metering.VerdictUnknown)
	w.wantPlace(ledger.InDoubt, 5)
}

// TestRetriedRecordCanBeInDoubtAnew: the retry's own call is billed and its answer lost. From then on it is as with any other record.
func TestRetriedRecordCanBeInDoubtAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, withSimulator(func(o *simulator.Options) { o.ResendNeedsSubscription = true }))
	check(t, w.sim.SuspendAccount(buyerOne, true))
	r := sale("2026-03-10T14", 10)
	w.putRecords(r)
	w.submit()
	check(t, w.sim.SuspendAccount(buyerOne, false))
	w.wantRetried(w.retry(pipeline.Retry{License: licenseOne}), 1, 10)
	w.sim.Inject(simulator.Fault{Kind: simulator.LoseReply, Times: 1})
	w.submitFails()
	check(t, w.sim.SuspendAccount(buyerOne, true))
	w.submit()
	w.wantRecord(r, "", "")
	w.wantSkipped(w.retry(pipeline.Retry{License: licenseOne}), metering.ObstacleWaiting, 1, 10)
	w.books()
	check(t, w.sim.SuspendAccount(buyerOne, false))
	w.submit()
	w.wantRecord(r, metering.Success, "")
	w.wantBilled(usage("2026-03-10T14:00:00", 0), 10)
	w.wantPlace(ledger.Billed, 10)
}

// TestSuccessOfAnotherRunFollowsTheReopening: of two runs at once one is refused, and while the other's call is under way, which will be billed,
// the record is reopened. Its Success is written all the same.
func TestSuccessOfAnotherRunFollowsTheReopening(t *testing.T) {
	t.Parallel()
	var w *world
	r := sale("2026-03-10T14", 10)
	w = newWorld(t, afternoon, brittle(nil, func(o op, n int, _ string) outcome {
		if o == opFinish && n == 1 { // billed, and not yet written
			refused := w.stored(r)
			refused.Pending, refused.Status = "", metering.CustomerNotSubscribed
			w.putRecords(refused)
			w.wantRetried(w.retry(pipeline.Retry{License: licenseOne}), 1, 10)
		}
		return pass
	}))
	w.putRecords(r)
	w.submit()
	w.wantRecord(r, metering.Success, "")
	w.wantTrace(w.stored(r), "CustomerNotSubscribed")
	w.submit()
	w.wantBilled(usage("2026-03-10T14:00:00", 0), 10)
	w.wantPlace(ledger.Billed, 10)
}

// TestReopenedRecordMetByAStaleEntry: the index still shows a record as it was sent before its refusal. The call after the reopening went out on
// that word, without a mark; it was billed, its answer lost, and the record ended as never sent. It waits for a run that sees it as it is.
func TestReopenedRecordMetByAStaleEntry(t *testing.T) {
	t.Parallel()
	var w *world
	var store *brittleStore
	r := sale("2026-03-10T14", 10)
	w = newWorld(t, afternoon, brittle(&store, func(o op, n int, _ string) outcome {
		if o == opFinish && n == 1 {
			store.freeze(w.ctx, metering.HourOf(at("2026-03-10T14:00:00")))
		}
		return pass
	}))
	check(t, w.sim.SuspendAccount(buyerOne, true))
	w.putRecords(r)
	w.submit()
	w.wantRecord(r, metering.CustomerNotSubscribed, "")
	check(t, w.sim.SuspendAccount(buyerOne, false))
	w.wantRetried(w.retry(pipeline.Retry{License: licenseOne}), 1, 10)
	calls := w.sim.Stats().Calls
	w.submit()
	w.wantRecord(r, "", "")
	if got := w.sim.Stats().Calls; got != calls {
		t.Errorf("%d calls on the word of a stale entry", got-calls)
	}
	store.thaw()
	w.sim.Inject(simulator.Fault{Kind: simulator.LoseReply, Times: 1})
	w.submitFails()
	w.Submit.Paused = true
	w.until(at("2026-03-11T14:40:00"))
	w.wantRecord(r, metering.SubmissionExpired, metering.VerdictUnknown)
	w.wantPlace(ledger.InDoubt, 10)
}

// TestRetryOfOneRecordReadsOneRecord: the account, the dimension and the hour name a record, and whatever else the license ever had is not
// read. Asked for all, the hours that are over are passed over.
func TestRetryOfOneRecordReadsOneRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon)
	h := metering.HourOf(at("2026-03-10T14:00:00"))
	for i := range 200 {
		r := sale((h - metering.Hour(i+30)).String(), 1)
		r.Pending, r.Status = "", metering.Success
		w.putRecords(r)
	}
	refused := sale("2026-03-10T14", 7)
	refused.Pending, refused.Status = "", metering.CustomerNotSubscribed
	w.putRecords(refused)
	before := w.stats().ItemsRead
	w.wantRetried(w.retry(pipeline.Retry{License: licenseOne, Account: buyerOne, Dimension: apiCalls, Hour: &h}), 1, 7)
	if read := w.stats().ItemsRead - before; read > 3 {
		t.Errorf("%d items read", read)
	}
	if done := w.retry(pipeline.Retry{License: licenseOne}); done.Older != 200 || len(done.Skipped) != 1 {
		t.Errorf("%+v", done)
	}
}
