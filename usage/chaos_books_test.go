package usage_test

import (
	"errors"

	"github.com/awsmp/metering/internal/ledger"
	"github.com/awsmp/metering/internal/metering"
	"github.com/awsmp/metering/usage"
)

// audit compares the tables with what everybody was told.
func (w *world) audit() []string {
	a := &auditor{world: w, told: map[string]error{}, due: map[string]int64{}, late: map[string]bool{}}
	a.events()
	a.lists()
	a.leftovers()
	a.rows()
	a.ledger()
	return w.wrong
}

type auditor struct {
	*world
	told map[string]error // by token of an Add: what its outcome was
	due  map[string]int64 // by row: what it must hold
	late map[string]bool  // rows of which someone was told that they are late
}

// stands reports whether an answer says that the usage is in its row.
func stands(err error) bool { return err == nil || errors.Is(err, usage.ErrLate) }

func rowKey(r usage.Row) string {
	g := metering.Group{License: r.License, Account: r.Account, Dimension: r.Dimension}
	return g.RowKey(metering.Second(r.Time.Unix()))
}

// events: whoever lives has heard of all that it added, once, and nothing that came after the commit was written.
func (a *auditor) events() {
	for _, p := range a.processes {
		heard, refused := map[string]int64{}, map[string]int64{}
		for _, o := range p.outcomes {
			key := rowKey(o.Row)
			if _, twice := a.told[o.Token]; twice {
				a.find("process %d was told twice of token %s", p.number, o.Token)
			}
			a.told[o.Token] = o.Err
			heard[key] += o.Quantity
			switch {
			case stands(o.Err):
				a.due[key] += o.Quantity
				a.late[key] = a.late[key] || o.Err != nil
			case errors.Is(o.Err, usage.ErrHourCommitted):
				refused[key] += o.Quantity
			default:
				a.find("row %s of process %d: %v", key, p.number, o.Err)
			}
		}
		for key, accepted := range p.accepted {
			if p.finished && heard[key] != accepted || heard[key] > accepted {
				a.find("row %s: process %d added %d and was told of %d", key, p.number, accepted, heard[key])
			}
			if p.finished && refused[key] < p.afterCommit[key] {
				a.find("row %s: process %d added %d after the commit, and %d were refused for it", key, p.number, p.afterCommit[key], refused[key])
			}
		}
	}
}

// lists: every batch has one answer, and one that began after the commit was not written.
func (a *auditor) lists() {
	for _, b := range a.batches {
		for i, e := range b.events {
			err := b.heard[i]
			switch {
			case stands(err):
				a.due[keyOf(e)] += e.Quantity
				a.late[keyOf(e)] = a.late[keyOf(e)] || err != nil
				if b.tooLate[groupOf(e)] {
					a.find("%s came after the commit and was answered %v", b.id, err)
				}
			case !errors.Is(err, usage.ErrHourCommitted):
				a.find("%s, event %d: %v", b.id, i, err)
			}
		}
	}
}

// leftovers are what killed processes wrote and never heard of: nobody else can have told of them.
func (a *auditor) leftovers() {
	for key, list := range a.applied {
		for _, f := range list {
			answer, told := a.told[f.token]
			switch {
			case told && !stands(answer):
				a.find("row %s: token %s is in it, and was answered %v", key, f.token, answer)
			case !told && f.by == f.by.process.eventLine && f.by.process.isDead():
				a.due[key] += f.quantity
			}
		}
	}
}

// rows: each holds what is due, and who was told "written" or "late" was told the truth.
func (a *auditor) rows() {
	for n := range places {
		e := place(n, 1)
		key, g := keyOf(e), groupOf(e)
		row, err := a.store.Row(a.t.Context(), license, key)
		record, err2 := a.store.Record(a.t.Context(), g)
		if err := errors.Join(err, err2); err != nil {
			a.find("%v", err)
			continue
		}
		if row == nil {
			row = &metering.Row{Quantity: metering.Units(0)}
		}
		if row.Quantity != metering.Units(a.due[key]) {
			a.find("row %s holds %d, and %d are due", key, row.Quantity.N, a.due[key])
		}
		if a.late[key] && (row.Status != metering.LateUsage || row.LateQuantity.N == 0) {
			a.find("row %s: late was said, and it is %s with %d late", key, row.Status, row.LateQuantity.N)
		}
		if record == nil {
			continue
		}
		manifest, err := record.Covers()
		if err != nil {
			a.find("%v", err)
		}
		second, _ := g.Contains(key)
		covered, _ := manifest.Quantity(second)
		for _, f := range a.applied[key] {
			covered -= f.quantity
			if answer, told := a.told[f.token]; told && covered < 0 && f.quantity > 0 && answer == nil && f.at > a.commits[g] {
				a.find("row %s: token %s came after the commit, and written was said", key, f.token)
			}
		}
	}
}

// ledger: what the rows hold is billed or late, and the books balance.
func (a *auditor) ledger() {
	for g := range a.commits {
		r, err := a.store.Record(a.t.Context(), g)
		if err != nil || r == nil {
			a.find("no record of %v: %v", g, err)
			continue
		}
		verdict := metering.Finish{License: r.License, SortKey: r.SortKey, Quantity: r.Quantity, Status: metering.Success, At: noon}
		if out, err := a.store.FinishRecord(a.t.Context(), verdict); err != nil || !out.Done {
			a.find("bill %v: %v", g, err)
		}
	}
	report, err := ledger.Compute(a.t.Context(), a.store, ledger.Scope{})
	if err != nil || !report.Balanced() {
		a.find("the ledger does not balance: %v, %+v", err, report.Imbalances)
	}
	var rows int64
	for n := range places {
		rows += a.due[keyOf(place(n, 1))]
	}
	billed, late := report.Total.Place(ledger.Billed).Units, report.Total.Place(ledger.Late).Units
	if billed+late != rows {
		a.find("%d billed and %d late are not the %d that are due", billed, late, rows)
	}
	for key := range a.late {
		if k, _ := metering.ParseRowKey(key); a.late[key] {
			if b, err := ledger.Read(a.t.Context(), a.store, k.Group(license)); err != nil || b.Place(ledger.Late).Units == 0 {
				a.find("row %s: late was said, and the ledger knows of nothing late: %v", key, err)
			}
		}
	}
}
