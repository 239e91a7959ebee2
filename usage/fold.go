package usage

import (
	"cmp"
	"slices"
	"time"

	"github.com/awsmp/metering/internal/metering"
)

// fold gathers events into parts. It is not safe for concurrent use.
type fold struct {
	stretch metering.Second
	groups  map[metering.Group]*group
	parts   map[place]*part // that still take events
	count   int             // of groups so far
}

func newFold(stretch time.Duration) *fold {
	return &fold{
		stretch: metering.Second(stretch / time.Second),
		groups:  make(map[metering.Group]*group),
		parts:   make(map[place]*part),
	}
}

// group is a group of which parts are held. Its events agree in what the pipeline asks of a whole hour, since one that does not
// would hold back the hour.
type group struct {
	key     metering.Group
	model   metering.Row // one of its rows, valid and empty: whoever else is of the group is valid but for time and amount
	number  int          // in the order in which the groups came
	parts   int
	tagging tagging
}

// tagging is whether usage above 0 has allocations.
type tagging byte

const (
	undecided tagging = iota
	untagged
	tagged
)

// place is a row, short to compare.
type place struct {
	group  *group
	second metering.Second
}

// part is one flush in the making and on its way: what is added to a row under one token.
type part struct {
	group *group
	flush metering.Flush // its allocations are merged when it is sealed
	sets  int            // combinations of tags when they were last merged
	cost  int            // towards MaxRows

	known bool // the token stands for the content and may be in the row from an earlier process
	sent  bool // handed to the table once at least: from then on a record says nothing about it

	stands bool          // in its row: what is left to find out is whether it is late
	row    *metering.Row // as it stood then

	answered bool
	err      error // the answer: nil, ErrHourCommitted, ErrLate or a *Refusal
	cause    error // why there is no answer yet

	tries     int
	due, next time.Time // when to send it first, and again
}

func (p *part) place() place { return place{p.group, p.flush.Second} }

func (p *part) answer(err error) { p.answered, p.err = true, err }

// seal ends the gathering.
func (p *part) seal() {
	if len(p.flush.Allocations) > 1 {
		p.flush.Allocations = metering.MergeAllocations(p.flush.Allocations)
	}
}

// entry is a checked event on its way into its part.
type entry struct {
	group       *group
	second      metering.Second
	quantity    int64
	allocations []metering.Allocation
	tagging     tagging
}

func (e entry) place() place { return place{e.group, e.second} }

// check holds an event against everything that one row must keep to, and finds its place. Only the time is left out at which its
// hour closes. Nothing is changed.
func (f *fold) check(e *Event, now time.Time) (entry, *Refusal) {
	second := metering.Second(e.Time.Unix()).FoldedInto(f.stretch)
	key := metering.Group{License: e.License, Account: e.Account, Dimension: e.Dimension, Hour: second.Hour()}
	g, held := f.groups[key]
	if !held || g.model.CustomerIdentifier != e.CustomerIdentifier {
		model := metering.NewRow(key, second, 0)
		model.CustomerIdentifier = e.CustomerIdentifier
		if reason := model.Validate(now); reason != "" {
			return entry{}, refuse(reason)
		}
		if held {
			return entry{}, refuse(metering.ConflictingIdentifier)
		}
		g = &group{key: key, model: model}
	}
	if metering.Future(second, now) {
		return entry{}, refuse(metering.TimestampInFuture)
	}
	in := entry{group: g, second: second, quantity: e.Quantity}
	if len(e.Allocations) > 0 || e.Quantity < 0 || e.Quantity > metering.MaxQuantity {
		in.allocations = toMetering(e.Allocations)
		if reason := g.validate(in.quantity, in.allocations, now); reason != "" {
			return entry{}, refuse(reason)
		}
	}
	if in.quantity == 0 {
		in.allocations = nil // nothing of nothing: the row must stay open to tagged and untagged usage
		return in, nil
	}
	if in.tagging = untagged; len(in.allocations) > 0 {
		in.tagging = tagged
	}
	if g.tagging != undecided && g.tagging != in.tagging {
		return entry{}, refuse(metering.MixedAllocatedAndUnallocated)
	}
	return in, nil
}

