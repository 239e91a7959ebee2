package modelcheck

import (
	"fmt"
	"slices"
	"strings"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
)

// Violation is a course that breaks the law, told from the start.
type Violation struct {
	Breach
	Story []Line
}

// String is the story in words.
func (v *Violation) String() string {
	var b strings.Builder
	for i, l := range v.Story {
		fmt.Fprintf(&b, "%3d. %s\n", i+1, l)
	}
	fmt.Fprintf(&b, "     %s: %s\n", v.Rule, v.What)
	return b.String()
}

// Line is one step of a story.
type Line struct {
	At   string // the moment
	Who  string
	Does string
	Sees string
}

func (l Line) String() string {
	text := fmt.Sprintf("%s  %s %s", l.At, l.Who, l.Does)
	if l.Sees != "" {
		text += ": " + l.Sees
	}
	return text
}

// story tells how the world came to a state, and the last step from there. It finds the steps again, and follows who stands where.
func (x *exploration) story(at uint32, last *step, b *Breach, visit []Line) *Violation {
	var way []uint32
	for n := at; ; n = x.seen.at(n).parent {
		way = append(way, n)
		if n == 0 {
			break
		}
	}
	slices.Reverse(way)
	names := x.names()
	v := &Violation{Breach: *b}
	for i := 1; i < len(way); i++ {
		from, to := x.seen.at(way[i-1]).state, x.seen.at(way[i]).state
		x.successors(from, func(st step, next state, b *Breach) bool {
			if b != nil || next != to {
				return true
			}
			v.Story = append(v.Story, x.line(from, names[max(0, st.slot)], st))
			x.follow(from, st, names)
			return false
		})
	}
	if last != nil {
		v.Story = append(v.Story, x.line(x.seen.at(at).state, names[last.slot], *last))
	}
	v.Story = append(v.Story, visit...)
	return v
}

// names are the processes as they stand in the first state.
func (m *model) names() []string {
	names := make([]string, len(m.slots))
	for i, r := range m.slots {
		names[i] = m.roles[r].Name
		if n := m.roles[r].Count; n > 1 {
			first := slices.Index(m.slots, r)
			names[i] = fmt.Sprintf("%s %c", names[i], 'A'+rune(i-first))
		}
	}
	return names
}

// follow moves the names of one role's processes as sorted does their places.
func (m *model) follow(s state, st step, names []string) {
	after := s.slots
	if st.act == ticks || st.act == catches || st.act == returns {
		return
	}
	at := s.slots[st.slot]
	if st.act == acts && st.message != none {
		at = m.roots[life{int32(m.slots[st.slot]), st.message}]
	}
	if after[st.slot] = ended; st.act == acts {
		_, next, _ := m.do(m.taking(s, st), st, at)
		after = next.slots
	}
	for i := 1; i < len(m.slots); i++ {
		for j := i; j > 0 && m.slots[j-1] == m.slots[j] && after[j-1] > after[j]; j-- {
			after[j-1], after[j] = after[j], after[j-1]
			names[j-1], names[j] = names[j], names[j-1]
		}
	}
}

// taking is a state whose message is taken for a step.
func (m *model) taking(s state, st step) state {
	if st.message != none && !st.twice {
		s.queue = m.without(s.queue, st.message)
	}
	return s
}

// line is a step in words.
func (m *model) line(s state, who string, st step) Line {
	l := Line{At: m.Clock[s.moment].At.Format("15:04"), Who: who}
	switch st.act {
	case ticks:
		next := m.Clock[s.moment+1]
		l.At, l.Who, l.Does = next.At.Format("15:04"), "the clock", "moves on: "+next.Means
		return l
	case catches:
		l.Who, l.Does = "the indexes", "catch up with their tables"
		return l
	case dies:
		l.Does = "is killed"
		if st.message != none {
			l.Does += ", and its message comes again"
		} else if st.handles {
			l.Does += ", and its message is left for dead"
		}
		return l
	}
	if st.message != none {
		l.Who += " (handling: " + wording(m.messages.list[st.message]) + ")"
		if st.twice {
			l.Who += " (of which a copy stays in the queue)"
		}
	}
	if st.act == returns {
		l.Does = "ends without having done anything"
		return l
	}
	l.Does = m.effects.list[st.effect].says
	switch st.fate {
	case fails:
		l.Sees = "it fails, and nothing is done"
	case unheard:
		l.Sees = "it is done, and the process never hears so"
	default:
		if m.effects.list[st.effect].kind != clock {
			l.Sees = m.answers.list[st.answer].says
		}
	}
	return l
}

// says is an answer in words.
func says(v any, err error) string {
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		return text
	}
	switch v := v.(type) {
	case *metering.Record:
		if v == nil {
			return "there is none"
		}
		return fmt.Sprintf("%s, %s", quantity(v.Quantity), wait(v.Pending, v.Status))
	case rowPage:
		parts := []string{}
		for _, r := range v.Rows {
			parts = append(parts, fmt.Sprintf("%s %s (%s)", short(r.License, r.SortKey), quantity(r.Quantity), wait(r.Pending, r.Status)))
		}
		if len(parts) == 0 {
			return "none"
		}
		return strings.Join(parts, ", ")
	case []metering.Record:
		return ledger.Counted(int64(len(v)), "record")
	case []metering.PendingRow:
		return ledger.Counted(int64(len(v)), "row")
	case metering.Outcome[metering.Record]:
		return outcomeText(v.Done, v.Old == nil)
	case metering.Outcome[metering.Row]:
		return outcomeText(v.Done, v.Old == nil)
	case metering.Answer:
		parts := []string{}
		for _, r := range v.Results {
			parts = append(parts, string(r.Status))
		}
		return strings.Join(parts, ", ")
	}
	return ""
}

func outcomeText(done, gone bool) string {
	switch {
	case done:
		return "done"
	case gone:
		return "there is none"
	}
	return "refused, it is not as it was read"
}

func wait(pending string, status metering.Status) string {
	switch {
	case pending == "" && status == "":
		return "neither waiting nor ended"
	case pending == "":
		return string(status)
	case status == "":
		return "waiting"
	}
	return "waiting, before " + string(status)
}

func quantity(q metering.Quantity) string {
	if !q.Whole {
		return "no number"
	}
	return fmt.Sprint(q.N)
}

// short names a row or record by the tail of its key: minute and second of a row, the hour of a record.
func short(license, sortKey string) string {
	if key, reason := metering.ParseRowKey(sortKey); reason == "" {
		return "row " + key.Second.Time().Format("15:04:05")
	}
	if g, reason := metering.ParseRecordKey(license, sortKey); reason == "" {
		return g.Hour.Start().Format("15h")
	}
	return sortKey
}

// wording is a message in words.
func wording(msg Message) string {
	if msg.Topic == WorkTopic {
		return "visit the group"
	}
	m, err := metering.Decode[metering.CleanupMessage](msg.Body)
	if err != nil {
		return err.Error()
	}
	parts := []string{}
	for _, r := range m.Rows {
		part := short(m.License, r.Key)
		if r.Quantity != nil {
			part += fmt.Sprint(" with ", *r.Quantity)
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("label %s %s", m.Status, strings.Join(parts, ", "))
}

// places are a balance's amounts in words.
func places(b ledger.Balance) string {
	parts := []string{}
	for _, p := range ledger.Places() {
		if a := b.Place(p); a.Items > 0 || a.Units > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", p, a.Units))
		}
	}
	return strings.Join(parts, ", ")
}
