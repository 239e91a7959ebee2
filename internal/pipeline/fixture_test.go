package pipeline_test

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	queuememory "github.com/awsmp/metering/internal/queue/memory"
	"github.com/awsmp/metering/internal/store/memory"
	"github.com/awsmp/metering/internal/telemetry"
)

const (
	licenseOne = "arn:aws:license-manager::111122223333:license:l-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	licenseTwo = "arn:aws:license-manager::111122223333:license:l-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
	buyer      = "111122223333"
	apiCalls   = "api_calls"
)

var (
	noon       = time.Date(2026, 3, 10, 15, 20, 0, 0, time.UTC)
	hour       = metering.HourOf(noon) - 1
	errRefused = errors.New("refused by the test")
)

// bench is the parts that the stages under test stand on.
type bench struct {
	t       testing.TB
	ctx     context.Context
	now     time.Time
	store   *memory.Store
	work    *queuememory.Queue
	cleanup *queuememory.Queue
	metrics *telemetry.Counters
}

func newBench(t testing.TB) *bench {
	b := &bench{t: t, ctx: t.Context(), now: noon, store: memory.New(memory.Options{}), metrics: &telemetry.Counters{}}
	b.work, b.cleanup = queuememory.New(queuememory.Options{Now: b.clock}), queuememory.New(queuememory.Options{Now: b.clock})
	return b
}

func (b *bench) clock() time.Time { return b.now }

func (b *bench) discoverer() *pipeline.Discoverer {
	return &pipeline.Discoverer{
		Rows: b.store, Records: b.store, Subscribers: b.store, Work: b.work, Deprovision: b.work, Cleanup: b.cleanup,
		Metrics: b.metrics, Now: b.clock,
	}
}

func (b *bench) aggregator() *pipeline.Aggregator {
	return &pipeline.Aggregator{Rows: b.store, Records: b.store, Cleanup: b.cleanup, Metrics: b.metrics, Now: b.clock}
}

func (b *bench) submitter(m pipeline.Marketplace) *pipeline.Submitter {
	return &pipeline.Submitter{Records: b.store, Subscribers: b.store, Marketplace: m, Metrics: b.metrics, Now: b.clock}
}

// taken empties a queue and returns the bodies.
func (b *bench) taken(q *queuememory.Queue) (bodies []string) {
	b.t.Helper()
	for {
		batch, err := q.Receive(b.ctx, 10)
		if err != nil {
			b.t.Fatal(err)
		}
		if len(batch) == 0 {
			return bodies
		}
		for _, d := range batch {
			bodies = append(bodies, d.Body)
			if err := q.Delete(b.ctx, d.Receipt); err != nil {
				b.t.Fatal(err)
			}
		}
	}
}

// labels are the cleanup messages that wait.
func (b *bench) labels() (list []metering.CleanupMessage) {
	b.t.Helper()
	for _, body := range b.taken(b.cleanup) {
		m, err := metering.Decode[metering.CleanupMessage](body)
		if err != nil {
			b.t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

func (b *bench) put(rows ...metering.Row) {
	b.t.Helper()
	for _, r := range rows {
		if err := b.store.PutRow(b.ctx, r); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) putRecords(records ...metering.Record) {
	b.t.Helper()
	for _, r := range records {
		if err := b.store.PutRecord(b.ctx, r); err != nil {
			b.t.Fatal(err)
		}
	}
}

// deprovision has a license's last hour end at expiry.
func (b *bench) deprovision(license, account string, expiry time.Time) {
	b.t.Helper()
	event := metering.LicenseEvent{License: license, Account: account, At: expiry.Add(-metering.DeprovisionWindow)}
	if _, _, err := b.store.ChangeSubscriber(b.ctx, event.DeprovisionedAt(b.now)); err != nil {
		b.t.Fatal(err)
	}
}

// record is a record as it stands; the zero Record where there is none.
func (b *bench) record(r metering.Record) metering.Record {
	b.t.Helper()
	for got, err := range b.store.LicenseRecords(b.ctx, r.License) {
		if err != nil {
			b.t.Fatal(err)
		}
		if got.SortKey == r.SortKey {
			return got
		}
	}
	return metering.Record{}
}

func groupOf(license, dimension string, h metering.Hour) metering.Group {
	return metering.Group{License: license, Account: buyer, Dimension: dimension, Hour: h}
}

// rowAt is a well-formed row of the group, waiting, so many seconds into its hour.
func rowAt(g metering.Group, second int, quantity int64) metering.Row {
	return metering.NewRow(g, g.Hour.Second(second), quantity)
}

func altered(r metering.Record, attributes metering.Item) metering.Record {
	item := r.Item()
	for name, v := range attributes {
		if v == nil {
			delete(item, name)
			continue
		}
		item[name] = v
	}
	return metering.RecordFromItem(item)
}

// listing is a Marketplace that reads the lanes, writes down what would be sent, in order, and sends nothing.
type listing struct {
	sent [][]metering.Record // by lane
	do   func(desk pipeline.Desk)
}

func (l *listing) Send(_ context.Context, lanes []iter.Seq2[metering.Record, error], desk pipeline.Desk) (metering.SendReport, error) {
	l.sent = make([][]metering.Record, len(lanes))
	for i, lane := range lanes {
		for r, err := range lane {
			if err != nil {
				return metering.SendReport{}, err
			}
			l.sent[i] = append(l.sent[i], r)
		}
	}
	if l.do != nil {
		l.do(desk)
	}
	return metering.SendReport{}, nil
}

func (l *listing) all() (list []metering.Record) {
	for _, lane := range l.sent {
		list = append(list, lane...)
	}
	return list
}
