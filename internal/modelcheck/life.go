package modelcheck

import (
	"context"
	"fmt"
	"slices"

	"github.com/awsmp/metering/internal/metering"
)

// life is a role with what it was started with: a message's number, or none.
type life struct {
	role    int32
	message int32
}

const none = -1

// blind is the moment of an edge behind which nobody looks at the clock.
const blind = -2

// node is how far a process has come: the answers that it has got so far, as the way from the root of its life.
type node struct {
	life   life
	parent int32 // none: the root
	edge   edge  // from the parent

	wants  []want
	ended  bool
	failed bool // its message comes again
	told   Told
	breach *Breach // what the process did wrong by itself
	looked bool    // it has looked at the clock since the answer before
	next   map[edge]int32
}

// edge is an answer to one task, and the moment at which the code that follows sees the clock: whenever where it does not look.
type edge struct {
	task   uint8
	moment int8
	answer int32
}

// want is an effect that a task asks for.
type want struct {
	task   uint8
	effect int32
}

// ended is the node of a slot that nothing runs in. No life begins there.
const ended = 0

// root is the node at which a life begins.
func (m *model) root(l life) int32 {
	if id, met := m.roots[l]; met {
		return id
	}
	mc := m.start(l)
	id := m.keep(node{life: l, parent: none}, mc)
	m.roots[l] = id
	return id
}

// grow is the node that an answer leads to.
func (m *model) grow(at int32, e edge) int32 {
	sees := e.moment
	for _, e.moment = range []int8{sees, blind} {
		if id, met := m.nodes[at].next[e]; met {
			return id
		}
	}
	l := m.nodes[at].life
	mc := m.machines[l]
	if mc == nil || m.at[l] != at {
		mc = m.replay(l, at)
	}
	mc.resume(int(e.task), m.answers.list[e.answer], int(sees))
	if mc.looked {
		e.moment = sees
	}
	id := m.keep(node{life: l, parent: at, edge: e}, mc)
	if m.nodes[at].next == nil {
		m.nodes[at].next = make(map[edge]int32)
	}
	m.nodes[at].next[e] = id
	return id
}

// replay brings the real code of a life to a node, from its beginning.
func (m *model) replay(l life, to int32) *machine {
	var way []edge
	for n := to; m.nodes[n].parent != none; n = m.nodes[n].parent {
		way = append(way, m.nodes[n].edge)
	}
	if old := m.machines[l]; old != nil {
		old.abandon()
	}
	mc := m.start(l)
	for _, e := range slices.Backward(way) {
		mc.resume(int(e.task), m.answers.list[e.answer], max(int(e.moment), unread))
	}
	return mc
}

// outcome is what a role's run came to.
type outcome struct {
	done bool
	told Told
	err  error
}

// start runs a life from its beginning.
func (m *model) start(l life) *machine {
	role, body := m.roles[l.role], ""
	if l.message != none {
		body = m.messages.list[l.message].Body
	}
	out := &outcome{}
	moment := unread
	if last := len(m.Clock) - 1; role.From >= last {
		moment = last
	}
	mc := start(moment, func(ctx context.Context, mc *machine) {
		p := &Process{machine: mc, model: m, role: role}
		p.patience, p.end = context.WithCancel(ctx)
		defer p.end()
		out.told, out.err = role.Run(ctx, p, body)
		out.done = true
	})
	mc.outcome = out
	return mc
}

// keep makes a node of where a machine stands.
func (m *model) keep(n node, mc *machine) int32 {
	id := int32(len(m.nodes))
	for _, t := range mc.tasks {
		if e := t.want; e != nil {
			if silent(mc, e) {
				n.breach = breach(RuleMetric, "%s %s, and no metric has spoken of it", m.roles[n.life.role].Name, e.says)
			}
			n.wants = append(n.wants, want{uint8(t.id), m.effects.id(fmt.Sprint(e.kind, " ", e.name), func() *effect { return e })})
		}
	}
	role := m.roles[n.life.role].Name
	n.ended, n.looked = len(mc.tasks) == 0, mc.looked
	switch {
	case mc.crash != "":
		n.breach = &Breach{RuleCrash, role + ": " + mc.crash}
	case n.ended:
		n.told, n.failed = mc.outcome.told, mc.outcome.err != nil
		if err := mc.outcome.err; err != nil && m.Faults == 0 {
			n.breach = &Breach{RuleCalm, fmt.Sprintf("%s failed though nothing went wrong: %v", role, err)}
		}
	case len(n.wants) == 0:
		n.breach = &Breach{RuleCrash, role + " waits for itself, and will for ever"}
	}
	if n.ended {
		delete(m.machines, n.life)
	} else {
		m.machines[n.life], m.at[n.life] = mc, id
	}
	m.nodes = append(m.nodes, n)
	return id
}

// silent reports whether a process is about to lose something without a word.
func silent(mc *machine, e *effect) bool {
	return len(e.loses) > 0 && !slices.ContainsFunc(e.loses, func(metric metering.Metric) bool { return mc.spoken[metric] })
}

// close gives up every process that still stands somewhere.
func (m *model) close() {
	for _, mc := range m.machines {
		mc.abandon()
	}
	clear(m.machines)
}
