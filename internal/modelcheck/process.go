package modelcheck

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/internal/store/memory"
)

// kind is what an effect needs to be done.
type kind uint8

const (
	looks  kind = iota // at the tables
	scans              // an index of theirs
	writes             // to the tables
	sends              // messages
	calls              // the Marketplace
	clock              // looks at the clock
)

// effect is one step of a process.
type effect struct {
	kind kind
	// name tells it with all its arguments: two effects of one name do the same.
	name string
	says string // it in words

	do       func(s *memory.Store) any   // on the tables
	sells    func(before *tables) []sold // what sellers have written after it; nil for a stage's
	loses    []metering.Metric           // one of which must have been emitted before: the write ends something unbilled
	call     *metering.Call
	messages []int32 // that are sent
}

// errFault is what a failed effect fails with, and an effect whose answer was lost.
var errFault = errors.New("no answer")

var background = context.Background()

// Process is one run of a role: everything that its stage acts through. It is a stage's tables, queue, Marketplace, clock and concurrency.
type Process struct {
	*machine
	model *model
	role  *Role
	// patience ends with the first effect that gets no answer.
	patience context.Context
	end      context.CancelFunc
}

// Tables are the tables as the role's stage sees them.
func (p *Process) Tables() Tables {
	if p.model.broken != nil {
		return p.model.broken(p.role.Name, p)
	}
	return p
}

// Now is the time at the moment at which the clock stands.
func (p *Process) Now() time.Time {
	if p.role.Unhurried || p.gone {
		return p.model.Clock[0].At
	}
	if p.moment == unread {
		p.machine.ask(&effect{kind: clock, name: "clock", says: "looks at the clock"})
	}
	p.looked = true
	if p.moment == unread { // given up meanwhile
		return p.model.Clock[0].At
	}
	return p.model.Clock[p.moment].At
}

// Sleep takes no time: others may act whenever they like.
func (p *Process) Sleep(ctx context.Context, _ time.Duration) error {
	if p.gone {
		return errGone
	}
	return ctx.Err()
}

// Emit is part of pipeline.Metrics.
func (p *Process) Emit(m metering.Measure) { p.spoken[m.Metric] = true }

// ask does an effect and returns its value, and the error where there is none.
func ask[T any](p *Process, e *effect) (T, error) {
	a := p.machine.ask(e)
	if errors.Is(a.err, errFault) {
		p.end()
	}
	v, _ := a.value.(T)
	return v, a.err
}

// stamp is the audit time of all writes: no rule reads it, and states that differ in it alone are the same.
func (p *Process) stamp() time.Time { return p.model.Clock[0].At }

func (p *Process) stampText() string { return p.stamp().UTC().Format(time.RFC3339) }

// Record is part of pipeline.Records.
func (p *Process) Record(_ context.Context, g metering.Group) (*metering.Record, error) {
	return ask[*metering.Record](p, &effect{
		kind: looks, name: "record " + g.License + g.RecordKey(), says: "reads the record of " + short(g.License, g.RecordKey()),
		do: func(s *memory.Store) any { r, err := s.Record(background, g); must(err); return r },
	})
}

// Row is part of pipeline.Rows.
func (p *Process) Row(_ context.Context, license, sortKey string) (*metering.Row, error) {
	return ask[*metering.Row](p, &effect{
		kind: looks, name: "row " + license + sortKey, says: "reads row " + short(license, sortKey),
		do: func(s *memory.Store) any { r, err := s.Row(background, license, sortKey); must(err); return r },
	})
}

// rowPage is one page of a group's rows.
type rowPage struct {
	Rows []metering.Row
	More bool
}

// GroupRows is part of pipeline.Rows: every page is a step.
func (p *Process) GroupRows(_ context.Context, g metering.Group) iter.Seq2[metering.Row, error] {
	return func(yield func(metering.Row, error) bool) {
		for after, more := "", true; more; {
			page, err := ask[rowPage](p, p.model.rowsAfter(g, after))
			if err != nil {
				yield(metering.Row{}, err)
				return
			}
			for _, r := range page.Rows {
				if after = r.SortKey; !yield(r, nil) {
					return
				}
			}
			more = page.More
		}
	}
}

