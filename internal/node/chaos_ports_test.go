package node_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"net/http"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/queue/memory"
	store "github.com/awsmp/metering/internal/store/memory"
)

// frailStore is the memory store behind the gate: its reads fail, its writes fail or lose their replies, and its indexes lag.
type frailStore struct {
	*store.Store
	gate    *gate
	weather weather
	touched func(metering.Group)
	rows    map[string][]metering.PendingRow // what an index query last showed
	records map[string][]metering.Record
}

func (s *frailStore) PendingRows(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.PendingRow, error] {
	return index(ctx, s, "index of rows", h, license, s.rows, s.Store.PendingRows)
}

func (s *frailStore) PendingRecords(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.Record, error] {
	return index(ctx, s, "index of records", h, license, s.records, s.Store.PendingRecords)
}

// index reads an index query at one instant, or shows what it showed the time before. An empty hour costs no turn at the gate,
// or most of the day would be spent there.
func index[T any](ctx context.Context, s *frailStore, name string, h metering.Hour, license string, shown map[string][]T,
	read func(context.Context, metering.Hour, string) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		key := h.String() + license
		var now []T
		for v, err := range read(ctx, h, license) {
			if err != nil {
				yield(v, err)
				return
			}
			now = append(now, v)
		}
		if len(now) == 0 && len(shown[key]) == 0 {
			return
		}
		luck, err := s.gate.look(ctx, name+" "+key)
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		now = now[:0]
		for v, err := range read(ctx, h, license) { // as of the moment of its turn
			if err == nil {
				now = append(now, v)
			}
		}
		if before := shown[key]; len(before) > 0 && luck.Float64() < s.weather.stale {
			now = before
		} else {
			shown[key] = now
		}
		for _, v := range now {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// GroupRows stops at the gate before the first row and after every third: others write between its pages.
func (s *frailStore) GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error] {
	return func(yield func(metering.Row, error) bool) {
		n := 0
		if err := s.gate.read(ctx, "rows of "+g.RecordKey()); err != nil {
			yield(metering.Row{}, err)
			return
		}
		for row, err := range s.Store.GroupRows(ctx, g) {
			if n++; err == nil && n%4 == 0 {
				err = s.gate.read(ctx, "more rows of "+g.RecordKey())
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func (s *frailStore) Row(ctx context.Context, license, key string) (*metering.Row, error) {
	if err := s.gate.read(ctx, "row "+key); err != nil {
		return nil, err
	}
	return s.Store.Row(ctx, license, key)
}

func (s *frailStore) Record(ctx context.Context, g metering.Group) (*metering.Record, error) {
	if err := s.gate.read(ctx, "record "+g.License+g.RecordKey()); err != nil {
		return nil, err
	}
	return s.Store.Record(ctx, g)
}

func (s *frailStore) Deprovisioning(ctx context.Context) ([]metering.Deprovisioning, error) {
	if err := s.gate.read(ctx, "deprovisioning"); err != nil {
		return nil, err
	}
	return s.Store.Deprovisioning(ctx)
}

func (s *frailStore) ChangeSubscriber(ctx context.Context, c metering.SubscriberChange) (after metering.Subscriber, changed bool, err error) {
	_, err = write(ctx, s.gate, "change "+c.License, func(ctx context.Context, _ *rand.Rand) (struct{}, error) {
		after, changed, err = s.Store.ChangeSubscriber(ctx, c)
		return struct{}{}, err
	})
	if err != nil {
		return metering.Subscriber{}, false, err // also where it was made and the answer was lost
	}
	return after, changed, nil
}

// LabelRows lets each label be an effect of its own.
func (s *frailStore) LabelRows(ctx context.Context, labels []metering.Label) []metering.Labelled {
	out := make([]metering.Labelled, len(labels))
	for i, l := range labels {
		out[i].Outcome, out[i].Err = write(ctx, s.gate, "label "+l.License+l.SortKey, func(ctx context.Context, _ *rand.Rand) (metering.Outcome[metering.Row], error) {
			s.touchRow(l.License, l.SortKey)
			return s.Store.LabelRow(ctx, l)
		})
	}
	return out
}

func (s *frailStore) RebucketRow(ctx context.Context, b metering.Rebucket) (metering.Outcome[metering.Row], error) {
	return write(ctx, s.gate, "rebucket "+b.License+b.SortKey, func(ctx context.Context, _ *rand.Rand) (metering.Outcome[metering.Row], error) {
		s.touchRow(b.License, b.SortKey)
		return s.Store.RebucketRow(ctx, b)
	})
}

func (s *frailStore) CreateRecord(ctx context.Context, r metering.Record) (metering.Outcome[metering.Record], error) {
	return write(ctx, s.gate, "create "+r.License+r.SortKey, func(ctx context.Context, _ *rand.Rand) (metering.Outcome[metering.Record], error) {
		s.touchRecord(r.License, r.SortKey)
		return s.Store.CreateRecord(ctx, r)
	})
}

func (s *frailStore) MarkSent(ctx context.Context, m metering.Send) (metering.Outcome[metering.Record], error) {
	return write(ctx, s.gate, "mark "+m.License+m.SortKey, func(ctx context.Context, _ *rand.Rand) (metering.Outcome[metering.Record], error) {
		s.touchRecord(m.License, m.SortKey)
		return s.Store.MarkSent(ctx, m)
	})
}

func (s *frailStore) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	return write(ctx, s.gate, "finish "+f.License+f.SortKey, func(ctx context.Context, _ *rand.Rand) (metering.Outcome[metering.Record], error) {
		s.touchRecord(f.License, f.SortKey)
		return s.Store.FinishRecord(ctx, f)
	})
}

func (s *frailStore) touchRow(license, sortKey string) {
	if key, reason := metering.ParseRowKey(sortKey); reason == "" {
		s.touched(key.Group(license))
	}
}

func (s *frailStore) touchRecord(license, sortKey string) {
	if g, reason := metering.ParseRecordKey(license, sortKey); reason == "" {
		s.touched(g)
	}
}

// frailQueue loses and doubles messages, and refuses some.
type frailQueue struct {
	*memory.Queue
	name    string
	gate    *gate
	weather weather
}

func (q *frailQueue) Send(ctx context.Context, bodies []string) ([]int, error) {
	sum := sha256.Sum256([]byte(fmt.Sprint(bodies)))
	return write(ctx, q.gate, fmt.Sprintf("send to %s %x", q.name, sum[:4]), func(ctx context.Context, luck *rand.Rand) (refused []int, err error) {
		for i, body := range bodies {
			copies := 1
			switch x := luck.Float64(); {
			case x < q.weather.drop: // taken, and never seen again
				copies = 0
			case x < q.weather.drop+q.weather.double:
				copies = 2
			case x < q.weather.drop+q.weather.double+q.weather.fail:
				refused = append(refused, i)
				copies = 0
			}
			for range copies {
				if _, err := q.Queue.Send(ctx, []string{body}); err != nil {
					return nil, err
				}
			}
		}
		return refused, nil
	})
}

// frailNetwork is the way to the simulator: calls that never arrive, and answers that never come back.
type frailNetwork struct {
	client *http.Client
	gate   *gate
	called func()
}

func (n frailNetwork) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	sum := sha256.Sum256(body)
	return write(r.Context(), n.gate, fmt.Sprintf("call %x", sum[:6]), func(ctx context.Context, _ *rand.Rand) (*http.Response, error) {
		n.called()
		return n.client.Do(r.WithContext(ctx))
	})
}
