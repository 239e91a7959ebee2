package metering

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// MaxFlushes is how many flushes one row takes: each leaves a token in it, and a row is read whole whenever its hour is.
const MaxFlushes = 100

// Flush is one addition to a usage row, applied at most once however often it is sent: the row remembers its token. The store
// applies it in one conditional write.
type Flush struct {
	Group              Group
	Second             Second
	Quantity           int64
	Allocations        []Allocation // of the quantity; none where the usage is untagged
	CustomerIdentifier string       // of products of the old kind
	Token              string
	At                 time.Time // becomes updatedAt, and createdAt where there is none
}

// NewFlush is a flush of quantity into the row at s of a license, account and dimension.
func NewFlush(g Group, s Second, quantity int64, token string) Flush {
	g.Hour = s.Hour()
	return Flush{Group: g, Second: s, Quantity: quantity, Token: token}
}

// SortKey is the row's sort key.
func (f Flush) SortKey() string { return f.Group.RowKey(f.Second) }

// Flushed is what became of a flush: Row is the row as it stands, with the flush in it where Done, and otherwise as what stood
// against it.
type Flushed struct {
	Done bool // applied, now or by an earlier try
	Row  *Row
	Err  error // the write failed, or its answer was lost: whether it was applied is unknown until it is sent again
}

// What stands against a flush for as long as the row is as it is. Nothing was written.
var (
	ErrMixedAllocations = errors.New("the row holds usage with allocations and usage without cannot join it, or the other way round")
	ErrNoNumber         = errors.New("the row holds a quantity that is no whole number, so nothing can be added to it")
	ErrRowFull          = fmt.Errorf("the row has taken %d flushes, the most that one row takes", MaxFlushes)
	ErrRowQuantity      = fmt.Errorf("the row's quantity would exceed %d", MaxQuantity)
	ErrRowIdentifier    = errors.New("the row is of another customer: its customerIdentifier differs")
	ErrRowDropped       = errors.New("the row was dropped by an operator, so nothing that is added to it would ever be billed")
	ErrRowAllocations   = fmt.Errorf("the row would hold more than %d allocations", maxAllocations)
)

// Shows reports whether the row has taken the flush already: a write whose answer was lost.
func (f Flush) Shows(r Row) bool { return slices.Contains(r.Flushes, f.Token) }

// Refused is what stands against the flush, nil where nothing does; old is the row, nil where there is none yet. Ask Shows first.
func (f Flush) Refused(old *Row) error {
	if f.Quantity < 0 || f.Quantity > MaxQuantity {
		return ErrRowQuantity
	}
	if old == nil {
		return nil
	}
	_, noNumber := old.Other[AttrQuantity]
	_, odd := old.Other[AttrAllocations]
	_, oddIdentifier := old.Other[AttrCustomerIdentifier]
	tagged := odd || len(old.Allocations) > 0
	switch held := old.Quantity; {
	case old.Dropped:
		return ErrRowDropped
	case oddIdentifier, old.CustomerIdentifier != f.CustomerIdentifier:
		return ErrRowIdentifier
	case noNumber, held.N < 0:
		return ErrNoNumber
	case len(old.Flushes) >= MaxFlushes:
		return ErrRowFull
	case held.N+f.Quantity > MaxQuantity:
		return ErrRowQuantity
	case len(old.Allocations)+len(f.Allocations) > maxAllocations:
		return ErrRowAllocations // they are added as they come, and merged only when the hour is summed
	case odd, f.Quantity > 0 && held.N > 0 && tagged != (len(f.Allocations) > 0):
		return ErrMixedAllocations
	}
	return nil
}

// Apply is the row after the flush: its quantity and allocations grown, the token in it, and its marker set again, so that what
// was added after its hour was committed is found.
func (f Flush) Apply(old *Row) Row {
	r := NewRow(f.Group, f.Second, f.Quantity)
	if old != nil {
		held := *old
		held.Account, held.Dimension, held.Timestamp, held.Pending = r.Account, r.Dimension, r.Timestamp, r.Pending
		held.Quantity = Units(old.Quantity.N + f.Quantity)
		r = held
	}
	r.CustomerIdentifier = f.CustomerIdentifier   // the row's own, or it would have been refused
	if f.Quantity > 0 && len(f.Allocations) > 0 { // a row of nothing is neither tagged nor untagged
		r.Allocations = slices.Concat(r.Allocations, f.Allocations)
	}
	r.Flushes = append(slices.Clip(r.Flushes), f.Token)
	r.CreatedAt, r.UpdatedAt = stamp(r.CreatedAt, f.At)
	if r.Other != nil { // what is set takes the place of an attribute of the wrong type
		r = RowFromItem(r.Item())
	}
	return r
}

// MergeAllocations adds up allocations of the same combination of tags, whatever the order in which they are named.
func MergeAllocations(lists ...[]Allocation) []Allocation {
	var m merger
	for _, list := range lists {
		m.add(list)
	}
	return m.list()
}