// validate asks the rules of a row whether it may hold so much.
func (g *group) validate(quantity int64, allocations []metering.Allocation, now time.Time) metering.Reason {
	row := g.model
	row.Quantity, row.Allocations = metering.Units(quantity), allocations
	return row.Validate(now)
}

// mostAllocations is how many allocations a row can have. It only says when to look closely: the rules of a row decide.
const mostAllocations = 2500

// add puts a checked event into its part, and says whether it began one. What does not fit is refused.
func (f *fold) add(in entry, now time.Time) (p *part, began bool, refusal *Refusal) {
	p, held := f.parts[in.place()]
	if !held {
		p = &part{group: in.group, flush: metering.NewFlush(in.group.key, in.second, 0, ""), cost: 1}
		p.flush.CustomerIdentifier = in.group.model.CustomerIdentifier
	}
	if p.flush.Quantity+in.quantity > metering.MaxQuantity {
		return nil, false, refuse(metering.QuantityOutOfRange)
	}
	if len(in.allocations) > 0 {
		if refusal := p.allocate(in, now); refusal != nil {
			return nil, false, refusal
		}
	}
	p.flush.Quantity += in.quantity
	if in.tagging != undecided {
		in.group.tagging = in.tagging
	}
	if !held {
		f.keep(p)
	}
	return p, !held, nil
}

// allocate adds allocations, merged now and then: often enough that a row that takes many events stays small, rarely enough that
// an event costs little.
func (p *part) allocate(in entry, now time.Time) *Refusal {
	list := append(p.flush.Allocations, in.allocations...)
	if n := len(list); n > 2*p.sets+64 || n > mostAllocations {
		list = metering.MergeAllocations(list)
		if reason := p.group.validate(p.flush.Quantity+in.quantity, list, now); reason != "" {
			return refuse(reason)
		}
		p.sets = len(list)
	}
	p.flush.Allocations, p.cost = list, 1+len(list)
	return nil
}

func (f *fold) keep(p *part) {
	if p.group.parts == 0 {
		p.group.number = f.count
		f.count++
		f.groups[p.group.key] = p.group
	}
	p.group.parts++
	f.parts[p.place()] = p
}

// forget lets a group go with its last part.
func (f *fold) forget(p *part) {
	if p.group.parts--; p.group.parts == 0 {
		delete(f.groups, p.group.key)
	}
}

// again is a part as it was named before, with its token.
func (f *fold) again(row Row, now time.Time) (*part, *Refusal) {
	second := metering.Second(row.Time.Unix())
	key := metering.Group{License: row.License, Account: row.Account, Dimension: row.Dimension, Hour: second.Hour()}
	g := f.groups[key]
	if g == nil {
		g = &group{key: key, number: len(f.groups), model: metering.NewRow(key, second, 0)}
		g.model.CustomerIdentifier = row.CustomerIdentifier
		f.groups[key] = g
	}
	allocations := toMetering(row.Allocations)
	if reason := g.validate(row.Quantity, allocations, endOfTime); reason != "" {
		return nil, refuse(reason)
	}
	if !row.Sent && metering.Future(second, now) { // what was sent may stand in its row, by another process's clock
		return nil, refuse(metering.TimestampInFuture)
	}
	p := &part{group: g, flush: metering.NewFlush(key, second, row.Quantity, row.Token), known: true, sent: row.Sent}
	p.flush.Allocations, p.flush.CustomerIdentifier = allocations, row.CustomerIdentifier
	return p, nil
}

// inOrder sorts parts by their groups, in the order in which those came, and by time.
func inOrder(parts []*part) {
	slices.SortStableFunc(parts, func(a, b *part) int {
		return cmp.Or(cmp.Compare(a.group.number, b.group.number), cmp.Compare(a.flush.Second, b.flush.Second))
	})
}
