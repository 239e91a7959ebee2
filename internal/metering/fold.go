package metering

import "time"

// maxStored is how large a record may become in the store: DynamoDB's 400 KB less 4 KB of headroom for what the submitter
// adds to it (DynamoDB developer guide, quotas).
const maxStored = 400*1024 - 4*1024

// Fold sums a group's rows into its record, one row at a time. It holds some sixty bytes a row and one entry for
// each combination of tags, never the rows themselves.
type Fold struct {
	group Group
	now   time.Time

	rows        []foldedRow
	reason      Reason
	sum         int64
	pending     int
	identifier  string
	allocated   bool
	unallocated bool
	merger      merger
}

type foldedRow struct {
	second      Second
	quantity    Quantity
	pending     bool
	fingerprint fingerprint // of pending rows only: the ones a rejection would label
}

// NewFold begins the fold of a group as seen at now.
func NewFold(g Group, now time.Time) *Fold { return &Fold{group: g, now: now} }

// Add takes a row in. Rows that take no part are passed over: those whose key names another group, those dropped by an
// operator, and those that have already ended other than by rejection. Rejected rows take part again, so that a mended
// row brings its whole hour back and a rejection that stopped half way cannot leave a partial sum (F8, F9).
func (f *Fold) Add(r Row) {
	second, ours := f.group.Contains(r.SortKey)
	if !ours || r.Dropped || r.Pending == "" && r.Status != RejectedClientSide {
		return
	}
	row := foldedRow{second: second, quantity: r.Quantity}
	if r.Pending != "" {
		f.pending++
		row.pending, row.fingerprint = true, *r.fingerprint()
	}
	f.rows = append(f.rows, row)
	f.refuse(r.Validate(f.now))
	if f.reason != "" {
		return
	}
	if len(f.rows) == 1 {
		f.identifier = r.CustomerIdentifier
	} else if f.identifier != r.CustomerIdentifier {
		f.refuse(ConflictingIdentifier)
	}
	f.sum += r.Quantity.N
	if f.sum > MaxQuantity {
		f.refuse(QuantityOutOfRange)
	}
	if r.Quantity.N == 0 {
		return // a zero row is neither tagged nor untagged
	}
	list := r.Allocated()
	f.allocated = f.allocated || len(list) > 0
	f.unallocated = f.unallocated || len(list) == 0
	if f.allocated && f.unallocated {
		f.refuse(MixedAllocatedAndUnallocated)
	}
	f.merger.add(list)
	if len(f.merger.sets) > maxAllocations {
		f.refuse(TooManyAllocations)
	}
}

// refuse keeps the first reason.
func (f *Fold) refuse(reason Reason) {
	if f.reason == "" {
		f.reason = reason
	}
}

// Pending is how many rows wait. A group with none has nothing to do.
func (f *Fold) Pending() int { return f.pending }

// Record is the group's record, or the reason for which the whole group is refused.
func (f *Fold) Record() (Record, Reason) {
	if f.reason != "" {
		return Record{}, f.reason
	}
	rec := NewRecord(f.group, f.sum)
	rec.Allocations, rec.CustomerIdentifier, rec.Manifest = f.merger.list(), f.identifier, f.Manifest().String()
	if rec.storedSize() > maxStored || callEnvelope+rec.Usage().wireSize() >= maxCallBytes {
		return Record{}, RecordTooLarge
	}
	return rec, ""
}

// Manifest is what the sum was taken from; it is meaningful only where Record gives no reason.
func (f *Fold) Manifest() Manifest {
	m := Manifest{entries: make([]manifestEntry, len(f.rows))}
	start := f.group.Hour.Second(0)
	for i, r := range f.rows { // the store reads in the order of the key, so in the order of the seconds
		m.entries[i] = manifestEntry{offset: uint16(r.second - start), quantity: uint32(r.quantity.N)}
	}
	return m
}

// Rejections are the waiting rows, for labels that end them.
func (f *Fold) Rejections() []CleanupRow {
	rows := make([]CleanupRow, 0, f.pending)
	for _, r := range f.rows {
		if r.pending {
			rows = append(rows, CleanupRow{Key: f.group.RowKey(r.second), Quantity: r.quantity.pointer(), Fingerprint: r.fingerprint.String()})
		}
	}
	return rows
}

func (q Quantity) pointer() *int64 {
	if !q.Whole {
		return nil
	}
	return &q.N
}

// storedSize is the size of the record as DynamoDB counts it: names and text in bytes, a number its digits by two, a list
// or map three bytes and one an element (DynamoDB developer guide, item sizes and formats).
func (r Record) storedSize() int {
	size := 0
	text := func(name, s string) {
		if s != "" {
			size += len(name) + len(s)
		}
	}
	text(AttrLicense, r.License)
	text(AttrRecordKey, r.SortKey)
	text(AttrAccount, r.Account)
	text(AttrDimension, r.Dimension)
	text(AttrHour, r.HourBucket)
	text(AttrCustomerIdentifier, r.CustomerIdentifier)
	text(AttrManifest, r.Manifest)
	text(AttrPending, r.Pending)
	size += len(AttrQuantity) + storedNumber(r.Quantity.N)
	if len(r.Allocations) > 0 {
		size += len(AttrAllocations) + 3
	}
	for _, a := range r.Allocations {
		size += 1 + 3 + 2 + len(attrAllocated) + storedNumber(a.Quantity) + len(attrTags) + 3
		for _, t := range a.Tags {
			size += 1 + 3 + 2 + len(attrKey) + len(t.Key) + len(attrValue) + len(t.Value)
		}
	}
	return size
}

func storedNumber(n int64) int {
	digits := 1
	for ; n >= 10; n /= 10 {
		digits++
	}
	return (digits+1)/2 + 1
}
