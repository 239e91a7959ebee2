package simulation

import (
	"context"
	"iter"
	"math/rand/v2"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/simulator"
)

// The ports of the stages as a variant uses them: behind the same seam and under the eyes of the same checker, with a rule of its own
// where it has one.

// rowsBy is the usage table. What is nil is done as it should be.
type rowsBy struct {
	*tables
	finds  func(metering.PendingRow) bool                                // entries of the index that are heeded
	reads  func(metering.Group, metering.Row) (metering.Row, bool)       // rows of a group as they are read
	labels func(metering.Label, *metering.Row) (r metering.Row, ok bool) // the write of a label
}

func (s rowsBy) PendingRows(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.PendingRow, error] {
	return as(s.tables.PendingRows(ctx, h, license), func(r metering.PendingRow) (metering.PendingRow, bool) {
		return r, s.finds == nil || s.finds(r)
	})
}

func (s rowsBy) GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error] {
	return as(s.tables.GroupRows(ctx, g), func(r metering.Row) (metering.Row, bool) {
		if s.reads == nil {
			return r, true
		}
		return s.reads(g, r)
	})
}

func (s rowsBy) LabelRows(ctx context.Context, labels []metering.Label) []metering.Labelled {
	if s.labels == nil {
		return s.tables.LabelRows(ctx, labels)
	}
	out, whole := make([]metering.Labelled, len(labels)), context.WithoutCancel(ctx)
	for i, l := range labels {
		out[i].Outcome, out[i].Err = act(s.seam, "labels row "+l.SortKey+" "+string(l.Status), l.License, func(string, *rand.Rand) (metering.Outcome[metering.Row], error) {
			return s.check.row(ctx, l.License, l.SortKey, func() (metering.Outcome[metering.Row], error) {
				return s.UpdateRow(whole, l.License, l.SortKey, func(old *metering.Row) (metering.Row, bool) { return s.labels(l, old) })
			})
		})
	}
	return out
}

// carefully is a label as it is written: where its condition holds.
func carefully(l metering.Label, old *metering.Row) (metering.Row, bool) {
	if old == nil || !l.Holds(*old) {
		return metering.Row{}, false
	}
	return l.Apply(*old), true
}

// as shows each element as another, or not at all.
func as[T any](list iter.Seq2[T, error], show func(T) (T, bool)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for v, err := range list {
			ok := true
			if err == nil {
				v, ok = show(v)
			}
			if ok && !yield(v, err) {
				return
			}
		}
	}
}

// recordsBy is the aggregated-usage table. What is nil is done as it should be.
type recordsBy struct {
	*tables
	reads    func(*metering.Record) *metering.Record // a group's record as it is read
	finds    func(metering.Record) bool              // entries of the index that are heeded
	marks    func(metering.Send) bool                // whether a mark is written at all
	finishes func(metering.Finish, metering.Record) bool
	later    *[]metering.Finish // where set, verdicts are kept here instead
}

func (s recordsBy) Record(ctx context.Context, g metering.Group) (*metering.Record, error) {
	r, err := s.tables.Record(ctx, g)
	if s.reads != nil && err == nil {
		r = s.reads(r)
	}
	return r, err
}

func (s recordsBy) PendingRecords(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.Record, error] {
	return as(s.tables.PendingRecords(ctx, h, license), func(r metering.Record) (metering.Record, bool) {
		return r, s.finds == nil || s.finds(r)
	})
}

func (s recordsBy) MarkSent(ctx context.Context, m metering.Send) (metering.Outcome[metering.Record], error) {
	if s.marks != nil && !s.marks(m) {
		return metering.Outcome[metering.Record]{Done: true}, nil
	}
	return s.tables.MarkSent(ctx, m)
}

func (s recordsBy) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	if s.later != nil {
		*s.later = append(*s.later, f)
		return metering.Outcome[metering.Record]{Done: true}, nil
	}
	if s.finishes == nil {
		return s.tables.FinishRecord(ctx, f)
	}
	return s.record(ctx, "writes "+string(f.Status)+" on "+f.SortKey, f.License, f.SortKey, func(ctx context.Context) (out metering.Outcome[metering.Record], err error) {
		g, _ := metering.ParseRecordKey(f.License, f.SortKey)
		old, err := s.Store.Record(ctx, g)
		if err != nil || old == nil || !s.finishes(f, *old) {
			out.Old = old
			return out, err
		}
		return metering.Outcome[metering.Record]{Done: true}, s.PutRecord(ctx, f.Apply(*old))
	})
}

// untilQuiet is the usage table for one sweep that gives up after six hours in a row under which nothing waits.
type untilQuiet struct {
	*tables
	quiet int
}

func (s *untilQuiet) PendingRows(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.PendingRow, error] {
	return func(yield func(metering.PendingRow, error) bool) {
		if s.quiet >= 6 {
			return
		}
		s.quiet++
		for v, err := range s.tables.PendingRows(ctx, h, license) {
			s.quiet = 0
			if !yield(v, err) {
				return
			}
		}
	}
}

// sends is the Marketplace's client with another way of calling it, or other settings.
func (w *world) sends(s marketplace.Settings, change func(metering.Call, metering.Answer, error) (metering.Answer, error)) pipeline.Marketplace {
	net := &network{seam: w.seam, check: w.check, client: w.sim.Client()}
	api := calls{network: net, API: marketplace.New(marketplace.Options{
		Region: "us-east-1", Endpoint: simulator.Endpoint, ProductCode: simulator.DefaultProductCode, HTTPClient: net,
	})}
	s.Now, s.Sleep, s.Concurrency = w.Now, w.Sleep, w
	return marketplace.NewSender(answersBy{api, change}, s)
}

type answersBy struct {
	calls
	change func(metering.Call, metering.Answer, error) (metering.Answer, error)
}

func (a answersBy) Call(ctx context.Context, c metering.Call) (metering.Answer, error) {
	answer, err := a.calls.Call(ctx, c)
	if a.change == nil {
		return answer, err
	}
	return a.change(c, answer, err)
}

// deafTo drops one metric.
type deafTo struct {
	pipeline.Metrics
	metric metering.Metric
}

func (d deafTo) Emit(m metering.Measure) {
	if m.Metric != d.metric {
		d.Metrics.Emit(m)
	}
}
