package verify_test

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/internal/verify"
	"github.com/awsmp/metering/simulator"
)

// broken is what the stages see of a store in which something goes wrong.
type broken struct {
	*memory.Store
	label  func(metering.Label) metering.Label
	finish func(metering.Finish) metering.Finish
	row    func(metering.Row) (metering.Row, bool) // of a group; false leaves it out
	entry  func(metering.PendingRow) bool          // of the index
	stuck  bool                                    // no bucket is corrected
	mute   bool                                    // no label is written
}

func (b broken) LabelRows(ctx context.Context, labels []metering.Label) []metering.Labelled {
	if b.mute {
		out := make([]metering.Labelled, len(labels))
		for i := range out {
			out[i].Err = errors.New("cleanup is stopped")
		}
		return out
	}
	if b.label != nil {
		labels = slices.Clone(labels)
		for i := range labels {
			labels[i] = b.label(labels[i])
		}
	}
	return b.Store.LabelRows(ctx, labels)
}

func (b broken) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	if b.finish != nil {
		f = b.finish(f)
	}
	return b.Store.FinishRecord(ctx, f)
}

func (b broken) GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error] {
	return func(yield func(metering.Row, error) bool) {
		for r, err := range b.Store.GroupRows(ctx, g) {
			if b.row != nil {
				var ok bool
				if r, ok = b.row(r); !ok {
					continue
				}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func (b broken) PendingRows(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.PendingRow, error] {
	return func(yield func(metering.PendingRow, error) bool) {
		for e, err := range b.Store.PendingRows(ctx, h, license) {
			if (b.entry == nil || b.entry(e)) && !yield(e, err) {
				return
			}
		}
	}
}

func (b broken) RebucketRow(ctx context.Context, x metering.Rebucket) (metering.Outcome[metering.Row], error) {
	if b.stuck {
		return metering.Outcome[metering.Row]{}, nil
	}
	return b.Store.RebucketRow(ctx, x)
}

// misfiled reports whether an entry stands under another hour than its own.
func misfiled(e metering.PendingRow) bool {
	key, reason := metering.ParseRowKey(e.SortKey)
	return reason == "" && key.Second.Hour().String() != e.Bucket
}

// rejectedAlone are the rejections that each row brings about by itself.
func rejectedAlone(name string) bool {
	return strings.HasPrefix(name, "rejected-") && !slices.Contains([]string{
		"rejected-QuantityOutOfRange-sum", "rejected-ConflictingIdentifier-identifiers", "rejected-MixedAllocatedAndUnallocated", "rejected-RecordTooLarge", "rejected-MalformedSortKey",
	}, name)
}

func isOne(names ...string) func(string) bool {
	return func(name string) bool { return slices.Contains(names, name) }
}

// ofRows reports whether a case waits for a row to be labelled.
func ofRows(name string) bool {
	return strings.HasPrefix(name, "rejected-") || isOne("happy-path", "tagged-rows", "zero-waits", "zero-at-last", "wrong-bucket", "age-out", "late-row", "grown-row", "month-boundary", "undefined-dimension")(name)
}

// breaks are ways in which a pipeline may be wrong, and the cases that each of them fails: these, and no others.
var breaks = []struct {
	name   string
	store  broken
	live   bool
	sim    func(*simulator.Options)
	change func(*world)
	fails  func(name string) bool
	books  bool // the books do not balance either
}{
	{name: "cleanup is stopped", store: broken{mute: true}, fails: ofRows},
	{name: "rows at fault are passed over", fails: rejectedAlone, store: broken{row: func(r metering.Row) (metering.Row, bool) {
		return r, r.Validate(afternoon) == ""
	}}},
	{
		name: "rejections name another reason", fails: func(name string) bool { return strings.HasPrefix(name, "rejected-") },
		store: broken{label: func(l metering.Label) metering.Label {
			if l.Status == metering.RejectedClientSide {
				l.Reason = "NotWanted"
			}
			return l
		}},
	},
	{
		name: "late usage is called aggregated", fails: isOne("late-row", "grown-row"), books: true,
		store: broken{label: func(l metering.Label) metering.Label {
			if l.Status == metering.LateUsage {
				l.Status, l.LateQuantity = metering.Aggregated, metering.Quantity{}
			}
			return l
		}},
	},
	{
		name: "what is too old is called rejected", fails: isOne("age-out", "month-boundary"),
		store: broken{label: func(l metering.Label) metering.Label {
			if l.Status == metering.AggregationExpired {
				l.Status = metering.RejectedClientSide
			}
			return l
		}},
	},
	{name: "buckets are not corrected", store: broken{stuck: true}, fails: isOne("wrong-bucket-early")},
	{name: "entries under another hour are passed over", store: broken{entry: func(e metering.PendingRow) bool { return !misfiled(e) }}, fails: isOne("wrong-bucket", "wrong-bucket-early")},
	{
		name: "tags are lost",
		fails: isOne("tagged-rows", "rejected-MixedAllocatedAndUnallocated", "rejected-RecordTooLarge", "rejected-TooManyTags", "rejected-MissingTagKeyOrValue", "rejected-InvalidTag",
			"rejected-TooManyAllocations", "rejected-AllocationSumMismatch"),
		store: broken{row: func(r metering.Row) (metering.Row, bool) { r.Allocations = nil; return r, true }},
	},
	{
		name: "zeros are sent at once", fails: isOne("zero-waits"),
		change: func(w *world) { w.Discover.Work = hasty{w.Work} },
	},
	{
		name: "no record is rejected", fails: func(name string) bool { return strings.HasPrefix(name, "direct-") && name != "direct-record" },
		store: broken{finish: func(f metering.Finish) metering.Finish {
			if f.Status == metering.RejectedClientSide {
				f.Status, f.Reason = metering.DryRunSubmitted, ""
			}
			return f
		}},
	},
	{
		name: "what may be billed is called expired", fails: isOne("silent"),
		store: broken{finish: func(f metering.Finish) metering.Finish {
			if f.Reason == metering.VerdictUnknown {
				f.Reason = ""
			}
			return f
		}},
	},
	{
		name: "expired records are called refused", fails: isOne("submission-expiry", "silent", "month-boundary-record"),
		store: broken{finish: func(f metering.Finish) metering.Finish {
			if f.Status == metering.SubmissionExpired {
				f.Status = metering.CustomerNotSubscribed
			}
			return f
		}},
	},
	{
		name: "a dry run calls", change: func(w *world) { w.Submit.DryRun = false },
		fails: isOne("happy-path", "tagged-rows", "zero-at-last", "wrong-bucket", "direct-record", "duplicate", "direct-DuplicateIdentity", "direct-MixedIdentitySchemes"),
	},
	{name: "the product has every dimension", live: true, sim: func(o *simulator.Options) { o.Dimensions = nil }, fails: isOne("undefined-dimension")},
	{
		name: "duplicates are called billed", live: true, fails: isOne("billed-unit"),
		store: broken{finish: func(f metering.Finish) metering.Finish {
			if f.Status == metering.DuplicateRecord {
				f.Status = metering.Success
			}
			return f
		}},
	},
}

// hasty tells the aggregator that each license is about to end, so that nothing waits.
type hasty struct{ node.Queue }

func (q hasty) Send(ctx context.Context, bodies []string) ([]int, error) {
	closing := make([]string, len(bodies))
	for i, body := range bodies {
		m, err := metering.Decode[metering.WorkMessage](body)
		if err != nil {
			return nil, err
		}
		g, err := m.Group()
		if err != nil {
			return nil, err
		}
		closing[i] = metering.Encode(metering.NewWorkMessage(g, true))
	}
	return q.Queue.Send(ctx, closing)
}

// TestBroken: each way in which a pipeline is wrong fails the cases that are about it, and these alone; and each case fails in one of them.
func TestBroken(t *testing.T) {
	t.Parallel()
	shown := map[string]bool{"registration-page": true} // by TestPage
	for _, b := range breaks {
		w := newWorldWith(t, afternoon, b.sim, func(c *node.Config) {
			c.DryRun = !b.live
			b.store.Store = c.Store.(*memory.Store)
			c.Store = b.store
		})
		if b.change != nil {
			b.change(w)
		}
		s := w.settings()
		s.Rows, s.Records = w.store, w.store
		if b.live {
			s.Buyer = buyer
		}
		report := w.do(s)
		for _, c := range report.Cases {
			failed := c.Result == verify.Failed
			if failed != (b.fails(c.Name) && c.Result != verify.Skipped) {
				t.Errorf("%s: %s is %s: expected %s, found %s", b.name, c.Name, c.Result, c.Expected, c.Found)
			}
			shown[c.Name] = shown[c.Name] || failed
		}
		if report.Passed() {
			t.Errorf("%s: the run has passed", b.name)
		}
		if report.Books.Balanced == b.books {
			t.Errorf("%s: balanced: %v, %v", b.name, report.Books.Balanced, report.Books.Imbalances)
		}
		if report.Left != 0 {
			t.Errorf("%s: %d items are left", b.name, report.Left)
		}
	}
	for _, c := range newWorld(t, afternoon, dryRun).list() {
		if !shown[c.Name] {
			t.Errorf("nothing here fails %s", c.Name)
		}
	}
}

// TestDead: where no stage runs, no case passes, and the run ends all the same.
func TestDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, dryRun)
	s := w.settings()
	s.Sleep = func(ctx context.Context, d time.Duration) error {
		w.clock.MoveTo(w.clock.Now().Add(d))
		return ctx.Err()
	}
	report := w.do(s)
	if passed := names(report, verify.Passed); len(passed) > 0 || report.Passed() {
		t.Errorf("passed: %v", passed)
	}
	if took := report.Ended.Sub(report.Begun); took > time.Hour {
		t.Errorf("it took %v", took)
	}
	w.empty()
}

// TestTimeout: a limit ends what waits.
func TestTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, afternoon, dryRun)
	s := w.settings()
	s.Timeout = 5 * time.Minute
	report := w.do(s)
	if took := report.Ended.Sub(report.Begun); took > 6*time.Minute || !slices.Contains(names(report, verify.Failed), "happy-path") || !slices.Contains(names(report, verify.Passed), "direct-record") {
		t.Errorf("after %v passed %v, failed %v", took, names(report, verify.Passed), names(report, verify.Failed))
	}
	w.empty()
}

