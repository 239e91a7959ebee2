package modelcheck

// successors are all steps that a state allows and what each leads to. It stops where yield returns false.
func (m *model) successors(s state, yield func(step, state, *Breach) bool) {
	if i := m.alone(s); i != none {
		m.slot(s, int8(i), yield)
		return
	}
	if int(s.moment)+1 < len(m.Clock) {
		next := s
		next.moment++
		if !yield(step{act: ticks}, next, nil) {
			return
		}
	}
	if s.index != s.tables {
		next := s
		next.index = s.tables
		if !yield(step{act: catches}, next, nil) {
			return
		}
	}
	for i, r := range m.slots {
		if i > 0 && m.slots[i-1] == r && s.slots[i-1] == s.slots[i] {
			continue // two of one role at one point: either may go on
		}
		if !m.slot(s, int8(i), yield) {
			return
		}
	}
}

// alone is a process whose next step may be taken before all others without missing anything, or none: one that sends its messages and then
// ends, where nothing can go wrong any more. Whatever else may happen leads to the same world before it as after, and changes neither the
// tables nor the Marketplace's ledger otherwise.
func (m *model) alone(s state) int {
	if s.faults > 0 || m.whole {
		return none
	}
	for i := range m.slots {
		n := &m.nodes[s.slots[i]]
		if len(n.wants) != 1 || m.effects.list[n.wants[0].effect].kind != sends {
			continue
		}
		if to, met := n.next[edge{n.wants[0].task, blind, m.sent}]; met && m.nodes[to].ended {
			return i
		}
	}
	return none
}

// slot are the steps of one process.
func (m *model) slot(s state, i int8, yield func(step, state, *Breach) bool) bool {
	role, at := m.roles[m.slots[i]], s.slots[i]
	if at == ended {
		return role.Consumes == "" || m.receive(s, i, yield)
	}
	n := &m.nodes[at]
	if n.ended { // it never had anything to do
		return true
	}
	if n.parent == none && (int(s.moment) < role.From || int(s.moment) > role.Until) {
		return true
	}
	if s.faults > 0 {
		for _, back := range []int32{n.life.message, none} { // its message comes again, or that was its last time
			next := m.free(s, i, back)
			next.faults--
			if !yield(step{act: dies, slot: i, message: back, handles: n.life.message != none}, m.sorted(next), nil) {
				return false
			}
			if n.life.message == none {
				break
			}
		}
	}
	return m.process(s, step{slot: i, message: none}, at, yield)
}

// receive begins with each message that waits.
func (m *model) receive(s state, i int8, yield func(step, state, *Breach) bool) bool {
	last := int32(none)
	for _, msg := range m.queues.list[s.queue] {
		if msg == last || m.messages.list[msg].Topic != m.roles[m.slots[i]].Consumes {
			continue
		}
		last = msg
		at := m.root(life{int32(m.slots[i]), msg})
		taken := s
		taken.queue = m.without(s.queue, msg)
		if n := &m.nodes[at]; n.ended || n.breach != nil {
			if !yield(step{act: returns, slot: i, message: msg}, m.finish(taken, i, n), n.breach) {
				return false
			}
			continue
		}
		if !m.process(taken, step{slot: i, message: msg}, at, yield) {
			return false
		}
		if s.doubles > 0 {
			stays := s
			stays.doubles--
			if !m.process(stays, step{slot: i, message: msg, twice: true}, at, yield) {
				return false
			}
		}
	}
	return true
}

// process are the effects that a process at a node may do.
func (m *model) process(s state, st step, at int32, yield func(step, state, *Breach) bool) bool {
	for w := range m.nodes[at].wants {
		st.want = int8(w)
		for f := happens; f <= unheard; f++ {
			if st.fate = f; !m.possible(s, at, w, f) {
				continue
			}
			done, next, b := m.do(s, st, at)
			if !yield(done, m.sorted(next), b) {
				return false
			}
		}
	}
	return true
}

// possible reports whether an effect may have a fate.
func (m *model) possible(s state, at int32, w int, f fate) bool {
	k := m.effects.list[m.nodes[at].wants[w].effect].kind
	switch f {
	case fails:
		return s.faults > 0 && k != clock
	case unheard: // a look whose answer is lost is one that failed
		return s.faults > 0 && k != clock && k != looks && k != scans
	}
	return true
}

// do does an effect, and lets the process run to its next.
func (m *model) do(s state, st step, at int32) (step, state, *Breach) {
	w := m.nodes[at].wants[st.want]
	st.effect = w.effect
	next, b := s, (*Breach)(nil)
	if st.fate != fails {
		st.answer, next, b = m.effect(s, w.effect)
	}
	if st.fate != happens {
		st.answer = m.lost
		next.faults--
	}
	if b != nil {
		return st, next, b
	}
	moment := s.moment
	if m.Clockwise && m.effects.list[w.effect].kind != clock && int(s.moment)+1 < len(m.Clock) {
		moment = unread
	}
	to := m.grow(at, edge{w.task, moment, st.answer})
	n := &m.nodes[to]
	next.slots[st.slot] = to
	if n.ended {
		next = m.finish(next, st.slot, n)
	}
	if !m.Lagging {
		next.index = next.tables
	}
	if b = n.breach; b == nil && n.ended {
		b = m.heard(next.tables, to)
	}
	if b == nil && (next.tables != s.tables || next.service != s.service) {
		b = m.agree(next.tables, next.service)
	}
	return st, next, b
}

// effect is what an effect does to the world, and the answer.
func (m *model) effect(s state, id int32) (int32, state, *Breach) {
	switch e := m.effects.list[id]; e.kind {
	case clock:
		return m.moments[s.moment], s, nil
	case scans:
		return m.apply(s.index, id).answer, s, nil
	case sends:
		for _, msg := range e.messages {
			s.queue = m.with(s.queue, msg)
		}
		return m.sent, s, nil
	case calls:
		c := m.call(s.service, id, int(s.moment))
		s.service = c.after
		return c.answer, s, c.breach
	default:
		c := m.apply(s.tables, id)
		s.tables = c.after
		return c.answer, s, c.breach
	}
}

// finish frees the slot of a process that has ended; a message whose handling failed comes again.
func (m *model) finish(s state, i int8, n *node) state {
	msg := int32(none)
	if n.failed {
		msg = n.life.message
	}
	return m.free(s, i, msg)
}

func (m *model) free(s state, i int8, message int32) state {
	s.slots[i] = ended
	if message != none {
		s.queue = m.with(s.queue, message)
	}
	return s
}

// sorted puts processes of one role in one order: which of them stands where makes no difference.
func (m *model) sorted(s state) state {
	for i := 1; i < len(m.slots); i++ {
		for j := i; j > 0 && m.slots[j-1] == m.slots[j] && s.slots[j-1] > s.slots[j]; j-- {
			s.slots[j-1], s.slots[j] = s.slots[j], s.slots[j-1]
		}
	}
	return s
}
