package modelcheck

import (
	"context"
	"errors"
	"time"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/usage"
)

// whenever is for roles that may begin at any moment.
const whenever = 1 << 10

// Meter is the discoverer of the hour at the offset at which it stands.
func Meter() Role {
	return discoverer("meter", func(p *Process, h metering.Hour) pipeline.Slice {
		return pipeline.MeterSlice(min(metering.MaxOffset, h.Offset(p.Now())))
	})
}

// AgeOut is the discoverer of hours past billing: of the shard that owns the scenario's hour at its last moment.
func AgeOut() Role {
	return discoverer("age-out", func(p *Process, h metering.Hour) pipeline.Slice {
		clock := p.model.Clock
		return pipeline.AgeoutSlice(metering.ShardOf(h, clock[len(clock)-1].At))
	})
}

func discoverer(name string, slice func(p *Process, h metering.Hour) pipeline.Slice) Role {
	return Role{Name: name, Until: whenever, Run: func(ctx context.Context, p *Process, _ string) (Told, error) {
		d := pipeline.Discoverer{
			Rows: p.Tables(), Records: p.Tables(), Subscribers: p, Work: p.Queue(WorkTopic), Deprovision: p.Queue(WorkTopic), Cleanup: p.Queue(CleanupTopic),
			Metrics: p, Rules: p.model.Rules, Concurrency: p, Now: p.Now,
		}
		_, err := d.Run(ctx, slice(p, p.model.Groups[0].Hour))
		return nil, err
	}}
}

// Aggregators handle visits of groups.
func Aggregators(n int) Role {
	return Role{Name: "aggregator", Count: n, Consumes: WorkTopic, Until: whenever, Run: func(ctx context.Context, p *Process, body string) (Told, error) {
		a := pipeline.Aggregator{Rows: p.Tables(), Records: p.Tables(), Cleanup: p.Queue(CleanupTopic), Metrics: p, Rules: p.model.Rules, Now: p.Now}
		return nil, handled(a.Handle(ctx, []pipeline.Message{{ID: "1", Body: body}}))
	}}
}

// Cleaners write labels, those of two rows at once.
func Cleaners(n int) Role {
	return Role{Name: "cleaner", Count: n, Consumes: CleanupTopic, Until: whenever, Unhurried: true, Run: func(ctx context.Context, p *Process, body string) (Told, error) {
		c := pipeline.Cleaner{
			Rows: p.Tables(), Metrics: p, Workers: 2, Jitter: func(d time.Duration) time.Duration { return d }, Concurrency: p, Now: p.Now, Sleep: p.Sleep,
		}
		return nil, handled(c.Handle(ctx, []pipeline.Message{{ID: "1", Body: body}}))
	}}
}

func handled(failed []string) error {
	if len(failed) > 0 {
		return errFault
	}
	return nil
}

// Submitter sends what waits.
func Submitter() Role {
	return Role{Name: "submitter", Until: whenever, Run: func(ctx context.Context, p *Process, _ string) (Told, error) {
		s := pipeline.Submitter{
			Records: p.Tables(), Subscribers: p, Metrics: p, Rules: p.model.Rules, Concurrency: p, Now: p.Now,
			Marketplace: marketplace.NewSender(p, marketplace.Settings{Concurrency: p, Now: p.Now, Sleep: p.Sleep}),
		}
		_, err := s.Run(ctx)
		return nil, err
	}}
}

// Expirer ends records past billing.
func Expirer() Role {
	return Role{Name: "expirer", Until: whenever, Run: func(ctx context.Context, p *Process, _ string) (Told, error) {
		e := pipeline.Expirer{Records: p.Tables(), Metrics: p, Rules: p.model.Rules, Concurrency: p, Now: p.Now}
		_, err := e.Run(ctx)
		return nil, err
	}}
}

// Adder is a seller's process that adds to rows without looking at their records, one after the other, each until it has an answer.
func Adder(flushes ...metering.Flush) Role {
	return Role{Name: "writer", Until: whenever, Unhurried: true, Run: func(ctx context.Context, p *Process, _ string) (Told, error) {
		for _, f := range flushes {
			for ctx.Err() == nil && p.FlushRows(ctx, []metering.Flush{f})[0].Err != nil {
			}
		}
		return nil, ctx.Err()
	}}
}

// Writer is a seller's process with the writer library: it writes events, each as a batch of its own, one after the other. Of a batch
// without an answer it loses patience, and sends it again.
func Writer(events ...usage.Event) Role {
	return Role{Name: "writer", Until: whenever, Run: func(ctx context.Context, p *Process, _ string) (Told, error) {
		w, err := usage.NewWriter(p, usage.Options{Fold: time.Second, FlushEvery: time.Minute, Now: p.Now})
		if err != nil {
			return nil, err
		}
		closing, closed := context.WithCancel(background)
		closed()
		defer func() { _ = w.Close(closing) }() // every batch has its answer: nothing is held
		var told Told
		for _, e := range events {
			key := metering.Group{Account: e.Account, Dimension: e.Dimension}.RowKey(metering.Second(e.Time.Unix()))
			told = append(told, Answer{e.License, key, e.Quantity, writeBatch(ctx, p, w, key, e)})
		}
		return told, nil
	}}
}

func writeBatch(ctx context.Context, p *Process, w *usage.Writer, id string, e usage.Event) Standing {
	for ctx.Err() == nil {
		p.patience, p.end = context.WithCancel(ctx)
		errs, err := w.WriteBatch(p.patience, id, []usage.Event{e})
		p.end()
		var refusal *usage.Refusal
		switch {
		case err != nil:
			continue // unknown
		case errs[0] == nil:
			return Written
		case errors.Is(errs[0], usage.ErrLate):
			return Late
		case errors.Is(errs[0], usage.ErrHourCommitted):
			return HourCommitted
		case errors.As(errs[0], &refusal):
			return Refused
		}
	}
	return Unknown
}

// Deleter is a seller who deletes a row.
func Deleter(r metering.Row) Role {
	return Role{Name: "seller", Until: whenever, Run: func(_ context.Context, p *Process, _ string) (Told, error) {
		return nil, p.DeleteRow(r.License, r.SortKey)
	}}
}

// Putter is a seller who puts a row in the place of another, without a condition.
func Putter(r metering.Row) Role {
	return Role{Name: "seller", Until: whenever, Run: func(_ context.Context, p *Process, _ string) (Told, error) {
		return nil, p.PutRow(r)
	}}
}
