package node_test

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/awsmp/metering/internal/marketplace"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/pipeline"
	"github.com/awsmp/metering/simulator"
)

// outcome is what becomes of one operation.
type outcome int

const (
	pass      outcome = iota
	refuse            // an error, and nothing was done
	loseReply         // done, and an error all the same
	drop              // nothing was done, and the answer says it was: a message that is lost later
	double            // done twice
)

var errStruck = errors.New("injected fault")

// op names an operation that writes.
type op string

const (
	opLabel  op = "LabelRow"
	opBucket op = "RebucketRow"
	opCreate op = "CreateRecord"
	opMark   op = "MarkSent"
	opFinish op = "FinishRecord"
)

// brittleStore decides the outcome of each write and can serve index pages from before.
type brittleStore struct {
	node.Store
	// strike gets the operation and how often it has been asked for so far, from 1; it also stands for what others write at
	// that very moment.
	strike func(o op, n int, sortKey string) outcome

	mu      sync.Mutex
	count   map[op]int
	records map[metering.Hour][]metering.Record
	rows    map[metering.Hour][]metering.PendingRow
}

// brittle puts a brittleStore between a world's stages and its store.
func brittle(into **brittleStore, strike func(o op, n int, sortKey string) outcome) option {
	return withConfig(func(c *node.Config) {
		s := &brittleStore{Store: c.Store, strike: strike, count: make(map[op]int)}
		if into != nil {
			*into = s
		}
		c.Store = s
	})
}

func (s *brittleStore) outcomeOf(o op, sortKey string) outcome {
	s.mu.Lock()
	s.count[o]++
	n := s.count[o]
	s.mu.Unlock()
	if s.strike == nil {
		return pass
	}
	return s.strike(o, n, sortKey)
}

func written[T any](f outcome, write func() (metering.Outcome[T], error)) (metering.Outcome[T], error) {
	if f == refuse {
		return metering.Outcome[T]{}, errStruck
	}
	out, err := write()
	if f == loseReply {
		return metering.Outcome[T]{}, errStruck
	}
	return out, err
}

func (s *brittleStore) LabelRows(ctx context.Context, labels []metering.Label) []metering.Labelled {
	out := make([]metering.Labelled, len(labels))
	for i, l := range labels {
		out[i].Outcome, out[i].Err = written(s.outcomeOf(opLabel, l.SortKey), func() (metering.Outcome[metering.Row], error) {
			done := s.Store.LabelRows(ctx, []metering.Label{l})[0]
			return done.Outcome, done.Err
		})
	}
	return out
}

func (s *brittleStore) RebucketRow(ctx context.Context, b metering.Rebucket) (metering.Outcome[metering.Row], error) {
	return written(s.outcomeOf(opBucket, b.SortKey), func() (metering.Outcome[metering.Row], error) { return s.Store.RebucketRow(ctx, b) })
}

func (s *brittleStore) CreateRecord(ctx context.Context, r metering.Record) (metering.Outcome[metering.Record], error) {
	return written(s.outcomeOf(opCreate, r.SortKey), func() (metering.Outcome[metering.Record], error) { return s.Store.CreateRecord(ctx, r) })
}

func (s *brittleStore) MarkSent(ctx context.Context, m metering.Send) (metering.Outcome[metering.Record], error) {
	return written(s.outcomeOf(opMark, m.SortKey), func() (metering.Outcome[metering.Record], error) { return s.Store.MarkSent(ctx, m) })
}

func (s *brittleStore) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	return written(s.outcomeOf(opFinish, f.SortKey), func() (metering.Outcome[metering.Record], error) { return s.Store.FinishRecord(ctx, f) })
}

// freeze keeps what both indexes say of an hour now: from here on they lag behind the table.
func (s *brittleStore) freeze(ctx context.Context, h metering.Hour) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records, s.rows = make(map[metering.Hour][]metering.Record), make(map[metering.Hour][]metering.PendingRow)
	for r := range s.Store.PendingRecords(ctx, h, "") {
		s.records[h] = append(s.records[h], r)
	}
	for r := range s.Store.PendingRows(ctx, h, "") {
		s.rows[h] = append(s.rows[h], r)
	}
}

// thaw lets the indexes catch up.
func (s *brittleStore) thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records, s.rows = nil, nil
}

func (s *brittleStore) PendingRecords(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.Record, error] {
	s.mu.Lock()
	list, frozen := s.records[h]
	s.mu.Unlock()
	if !frozen {
		return s.Store.PendingRecords(ctx, h, license)
	}
	return listed(list, func(r metering.Record) bool { return license == "" || r.License == license })
}

func (s *brittleStore) PendingRows(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.PendingRow, error] {
	s.mu.Lock()
	list, frozen := s.rows[h]
	s.mu.Unlock()
	if !frozen {
		return s.Store.PendingRows(ctx, h, license)
	}
	return listed(list, func(r metering.PendingRow) bool { return license == "" || r.License == license })
}

func listed[T any](list []T, keep func(T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if keep(v) && !yield(v, nil) {
				return
			}
		}
	}
}

// brittleQueue decides the outcome of each Send, counted from 1.
type brittleQueue struct {
	pipeline.Queue
	strike func(n int) outcome
	mu     sync.Mutex
	n      int
}

func (q *brittleQueue) Send(ctx context.Context, bodies []string) ([]int, error) {
	q.mu.Lock()
	q.n++
	f := q.strike(q.n)
	q.mu.Unlock()
	switch f {
	case refuse:
		return nil, errStruck
	case drop:
		return nil, nil
	case double:
		if _, err := q.Queue.Send(ctx, bodies); err != nil {
			return nil, err
		}
	case loseReply:
		if _, err := q.Queue.Send(ctx, bodies); err != nil {
			return nil, err
		}
		return nil, errStruck
	}
	return q.Queue.Send(ctx, bodies)
}

// interposedAPI stands between the sender and the service: it may do something before a call, fail it, or change its answer.
type interposedAPI struct {
	marketplace.API
	before func(c metering.Call) error
	after  func(a *metering.Answer)
}

func (a interposedAPI) Call(ctx context.Context, c metering.Call) (metering.Answer, error) {
	if a.before != nil {
		if err := a.before(c); err != nil {
			return metering.Answer{}, err
		}
	}
	answer, err := a.API.Call(ctx, c)
	if a.after != nil && err == nil {
		a.after(&answer)
	}
	return answer, err
}

// interpose puts something between the submitter and the service.
func (w *world) interpose(before func(c metering.Call) error, after func(a *metering.Answer)) {
	client := marketplace.New(marketplace.Options{
		Region: "us-east-1", Endpoint: "http://simulator.invalid", HTTPClient: w.sim.Client(), ProductCode: simulator.DefaultProductCode,
	})
	w.Submit.Marketplace = marketplace.NewSender(interposedAPI{client, before, after}, marketplace.Settings{Now: w.clock.Now, Sleep: w.clock.Sleep})
}

// collector is a queue that hands everything over at once and keeps nothing.
type collector func(bodies []string)

func (c collector) Send(_ context.Context, bodies []string) ([]int, error) {
	c(bodies)
	return nil, nil
}

// lateMarks does something after each mark.
type lateMarks struct {
	pipeline.Records
	after func()
}

func (l lateMarks) MarkSent(ctx context.Context, s metering.Send) (metering.Outcome[metering.Record], error) {
	out, err := l.Records.MarkSent(ctx, s)
	l.after()
	return out, err
}