func (m *model) rowsAfter(g metering.Group, after string) *effect {
	e := &effect{kind: looks, name: "rows " + g.License + g.RecordKey() + " after " + after, says: "reads the rows of " + short(g.License, g.RecordKey())}
	if after != "" {
		e.says = "reads on after " + short(g.License, after)
	}
	e.do = func(s *memory.Store) any {
		var page rowPage
		for r, err := range s.GroupRows(background, g) {
			must(err)
			if r.SortKey > after && !page.More {
				page.Rows = append(page.Rows, r)
				page.More = len(page.Rows) == m.PageRows // whether anything follows is for the next page to find out
			}
		}
		return page
	}
	return e
}

// PendingRows is part of pipeline.Rows. Hours that no group is of hold nothing: looking there is no step.
func (p *Process) PendingRows(_ context.Context, h metering.Hour, license string) iter.Seq2[metering.PendingRow, error] {
	return index(p, h, "rows "+license, func(s *memory.Store) iter.Seq2[metering.PendingRow, error] {
		return s.PendingRows(background, h, license)
	})
}

// PendingRecords is part of pipeline.Records.
func (p *Process) PendingRecords(_ context.Context, h metering.Hour, license string) iter.Seq2[metering.Record, error] {
	return index(p, h, "records "+license, func(s *memory.Store) iter.Seq2[metering.Record, error] {
		return s.PendingRecords(background, h, license)
	})
}

