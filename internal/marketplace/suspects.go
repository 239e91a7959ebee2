package marketplace

import (
	"github.com/awsmp/metering/internal/metering"
)

// maxDiverted bounds the records that are kept for the end of a run, in bytes of their calls.
const maxDiverted = 16 << 20

// suspect is what a refused record has in common with others that will be refused too: sent with innocent records, each would
// cost its call a bisection of its own.
type suspect struct {
	exception string
	value     string // the dimension, license or identifier that the exception is about
}

// suspects are what was refused in this run, and the records diverted for it.
type suspects struct {
	known    map[suspect]bool
	diverted map[suspect][]parcel
	order    []suspect // in which they were first diverted for
	size     int
}

func newSuspects() suspects {
	return suspects{known: make(map[suspect]bool), diverted: make(map[suspect][]parcel)}
}

// suspectsOf are the things that a record could be refused for together with others.
func suspectsOf(r metering.Record) [2]suspect {
	customer := suspect{metering.ExceptionLicense, r.License}
	if metering.LegacyLicense(r.License) {
		customer = suspect{metering.ExceptionIdentifier, r.CustomerIdentifier}
	}
	return [2]suspect{{metering.ExceptionDimension, r.Dimension}, customer}
}

// suspect remembers what a record was refused for, if others can share it.
func (r *run) suspect(record metering.Record, exception string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range suspectsOf(record) {
		if s.exception == exception {
			r.suspects.known[s] = true
		}
	}
}

// divert keeps a record for the end of the run if it is under suspicion, and reports whether it has taken it.
func (r *run) divert(p parcel) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range suspectsOf(p.Record) {
		if !r.suspects.known[s] {
			continue
		}
		size := p.WireSize()
		if r.suspects.size+size > maxDiverted {
			r.report.Left++
			return true
		}
		r.suspects.size += size
		if r.suspects.diverted[s] == nil {
			r.suspects.order = append(r.suspects.order, s)
		}
		r.suspects.diverted[s] = append(r.suspects.diverted[s], p)
		return true
	}
	return false
}

// unsuspected are the records of a part that have not come under suspicion while their call was taken apart. A record that
// stands alone is sent: that ends it.
func (r *run) unsuspected(b *batch, part []metering.Record) []metering.Record {
	if b.suspected || len(part) == 1 {
		return part
	}
	clear := make([]metering.Record, 0, len(part))
	for _, record := range part {
		if !r.divert(parcel{record, b.state[keyOf(record)]}) {
			clear = append(clear, record)
		}
	}
	return clear
}

// sendSuspects sends the diverted records, those of each suspect in calls of their own: what was defined or activated meanwhile
// still gets through, and what was not is told apart in one call a record.
func (r *run) sendSuspects() {
	for _, s := range r.suspects.order {
		parcels := r.suspects.diverted[s]
		states := make(map[recordKey]state, len(parcels))
		var packers [2]metering.Packer
		for _, p := range parcels {
			states[keyOf(p.Record)] = p.state
			r.dispatch(suspectedBatch(packerFor(&packers, p.Record).Add(p.Record), states))
		}
		for i := range packers {
			r.dispatch(suspectedBatch(packers[i].Flush(), states))
		}
	}
}

func suspectedBatch(records []metering.Record, states map[recordKey]state) *batch {
	b := &batch{records: records, state: make(map[recordKey]state, len(records)), suspected: true}
	for _, r := range records {
		b.state[keyOf(r)] = states[keyOf(r)]
	}
	return b
}
