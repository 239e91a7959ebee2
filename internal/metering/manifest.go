package metering

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// Manifest is what a record was summed from: the group's seconds and their quantities, in order. It is stored in the
// record and decides, second by second, what has been committed.
//
// The stored form is text that a person can read: version, count, sum, then for each row the seconds since the one
// before it and its quantity. "v1 3 15 0:5 60:4 1:6" says 14:00:00 held 5, 14:01:00 held 4 and 14:01:01 held 6.
type Manifest struct{ entries []manifestEntry }

type manifestEntry struct {
	offset   uint16 // seconds since the start of the hour
	quantity uint32
}

const manifestVersion = "v1"

// Count is the number of rows, zero rows included.
func (m Manifest) Count() int { return len(m.entries) }

// Sum is the total quantity.
func (m Manifest) Sum() int64 {
	var sum int64
	for _, e := range m.entries {
		sum += int64(e.quantity)
	}
	return sum
}

// Quantity is what the row at s was committed with, and whether it is covered.
func (m Manifest) Quantity(s Second) (int64, bool) {
	offset := uint16(s - s.Hour().Second(0))
	i := sort.Search(len(m.entries), func(i int) bool { return m.entries[i].offset >= offset })
	if i == len(m.entries) || m.entries[i].offset != offset {
		return 0, false
	}
	return int64(m.entries[i].quantity), true
}

// First is the first covered second of hour h with a quantity above 0.
func (m Manifest) First(h Hour) (Second, bool) {
	for _, e := range m.entries {
		if e.quantity > 0 {
			return h.Second(int(e.offset)), true
		}
	}
	return 0, false
}

// All calls yield for every covered second of hour h and its quantity, in order.
func (m Manifest) All(h Hour) func(yield func(Second, int64) bool) {
	return func(yield func(Second, int64) bool) {
		for _, e := range m.entries {
			if !yield(h.Second(int(e.offset)), int64(e.quantity)) {
				return
			}
		}
	}
}

// String is the stored form.
func (m Manifest) String() string {
	b := make([]byte, 0, 16+8*len(m.entries))
	b = append(b, manifestVersion...)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(m.Count()), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, m.Sum(), 10)
	var before uint16
	for _, e := range m.entries {
		b = append(b, ' ')
		b = strconv.AppendUint(b, uint64(e.offset-before), 10)
		b = append(b, ':')
		b = strconv.AppendUint(b, uint64(e.quantity), 10)
		before = e.offset
	}
	return string(b)
}

// ParseManifest reads the stored form. A manifest whose entries do not add up to what its head says is not read at all:
// a wrong manifest would label billed usage as late.
func ParseManifest(s string) (Manifest, error) {
	version, rest, _ := strings.Cut(s, " ")
	if version != manifestVersion {
		return Manifest{}, fmt.Errorf("read manifest: version %q is not %s", version, manifestVersion)
	}
	fields := strings.Fields(rest)
	if len(fields) < 2 || len(fields) > 2+secondsPerHour {
		return Manifest{}, fmt.Errorf("read manifest: %d fields", len(fields))
	}
	m := Manifest{entries: make([]manifestEntry, 0, len(fields)-2)}
	offset := int64(-1)
	for _, f := range fields[2:] {
		delta, quantity, ok := strings.Cut(f, ":")
		d, err1 := strconv.ParseUint(delta, 10, 16)
		q, err2 := strconv.ParseUint(quantity, 10, 31)
		if !ok || err1 != nil || err2 != nil || offset >= 0 && d == 0 {
			return Manifest{}, fmt.Errorf("read manifest: entry %q", f)
		}
		offset = max(offset, 0) + int64(d)
		if offset >= secondsPerHour {
			return Manifest{}, fmt.Errorf("read manifest: entry %q lies outside the hour", f)
		}
		m.entries = append(m.entries, manifestEntry{offset: uint16(offset), quantity: uint32(q)})
	}
	if fields[0] != strconv.Itoa(m.Count()) || fields[1] != strconv.FormatInt(m.Sum(), 10) {
		return Manifest{}, fmt.Errorf("read manifest: %d rows with %d units, its head says %s with %s", m.Count(), m.Sum(), fields[0], fields[1])
	}
	return m, nil
}
