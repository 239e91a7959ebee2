package simulation

import (
	"context"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// tables are the tables behind the seam: reads fail, writes fail or lose their replies, and indexes lag. What the world's own people
// do goes past it, to the store in memory.
type tables struct {
	*memory.Store
	seam    *seam
	check   *checker
	rows    map[string][]metering.PendingRow // what an index query last showed
	records map[string][]metering.Record
	members map[string][]metering.Subscriber
}

func (s *tables) PendingRows(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.PendingRow, error] {
	bucket := h.String()
	if waits, _ := s.Waits(bucket); !waits && len(s.rows[bucket+license]) == 0 {
		return nothing
	}
	return index(s, "reads the index of rows under "+bucket, license, bucket+license, s.rows, s.Store.PendingRows(ctx, h, license))
}

func (s *tables) PendingRecords(ctx context.Context, h metering.Hour, license string) iter.Seq2[metering.Record, error] {
	bucket := h.String()
	if _, waits := s.Waits(bucket); !waits && len(s.records[bucket+license]) == 0 {
		return nothing
	}
	return index(s, "reads the index of records under "+bucket, license, bucket+license, s.records, s.Store.PendingRecords(ctx, h, license))
}

// waits reports whether anything waits, or did when the index was last read, under an hour that is asked for.
func (s *tables) waits(asked func(metering.Hour) bool) bool {
	of := func(bucket string) bool {
		h, err := metering.ParseHour(bucket)
		return err != nil || asked(h)
	}
	if slices.ContainsFunc(s.Buckets(), of) {
		return true
	}
	for key := range s.rows {
		if of(key[:len(bucketLayout)]) {
			return true
		}
	}
	for key := range s.records {
		if of(key[:len(bucketLayout)]) {
			return true
		}
	}
	return false
}

const bucketLayout = "YYYY-MM-DDTHH"

// nothing is what an index shows where nothing waits. Looking there takes no turn, or most of the day would be spent on it.
func nothing[T any](func(T, error) bool) {}

func (s *tables) AgreementSubscribers(ctx context.Context, agreement string) iter.Seq2[metering.Subscriber, error] {
	return index(s, "reads the licenses of agreement "+agreement, "", agreement, s.members, s.Store.AgreementSubscribers(ctx, agreement))
}

// index reads an index query at one instant, or shows what it showed the time before.
func index[T any](s *tables, name, partition, key string, shown map[string][]T, read iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		of, luck, err := s.seam.look(name, partition)
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		var now []T
		for v, err := range read { // as of the moment of its turn
			if err != nil {
				yield(v, err)
				return
			}
			now = append(now, v)
		}
		if before := shown[key]; len(before) > 0 && s.seam.strikes(StaleIndex, of, s.seam.weather.stale, luck) {
			s.seam.say(s.seam.current.process.name, "sees what the index showed before: it %s", name)
			now = before
		} else {
			if shown[key] = now; len(now) == 0 {
				delete(shown, key)
			}
		}
		for _, v := range now {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// GroupRows takes a turn before the first row and after every third: others write between its pages.
func (s *tables) GroupRows(ctx context.Context, g metering.Group) iter.Seq2[metering.Row, error] {
	return func(yield func(metering.Row, error) bool) {
		n := 0
		if _, _, err := s.seam.look("reads the rows of "+g.RecordKey(), g.License); err != nil {
			yield(metering.Row{}, err)
			return
		}
		for row, err := range s.Store.GroupRows(ctx, g) {
			if n++; err == nil && n%4 == 0 {
				_, _, err = s.seam.look("reads more rows of "+g.RecordKey(), g.License)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func (s *tables) Row(ctx context.Context, license, key string) (*metering.Row, error) {
	if _, _, err := s.seam.look("reads row "+key, license); err != nil {
		return nil, err
	}
	return s.Store.Row(ctx, license, key)
}

func (s *tables) Record(ctx context.Context, g metering.Group) (*metering.Record, error) {
	if _, _, err := s.seam.look("reads record "+g.RecordKey(), g.License); err != nil {
		return nil, err
	}
	return s.Store.Record(ctx, g)
}

func (s *tables) LicenseRecords(ctx context.Context, license string) iter.Seq2[metering.Record, error] {
	return func(yield func(metering.Record, error) bool) {
		if _, _, err := s.seam.look("reads the records of a license", license); err != nil {
			yield(metering.Record{}, err)
			return
		}
		s.Store.LicenseRecords(ctx, license)(yield)
	}
}

func (s *tables) Deprovisioning(ctx context.Context) ([]metering.Deprovisioning, error) {
	list, err := s.Store.Deprovisioning(ctx)
	if err == nil && len(list) == 0 {
		return nil, nil
	}
	if _, _, err := s.seam.look("lists the licenses in their last hour", ""); err != nil {
		return nil, err
	}
	return s.Store.Deprovisioning(ctx)
}

func (s *tables) ChangeSubscriber(ctx context.Context, c metering.SubscriberChange) (after metering.Subscriber, changed bool, err error) {
	_, err = act(s.seam, "changes subscriber "+c.License, "", func(string, *rand.Rand) (struct{}, error) {
		before, _ := s.Store.Subscriber(context.WithoutCancel(ctx), c.License, c.Account)
		after, changed, err = s.Store.ChangeSubscriber(context.WithoutCancel(ctx), c)
		s.check.changed(before, after)
		return struct{}{}, err
	})
	if err != nil {
		return metering.Subscriber{}, false, err // also where it was made and the answer was lost
	}
	return after, changed, nil
}

// LabelRows lets each label be an effect of its own.
func (s *tables) LabelRows(ctx context.Context, labels []metering.Label) []metering.Labelled {
	out := make([]metering.Labelled, len(labels))
	for i, l := range labels {
		name := "labels row " + l.SortKey + " " + string(l.Status)
		out[i].Outcome, out[i].Err = act(s.seam, name, l.License, func(string, *rand.Rand) (metering.Outcome[metering.Row], error) {
			return s.check.row(ctx, l.License, l.SortKey, func() (metering.Outcome[metering.Row], error) {
				out := s.Store.LabelRows(context.WithoutCancel(ctx), []metering.Label{l})[0]
				return out.Outcome, out.Err
			})
		})
	}
	return out
}

func (s *tables) RebucketRow(ctx context.Context, b metering.Rebucket) (metering.Outcome[metering.Row], error) {
	return act(s.seam, "corrects the bucket of "+b.SortKey, b.License, func(string, *rand.Rand) (metering.Outcome[metering.Row], error) {
		return s.check.row(ctx, b.License, b.SortKey, func() (metering.Outcome[metering.Row], error) {
			s.check.refiled(b.License, b.SortKey)
			return s.Store.RebucketRow(context.WithoutCancel(ctx), b)
		})
	})
}

func (s *tables) CreateRecord(ctx context.Context, r metering.Record) (metering.Outcome[metering.Record], error) {
	return s.record(ctx, "commits record "+r.SortKey+" with "+count(r.Quantity), r.License, r.SortKey, func(ctx context.Context) (metering.Outcome[metering.Record], error) {
		return s.Store.CreateRecord(ctx, r)
	})
}

func (s *tables) MarkSent(ctx context.Context, m metering.Send) (metering.Outcome[metering.Record], error) {
	return s.record(ctx, "marks as sent "+m.SortKey, m.License, m.SortKey, func(ctx context.Context) (metering.Outcome[metering.Record], error) {
		return s.Store.MarkSent(ctx, m)
	})
}

func (s *tables) FinishRecord(ctx context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	return s.record(ctx, "writes "+string(f.Status)+" on "+f.SortKey, f.License, f.SortKey, func(ctx context.Context) (metering.Outcome[metering.Record], error) {
		return s.Store.FinishRecord(ctx, f)
	})
}

func (s *tables) ReopenRecord(ctx context.Context, x metering.Reopen) (metering.Outcome[metering.Record], error) {
	return s.record(ctx, "reopens "+x.SortKey, x.License, x.SortKey, func(ctx context.Context) (metering.Outcome[metering.Record], error) {
		return s.Store.ReopenRecord(ctx, x)
	})
}

// record is a write to a record.
func (s *tables) record(ctx context.Context, name, license, sortKey string, write func(context.Context) (metering.Outcome[metering.Record], error)) (metering.Outcome[metering.Record], error) {
	return act(s.seam, name, license, func(string, *rand.Rand) (metering.Outcome[metering.Record], error) {
		return s.check.record(ctx, license, sortKey, func() (metering.Outcome[metering.Record], error) {
			return write(context.WithoutCancel(ctx))
		})
	})
}

// FlushRows is the writer library's way in.
func (s *tables) FlushRows(ctx context.Context, flushes []metering.Flush) []metering.Flushed {
	out := make([]metering.Flushed, len(flushes))
	for i, f := range flushes {
		done, err := act(s.seam, "flushes "+f.Token+" into "+f.SortKey(), f.Group.License, func(string, *rand.Rand) (metering.Flushed, error) {
			done := s.Store.FlushRows(context.WithoutCancel(ctx), []metering.Flush{f})[0]
			if done.Done {
				s.check.flushed(f)
			}
			return done, done.Err
		})
		if out[i] = done; err != nil {
			out[i] = metering.Flushed{Err: err}
		}
	}
	return out
}