func index[T any](p *Process, h metering.Hour, of string, read func(s *memory.Store) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		if !slices.ContainsFunc(p.model.Groups, func(g metering.Group) bool { return g.Hour == h }) {
			return
		}
		list, err := ask[[]T](p, &effect{
			kind: scans, name: "index of " + of + h.String(), says: "reads which " + of + "wait",
			do: func(s *memory.Store) any {
				var list []T
				for v, err := range read(s) {
					must(err)
					list = append(list, v)
				}
				return list
			},
		})
		if err != nil {
			var none T
			yield(none, err)
			return
		}
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// LabelRows is part of pipeline.Rows: every label is a step.
func (p *Process) LabelRows(_ context.Context, labels []metering.Label) []metering.Labelled {
	out := make([]metering.Labelled, len(labels))
	for i, l := range labels {
		l.At = p.stamp()
		out[i].Outcome, out[i].Err = write(p, fmt.Sprintf("label %+v", l), fmt.Sprintf("labels %s %s", short(l.License, l.SortKey), l.Status), lossOf(l.Status),
			func(s *memory.Store) (metering.Outcome[metering.Row], error) { return s.LabelRow(background, l) })
	}
	return out
}

// RebucketRow is part of pipeline.Rows.
func (p *Process) RebucketRow(_ context.Context, b metering.Rebucket) (metering.Outcome[metering.Row], error) {
	b.At = p.stamp()
	return write(p, fmt.Sprintf("rebucket %+v", b), "corrects the bucket of "+short(b.License, b.SortKey), []metering.Metric{metering.MetricPendingRepaired},
		func(s *memory.Store) (metering.Outcome[metering.Row], error) { return s.RebucketRow(background, b) })
}

// CreateRecord is part of pipeline.Records.
func (p *Process) CreateRecord(_ context.Context, r metering.Record) (metering.Outcome[metering.Record], error) {
	r.CreatedAt, r.UpdatedAt = p.stampText(), p.stampText()
	return write(p, fmt.Sprintf("commit %+v", r), fmt.Sprintf("commits the record of %s with %d", short(r.License, r.SortKey), r.Quantity.N), nil,
		func(s *memory.Store) (metering.Outcome[metering.Record], error) { return s.CreateRecord(background, r) })
}

// MarkSent is part of pipeline.Records.
func (p *Process) MarkSent(_ context.Context, m metering.Send) (metering.Outcome[metering.Record], error) {
	m.At = p.stamp()
	return write(p, fmt.Sprintf("mark %+v", m), fmt.Sprintf("marks the record of %s as sent with %d", short(m.License, m.SortKey), m.Quantity), nil,
		func(s *memory.Store) (metering.Outcome[metering.Record], error) { return s.MarkSent(background, m) })
}

// FinishRecord is part of pipeline.Records.
func (p *Process) FinishRecord(_ context.Context, f metering.Finish) (metering.Outcome[metering.Record], error) {
	f.At = p.stamp()
	return write(p, fmt.Sprintf("finish %+v", f), fmt.Sprintf("writes %s on the record of %s", f.Status, short(f.License, f.SortKey)), lossOf(f.Status),
		func(s *memory.Store) (metering.Outcome[metering.Record], error) { return s.FinishRecord(background, f) })
}

// lossOf are the metrics of which one speaks of what a status says.
func lossOf(status metering.Status) []metering.Metric {
	switch status {
	case metering.LateUsage:
		return []metering.Metric{metering.MetricRowLate}
	case metering.AggregationExpired:
		return []metering.Metric{metering.MetricRowExpired}
	case metering.SubmissionExpired:
		return []metering.Metric{metering.MetricSubmissionExpired}
	case metering.RejectedClientSide:
		return []metering.Metric{metering.MetricRowRejected, metering.MetricException}
	case metering.DuplicateRecord:
		return []metering.Metric{metering.MetricDuplicate}
	case metering.CustomerNotSubscribed:
		return []metering.Metric{metering.MetricNotSubscribed}
	case metering.Success:
		return []metering.Metric{metering.MetricBilled, metering.MetricDuplicate} // billed now, or before it was changed
	}
	return nil
}

// write is a stage's conditional write.
func write[T any](p *Process, name, says string, loses []metering.Metric, do func(s *memory.Store) (metering.Outcome[T], error)) (metering.Outcome[T], error) {
	return ask[metering.Outcome[T]](p, &effect{kind: writes, name: name, says: says, loses: loses, do: func(s *memory.Store) any {
		out, err := do(s)
		must(err)
		return out
	}})
}

// FlushRows is part of usage.Table: the writer's way in.
func (p *Process) FlushRows(_ context.Context, flushes []metering.Flush) []metering.Flushed {
	out := make([]metering.Flushed, len(flushes))
	for i, f := range flushes {
		f.At = p.stamp()
		done, err := ask[metering.Flushed](p, &effect{
			kind: writes, name: fmt.Sprintf("flush %+v", f), says: fmt.Sprintf("adds %d to %s", f.Quantity, short(f.Group.License, f.SortKey())),
			do:    func(s *memory.Store) any { return s.FlushRows(background, []metering.Flush{f})[0] },
			sells: func(before *tables) []sold { return before.flushed(f) },
		})
		if out[i] = done; err != nil {
			out[i] = metering.Flushed{Err: err}
		}
	}
	return out
}

// DeleteRow is a seller's.
func (p *Process) DeleteRow(license, sortKey string) error {
	_, err := ask[bool](p, &effect{
		kind: writes, name: "delete " + license + sortKey, says: "deletes " + short(license, sortKey),
		do:    func(s *memory.Store) any { must(s.DeleteRow(background, license, sortKey)); return true },
		sells: func(before *tables) []sold { return before.deleted(license, sortKey) },
	})
	return err
}

// PutRow is a seller's, in the place of what stood there.
func (p *Process) PutRow(r metering.Row) error {
	_, err := ask[bool](p, &effect{
		kind: writes, name: fmt.Sprintf("put %+v", r), says: fmt.Sprintf("puts %s with %s", short(r.License, r.SortKey), quantity(r.Quantity)),
		do:    func(s *memory.Store) any { must(s.PutRow(background, r)); return true },
		sells: func(before *tables) []sold { return before.put(r) },
	})
	return err
}

// Deprovisioning is part of pipeline.Subscribers: no license is in its last hour.
func (p *Process) Deprovisioning(context.Context) ([]metering.Deprovisioning, error) { return nil, nil }

// Call is part of marketplace.API.
func (p *Process) Call(_ context.Context, c metering.Call) (metering.Answer, error) {
	says := "asks the Marketplace to bill"
	for _, u := range c.Records {
		says += fmt.Sprintf(" %d", u.Quantity)
	}
	return ask[metering.Answer](p, &effect{kind: calls, name: fmt.Sprintf("call %+v", c), says: says, call: &c})
}

// Queue is a queue that stages send to.
func (p *Process) Queue(topic string) queue { return queue{p, topic} }

type queue struct {
	*Process
	topic string
}

// Send is part of pipeline.Queue.
func (q queue) Send(_ context.Context, bodies []string) (refused []int, err error) {
	e := &effect{kind: sends, name: fmt.Sprintf("send %s %q", q.topic, bodies), says: "sends to " + q.topic + ":"}
	for _, body := range bodies {
		e.messages = append(e.messages, q.model.messageOf(Message{q.topic, body}))
		e.says += " " + wording(Message{q.topic, body})
	}
	_, err = ask[bool](q.Process, e)
	return nil, err
}
