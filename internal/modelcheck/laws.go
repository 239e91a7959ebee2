package modelcheck

import (
	"fmt"
	"slices"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/simulator"
)

// Breach is something that did not hold.
type Breach struct {
	Rule string // which one, in a few words
	What string
}

// The rules that every state is held against, or every step.
const (
	RuleBalance  = "every unit in one place"
	RuleWritten  = "the books hold what was written"
	RuleBilled   = "our books equal the Marketplace's"
	RuleQuantity = "no stage changes a quantity"
	RuleGhost    = "no stage makes or deletes a row"
	RuleTerminal = "no terminal status overwritten"
	RuleManifest = "a record is what its rows said"
	RuleWriter   = "a writer is told the truth"
	RuleMetric   = "every loss has its metric, before it is written"
	RuleHealed   = "one more visit leaves nothing waiting"
	RuleStale    = "no billed row says that it was lost"
	RuleCalm     = "no stage fails where nothing goes wrong"
	RuleCrash    = "no stage panics or waits for itself"
)

func breach(rule, format string, args ...any) *Breach {
	return &Breach{rule, fmt.Sprintf(format, args...)}
}

// lawful holds one write against the law.
func (m *model) lawful(before, after *tables, e *effect) *Breach {
	if e.sells != nil {
		return nil
	}
	if len(after.Rows) != len(before.Rows) {
		return breach(RuleGhost, "there were %d rows, and a stage made it %d", len(before.Rows), len(after.Rows))
	}
	for _, now := range after.Rows {
		was := before.row(now.License, now.SortKey)
		name := short(now.License, now.SortKey)
		switch {
		case was == nil:
			return breach(RuleGhost, "%s was not there, and a stage made it", name)
		case was.Quantity != now.Quantity:
			return breach(RuleQuantity, "%s held %s, and a stage made it %s", name, quantity(was.Quantity), quantity(now.Quantity))
		case was.Pending == "" && was.Status != "" && was.Status != now.Status && !after.covers(*was, now):
			return breach(RuleTerminal, "%s was %s and became %s", name, was.Status, now.Status)
		}
	}
	for _, now := range after.Records {
		if b := m.lawfulRecord(before, now); b != nil {
			return b
		}
	}
	return nil
}

// covers reports whether a label in the place of another is the one that the manifest asks for.
func (t *tables) covers(was, now metering.Row) bool {
	key, reason := metering.ParseRowKey(was.SortKey)
	if reason != "" {
		return false
	}
	r := t.record(key.Group(was.License))
	if r == nil {
		return false
	}
	manifest, err := r.Covers()
	if err != nil {
		return false
	}
	committed, covered := manifest.Quantity(key.Second)
	label, _ := metering.Covered(was, committed, now.StatusReason)
	return covered && label.Status == now.Status
}

func (m *model) lawfulRecord(before *tables, now metering.Record) *Breach {
	g, _ := now.Group()
	was, name := before.record(g), short(g.License, now.SortKey)
	switch {
	case was == nil:
		return before.summed(g, now)
	case was.Quantity != now.Quantity || was.Manifest != now.Manifest:
		return breach(RuleQuantity, "the record of %s held %s (%s), and a stage made it %s (%s)", name, quantity(was.Quantity), was.Manifest, quantity(now.Quantity), now.Manifest)
	case was.Pending == "" && was.Status != now.Status && now.Status != metering.Success, was.Pending == "" && now.Pending != "":
		return breach(RuleTerminal, "the record of %s was %s and became %q", name, was.Status, now.Status)
	}
	return nil
}

// summed holds a new record against what its rows have held.
func (t *tables) summed(g metering.Group, r metering.Record) *Breach {
	manifest, err := r.Covers()
	if err != nil || r.Quantity != metering.Units(manifest.Sum()) {
		return breach(RuleManifest, "the record of %s holds %s, and its manifest adds up to %d: %v", short(g.License, r.SortKey), quantity(r.Quantity), manifest.Sum(), err)
	}
	for second, q := range manifest.All(g.Hour) {
		if s := t.sale(g.License, g.RowKey(second)); s == nil || !slices.Contains(s.Held, q) {
			return breach(RuleManifest, "the record of %s was summed from %d of %s, which never held that", short(g.License, r.SortKey), q, short(g.License, g.RowKey(second)))
		}
	}
	return nil
}

// agree holds the tables and the Marketplace's ledger against the law, once for each pair of them.
func (m *model) agree(on, with int32) *Breach {
	key := [2]int32{on, with}
	b, met := m.agreed[key]
	if !met {
		b = m.balanced(m.tables.list[on], m.services.list[with])
		m.agreed[key] = b
	}
	return b
}

