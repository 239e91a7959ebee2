package node_test

import (
	"context"
	"hash/fnv"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/node"
	"github.com/awsmp/metering/internal/pipeline"
)

// What a request is assumed to cost where the tables and queues are a network away, and how many visits run at once there: as many as the
// queue that a group's message comes by has consumers (docs/functions.md). On a node there is one, so its visits take that part of the time.
const (
	request        = 10 * time.Millisecond // on average: from half of it to half as much again
	callLatency    = 200 * time.Millisecond
	closingVisits  = 5
	ordinaryVisits = 20
)

// toll is a store that takes the time which one over a network does, and counts what it is asked. Which request takes how long depends on
// nothing but the request, so that a run repeats exactly; and hardly two take equally long, so that no order is left to chance.
type toll struct {
	node.Store
	closing func(license string) bool

	mu     sync.Mutex
	counts counts
}

// counts are requests by their purpose.
type counts struct {
	flush, lookups int // index queries of one license and hour, by whom
	visits         int // reads of groups of those who leave
}

func (s *toll) add(change func(*counts)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.counts)
}

func (s *toll) seen() counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// pay waits as long as the request takes, of which share run at once.
func pay(ctx context.Context, share int, of ...string) {
	sum := fnv.New64a()
	for _, text := range of {
		_, _ = io.WriteString(sum, text)
	}
	timer := time.NewTimer((request/2 + time.Duration(sum.Sum64()%uint64(request))) / time.Duration(share))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// visitors is how many groups are visited at once beside one of this license.
func (s *toll) visitors(license string) int {
	if s.closing(license) {
		return closingVisits
	}
	return ordinaryVisits
}

func (s *toll) PendingRows(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.PendingRow, error] {
	return func(yield func(metering.PendingRow, error) bool) {
		if license != "" {
			s.add(func(c *counts) { c.flush++ })
		}
		pay(ctx, 1, "rows", h.String(), license)
		s.Store.PendingRows(ctx, h, license)(yield)
	}
}

func (s *toll) PendingRecords(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.Record, error] {
	return func(yield func(metering.Record, error) bool) {
		if license != "" {
			s.add(func(c *counts) { c.lookups++ })
		}
		pay(ctx, 1, "records", h.String(), license)
		s.Store.PendingRecords(ctx, h, license)(yield)
	}
}

func (s *toll) GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error] {
	return func(yield func(metering.Row, error) bool) {
		if s.closing(g.License) {
			s.add(func(c *counts) { c.visits++ })
		}
		pay(ctx, s.visitors(g.License), "group", g.License, g.RecordKey())
		s.Store.GroupRows(ctx, g)(yield)
	}
}

func (s *toll) Record(ctx context.Context, g metering.Group) (*metering.Record, error) {
	pay(ctx, s.visitors(g.License), "record", g.License, g.RecordKey())
	return s.Store.Record(ctx, g)
}

func (s *toll) CreateRecord(ctx context.Context, r metering.Record) (metering.Outcome[metering.Record], error) {
	pay(ctx, s.visitors(r.License), "create", r.License, r.SortKey)
	return s.Store.CreateRecord(ctx, r)
}

func (s *toll) MarkSent(ctx context.Context, m metering.Send) (metering.Outcome[metering.Record], error) {
	pay(ctx, 1, "mark", m.License, m.SortKey)
	return s.Store.MarkSent(ctx, m)
}

func (s *toll) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	pay(ctx, 1, "finish", f.License, f.SortKey)
	return s.Store.FinishRecord(ctx, f)
}

// tollQueue is a queue to which sending takes its time.
type tollQueue struct {
	pipeline.Queue
	share int
}

func (q tollQueue) Send(ctx context.Context, bodies []string) ([]int, error) {
	pay(ctx, q.share, bodies...)
	return q.Queue.Send(ctx, bodies)
}