func TestPage(t *testing.T) {
	t.Parallel()
	gone := page(t, http.StatusOK)
	for address, want := range map[string]verify.Result{
		page(t, http.StatusOK): verify.Passed, page(t, http.StatusForbidden): verify.Failed, page(t, http.StatusInternalServerError): verify.Failed,
		"http://127.0.0.1:1/": verify.Skipped, gone: verify.Passed,
	} {
		w := newWorld(t, afternoon, dryRun)
		s := w.settings()
		s.Only, s.Page = []string{"registration-page"}, address
		report := w.do(s)
		if len(report.Cases) != 1 || report.Cases[0].Result != want {
			t.Errorf("%s: %+v, want %s", address, report.Cases, want)
		}
	}
}

// TestReasons: each reason has its cases, or it is said why none.
func TestReasons(t *testing.T) {
	t.Parallel()
	never := verify.Never()
	var have []string
	for _, c := range newWorld(t, afternoon, dryRun).list() {
		have = append(have, c.Name)
	}
	onRecords := []metering.Reason{metering.DuplicateIdentity, metering.MixedIdentitySchemes}
	onRows := []metering.Reason{metering.MixedAllocatedAndUnallocated, metering.RecordTooLarge}
	for _, reason := range reasons(t) {
		switch why, none := never[reason]; {
		case none && why == "":
			t.Errorf("%s: it is not said why no case has it", reason)
		case none:
		case !slices.Contains(onRecords, reason) && !slices.Contains(have, "rejected-"+string(reason)):
			t.Errorf("no row brings about %s", reason)
		case !slices.Contains(onRows, reason) && !slices.Contains(have, "direct-"+string(reason)):
			t.Errorf("no record brings about %s", reason)
		}
	}
	if unknown := verify.Unknown([]string{"rejected", "direct-record", "happy-", "reject"}); !slices.Equal(unknown, []string{"happy-", "reject"}) {
		t.Errorf("unknown: %v", unknown)
	}
}