func (m *model) balanced(t *tables, s *service) *Breach {
	store := t.store()
	known := 0
	for _, g := range m.Groups {
		b, err := ledger.Read(background, store, g)
		must(err)
		if !b.Balanced() {
			return breach(RuleBalance, "written %d, named %d: %s %v", b.Written.Units, b.Named(), places(b), b.Findings)
		}
		if want := t.written(g); b.Written.Units != want {
			return breach(RuleWritten, "%d units were written, and the ledger says %d", want, b.Written.Units)
		}
		record := t.record(g)
		if record == nil {
			continue
		}
		sold := soldTo(s, record.Usage().Identity())
		known += len(sold)
		if b := billed(*record, b, sold); b != nil {
			return b
		}
	}
	if len(s.ledger) > known {
		return breach(RuleBilled, "the Marketplace has billed %d records, and we know of %d", len(s.ledger), known)
	}
	for i := range t.Rows {
		r := t.Rows[i]
		if s := t.sale(r.License, r.SortKey); s == nil || s.Gone || s.Quantity != r.Quantity {
			return breach(RuleQuantity, "%s holds %s, which is not what its seller wrote", short(r.License, r.SortKey), quantity(r.Quantity))
		}
	}
	return nil
}

func soldTo(s *service, id metering.Identity) (list []simulator.Billed) {
	for _, b := range s.ledger {
		customer := b.LicenseARN
		if customer == "" {
			customer = b.CustomerIdentifier
		}
		if customer == id.Customer && b.Dimension == id.Dimension && metering.HourOf(b.Hour) == id.Hour {
			list = append(list, b)
		}
	}
	return list
}

// written is what was written of a group: what its rows hold, and at least what was committed of each.
func (t *tables) written(g metering.Group) (units int64) {
	var manifest metering.Manifest
	if r := t.record(g); r != nil {
		manifest, _ = r.Covers()
	}
	met := make(map[metering.Second]bool)
	for _, s := range t.Sold {
		second, ours := g.Contains(s.SortKey)
		if !ours || s.License != g.License {
			continue
		}
		met[second] = true
		held, _ := s.Quantity.Count()
		committed, _ := manifest.Quantity(second)
		units += max(held, committed)
	}
	for second, q := range manifest.All(g.Hour) {
		if !met[second] {
			units += q
		}
	}
	return units
}

// billed compares a record with what the Marketplace has billed under its name.
func billed(r metering.Record, b ledger.Balance, sold []simulator.Billed) *Breach {
	var theirs int64
	for _, s := range sold {
		theirs += s.Quantity
	}
	switch units := b.Place(ledger.Billed).Units; {
	case len(sold) > 1:
		return breach(RuleBilled, "the Marketplace has billed the same usage %d times", len(sold))
	case r.Status == metering.Success && (len(sold) == 0 || theirs != units):
		return breach(RuleBilled, "our books say that %d are billed, the Marketplace's say %d", units, theirs)
	case r.Status == metering.DuplicateRecord:
		return breach(RuleBilled, "a second quantity was sent for the same hour")
	case len(sold) > 0 && r.Status != metering.Success && (!r.SentQuantity.Whole || r.Pending == "" && r.Status != metering.SubmissionExpired):
		return breach(RuleBilled, "the Marketplace has billed %d, and our record says %s, and not that it is in doubt", theirs, wait(r.Pending, r.Status))
	}
	return nil
}

// heard holds what a writer was told against the tables, once for each pair of them.
func (m *model) heard(on, node int32) *Breach {
	if len(m.nodes[node].told) == 0 {
		return nil
	}
	key := [2]int32{on, node}
	b, met := m.hearings[key]
	if !met {
		b = m.tables.list[on].true(m.nodes[node].told)
		m.hearings[key] = b
	}
	return b
}

// true reports what is not true of what a writer was told.
func (t *tables) true(told Told) *Breach {
	for _, a := range told {
		times := 0
		if s := t.sale(a.License, a.SortKey); s != nil {
			for _, f := range s.Flushes {
				if f.Quantity == a.Quantity {
					times++
				}
			}
		}
		stands := a.Standing == Written || a.Standing == Late
		if a.Standing != Unknown && (times == 1) != stands || times > 1 {
			return breach(RuleWriter, "of %d in %s its writer was told %q, and it stands there %d times", a.Quantity, short(a.License, a.SortKey), a.Standing, times)
		}
		if a.Standing == Late && t.withinRecord(a) {
			return breach(RuleWriter, "of %d in %s its writer was told %q, and all of it is in the record", a.Quantity, short(a.License, a.SortKey), a.Standing)
		}
	}
	return nil
}

// withinRecord reports whether all that a row holds was committed.
func (t *tables) withinRecord(a Answer) bool {
	key, _ := metering.ParseRowKey(a.SortKey)
	r, s := t.record(key.Group(a.License)), t.sale(a.License, a.SortKey)
	if r == nil || s == nil {
		return false
	}
	manifest, _ := r.Covers()
	committed, _ := manifest.Quantity(key.Second)
	return s.Quantity.N <= committed
}
