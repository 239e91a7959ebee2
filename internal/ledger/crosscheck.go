package ledger

import (
	"fmt"
	"sort"

	"github.com/awsmp/metering/internal/metering"
)

// Sold is a line of the Marketplace's own ledger: what it billed under one identity.
type Sold struct {
	metering.Identity
	Quantity int64
}

// entry is what our books say of an identity.
type entry struct {
	billed     int64
	uncertain  bool // sent and not answered: it may be billed or not
	duplicate  int64
	hasRefusal bool
}

// note keeps what the Marketplace should know of a group's record.
func (r *Report) note(b Balance) {
	if b.record == nil {
		return
	}
	rec := *b.record
	if _, reason := rec.Group(); reason != "" {
		return
	}
	id := rec.Usage().Identity()
	e := r.sold[id]
	if billed, ok := billedOf(rec); ok {
		e.billed += billed
	} else {
		e.uncertain = e.uncertain || rec.SentQuantity.Whole && (rec.Pending != "" || rec.Status == metering.SubmissionExpired)
		if rec.Status == metering.DuplicateRecord {
			e.hasRefusal, e.duplicate = true, e.duplicate+rec.Quantity.N
		}
	}
	r.sold[id] = e
}

// Difference is a disagreement between our books and the Marketplace's.
type Difference struct {
	metering.Identity
	Ours, Theirs int64
	Note         string
}

// CrossCheck is the comparison of a ledger with the Marketplace's own.
type CrossCheck struct {
	Ours, Theirs int64 // units billed by either
	Differences  []Difference
	// Explained are lines that differ for a reason that our books name: calls without an answer, and hours whose first
	// quantity stands against ours.
	Explained []Difference
}

// Equal reports whether nothing differs without a name.
func (c CrossCheck) Equal() bool { return len(c.Differences) == 0 }

// Against compares the ledger with every line that the Marketplace billed.
func (r Report) Against(sold []Sold) CrossCheck {
	var c CrossCheck
	theirs := make(map[metering.Identity]int64, len(sold))
	for _, s := range sold {
		theirs[s.Identity] += s.Quantity
		c.Theirs += s.Quantity
	}
	for id, e := range r.sold {
		c.Ours += e.billed
		their := theirs[id]
		delete(theirs, id)
		if their == e.billed {
			continue
		}
		d := Difference{Identity: id, Ours: e.billed, Theirs: their}
		switch {
		case e.billed == 0 && e.uncertain:
			d.Note = "sent, and the answer never came"
			c.Explained = append(c.Explained, d)
		case e.billed == 0 && e.hasRefusal && their > 0:
			d.Note = fmt.Sprintf("an earlier quantity of %d owns the hour; short by %d", their, e.duplicate-their)
			c.Explained = append(c.Explained, d)
		default:
			d.Note = "our books and the Marketplace's disagree"
			c.Differences = append(c.Differences, d)
		}
	}
	for id, their := range theirs {
		if their != 0 {
			c.Differences = append(c.Differences, Difference{Identity: id, Theirs: their, Note: "billed, and our tables hold no record of it"})
		}
	}
	order(c.Differences)
	order(c.Explained)
	return c
}

func order(list []Difference) {
	key := func(d Difference) string {
		return d.Customer + "\x00" + d.Account + "\x00" + d.Dimension + "\x00" + d.Hour.String()
	}
	sort.Slice(list, func(i, j int) bool { return key(list[i]) < key(list[j]) })
}
