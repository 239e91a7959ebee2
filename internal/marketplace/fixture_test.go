package marketplace_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/smithy-go"
	"go.uber.org/goleak"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
)

var _ pipeline.Marketplace = (*marketplace.Sender)(nil)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	licenseA = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	buyer    = "111122223333"
	product  = "sim-product"
)

// begin moves a bubble's clock, which starts at the turn of a month, to an ordinary afternoon.
func begin(t *testing.T) time.Time {
	t.Helper()
	at := time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)
	time.Sleep(time.Until(at))
	return at
}

// record is a pending record of 14:00 on that afternoon.
func record(dimension string, quantity int64) metering.Record {
	return recordOf(metering.Group{License: licenseA, Account: buyer, Dimension: dimension}, quantity)
}

func recordOf(g metering.Group, quantity int64) metering.Record {
	g.Hour = metering.HourOf(time.Date(2026, 3, 10, 14, 0, 0, 0, time.UTC))
	return metering.NewRecord(g, quantity)
}

func legacy(identifier, dimension string, quantity int64) metering.Record {
	r := recordOf(metering.Group{License: product, Account: buyer, Dimension: dimension}, quantity)
	r.CustomerIdentifier = identifier
	return r
}

// records are n good ones, of dimensions d0, d1, …
func records(n int) []metering.Record {
	out := make([]metering.Record, n)
	for i := range out {
		out[i] = record(fmt.Sprintf("d%d", i), int64(i+1))
	}
	return out
}

type lane = iter.Seq2[metering.Record, error]

func laneOf(records ...metering.Record) lane {
	return func(yield func(metering.Record, error) bool) {
		for _, r := range records {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// desk is the submitter over a map: it marks and finishes as the real one does.
type desk struct {
	mu       sync.Mutex
	held     map[[2]string]metering.Record
	verdicts []metering.Verdict
	settled  []time.Time // of each verdict

	drop     func(metering.Record) bool // by Prepare
	doubt    func(metering.Record) bool // said by Prepare of a record that came without a mark
	late     func(metering.Record) bool // by Sendable
	first    map[string]metering.Second // by dimension: the first row's second
	laterFor []string                   // the dimensions that Later was asked for
	settle   func(context.Context, []metering.Verdict) error

	prepared, called map[string]int // by dimension: how often
}

func deskOf(records ...metering.Record) *desk {
	d := &desk{held: map[[2]string]metering.Record{}, prepared: map[string]int{}, called: map[string]int{}}
	for _, r := range records {
		d.held[[2]string{r.License, r.SortKey}] = r
	}
	return d
}

// pending are the records that wait, in no order; a run's lanes are made of them.
func (d *desk) pending() []metering.Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []metering.Record
	for _, r := range d.held {
		if r.Pending != "" {
			out = append(out, r)
		}
	}
	return out
}

func (d *desk) of(r metering.Record) metering.Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held[[2]string{r.License, r.SortKey}]
}

func (d *desk) statuses() map[metering.Status]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := map[metering.Status]int{}
	for _, r := range d.held {
		out[r.Status]++
	}
	return out
}

func (d *desk) mark(r metering.Record, s metering.Second) metering.Record {
	send := metering.Send{License: r.License, SortKey: r.SortKey, Fingerprint: r.Fingerprint(), Quantity: r.Quantity.N, Second: s, At: time.Now()}
	r = send.Apply(r)
	d.held[[2]string{r.License, r.SortKey}] = r
	return r
}

func (d *desk) Prepare(_ context.Context, records []metering.Record) ([]metering.Marked, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []metering.Marked
	for _, r := range records {
		d.prepared[r.Dimension]++
		if d.drop == nil || !d.drop(r) {
			out = append(out, metering.Marked{Record: d.mark(r, r.Usage().Second), InDoubt: d.doubt != nil && d.doubt(r)})
		}
	}
	return out, nil
}

func (d *desk) Sendable(records []metering.Record) []metering.Record {
	d.mu.Lock()
	defer d.mu.Unlock()
	kept := slices.Clone(records)
	if d.late != nil {
		kept = slices.DeleteFunc(kept, d.late)
	}
	for _, r := range kept {
		d.called[r.Dimension]++
	}
	return kept
}

func (d *desk) Later(_ context.Context, r metering.Record) (metering.Record, bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.laterFor = append(d.laterFor, r.Dimension)
	s, ok := d.first[r.Dimension]
	if !ok || s <= r.Usage().Second {
		return r, false, nil
	}
	return d.mark(r, s), true, nil
}

func (d *desk) Settle(ctx context.Context, verdicts []metering.Verdict) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if d.settle != nil {
		if err := d.settle(ctx, verdicts); err != nil {
			return err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, v := range verdicts {
		key := [2]string{v.Record.License, v.Record.SortKey}
		if f := metering.FinishWith(v, 0, time.Now()); f.Holds(d.held[key]) {
			d.held[key] = f.Apply(d.held[key])
		}
		d.verdicts = append(d.verdicts, v)
		d.settled = append(d.settled, time.Now())
	}
	return nil
}

// api is a service of our own: every record is billed unless answer says otherwise.
type api struct {
	latency time.Duration
	// answer decides on the nth call, from 0; nil, or a nil error and an empty answer, bills all.
	answer func(n int, c metering.Call) (metering.Answer, error)

	mu      sync.Mutex
	calls   []metering.Call
	started []time.Time
	active  int
	peak    int
}

func (a *api) Call(ctx context.Context, c metering.Call) (metering.Answer, error) {
	a.mu.Lock()
	n := len(a.calls)
	a.calls, a.started = append(a.calls, c), append(a.started, time.Now())
	a.active++
	a.peak = max(a.peak, a.active)
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.active--
	}()
	if a.latency > 0 {
		time.Sleep(a.latency)
	}
	if err := ctx.Err(); err != nil {
		return metering.Answer{}, err
	}
	if a.answer != nil {
		answer, err := a.answer(n, c)
		if err != nil || answer.Results != nil || answer.Unprocessed != nil {
			return answer, err
		}
	}
	return billed(c), nil
}

// sizes are the numbers of records in the calls so far.
func (a *api) sizes() []int {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []int
	for _, c := range a.calls {
		out = append(out, len(c.Records))
	}
	return out
}

// billed answers Success, last record first: nothing may hang on the order.
func billed(c metering.Call) metering.Answer {
	var a metering.Answer
	for i, u := range slices.Backward(c.Records) {
		a.Results = append(a.Results, metering.Result{Usage: u, Status: metering.Success, RecordID: fmt.Sprintf("id-%d", i)})
	}
	return a
}

func exception(code string) error { return &smithy.GenericAPIError{Code: code, Message: "refused"} }

// poisoned refuses every call that holds a record of one of the dimensions.
func poisoned(code string, dimensions ...string) func(int, metering.Call) (metering.Answer, error) {
	return func(_ int, c metering.Call) (metering.Answer, error) {
		if slices.ContainsFunc(c.Records, func(u metering.UsageRecord) bool { return slices.Contains(dimensions, u.Dimension) }) {
			return metering.Answer{}, exception(code)
		}
		return metering.Answer{}, nil
	}
}
