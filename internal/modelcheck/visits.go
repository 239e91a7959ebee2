package modelcheck

import (
	"slices"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// What is at rest is visited once more by every stage, as the timetable would, and nothing goes wrong: then everything has its name.

// visitKey is a world at rest.
type visitKey struct {
	tables, service int32
	moment          int8
}

type visitResult struct {
	breach *Breach
	lines  []Line // of the visit
}

// prepareVisits adds the roles of the later visits: stages of the scenario are as broken there as they are in it.
func (m *model) prepareVisits() {
	for _, role := range []Role{Meter(), Aggregators(1), AgeOut(), Cleaners(1), Submitter(), Expirer()} {
		m.later = append(m.later, len(m.roles))
		m.roles = append(m.roles, &role)
	}
}

// atRest reports whether nobody is at work and no message waits. Those who have not begun are as good as away.
func (m *model) atRest(s state) bool {
	if !m.Clock[s.moment].Settles || len(m.queues.list[s.queue]) > 0 {
		return false
	}
	return !slices.ContainsFunc(s.slots[:], func(at int32) bool { return at != ended && m.nodes[at].parent != none })
}

// settle plays the visits, once for each world at rest.
func (m *model) settle(s state) *visitResult {
	key := visitKey{s.tables, s.service, s.moment}
	if v, met := m.visited[key]; met {
		return v
	}
	v := &visitResult{}
	m.visited[key] = v
	s.faults, s.index = 0, s.tables
	for _, r := range m.later {
		role := m.roles[r]
		if role.Consumes == "" {
			s = m.visit(s, life{int32(r), none}, v)
		} else {
			s = m.drain(s, r, v)
		}
		if v.breach != nil {
			return v
		}
	}
	v.breach = m.healed(m.tables.list[s.tables])
	return v
}

// drain handles every message of a role's queue.
func (m *model) drain(s state, r int, v *visitResult) state {
	for v.breach == nil {
		found := int32(none)
		for _, msg := range m.queues.list[s.queue] {
			if m.messages.list[msg].Topic == m.roles[r].Consumes {
				found = msg
			}
		}
		if found == none {
			break
		}
		s.queue = m.without(s.queue, found)
		s = m.visit(s, life{int32(r), found}, v)
	}
	return s
}

// visit plays one process from its beginning to its end, alone.
func (m *model) visit(s state, l life, v *visitResult) state {
	at := m.root(l)
	for v.breach = m.nodes[at].breach; !m.nodes[at].ended && v.breach == nil; {
		w := m.nodes[at].wants[0]
		answer, next, b := m.effect(s, w.effect)
		v.lines = append(v.lines, m.line(s, "later "+m.roles[l.role].Name, step{effect: w.effect, answer: answer, message: none}))
		at, s = m.grow(at, edge{w.task, s.moment, answer}), next
		s.index = s.tables
		if v.breach = b; b == nil {
			v.breach = m.agree(s.tables, s.service)
		}
		if v.breach == nil {
			v.breach = m.nodes[at].breach
		}
	}
	return s
}

// healed is what must be true of the tables after the visits.
func (m *model) healed(t *tables) *Breach {
	for _, r := range t.Rows {
		if r.Pending != "" {
			return breach(RuleHealed, "%s still waits", short(r.License, r.SortKey))
		}
	}
	store := t.store()
	for _, g := range m.Groups {
		b, err := ledger.Read(background, store, g)
		must(err)
		if n := b.Place(ledger.InFlight); n.Items > 0 {
			return breach(RuleHealed, "%d units are still in flight", n.Units)
		}
		if r := t.record(g); r != nil && b.Stale > 0 && (r.Status == metering.Success || r.SentQuantity.Whole) {
			return breach(RuleStale, "the record of %s is %s, and a row that it covers carries another label", short(g.License, g.RecordKey()), r.Status)
		}
	}
	return nil
}
