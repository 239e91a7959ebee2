package modelcheck

import (
	"fmt"
	"slices"
)

// model is a scenario under exploration: everything that was met so far, by number.
type model struct {
	*Scenario
	roles   []*Role // the scenario's and the later visits'
	slots   []int   // the role of each slot of a state
	effects catalog[*effect]
	answers catalog[answer]

	messages catalog[Message]
	queues   catalog[[]int32] // sorted numbers of messages
	tables   catalog[*tables]
	services catalog[*service]

	nodes    []node
	roots    map[life]int32
	machines map[life]*machine
	at       map[life]int32 // the node at which the machine stands

	moments  []int32              // the answers of the clock
	sent     int32                // the answer of a queue
	lost     int32                // what is seen instead of an answer
	queued   map[[2]int32]int32   // queues, by queue and message that is added
	taken    map[[2]int32]int32   // and that is taken
	changes  map[[2]int32]change  // of tables, by tables and effect
	called   map[[3]int32]change  // of the service, by service, effect and moment
	agreed   map[[2]int32]*Breach // of tables with the service
	hearings map[[2]int32]*Breach // of tables with nodes at which a writer has ended
	visited  map[visitKey]*visitResult
	later    []int // the roles of the later visits
}

// catalog gives numbers to what is met, by its text.
type catalog[T any] struct {
	list []T
	ids  map[string]int32
}

func (c *catalog[T]) id(text string, make func() T) int32 {
	if id, met := c.ids[text]; met {
		return id
	}
	if c.ids == nil {
		c.ids = map[string]int32{}
	}
	id := int32(len(c.list))
	c.ids[text], c.list = id, append(c.list, make())
	return id
}

// newModel sets a scenario up, and returns its first state.
func newModel(s Scenario) (*model, state, error) {
	if len(s.Clock) == 0 || len(s.Groups) == 0 {
		return nil, state{}, fmt.Errorf("set up %s: a scenario has a group and a moment at least", s.Name)
	}
	m := &model{
		Scenario: &s, nodes: []node{ended: {ended: true}},
		roots: make(map[life]int32), machines: make(map[life]*machine), at: make(map[life]int32),
		queued: make(map[[2]int32]int32), taken: make(map[[2]int32]int32), changes: make(map[[2]int32]change), called: make(map[[3]int32]change),
		agreed: make(map[[2]int32]*Breach), hearings: make(map[[2]int32]*Breach), visited: make(map[visitKey]*visitResult),
	}
	for i := range s.Clock {
		m.moments = append(m.moments, m.answerOf(i, nil))
	}
	m.sent, m.lost = m.answerOf(true, nil), m.answerOf(nil, errFault)
	for i := range s.Cast {
		m.roles = append(m.roles, &s.Cast[i])
		m.slots = append(m.slots, slices.Repeat([]int{i}, max(1, s.Cast[i].Count))...)
	}
	if len(m.slots) > maxSlots {
		return nil, state{}, fmt.Errorf("set up %s: more than %d processes at once", s.Name, maxSlots)
	}
	m.prepareVisits()
	return m, m.first(), nil
}

// first is the state in which nobody has begun.
func (m *model) first() state {
	t := &tables{Rows: m.Rows}
	for _, r := range m.Rows {
		t.Sold = t.put(r)
	}
	var queue []int32
	for _, msg := range m.Messages {
		queue = append(queue, m.messageOf(msg))
	}
	slices.Sort(queue)
	s := state{
		tables: m.tablesOf(m.read(t.store(), t.Sold)), service: m.serviceOf(&service{}), queue: m.queueOf(queue),
		faults: int8(m.Faults), doubles: int8(m.Doubles),
	}
	s.index = s.tables
	for i, r := range m.slots {
		if m.roles[r].Consumes == "" {
			s.slots[i] = m.root(life{int32(r), none})
		}
	}
	return s
}
